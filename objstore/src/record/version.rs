//! Records of noncurrent versions and delete markers.

use prost::Message;

/// A version beside the dirent, which names the current one.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Version {
    /// The inode that holds it; zero for a delete marker.
    #[prost(uint64, tag = "1")]
    pub ino: u64,
    /// When it became a version, nanoseconds since 1970.
    #[prost(sfixed64, tag = "2")]
    pub created: i64,
    /// Whether its id is `null`.
    #[prost(bool, tag = "3")]
    pub null: bool,
    /// Always set, so that no version is an empty value.
    #[prost(bool, tag = "4")]
    pub present: bool,
}
