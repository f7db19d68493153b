//! The folders of blob files.

use std::path::{Path, PathBuf};

use super::id::BlobId;

/// The number of folders of blob files, by the low byte of the id.
pub(super) const SHARDS: usize = 256;

/// The path of the file of `id` below `dir`.
pub(super) fn path(dir: &Path, id: BlobId) -> PathBuf {
    dir.join(shard_name(shard(id))).join(id.to_string())
}

/// The number of the folder of `id`.
pub(super) fn shard(id: BlobId) -> usize {
    (id.0 & 0xff) as usize
}

/// The name of a folder.
pub(super) fn shard_name(shard: usize) -> String {
    format!("{shard:02x}")
}
