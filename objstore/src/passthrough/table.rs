//! The table of files that are open by passthrough, and of what keeps a blob from being opened.
//!
//! - While a file is open by passthrough, its content stays in its blob, and the blob is exactly as long as the file.
//!   Before the content changes, every other view of the blob gets a copy of it (`views`); a copy by reference refers to
//!   such a copy (`copies`).
//! - A blob is open for one file of one bucket. Of two views of the same content, such as a bucket and its snapshot,
//!   the second is read through the server.
//! - A mapping outlives the handle that it was made from. So a file that no mount holds any more stays registered here
//!   until the disk reports that no process has the blob open.
//! - A blob that is getting another reference cannot be opened until that is committed.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use objstore_files::Released;

use super::Passthrough;
use super::duplicate::Duplicate;
use crate::blob::BlobId;
use crate::disk::File;
use crate::error::Result;

/// A bucket or snapshot by id, and an inode.
pub(crate) type Owner = (u64, u64);

/// The most files examined in one sweep.
const SWEEP: usize = 256;

/// The files and blobs, under one lock.
#[derive(Default)]
pub(super) struct Table {
    files: HashMap<Owner, PassthroughFile>,
    owners: HashMap<u64, Owner>,
    /// Blobs that are getting another reference, with counts.
    shared: HashMap<u64, usize>,
    /// Copies waiting for the transaction that refers to them.
    copies: HashMap<u64, Duplicate>,
}

struct PassthroughFile {
    blob: BlobId,
    file: Arc<dyn File>,
    /// The mounts that have it open.
    mounts: Vec<u64>,
    mapping_state: Option<MappingState>,
}

impl PassthroughFile {
    /// Whether no mount and no mapping has it open.
    fn is_free(&self) -> bool {
        self.mounts.is_empty() && self.file.is_lone()
    }
}

#[derive(Clone, Copy, Default)]
struct MappingState {
    /// The blob's time of change at the last look.
    seen: Option<SystemTime>,
}

/// The result of registering a file for passthrough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Added {
    /// It was registered now.
    New,
    /// It was registered before.
    Known,
    /// Another file has the blob open, or an operation is about to refer to the blob.
    Refused,
}

/// Prevents a blob from being opened by passthrough.
pub(crate) struct Sharing {
    passthrough: Arc<Passthrough>,
    blob: u64,
}

impl Drop for Sharing {
    fn drop(&mut self) {
        let mut table = self.passthrough.table.lock();
        if let Some(count) = table.shared.get_mut(&self.blob) {
            *count -= 1;
            if *count == 0 {
                table.shared.remove(&self.blob);
            }
        }
    }
}

/// How another reference to a blob can be made.
pub(crate) enum Reference {
    /// To the blob itself; keep this until the commit.
    Own(Sharing),
    /// To a copy made for this purpose.
    Copy(Duplicate),
    /// To a copy, which nobody has made yet ([`Passthrough::copy_within`]).
    Missing,
}

impl Table {
    fn remove(&mut self, owner: Owner) {
        if let Some(gone) = self.files.remove(&owner) {
            self.owners.remove(&gone.blob.0);
        }
    }

    /// Removes a file that only mappings held, if they are gone. An exposed one stays until its writes are counted.
    fn remove_unused(&mut self, owner: Owner) {
        let free = |passthrough: &PassthroughFile| passthrough.mapping_state.is_none() && passthrough.is_free();
        if self.files.get(&owner).is_some_and(free) {
            self.remove(owner);
        }
    }
}

impl Passthrough {
    /// Registers a file of a mount. For a new one the caller checks the references afterwards.
    pub(super) fn add(&self, owner: Owner, blob: BlobId, file: &Arc<dyn File>, mount: u64) -> Added {
        let mut table = self.table.lock();
        if let Some(other) = table.owners.get(&blob.0).copied().filter(|other| *other != owner) {
            table.remove_unused(other);
        }
        let taken = table.owners.get(&blob.0).is_some_and(|other| *other != owner);
        let moved = table.files.get(&owner).is_some_and(|passthrough| passthrough.blob != blob);
        if taken || moved || table.shared.contains_key(&blob.0) {
            return Added::Refused;
        }
        let added = if table.owners.insert(blob.0, owner).is_some() { Added::Known } else { Added::New };
        let new = || PassthroughFile { blob, file: file.clone(), mounts: Vec::new(), mapping_state: None };
        let passthrough = table.files.entry(owner).or_insert_with(new);
        if !passthrough.mounts.contains(&mount) {
            passthrough.mounts.push(mount);
        }
        self.count.store(table.files.len(), Ordering::Release);
        added
    }

