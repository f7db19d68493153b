//! Creation and deletion of branches.
//!
//! - A bucket writes its *live* branch. A snapshot turns that branch into an interior branch with two children: the
//!   snapshot and the new live leaf.
//! - A clone is a live child of a snapshot's branch, or, for a bucket, one of the two children into which the bucket
//!   splits.
//! - Uploads in progress belong to a bucket: their bytes continue with it, not with its snapshots and clones.
//! - Deletion marks a branch dead in one record. Versions that only it saw are collected in the background.

use prost::Message;

use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::meta::{Read, Txn};
use crate::record::bucket::{Branch as BranchRecord, BranchKind, CloneGroup as FamilyRecord, Usage};
use crate::record::decode;
use crate::record::key::{self, Branch, CloneGroup, tag};

/// Writes the first branch of a new clone group.
pub fn first_branch(txn: &mut dyn Txn, clone_group: CloneGroup, now: Timestamp) -> Branch {
    let branch = Branch::MAX;
    let record = FamilyRecord { next_ino: 2, next_branch: branch - 1, next_version: u64::MAX };
    txn.put(key::by_id(tag::CLONE_GROUP, clone_group), record.encode_to_vec());
    put(txn, clone_group, branch, BranchRecord { parent: 0, kind: BranchKind::Live as i32, created: now.0 });
    branch
}

/// Turns the live `branch` into the parent of a snapshot and of a new live branch; returns both.
pub fn snapshot_branch(
    txn: &mut dyn Txn,
    clone_group: CloneGroup,
    branch: Branch,
    now: Timestamp,
) -> Result<(Branch, Branch)> {
    split(txn, clone_group, branch, BranchKind::Snapshot, now)
}

/// Turns the live `branch` into the parent of two live ones: the clone, and the bucket's new branch.
pub fn fork_branch(
    txn: &mut dyn Txn,
    clone_group: CloneGroup,
    branch: Branch,
    now: Timestamp,
) -> Result<(Branch, Branch)> {
    split(txn, clone_group, branch, BranchKind::Live, now)
}

fn split(
    txn: &mut dyn Txn,
    clone_group: CloneGroup,
    branch: Branch,
    kind: BranchKind,
    now: Timestamp,
) -> Result<(Branch, Branch)> {
    let mut parent = get(&*txn, clone_group, branch)?;
    parent.kind = BranchKind::Interior as i32;
    put(txn, clone_group, branch, parent);
    let other = child(txn, clone_group, branch, kind, false, now)?;
    let live = child(txn, clone_group, branch, BranchKind::Live, true, now)?;
    txn.delete(key::of_branch(tag::USAGE, clone_group, branch));
    Ok((other, live))
}

/// Creates a live child of a snapshot's branch, or of an interior one.
pub fn clone_branch(txn: &mut dyn Txn, clone_group: CloneGroup, branch: Branch, now: Timestamp) -> Result<Branch> {
    child(txn, clone_group, branch, BranchKind::Live, false, now)
}

fn child(
    txn: &mut dyn Txn,
    clone_group: CloneGroup,
    parent: Branch,
    kind: BranchKind,
    keeps_uploads: bool,
    now: Timestamp,
) -> Result<Branch> {
    let clone_group_key = key::by_id(tag::CLONE_GROUP, clone_group);
    let what = format!("clone group {clone_group}");
    let value = txn.get(&clone_group_key)?.ok_or_else(|| Error::corrupt(what.clone(), "a record", "none"))?;
    let mut record: FamilyRecord = decode(&what, &value)?;
    let id = record.next_branch;
    if id == 0 {
        return Err(Error::TooDeep { limit: Branch::MAX.into() });
    }
    record.next_branch -= 1;
    txn.put(clone_group_key, record.encode_to_vec());
    put(txn, clone_group, id, BranchRecord { parent, kind: kind as i32, created: now.0 });
    if let Some(usage) = txn.get(&key::of_branch(tag::USAGE, clone_group, parent))? {
        let held: Usage = decode("usage", &usage)?;
        let held = Usage { upload_bytes: if keeps_uploads { held.upload_bytes } else { 0 }, ..held };
        txn.put(key::of_branch(tag::USAGE, clone_group, id), held.encode_to_vec());
    }
    Ok(id)
}

/// Marks a branch dead and queues it for collection.
pub fn kill_branch(txn: &mut dyn Txn, clone_group: CloneGroup, branch: Branch) -> Result<()> {
    let mut record = get(&*txn, clone_group, branch)?;
    record.kind = BranchKind::Dead as i32;
    put(txn, clone_group, branch, record);
    txn.delete(key::of_branch(tag::USAGE, clone_group, branch));
    txn.put(key::of_branch(tag::DEAD, clone_group, branch), vec![1]);
    Ok(())
}

fn get(read: &dyn Read, clone_group: CloneGroup, branch: Branch) -> Result<BranchRecord> {
    let what = format!("branch {branch} of clone group {clone_group}");
    let value = read.get(&key::of_branch(tag::BRANCH, clone_group, branch))?;
    decode(&what, &value.ok_or_else(|| Error::corrupt(what.clone(), "a record", "none"))?)
}

fn put(txn: &mut dyn Txn, clone_group: CloneGroup, branch: Branch, record: BranchRecord) {
    txn.put(key::of_branch(tag::BRANCH, clone_group, branch), record.encode_to_vec());
}
