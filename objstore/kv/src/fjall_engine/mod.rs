//! The embedded engine: fjall 3 with one keyspace, and its journal as the log (docs/internals/decisions/0001 explains
//! the choice).
//!
//! - The folder belongs to one process: opening it twice is refused.
//! - Memory: the block cache, and memtables of 8 MiB: one or two in quiet times, a few of up to 16 MiB while writes
//!   arrive faster than the disk accepts them. fjall keeps a keyspace's memtable size from its creation.
//! - Disk: the journal is preallocated in files of 64 MiB, which are removed as memtables become tables.
//! - [`Standby`] is a store whose batches a log on other machines keeps: `shipped` is its durability, `checkpoint` links its
//!   tables.
//! - With [`Options::reserve`] a part of the disk is set aside, so that a store on a full disk opens and can delete.
//!
//! A crash leaves the journal with a torn end, which opening cuts off; the whole batches before it are replayed, except
//! those already in tables. Anything else that differs from what was written is damage and never cut off: opening fails
//! with [`Error::Corrupt`](objstore_base::error::Error::Corrupt), and has cut off only what tables contain.

mod batches;
mod checkpoint;
mod error;
mod journal;
mod lists;
mod reserve;
mod store;
mod tail;
mod torn;
mod trim;
mod validate;
mod version;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fjall::compaction::Leveled;
use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions};
use objstore_base::error::{Error, Result};
use objstore_disk::{Disk as _, RealDisk, Room, refuse_irregular};
use rustix::fs::{FlockOperation, flock};

use self::checkpoint::Tables;
use self::reserve::Reserve;
use self::store::Store;
use self::tail::Mark;
use self::validate::Log;
use super::backend::{BATCH_KEY, Backend as _, decode_batch};
use super::batch::guarded;
use super::engine::{Durability, Engine};
use super::shipped::{self, Follower, Link, Start};
use super::writer::Writer;

pub use super::shipped::{Checkpoints, Claimed, Followed, Lease, Lost, Place};

/// The name of the only keyspace.
const KEYSPACE: &str = "meta";

/// The size at which a memtable becomes a table. Recorded in the folder when it is created.
const MEMTABLE_BYTES: u64 = 8 << 20;

/// The approximate size of a table that compaction writes; recorded in the folder as well. Until the table is complete,
/// all blocks that it was made of stay in memory, since its index refers to their keys.
const TABLE_BYTES: u64 = 16 << 20;

/// The approximate size limit of all journal files together, which bounds the time to open after a crash.
const JOURNAL_BYTES: u64 = 256 << 20;

/// Options that may differ between installations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Memory for cached blocks of tables, in bytes.
    pub cache_bytes: u64,
    /// Table files kept open, at least 10.
    pub open_files: usize,
    /// Whether disk space is reserved for when the disk is full.
    pub reserve: bool,
}

impl Default for Options {
    /// 20 MiB and 256 files: with these a server stays well below 128 MiB of memory in total.
    fn default() -> Self {
        Self { cache_bytes: 20 << 20, open_files: 256, reserve: false }
    }
}

/// Opens the store in the folder `path`, or creates it there. Everything in the store is then on disk, except the
/// folder's own name, which the caller syncs.
///
/// # Errors
/// - [`Error::Unusable`](objstore_base::error::Error::Unusable): another process has it open, it is of another
///   version, or it is a copy of a store whose batches a log keeps.
/// - [`Error::Corrupt`](objstore_base::error::Error::Corrupt): the journal or a table is damaged.
pub fn open(path: &Path, options: Options) -> Result<Arc<dyn Engine>> {
    let store = open_store(path, options)?;
    shipped::refuse_copy(&*store.snapshot())?;
    Ok(Arc::new(Writer::start(store)?))
}

/// Makes a store without a log of the copy in the folder `path`: from then on [`open`] takes it. A store without a log stays
/// as it is. The caller has marked the store in the log as moved, so no server continues it there.
///
/// A crash leaves the copy or the store.
///
/// # Errors
/// Those of [`open`], except that a copy is expected.
pub fn detach(path: &Path, options: Options) -> Result<()> {
    let store = open_store(path, options)?;
    let Some(changes) = shipped::detached(&*store.snapshot())? else { return Ok(()) };
    store.commit(changes, Durability::Synced)
}

/// A copy, in a folder, of a store whose batches a log keeps. It follows the log until this server owns it.
pub struct Standby {
    follower: Follower<Store>,
    folder: PathBuf,
    checkpoints: Option<Checkpoints>,
}

impl Standby {
    /// Opens the copy in the folder `path`, which may be empty: what it lacks is read from the newest checkpoint and the
    /// log. A copy that is damaged, or that another server's batches contradict, is made again.
    ///
    /// # Errors
    /// [`Error::Unusable`]: the log cannot be reached, or the folder belongs to another store.
    pub fn open(path: &Path, options: Options, place: Place) -> Result<Self> {
        let (folder, checkpoints) = (path.to_owned(), place.checkpoints.clone());
        let (path, log, source) = (folder.clone(), Arc::clone(&place.log), checkpoints.clone());
        let local = move |start| {
            if start == Start::Existing && path.join("version").exists() {
                return open_store(&path, options);
            }
            make_empty(&path)?;
            let restored = match &source {
                Some(Checkpoints { vault, .. }) => {
                    let id = log.tail().map_err(shipped::failed)?.id;
                    shipped::restore(&**vault, id, &path).inspect_err(|_| drop(make_empty(&path)))?
                }
                None => None,
            };
            let store = open_store(&path, options)?;
            restored.map_or(Ok(()), |batch| ends_with(&store, batch))?;
            Ok(store)
        };
        Ok(Self { follower: Follower::open(local, place)?, folder, checkpoints })
    }

