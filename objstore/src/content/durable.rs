//! Making a file's content durable, for operations that promise it.
//!
//! - An in-place blob that a version or a copy came to refer to may hold unsynced bytes. It is synced before a file in
//!   extents gets another in-place blob: from then on only the new one can have unsynced bytes.

use crate::blob::BlobId;
use crate::core::Core;
use crate::error::Result;
use crate::record::inode::Inode;
use crate::tree::Tree;

/// Syncs the content of an inode as its record describes it. Content that is durable already costs nothing.
pub(crate) fn bring_to_disk(core: &Core, tree: Tree<'_>, ino: u64, inode: &Inode) -> Result<()> {
    let blobs = match inode.in_place() {
        Some(in_place) => vec![in_place],
        None => tree.blobs_of(ino, inode)?,
    };
    blobs.into_iter().try_for_each(|blob| core.blobs.sync_file(BlobId(blob)))
}
