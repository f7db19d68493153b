//! The record of a restore in progress: the branch that it fills, which stays hidden until it is complete.

use prost::Message;

/// The record of a bucket that is being restored. If it exists when the store is opened, the restore was interrupted:
/// the record is removed, and what was written is collected.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Restore {
    /// The branch being filled.
    #[prost(uint32, tag = "1")]
    pub branch: u32,
    /// The name that the bucket is to have.
    #[prost(string, tag = "2")]
    pub name: String,
    /// When it began, in nanoseconds since 1970.
    #[prost(sfixed64, tag = "3")]
    pub started: i64,
}
