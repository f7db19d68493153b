//! A certificate chain and its private key, from two PEM files.
//!
//! - Errors contain nothing of the key file except its name.
//! - A key that other users may read is refused. Both files may be symbolic links, as Kubernetes mounts Secrets.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::path::{Path, PathBuf};

use objstore::disk::{Permissions, read_named};
use tokio_rustls::rustls;
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::sign::CertifiedKey;
use zeroize::Zeroizing;

/// The largest file in bytes.
const FILE_MAX: u64 = 1 << 20;

/// Why a certificate and key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("the TLS file {} cannot be read", .file.display())]
    Read {
        /// The file's path.
        file: PathBuf,
        /// The system's error.
        #[source]
        error: io::Error,
    },
    /// Other users may read or replace the key.
    #[error("the TLS key {} {why}", .file.display())]
    Exposed {
        /// The file's path.
        file: PathBuf,
        /// What is wrong, and what to do.
        why: String,
    },
    /// The file contains no certificate.
    #[error("{} holds no certificate in PEM: the chain begins with the server's own (BEGIN CERTIFICATE)", .0.display())]
    NoCertificate(PathBuf),
    /// The file contains no private key.
    #[error("{} holds no private key in PEM, or an encrypted one: use PKCS#8, PKCS#1 or SEC1, not encrypted", .0.display())]
    NoKey(PathBuf),
    /// Certificate and key do not belong together.
    #[error("the key in {} does not belong to the first certificate in {}", .key.display(), .certificate.display())]
    Mismatch {
        /// The file of the certificate chain.
        certificate: PathBuf,
        /// The file of the key.
        key: PathBuf,
    },
    /// Rustls does not accept them.
    #[error("the TLS certificate or its key cannot be used")]
    Unusable(#[source] rustls::Error),
}

/// The paths of a pair.
#[derive(Clone, Debug)]
pub(super) struct Files {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

/// Identifies a pair by a hash, so that no second copy of the key is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pair(u64);

/// The contents of the files.
pub(super) struct Contents {
    certificate: Vec<u8>,
    key: Zeroizing<Vec<u8>>,
}

impl Files {
    /// Reads both files.
    pub(super) fn read(&self) -> Result<(Pair, Contents), TlsError> {
        let (certificate, _) = read(&self.certificate)?;
        let (key, permissions) = read(&self.key)?;
        permissions.of_a_secret().map_err(|why| TlsError::Exposed { file: self.key.clone(), why })?;
        let contents = Contents { certificate, key: Zeroizing::new(key) };
        let mut hasher = DefaultHasher::new();
        (&contents.certificate, &*contents.key).hash(&mut hasher);
        Ok((Pair(hasher.finish()), contents))
    }

    /// The pair from the files, checked to belong together.
    pub(super) fn certified(&self, contents: &Contents, provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&contents.certificate).collect();
        let chain = chain.ok().filter(|chain| !chain.is_empty());
        let chain = chain.ok_or_else(|| TlsError::NoCertificate(self.certificate.clone()))?;
        let key = PrivateKeyDer::from_pem_slice(&contents.key).map_err(|_| TlsError::NoKey(self.key.clone()))?;
        CertifiedKey::from_der(chain, key, provider).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                TlsError::Mismatch { certificate: self.certificate.clone(), key: self.key.clone() }
            }
            error => TlsError::Unusable(error),
        })
    }
}

fn read(file: &Path) -> Result<(Vec<u8>, Permissions), TlsError> {
    read_named(file, FILE_MAX).map_err(|error| TlsError::Read { file: file.to_owned(), error })
}
