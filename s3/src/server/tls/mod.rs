//! TLS: the certificate of the endpoint, reloaded when its files change.
//!
//! - TLS 1.2 and 1.3, HTTP/2 and HTTP/1.1 by ALPN.
//! - The files are compared by content every few seconds, because certificate managers replace them by swapping
//!   symbolic links (Kubernetes Secrets) or in place. New connections use the new pair; open ones keep the old one.
//! - An unusable pair changes nothing; the old one stays in use. The error is logged once, and only if the pair is
//!   still there at the next check, because the two files change one after the other.

mod pair;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use objstore::certificate;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{self, ServerConfig};
use tokio_rustls::server::TlsStream;

use crate::metrics::Metrics;
use pair::{Files, Pair};

pub use pair::TlsError;

/// The interval of the checks.
const INTERVAL: Duration = Duration::from_secs(5);

/// A certificate with its key, from files: a cheap handle.
#[derive(Clone)]
pub struct Tls {
    files: Files,
    first: Pair,
    current: Arc<Current>,
    provider: Arc<CryptoProvider>,
    acceptor: TlsAcceptor,
    interval: Duration,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads a certificate chain and its key, both in PEM. Blocking.
    ///
    /// # Errors
    /// [`TlsError`], naming the file.
    pub fn load(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Result<Self, TlsError> {
        let files = Files { certificate: certificate.into(), key: key.into() };
        let provider = Arc::new(ring::default_provider());
        let (first, contents) = files.read()?;
        let current = Arc::new(Current(RwLock::new(Arc::new(files.certified(&contents, &provider)?))));
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12]);
        let mut config = config.map_err(TlsError::Unusable)?.with_no_client_auth().with_cert_resolver(current.clone());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Ok(Self { files, first, current, provider, acceptor, interval: INTERVAL })
    }

    /// Sets the interval at which the files are checked.
    #[must_use]
    pub fn looked_at_every(self, interval: Duration) -> Self {
        Self { interval, ..self }
    }

    /// The file of the certificate chain.
    pub fn certificate(&self) -> &Path {
        &self.files.certificate
    }

    /// The expiry of the certificate in use, in seconds since 1970; `None` if it has none.
    pub(crate) fn expiry(&self) -> Option<i64> {
        let current = self.current.0.read().unwrap_or_else(PoisonError::into_inner);
        current.cert.first().and_then(|certificate| certificate::expiry(certificate))
    }

    pub(super) async fn accept(&self, socket: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.acceptor.accept(socket).await
    }

    /// Reloads the files whenever they change, until `stop`.
    pub(super) async fn keep_fresh(self, metrics: Metrics, mut stop: watch::Receiver<bool>) {
        let mut watched = Watched { serving: self.first, doubted: None, told: None };
        loop {
            tokio::select! {
                () = tokio::time::sleep(self.interval) => {}
                _ = stop.changed() => return,
            }
            let tls = self.clone();
            let looked = tokio::task::spawn_blocking(move || {
                let taken = tls.look(&mut watched);
                (watched, taken)
            });
            // Only a runtime that shuts down ends it early.
            let Ok((then, taken)) = looked.await else { return };
            watched = then;
            match taken {
                None => {}
                Some(Ok(())) => metrics.certificate_taken(),
                Some(Err(())) => metrics.certificate_refused(),
            }
        }
    }

    /// Checks the files once. Returns whether a new pair was accepted or refused.
    fn look(&self, watched: &mut Watched) -> Option<Result<(), ()>> {
        let (pair, certified) = match self.files.read() {
            Ok((pair, _)) if pair == watched.serving => {
                (watched.doubted, watched.told) = (None, None);
                return None;
            }
            Ok((pair, contents)) => (Some(pair), self.files.certified(&contents, &self.provider)),
            Err(error) => (None, Err(error)),
        };
        let error = match (certified, pair) {
            (Ok(certified), Some(pair)) => {
                self.current.set(certified);
                *watched = Watched { serving: pair, doubted: None, told: None };
                tracing::info!(certificate = %self.files.certificate.display(), "a new TLS certificate is served");
                return Some(Ok(()));
            }
            (Ok(_), None) => return None,
            (Err(error), _) => error,
        };
        let again = watched.doubted.replace(pair) == Some(pair);
        if !again || watched.told == Some(pair) {
            return None;
        }
        watched.told = Some(pair);
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        tracing::error!(%error, cause, "the changed TLS files cannot be used; the server keeps the previous certificate");
        Some(Err(()))
    }
}

/// The last state of the files; `None` for a pair that could not be read.
struct Watched {
    serving: Pair,
    doubted: Option<Option<Pair>>,
    told: Option<Option<Pair>>,
}

/// The certificate for new connections.
#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

impl Current {
    fn set(&self, certified: CertifiedKey) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(certified);
    }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner)))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    struct Folder {
        dir: tempfile::TempDir,
    }

    impl Folder {
        fn new() -> Self {
            Self { dir: tempfile::tempdir().unwrap() }
        }

        fn write(&self, certificate: &str, key: &str) {
            std::fs::write(self.dir.path().join("tls.crt"), certificate).unwrap();
            let file = self.dir.path().join("tls.key");
            std::fs::write(&file, key).unwrap();
            std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        }

        fn load(&self) -> Result<Tls, TlsError> {
            Tls::load(self.dir.path().join("tls.crt"), self.dir.path().join("tls.key"))
        }
    }

    fn made() -> (String, String) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[test]
    fn what_cannot_be_served_is_named() {
        let (folder, (certificate, key)) = (Folder::new(), made());
        let refused = || folder.load().unwrap_err().to_string();
        assert!(refused().contains("tls.crt"), "{}", refused());
        for (certificate, key, words) in [
            ("", key.as_str(), ["tls.crt", "no certificate"]),
            (key.as_str(), key.as_str(), ["tls.crt", "no certificate"]),
            (&certificate, "", ["tls.key", "no private key"]),
            (&certificate, &certificate, ["tls.key", "no private key"]),
            (&certificate, &made().1, ["tls.key", "does not belong to"]),
        ] {
            folder.write(certificate, key);
            assert!(words.iter().all(|word| refused().contains(word)), "{words:?}: {}", refused());
        }
        folder.write(&certificate, &key);
        assert!(folder.load().is_ok());
    }

    #[test]
    fn a_bad_new_pair_is_told_once_and_the_old_one_stays() {
        let (folder, (certificate, key)) = (Folder::new(), made());
        folder.write(&certificate, &key);
        let tls = folder.load().unwrap();
        let mut watched = Watched { serving: tls.first, doubted: None, told: None };
        let served = || tls.current.0.read().unwrap().cert[0].clone();
        let (old, (next_certificate, next_key)) = (served(), made());
        assert_eq!(tls.look(&mut watched), None);

        folder.write(&next_certificate, &key);
        let looks: Vec<_> = (0..4).map(|_| tls.look(&mut watched)).collect();
        assert_eq!(looks, [None, Some(Err(())), None, None]);
        std::fs::remove_file(&tls.files.key).unwrap();
        let looks: Vec<_> = (0..3).map(|_| tls.look(&mut watched)).collect();
        assert_eq!((looks, served()), (vec![None, Some(Err(())), None], old.clone()));

        folder.write(&next_certificate, &next_key);
        assert_eq!(tls.look(&mut watched), Some(Ok(())));
        assert_ne!(served(), old);
        assert_eq!(tls.look(&mut watched), None);
    }
}
