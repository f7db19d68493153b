//! The position of the scrub.

use prost::Message;

/// The record of the scrub's position; there is one in a store.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Scrub {
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

/// A position in a pass over all blobs, which are visited in ascending order of id.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Place {
    /// The next blob.
    #[prost(uint64, tag = "1")]
    pub blob: u64,
    /// The number of its bytes that were read.
    #[prost(uint64, tag = "2")]
    pub offset: u64,
    /// The number of bytes read in the pass.
    #[prost(uint64, tag = "3")]
    pub read_bytes: u64,
    /// The number of bytes to read when the pass began.
    #[prost(uint64, tag = "4")]
    pub total_bytes: u64,
}