    /// Undoes a new registration whose file was not handed to the mount; other users of the open blob are unaffected.
    pub(super) fn withdraw(&self, owner: Owner) {
        let mut table = self.table.lock();
        table.remove(owner);
        self.count.store(table.files.len(), Ordering::Release);
    }

    /// Called when a blob is about to be removed: no file has it any more.
    pub fn forget(&self, blob: BlobId) {
        if self.is_empty() {
            return;
        }
        let mut table = self.table.lock();
        if let Some(owner) = table.owners.get(&blob.0).copied() {
            table.remove(owner);
        }
        self.count.store(table.files.len(), Ordering::Release);
    }

    /// Whether no file is registered.
    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Called when a mount has closed a file.
    pub fn release(&self, owner: Owner, mount: u64) -> Released {
        let mut table = self.table.lock();
        let Some(passthrough) = table.files.get_mut(&owner) else { return Released::Done };
        passthrough.mounts.retain(|other| *other != mount);
        table.remove_unused(owner);
        let left = table.files.get(&owner).is_some_and(|passthrough| passthrough.mounts.is_empty());
        self.count.store(table.files.len(), Ordering::Release);
        if left { Released::Mapped } else { Released::Done }
    }

    /// Called when a mount is gone.
    pub fn release_all(&self, mount: u64) {
        let mut table = self.table.lock();
        let mine = table.files.iter().filter(|(_, passthrough)| passthrough.mounts.contains(&mount));
        let mine: Vec<Owner> = mine.map(|(owner, _)| *owner).collect();
        for owner in mine {
            if let Some(passthrough) = table.files.get_mut(&owner) {
                passthrough.mounts.retain(|other| *other != mount);
            }
            table.remove_unused(owner);
        }
        self.count.store(table.files.len(), Ordering::Release);
    }

    /// The blob of a passthrough file.
    pub fn blob(&self, owner: Owner) -> Option<BlobId> {
        if self.is_empty() {
            return None;
        }
        let mut table = self.table.lock();
        table.remove_unused(owner);
        table.files.get(&owner).map(|passthrough| passthrough.blob)
    }

