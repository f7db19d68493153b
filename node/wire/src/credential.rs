//! Credentials of a node, and the proofs that replace the sending of a secret.
//!
//! A proof is an HMAC-SHA256 under the secret of an access key, over the keying material that both ends of one TLS
//! connection export ([`Binding`], RFC 9266 and RFC 8446 section 7.5) and over the frames of the handshake:
//!
//! - The secret never crosses the wire, and a recorded proof is worth nothing on another connection.
//! - A man in the middle has two TLS connections with different bindings, so neither proof can be relayed.
//! - Both sides prove: a node refuses a server that does not know the secret, even one with a valid certificate.

use std::fmt;

use bytes::Bytes;
use hmac::{Hmac, Mac as _};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

/// The first bytes under every proof: the protocol and the version of this construction.
const PURPOSE: &[u8] = b"amphora volume proof 1";

/// The length of a proof in bytes.
pub const PROOF_BYTES: usize = 32;

/// The secret of an access key; overwritten when it is dropped, and never printed.
#[derive(Clone)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Keeps the bytes of a secret.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(Zeroizing::new(bytes.into()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// The credential of a node.
#[derive(Clone)]
pub enum Credential {
    /// An access key, such as S3 clients have: its id, and the secret to prove.
    AccessKey {
        /// The id.
        id: String,
        /// The secret.
        secret: Secret,
    },
    /// A ticket that the store issued for one volume, node, mode and epoch; opaque here.
    Ticket(Bytes),
    /// A ticket, and an access key that narrows it: the session may do no more than either of both.
    TicketAndKey {
        /// The ticket.
        ticket: Bytes,
        /// The id of the access key.
        id: String,
        /// The secret of the access key, to prove.
        secret: Secret,
    },
    /// The certificate that the node showed in the TLS handshake.
    Certificate,
}

impl Credential {
    /// The secret that both ends prove, if there is one.
    pub(crate) fn secret(&self) -> Option<&Secret> {
        match self {
            Self::AccessKey { secret, .. } | Self::TicketAndKey { secret, .. } => Some(secret),
            Self::Ticket(_) | Self::Certificate => None,
        }
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AccessKey { id, .. } => f.debug_struct("AccessKey").field("id", id).finish_non_exhaustive(),
            Self::Ticket(_) => f.write_str("Ticket"),
            Self::TicketAndKey { id, .. } => f.debug_struct("TicketAndKey").field("id", id).finish_non_exhaustive(),
            Self::Certificate => f.write_str("Certificate"),
        }
    }
}

/// What the server knows of a peer once its proof is checked.
#[derive(Clone, PartialEq, Eq)]
pub enum Claim {
    /// The peer knows the secret of this access key.
    AccessKey(String),
    /// The peer shows this ticket; whether the ticket is valid is for the [`Service`](crate::service::Service) to say.
    Ticket(Bytes),
    /// The peer shows this ticket, and knows the secret of this access key.
    TicketAndKey {
        /// The ticket.
        ticket: Bytes,
        /// The id of the access key.
        access_key: String,
    },
    /// The peer has the private key of this certificate (DER), which the authority for nodes signed.
    Certificate(Bytes),
}

impl Claim {
    /// The ticket, if the peer shows one.
    pub fn ticket(&self) -> Option<&Bytes> {
        match self {
            Self::Ticket(ticket) | Self::TicketAndKey { ticket, .. } => Some(ticket),
            Self::AccessKey(_) | Self::Certificate(_) => None,
        }
    }

    /// The id of the access key whose secret the peer has proved, if it did.
    pub fn access_key(&self) -> Option<&str> {
        match self {
            Self::AccessKey(id) | Self::TicketAndKey { access_key: id, .. } => Some(id),
            Self::Ticket(_) | Self::Certificate(_) => None,
        }
    }
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AccessKey(id) => f.debug_tuple("AccessKey").field(id).finish(),
            Self::Ticket(_) => f.write_str("Ticket"),
            Self::TicketAndKey { access_key, .. } => f.debug_tuple("TicketAndKey").field(access_key).finish(),
            Self::Certificate(_) => f.write_str("Certificate"),
        }
    }
}

/// Keying material that only the two ends of one TLS connection can export.
#[derive(Clone)]
pub struct Binding(pub(crate) Zeroizing<[u8; 32]>);

impl Binding {
    /// A binding from exported keying material.
    pub fn new(material: [u8; 32]) -> Self {
        Self(Zeroizing::new(material))
    }
}

impl fmt::Debug for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Binding")
    }
}

/// Who makes a proof; the two proofs of one connection differ, so neither can be reflected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prover {
    Node = 1,
    Store = 2,
}

/// The frames that both proofs cover, so that nothing in them can be changed by anyone.
pub(crate) struct Transcript<'a> {
    pub(crate) binding: &'a Binding,
    pub(crate) hello: &'a [u8],
    pub(crate) challenge: &'a [u8],
}

impl Transcript<'_> {
    pub(crate) fn proof(&self, prover: Prover, secret: &Secret) -> [u8; PROOF_BYTES] {
        let mut mac = Hmac::<Sha256>::new_from_slice(&secret.0).expect("HMAC takes keys of any length");
        mac.update(PURPOSE);
        mac.update(&[prover as u8]);
        mac.update(&self.binding.0[..]);
        mac.update(&Sha256::digest(self.hello));
        mac.update(&Sha256::digest(self.challenge));
        mac.finalize().into_bytes().into()
    }

    /// Whether `shown` is the proof, in constant time.
    pub(crate) fn is_proof(&self, prover: Prover, secret: &Secret, shown: &[u8]) -> bool {
        self.proof(prover, secret)[..].ct_eq(shown).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_holds_for_one_connection_one_side_and_one_handshake() {
        let (binding, other) = (Binding::new([1; 32]), Binding::new([2; 32]));
        let secret = Secret::new("secret");
        let transcript = Transcript { binding: &binding, hello: b"hello", challenge: b"challenge" };
        let proof = transcript.proof(Prover::Node, &secret);
        assert!(transcript.is_proof(Prover::Node, &secret, &proof));
        assert!(!transcript.is_proof(Prover::Store, &secret, &proof), "reflected");
        assert!(!transcript.is_proof(Prover::Node, &Secret::new("other"), &proof));
        for relayed in [
            Transcript { binding: &other, ..transcript },
            Transcript { binding: &binding, hello: b"hellp", challenge: b"challenge" },
            Transcript { binding: &binding, hello: b"hello", challenge: b"challengf" },
        ] {
            assert!(!relayed.is_proof(Prover::Node, &secret, &proof));
        }
        assert!(!transcript.is_proof(Prover::Node, &secret, b""), "no proof at all");
    }

    #[test]
    fn credentials_print_no_secret() {
        let secret = Secret::new("hunter2");
        let key = Credential::AccessKey { id: "AKID".to_owned(), secret: secret.clone() };
        let both = Credential::TicketAndKey { ticket: "hunter2".into(), id: "AKID".to_owned(), secret };
        let claim = Claim::TicketAndKey { ticket: "hunter2".into(), access_key: "AKID".to_owned() };
        for shown in [format!("{key:?}"), format!("{both:?}"), format!("{claim:?}")] {
            assert!(!shown.contains("hunter2") && shown.contains("AKID"), "{shown}");
        }
        let shown = format!("{:?} {:?}", Credential::Ticket("hunter2".into()), Claim::Ticket("hunter2".into()));
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
