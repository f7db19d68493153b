//! Group snapshots: snapshots of several buckets, all of one moment (CSI v1.12, CreateVolumeGroupSnapshot).
//!
//! - One transaction takes all snapshots of a group, and one deletes them: a crash leaves all or none.
//! - The moment is one for all clients. Writes in place to all the buckets are blocked together, and every other change
//!   is a transaction before or after this one. A change that began after another one was answered is in the group only
//!   if the other is. Stores through a shared mapping that was not synced have no such order.
//! - Buckets are blocked in the order of their ids, so two groups never wait for each other.
//! - The snapshots are ordinary ones that name their group. The record of the group is an index of them, which
//!   `amphora check --repair` derives from them again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use prost::Message;

use super::snapshot::{self, Origin};
use super::types::{GroupMember, GroupSnapshotInfo, Outcome};
use super::{Store, bucket};
use crate::core::Core;
use crate::error::{Error, Noun, Result};
use crate::meta::{Durability, Read, Txn};
use crate::name::BucketName;
use crate::passthrough::DetachedCopy;
use crate::record::bucket::{GroupSnapshot, Snapshot};
use crate::record::creator::Creator;
use crate::record::decode;
use crate::record::key::{self, tag};
use crate::state::ExclusiveGuard;

/// The most buckets of a group snapshot: writes to all of them wait while it is taken.
pub const GROUP_BUCKETS_MAX: usize = 128;

/// A bucket whose writes are blocked, and the name of its snapshot.
struct Part {
    member: GroupMember,
    id: u64,
    detached: Vec<DetachedCopy>,
}

impl Store {
    /// Takes snapshots of several buckets at one moment. A group snapshot of the same name and buckets is found.
    ///
    /// # Errors
    /// [`Error::Exists`] if the group has this name and other buckets, or another snapshot has the name of a member;
    /// [`Error::Invalid`] for no bucket, the same one twice, or more than [`GROUP_BUCKETS_MAX`].
    pub async fn create_group_snapshot(
        &self,
        name: &BucketName,
        members: Vec<GroupMember>,
        creator: Creator,
    ) -> Result<(GroupSnapshotInfo, Outcome)> {
        check_members(name, &members)?;
        let mut changing = Vec::with_capacity(members.len());
        for member in &members {
            changing.push(self.begin_change(&member.bucket).await?);
        }
        let name = name.clone();
        self.blocking(move |store| {
            // A repeated call blocks no writes.
            let (group, asked) = (name.clone(), members.clone());
            let find = move |txn: &mut dyn Txn| find_same(&*txn, &group, &asked);
            if let Some(found) = store.core.meta.write(Durability::Synced, find).wait()? {
                return Ok((found, Outcome::Found));
            }
            let (gates, parts) = store.freeze_all(members)?;
            let core = store.core.clone();
            let take = move |txn: &mut dyn Txn| take(txn, &core, &name, parts, creator);
            let taken = store.core.meta.write(Durability::Synced, take).wait();
            drop(gates);
            taken
        })
        .await
    }

    /// Blocks writes in place to all these buckets at once, after flushing and syncing earlier ones.
    fn freeze_all(&self, members: Vec<GroupMember>) -> Result<(Vec<ExclusiveGuard>, Vec<Part>)> {
        // Most content reaches the disk before writes are blocked.
        self.core.blobs.sync_dirty()?;
        let mut parts = Vec::with_capacity(members.len());
        let read = self.core.meta.snapshot();
        for member in members {
            let record = self.core.bucket_record(&*read, &member.bucket)?;
            let id = record.ok_or_else(|| Error::not_found(Noun::Bucket, member.bucket.as_str()))?.id;
            parts.push(Part { member, id, detached: Vec::new() });
        }
        drop(read);
        parts.sort_by_key(|part| part.id);
        let gates = parts.iter().map(|part| self.core.gates.share(part.id)).collect();
        for part in &parts {
            self.core.settle_all(part.id)?;
            self.core.recent_syncs.note_all(part.id, self.core.clock.now());
        }
        self.core.blobs.sync_dirty()?;
        for part in &mut parts {
            part.detached = self.core.passthrough.copies_of_bucket(part.id)?;
        }
        Ok((gates, parts))
    }

    /// A group snapshot by name.
    pub fn group_snapshot(&self, name: &str) -> Result<GroupSnapshotInfo> {
        let read = self.core.meta.snapshot();
        shown(&*read, name, &members(&*read, name)?)
    }

    /// A group snapshot by name, whose snapshots the caller lists.
    ///
    /// # Errors
    /// [`Error::Invalid`] if `listed` lacks one of its snapshots, or has one that exists and does not belong to it.
    pub fn group_snapshot_of(&self, name: &str, listed: &[String]) -> Result<GroupSnapshotInfo> {
        let read = self.core.meta.snapshot();
        shown(&*read, name, &matching(&*read, name, listed)?)
    }
}

/// Snapshots of a group by name.
type Members = BTreeMap<String, Snapshot>;

fn check_members(name: &BucketName, members: &[GroupMember]) -> Result<()> {
    let refused = |why: String| Err(Error::invalid("group snapshot", name.as_str(), why));
    if !(1..=GROUP_BUCKETS_MAX).contains(&members.len()) {
        return refused(format!("it has {} buckets; use 1 to {GROUP_BUCKETS_MAX}", members.len()));
    }
    let mut seen = BTreeSet::new();
    match members.iter().find(|member| !seen.insert(&member.bucket)) {
        Some(twice) => refused(format!("bucket \"{}\" is listed twice; list each once", twice.bucket)),
        None => Ok(()),
    }
}

