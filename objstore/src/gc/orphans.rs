//! Collection of unlinked inodes that a mount kept in use.
//!
//! - Their marks are seen through branches as the inodes are: a snapshot keeps both, a clone of it collects them when
//!   it is created, and a bucket when its mounts forget them.

use std::sync::Arc;

use crate::core::Core;
use crate::damaged::unless_damaged;
use crate::error::Result;
use crate::meta::Durability;
use crate::name::BucketName;
use crate::record::bucket::Bucket;
use crate::record::decode;
use crate::record::key::{self, CloneGroup, tag};
use crate::scan::all;
use crate::tree::Tx;

/// Collects all orphans when a store opens, except those that continuing sessions may hold.
pub(crate) fn collect_all(core: &Arc<Core>) -> Result<()> {
    let snapshot = core.meta.snapshot();
    let marks = all(&*snapshot, &[tag::ORPHAN])?;
    let mut clone_groups: Vec<CloneGroup> = marks.iter().filter_map(|mark| key::u64_at(&mark.key, 1)).collect();
    clone_groups.dedup();
    if clone_groups.is_empty() {
        return Ok(());
    }
    for pair in all(&*snapshot, &[tag::BUCKET])? {
        let name: BucketName = String::from_utf8_lossy(&pair.key[1..]).parse()?;
        let record = unless_damaged(format_args!("the bucket {name}"), decode::<Bucket>("a bucket", &pair.value))?;
        if record.is_none_or(|record| clone_groups.binary_search(&record.clone_group).is_err()) {
            continue;
        }
        let what = format!("the unlinked files of the bucket {name}");
        let shared = core.clone();
        let done = core.meta.write(Durability::Buffered, move |txn| {
            let mut tx = Tx::begin(txn, &shared, &name, 0)?;
            tx.collect_orphans()?;
            tx.finish()
        });
        unless_damaged(what, done.wait())?;
    }
    Ok(())
}
