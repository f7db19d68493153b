//! The messages. Field numbers are never reused.

use prost::Message;

/// The head of a call.
#[derive(Clone, PartialEq, Message)]
pub struct Call {
    #[prost(uint32, tag = "1")]
    pub operation: u32,
    #[prost(uint64, tag = "2")]
    pub session: u64,
    #[prost(message, optional, tag = "3")]
    pub caller: Option<Caller>,
    #[prost(message, optional, tag = "4")]
    pub request: Option<Request>,
    #[prost(message, optional, tag = "5")]
    pub arguments: Option<Arguments>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct Caller {
    #[prost(uint32, tag = "1")]
    pub uid: u32,
    #[prost(uint32, tag = "2")]
    pub gid: u32,
    #[prost(uint32, tag = "3")]
    pub pid: u32,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct Request {
    #[prost(uint64, tag = "1")]
    pub unique: u64,
    #[prost(bool, tag = "2")]
    pub resent: bool,
}

/// The arguments of all operations; `arguments.rs` says which operation has which.
#[derive(Clone, PartialEq, Message)]
pub struct Arguments {
    #[prost(uint64, tag = "1")]
    pub ino: u64,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(uint64, tag = "3")]
    pub to_ino: u64,
    #[prost(string, tag = "4")]
    pub to_name: String,
    #[prost(uint64, tag = "5")]
    pub offset: u64,
    #[prost(uint64, tag = "6")]
    pub to_offset: u64,
    #[prost(uint64, tag = "7")]
    pub len: u64,
    #[prost(bool, tag = "8")]
    pub flag: bool,
    /// One of a few ways; numbers are in `values.rs`.
    #[prost(uint32, tag = "9")]
    pub choice: u32,
    #[prost(uint32, tag = "10")]
    pub number: u32,
    #[prost(bytes = "vec", tag = "11")]
    pub value: Vec<u8>,
    #[prost(string, optional, tag = "12")]
    pub text: Option<String>,
    #[prost(message, optional, tag = "13")]
    pub owner: Option<Ownership>,
    #[prost(message, optional, tag = "14")]
    pub set: Option<SetAttr>,
    #[prost(message, repeated, tag = "15")]
    pub entries: Vec<Entry>,
    #[prost(uint64, repeated, tag = "16")]
    pub inos: Vec<u64>,
    #[prost(message, optional, tag = "20")]
    pub lock: Option<Lock>,
}

/// A lock, its owner and its request; `locks.rs` says which operation has which fields.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Lock {
    #[prost(uint32, tag = "1")]
    pub kind: u32,
    #[prost(uint32, tag = "2")]
    pub mode: u32,
    #[prost(uint64, tag = "3")]
    pub first: u64,
    #[prost(uint64, tag = "4")]
    pub last: u64,
    #[prost(uint64, tag = "5")]
    pub owner: u64,
    #[prost(uint64, tag = "6")]
    pub handle: u64,
    #[prost(uint32, tag = "7")]
    pub pid: u32,
    #[prost(uint64, tag = "8")]
    pub ticket: u64,
    /// What is closed.
    #[prost(uint32, tag = "9")]
    pub closes: u32,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct Ownership {
    #[prost(uint32, tag = "1")]
    pub uid: u32,
    #[prost(uint32, tag = "2")]
    pub gid: u32,
    #[prost(uint32, tag = "3")]
    pub mode: u32,
    #[prost(uint32, tag = "4")]
    pub umask: u32,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct SetAttr {
    #[prost(uint32, optional, tag = "1")]
    pub mode: Option<u32>,
    #[prost(uint32, optional, tag = "2")]
    pub uid: Option<u32>,
    #[prost(uint32, optional, tag = "3")]
    pub gid: Option<u32>,
    #[prost(uint64, optional, tag = "4")]
    pub size: Option<u64>,
    #[prost(sint64, optional, tag = "5")]
    pub atime: Option<i64>,
    #[prost(sint64, optional, tag = "6")]
    pub mtime: Option<i64>,
    #[prost(bool, tag = "7")]
    pub touches: bool,
    #[prost(bool, tag = "8")]
    pub kill_privileges: bool,
    #[prost(bool, tag = "9")]
    pub outsider: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct Entry {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(uint64, tag = "2")]
    pub ino: u64,
    #[prost(uint32, tag = "3")]
    pub kind: u32,
}

/// The head of a reply.
#[derive(Clone, PartialEq, Message)]
pub struct Reply {
    /// The type of the value; 0 for a failure.
    #[prost(uint32, tag = "1")]
    pub kind: u32,
    #[prost(bool, tag = "2")]
    pub recorded: bool,
    #[prost(message, optional, tag = "3")]
    pub failure: Option<Failure>,
    #[prost(message, repeated, tag = "4")]
    pub attrs: Vec<Looked>,
    #[prost(uint64, optional, tag = "5")]
    pub number: Option<u64>,
    #[prost(string, optional, tag = "6")]
    pub text: Option<String>,
    #[prost(string, repeated, tag = "7")]
    pub texts: Vec<String>,
    #[prost(message, repeated, tag = "8")]
    pub entries: Vec<Entry>,
    #[prost(bytes = "vec", optional, tag = "9")]
    pub acl: Option<Vec<u8>>,
    #[prost(message, optional, tag = "10")]
    pub space: Option<Space>,
    #[prost(message, optional, tag = "20")]
    pub lock: Option<Lock>,
    #[prost(uint64, repeated, tag = "21")]
    pub inos: Vec<u64>,
}

/// Attributes, or why there are none.
#[derive(Clone, PartialEq, Message)]
pub struct Looked {
    #[prost(message, optional, tag = "1")]
    pub attr: Option<Attr>,
    #[prost(message, optional, tag = "2")]
    pub failure: Option<Failure>,
}

/// Attributes. Tag 14 was a number that entity tags are made of, which no mount shows.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Attr {
    #[prost(uint64, tag = "1")]
    pub ino: u64,
    #[prost(uint32, tag = "2")]
    pub kind: u32,
    #[prost(uint32, tag = "3")]
    pub mode: u32,
    #[prost(uint32, tag = "4")]
    pub uid: u32,
    #[prost(uint32, tag = "5")]
    pub gid: u32,
    #[prost(uint32, tag = "6")]
    pub nlink: u32,
    #[prost(uint64, tag = "7")]
    pub size: u64,
    #[prost(uint64, tag = "8")]
    pub blocks: u64,
    #[prost(uint32, tag = "9")]
    pub rdev: u32,
    #[prost(sint64, tag = "10")]
    pub atime: i64,
    #[prost(sint64, tag = "11")]
    pub mtime: i64,
    #[prost(sint64, tag = "12")]
    pub ctime: i64,
    #[prost(sint64, tag = "13")]
    pub btime: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct Space {
    #[prost(uint64, tag = "1")]
    pub total_bytes: u64,
    #[prost(uint64, tag = "2")]
    pub used_bytes: u64,
    #[prost(uint64, tag = "3")]
    pub free_bytes: u64,
    #[prost(uint64, tag = "4")]
    pub inodes: u64,
}

/// An error. `failure.rs` says which kind has which fields.
#[derive(Clone, PartialEq, Message)]
pub struct Failure {
    #[prost(uint32, tag = "1")]
    pub kind: u32,
    /// The kind of the resource, or the POSIX error.
    #[prost(uint32, tag = "2")]
    pub detail: u32,
    #[prost(string, repeated, tag = "3")]
    pub texts: Vec<String>,
    #[prost(sint64, repeated, tag = "4")]
    pub times: Vec<i64>,
    #[prost(uint64, repeated, tag = "5")]
    pub numbers: Vec<u64>,
    #[prost(string, optional, tag = "6")]
    pub marker: Option<String>,
    /// The number of the system's error.
    #[prost(sint32, optional, tag = "7")]
    pub system: Option<i32>,
}

/// A part of a batch of changes.
#[derive(Clone, PartialEq, Message)]
pub struct Changes {
    #[prost(message, repeated, tag = "1")]
    pub changes: Vec<Change>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Change {
    #[prost(uint32, tag = "1")]
    pub kind: u32,
    #[prost(uint64, tag = "2")]
    pub ino: u64,
    #[prost(string, tag = "3")]
    pub name: String,
}

/// A session.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct About {
    #[prost(uint64, tag = "1")]
    pub number: u64,
    /// Zero for none.
    #[prost(uint64, tag = "2")]
    pub id: u64,
    #[prost(bool, tag = "3")]
    pub inherited: bool,
    #[prost(uint32, tag = "4")]
    pub life: u32,
    #[prost(uint64, tag = "5")]
    pub root: u64,
    #[prost(uint64, tag = "6")]
    pub bucket_id: u64,
    #[prost(bool, tag = "7")]
    pub read_only: bool,
}
