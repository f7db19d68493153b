//! One GET over HTTPS, bounded in time and size.
//!
//! - TLS 1.2 or 1.3, with the certificates of a file or of the system. Without them nothing is fetched.
//! - Only status 200 counts: no redirect is followed, so a server cannot send us elsewhere.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, HOST, USER_AGENT};
use http::{Request, StatusCode, Uri};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};

use crate::file::read_file;

/// How long a fetch may take in all.
pub(crate) const FETCH_LIMIT: Duration = Duration::from_secs(5);
/// The media types of the two documents: a key set has its own (RFC 7517, section 8.5), and a server may offer that alone, as
/// the API server of Kubernetes does.
const MEDIA_TYPES: &str = "application/jwk-set+json, application/json, */*;q=0.1";
/// The most bytes of a file of certificates.
const AUTHORITY_BYTES_MAX: u64 = 1024 * 1024;

/// The body of the document at an address.
pub(crate) async fn get(
    uri: &Uri,
    authority: Option<PathBuf>,
    bearer: Option<&str>,
    most: usize,
) -> Result<Vec<u8>, String> {
    let fetched = tokio::time::timeout(FETCH_LIMIT, get_unbounded(uri, authority, bearer, most)).await;
    fetched.unwrap_or_else(|_| Err(format!("no complete answer within {} seconds", FETCH_LIMIT.as_secs())))
}

async fn get_unbounded(
    uri: &Uri,
    authority: Option<PathBuf>,
    bearer: Option<&str>,
    most: usize,
) -> Result<Vec<u8>, String> {
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
    let name = ServerName::try_from(host.clone()).map_err(|error| error.to_string())?;
    let connector = TlsConnector::from(Arc::new(config(authority).await?));
    let socket = TcpStream::connect((host.as_str(), uri.port_u16().unwrap_or(443)));
    let socket = socket.await.map_err(|error| format!("no connection: {error}"))?;
    let stream = connector.connect(name, socket).await.map_err(|error| format!("no TLS connection: {error}"))?;
    let shaken = hyper::client::conn::http1::Builder::new().max_buf_size(64 * 1024).handshake(TokioIo::new(stream));
    let (mut sender, connection) = shaken.await.map_err(|error| error.to_string())?;
    let running = AbortOnDrop(tokio::spawn(connection));
    let response = sender.send_request(request(uri, bearer)?).await.map_err(|error| error.to_string())?;
    if response.status() != StatusCode::OK {
        return Err(format!("the answer has status {}", response.status().as_u16()));
    }
    let body = read(response.into_body(), most).await;
    drop(running);
    body
}

fn request(uri: &Uri, bearer: Option<&str>) -> Result<Request<NoBody>, String> {
    let path = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let host = uri.authority().map(http::uri::Authority::as_str).unwrap_or_default();
    let mut request = Request::get(path)
        .header(HOST, host)
        .header(ACCEPT, MEDIA_TYPES)
        .header(USER_AGENT, concat!("amphora/", env!("CARGO_PKG_VERSION")));
    if let Some(token) = bearer {
        let mut value = http::HeaderValue::try_from(format!("Bearer {token}")).map_err(|error| error.to_string())?;
        value.set_sensitive(true);
        request = request.header(AUTHORIZATION, value);
    }
    request.body(NoBody).map_err(|error| error.to_string())
}

async fn read(mut body: Incoming, most: usize) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    while let Some(frame) = std::future::poll_fn(|context| std::pin::Pin::new(&mut body).poll_frame(context)).await {
        let frame = frame.map_err(|error| format!("the answer broke off: {error}"))?;
        if let Some(data) = frame.data_ref() {
            if bytes.len() + data.len() > most {
                return Err(format!("the answer has more than {most} bytes"));
            }
            bytes.extend_from_slice(data);
        }
    }
    Ok(bytes)
}

async fn config(authority: Option<PathBuf>) -> Result<ClientConfig, String> {
    let roots = match authority {
        Some(path) => of_file(&read_file(path.clone(), AUTHORITY_BYTES_MAX).await?)
            .ok_or_else(|| format!("{} holds no certificate in PEM", path.display()))?,
        None => of_system().await?,
    };
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12]);
    Ok(config.map_err(|error| error.to_string())?.with_root_certificates(roots).with_no_client_auth())
}

fn of_file(pem: &[u8]) -> Option<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        roots.add(certificate.ok()?).ok()?;
    }
    (!roots.is_empty()).then_some(roots)
}

async fn of_system() -> Result<RootCertStore, String> {
    let loaded = tokio::task::spawn_blocking(rustls_native_certs::load_native_certs).await;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(loaded.map_err(|error| error.to_string())?.certs);
    if roots.is_empty() {
        return Err("this machine has no certificate authorities: name a file with --oidc-ca".into());
    }
    Ok(roots)
}

/// Ends the task of a connection with its request.
struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The body of a GET.
struct NoBody;

impl http_body::Body for NoBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        std::task::Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        true
    }

    fn size_hint(&self) -> http_body::SizeHint {
        http_body::SizeHint::with_exact(0)
    }
}
