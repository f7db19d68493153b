//! TLS on both sides: version 1.3 only, with the cryptography of the S3 listener.
//!
//! - No session is resumed: a certificate that is revoked or replaced is shown again on each connection, and early data,
//!   which could be replayed, does not exist.
//! - A node trusts a configured authority, or (with an access key) a server that proves knowledge of the key's secret.
//!   The proof is bound to the connection, so it also reveals a man in the middle, without a certificate.
//! - The certificate of a server is replaced while it runs; open connections keep the old one.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use objstore_base::certificate;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::client::{Resumption, WebPkiServerVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::rustls::{
    self, AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig,
    SignatureScheme, version::TLS13,
};
use tokio_rustls::{TlsAcceptor, TlsConnector, client, server};

use crate::credential::Binding;

/// A name in each certificate that the authority of a store issues for its listener: a node that has that authority accepts
/// it in place of the host, because the authority issues certificates for nothing else. So a store may have any address.
pub const STORE_NAME: &str = "store.amphora.internal";

/// The name of the protocol in the TLS handshake (ALPN), so that no other protocol can be confused with this one.
const ALPN: &[u8] = b"amphora-volume";
/// The label of the exported keying material.
const EXPORTED: &[u8] = b"EXPORTER-amphora-volume";

/// A certificate chain and its key, both in PEM.
#[derive(Clone, Copy)]
pub struct Pair<'a> {
    /// The chain, the own certificate first.
    pub chain_pem: &'a [u8],
    /// The private key.
    pub key_pem: &'a [u8],
}

impl fmt::Debug for Pair<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pair")
    }
}

/// How a node knows the server.
#[derive(Clone, Copy, Debug)]
pub enum Trust<'a> {
    /// By a certificate that one of these authorities (PEM) signed.
    Authority(&'a [u8]),
    /// By its proof that it knows the secret of the node's access key; any certificate is accepted. Only for
    /// [`Credential::AccessKey`](crate::credential::Credential::AccessKey).
    AccessKey,
}

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No certificate in the PEM.
    #[error("{0} holds no certificate in PEM (BEGIN CERTIFICATE)")]
    NoCertificate(&'static str),
    /// No key in the PEM.
    #[error("{0} holds no private key in PEM, or an encrypted one")]
    NoKey(&'static str),
    /// Certificate and key do not belong together.
    #[error("the key does not belong to the first certificate of the chain: give the files of one pair")]
    Mismatch,
    /// Rustls does not accept them.
    #[error("the certificate, its key or its authority cannot be used")]
    Unusable(#[source] rustls::Error),
    /// The server is not named as it has to be.
    #[error("the server \"{0}\" is not valid: use HOST:PORT")]
    Server(String),
    /// The authority for nodes is unusable.
    #[error("the authority for the certificates of nodes cannot be used")]
    Authority(#[source] rustls::server::VerifierBuilderError),
}

/// The server's side: a cheap handle.
#[derive(Clone)]
pub struct Acceptor {
    current: Arc<RwLock<Current>>,
}

/// What new connections use.
struct Current {
    acceptor: TlsAcceptor,
    expiry: Option<i64>,
}

impl Acceptor {
    /// Accepts connections with this certificate. With `nodes`, an authority (PEM) for certificates of nodes, each node has
    /// to show one: without, the connection ends with its TLS handshake, before anything of a frame is read.
    ///
    /// # Errors
    /// [`Error`].
    pub fn new(pair: Pair<'_>, nodes: Option<&[u8]>) -> Result<Self, Error> {
        Ok(Self { current: Arc::new(RwLock::new(current(pair, nodes)?)) })
    }

    /// Uses another certificate for the connections from now on.
    ///
    /// # Errors
    /// [`Error`]; the certificate in use stays.
    pub fn replace(&self, pair: Pair<'_>, nodes: Option<&[u8]>) -> Result<(), Error> {
        let next = current(pair, nodes)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = next;
        Ok(())
    }

    /// The expiry of the certificate in use, in seconds since 1970; `None` if it has none. Nodes refuse the server from then
    /// on, so it belongs into the log and the metrics.
    pub fn expiry(&self) -> Option<i64> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).expiry
    }

    /// The TLS handshake of a connection: the stream, its binding, and the node's certificate if it shows one.
    pub(crate) async fn accept(&self, socket: TcpStream) -> io::Result<Accepted> {
        let acceptor = self.current.read().unwrap_or_else(PoisonError::into_inner).acceptor.clone();
        let stream = match acceptor.accept(socket).into_fallible().await {
            Ok(stream) => stream,
            Err((error, socket)) => {
                hang_up(socket).await;
                return Err(error);
            }
        };
        let (_, connection) = stream.get_ref();
        let binding = binding(|material| connection.export_keying_material(material, EXPORTED, None))?;
        let certificate = connection.peer_certificates().and_then(<[_]>::first);
        let certificate = certificate.map(|certificate| Bytes::copy_from_slice(certificate));
        Ok(Accepted { stream, binding, certificate })
    }
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Acceptor")
    }
}

