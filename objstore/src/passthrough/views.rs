//! Reverse copy-on-write: the blob stays with the file that programs have open by passthrough, and every other view of
//! the inode gets a copy.
//!
//! - Only records of the inode itself, on any branch, refer to a blob that is open by passthrough: copies by reference,
//!   and all other inodes, refer to a copy (`copies`).
//! - The change is on disk before a byte of the blob changes: after a power cut, a snapshot must not refer to bytes
//!   that the file wrote later.

use prost::Message;

use super::duplicate::Duplicate;
use crate::blob::BlobId;
use crate::blob_records::{blob_record, copy_sums, drop_sums, put_blob};
use crate::error::{Error, Result};
use crate::meta::{Pair, Read, Txn};
use crate::record::blob::Blob;
use crate::record::decode;
use crate::record::inode::{BlobContent, Content, Extent, Inode};
use crate::record::key::{self, Branch, CloneGroup};
use crate::scan::all;

/// The view of an inode that keeps its blob.
pub(crate) struct View {
    /// The clone group of the inode.
    pub clone_group: CloneGroup,
    /// The inode.
    pub ino: u64,
    /// The branch of the view.
    pub branch: Branch,
    /// Whether the branch has its own version of the inode, which refers to the blob.
    pub has_own: bool,
}

/// A record that refers to the blob, in its new form.
struct Rewritten {
    key: Vec<u8>,
    value: Vec<u8>,
}

/// Whether an inode's content is this blob.
pub(crate) fn is_content(inode: &Inode, blob: BlobId) -> bool {
    matches!(&inode.content, Some(Content::Blob(content)) if content.id == blob.0)
}

impl View {
    /// Leaves `blob` to this view alone, without checksums, and gives `copy` to every other view of the inode. Returns
    /// the copy's id if it was needed.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the records of the inode are not all that refers to the blob.
    pub fn keep(&self, txn: &mut dyn Txn, blob: BlobId, copy: Duplicate) -> Result<Option<BlobId>> {
        let record = blob_record(&*txn, blob.0)?;
        let others = self.rewritten(&*txn, blob, blob)?;
        let counted = others.len() as u64 + u64::from(self.has_own);
        if u64::from(record.refs) != counted {
            let what = format!("blob {blob}, which a program reads by passthrough");
            return Err(Error::corrupt(what, format!("{counted} references"), record.refs.to_string()));
        }
        let copy = if others.is_empty() { None } else { Some(copy.name(txn)) };
        if let Some(copy) = copy {
            for record in self.rewritten(&*txn, blob, copy)? {
                txn.put(record.key, record.value);
            }
            copy_sums(txn, blob, copy, &record)?;
            put_blob(txn, copy.0, &Blob { refs: u32::try_from(others.len()).unwrap_or(u32::MAX), ..record });
        }
        drop_sums(txn, blob.0, &record);
        put_blob(txn, blob.0, &Blob { refs: 1, length: 0, packed: None, sums: false });
        Ok(copy)
    }

    /// The records of other branches that refer to the blob, now referring to `copy`.
    fn rewritten(&self, read: &dyn Read, blob: BlobId, copy: BlobId) -> Result<Vec<Rewritten>> {
        let mut found = Vec::new();
        let foreign = |pair: &Pair| key::unbranched(&pair.key).is_some_and(|(_, branch)| branch != self.branch);
        for pair in all(read, &key::inode(self.clone_group, self.ino))?.into_iter().filter(foreign) {
            if pair.value.is_empty() {
                continue;
            }
            let mut inode: Inode = decode("an inode", &pair.value)?;
            if is_content(&inode, blob) {
                inode.content = Some(Content::Blob(BlobContent { id: copy.0, in_place: false }));
                found.push(Rewritten { key: pair.key.to_vec(), value: inode.encode_to_vec() });
            }
        }
        for pair in all(read, &key::extents(self.clone_group, self.ino))?.into_iter().filter(foreign) {
            if pair.value.is_empty() {
                continue;
            }
            let extent: Extent = decode("an extent", &pair.value)?;
            if extent.blob == blob.0 {
                let value = Extent { blob: copy.0, ..extent }.encode_to_vec();
                found.push(Rewritten { key: pair.key.to_vec(), value });
            }
        }
        Ok(found)
    }
}
