//! Records of noncurrent versions and delete markers.

use prost::Message;

/// The record of a noncurrent version; the directory entry names the current one.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Version {
    /// The inode with its content; zero for a delete marker.
    #[prost(uint64, tag = "1")]
    pub ino: u64,
    /// When it became noncurrent, in nanoseconds since 1970.
    #[prost(sfixed64, tag = "2")]
    pub created: i64,
    /// Whether its version id is `null`.
    #[prost(bool, tag = "3")]
    pub null: bool,
    /// Always set, so that no version is encoded as an empty value.
    #[prost(bool, tag = "4")]
    pub present: bool,
}
