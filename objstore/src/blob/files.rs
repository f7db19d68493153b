//! Blobs in files of their own: `blobs/<2 hex of the low byte>/<16 hex id>`.
//!
//! - A file is durable when its content and its name are: [`Files::sync`] sees to both, and to the name only once.
//! - A name is forgotten as "not durable yet" only after the sync that covers it has ended, so nobody relies on a
//!   sync that is still under way.
//!
//! A crash leaves files that nothing refers to; they are found by [`Files::ids`] and removed by their collector.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::block::{Block, Shelf};
use super::group_sync::GroupSync;
use super::id::{BlobId, parse_hex};
use super::open_files::{Name, OpenFiles};
use crate::disk::{Disk, File, Poison, is_broken};
use crate::error::Result;

const SHARDS: usize = 256;

#[derive(Default)]
struct Pending {
    // Written and not synced.
    dirty: HashSet<BlobId>,
    // Created, and the folder not synced since.
    unnamed: HashSet<BlobId>,
    // The same, with a sync of everything under way.
    naming: HashSet<BlobId>,
}

/// The blobs in files of their own.
pub(super) struct Files {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    open: Arc<OpenFiles>,
    poison: Poison,
    shelf: Shelf,
    shards: Vec<GroupSync>,
    pending: Mutex<Pending>,
    syncing_all: Mutex<()>,
}

impl Files {
    /// The files in `dir`, whose folders are made as needed.
    pub(super) fn open(disk: Arc<dyn Disk>, dir: PathBuf, open: Arc<OpenFiles>, poison: Poison) -> Result<Self> {
        disk.make_dir_all(&dir)?;
        let there: HashSet<String> = disk.list(&dir)?.into_iter().collect();
        for name in (0..SHARDS).map(shard_name).filter(|name| !there.contains(name)) {
            disk.make_dir(&dir.join(name))?;
        }
        // Also when none was missing: an opening that was killed may have made them without this sync.
        disk.sync_dir(&dir)?;
        let shards = std::iter::repeat_with(GroupSync::default).take(SHARDS).collect();
        let (shelf, pending) = (Shelf::default(), Mutex::default());
        Ok(Self { disk, dir, open, poison, shelf, shards, pending, syncing_all: Mutex::default() })
    }

    /// Creates the file of `id`, to be written in place and synced by [`Files::sync`] or [`Files::sync_dirty`].
    pub(super) fn create(&self, id: BlobId) -> Result<Arc<dyn File>> {
        let file = self.create_private(id)?;
        let mut pending = self.pending.lock();
        pending.dirty.insert(id);
        pending.unnamed.insert(id);
        drop(pending);
        self.open.keep(Name::Blob(id), file.clone());
        Ok(file)
    }

    /// Creates the file of `id` for one who syncs content and name himself before telling anybody of it.
    pub(super) fn create_private(&self, id: BlobId) -> Result<Arc<dyn File>> {
        self.poison.check()?;
        self.disk.create(&self.path(id))
    }

    /// An empty block of memory for content.
    pub(super) fn block(&self) -> Block {
        self.shelf.block()
    }

    /// Hands a write's result on. Of one past the page cache, a disk that loses it says so here, and not at the sync.
    pub(super) fn judge_write(&self, written: Result<()>) -> Result<()> {
        match written {
            Err(error) if is_broken(&error) => self.poison.judge(Err(error)),
            other => other,
        }
    }

    /// The file of `id`.
    pub(super) fn get(&self, id: BlobId) -> Result<Arc<dyn File>> {
        self.open.get(Name::Blob(id), &self.path(id))
    }

    /// Makes the content of `id` durable, and its name if it is not yet.
    pub(super) fn sync(&self, id: BlobId) -> Result<()> {
        self.poison.check()?;
        let file = self.get(id)?;
        let unnamed = {
            let mut pending = self.pending.lock();
            // Before the sync: a write during it marks the file again.
            pending.dirty.remove(&id);
            pending.unnamed.contains(&id) || pending.naming.contains(&id)
        };
        self.sync_content(&*file)?;
        if unnamed {
            self.sync_name(id)?;
            self.pending.lock().unnamed.remove(&id);
        }
        Ok(())
    }

    /// Makes the content of an open file durable.
    pub(super) fn sync_content(&self, file: &dyn File) -> Result<()> {
        self.poison.judge(file.sync())
    }

    /// Makes the name of `id` durable, in one sync with all who want the same folder now.
    pub(super) fn sync_name(&self, id: BlobId) -> Result<()> {
        let shard = shard(id);
        let synced = self.shards[shard].run(|| self.disk.sync_dir(&self.dir.join(shard_name(shard))));
        self.poison.judge(synced)
    }

    /// Notes that `id` was written.
    pub(super) fn mark_dirty(&self, id: BlobId) {
        self.pending.lock().dirty.insert(id);
    }

    /// Makes all that was created or marked since the last call durable, in one sync.
    pub(super) fn sync_dirty(&self) -> Result<()> {
        // A second caller waits: what the first took is not durable until it is through.
        let _one = self.syncing_all.lock();
        self.poison.check()?;
        {
            let mut pending = self.pending.lock();
            if pending.dirty.is_empty() {
                return Ok(());
            }
            pending.dirty.clear();
            pending.naming = std::mem::take(&mut pending.unnamed);
        }
        self.poison.judge(self.disk.sync_everything(&self.dir))?;
        self.pending.lock().naming.clear();
        Ok(())
    }

    /// Removes the file of `id`; an absent one is no error.
    pub(super) fn remove(&self, id: BlobId) -> Result<()> {
        self.disk.remove(&self.path(id))?;
        self.open.forget(Name::Blob(id));
        let mut pending = self.pending.lock();
        pending.dirty.remove(&id);
        pending.unnamed.remove(&id);
        Ok(())
    }

    /// The ids of all files there are, in no order.
    pub(super) fn ids(&self) -> Result<Vec<BlobId>> {
        let mut ids = Vec::new();
        for index in 0..SHARDS {
            let names = self.disk.list(&self.dir.join(shard_name(index)))?;
            let parsed = names.iter().filter_map(|name| parse_hex(name)).map(BlobId);
            ids.extend(parsed.filter(|id| shard(*id) == index));
        }
        Ok(ids)
    }

    /// Where the file of `id` is.
    pub(super) fn path(&self, id: BlobId) -> PathBuf {
        path(&self.dir, id)
    }
}

fn path(dir: &Path, id: BlobId) -> PathBuf {
    dir.join(shard_name(shard(id))).join(id.to_string())
}

fn shard(id: BlobId) -> usize {
    (id.0 & 0xff) as usize
}

fn shard_name(shard: usize) -> String {
    format!("{shard:02x}")
}
