//! Opening a store: the order of recovery, and closing.
//!
//! 0. The folder: one that belongs to another user, or holds other things, is refused (the module `folder`).
//! 1. The lock: a second server on the folder is refused.
//! 2. The metadata engine: all whole batches up to the last one on disk. Beside it, the last process's writes are
//!    synced.
//! 3. The header: a store of another format is refused before anything is written.
//! 4. The master key: refused if it is missing from an existing store.
//! 5. The blobs; their records name the metadata batch after which they were written. If the metadata ends before that,
//!    its log lost a synced tail: the store is refused before a new batch could hide the loss.
//! 6. The epoch rises, synced: no blob id is reused, whatever the last process left. Then the root account.
//! 7. Remains of the last process: mount sessions, the unlinked inodes they held, files that no record names, the
//!    trash. Segments and dead branches follow in the background.
//! 8. Counting the objects of buckets that an earlier version wrote and did not count; once.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::types::Secret;
use super::{Store, account, header, key as keys};
use crate::blob::{self, Blobs};
use crate::branch::Lines;
use crate::clock::{Clock, Random, SystemClock, SystemRandom};
use crate::core::Core;
use crate::disk::{Disk, Lock, RealDisk};
use crate::error::{Error, Result};
use crate::gc::Background;
use crate::grant::{KeyPlace, Master};
use crate::meta::{Durability, Meta, Pair, Read, fjall_engine};
use crate::record::{account::Account, creator::Creator, decode, key};
use crate::volume::SessionId;

/// Pairs read at a time.
const CHUNK: usize = 512;

/// How to open a store.
pub struct Options {
    /// The data folder; created if absent.
    pub dir: PathBuf,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The source of random bytes.
    pub random: Arc<dyn Random>,
    /// The disk for content and lock.
    pub disk: Arc<dyn Disk>,
    /// Size of the metadata engine's block cache in bytes.
    pub cache_bytes: u64,
    /// Whether space is set aside on the disk, so that a store on a full disk opens and can delete.
    pub reserve: bool,
    /// The file of the master key, unless it is `master.key` in the data folder.
    pub master_key: Option<PathBuf>,
    /// The root key of a new store; otherwise one is generated.
    pub root_key: Option<(String, Secret)>,
    /// The persistent sessions that continue: all others end as the store opens. Take each over, or end it with
    /// [`Store::end_session`].
    pub continued: Vec<SessionId>,
}

impl Options {
    /// The default options for a data folder.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            clock: Arc::new(SystemClock),
            random: Arc::new(SystemRandom),
            disk: Arc::new(RealDisk::new()),
            cache_bytes: fjall_engine::Options::default().cache_bytes,
            reserve: false,
            master_key: None,
            root_key: None,
            continued: Vec::new(),
        }
    }
}

impl Store {
    /// Opens a store, or creates one.
    ///
    /// # Errors
    /// [`Error::Unusable`]: another server has it open, it has another format, its master key is missing, or the folder cannot be used. [`Error::Corrupt`]: it is damaged.
    pub fn open(options: Options) -> Result<Self> {
        let Options { dir, disk, cache_bytes, reserve, .. } = &options;
        super::folder::check(dir)?;
        disk.make_dir_all(dir)?;
        let lock = disk.lock(&dir.join("lock"))?;
        let meta_dir = dir.join("meta");
        disk.make_dir_all(&meta_dir)?;
        let engine = fjall_engine::Options { cache_bytes: *cache_bytes, reserve: *reserve, ..Default::default() };
        // Meanwhile the last process's writes are synced, so that the blobs' own sync has little left to do.
        let (meta, synced) = std::thread::scope(|scope| {
            let synced = scope.spawn(|| disk.sync_everything(dir));
            (fjall_engine::open(&meta_dir, engine), synced.join())
        });
        synced.map_err(|_| Error::Engine { why: "syncing the data folder panicked".into() })??;
        let meta = Meta::new(meta?);
        Self::open_on(meta, lock, options, blob::Options::default())
    }

    /// Opens a store on metadata of any engine.
    pub(crate) fn open_on(meta: Meta, lock: Lock, options: Options, blobs: blob::Options) -> Result<Self> {
        let core = open_core(meta, lock, options, blobs)?;
        let background = Background::start(&core)?;
        Ok(Self { core, background: Arc::new(background) })
    }

    /// Opens a store without background threads: nothing is collected or synced unless the caller does it.
    #[cfg(test)]
    pub(crate) fn open_alone(meta: Meta, lock: Lock, options: Options, blobs: blob::Options) -> Result<Self> {
        let core = open_core(meta, lock, options, blobs)?;
        Ok(Self { core, background: Arc::default() })
    }

