//! A certificate and its key as files, which are read again when they are renewed.

use std::path::Path;

use node_wire::tls::Pair;
use objstore::disk::read_named;
use zeroize::Zeroizing;

use crate::config::TlsFiles;

/// The largest file of a certificate, key or authority.
pub(crate) const FILE_MAX: u64 = 1 << 20;

/// Files as they were read.
#[derive(PartialEq, Eq)]
pub(crate) struct FileContent {
    chain: Vec<u8>,
    key: Zeroizing<Vec<u8>>,
}

impl FileContent {
    /// Reads the files. A key that others may read is refused.
    ///
    /// # Errors
    /// What is wrong with which file.
    pub(crate) fn load(files: &TlsFiles) -> Result<Self, String> {
        let chain = read(&files.certificate)?;
        let (key, permissions) = read_named(&files.key, FILE_MAX).map_err(|error| unreadable(&files.key, &error))?;
        let key = Zeroizing::new(key);
        permissions.of_a_secret().map_err(|why| format!("{} {why}", files.key.display()))?;
        Ok(Self { chain, key })
    }

    /// The pair in them.
    pub(crate) fn pair(&self) -> Pair<'_> {
        Pair { chain_pem: &self.chain, key_pem: &self.key }
    }
}

/// Reads a file that is no secret.
///
/// # Errors
/// Why it cannot be read.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, String> {
    read_named(path, FILE_MAX).map(|(bytes, _)| bytes).map_err(|error| unreadable(path, &error))
}

fn unreadable(path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("{} cannot be read: {error}", path.display())
}
