//! What surrounds a call on the wire, and the messages of a session: opening, renewal, changes and their acknowledgement.
//!
//! Fields can be added, as in every head; a number is never reused.

use bytes::Bytes;
use objstore_base::error::Result;
use objstore_files::{Attr, Traits};
use prost::{Message, Oneof};

use crate::bounds::refused;
use crate::message;
use crate::values::attr;

/// The head of a call on the connections for calls and transfers.
#[derive(Clone, PartialEq, Message)]
pub struct Sent {
    /// The process of the node.
    #[prost(uint64, tag = "1")]
    pub incarnation: u64,
    /// The slot.
    #[prost(uint32, tag = "2")]
    pub slot: u32,
    /// The number of the call in its slot; 0 for a call that changes nothing and takes no slot.
    #[prost(uint64, tag = "3")]
    pub sequence: u64,
    /// Whether the node sent it before and got no answer.
    #[prost(bool, tag = "4")]
    pub again: bool,
    /// The call: [`encode_call`](crate::encode_call).
    #[prost(bytes = "bytes", tag = "5")]
    pub call: Bytes,
    /// In place of a call: changes that the node has answered under a lease of the volume, in their order. Their bytes lie
    /// behind each other in the payload. At most [`QUEUED_PER_CALL`].
    #[prost(message, repeated, tag = "20")]
    pub queued: Vec<Queued>,
    /// The number of the last such change that failed: it is not made any more. Zero if none did.
    #[prost(uint64, tag = "21")]
    pub passed: u64,
}

/// A change that the node has answered before the store makes it.
#[derive(Clone, PartialEq, Message)]
pub struct Queued {
    /// Its number: higher than that of the change before it.
    #[prost(uint64, tag = "1")]
    pub number: u64,
    /// The number of the inode that it makes; zero if it makes none.
    #[prost(uint64, tag = "2")]
    pub ino: u64,
    /// The time that the node has answered, in nanoseconds since 1970.
    #[prost(sint64, tag = "3")]
    pub at: i64,
    /// How many bytes of the payload are its own.
    #[prost(uint32, tag = "4")]
    pub len: u32,
    /// The call: [`encode_call`](crate::encode_call).
    #[prost(bytes = "bytes", tag = "5")]
    pub call: Bytes,
}

/// The head of an answer to a call.
#[derive(Clone, PartialEq, Message)]
pub struct Answered {
    /// The opening of the store that executed the call.
    #[prost(uint64, tag = "1")]
    pub boot: u64,
    /// The reply: [`encode_reply`](crate::encode_reply). A reply that is too long for a head is the payload instead, and
    /// this is empty.
    #[prost(bytes = "bytes", tag = "2")]
    pub reply: Bytes,
    /// Whether the bucket has versioning or had it, told with the answer to a call that opened a file for writing: one of
    /// [`NEVER_VERSIONED`] and [`VERSIONED`]. 0: not told, so the node asks.
    #[prost(uint32, tag = "3")]
    pub versions: u32,
    /// The attributes that inodes besides that of the reply have after the call: see [`Answered::with_attrs`].
    #[prost(message, repeated, tag = "4")]
    pub attrs: Vec<message::Attr>,
    /// What the inodes of the reply do not have, in their order there: see [`Answered::with_traits`].
    #[prost(uint32, repeated, tag = "5")]
    pub traits: Vec<u32>,
    /// In the answer to changes that the node had answered: the number of the last one that is made. The reply is that of the
    /// next one, if it failed.
    #[prost(uint64, tag = "20")]
    pub made: u64,
    /// In the same answer: the attributes of the files that were changed, at most [`QUEUED_PER_CALL`].
    #[prost(message, repeated, tag = "21")]
    pub after: Vec<message::Attr>,
}

impl Answered {
    /// Tells what attributes the call left: of the directories whose names it changed, or of the file that it wrote. The kernel
    /// asks for them next.
    #[must_use]
    pub fn with_attrs(self, attrs: &[Attr]) -> Self {
        Self { attrs: attrs.iter().take(ATTRS_MAX).map(|attr| (*attr).into()).collect(), ..self }
    }

    /// Tells what attributes the changes left that the node had answered.
    #[must_use]
    pub fn with_after(self, attrs: &[Attr]) -> Self {
        Self { after: attrs.iter().take(QUEUED_PER_CALL).map(|attr| (*attr).into()).collect(), ..self }
    }

    /// The attributes that changes left which the node had answered; those that cannot be read are left out.
    pub fn after(&self) -> Vec<Attr> {
        self.after.iter().take(QUEUED_PER_CALL).filter_map(|told| attr(*told).ok()).collect()
    }

