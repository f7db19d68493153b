//! The position of the lifecycle worker.

use prost::Message;

/// The worker's place; there is one record of it.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Lifecycle {
    /// When the pass under way, or else the last one, began: nanoseconds since 1970.
    #[prost(sfixed64, tag = "1")]
    pub started: i64,
    /// When the last whole pass ended; zero if none did.
    #[prost(sfixed64, tag = "2")]
    pub completed: i64,
    /// Where the pass under way goes on; absent between two passes.
    #[prost(message, optional, tag = "3")]
    pub place: Option<Place>,
}

/// A place in a pass over all buckets.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Place {
    /// The bucket's id; buckets are visited by rising id.
    #[prost(uint64, tag = "1")]
    pub bucket: u64,
    /// What of the bucket is looked at.
    #[prost(enumeration = "Phase", tag = "2")]
    pub phase: i32,
    /// The prefix being looked at; absent before the first.
    #[prost(string, optional, tag = "3")]
    pub area: Option<String>,
    /// The last thing looked at below the prefix; absent if nothing was.
    #[prost(message, optional, tag = "4")]
    pub last: Option<Last>,
}

/// The last thing looked at.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Last {
    /// Its key.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Of an upload: its id.
    #[prost(string, tag = "2")]
    pub upload: String,
    /// Of a version: its order.
    #[prost(uint64, tag = "3")]
    pub order: u64,
    /// Of a version: how many noncurrent versions of the key down to it stay, without delete markers.
    #[prost(uint32, tag = "4")]
    pub newer: u32,
    /// Of a version: when it was made, nanoseconds since 1970.
    #[prost(sfixed64, tag = "5")]
    pub made: i64,
}

/// What of a bucket a pass looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Phase {
    /// Current versions.
    Keys = 0,
    /// Noncurrent versions and delete markers.
    Versions = 1,
    /// Multipart uploads.
    Uploads = 2,
}
