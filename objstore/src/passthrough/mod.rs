//! Passthrough: a kernel reads the blob of an open file itself, and may write it through a shared mapping.
//!
//! All code about passthrough is in this folder, below `tree` and `content`; the rest of the store calls
//! [`Passthrough`].
//! Its promises (`tests.rs` states them one by one):
//! - An open blob is exactly the file: it has the file's length, only this file refers to it, and content with
//!   checksums was verified before.
//! - The blob belongs to the file while it is open: every other record that refers to the content gets a copy first.
//! - No open waits: a blob that cannot be opened now is read through the server.
//! - A mapping may outlive its handle, its mount and this process. Its writes are found when the store looks for them,
//!   and until then a mark in the store says that there may be some.
//!
//! A lease of the kernel shows whether a file is still mapped; the disk asks for it: [`File::is_lone`].
//!
//! A crash leaves the marks; [`Passthrough::recover`] begins with them. Copies that no record names are collected.

mod copies;
mod duplicate;
mod marks;
mod table;
#[cfg(test)]
mod tests;
mod verified;
mod views;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use parking_lot::Mutex;

use crate::blob::BlobId;
use crate::blob_records::blob_record;
use crate::disk::File;
use crate::error::{Error, Result};
use crate::state::Readers;
use crate::storage::Storage;

pub(crate) use copies::{DetachedCopy, Prepared};
pub(crate) use duplicate::Duplicate;
pub(crate) use marks::mark_mapped_writable;
pub(crate) use table::{Owner, Reference};
pub(crate) use views::{View, is_content};

use table::{Added, Table};
use verified::VerifiedBlobs;

/// The files of a store that are open by passthrough.
pub(crate) struct Passthrough {
    storage: Arc<Storage>,
    readers: Arc<Readers>,
    /// The number of files: mostly zero, and then the table's lock is not taken.
    count: AtomicUsize,
    table: Mutex<Table>,
    /// Content compared with its checksums.
    verified: VerifiedBlobs,
}

/// A blob that holds all of a file's content.
pub(crate) struct WholeBlob {
    /// The blob.
    pub blob: BlobId,
    /// The file's size, in bytes.
    pub size: u64,
    /// Whether the view that opens the file may truncate the blob.
    pub own: bool,
}

impl Passthrough {
    /// The state of a store that was just opened: no file is open.
    pub fn new(storage: Arc<Storage>, readers: Arc<Readers>) -> Self {
        Self {
            storage,
            readers,
            count: AtomicUsize::default(),
            table: Mutex::default(),
            verified: VerifiedBlobs::default(),
        }
    }

    /// Opens the blob of a file for a mount; `None` if that is not correct now. The caller holds the bucket's gate
    /// shared and the inode's lock exclusively.
    pub fn open(&self, owner: Owner, mount: u64, whole: &WholeBlob) -> Result<Option<Arc<dyn File>>> {
        let file = self.storage.blobs.file(whole.blob)?;
        if !self.fits(&*file, whole)? {
            return Ok(None);
        }
        let added = self.add(owner, whole.blob, &file, mount);
        // References are checked after the registration: an operation that adds one from now on finds the blob open.
        let sole = || blob_record(&*self.storage.meta.snapshot(), whole.blob.0).is_ok_and(|record| record.refs == 1);
        match added {
            Added::Known => Ok(Some(file)),
            Added::New if sole() => Ok(Some(file)),
            Added::New => {
                self.withdraw(owner);
                Ok(None)
            }
            Added::Refused => Ok(None),
        }
    }

    /// Registers a file that a kernel opened by passthrough when an earlier process served it. Locks as for
    /// [`Passthrough::open`].
    ///
    /// # Errors
    /// [`Error::Busy`] if another file has the blob.
    pub fn reopen(&self, owner: Owner, mount: u64, whole: &WholeBlob) -> Result<()> {
        let blob = whole.blob;
        let file = self.storage.blobs.file(blob)?;
        if self.add(owner, blob, &file, mount) == Added::Refused {
            return Err(Error::Busy { what: format!("blob {blob}, which another file has,") });
        }
        // The earlier process may have died between truncating the file and truncating the blob.
        self.fits(&*file, whole).map(|_| ())
    }

    /// Makes the blob as long as the file. Returns whether it is. A crash may have left bytes past the end, and a file
    /// that was extended has a hole there.
    fn fits(&self, file: &dyn File, whole: &WholeBlob) -> Result<bool> {
        let length = file.len()?;
        if length == whole.size {
            return Ok(true);
        }
        if whole.size < length && !whole.own {
            return Ok(false);
        }
        self.storage.writable()?;
        file.set_len(whole.size)?;
        self.storage.blobs.mark_dirty(whole.blob);
        Ok(true)
    }

    /// Whether no blob is being compared with its checksums.
    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        self.verified.is_idle()
    }
}
