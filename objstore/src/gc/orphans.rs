//! Unlinked inodes that a mount kept in use.

use std::sync::Arc;

use crate::branch::living_lines;
use crate::core::Core;
use crate::error::Result;
use crate::meta::{Durability, Txn};
use crate::name::BucketName;
use crate::record::key::{self, Family, tag};
use crate::store;
use crate::tree::Tx;

/// Collects an orphan whose last user is gone.
pub(crate) fn collect(
    txn: &mut dyn Txn,
    core: &Arc<Core>,
    name: &BucketName,
    bucket: u64,
    mount: u64,
    family: Family,
    ino: u64,
) -> Result<()> {
    let marks = store::all(&*txn, &key::orphan_marks(family, ino))?;
    for mark in marks {
        txn.delete(mark.key.to_vec());
    }
    let current = core.bucket_record(&*txn, name)?;
    if current.is_none_or(|record| record.id != bucket) {
        return Ok(());
    }
    let mut tx = Tx::begin(txn, core, name, mount)?;
    if tx.tree().inode(ino)?.is_some_and(|(_, inode)| inode.nlink == 0) {
        tx.destroy(ino)?;
    }
    tx.finish()
}

/// Collects all orphans: when a store opens, no mount uses any.
pub(crate) fn collect_all(core: &Arc<Core>) -> Result<()> {
    let marks = store::all(&*core.meta.snapshot(), &[tag::ORPHAN])?;
    for mark in marks {
        let (Some(family), Some(ino)) = (key::u64_at(&mark.key, 1), key::u64_at(&mark.key, 9)) else { continue };
        let shared = core.clone();
        let done = core.meta.write(Durability::Buffered, move |txn| {
            txn.delete(mark.key.to_vec());
            collect_in_family(txn, &shared, family, ino)
        });
        done.wait()?;
    }
    Ok(())
}

/// Destroys an unlinked inode in every bucket of its family. Snapshots keep it, unseen, as long as they live.
fn collect_in_family(txn: &mut dyn Txn, core: &Arc<Core>, family: Family, ino: u64) -> Result<()> {
    let living: Vec<_> = living_lines(&*txn, &core.lines, family)?.iter().map(crate::branch::Line::branch).collect();
    for pair in store::all(&*txn, &[tag::BUCKET])? {
        let record: crate::record::bucket::Bucket = crate::record::decode("a bucket", &pair.value)?;
        if record.family == family && living.contains(&record.branch) {
            let name: BucketName = String::from_utf8_lossy(&pair.key[1..]).parse()?;
            let mut tx = Tx::begin(txn, core, &name, 0)?;
            if tx.tree().inode(ino)?.is_some_and(|(_, inode)| inode.nlink == 0) {
                tx.destroy(ino)?;
            }
            tx.finish()?;
        }
    }
    Ok(())
}
