//! TLS to PostgreSQL, by rustls.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_rustls::{TlsConnector, client};

use crate::error::{Error, Result};

/// What verifies the server. Without an authority it trusts none, so that no handshake succeeds.
#[derive(Clone)]
pub(super) struct Tls(TlsConnector);

impl Tls {
    /// Trusts the authorities in the PEM file at `authority`.
    pub fn new(authority: Option<&Path>) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        if let Some(path) = authority {
            let unusable = |why: String| Error::Unusable { why: format!("sslrootcert {}: {why}", path.display()) };
            let found = CertificateDer::pem_file_iter(path).map_err(|error| unusable(error.to_string()))?;
            for certificate in found {
                let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
                // One that rustls cannot read is left out, as the bundles of systems have such.
                let _ = roots.add(certificate);
            }
            if roots.is_empty() {
                return Err(unusable("it has no certificate that can be used".into()));
            }
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions();
        let config = config.map_err(|error| Error::Unusable { why: format!("TLS: {error}") })?;
        Ok(Self(Arc::new(config.with_root_certificates(roots).with_no_client_auth()).into()))
    }
}

impl MakeTlsConnect<Socket> for Tls {
    type Stream = Stream;
    type TlsConnect = Connect;
    type Error = io::Error;

    fn make_tls_connect(&mut self, domain: &str) -> io::Result<Connect> {
        // Also called for a Unix socket, which has no name and no handshake.
        let name = match domain {
            "" => None,
            domain => Some(ServerName::try_from(domain.to_owned()).map_err(io::Error::other)?),
        };
        Ok(Connect { connector: self.0.clone(), name })
    }
}

/// A handshake to come.
pub(super) struct Connect {
    connector: TlsConnector,
    name: Option<ServerName<'static>>,
}

impl TlsConnect<Socket> for Connect {
    type Stream = Stream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move {
            let name = self.name.ok_or_else(|| io::Error::other("the server has no name to verify"))?;
            Ok(Stream(Box::new(self.connector.connect(name, socket).await?)))
        })
    }
}

/// An encrypted connection.
pub(super) struct Stream(Box<client::TlsStream<Socket>>);

impl TlsStream for Stream {
    /// None: the certificate is verified, so binding the password to the channel adds little.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_shutdown(cx)
    }
}