/// How much is read, and for how long, of a connection whose handshake failed.
const LEFT: (u64, Duration) = (64 << 10, Duration::from_secs(1));

/// Closes a connection so that the peer can read why: a node has finished its handshake by the time its certificate is
/// refused, and has sent more. A close with unread bytes would discard the alert on its way.
async fn hang_up(mut socket: TcpStream) {
    let read = async {
        // The peer may be away already.
        let _ = socket.shutdown().await;
        let _ = tokio::io::copy(&mut socket.take(LEFT.0), &mut tokio::io::sink()).await;
    };
    let _ = tokio::time::timeout(LEFT.1, read).await;
}

/// A connection after its TLS handshake.
pub(crate) struct Accepted {
    pub(crate) stream: server::TlsStream<TcpStream>,
    pub(crate) binding: Binding,
    pub(crate) certificate: Option<Bytes>,
}

fn current(pair: Pair<'_>, nodes: Option<&[u8]>) -> Result<Current, Error> {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&TLS13])
        .map_err(Error::Unusable)?;
    let builder = match nodes {
        None => builder.with_no_client_auth(),
        Some(nodes) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(nodes)?), provider);
            builder.with_client_cert_verifier(verifier.build().map_err(Error::Authority)?)
        }
    };
    let (chain, key) = parse(pair)?;
    let expiry = chain.first().and_then(|own| certificate::expiry(own));
    let mut config = builder.with_single_cert(chain, key).map_err(unusable)?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Current { acceptor: TlsAcceptor::from(Arc::new(config)), expiry })
}

fn unusable(error: rustls::Error) -> Error {
    match error {
        rustls::Error::InconsistentKeys(_) => Error::Mismatch,
        error => Error::Unusable(error),
    }
}

/// What is wrong with a certificate, if that is why a connection failed, and what to do.
pub(crate) fn certificate_fault(error: &io::Error) -> Option<String> {
    match error.get_ref()?.downcast_ref::<rustls::Error>()? {
        rustls::Error::InvalidCertificate(fault) => Some(server_fault(fault)),
        rustls::Error::AlertReceived(alert) => own_fault(*alert).map(str::to_owned),
        _ => None,
    }
}

/// What is wrong with the node's own certificate, as the server's alert says (RFC 8446, section 6.2).
fn own_fault(alert: AlertDescription) -> Option<&'static str> {
    match alert {
        AlertDescription::CertificateRequired => Some(
            "the store asks for a certificate of this node: give it one of the store's authority for nodes with --cert and \
             --key",
        ),
        AlertDescription::CertificateExpired => {
            Some("the certificate of this node has expired or is not valid yet: renew it, or correct the clock")
        }
        AlertDescription::UnknownCA | AlertDescription::DecryptError => Some(
            "the certificate of this node is not of the authority that the store has for nodes: give it one of that authority",
        ),
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateRevoked
        | AlertDescription::CertificateUnknown
        | AlertDescription::AccessDenied => Some(
            "the store does not accept the certificate of this node: give it one for client authentication, of the store's \
             authority for nodes",
        ),
        _ => None,
    }
}