    /// Which of these blobs are open by passthrough, for any file.
    pub(super) fn passthrough_of(&self, blobs: impl Iterator<Item = u64>) -> Vec<u64> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut table = self.table.lock();
        let mut found = Vec::new();
        for blob in blobs {
            if let Some(owner) = table.owners.get(&blob).copied() {
                table.remove_unused(owner);
                found.extend(table.owners.contains_key(&blob).then_some(blob));
            }
        }
        found
    }

    /// How another reference to a blob can be made.
    pub fn refer(self: &Arc<Self>, blob: u64) -> Reference {
        let mut table = self.table.lock();
        if let Some(copy) = table.copies.remove(&blob) {
            return Reference::Copy(copy);
        }
        if let Some(owner) = table.owners.get(&blob).copied() {
            table.remove_unused(owner);
        }
        if table.owners.contains_key(&blob) {
            return Reference::Missing;
        }
        *table.shared.entry(blob).or_default() += 1;
        Reference::Own(Sharing { passthrough: self.clone(), blob })
    }

    /// Provides a copy for the next operation that refers to `blob`.
    pub(super) fn provide(&self, blob: u64, copy: Duplicate) {
        self.table.lock().copies.insert(blob, copy);
    }

    /// Removes an unused copy.
    pub(super) fn unprepare(&self, blob: u64) {
        let unused = self.table.lock().copies.remove(&blob);
        drop(unused);
    }

    /// Whether a file may be written through a mapping.
    pub fn is_mapped_writable(&self, owner: Owner) -> bool {
        !self.is_empty()
            && self.table.lock().files.get(&owner).is_some_and(|passthrough| passthrough.mapping_state.is_some())
    }

    /// The last time of change of an exposed file's blob.
    pub fn modified(&self, owner: Owner) -> Option<SystemTime> {
        if self.is_empty() {
            return None;
        }
        let table = self.table.lock();
        table.files.get(&owner).filter(|passthrough| passthrough.mapping_state.is_some())?.file.modified().ok()
    }

    /// The exposed files of a bucket.
    pub fn mapped_writable_of(&self, bucket: u64) -> Vec<u64> {
        self.exposed_of(bucket).into_iter().map(|(ino, ..)| ino).collect()
    }

    /// The exposed files of a bucket, with their blobs.
    pub(super) fn exposed_of(&self, bucket: u64) -> Vec<(u64, BlobId, Arc<dyn File>)> {
        if self.is_empty() {
            return Vec::new();
        }
        let table = self.table.lock();
        let exposed =
            table.files.iter().filter(|((of, _), passthrough)| *of == bucket && passthrough.mapping_state.is_some());
        exposed.map(|((_, ino), passthrough)| (*ino, passthrough.blob, passthrough.file.clone())).collect()
    }

    /// Marks a passthrough file as exposed. Returns whether it is new. `seen` is the blob's time of change as far as
    /// the record knows.
    pub fn expose(&self, owner: Owner, seen: SystemTime) -> bool {
        let mut table = self.table.lock();
        let Some(passthrough) = table.files.get_mut(&owner) else { return false };
        let new = passthrough.mapping_state.is_none();
        passthrough.mapping_state.get_or_insert(MappingState { seen: Some(seen) });
        new
    }

    /// The blob of an exposed file.
    pub(super) fn mapped_writable(&self, owner: Owner) -> Option<BlobId> {
        if self.is_empty() {
            return None;
        }
        let table = self.table.lock();
        table
            .files
            .get(&owner)
            .filter(|passthrough| passthrough.mapping_state.is_some())
            .map(|passthrough| passthrough.blob)
    }

    /// The time of writes through a mapping that were not reported before; their pages are written back already.
    pub(super) fn changed(&self, owner: Owner) -> Result<Option<SystemTime>> {
        let mut table = self.table.lock();
        let Some(passthrough) = table.files.get_mut(&owner) else { return Ok(None) };
        let Some(before) = passthrough.mapping_state else { return Ok(None) };
        let now = passthrough.file.modified()?;
        passthrough.mapping_state = Some(MappingState { seen: Some(now) });
        Ok((before.seen != Some(now)).then_some(now))
    }

    /// Removes a file that no mount and no mapping has.
    pub(super) fn remove_free(&self, owner: Owner) {
        let mut table = self.table.lock();
        if table.files.get(&owner).is_some_and(PassthroughFile::is_free) {
            table.remove(owner);
        }
        self.count.store(table.files.len(), Ordering::Release);
    }

    /// Removes files that only mappings held; returns the exposed ones among them.
    pub(super) fn free_mapped_writable(&self) -> Vec<Owner> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut table = self.table.lock();
        let left = table.files.iter().filter(|(_, passthrough)| passthrough.mounts.is_empty());
        let left: Vec<Owner> = left.map(|(owner, _)| *owner).take(SWEEP).collect();
        left.iter().for_each(|owner| table.remove_unused(*owner));
        self.count.store(table.files.len(), Ordering::Release);
        let free = |owner: &Owner| table.files.get(owner).is_some_and(PassthroughFile::is_free);
        left.into_iter().filter(free).collect()
    }

    /// Begins with exposed files that an earlier process left. Whether they were written since the last look is unknown,
    /// so they count as changed.
    pub(super) fn begin_with(&self, mapped_writable: impl IntoIterator<Item = (Owner, BlobId, Arc<dyn File>)>) {
        let mut table = self.table.lock();
        for (owner, blob, file) in mapped_writable {
            table.owners.insert(blob.0, owner);
            let mapping_state = Some(MappingState::default());
            table.files.insert(owner, PassthroughFile { blob, file, mounts: Vec::new(), mapping_state });
        }
        self.count.store(table.files.len(), Ordering::Release);
    }
}