    /// Tells what the inodes of the reply do not have: capabilities, protection and ACLs. The kernel asks for them before it
    /// writes to a file, or shows it.
    #[must_use]
    pub fn with_traits(self, traits: &[Traits]) -> Self {
        Self { traits: traits.iter().take(LOOKUPS_PER_CALL).map(|traits| bits(*traits)).collect(), ..self }
    }

    /// What the inodes of the reply do not have; those beyond the end are left out.
    pub fn traits(&self) -> Vec<Traits> {
        self.traits.iter().take(LOOKUPS_PER_CALL).map(|told| of_bits(*told)).collect()
    }

    /// The attributes that the call left; those that cannot be read are left out.
    pub fn attrs(&self) -> Vec<Attr> {
        self.attrs.iter().take(ATTRS_MAX).filter_map(|told| attr(*told).ok()).collect()
    }
}

fn bits(traits: Traits) -> u32 {
    let Traits { no_capabilities, no_protection, no_access_acl, no_default_acl } = traits;
    [no_capabilities, no_protection, no_access_acl, no_default_acl]
        .iter()
        .rev()
        .fold(0, |bits, has_none| bits << 1 | u32::from(*has_none))
}

/// Bits of a later release are left out.
fn of_bits(bits: u32) -> Traits {
    let [no_capabilities, no_protection, no_access_acl, no_default_acl] = [1, 2, 4, 8].map(|bit| bits & bit != 0);
    Traits { no_capabilities, no_protection, no_access_acl, no_default_acl }
}

/// The most attributes in one answer: those of the two directories of a rename.
const ATTRS_MAX: usize = 2;

/// The bucket never had versioning.
pub const NEVER_VERSIONED: u32 = 1;
/// The bucket has versioning, or had it.
pub const VERSIONED: u32 = 2;

/// The head of a call on the control connection.
#[derive(Clone, PartialEq, Message)]
pub struct Control {
    /// What the node asks for.
    #[prost(oneof = "Ask", tags = "1, 2, 3, 4, 5, 20, 21")]
    pub ask: Option<Ask>,
}

/// What a node asks for.
#[derive(Clone, PartialEq, Oneof)]
pub enum Ask {
    /// Open the session, or go on with it; answered with [`Opened`].
    #[prost(message, tag = "1")]
    Open(Open),
    /// Renew the lease; answered with [`Renewed`].
    #[prost(message, tag = "2")]
    Renew(Renew),
    /// Deliver the changes of others, on this connection from now on.
    #[prost(message, tag = "3")]
    Follow(Nothing),
    /// End the changes.
    #[prost(message, tag = "4")]
    Unfollow(Nothing),
    /// End the session: the mount is gone.
    #[prost(message, tag = "5")]
    End(Nothing),
    /// Lease the volume to this session alone; answered with [`Leased`].
    #[prost(message, tag = "20")]
    Lease(Nothing),
    /// Give the lease with this number back: nothing is left to be made.
    #[prost(message, tag = "21")]
    GiveBack(GiveBack),
}

/// Gives an exclusive lease back.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct GiveBack {
    /// Its number.
    #[prost(uint64, tag = "1")]
    pub grant: u64,
}

/// The answer to the request for an exclusive lease.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Leased {
    /// The number of the lease; zero if it is not granted now.
    #[prost(uint64, tag = "1")]
    pub grant: u64,
    /// The first inode number that is set aside.
    #[prost(uint64, tag = "2")]
    pub first_ino: u64,
    /// How many are.
    #[prost(uint64, tag = "3")]
    pub inos: u64,
    /// The time at the store, in nanoseconds since 1970.
    #[prost(sint64, tag = "4")]
    pub now: i64,
    /// How many more bytes of content fit.
    #[prost(uint64, tag = "5")]
    pub free_bytes: u64,
    /// The number of the last change of the session that was made under a lease: it counts on behind it.
    #[prost(uint64, tag = "6")]
    pub made: u64,
}

/// No fields yet.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Nothing {}

/// Opens a session, whose id and credential the connection has shown.
#[derive(Clone, PartialEq, Message)]
pub struct Open {
    /// The process of the node.
    #[prost(uint64, tag = "1")]
    pub incarnation: u64,
    /// Whether the session was open before: if the store does not have it, it is lost.
    #[prost(bool, tag = "2")]
    pub resumes: bool,
    /// The bucket; empty if the ticket names it.
    #[prost(string, tag = "3")]
    pub bucket: String,
    /// Whether the node will change nothing.
    #[prost(bool, tag = "4")]
    pub read_only: bool,
    /// The directory of the bucket that becomes the root; empty for the whole bucket.
    #[prost(string, tag = "5")]
    pub prefix: String,
}