/// The existing snapshots of a group.
fn members(read: &dyn Read, name: &str) -> Result<Members> {
    let value = read.get(&key::by_name(tag::GROUP_SNAPSHOT, name))?;
    let value = value.ok_or_else(|| Error::not_found(Noun::GroupSnapshot, name))?;
    let index: GroupSnapshot = decode("a group snapshot", &value)?;
    let mut found = Members::new();
    for member in index.snapshots {
        match snapshot::record(read, &member) {
            Ok(record) if record.group == name => drop(found.insert(member, record)),
            Ok(_) | Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// The existing snapshots of a group, if the caller lists them all and no other existing one.
pub(super) fn matching(read: &dyn Read, name: &str, listed: &[String]) -> Result<Members> {
    let members = members(read, name)?;
    let refused = |why: String| Err(Error::invalid("list of snapshots of the group snapshot", name, why));
    let listed: BTreeSet<&String> = listed.iter().collect();
    if let Some(missing) = members.keys().find(|member| !listed.contains(member)) {
        return refused(format!("it lacks \"{missing}\", which belongs to the group"));
    }
    for other in listed.into_iter().filter(|other| !members.contains_key(*other)) {
        if read.get(&key::by_name(tag::SNAPSHOT, other))?.is_some() {
            return refused(format!("\"{other}\" does not belong to the group"));
        }
    }
    Ok(members)
}

fn shown(read: &dyn Read, name: &str, members: &Members) -> Result<GroupSnapshotInfo> {
    let snapshots = members.iter().map(|(member, record)| snapshot::shown(read, member, record));
    Ok(GroupSnapshotInfo { name: name.to_owned(), snapshots: snapshots.collect::<Result<_>>()? })
}

/// The group that the same request took before, if any.
fn find_same(read: &dyn Read, name: &BucketName, asked: &[GroupMember]) -> Result<Option<GroupSnapshotInfo>> {
    let members = match members(read, name.as_str()) {
        Err(Error::NotFound { noun: Noun::GroupSnapshot, .. }) => return Ok(None),
        members => members?,
    };
    let taken: BTreeSet<&str> = members.values().map(|record| record.bucket_name.as_str()).collect();
    let asked: BTreeSet<&str> = asked.iter().map(|member| member.bucket.as_str()).collect();
    if taken != asked {
        let (noun, name) = (Noun::GroupSnapshot, name.to_string());
        let why = format!("it was taken of other buckets: {}", taken.into_iter().collect::<Vec<_>>().join(", "));
        return Err(Error::Exists { noun, name, why });
    }
    shown(read, name.as_str(), &members).map(Some)
}

/// Takes all snapshots of a group. The buckets' writes are blocked.
fn take(
    txn: &mut dyn Txn,
    core: &Arc<Core>,
    name: &BucketName,
    parts: Vec<Part>,
    creator: Creator,
) -> Result<(GroupSnapshotInfo, Outcome)> {
    let asked: Vec<GroupMember> = parts.iter().map(|part| part.member.clone()).collect();
    if let Some(found) = find_same(&*txn, name, &asked)? {
        return Ok((found, Outcome::Found));
    }
    super::count::check_snapshots(&*txn, parts.len())?;
    let origin = Origin { creator, group: name.as_str(), now: core.clock.now() };
    let mut snapshots = Vec::with_capacity(parts.len());
    for Part { member: GroupMember { bucket, snapshot }, id, detached } in parts {
        let source = bucket::frozen(&*txn, core, &bucket, id)?;
        snapshots.push(snapshot::cut(txn, core, (&bucket, source), (&snapshot, origin), detached)?);
    }
    snapshots.sort_by(|a, b| a.name.cmp(&b.name));
    let index = snapshots.iter().map(|taken| taken.name.clone()).collect();
    put(txn, name.as_str(), index);
    Ok((GroupSnapshotInfo { name: name.to_string(), snapshots }, Outcome::Made))
}

fn put(txn: &mut dyn Txn, name: &str, snapshots: Vec<String>) {
    txn.put(key::by_name(tag::GROUP_SNAPSHOT, name), GroupSnapshot { snapshots }.encode_to_vec());
}

/// Removes the record of a group.
pub(super) fn forget(txn: &mut dyn Txn, name: &str) {
    txn.delete(key::by_name(tag::GROUP_SNAPSHOT, name));
}

/// Removes a deleted snapshot from the record of its group. A group without snapshots is removed.
pub(super) fn forget_member(txn: &mut dyn Txn, group: &str, snapshot: &str) -> Result<()> {
    if group.is_empty() {
        return Ok(());
    }
    let Some(value) = txn.get(&key::by_name(tag::GROUP_SNAPSHOT, group))? else { return Ok(()) };
    let mut index: GroupSnapshot = decode("a group snapshot", &value)?;
    index.snapshots.retain(|member| member != snapshot);
    match index.snapshots.is_empty() {
        true => forget(txn, group),
        false => put(txn, group, index.snapshots),
    }
    Ok(())
}
