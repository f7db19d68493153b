//! Reverse copy-on-write: the blob stays with the file that programs have open by passthrough, and every other view of
//! the inode gets a copy.
//!
//! - Only records of the inode itself, on any branch, refer to a blob that is open by passthrough: copies by reference,
//!   and all other inodes, refer to a copy (`passthrough`).
//! - The change is on disk before a byte of the blob changes: after a power cut, a snapshot must not refer to bytes
//!   that the file wrote later.
//! - Readers that began before continue with the copy (`readers`).

use std::sync::Arc;

use prost::Message;

use super::refs::{blob as blob_record, drop_sums, put_blob};
use crate::blob::BlobId;
use crate::core::Core;
use crate::error::{Error, Posix, Result};
use crate::meta::Pair;
use crate::record::blob::Blob;
use crate::record::decode;
use crate::record::inode::{BlobContent, Content, Extent, Inode};
use crate::record::key::{self, Branch};
use crate::scan::all;
use crate::state::Duplicate;
use crate::tree::Tx;

/// A copy of a blob that a program may write through a mapping, for an operation that is about to share its content.
pub(crate) struct DetachedCopy {
    ino: u64,
    blob: BlobId,
    copy: Duplicate,
}

impl DetachedCopy {
    /// The copies for all such blobs of a bucket whose gate is locked.
    pub fn of_bucket(core: &Arc<Core>, bucket: u64) -> Result<Vec<Self>> {
        let mapped_writable =
            core.passthrough.mapped_writable_of(bucket).into_iter().map(|(ino, blob, file)| {
                Ok(Self { ino, blob, copy: Duplicate::of(&core.blobs, &*file, file.len()?)? })
            });
        mapped_writable.collect()
    }

    /// Gives the copies to all branches except the live branch of `tx`.
    pub fn part(all: Vec<Self>, tx: &mut Tx<'_>) -> Result<()> {
        for Self { ino, blob, copy } in all {
            let kept = tx.attempt(|tx| tx.keep_blob(ino, blob, copy).map(|(_, copy)| copy));
            match kept {
                Ok(Some(copy)) => {
                    let core = tx.core.clone();
                    tx.txn.after_commit(Box::new(move || core.readers.redirect(blob, copy)));
                }
                // It was unlinked, or has other content now.
                Ok(None) | Err(Error::Busy { .. } | Error::Posix(Posix::Stale)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// A record that refers to the blob, in its new form.
struct Rewritten {
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Tx<'_> {
    /// Gives a copy of `blob` to every other view of the inode, and makes the blob the inode's in-place blob on this
    /// branch. Returns the inode, and the copy's id if it was needed.
    ///
    /// # Errors
    /// [`Error::Busy`] if the inode's content is no longer the blob.
    pub fn keep_blob(&mut self, ino: u64, blob: BlobId, copy: Duplicate) -> Result<(Inode, Option<BlobId>)> {
        let (branch, mut inode) = self.tree().dirty_inode(ino)?;
        if !refers(&inode, blob) {
            return Err(Error::Busy { what: "a file that was replaced while it was open".into() });
        }
        let (mine, record) = (self.branch(), blob_record(&*self.txn, blob.0)?);
        let others = self.others(ino, blob, mine)?;
        let counted = others.len() as u64 + u64::from(branch == mine);
        if u64::from(record.refs) != counted {
            let what = format!("blob {blob}, which a program reads by passthrough");
            return Err(Error::corrupt(what, format!("{counted} references"), record.refs.to_string()));
        }
        let copy = if others.is_empty() { None } else { Some(copy.name(self.txn)) };
        if let Some(copy) = copy {
            self.hand_over(ino, blob, copy, mine)?;
            self.copy_sums(blob, copy, &record)?;
            put_blob(self.txn, copy.0, &Blob { refs: u32::try_from(others.len()).unwrap_or(u32::MAX), ..record });
        }
        drop_sums(self.txn, blob.0, &record);
        put_blob(self.txn, blob.0, &Blob { refs: 1, length: 0, packed: None, sums: false });
        if branch != mine {
            self.txn.put(key::overridden(&key::inode(self.ancestry.clone_group, ino)), vec![1]);
        }
        inode.content = Some(Content::Blob(BlobContent { id: blob.0, in_place: true }));
        self.save(ino, &inode);
        Ok((inode, copy))
    }

    /// The records of other branches that refer to the blob, unchanged.
    fn others(&self, ino: u64, blob: BlobId, mine: Branch) -> Result<Vec<Rewritten>> {
        self.rewritten(ino, blob, blob, mine)
    }

    fn hand_over(&mut self, ino: u64, blob: BlobId, copy: BlobId, mine: Branch) -> Result<()> {
        for record in self.rewritten(ino, blob, copy, mine)? {
            self.txn.put(record.key, record.value);
        }
        Ok(())
    }

    /// The records of other branches that refer to the blob, now referring to `copy`.
    fn rewritten(&self, ino: u64, blob: BlobId, copy: BlobId, mine: Branch) -> Result<Vec<Rewritten>> {
        let clone_group = self.ancestry.clone_group;
        let mut found = Vec::new();
        let foreign = |pair: &Pair| key::unbranched(&pair.key).is_some_and(|(_, branch)| branch != mine);
        for pair in all(&*self.txn, &key::inode(clone_group, ino))?.into_iter().filter(foreign) {
            if pair.value.is_empty() {
                continue;
            }
            let mut inode: Inode = decode("an inode", &pair.value)?;
            if refers(&inode, blob) {
                inode.content = Some(Content::Blob(BlobContent { id: copy.0, in_place: false }));
                found.push(Rewritten { key: pair.key.to_vec(), value: inode.encode_to_vec() });
            }
        }
        for pair in all(&*self.txn, &key::extents(clone_group, ino))?.into_iter().filter(foreign) {
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

    pub(super) fn copy_sums(&mut self, blob: BlobId, copy: BlobId, record: &Blob) -> Result<()> {
        if !record.sums {
            return Ok(());
        }
        for pair in all(&*self.txn, &key::sums_of(blob.0))? {
            let index = pair.key.last_chunk::<4>().map_or(0, |index| u32::from_be_bytes(*index));
            self.txn.put(key::sums(copy.0, index), pair.value.to_vec());
        }
        Ok(())
    }
}

fn refers(inode: &Inode, blob: BlobId) -> bool {
    matches!(&inode.content, Some(Content::Blob(content)) if content.id == blob.0)
}
