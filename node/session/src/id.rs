//! Names and numbers that a node and a store share.

/// The id of a session: random, chosen by the node, so that opening a session twice opens it once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u128);

/// The number of a store's opening. It is recorded, and rises with each opening.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Boot(pub u64);

/// The number of a node's process within one session. A later process supersedes the earlier ones, whose calls are
/// refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(pub u64);

/// A call that changes something: a slot of a session, and the number of the call in that slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId {
    /// The slot.
    pub slot: u32,
    /// The number; rises with each call of the slot and never repeats.
    pub sequence: u64,
}

/// A digest of a call's content, which tells a resent call from another one under the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 16]);

/// A position in the store's log. Positions of a later opening are behind all positions of earlier ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The opening in which the change was committed.
    pub boot: Boot,
    /// The number of the commit.
    pub commit: u64,
}
