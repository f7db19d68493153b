//! Records of persistent sessions: mounts that outlive the server, on this machine or on another one.

use prost::Message;

/// The record of a mount's session. It ends with the mount, not with the server.
#[derive(Clone, PartialEq, Message)]
pub struct Session {
    /// The id of the bucket or the snapshot.
    #[prost(uint64, tag = "1")]
    pub bucket: u64,
    /// The name of the bucket or snapshot when it was mounted.
    #[prost(string, tag = "2")]
    pub name: String,
    /// The clone group.
    #[prost(uint64, tag = "3")]
    pub clone_group: u64,
    /// For a snapshot: its branch.
    #[prost(uint32, optional, tag = "4")]
    pub frozen: Option<u32>,
    /// The inode of the directory that is the root of the mount; that directory may have been moved since.
    #[prost(uint64, tag = "5")]
    pub root: u64,
    /// The id of the account whose grant opened the session; zero if it was none, or if an earlier version wrote the
    /// record.
    #[prost(uint64, tag = "6")]
    pub account: u64,
    /// Set for a mount on another machine.
    #[prost(message, optional, tag = "7")]
    pub remote: Option<Remote>,
}

/// What the record of a session has besides if its mount is on another machine.
#[derive(Clone, PartialEq, Message)]
pub struct Remote {
    /// The id that the node chose for the session: 16 bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub id: Vec<u8>,
    /// The name of the node.
    #[prost(string, tag = "2")]
    pub node: String,
    /// Whether the session may only read.
    #[prost(bool, tag = "3")]
    pub read_only: bool,
    /// The epoch of the publication whose ticket opened the session; zero if none did.
    #[prost(uint64, tag = "4")]
    pub epoch: u64,
    /// The name of the account whose key opened the session, if one did.
    #[prost(string, optional, tag = "5")]
    pub account: Option<String>,
    /// The number of the node's process that uses the session; calls of earlier ones are refused.
    #[prost(uint64, tag = "6")]
    pub incarnation: u64,
    /// The number of the exclusive lease of the volume that the session has; zero for none.
    #[prost(uint64, tag = "20")]
    pub lease: u64,
    /// The first inode number that was set aside for the session with its lease.
    #[prost(uint64, tag = "21")]
    pub first_ino: u64,
    /// How many inode numbers were set aside.
    #[prost(uint64, tag = "22")]
    pub inos: u64,
}

/// The record of a session of another machine that ended: no session is opened under its id again.
#[derive(Clone, PartialEq, Message)]
pub struct Ended {
    /// When it ended, in nanoseconds since 1970.
    #[prost(sfixed64, tag = "1")]
    pub at: i64,
}

/// The record of what a request did that must not be done twice. For a request of this machine's kernel it is removed
/// once the kernel is known to have the answer. For a slot of another machine's session it is replaced by the outcome of
/// the slot's next call.
#[derive(Clone, PartialEq, Message)]
pub struct Replay {
    /// The inode that the request concerned; zero if the answer needs none.
    #[prost(uint64, tag = "1")]
    pub ino: u64,
    /// For a slot: the number of the call.
    #[prost(uint64, tag = "2")]
    pub sequence: u64,
    /// For a slot: the digest of the call's content, 16 bytes.
    #[prost(bytes = "vec", tag = "3")]
    pub digest: Vec<u8>,
    /// For a slot: the bytes of the reply.
    #[prost(bytes = "vec", tag = "4")]
    pub reply: Vec<u8>,
    /// For a slot: the number of the kernel's request; zero for none. The kernel sends it again to the node's next process,
    /// which calls from another slot.
    #[prost(uint64, tag = "5")]
    pub unique: u64,
    /// For a slot: the name of the operation.
    #[prost(string, tag = "6")]
    pub operation: String,
    /// For a slot: only the first part of the call is done, the begin of a version; there is no reply yet.
    #[prost(bool, tag = "7")]
    pub is_part: bool,
}

/// The record of undelivered invalidations: entries that mounts have to drop from their caches.
#[derive(Clone, PartialEq, Message)]
pub struct Undelivered {
    /// The session that made the change, and therefore knows of it; zero for changes by others.
    #[prost(uint64, tag = "1")]
    pub origin: u64,
    /// The entries to drop.
    #[prost(message, repeated, tag = "2")]
    pub notices: Vec<Notice>,
}

/// One cache entry to drop.
#[derive(Clone, PartialEq, Message)]
pub struct Notice {
    /// The inode's number; for a name, the number of its directory.
    #[prost(uint64, tag = "1")]
    pub ino: u64,
    /// The name, if a name is to be dropped.
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    /// Whether content is to be dropped, and not only attributes.
    #[prost(bool, tag = "3")]
    pub content: bool,
}
