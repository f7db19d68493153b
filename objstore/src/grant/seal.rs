//! Sealing secrets with AES-256-GCM under a master key kept outside the database.
//!
//! - Account, key id and key version are authenticated: a sealed secret moved to another record does not open.
//! - Each seal has a fresh random nonce of 96 bits, stored before the ciphertext.
//! - While the master key is rotated there are two: the new one seals, either opens.
//! - Sessions of roles are sealed under keys derived from the master key, and end with it.

use aes_gcm::aead::{Aead, Payload};
use aes_gcm::{Aes256Gcm, Key, KeyInit, Nonce};
use hmac::{Hmac, Mac as _};
use parking_lot::RwLock;
use sha2::Sha256;
use zeroize::Zeroizing;

use super::Secret;
use crate::clock::Random;
use crate::error::{Error, Result};

const NONCE_BYTES: usize = 12;
/// The length of a master key.
pub(super) const MASTER_BYTES: usize = 32;

/// What keys of tickets are derived under, so that no other use of the master key has the same bytes.
const TICKETS: &[u8] = b"amphora tickets of nodes 1";

/// What keys of role sessions are derived under.
const ROLE_SESSIONS: &[u8] = b"amphora sessions of roles 1";

/// The bytes of a master key.
pub(super) type MasterKey = [u8; MASTER_BYTES];

/// Seals and opens secrets.
pub(crate) struct Sealer(RwLock<Ring>);

/// The master keys.
struct Ring {
    current: Aes256Gcm,
    /// The key of the tickets that are issued now.
    tickets: Hmac<Sha256>,
    /// The key of the sessions of roles that begin now.
    role_sessions: Hmac<Sha256>,
    /// During a rotation, the key under which secrets may still be sealed, and that of the sessions under it.
    former: Option<(Aes256Gcm, Hmac<Sha256>)>,
}

/// The record to which a secret is bound.
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
    pub(super) fn new(master: &MasterKey) -> Self {
        let (tickets, role_sessions) = (derived(master, TICKETS), derived(master, ROLE_SESSIONS));
        Self(RwLock::new(Ring { current: cipher(master), tickets, role_sessions, former: None }))
    }

    /// Makes this key the sealing one; secrets under the previous key still open.
    pub(super) fn begin(&self, next: &MasterKey) {
        let mut ring = self.0.write();
        let former = std::mem::replace(&mut ring.current, cipher(next));
        let former_sessions = std::mem::replace(&mut ring.role_sessions, derived(next, ROLE_SESSIONS));
        ring.tickets = derived(next, TICKETS);
        ring.former = Some((former, former_sessions));
    }

    /// The secret of a ticket: the same for the same bytes, until the master key is rotated.
    pub fn ticket(&self, of: &[u8]) -> [u8; 32] {
        self.0.read().tickets.clone().chain_update(of).finalize().into_bytes().into()
    }

    /// Drops the previous key.
    pub(super) fn end(&self) {
        self.0.write().former = None;
    }

    pub(super) fn has_former(&self) -> bool {
        self.0.read().former.is_some()
    }

    /// Seals a role's session under a key of its own, which belongs to its access key id.
    pub fn seal_session(&self, random: &dyn Random, session: &[u8], key_id: &str) -> Result<Vec<u8>> {
        let mut nonce = [0; NONCE_BYTES];
        random.fill(&mut nonce);
        let sealed = session_cipher(&self.0.read().role_sessions, key_id).encrypt(Nonce::from_slice(&nonce), session);
        let sealed = sealed.map_err(|_| Error::Engine { why: "a session could not be sealed".into() })?;
        Ok([nonce.as_slice(), &sealed].concat())
    }

    /// Opens a sealed session; `None` if it was not sealed here for this access key id, or under an earlier master key.
    pub fn open_session(&self, sealed: &[u8], key_id: &str) -> Option<Zeroizing<Vec<u8>>> {
        let (nonce, sealed) = sealed.split_at_checked(NONCE_BYTES)?;
        let ring = self.0.read();
        let mut keys = std::iter::once(&ring.role_sessions).chain(ring.former.iter().map(|(_, former)| former));
        let opened = keys.find_map(|key| session_cipher(key, key_id).decrypt(Nonce::from_slice(nonce), sealed).ok());
        opened.map(Zeroizing::new)
    }

    /// Seals a secret.
    pub fn seal(&self, random: &dyn Random, secret: &Secret, bound: Bound<'_>) -> Result<Vec<u8>> {
        let mut nonce = [0; NONCE_BYTES];
        random.fill(&mut nonce);
        let payload = Payload { msg: secret.reveal().as_bytes(), aad: &bound.bytes() };
        let sealed = self.0.read().current.encrypt(Nonce::from_slice(&nonce), payload);
        let sealed = sealed.map_err(|_| Error::Engine { why: "a secret could not be sealed".into() })?;
        Ok([nonce.as_slice(), &sealed].concat())
    }

    /// Opens a sealed secret.
    pub fn open_secret(&self, sealed: &[u8], bound: Bound<'_>) -> Result<Secret> {
        let damaged =
            || Error::corrupt(format!("the secret of key {}", bound.key_id), "a seal of this store", "another");
        let (nonce, sealed) = sealed.split_at_checked(NONCE_BYTES).ok_or_else(damaged)?;
        let aad = bound.bytes();
        let ring = self.0.read();
        let mut keys = std::iter::once(&ring.current).chain(ring.former.iter().map(|(former, _)| former));
        let opened =
            keys.find_map(|key| key.decrypt(Nonce::from_slice(nonce), Payload { msg: sealed, aad: &aad }).ok());
        String::from_utf8(opened.ok_or_else(damaged)?).map(Secret::new).map_err(|_| damaged())
    }
}

