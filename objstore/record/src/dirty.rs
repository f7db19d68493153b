//! The record of a dirty file: it is written in place, and its inode's record may be out of date.

use prost::Message;

/// The record of a dirty file. While it exists:
/// - The size of the inode is that of its in-place blob, and at least what the inode's record says.
/// - Its modification time is the blob's, if that is later.
/// - Its content may have changed since its generation last rose.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct DirtyFile {
    /// The in-place blob.
    #[prost(uint64, tag = "1")]
    pub blob: u64,
    /// Whether the in-place blob contains all of the content. If not, the rest is in extents, and the size is what the
    /// inode's record says.
    #[prost(bool, tag = "2")]
    pub whole: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode;

    #[test]
    fn a_dirty_file_round_trips_and_a_changed_byte_never_panics() {
        let dirty = DirtyFile { blob: 1 << 40 | 7, whole: true };
        let bytes = dirty.encode_to_vec();
        assert_eq!(decode::<DirtyFile>("a dirty file", &bytes).unwrap(), dirty);
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x55;
            // The flag `whole` has many valid encodings.
            if let Ok(read) = decode::<DirtyFile>("a dirty file", &damaged) {
                assert!(read != dirty || at + 1 == bytes.len(), "byte {at}");
            }
        }
    }
}
