//! Blobs in separate files: `blobs/<2 hex of the low byte>/<16 hex id>`.
//!
//! - A file is durable when its content and its name are: [`Files::sync`] ensures both, and the name only once.
//! - The folders of a new store are spread over the disk: on ext4 they would otherwise lie in one block group, whose
//!   inode table is searched for each new file.
//!
//! A crash leaves unreferenced files; the collector finds them by [`Files::ids`] and removes them.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use objstore_base::error::Result;
use objstore_disk::{Disk, File, Poison, is_broken};
use parking_lot::Mutex;

use super::block::{Block, BlockPool};
use super::group_sync::GroupSync;
use super::id::{BlobId, parse_hex};
use super::open_files::{Name, OpenFiles};
use super::pending::{Due, Extent, Pending};
use super::remote::RemoteDisk;
use super::shards::{SHARDS, path, shard, shard_name};

/// The blobs that have their own files.
pub(super) struct Files {
    disk: Arc<dyn Disk>,
    /// The same disk, if it is a cache of a bucket.
    remote: Option<RemoteDisk>,
    dir: PathBuf,
    open: Arc<OpenFiles>,
    poison: Poison,
    shelf: BlockPool,
    shards: Vec<GroupSync>,
    pending: Mutex<Pending>,
    syncing_all: Mutex<()>,
}

impl Files {
    /// The blob files in `dir`, whose folders are created if missing.
    pub(super) fn open(disk: Arc<dyn Disk>, dir: PathBuf, open: Arc<OpenFiles>, poison: Poison) -> Result<Self> {
        disk.make_dir_all(&dir)?;
        let there: HashSet<String> = disk.list(&dir)?.into_iter().collect();
        if there.is_empty() {
            disk.spread(&dir);
        }
        for name in (0..SHARDS).map(shard_name).filter(|name| !there.contains(name)) {
            disk.make_dir(&dir.join(name))?;
        }
        // Also if no folder was missing: an opening that was killed may have created them without this sync.
        disk.sync_dir(&dir)?;
        let shards = std::iter::repeat_with(GroupSync::default).take(SHARDS).collect();
        let (shelf, pending) = (BlockPool::default(), Mutex::default());
        Ok(Self { disk, remote: None, dir, open, poison, shelf, shards, pending, syncing_all: Mutex::default() })
    }

    /// These files in a bucket, of which the disk is a cache.
    pub(super) fn in_bucket(mut self, remote: RemoteDisk) -> Self {
        self.remote = Some(remote);
        self
    }

    /// Creates the file of `id`, to be written in place and synced by [`Files::sync`] or [`Files::sync_dirty`].
    pub(super) fn create(&self, id: BlobId) -> Result<Arc<dyn File>> {
        let file = self.create_private(id)?;
        self.begin_in_place(id)?;
        self.pending.lock().created(id);
        self.open.keep(Name::Blob(id), file.clone());
        Ok(file)
    }

    /// Takes over a file that was created with [`Files::create_private`] and whose name is on disk.
    pub(super) fn adopt(&self, id: BlobId, file: &Arc<dyn File>) -> Result<()> {
        self.begin_in_place(id)?;
        self.pending.lock().mark(id);
        self.open.keep(Name::Blob(id), file.clone());
        Ok(())
    }

    /// Records for a bucket that the file of `id` exists, also if nothing is ever written to it.
    fn begin_in_place(&self, id: BlobId) -> Result<()> {
        self.remote.as_ref().map_or(Ok(()), |remote| remote.begin_in_place(id))
    }

    /// Creates the file of `id` for a caller that syncs content and name before any other code knows of the file.
    pub(super) fn create_private(&self, id: BlobId) -> Result<Arc<dyn File>> {
        self.poison.check()?;
        self.disk.create(&self.path(id))
    }

    /// Creates the file of a new blob that is written once, for a caller that calls [`Files::publish`].
    pub(super) fn create_whole(&self, id: BlobId) -> Result<Arc<dyn File>> {
        match &self.remote {
            Some(remote) => self.poison.check().and_then(|()| remote.create_whole(id)),
            None => self.create_private(id),
        }
    }

