//! The messages of the simulated service, carried in real frames of `node-wire`.

use bytes::Bytes;
use node_wire::frame::Frame;
use node_wire::header::{Kind as FrameKind, Role};
use prost::Message;

use crate::{Boot, CallId, Digest, Position};

/// What a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub(super) enum Kind {
    None = 0,
    /// Node: open a session, or go on with it. Store: the answer.
    Resume = 1,
    /// Node: everything is reclaimed. Store: noted.
    Reclaimed = 2,
    Renew = 3,
    /// A change in a slot; the answer.
    Change = 4,
    /// A change that the store lost; the answer.
    Replay = 5,
    Read = 6,
    /// Node: applied up to a number.
    Acknowledge = 7,
    /// Node: deliver again. Store: a change of another party.
    Deliver = 8,
    Sync = 9,
    Relock = 10,
    /// Node: asks for the volume. Store: grants it.
    Exclusive = 11,
    /// Store: wants it back. Node: returns it.
    Recall = 12,
    NoSession = 13,
}

/// What is done to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub(super) enum Act {
    None = 0,
    /// Append a token to the list of a file.
    Append = 1,
    /// Create a file that must not exist; the token is its content.
    Create = 2,
    /// Under the lock: raise the guarded number to this value.
    Raise = 3,
    /// Take the lock that guards the number.
    Lock = 4,
    Unlock = 5,
}

/// A change.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Op {
    #[prost(enumeration = "Act", tag = "1")]
    pub(super) act: i32,
    #[prost(uint64, tag = "2")]
    pub(super) file: u64,
    /// The token, unique in the whole run; or the value; or the program that locks.
    #[prost(uint64, tag = "3")]
    pub(super) token: u64,
}

impl Op {
    pub(super) fn new(act: Act, file: u64, token: u64) -> Self {
        Self { act: act.into(), file, token }
    }

    pub(super) fn digest(&self) -> Digest {
        let mut bytes = [0; 16];
        let words = self.token.wrapping_mul(64).wrapping_add(self.file * 8 + u64::from(self.act.unsigned_abs()));
        bytes[..8].copy_from_slice(&words.to_le_bytes());
        Digest(bytes)
    }
}

/// A recorded call.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Recorded {
    #[prost(uint32, tag = "1")]
    pub(super) slot: u32,
    #[prost(uint64, tag = "2")]
    pub(super) sequence: u64,
    #[prost(bytes = "bytes", tag = "3")]
    pub(super) digest: Bytes,
}

/// A message; each kind uses some of the fields.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Packet {
    #[prost(enumeration = "Kind", tag = "1")]
    pub(super) kind: i32,
    #[prost(uint64, tag = "2")]
    pub(super) session: u64,
    #[prost(uint64, tag = "3")]
    pub(super) incarnation: u64,
    #[prost(uint32, tag = "4")]
    pub(super) slot: u32,
    #[prost(uint64, tag = "5")]
    pub(super) sequence: u64,
    /// A number of a change, a grant or a read; or the node's time, which is sent back.
    #[prost(uint64, tag = "6")]
    pub(super) number: u64,
    #[prost(uint64, tag = "7")]
    pub(super) boot: u64,
    #[prost(uint64, tag = "8")]
    pub(super) commit: u64,
    /// The position up to which the store has synced.
    #[prost(uint64, tag = "9")]
    pub(super) synced: u64,
    /// How many changes of others the answer includes.
    #[prost(uint64, tag = "10")]
    pub(super) included: u64,
    /// The result of a change; nonzero for "yes".
    #[prost(uint64, tag = "11")]
    pub(super) result: u64,
    #[prost(message, optional, tag = "12")]
    pub(super) op: Option<Op>,
    #[prost(uint64, repeated, tag = "13")]
    pub(super) tokens: Vec<u64>,
    #[prost(message, repeated, tag = "14")]
    pub(super) recorded: Vec<Recorded>,
    /// How long ago the lease was renewed, in microseconds, if the answer to a resumption does not renew it.
    #[prost(uint64, tag = "15")]
    pub(super) age: u64,
}

impl Packet {
    pub(super) fn new(kind: Kind) -> Self {
        Self { kind: kind.into(), ..Self::default() }
    }

    pub(super) fn call(&self) -> CallId {
        CallId { slot: self.slot, sequence: self.sequence }
    }

    pub(super) fn with_call(self, call: CallId) -> Self {
        Self { slot: call.slot, sequence: call.sequence, ..self }
    }

    pub(super) fn position(&self) -> Position {
        Position { boot: Boot(self.boot), commit: self.commit }
    }

    /// The bytes of a whole frame.
    pub(super) fn encode(&self) -> Bytes {
        let kind = if self.kind() == Kind::Deliver { FrameKind::Notice } else { FrameKind::Request };
        Frame::new(kind, Role::Control, self.encode_to_vec()).encode()
    }

    /// Reads a whole frame.
    pub(super) fn decode(bytes: &Bytes) -> Self {
        let (frame, rest) = Frame::decode(bytes, Role::Control.bounds()).expect("a frame of the simulation");
        assert!(rest.is_empty());
        Self::decode_head(frame.head)
    }

    fn decode_head(head: Bytes) -> Self {
        Message::decode(head).expect("a message of the simulation")
    }
}