    /// Replays the next page of the log. Blocking.
    ///
    /// # Errors
    /// - [`Error::Busy`]: the log cannot be reached at the moment.
    /// - [`Error::Unusable`]: the copy and the log do not fit.
    /// - [`Error::Corrupt`]: an entry of the log is damaged.
    pub fn follow(&mut self) -> Result<Followed> {
        self.follower.follow()
    }

    /// Notes in the log that this server follows it, and how far it is. Blocking.
    ///
    /// # Errors
    /// Those of [`Standby::follow`].
    pub fn announce(&self) -> Result<()> {
        self.follower.announce()
    }

    /// Claims the log for this server, if its owner's lease has ended. Blocking.
    ///
    /// # Errors
    /// Those of [`Standby::follow`].
    pub fn claim(&mut self) -> Result<Claimed> {
        self.follower.claim()
    }

    /// The copy as a store without a log, to be examined: nothing that is written to it reaches the log.
    ///
    /// # Errors
    /// [`Error::Engine`]: its threads cannot be started.
    pub fn into_examined(self) -> Result<Arc<dyn Engine>> {
        Ok(Arc::new(Writer::start(self.follower.into_copy()?)?))
    }

    /// The store, once the log is this server's.
    ///
    /// # Errors
    /// Those of [`Standby::follow`].
    pub fn into_engine(self) -> Result<Arc<dyn Engine>> {
        let shipped = self.follower.into_owner()?;
        if let Some(checkpoints) = self.checkpoints {
            let source = |store: &Store| -> Box<dyn Link> {
                Box::new(Tables { folder: self.folder.clone(), keyspace: store.keyspace.clone() })
            };
            shipped.start_checkpoints(source, self.folder.with_file_name(STAGING), checkpoints)?;
        }
        Ok(Arc::new(Writer::start(shipped)?))
    }
}

/// Refuses a store from a checkpoint that shows another last batch.
fn ends_with(store: &Store, batch: u64) -> Result<()> {
    let last = decode_batch(store.snapshot().get(BATCH_KEY)?.as_deref())?;
    if last == batch {
        return Ok(());
    }
    Err(Error::corrupt("the copy from a checkpoint", format!("the last batch {batch}"), last.to_string()))
}

/// The folder for the links of a checkpoint, beside the copy.
const STAGING: &str = "checkpoint";

fn make_empty(path: &Path) -> Result<()> {
    let failed = |source| Error::io(format!("making {} again", path.display()), source);
    std::fs::remove_dir_all(path).map_err(failed)?;
    RealDisk::new().make_dir_all(path)
}

fn open_store(path: &Path, options: Options) -> Result<Store> {
    // fjall would open anything with the name of one of its files, and wait if that is a FIFO.
    refuse_irregular(path)?;
    let reserve = options.reserve.then(|| Reserve::open(path));
    if let Some(reserve) = &reserve {
        store::make_room(&Room::default(), reserve, path).unwrap_or_else(|error| {
            tracing::warn!(folder = %path.display(), %error, "the disk is full while the metadata is opened");
        });
    }
    version::check(path)?;
    let mark = Mark::read(path);
    let log = prepare(path, mark)?;
    let opened = |threads| {
        let started = || start(path, options, threads).map_err(|failure| error::on_open(path, failure));
        guarded("opening the metadata", started)
    };
    if log.is_some_and(|log| log.files > 1) {
        // fjall's threads immediately write tables from what was read of older files, and then remove the files; so the
        // comparison comes before those threads start.
        store::compare(&opened(Some(0))?, path, log)?;
    }
    Store::open(opened(None)?, path, (mark, log), reserve)
}

/// Cuts off parts of the journal that fjall need not read or would take for damage, and refuses damage that fjall would
/// not notice; returns the result of [`validate::check`].
fn prepare(path: &Path, mark: Mark) -> Result<Option<Log>> {
    // fjall locks this file too: it refuses a folder that another process has open, whose files must not be changed.
    let Ok(lock) = File::open(path.join("lock")) else { return Ok(None) };
    if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(None);
    }
    lists::check(path)?;
    if let Err(error) = trim::trim(path, mark.tables) {
        tracing::warn!(folder = %path.display(), %error, "cannot trim the metadata journal; it is read without trimming");
    }
    validate::check(path, mark)
}

/// Starts fjall, with the given number of threads or with fjall's default.
fn start(path: &Path, options: Options, threads: Option<usize>) -> fjall::Result<(Database, Keyspace)> {
    let mut builder = Database::builder(path);
    if let Some(threads) = threads {
        builder = builder.worker_threads_unchecked(threads);
    }
    let database = builder
        .cache_size(options.cache_bytes)
        .max_cached_files(Some(options.open_files.max(10)))
        .max_journaling_size(JOURNAL_BYTES)
        // Compressing every value a second time, for a log that lives for seconds, costs more than the saved bytes are
        // worth.
        .journal_compression(CompressionType::None)
        .open()?;
    let leveled = || Arc::new(Leveled::default().with_table_target_size(TABLE_BYTES));
    let create = || KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES).compaction_strategy(leveled());
    let keyspace = database.keyspace(KEYSPACE, create)?;
    Ok((database, keyspace))
}

#[cfg(test)]
mod flipped;
#[cfg(test)]
mod tests;