    /// Makes content and name of a file durable that was written once.
    pub(super) fn publish(&self, id: BlobId, file: &dyn File) -> Result<()> {
        match &self.remote {
            Some(_) => file.sync(),
            None => self.sync_content(file).and_then(|()| self.sync_name(id)),
        }
    }

    /// Passes on the result of a sync. A failed one poisons the store, except that a failed request to a bucket loses
    /// nothing: the next sync sends it again.
    fn judge(&self, synced: Result<()>) -> Result<()> {
        if self.remote.is_some() { synced } else { self.poison.judge(synced) }
    }

    /// An empty block of memory for content.
    pub(super) fn block(&self) -> Block {
        self.shelf.block()
    }

    /// Passes on the result of a write. For a direct write, a failing disk reports the error here and not at the sync,
    /// so an error poisons the store.
    pub(super) fn judge_write(&self, written: Result<()>) -> Result<()> {
        match written {
            Err(error) if is_broken(&error) => self.poison.judge(Err(error)),
            other => other,
        }
    }

    /// The open file of `id`.
    pub(super) fn get(&self, id: BlobId) -> Result<Arc<dyn File>> {
        self.open.get(Name::Blob(id), &self.path(id))
    }

    /// Makes the content of `id` durable, and its name if it is not yet. Nothing is synced twice.
    pub(super) fn sync(&self, id: BlobId, extent: Extent) -> Result<()> {
        self.poison.check()?;
        let Due::Sync { name } = self.pending.lock().begin(id, extent) else { return Ok(()) };
        let synced = self.sync_now(id, extent, name);
        let mut pending = self.pending.lock();
        pending.end(id, name && synced.is_ok());
        if synced.is_err() {
            // The sync may have failed before it began.
            pending.mark(id);
        }
        synced
    }

    fn sync_now(&self, id: BlobId, extent: Extent, name: bool) -> Result<()> {
        let file = self.get(id)?;
        self.judge(match extent {
            Extent::Content => file.sync(),
            Extent::ContentAndTime => file.sync_with_time(),
        })?;
        if name { self.sync_name(id) } else { Ok(()) }
    }

    /// Makes the content of an open file durable.
    pub(super) fn sync_content(&self, file: &dyn File) -> Result<()> {
        self.poison.judge(file.sync())
    }

    /// Makes the name of `id` durable, with one sync for all callers that need the same folder.
    pub(super) fn sync_name(&self, id: BlobId) -> Result<()> {
        let shard = shard(id);
        let synced = self.shards[shard].run(|| self.disk.sync_dir(&self.dir.join(shard_name(shard))));
        self.poison.judge(synced)
    }

    /// Records that `id` was written.
    pub(super) fn mark_dirty(&self, id: BlobId) {
        self.pending.lock().mark(id);
    }

    /// Makes everything created or marked since the last call durable, with one sync.
    pub(super) fn sync_dirty(&self) -> Result<()> {
        // A second caller waits, since what the first call covers is not durable before its sync ends.
        let _one = self.syncing_all.lock();
        self.poison.check()?;
        if !self.pending.lock().begin_all() {
            return Ok(());
        }
        let synced = self.judge(self.disk.sync_everything(&self.dir));
        let mut pending = self.pending.lock();
        if synced.is_err() {
            pending.fail_all();
        }
        pending.end_all();
        synced
    }

    /// Removes the file of `id`; an absent one is no error.
    pub(super) fn remove(&self, id: BlobId) -> Result<()> {
        self.disk.remove(&self.path(id))?;
        self.open.forget(Name::Blob(id));
        self.pending.lock().forget(id);
        Ok(())
    }

    /// The ids of all existing files, in no order.
    pub(super) fn ids(&self) -> Result<Vec<BlobId>> {
        let mut ids = Vec::new();
        for index in 0..SHARDS {
            let names = self.disk.list(&self.dir.join(shard_name(index)))?;
            let parsed = names.iter().filter_map(|name| parse_hex(name)).map(BlobId);
            ids.extend(parsed.filter(|id| shard(*id) == index));
        }
        Ok(ids)
    }

    /// The path of the file of `id`.
    pub(super) fn path(&self, id: BlobId) -> PathBuf {
        path(&self.dir, id)
    }
}
