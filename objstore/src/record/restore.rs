//! The record of a restore in progress: the branch that it fills, which stays hidden until it is complete.

use prost::Message;

/// A bucket that is being restored. An opening of the store that finds this ends it: what was written is collected.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Restore {
    /// The branch being filled.
    #[prost(uint32, tag = "1")]
    pub branch: u32,
    /// The name the bucket is to get.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Begun, nanoseconds since 1970.
    #[prost(sfixed64, tag = "3")]
    pub started: i64,
}
