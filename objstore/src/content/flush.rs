//! Flushing dirty files, one or many at a time: when S3 looks, before content is shared, after a final close, and when
//! a store closes or opens.
//!
//! - A file whose last writer closed it is flushed in the background, many in one transaction; meanwhile its attributes
//!   are answered from memory. An open file stays dirty, however often S3 looks.
//! - A file that programs may write through a mapping stays dirty as long as they may; their writes are noticed when
//!   someone looks.
//!
//! A crash leaves the records of which files were dirty. Opening the store flushes each from its in-place blob. The
//! size is the blob's, but at least the recorded one (a power cut may leave less of unsynced bytes, never of synced
//! ones). The time is the blob's if that is later. The generation rises by more than the lost flushes can have raised
//! it, so that no entity tag stands for two contents.

use std::sync::Arc;

use crate::blob::BlobId;
use crate::clock::Timestamp;
use crate::core::Core;
use crate::damaged::unless_damaged;
use crate::error::{Error, Result};
use crate::meta::{Durability, Txn};
use crate::record::decode;
use crate::record::dirty::DirtyFile as Record;
use crate::record::inode::{Content, Inode};
use crate::record::key::{self, tag};
use crate::scan::all;
use crate::tree::{FlushMode, Tx};

/// The most files flushed in one transaction.
const STEP: usize = 256;
/// By how much the generation rises after a crash: more than the number of generations that may have been shown without
/// being on disk.
const GENERATIONS_LOST_MAX: u64 = 1 << 20;

impl Core {
    /// Flushes what mounts wrote in place before S3 shows it, so that later writes have another entity tag. Returns
    /// whether any of the files is dirty.
    pub fn observe(self: &Arc<Self>, bucket: u64, inos: &[u64]) -> Result<bool> {
        let mut dirty = self.count_past(bucket, inos)?;
        let mut behind = Vec::new();
        for ino in inos {
            let Some(file) = self.dirty.get(bucket, *ino) else { continue };
            dirty = true;
            if file.seen() {
                behind.push(*ino);
            }
        }
        self.settle_as(bucket, &behind, FlushMode::Keep)?;
        Ok(dirty)
    }

    /// Flushes all dirty files of a bucket before S3 shows them; see [`Core::observe`].
    pub fn observe_all(self: &Arc<Self>, bucket: u64) -> Result<bool> {
        self.observe(bucket, &self.in_place(bucket))
    }

    /// Flushes files and ends their dirty state.
    pub fn flush(self: &Arc<Self>, bucket: u64, inos: &[u64]) -> Result<()> {
        self.count_past(bucket, inos)?;
        self.settle_as(bucket, inos, FlushMode::End)
    }

    /// Flushes all files of a bucket and ends their dirty state.
    pub fn settle_all(self: &Arc<Self>, bucket: u64) -> Result<()> {
        self.flush(bucket, &self.in_place(bucket))
    }

    /// Flushes all files that no writer has open, and ends their dirty state.
    pub fn settle_closed(self: &Arc<Self>) -> Result<()> {
        self.settle_unused(self.dirty.all())
    }

    /// Records that the last writer closed a file: it is flushed later, together with others.
    pub fn settle_later(self: &Arc<Self>, bucket: u64, ino: u64) -> Result<()> {
        self.settle_unused(self.dirty.closed(bucket, ino))
    }

    fn settle_unused(self: &Arc<Self>, mut files: Vec<(u64, u64)>) -> Result<()> {
        files.retain(|(bucket, ino)| !self.writers.has_handles(*bucket, *ino));
        self.settle_each(files)
    }

    /// Flushes every file, before the store closes.
    pub fn settle_everything(self: &Arc<Self>) -> Result<()> {
        self.settle_each(self.dirty.all())
    }

    fn settle_each(self: &Arc<Self>, mut files: Vec<(u64, u64)>) -> Result<()> {
        files.sort_unstable();
        for of_one in files.chunk_by(|a, b| a.0 == b.0) {
            let inos: Vec<u64> = of_one.iter().map(|(_, ino)| *ino).collect();
            self.flush(of_one[0].0, &inos)?;
        }
        Ok(())
    }

    fn settle_as(self: &Arc<Self>, bucket: u64, inos: &[u64], how: FlushMode) -> Result<()> {
        for step in inos.chunks(STEP) {
            let (core, step) = (self.clone(), step.to_vec());
            let flush = move |txn: &mut dyn Txn| settle_step(txn, &core, bucket, &step, how);
            self.meta.transact(Durability::Buffered, flush)?;
        }
        Ok(())
    }
}

