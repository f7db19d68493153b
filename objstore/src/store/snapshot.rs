//! Snapshots: a bucket as it was at one moment, under its own name, readable as a bucket and as a mount.

use std::sync::Arc;

use prost::Message;

use super::Store;
use super::types::{Outcome, SnapshotInfo};
use crate::branch::{self, Ancestry};
use crate::clock::Timestamp;
use crate::core::{Core, Named};
use crate::error::{Error, Noun, Result};
use crate::meta::{Durability, Read, Txn};
use crate::name::BucketName;
use crate::passthrough::DetachedCopy;
use crate::record::bucket::{Bucket, Snapshot};
use crate::record::creator::Creator;
use crate::record::decode;
use crate::record::key::{self, tag};
use crate::state::ExclusiveGuard;
use crate::tree::Tx;

/// The record of a snapshot.
pub(super) fn record(read: &dyn Read, name: &str) -> Result<Snapshot> {
    let value = read.get(&key::by_name(tag::SNAPSHOT, name))?;
    decode("a snapshot", &value.ok_or_else(|| Error::not_found(Noun::Snapshot, name))?)
}

pub(super) fn shown(read: &dyn Read, name: &str, record: &Snapshot) -> Result<SnapshotInfo> {
    let ancestry = Ancestry::new(record.clone_group, [record.branch]);
    Ok(SnapshotInfo {
        name: name.to_owned(),
        id: record.id,
        bucket: record.bucket_name.parse()?,
        bucket_id: record.bucket,
        created: Timestamp(record.created),
        size_bytes: super::bucket::usage(read, &ancestry)?.bytes,
        creator: record.creator(),
        group: Some(record.group.clone()).filter(|group| !group.is_empty()),
    })
}

/// How a snapshot came to be.
#[derive(Clone, Copy)]
pub(super) struct Origin<'a> {
    pub creator: Creator,
    /// The group snapshot that it belongs to; empty if it is taken alone.
    pub group: &'a str,
    pub now: Timestamp,
}

/// A bucket whose writes in place are blocked while this is held.
pub(super) struct Frozen {
    pub id: u64,
    pub gate: ExclusiveGuard,
    /// Copies of blobs that programs may still write through mappings.
    pub detached: Vec<DetachedCopy>,
}

impl Store {
    /// Creates a snapshot for the administrator; an existing one of the same bucket is found. The call takes the same
    /// time for any content.
    pub async fn create_snapshot(&self, bucket: &BucketName, name: &BucketName) -> Result<(SnapshotInfo, Outcome)> {
        self.create_snapshot_as(bucket, name, Creator::Administrator).await
    }

    /// Creates a snapshot and records its creator. An existing one is found regardless of its creator: see
    /// [`SnapshotInfo::creator`].
    pub async fn create_snapshot_as(
        &self,
        bucket: &BucketName,
        name: &BucketName,
        creator: Creator,
    ) -> Result<(SnapshotInfo, Outcome)> {
        let _changing = self.begin_change(bucket).await?;
        let (bucket, name) = (bucket.clone(), name.clone());
        self.blocking(move |store| {
            let Frozen { id, gate, detached } = store.freeze(&bucket)?;
            let core = store.core.clone();
            let written = store
                .core
                .meta
                .write(Durability::Synced, move |txn| take(txn, &core, (&bucket, id), (&name, creator), detached));
            let taken = written.wait();
            drop(gate);
            taken
        })
        .await
    }

    /// Blocks writes in place to a bucket, after flushing and syncing earlier ones.
    pub(super) fn freeze(&self, bucket: &BucketName) -> Result<Frozen> {
        let (id, gate) = self.settle_writes(bucket)?;
        // Content of a snapshot or clone is promised to be on disk, wherever it is moved.
        self.core.recent_syncs.note_all(id, self.core.clock.now());
        self.core.blobs.sync_dirty()?;
        Ok(Frozen { id, gate, detached: self.core.passthrough.copies_of_bucket(id)? })
    }

    /// A snapshot by name.
    pub fn snapshot(&self, name: &str) -> Result<SnapshotInfo> {
        let snapshot = self.core.meta.snapshot();
        shown(&*snapshot, name, &record(&*snapshot, name)?)
    }

