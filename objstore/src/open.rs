//! Opening a store: the order of recovery.
//!
//! 0. The folder: one that belongs to another user, holds other things, or whose store was moved elsewhere is refused (the
//!    modules `folder` and `moved`).
//! 1. The lock: a second server on the folder is refused.
//! 2. The metadata engine: all whole batches up to the last one on disk. Beside it, the last process's writes are
//!    synced.
//! 3. The header: a store of another format is refused before anything is written.
//! 4. The bucket of the content, if there is one: refused if it belongs to another store. The master key: refused if it is
//!    missing from an existing store.
//! 5. The blobs; their records name the metadata batch after which they were written. If the metadata ends before that,
//!    its log lost a synced tail: the store is refused before a new batch could hide the loss. Of content in a bucket, the
//!    marker and the epochs are compared instead.
//! 6. The epoch rises, synced: so no blob id is ever reused. Then the root account.
//! 7. Remains of the last process: mount sessions, the unlinked inodes they held, files that no record names, the
//!    trash. Segments and dead branches follow in the background.
//! 8. Sessions of other machines are served again; their nodes come back to them, or their leases end.
//! 9. Counting the objects of buckets that an earlier version wrote and did not count; once.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::blob::{self, Blobs};
use crate::core::Core;
use crate::disk::Lock;
use crate::error::{Error, Result};
use crate::gc;
use crate::grant::{KeyCopies, KeyPlace, Master};
use crate::header;
use crate::meta::{Durability, Meta, fjall_engine};
use crate::moved;
use crate::record::{account::Account, creator::Creator, decode, key};
use crate::remote;
use crate::storage::Storage;
use crate::store::{self, Access, Background, Options, Secret, Store, account, key as keys};
use crate::volume;

/// Opens a store, or creates one.
///
/// # Errors
/// [`Error::Unusable`]: another server has it open, it has another format, its master key is missing, or the folder
/// cannot be used. [`Error::Corrupt`]: it is damaged.
pub fn open(options: Options) -> Result<Store> {
    let (lock, meta) = with_folder(&options, fjall_engine::open)?;
    open_on(Meta::new(meta), lock, options, blob::Options::default())
}

/// Locks the data folder, and opens its metadata by `opening`.
pub(crate) fn with_folder<T>(
    options: &Options,
    opening: impl FnOnce(&Path, fjall_engine::Options) -> Result<T>,
) -> Result<(Lock, T)> {
    let Options { dir, disk, cache_bytes, reserve, .. } = options;
    store::check_folder(dir)?;
    disk.make_dir_all(dir)?;
    moved::refuse(&**disk, dir)?;
    let lock = disk.lock(&dir.join("lock"))?;
    let meta_dir = dir.join("meta");
    disk.make_dir_all(&meta_dir)?;
    let engine = fjall_engine::Options { cache_bytes: *cache_bytes, reserve: *reserve, ..Default::default() };
    // Meanwhile the last process's writes are synced, so that the blobs' own sync has little left to do.
    let (opened, synced) = std::thread::scope(|scope| {
        let synced = scope.spawn(|| disk.sync_everything(dir));
        (opening(&meta_dir, engine), synced.join())
    });
    synced.map_err(|_| Error::Engine { why: "syncing the data folder panicked".into() })??;
    Ok((lock, opened?))
}

/// Opens a store on metadata of any engine.
pub(crate) fn open_on(meta: Meta, lock: Lock, options: Options, blobs: blob::Options) -> Result<Store> {
    let (core, access) = open_core(meta, lock, options, blobs)?;
    let background = Arc::new(Background::start(gc::collector(&core))?);
    serving(core, access, background)
}

/// Opens a store without background threads: nothing is collected or synced unless the caller does it.
#[cfg(test)]
pub(crate) fn open_alone(meta: Meta, lock: Lock, options: Options, blobs: blob::Options) -> Result<Store> {
    let (core, access) = open_core(meta, lock, options, blobs)?;
    let background = Arc::new(Background::idle(gc::collector(&core)));
    serving(core, access, background)
}

/// The store, which serves the sessions of other machines again.
fn serving(core: Arc<Core>, access: Arc<Access>, background: Arc<Background>) -> Result<Store> {
    let store = Store { core, access, remote: Arc::default(), background };
    volume::resume_all(&store)?;
    Ok(store)
}

/// Opens everything except the background threads.
fn open_core(meta: Meta, lock: Lock, options: Options, blobs: blob::Options) -> Result<(Arc<Core>, Arc<Access>)> {
    let Options { dir, clock, random, disk, bucket, master_key, master_key_in_bucket, root_key, continued, .. } =
        options;
    let new = match header::read(&*meta.snapshot())? {
        Some(header) => header::check_format(&header).map(|()| false)?,
        None => true,
    };
    let bucket = bucket.map(|bucket| remote::claim(&meta, bucket, &*random)).transpose()?;
    let copies = bucket.as_ref().filter(|_| master_key_in_bucket).map(|bucket| KeyCopies::new(Arc::new(bucket.keys())));
    let place = KeyPlace::new(&dir, master_key.as_deref());
    let master = Master::open(disk.clone(), place, copies, &*random, new)?;
    // No blob is named before the epoch is on disk.
    let epoch = header::next_epoch(&*meta.snapshot())?;
    let opening = bucket.as_ref().map(remote::Claimed::opening);
    let blobs = match bucket {
        Some(bucket) => remote::open(&meta, &disk, &dir, epoch, blobs, bucket)?,
        None => {
            remote::refuse_without(&*meta.snapshot())?;
            Blobs::open(disk.clone(), &dir.join("content"), epoch, meta.poison(), blobs)?
        }
    };
    let watermark = check_tail(&meta, &blobs)?;
    meta.write(Durability::Synced, move |txn| header::open(txn, opening)).wait()?;
    let storage = Storage { meta, blobs, watermark, disk, dir, clock, random, life: epoch, _lock: lock };
    let (core, access) = (Arc::new(Core::new(storage)), Arc::new(Access::new(master)));
    make_root(&core, &access, root_key)?;
    store::master::resume(&core, &access)?;
    gc::recover(&core, &continued)?;
    store::hidden::count_uncounted(&core)?;
    Ok((core, access))
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
    let watermark = Arc::new(AtomicU64::new(metadata));
    blobs.set_synced_batch(watermark.clone());
    Ok(watermark)
}

fn make_root(core: &Arc<Core>, access: &Arc<Access>, given: Option<(String, Secret)>) -> Result<()> {
    let (shared, access) = (core.clone(), access.clone());
    let made = core.meta.write(Durability::Synced, move |txn| {
        let name = account::ROOT_ACCOUNT;
        if let Some(value) = txn.get(&key::by_name(key::tag::ACCOUNT, name))? {
            // The account's keys may have been quarantined.
            let root: Account = decode("the root account", &value)?;
            if !keys::has_any(&*txn, root.id)? {
                keys::add(txn, (&shared, &access), root.id, None)?;
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
        keys::add(txn, (&shared, &access), root.id, given)?;
        Ok(())
    });
    made.wait()
}
