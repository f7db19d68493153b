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

use bytes::Bytes;
use tokio::net::TcpStream;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::client::{Resumption, WebPkiServerVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use tokio_rustls::rustls::{
    self, ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme, version::TLS13,
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
    current: Arc<RwLock<TlsAcceptor>>,
}

impl Acceptor {
    /// Accepts connections with this certificate. With `nodes`, an authority (PEM) for certificates of nodes, a node may
    /// show one; it may also show none and be admitted by another credential.
    ///
    /// # Errors
    /// [`Error`].
    pub fn new(pair: Pair<'_>, nodes: Option<&[u8]>) -> Result<Self, Error> {
        Ok(Self { current: Arc::new(RwLock::new(acceptor(pair, nodes)?)) })
    }

    /// Uses another certificate for the connections from now on.
    ///
    /// # Errors
    /// [`Error`]; the certificate in use stays.
    pub fn replace(&self, pair: Pair<'_>, nodes: Option<&[u8]>) -> Result<(), Error> {
        let next = acceptor(pair, nodes)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = next;
        Ok(())
    }

    /// The TLS handshake of a connection: the stream, its binding, and the node's certificate if it shows one.
    pub(crate) async fn accept(&self, socket: TcpStream) -> io::Result<Accepted> {
        let acceptor = self.current.read().unwrap_or_else(PoisonError::into_inner).clone();
        let stream = acceptor.accept(socket).await?;
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

/// A connection after its TLS handshake.
pub(crate) struct Accepted {
    pub(crate) stream: server::TlsStream<TcpStream>,
    pub(crate) binding: Binding,
    pub(crate) certificate: Option<Bytes>,
}

fn acceptor(pair: Pair<'_>, nodes: Option<&[u8]>) -> Result<TlsAcceptor, Error> {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&TLS13])
        .map_err(Error::Unusable)?;
    let builder = match nodes {
        None => builder.with_no_client_auth(),
        Some(nodes) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(nodes)?), provider);
            builder.with_client_cert_verifier(verifier.allow_unauthenticated().build().map_err(Error::Authority)?)
        }
    };
    let (chain, key) = parse(pair)?;
    let mut config = builder.with_single_cert(chain, key).map_err(Error::Unusable)?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(TlsAcceptor::from(Arc::new(config)))
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
                builder.with_client_auth_cert(chain, key).map_err(Error::Unusable)?
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