/// Flushes some files of a bucket. A damaged one does not prevent the flush of the others.
fn settle_step(txn: &mut dyn Txn, core: &Arc<Core>, bucket: u64, inos: &[u64], how: FlushMode) -> Result<()> {
    let Some(name) = crate::buckets::name_of(&*txn, bucket)? else {
        core.dirty.forget(bucket);
        return Ok(());
    };
    let mut tx = Tx::begin(txn, core, &name, 0)?;
    let mut failed = Ok(());
    for ino in inos {
        let Some(dirty) = core.dirty.entry(bucket, *ino) else { continue };
        if let Err(error) = tx.attempt(|tx| tx.flush(*ino, &dirty, how)) {
            failed = Err(error);
        }
    }
    tx.finish()?;
    if inos.len() == 1 {
        return failed;
    }
    if let Err(error) = failed {
        tracing::warn!(bucket, %error, "cannot record the attributes of a dirty file");
    }
    Ok(())
}

/// Flushes files that a crash left dirty; returns them by bucket and inode.
pub(crate) fn recover(core: &Arc<Core>) -> Result<Vec<(u64, u64)>> {
    let left = all(&*core.meta.snapshot(), &[tag::DIRTY])?;
    let mut found = Vec::new();
    for pair in left {
        let (bucket, ino) = (key::u64_at(&pair.key, 1), key::u64_at(&pair.key, key::DIRTY_INODE_AT));
        let missing = || Error::corrupt("a dirty file", "a bucket and an inode in its key", "none");
        let key = unless_damaged("the mark of a dirty file", bucket.zip(ino).ok_or_else(missing))?;
        let Some((bucket, ino)) = key else { continue };
        let what = format_args!("the mark of the dirty file {ino} of bucket {bucket}");
        found.push((bucket, ino, unless_damaged(what, decode::<Record>("a dirty file", &pair.value))?));
    }
    for step in found.chunks(STEP) {
        let (shared, step) = (core.clone(), step.to_vec());
        let done = core.meta.write(Durability::Buffered, move |txn| {
            step.into_iter().try_for_each(|(bucket, ino, record)| {
                let mark = txn.mark();
                let done = recover_one(txn, &shared, bucket, ino, record).inspect_err(|_| txn.roll_back(mark));
                unless_damaged(format_args!("the dirty file {ino} of bucket {bucket}"), done).map(drop)
            })
        });
        done.wait()?;
    }
    Ok(found.into_iter().map(|(bucket, ino, _)| (bucket, ino)).collect())
}

/// Flushes one. If its record cannot be read, its inode says where the file was written.
fn recover_one(txn: &mut dyn Txn, core: &Arc<Core>, bucket: u64, ino: u64, record: Option<Record>) -> Result<()> {
    txn.delete(key::dirty(bucket, ino));
    let Some(name) = crate::buckets::name_of(&*txn, bucket)? else { return Ok(()) };
    let mut tx = Tx::begin(txn, core, &name, 0)?;
    let Some((branch, inode)) = tx.tree().inode(ino)? else { return Ok(()) };
    let whole = matches!(inode.content, Some(Content::Blob(_)));
    let Some(record) = record.or_else(|| Some(Record { blob: inode.in_place()?, whole })) else { return Ok(()) };
    if branch != tx.branch() || inode.in_place() != Some(record.blob) {
        return Ok(());
    }
    let file = match core.blobs.file(BlobId(record.blob)) {
        Err(error @ Error::Corrupt { .. }) => {
            tracing::error!(bucket = %name, ino, %error, "the in-place blob of a file is missing or damaged");
            return Ok(());
        }
        // Any other error may be temporary. Flushed without its blob, the file would stay as short as its record says.
        file => file?,
    };
    let written = Timestamp::from(file.modified()?);
    let mut inode = tx.own(ino)?;
    if record.whole {
        let size = file.len()?.max(inode.size);
        tx.resize_settled(&mut inode, size);
    }
    catch_up(&mut inode, written);
    tx.save(ino, &inode);
    tx.finish()
}

fn catch_up(inode: &mut Inode, written: Timestamp) {
    inode.generation += GENERATIONS_LOST_MAX;
    inode.mtime = inode.mtime.max(written.0);
    inode.ctime = inode.ctime.max(written.0);
    inode.changed = inode.written().0.max(written.0);
}
