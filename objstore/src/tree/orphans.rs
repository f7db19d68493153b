//! Unlinked inodes that mounts kept in use, and whose last user is gone.

use std::sync::Arc;

use super::tx::Tx;
use crate::core::Core;
use crate::error::Result;
use crate::meta::Txn;
use crate::name::BucketName;

/// Collects an unreferenced orphan.
pub(crate) fn collect(
    txn: &mut dyn Txn,
    core: &Arc<Core>,
    name: &BucketName,
    bucket: u64,
    mount: u64,
    ino: u64,
) -> Result<()> {
    let current = core.bucket_record(&*txn, name)?;
    if current.is_none_or(|record| record.id != bucket) {
        return Ok(());
    }
    let Some(ending) = core.inode_refs.collect_or_keep(bucket, ino) else { return Ok(()) };
    txn.after_commit(Box::new(move || drop(ending)));
    let mut tx = Tx::begin(txn, core, name, mount)?;
    tx.collect_orphan(ino)?;
    tx.finish()
}
