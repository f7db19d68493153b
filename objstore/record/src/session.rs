//! Records of persistent sessions: mounts that outlive the server.

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
}

/// The record of what a request did that must not be done twice. It is removed once the client is known to have the
/// answer.
#[derive(Clone, PartialEq, Message)]
pub struct Replay {
    /// The inode that the request concerned; zero if the answer needs none.
    #[prost(uint64, tag = "1")]
    pub ino: u64,
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
