//! Opening files for passthrough: the kernel reads the blob itself (FUSE passthrough).
//!
//! - It is correct for content that is one whole blob file which only this inode refers to, in a bucket without
//!   versioning. Content from S3 has checksums, and is verified in full first, in the background.
//! - While a file is open by passthrough, the blob is exactly as long as the file: a longer one is truncated at the
//!   open, and every change of size is applied to the blob before it is answered.
//! - A write to such a file keeps the blob in place: other views of the inode get a copy first (`tree/kept_blob.rs`).
//! - The decision never waits: while the file or its bucket is being restructured, the file is read through the server.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use super::flags::Touching;
use super::in_place::InPlaceBlob;
use super::session::Volume;
use super::types::{Released, Unfit};
use crate::blob::BlobId;
use crate::blob_records::blob_record;
use crate::disk::File;
use crate::error::{Error, Result};
use crate::meta::Durability;
use crate::passthrough::{WholeBlob, mark_mapped_writable};
use crate::record::inode::{Content, Inode, InodeKind};
use crate::tree::Tree;

/// A file open by passthrough, until [`Volume::release_backing`].
pub struct Backing {
    file: Arc<dyn File>,
}

impl Backing {
    /// The blob, open for reading and writing.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.file.raw()
    }
}

impl Volume {
    /// Opens a file of at least `least` bytes by passthrough, if that is correct now.
    pub fn back(&self, ino: u64, least: u64) -> Result<Result<Backing, Unfit>> {
        let core = &self.0.core;
        let (bucket, owner) = (self.0.bucket, (self.0.bucket, ino));
        let Some(_gate) = core.gates.try_write_in_place(bucket) else { return Ok(Err(Unfit::Now)) };
        let Some(_alone) = core.gates.try_reshape(bucket, ino) else { return Ok(Err(Unfit::Now)) };
        let whole = match self.whole(ino, least)? {
            Ok(whole) => whole,
            Err(unfit) => return Ok(Err(unfit)),
        };
        let opened = core.passthrough.open(owner, self.0.mount, &whole)?;
        Ok(opened.map(|file| Backing { file }).ok_or(Unfit::Now))
    }

    /// Registers a file that an earlier process opened by passthrough; the usual conditions do not apply.
    pub fn back_again(&self, ino: u64) -> Result<()> {
        let core = &self.0.core;
        let _gate = core.gates.write_in_place(self.0.bucket);
        let _alone = core.gates.reshape(self.0.bucket, ino);
        let inode = self.look(ino)?;
        let Some(Content::Blob(content)) = &inode.content else {
            return Err(Error::corrupt(format!("inode {ino}"), "a blob, since a program has it open", "none"));
        };
        let blob = BlobId(content.id);
        let own = content.in_place && !self.0.read_only;
        core.passthrough.reopen((self.0.bucket, ino), self.0.mount, &WholeBlob { blob, size: inode.size, own })
    }

    /// The blob that holds all of the file's content, if it may be read directly.
    fn whole(&self, ino: u64, least: u64) -> Result<Result<WholeBlob, Unfit>> {
        let core = &self.0.core;
        let (snapshot, ancestry) = self.0.now()?;
        let (branch, inode) = Tree { read: &*snapshot, ancestry: &ancestry }.dirty_inode(ino)?;
        let dirty = core.dirty.get(self.0.bucket, ino).filter(|_| self.0.frozen.is_none());
        let size = dirty.as_ref().map_or(inode.size, |dirty| dirty.size());
        if size < least {
            return Ok(Err(Unfit::Small));
        }
        let Some(Content::Blob(content)) = &inode.content else { return Ok(Err(Unfit::Now)) };
        if inode.kind() != InodeKind::File || inode.is_append_only() || self.keeps_versions()? {
            return Ok(Err(Unfit::Now));
        }
        let record = blob_record(&*snapshot, content.id)?;
        let verified = || record.length == size && core.passthrough.is_verified(content.id);
        if record.packed.is_some() || (record.sums && !verified()) {
            return Ok(Err(Unfit::Now));
        }
        // Writers maintain the length of a dirty file's blob.
        let own = content.in_place && branch == ancestry.branch() && !self.0.read_only && dirty.is_none();
        Ok(Ok(WholeBlob { blob: BlobId(content.id), size, own }))
    }

    /// Records that this mount's kernel has closed all passthrough handles of a file.
    pub fn release_backing(&self, ino: u64) -> Released {
        self.0.core.passthrough.release((self.0.bucket, ino), self.0.mount)
    }

    /// Whether a file is open by passthrough, or still mapped through a closed handle.
    pub fn is_passthrough(&self, ino: u64) -> bool {
        self.0.core.passthrough.blob((self.0.bucket, ino)).is_some()
    }

    /// Records that a passthrough file is about to be opened in a way that allows a writable mapping. Before that, all
    /// other views of the blob get a copy, and the store records the file as exposed.
    pub fn expose(&self, ino: u64) -> Result<()> {
        self.refuse_write()?;
        let core = &self.0.core;
        let owner = (self.0.bucket, ino);
        let _gate = core.gates.write_in_place(self.0.bucket);
        let _alone = core.gates.reshape(self.0.bucket, ino);
        // It may have been opened by passthrough before it got the flag.
        self.refuse_fixed(ino, Touching::Changes)?;
        let (_, in_place) = self.in_place(ino)?;
        if !core.passthrough.expose(owner, in_place.file.modified()?) {
            return Ok(());
        }
        self.change(move |tx| {
            mark_mapped_writable(tx.txn, owner, in_place.id);
            Ok(())
        })
    }

    /// The in-place blob of a passthrough file whose size is about to change: the blob has to follow.
    pub(super) fn passthrough_in_place(&self, ino: u64) -> Result<Option<InPlaceBlob>> {
        match self.0.core.passthrough.blob((self.0.bucket, ino)) {
            Some(_) => self.in_place(ino).map(|(_, in_place)| Some(in_place)),
            None => Ok(None),
        }
    }

    /// Makes the blob of a passthrough file its in-place blob. Every other view of the inode gets a copy, on disk
    /// before a byte of the blob changes. The caller holds the bucket's gate shared and the inode's lock exclusively.
    pub(super) fn keep_blob(&self, ino: u64, blob: BlobId) -> Result<(Inode, InPlaceBlob)> {
        let core = &self.0.core;
        let (file, detached) = core.passthrough.copy_of(ino, blob)?;
        let (inode, copied) = self.change_with(Durability::Synced, move |tx| tx.keep_blob(detached))?;
        if let Some(copy) = copied {
            core.readers.redirect(blob, copy);
        }
        Ok((inode, InPlaceBlob { id: blob, file, whole: true }))
    }

    /// Whether a file has to keep this blob.
    pub(super) fn keeps(&self, ino: u64, blob: u64) -> bool {
        self.0.core.passthrough.blob((self.0.bucket, ino)) == Some(BlobId(blob))
    }
}