    /// Up to `limit` snapshots ordered by name, after `after`; only those of one bucket if given.
    pub fn snapshots(
        &self,
        bucket: Option<&BucketName>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<SnapshotInfo>> {
        let snapshot = self.core.meta.snapshot();
        let mut found = Vec::new();
        for pair in super::all(&*snapshot, &[tag::SNAPSHOT])? {
            let name = String::from_utf8_lossy(&pair.key[1..]).into_owned();
            let record: Snapshot = decode("a snapshot", &pair.value)?;
            let wanted = bucket.is_none_or(|bucket| record.bucket_name == bucket.as_str());
            if wanted && after.is_none_or(|after| name.as_str() > after) && found.len() < limit {
                found.push(shown(&*snapshot, &name, &record)?);
            }
        }
        Ok(found)
    }

    /// Deletes a snapshot; content that only it referred to is collected in the background.
    pub async fn delete_snapshot(&self, name: &str) -> Result<()> {
        let name = name.to_owned();
        self.change(move |txn, _| delete(txn, &name)).await?;
        self.background.wake();
        Ok(())
    }
}

/// Removes a snapshot.
pub(super) fn delete(txn: &mut dyn Txn, name: &str) -> Result<()> {
    let record = record(&*txn, name)?;
    txn.delete(key::by_name(tag::SNAPSHOT, name));
    super::group_snapshot::forget_member(txn, &record.group, name)?;
    branch::kill_branch(txn, record.clone_group, record.branch)
}

fn take(
    txn: &mut dyn Txn,
    core: &Arc<Core>,
    (bucket, id): (&BucketName, u64),
    (name, creator): (&BucketName, Creator),
    detached: Vec<DetachedCopy>,
) -> Result<(SnapshotInfo, Outcome)> {
    let source = super::bucket::frozen(&*txn, core, bucket, id)?;
    match record(&*txn, name.as_str()) {
        Ok(found) if found.bucket == source.id => return Ok((shown(&*txn, name.as_str(), &found)?, Outcome::Found)),
        Ok(_) | Err(Error::NotFound { .. }) => {}
        Err(error) => return Err(error),
    }
    super::count::check_buckets(&*txn)?;
    let origin = Origin { creator, group: "", now: core.clock.now() };
    Ok((cut(txn, core, (bucket, source), (name, origin), detached)?, Outcome::Made))
}

/// Takes a snapshot of a bucket whose writes are blocked; its name must be free.
pub(super) fn cut(
    txn: &mut dyn Txn,
    core: &Arc<Core>,
    (bucket, mut source): (&BucketName, Bucket),
    (name, origin): (&BucketName, Origin<'_>),
    detached: Vec<DetachedCopy>,
) -> Result<SnapshotInfo> {
    refuse_taken(&*txn, core, name)?;
    let above = core.lines.ancestry(&*txn, source.clone_group, source.branch)?;
    let (frozen, dirty) = branch::snapshot_branch(txn, source.clone_group, source.branch, origin.now)?;
    let record = Snapshot {
        clone_group: source.clone_group,
        branch: frozen,
        bucket: source.id,
        bucket_name: bucket.to_string(),
        created: origin.now.0,
        id: super::header::next_id(txn)?,
        owner: source.owner,
        versioning: source.versioning,
        object_lock: core.settings.of(&*txn, &source)?.object_lock,
        creator: origin.creator as i32,
        group: origin.group.to_owned(),
    };
    source.branch = dirty;
    super::bucket::move_to_branch(txn, core, bucket, &source);
    let mut tx = Tx::begin_on(txn, core, bucket, source, above.child(dirty)?);
    tx.keep_blobs(detached)?;
    tx.finish()?;
    txn.put(key::by_name(tag::SNAPSHOT, name.as_str()), record.encode_to_vec());
    shown(&*txn, name.as_str(), &record)
}

/// Refuses the name of a bucket or of another snapshot.
fn refuse_taken(read: &dyn Read, core: &Core, name: &BucketName) -> Result<()> {
    let exists = |why: String| Err(Error::Exists { noun: Noun::Snapshot, name: name.to_string(), why });
    match core.named(read, name) {
        Ok(Named::Bucket(_)) => exists("a bucket has this name".into()),
        Ok(Named::Snapshot(found)) => exists(format!("it was taken of bucket \"{}\"", found.bucket_name)),
        Err(Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Deletion;
    use crate::tests::test_store::{TestStore, name};

    #[test]
    fn a_bucket_that_took_the_name_of_the_one_that_is_frozen_is_not_taken_for_it() {
        let test = TestStore::in_memory();
        let bucket = test.bucket("jar");
        let Frozen { id, gate: _gate, detached } = test.store.freeze(&bucket).unwrap();
        test.run(test.store.delete_bucket(&bucket, Deletion::IfEmpty)).unwrap();
        test.bucket("jar");
        let core = test.store.core.clone();
        let take = move |txn: &mut dyn Txn| {
            take(txn, &core, (&bucket, id), (&name("taken"), Creator::Administrator), detached)
        };
        let taken = test.store.core.meta.transact(Durability::Buffered, take);
        assert!(matches!(taken, Err(Error::Busy { .. })));
    }
}
