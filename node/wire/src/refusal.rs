//! Refusals: the reasons for which a store ends a connection or does not serve a call.

use std::fmt;

use prost::Message;

use crate::version::Versions;

/// The reason in a form that a program reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Reason {
    /// A reason that this release does not know.
    Other = 0,
    /// No common version of the protocol.
    Version = 1,
    /// The credential is unknown, revoked or does not prove itself.
    Credential = 2,
    /// The session is unknown, ended or fenced: what it holds is lost.
    Session = 3,
    /// A limit is reached; a later attempt may succeed.
    Busy = 4,
    /// The server is stopping; a later attempt reaches the next one.
    Stopping = 5,
    /// The peer broke a rule of the protocol.
    Protocol = 6,
    /// What is asked for is not there or not allowed, such as a bucket of that name: asking again changes nothing.
    Request = 7,
    /// The server refuses, or was refused, before it has proven that it is the store. It may be anybody on the way to the
    /// store, so nothing that exists may end by it. Never sent.
    Unproven = 8,
}

/// A refusal, as it is sent.
#[derive(Clone, PartialEq, Message)]
struct Sent {
    #[prost(enumeration = "Reason", tag = "1")]
    reason: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(uint32, tag = "3")]
    min: u32,
    #[prost(uint32, tag = "4")]
    max: u32,
}

/// Why a peer refuses, for a program and for a person.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The reason.
    pub reason: Reason,
    /// One sentence: what is wrong, with its value, and what to do.
    pub message: String,
    /// The versions that the refusing side speaks, if they are the reason.
    pub versions: Option<Versions>,
}

/// The longest message that is kept of a peer's refusal.
const MESSAGE_CHARS: usize = 1000;

impl Refusal {
    /// A refusal with its message.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), versions: None }
    }

    /// The refusal of a peer whose versions are too far away.
    pub fn versions(ours: Versions, theirs: Versions) -> Self {
        let message = format!(
            "the node speaks versions {theirs} of the volume protocol and the store versions {ours}: upgrade the older \
             side, one minor release at a time"
        );
        Self { reason: Reason::Version, message, versions: Some(ours) }
    }

    /// What a server says that has not proven itself.
    pub(crate) fn unproven(self) -> Self {
        let message = format!("the server, which has not proven that it is the store, refuses: {}", self.message);
        Self { reason: Reason::Unproven, message, versions: self.versions }
    }

    /// Whether the same attempt may succeed later without a change of credentials or software.
    pub fn passes(&self) -> bool {
        matches!(self.reason, Reason::Busy | Reason::Stopping | Reason::Other | Reason::Unproven)
    }

    /// The head of a frame that carries this refusal.
    pub fn encode(&self) -> Vec<u8> {
        let versions = self.versions.unwrap_or(Versions { min: 0, max: 0 });
        let (reason, message) = (self.reason.into(), self.message.clone());
        Sent { reason, message, min: versions.min, max: versions.max }.encode_to_vec()
    }

    /// Reads a head. A peer's text goes to logs, so control characters and what is beyond the longest message are left
    /// out. An unreadable head is a refusal without a reason.
    pub fn decode(head: &[u8]) -> Self {
        let Ok(sent) = Sent::decode(head) else {
            return Self::new(Reason::Other, "the peer refused the connection or the call; its reason is unreadable");
        };
        let reason = Reason::try_from(sent.reason).ok().filter(|reason| *reason != Reason::Unproven);
        let reason = reason.unwrap_or(Reason::Other);
        let message = sent.message.chars().filter(|c| !c.is_control()).take(MESSAGE_CHARS).collect();
        let versions = (sent.max != 0).then_some(Versions { min: sent.min, max: sent.max });
        Self { reason, message, versions }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_for_versions_names_both_ranges() {
        let refusal = Refusal::versions(Versions { min: 1, max: 2 }, Versions { min: 4, max: 5 });
        assert_eq!(Refusal::decode(&refusal.encode()), refusal);
        assert!(refusal.message.contains("1 to 2") && refusal.message.contains("4 to 5"), "{refusal}");
        assert!(!refusal.passes());
    }

    #[test]
    fn a_peers_text_cannot_forge_log_lines() {
        let refusal = Refusal::new(Reason::Busy, format!("a\nb\x1b[2J{}", "c".repeat(5000)));
        let read = Refusal::decode(&refusal.encode());
        assert!(read.message.starts_with("ab[2Jc") && read.message.chars().count() == MESSAGE_CHARS);
        assert_eq!(Refusal::decode(b"\xff\xff").reason, Reason::Other);
        let said = Refusal::new(Reason::Unproven, "");
        assert_eq!(Refusal::decode(&said.encode()).reason, Reason::Other, "only this side says so of another");
    }
}