/// What is wrong with the server's certificate.
fn server_fault(fault: &CertificateError) -> String {
    match fault {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the certificate of the server has expired: renew it there, or correct the clock of this machine".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the certificate of the server is not valid yet: correct the clock of this machine or of the server"
                .to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "the certificate of the server does not have the name by which it is reached: use a name that it has"
                .to_owned()
        }
        // An authority of the same name, such as that of an earlier store, has another key.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "the certificate of the server is not of the given authority: give the authority's file of this store"
                .to_owned()
        }
        fault => format!("the certificate of the server cannot be verified: {fault}"),
    }
}

/// The node's side: a cheap handle.
#[derive(Clone)]
pub struct Connector {
    config: TlsConnector,
    name: ServerName<'static>,
    trusts_any_certificate: bool,
}

impl Connector {
    /// Connects to the server of this name or address. A node with a certificate shows it.
    ///
    /// # Errors
    /// [`Error`].
    pub fn new(name: ServerName<'static>, trust: Trust<'_>, own: Option<Pair<'_>>) -> Result<Self, Error> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(Error::Unusable)?;
        let builder = match trust {
            Trust::Authority(pem) => {
                let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots(pem)?), provider);
                let by_name = verifier.build().map_err(Error::Authority)?;
                builder.dangerous().with_custom_certificate_verifier(Arc::new(HostOrStore(by_name)))
            }
            Trust::AccessKey => builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyServer(provider))),
        };
        let mut config = match own {
            None => builder.with_no_client_auth(),
            Some(pair) => {
                let (chain, key) = parse(pair)?;
                builder.with_client_auth_cert(chain, key).map_err(unusable)?
            }
        };
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.resumption = Resumption::disabled();
        let trusts_any_certificate = matches!(trust, Trust::AccessKey);
        Ok(Self { config: TlsConnector::from(Arc::new(config)), name, trusts_any_certificate })
    }

    /// Whether only a proof unmasks an impostor.
    pub(crate) fn trusts_any_certificate(&self) -> bool {
        self.trusts_any_certificate
    }

    /// Connects and performs the TLS handshake.
    pub(crate) async fn connect(&self, server: SocketAddr) -> io::Result<(client::TlsStream<TcpStream>, Binding)> {
        let socket = TcpStream::connect(server).await?;
        socket.set_nodelay(true)?;
        let stream = self.config.connect(self.name.clone(), socket).await?;
        let (_, connection) = stream.get_ref();
        let binding = binding(|material| connection.export_keying_material(material, EXPORTED, None))?;
        Ok((stream, binding))
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The host in `HOST:PORT`; an IPv6 address is in brackets.
pub(crate) fn host(server: &str) -> Result<ServerName<'static>, Error> {
    let wrong = || Error::Server(server.to_owned());
    let (host, port) = server.rsplit_once(':').ok_or_else(wrong)?;
    if port.parse::<u16>().map_or(true, |port| port == 0) {
        return Err(wrong());
    }
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    ServerName::try_from(host.to_owned()).map_err(|_| wrong())
}

fn binding(export: impl FnOnce([u8; 32]) -> Result<[u8; 32], rustls::Error>) -> io::Result<Binding> {
    export([0; 32]).map(Binding::new).map_err(io::Error::other)
}

fn roots(pem: &[u8]) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem, "the file of the authority")? {
        roots.add(certificate).map_err(Error::Unusable)?;
    }
    Ok(roots)
}

fn parse(pair: Pair<'_>) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), Error> {
    let chain = certificates(pair.chain_pem, "the certificate file")?;
    let key = PrivateKeyDer::from_pem_slice(pair.key_pem).map_err(|_| Error::NoKey("the key file"))?;
    Ok((chain, key))
}

fn certificates(pem: &[u8], file: &'static str) -> Result<Vec<CertificateDer<'static>>, Error> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    read.ok().filter(|chain| !chain.is_empty()).ok_or(Error::NoCertificate(file))
}

/// Accepts a certificate for the host, or for [`STORE_NAME`].
#[derive(Debug)]
struct HostOrStore(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for HostOrStore {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verify =
            |name: &ServerName<'_>| self.0.verify_server_cert(end_entity, intermediates, name, ocsp_response, now);
        verify(name).or_else(|refused| {
            let store = ServerName::try_from(STORE_NAME).map_err(|_| refused.clone())?;
            verify(&store).map_err(|_| refused)
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// Accepts any certificate whose key signs the handshake: the peer is known by its proof instead.
#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.2 is not offered".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