fn cipher(master: &MasterKey) -> Aes256Gcm {
    Aes256Gcm::new(Key::<Aes256Gcm>::from_slice(master))
}

/// A key that is derived from the master key for one use.
fn derived(master: &MasterKey, usage: &[u8]) -> Hmac<Sha256> {
    let keyed = |key: &[u8]| <Hmac<Sha256> as hmac::Mac>::new_from_slice(key).expect("HMAC takes keys of any length");
    keyed(&keyed(master).chain_update(usage).finalize().into_bytes())
}

/// The cipher of one session. Each has its own key, so the number of sessions does not wear out a key's nonces.
fn session_cipher(sessions: &Hmac<Sha256>, key_id: &str) -> Aes256Gcm {
    Aes256Gcm::new(&sessions.clone().chain_update(key_id).finalize().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Scripted;

    #[test]
    fn a_ticket_differs_for_each_use_and_after_a_rotation() {
        let sealer = Sealer::new(&[7; MASTER_BYTES]);
        let first = sealer.ticket(b"one");
        assert_eq!(sealer.ticket(b"one"), first);
        assert!(sealer.ticket(b"two") != first && first != [7; MASTER_BYTES]);
        sealer.begin(&[8; MASTER_BYTES]);
        assert_ne!(sealer.ticket(b"one"), first);
    }

    #[test]
    fn a_session_opens_for_its_key_id_alone_and_not_after_a_rotation() {
        let sealer = Sealer::new(&[7; MASTER_BYTES]);
        let random = Scripted::new(1);
        let sealed = sealer.seal_session(&random, b"hush", "ASIA1").unwrap();
        assert!(!sealed.windows(4).any(|window| window == b"hush"));
        let opens = |sealer: &Sealer, id: &str| sealer.open_session(&sealed, id).map(|opened| opened.to_vec());
        assert_eq!(opens(&sealer, "ASIA1").as_deref(), Some(&b"hush"[..]));
        assert_eq!(opens(&sealer, "ASIA2"), None);
        assert_eq!(opens(&Sealer::new(&[8; MASTER_BYTES]), "ASIA1"), None);
        for at in 0..sealed.len() {
            let mut damaged = sealed.clone();
            damaged[at] ^= 1;
            assert!(sealer.open_session(&damaged, "ASIA1").is_none());
        }
        assert!((0..sealed.len()).all(|length| sealer.open_session(&sealed[..length], "ASIA1").is_none()));
        sealer.begin(&[8; MASTER_BYTES]);
        assert!(opens(&sealer, "ASIA1").is_some(), "while the rotation runs");
        sealer.end();
        assert_eq!(opens(&sealer, "ASIA1"), None);
    }

    #[test]
    fn a_seal_opens_only_for_what_it_is_bound_to() {
        let sealer = Sealer::new(&[7; MASTER_BYTES]);
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

    #[test]
    fn during_a_rotation_either_key_opens_and_after_it_only_the_new_one() {
        let sealer = Sealer::new(&[7; MASTER_BYTES]);
        let random = Scripted::new(1);
        let bound = Bound { account: 1, key_id: "AK", version: 1 };
        let before = sealer.seal(&random, &Secret::new("hush"), bound).unwrap();
        sealer.begin(&[8; MASTER_BYTES]);
        let during = sealer.seal(&random, &Secret::new("hush"), bound).unwrap();
        let opens = |sealed| sealer.open_secret(sealed, bound).is_ok();
        assert_eq!((opens(&before), opens(&during)), (true, true));
        sealer.end();
        assert_eq!((opens(&before), opens(&during)), (false, true));
    }
}
