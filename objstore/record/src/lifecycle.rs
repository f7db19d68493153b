//! The position of the lifecycle worker.

use prost::Message;

/// The record of the lifecycle worker's position; there is one in a store.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Lifecycle {
    /// When the pass in progress, or else the last one, began, in nanoseconds since 1970.
    #[prost(sfixed64, tag = "1")]
    pub started: i64,
    /// When the last complete pass ended, in nanoseconds since 1970; zero if none did.
    #[prost(sfixed64, tag = "2")]
    pub completed: i64,
    /// Where the pass in progress continues; absent between passes.
    #[prost(message, optional, tag = "3")]
    pub place: Option<Place>,
}

/// A position in a pass over all buckets.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Place {
    /// The bucket's id; buckets are visited in ascending order of id.
    #[prost(uint64, tag = "1")]
    pub bucket: u64,
    /// Which part of the bucket is examined: a [`Phase`].
    #[prost(enumeration = "Phase", tag = "2")]
    pub phase: i32,
    /// The prefix that is examined; absent before the first.
    #[prost(string, optional, tag = "3")]
    pub area: Option<String>,
    /// The last item examined below the prefix; absent if none was.
    #[prost(message, optional, tag = "4")]
    pub last: Option<Last>,
}

/// The last item that a pass examined.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Last {
    /// Its key.
    #[prost(string, tag = "1")]
    pub key: String,
    /// For an upload: its id.
    #[prost(string, tag = "2")]
    pub upload: String,
    /// For a version: its order.
    #[prost(uint64, tag = "3")]
    pub order: u64,
    /// For a version: how many noncurrent versions of the key, from the newest to this one, are kept, without delete
    /// markers.
    #[prost(uint32, tag = "4")]
    pub newer: u32,
    /// For a version: when it was made, in nanoseconds since 1970.
    #[prost(sfixed64, tag = "5")]
    pub made: i64,
}

/// Which part of a bucket a pass examines.
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