    /// Syncs everything and stops. Reading is possible until the last handle is dropped.
    pub fn close(&self) {
        self.background.stop();
        if let Err(error) = self.core.settle_everything() {
            tracing::error!(%error, "cannot record the attributes of dirty files; the next start records them");
        }
        if let Err(error) = self.core.blobs.sync_dirty() {
            tracing::error!(%error, "cannot sync content; writes of the last seconds may not be on disk");
        }
        self.core.meta.close();
    }
}

/// Opens everything except the background threads.
fn open_core(meta: Meta, lock: Lock, options: Options, blobs: blob::Options) -> Result<Arc<Core>> {
    let Options { dir, clock, random, disk, master_key, root_key, continued, .. } = options;
    let new = match header::read(&*meta.snapshot())? {
        Some(header) => header::check_format(header.format).map(|()| false)?,
        None => true,
    };
    let master = Master::open(disk.clone(), KeyPlace::new(&dir, master_key.as_deref()), &*random, new)?;
    // No blob is named before the epoch is on disk.
    let epoch = header::next_epoch(&*meta.snapshot())?;
    let blobs = Blobs::open(disk.clone(), &dir.join("content"), epoch, meta.poison(), blobs)?;
    let stamp = check_tail(&meta, &blobs)?;
    meta.write(Durability::Synced, header::open).wait()?;
    let recent_syncs = crate::content::RecentSyncs::since(clock.now());
    let core = Arc::new(Core {
        meta,
        blobs,
        stamp,
        disk,
        dir,
        clock,
        random,
        lines: Lines::default(),
        buckets: Arc::default(),
        pins: Arc::default(),
        feeds: crate::feed::Feeds::default(),
        lasting: crate::volume::Lasting::default(),
        owed: crate::owed::Ledger::default(),
        life: epoch,
        readers: Arc::default(),
        live: crate::content::LiveFiles::default(),
        writers: crate::volume::Writers::default(),
        recent_syncs,
        settings: super::settings::SettingsCache::default(),
        backed: crate::content::BackedFiles::default(),
        verified: crate::content::VerifiedBlobs::default(),
        gates: crate::content::Gates::default(),
        grants_epoch: AtomicU64::new(1),
        mount_policies: std::sync::OnceLock::new(),
        places: crate::tree::Places::default(),
        hidden_log: crate::tree::HiddenLog::default(),
        mounted: crate::volume::Mounted::default(),
        sessions: parking_lot::Mutex::default(),
        master,
        _lock: lock,
    });
    make_root(&core, root_key)?;
    super::master::resume(&core)?;
    crate::gc::recover(&core, &continued)?;
    super::hidden::count_uncounted(&core)?;
    Ok(core)
}

/// Refuses a metadata log that lost a synced tail.
fn check_tail(meta: &Meta, blobs: &Blobs) -> Result<Arc<AtomicU64>> {
    let (metadata, content) = (meta.synced_batch(), blobs.highest_batch()?);
    if content > metadata {
        let why = format!(
            "the metadata ends at batch {metadata}, but content was written after batch {content}: the end of the metadata log is lost; restore the folder from a backup"
        );
        return Err(Error::Unusable { why });
    }
    let stamp = Arc::new(AtomicU64::new(metadata));
    blobs.set_synced_batch(stamp.clone());
    Ok(stamp)
}

fn make_root(core: &Arc<Core>, given: Option<(String, Secret)>) -> Result<()> {
    let shared = core.clone();
    let made = core.meta.write(Durability::Synced, move |txn| {
        let name = account::ROOT_ACCOUNT;
        if let Some(value) = txn.get(&key::by_name(key::tag::ACCOUNT, name))? {
            // The account's keys may have been quarantined.
            let root: Account = decode("the root account", &value)?;
            if !keys::has_any(&*txn, root.id)? {
                keys::add(txn, &shared, root.id, None)?;
            }
            return Ok(());
        }
        let record = Account {
            may_create_buckets: true,
            root: true,
            created: shared.clock.now().0,
            creator: Creator::Administrator as i32,
            ..Account::default()
        };
        let root = account::add(txn, name, record)?;
        keys::add(txn, &shared, root.id, given)?;
        Ok(())
    });
    made.wait()
}

/// All pairs whose keys begin with `prefix`, for kinds of records with few entries.
pub(crate) fn all(read: &dyn Read, prefix: &[u8]) -> Result<Vec<Pair>> {
    let end = key::after_prefix(prefix);
    let mut from = prefix.to_vec();
    let mut pairs = Vec::new();
    loop {
        let chunk = read.scan(&from, &end, CHUNK)?;
        let more = chunk.len() == CHUNK;
        pairs.extend(chunk);
        match pairs.last() {
            Some(last) if more => from = [&last.key[..], &[0]].concat(),
            _ => return Ok(pairs),
        }
    }
}
