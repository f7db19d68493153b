//! The position of the scrub.

use prost::Message;

/// The scrub's place; there is one record of it.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Scrub {
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

/// A place in a pass over all blobs, which are visited by rising id.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Place {
    /// The next blob.
    #[prost(uint64, tag = "1")]
    pub blob: u64,
    /// How much of it was read.
    #[prost(uint64, tag = "2")]
    pub offset: u64,
    /// Bytes read in the pass.
    #[prost(uint64, tag = "3")]
    pub read_bytes: u64,
    /// Bytes there were to read when the pass began.
    #[prost(uint64, tag = "4")]
    pub total_bytes: u64,
}
