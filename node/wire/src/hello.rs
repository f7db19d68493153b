//! The messages of the handshake, and their validation.

use std::fmt;

use bytes::Bytes;
use prost::Message;

use crate::credential::PROOF_BYTES;
use crate::version::Versions;

/// The length of a nonce in bytes.
pub const NONCE_BYTES: usize = 32;
/// The longest name of a node: that of a Kubernetes object.
const NODE_BYTES: usize = 253;
/// The longest id of a session.
const SESSION_BYTES: usize = 64;
/// The longest id of an access key.
const ACCESS_KEY_BYTES: usize = 128;
/// The longest ticket.
pub const TICKET_BYTES: usize = 8 << 10;

/// The node's first message.
#[derive(Clone, PartialEq, Eq)]
pub struct Hello {
    /// The versions that the node speaks.
    pub versions: Versions,
    /// Bits of optional features that the node knows; those that the store knows too are in use.
    pub features: u64,
    /// The node's name.
    pub node: String,
    /// The session that the connection belongs to; opaque here, empty before there is one.
    pub session: Bytes,
    /// Random bytes, new for each connection.
    pub nonce: Bytes,
    /// What the node will prove or shows.
    pub shown: Shown,
}

/// The credential as the hello shows it: never the secret of a key.
#[derive(Clone, PartialEq, Eq)]
pub enum Shown {
    /// The id of an access key; the proof follows.
    AccessKey(String),
    /// A ticket.
    Ticket(Bytes),
    /// A ticket, and the id of an access key that narrows it; the proof follows.
    TicketAndKey {
        /// The ticket.
        ticket: Bytes,
        /// The id of the access key.
        access_key: String,
    },
    /// The certificate of the TLS handshake.
    Certificate,
}

impl fmt::Debug for Hello {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hello = &mut f.debug_struct("Hello");
        hello.field("versions", &self.versions).field("features", &self.features).field("node", &self.node);
        hello.field("session", &self.session).finish_non_exhaustive()
    }
}

/// The store's answer to a hello.
#[derive(Clone, PartialEq, Message)]
pub struct Challenge {
    /// The version that both sides use.
    #[prost(uint32, tag = "1")]
    pub version: u32,
    /// The features that both sides know.
    #[prost(fixed64, tag = "2")]
    pub features: u64,
    /// Random bytes, new for each connection.
    #[prost(bytes = "bytes", tag = "3")]
    pub nonce: Bytes,
}

/// The proof of either side; empty where no secret is shared.
#[derive(Clone, PartialEq, Message)]
pub struct Proof {
    /// The bytes of the proof.
    #[prost(bytes = "bytes", tag = "1")]
    pub mac: Bytes,
}

/// The store admits the connection.
#[derive(Clone, PartialEq, Message)]
pub struct Welcome {
    /// The store's proof of the same secret.
    #[prost(bytes = "bytes", tag = "1")]
    pub mac: Bytes,
    /// How many requests of this connection the store serves at once.
    #[prost(uint32, tag = "2")]
    pub requests: u32,
    /// After how many milliseconds without a frame the store closes the connection.
    #[prost(uint32, tag = "3")]
    pub idle_ms: u32,
}

#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
struct Sent {
    #[prost(uint32, tag = "1")]
    min: u32,
    #[prost(uint32, tag = "2")]
    max: u32,
    #[prost(fixed64, tag = "3")]
    features: u64,
    #[prost(string, tag = "4")]
    node: String,
    #[prost(bytes = "bytes", tag = "5")]
    session: Bytes,
    #[prost(bytes = "bytes", tag = "6")]
    nonce: Bytes,
    #[prost(string, optional, tag = "7")]
    access_key: Option<String>,
    #[prost(bytes = "bytes", optional, tag = "8")]
    ticket: Option<Bytes>,
}

impl Hello {
    /// The head of a hello.
    pub fn encode(&self) -> Bytes {
        let (access_key, ticket) = match &self.shown {
            Shown::AccessKey(id) => (Some(id.clone()), None),
            Shown::Ticket(ticket) => (None, Some(ticket.clone())),
            Shown::TicketAndKey { ticket, access_key } => (Some(access_key.clone()), Some(ticket.clone())),
            Shown::Certificate => (None, None),
        };
        let (node, session, nonce) = (self.node.clone(), self.session.clone(), self.nonce.clone());
        let Versions { min, max } = self.versions;
        Sent { min, max, features: self.features, node, session, nonce, access_key, ticket }.encode_to_vec().into()
    }

