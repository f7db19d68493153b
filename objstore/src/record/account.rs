//! Records of accounts, keys, grants and publications.

use prost::Message;

use super::creator::Creator;

/// An account.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Account {
    /// Never used twice.
    #[prost(uint64, tag = "1")]
    pub id: u64,
    /// Whether it may create buckets through S3.
    #[prost(bool, tag = "2")]
    pub may_create_buckets: bool,
    /// Whether it is root.
    #[prost(bool, tag = "3")]
    pub root: bool,
    /// Made, nanoseconds since 1970.
    #[prost(sfixed64, tag = "4")]
    pub created: i64,
    /// Who made it.
    #[prost(enumeration = "Creator", tag = "5")]
    pub creator: i32,
}

/// An access key.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Key {
    /// The account's id.
    #[prost(uint64, tag = "1")]
    pub account: u64,
    /// The secret, sealed.
    #[prost(bytes = "vec", tag = "2")]
    pub sealed: Vec<u8>,
    /// Counts the secrets the key had; bound into the seal.
    #[prost(uint32, tag = "3")]
    pub version: u32,
    /// Made, nanoseconds since 1970.
    #[prost(sfixed64, tag = "4")]
    pub created: i64,
}

/// A grant.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Grant {
    /// What it allows.
    #[prost(enumeration = "GrantMode", tag = "1")]
    pub mode: i32,
}

/// What a grant allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum GrantMode {
    /// Not set: nothing.
    None = 0,
    /// Get and list.
    Read = 1,
    /// Put and delete.
    Write = 2,
    /// Both.
    ReadWrite = 3,
    /// Both, and the bucket itself.
    Owner = 4,
}

/// That a volume is attached to a node.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Publication {
    /// Whether the node may only read.
    #[prost(bool, tag = "1")]
    pub read_only: bool,
    /// The capability asked for.
    #[prost(string, tag = "2")]
    pub capability: String,
}