/// The session is open.
#[derive(Clone, PartialEq, Message)]
pub struct Opened {
    /// The session: [`encode_about`](crate::encode_about).
    #[prost(bytes = "bytes", tag = "1")]
    pub about: Bytes,
    /// The opening of the store.
    #[prost(uint64, tag = "2")]
    pub boot: u64,
    /// The lease in milliseconds.
    #[prost(uint32, tag = "3")]
    pub lease_ms: u32,
    /// How many slots the session has.
    #[prost(uint32, tag = "4")]
    pub slots: u32,
    /// The number up to which the node has acknowledged changes: for a process that takes the session over.
    #[prost(uint64, tag = "5")]
    pub acknowledged: u64,
    /// How many milliseconds ago the lease was renewed: 0 if the opening renewed it. It does not while changes wait for this
    /// session's acknowledgement for too long.
    #[prost(uint32, tag = "6")]
    pub age_ms: u32,
    /// The highest number of a call in any slot: a process that takes the session over counts on behind it.
    #[prost(uint64, tag = "7")]
    pub last: u64,
    /// The first slot of this process of the node: each has slots of its own.
    #[prost(uint32, tag = "8")]
    pub first_slot: u32,
    /// Whether the store keeps file locks. A release before it did says nothing.
    #[prost(bool, tag = "20")]
    pub keeps_locks: bool,
    /// Whether the store leases volumes to sessions that are alone: [`Ask::Lease`]. A release before it did says nothing.
    #[prost(bool, tag = "21")]
    pub leases: bool,
}

/// Renews the lease.
#[derive(Clone, PartialEq, Message)]
pub struct Renew {
    /// The process of the node.
    #[prost(uint64, tag = "1")]
    pub incarnation: u64,
    /// Requests of the kernel whose recorded outcomes may be removed.
    #[prost(uint64, repeated, tag = "2")]
    pub answered: Vec<u64>,
}

/// The answer to a renewal.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Renewed {
    /// Whether the lease is renewed. It is not while changes wait for this session's acknowledgement for too long.
    #[prost(bool, tag = "1")]
    pub renewed: bool,
}

/// Changes of others, as a notice of the store.
#[derive(Clone, PartialEq, Message)]
pub struct Delivered {
    /// The opening of the store, which counts from 1.
    #[prost(uint64, tag = "1")]
    pub boot: u64,
    /// The number, without gaps.
    #[prost(uint64, tag = "2")]
    pub number: u64,
    /// The changes: [`encode_changes`](crate::encode_changes).
    #[prost(bytes = "bytes", tag = "3")]
    pub changes: Bytes,
    /// 1 for the end of the changes, 2 for an end because changes were lost.
    #[prost(uint32, tag = "4")]
    pub end: u32,
}

/// The changes ended.
pub const ENDED: u32 = 1;
/// The changes ended because some were lost.
pub const LOST: u32 = 2;

/// The node has applied all changes up to a number, as a notice of the node.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Acknowledged {
    /// The opening of the store.
    #[prost(uint64, tag = "1")]
    pub boot: u64,
    /// The number.
    #[prost(uint64, tag = "2")]
    pub number: u64,
}

/// The most names in one [`lookup_all`](objstore_files::Files::lookup_all): its reply is kept until its slot is used again.
pub const LOOKUPS_PER_CALL: usize = 256;

/// The most changes that a node has answered in one call: with the attributes that they leave, the answer fits into a head.
pub const QUEUED_PER_CALL: usize = 100;

/// The most requests in one renewal.
pub const ANSWERED_MAX: usize = 4096;

/// Reads a message of a session. The frame that carried it bounds its length.
///
/// # Errors
/// [`Error::Invalid`](objstore_base::error::Error::Invalid) if the bytes are none.
pub fn read<M: Message + Default>(head: Bytes) -> Result<M> {
    M::decode(head).map_err(|error| refused("message of a session", "", error.to_string()))
}

/// The bytes of a message of a session.
pub fn write(message: &impl Message) -> Bytes {
    message.encode_to_vec().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traits_are_told_as_they_are_and_those_of_a_later_release_are_not() {
        let all: Vec<Traits> = (0..16).map(of_bits).collect();
        let told = Answered::default().with_traits(&all);
        let told: Answered = read(write(&told)).expect("an answer");
        assert_eq!((told.traits(), told.traits), (all, (0..16).collect()));
        assert_eq!(of_bits(16), Traits::default());
    }
}