    /// Reads the head of a hello.
    ///
    /// # Errors
    /// [`Unreadable`], for the refusal; it contains nothing of the credential.
    pub fn decode(head: Bytes) -> Result<Self, Unreadable> {
        let sent = Sent::decode(head).map_err(|_| Unreadable("the hello is not a message of this protocol"))?;
        let is_name = (1..=NODE_BYTES).contains(&sent.node.len()) && !sent.node.chars().any(char::is_control);
        check(is_name, "the name of a node has 1 to 253 bytes and no control characters")?;
        check(sent.session.len() <= SESSION_BYTES, "the id of a session has at most 64 bytes")?;
        check(sent.nonce.len() == NONCE_BYTES, "the nonce of a hello has 32 bytes")?;
        if let Some(id) = &sent.access_key {
            let is_id = (1..=ACCESS_KEY_BYTES).contains(&id.len()) && !id.chars().any(char::is_control);
            check(is_id, "the id of an access key has 1 to 128 bytes and no control characters")?;
        }
        if let Some(ticket) = &sent.ticket {
            check((1..=TICKET_BYTES).contains(&ticket.len()), "a ticket has 1 to 8,192 bytes")?;
        }
        let shown = match (sent.access_key, sent.ticket) {
            (Some(id), None) => Shown::AccessKey(id),
            (None, Some(ticket)) => Shown::Ticket(ticket),
            (Some(access_key), Some(ticket)) => Shown::TicketAndKey { ticket, access_key },
            (None, None) => Shown::Certificate,
        };
        let versions = Versions { min: sent.min, max: sent.max };
        Ok(Self { versions, features: sent.features, node: sent.node, session: sent.session, nonce: sent.nonce, shown })
    }
}

/// Reads the head of a challenge.
///
/// # Errors
/// [`Unreadable`].
pub fn challenge(head: &Bytes) -> Result<Challenge, Unreadable> {
    let read =
        Challenge::decode(head.clone()).map_err(|_| Unreadable("the challenge is not a message of this protocol"))?;
    check(read.nonce.len() == NONCE_BYTES, "the nonce of a challenge has 32 bytes")?;
    Ok(read)
}

/// Reads the head of a proof.
///
/// # Errors
/// [`Unreadable`].
pub fn proof(head: &Bytes) -> Result<Proof, Unreadable> {
    let read = Proof::decode(head.clone()).map_err(|_| Unreadable("the proof is not a message of this protocol"))?;
    check(matches!(read.mac.len(), 0 | PROOF_BYTES), "a proof has 32 bytes")?;
    Ok(read)
}

/// Reads the head of a welcome.
///
/// # Errors
/// [`Unreadable`].
pub fn welcome(head: &Bytes) -> Result<Welcome, Unreadable> {
    let read =
        Welcome::decode(head.clone()).map_err(|_| Unreadable("the welcome is not a message of this protocol"))?;
    check(read.requests > 0, "the welcome allows no request")?;
    Ok(read)
}

/// A message of the handshake that breaks a rule: which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(&'static str);

fn check(holds: bool, rule: &'static str) -> Result<(), Unreadable> {
    if holds { Ok(()) } else { Err(Unreadable(rule)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(shown: Shown) -> Hello {
        let (versions, nonce) = (Versions { min: 1, max: 2 }, Bytes::from_static(&[7; NONCE_BYTES]));
        Hello { versions, features: 5, node: "node-a".to_owned(), session: "session".into(), nonce, shown }
    }

    #[test]
    fn a_hello_reads_as_it_was_written() {
        let both = Shown::TicketAndKey { ticket: "ticket".into(), access_key: "AKID".to_owned() };
        for shown in [Shown::AccessKey("AKID".to_owned()), Shown::Ticket("ticket".into()), both, Shown::Certificate] {
            let hello = hello(shown);
            assert_eq!(Hello::decode(hello.encode()), Ok(hello));
        }
    }

    #[test]
    fn a_field_beyond_its_bound_is_refused() {
        let valid = hello(Shown::Certificate);
        let long = |bytes: usize| "a".repeat(bytes);
        let both = |ticket: String, access_key| Shown::TicketAndKey { ticket: ticket.into(), access_key };
        for invalid in [
            Hello { node: String::new(), ..valid.clone() },
            Hello { node: long(NODE_BYTES + 1), ..valid.clone() },
            Hello { node: "a\nb".to_owned(), ..valid.clone() },
            Hello { session: long(SESSION_BYTES + 1).into(), ..valid.clone() },
            Hello { nonce: long(NONCE_BYTES - 1).into(), ..valid.clone() },
            Hello { shown: Shown::AccessKey(String::new()), ..valid.clone() },
            Hello { shown: Shown::Ticket(long(TICKET_BYTES + 1).into()), ..valid.clone() },
            Hello { shown: both("ticket".into(), long(ACCESS_KEY_BYTES + 1)), ..valid.clone() },
            Hello { shown: both(long(TICKET_BYTES + 1), "AKID".into()), ..valid.clone() },
        ] {
            assert!(Hello::decode(invalid.encode()).is_err(), "{invalid:?}");
        }
    }

    #[test]
    fn a_hello_prints_no_ticket() {
        assert!(!format!("{:?}", hello(Shown::Ticket("hunter2".into()))).contains("hunter2"));
    }
}
