//! Sealing secrets with AES-256-GCM under a master key kept outside the database.
//!
//! - Account, key id and key version are bound to the seal: a sealed secret moved to another record does not open.
//! - Each seal has a fresh random nonce of 96 bits, kept before the sealed bytes.

use std::path::Path;

use aes_gcm::aead::{Aead, Payload};
use aes_gcm::{Aes256Gcm, Key, KeyInit, Nonce};

use crate::clock::Random;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::store::Secret;

const NONCE_BYTES: usize = 12;
const MASTER_BYTES: usize = 32;
/// Only the owner may read the master key.
const MASTER_MODE: u32 = 0o600;

/// Seals and opens secrets.
pub(crate) struct Sealer(Aes256Gcm);

/// What a secret belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound<'a> {
    /// The account's id.
    pub account: u64,
    /// The key's id.
    pub key_id: &'a str,
    /// The key's version.
    pub version: u32,
}

impl Bound<'_> {
    fn bytes(self) -> Vec<u8> {
        let mut bytes = self.account.to_be_bytes().to_vec();
        bytes.extend_from_slice(&self.version.to_be_bytes());
        bytes.extend_from_slice(self.key_id.as_bytes());
        bytes
    }
}

impl Sealer {
    /// The sealer of a store: its master key lies in `path`, made if the store is new.
    ///
    /// # Errors
    /// [`Error::Unusable`] if the key is missing from a store that exists, or is no key.
    pub fn open(disk: &dyn Disk, path: &Path, random: &dyn Random, new_store: bool) -> Result<Self> {
        if disk.exists(path)? {
            return Self::from_key(&disk.read_all(path)?, path);
        }
        if !new_store {
            let why = format!("the master key {} is missing: put it back from where it was copied to", path.display());
            return Err(Error::Unusable { why });
        }
        let mut master = [0; MASTER_BYTES];
        random.fill(&mut master);
        disk.write_atomic(path, &master, MASTER_MODE)?;
        Self::from_key(&master, path)
    }

    fn from_key(master: &[u8], path: &Path) -> Result<Self> {
        if master.len() != MASTER_BYTES {
            let why = format!("the master key {} has {} bytes instead of {MASTER_BYTES}", path.display(), master.len());
            return Err(Error::Unusable { why });
        }
        Ok(Self(Aes256Gcm::new(Key::<Aes256Gcm>::from_slice(master))))
    }

    /// Seals a secret.
    pub fn seal(&self, random: &dyn Random, secret: &Secret, bound: Bound<'_>) -> Result<Vec<u8>> {
        let mut nonce = [0; NONCE_BYTES];
        random.fill(&mut nonce);
        let payload = Payload { msg: secret.reveal().as_bytes(), aad: &bound.bytes() };
        let sealed = self.0.encrypt(Nonce::from_slice(&nonce), payload);
        let sealed = sealed.map_err(|_| Error::Engine { why: "a secret could not be sealed".into() })?;
        Ok([nonce.as_slice(), &sealed].concat())
    }

    /// Opens a sealed secret.
    pub fn open_secret(&self, sealed: &[u8], bound: Bound<'_>) -> Result<Secret> {
        let damaged =
            || Error::corrupt(format!("the secret of key {}", bound.key_id), "a seal of this store", "another");
        let (nonce, sealed) = sealed.split_at_checked(NONCE_BYTES).ok_or_else(damaged)?;
        let payload = Payload { msg: sealed, aad: &bound.bytes() };
        let secret = self.0.decrypt(Nonce::from_slice(nonce), payload).map_err(|_| damaged())?;
        String::from_utf8(secret).map(Secret::new).map_err(|_| damaged())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Scripted;

    #[test]
    fn a_seal_opens_only_for_what_it_is_bound_to() {
        let sealer = Sealer::from_key(&[7; 32], Path::new("k")).unwrap();
        let random = Scripted::new(1);
        let bound = Bound { account: 1, key_id: "AK", version: 1 };
        let sealed = sealer.seal(&random, &Secret::new("hush"), bound).unwrap();
        assert!(!sealed.windows(4).any(|window| window == b"hush"));
        assert_eq!(sealer.open_secret(&sealed, bound).unwrap().reveal(), "hush");
        for other in [Bound { account: 2, ..bound }, Bound { key_id: "AL", ..bound }, Bound { version: 2, ..bound }] {
            assert!(sealer.open_secret(&sealed, other).is_err());
        }
        for at in 0..sealed.len() {
            let mut damaged = sealed.clone();
            damaged[at] ^= 1;
            assert!(sealer.open_secret(&damaged, bound).is_err());
        }
    }
}
