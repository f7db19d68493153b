//! Records of persistent sessions: mounts that outlive the server.

use prost::Message;

/// A mount's session. It ends with the mount, not with the server.
#[derive(Clone, PartialEq, Message)]
pub struct Session {
    /// The bucket's id; of a snapshot, the id of the snapshot.
    #[prost(uint64, tag = "1")]
    pub bucket: u64,
    /// The name it was opened by.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Its family.
    #[prost(uint64, tag = "3")]
    pub family: u64,
    /// The branch of a snapshot.
    #[prost(uint32, optional, tag = "4")]
    pub frozen: Option<u32>,
    /// The inode of the directory that is the mount's root, wherever that is by now.
    #[prost(uint64, tag = "5")]
    pub root: u64,
    /// The id of the account whose grant opened it; zero: nobody's, or an earlier version wrote the record.
    #[prost(uint64, tag = "6")]
    pub account: u64,
}

/// What a request did that must not be done twice. It goes once the request is known to be answered.
#[derive(Clone, PartialEq, Message)]
pub struct Replay {
    /// The inode it was about; zero if the answer needs none.
    #[prost(uint64, tag = "1")]
    pub ino: u64,
}

/// What mounts have to forget and may not have been told.
#[derive(Clone, PartialEq, Message)]
pub struct Owed {
    /// The session that made the change, which knows of it; zero for others.
    #[prost(uint64, tag = "1")]
    pub origin: u64,
    /// What to forget.
    #[prost(message, repeated, tag = "2")]
    pub notices: Vec<Notice>,
}

/// One of the things to forget.
#[derive(Clone, PartialEq, Message)]
pub struct Notice {
    /// The inode; of a name, its directory's.
    #[prost(uint64, tag = "1")]
    pub ino: u64,
    /// The name.
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    /// Whether the content is meant, and not only the attributes.
    #[prost(bool, tag = "3")]
    pub content: bool,
}
