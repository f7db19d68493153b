//! How branches come and go.
//!
//! - A snapshot of a live branch makes it interior, with two children: the snapshot and the new live leaf.
//! - A clone is a live child of a snapshot's branch, or, of a bucket, one of the two children the bucket splits into.
//! - Uploads under way belong to a bucket: their bytes go on with it, not with its snapshots and clones.
//! - Deleting marks a branch dead: one record. Collection of what only it saw follows in the background.

use prost::Message;

use super::line::{Line, Lines};
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::meta::{Read, Txn};
use crate::record::bucket::{Branch as BranchRecord, BranchKind, Family as FamilyRecord, Usage};
use crate::record::decode;
use crate::record::key::{self, Branch, Family, tag};

/// Writes the first branch of a new family.
pub fn first_branch(txn: &mut dyn Txn, family: Family, now: Timestamp) -> Branch {
    let branch = Branch::MAX;
    let record = FamilyRecord { next_ino: 2, next_branch: branch - 1, next_version: u64::MAX };
    txn.put(key::by_id(tag::FAMILY, family), record.encode_to_vec());
    put(txn, family, branch, BranchRecord { parent: 0, kind: BranchKind::Live as i32, created: now.0 });
    branch
}

/// Turns the live `branch` into the parent of a snapshot and of a new live branch; gives both.
pub fn snapshot_branch(txn: &mut dyn Txn, family: Family, branch: Branch, now: Timestamp) -> Result<(Branch, Branch)> {
    split(txn, family, branch, BranchKind::Snapshot, now)
}

/// Turns the live `branch` into the parent of two live ones: the clone and where the bucket goes on.
pub fn fork_branch(txn: &mut dyn Txn, family: Family, branch: Branch, now: Timestamp) -> Result<(Branch, Branch)> {
    split(txn, family, branch, BranchKind::Live, now)
}

fn split(
    txn: &mut dyn Txn,
    family: Family,
    branch: Branch,
    kind: BranchKind,
    now: Timestamp,
) -> Result<(Branch, Branch)> {
    let mut parent = get(&*txn, family, branch)?;
    parent.kind = BranchKind::Interior as i32;
    put(txn, family, branch, parent);
    let other = child(txn, family, branch, kind, false, now)?;
    let live = child(txn, family, branch, BranchKind::Live, true, now)?;
    txn.delete(key::of_branch(tag::USAGE, family, branch));
    Ok((other, live))
}

/// Makes a live child of a snapshot's branch, or of an interior one.
pub fn clone_branch(txn: &mut dyn Txn, family: Family, branch: Branch, now: Timestamp) -> Result<Branch> {
    child(txn, family, branch, BranchKind::Live, false, now)
}

fn child(
    txn: &mut dyn Txn,
    family: Family,
    parent: Branch,
    kind: BranchKind,
    keeps_uploads: bool,
    now: Timestamp,
) -> Result<Branch> {
    let family_key = key::by_id(tag::FAMILY, family);
    let what = format!("family {family}");
    let value = txn.get(&family_key)?.ok_or_else(|| Error::corrupt(what.clone(), "a record", "none"))?;
    let mut record: FamilyRecord = decode(&what, &value)?;
    let id = record.next_branch;
    if id == 0 {
        return Err(Error::TooDeep { limit: Branch::MAX.into() });
    }
    record.next_branch -= 1;
    txn.put(family_key, record.encode_to_vec());
    put(txn, family, id, BranchRecord { parent, kind: kind as i32, created: now.0 });
    if let Some(usage) = txn.get(&key::of_branch(tag::USAGE, family, parent))? {
        let held: Usage = decode("usage", &usage)?;
        let held = Usage { upload_bytes: if keeps_uploads { held.upload_bytes } else { 0 }, ..held };
        txn.put(key::of_branch(tag::USAGE, family, id), held.encode_to_vec());
    }
    Ok(id)
}

/// Marks a branch dead and queues it for collection.
pub fn kill_branch(txn: &mut dyn Txn, family: Family, branch: Branch) -> Result<()> {
    let mut record = get(&*txn, family, branch)?;
    record.kind = BranchKind::Dead as i32;
    put(txn, family, branch, record);
    txn.delete(key::of_branch(tag::USAGE, family, branch));
    txn.put(key::of_branch(tag::DEAD, family, branch), vec![1]);
    Ok(())
}

/// The lines of the branches of a family that somebody reads: live ones and snapshots.
pub fn living_lines(read: &dyn Read, lines: &Lines, family: Family) -> Result<Vec<Line>> {
    let prefix = key::by_id(tag::BRANCH, family);
    let end = key::after_prefix(&prefix);
    let mut from = prefix;
    let mut living = Vec::new();
    loop {
        let pairs = read.scan(&from, &end, 256)?;
        for pair in &pairs {
            let Some((_, branch)) = key::unbranched(&pair.key) else { continue };
            let record: BranchRecord = decode("a branch", &pair.value)?;
            if matches!(record.kind(), BranchKind::Live | BranchKind::Snapshot) {
                living.push(lines.line(read, family, branch)?);
            }
        }
        match pairs.last() {
            Some(last) if pairs.len() == 256 => from = [&last.key[..], &[0]].concat(),
            _ => return Ok(living),
        }
    }
}

/// Of the versions of one record, given by branch in rising order with whether each is a tombstone: those that no
/// living line needs. A tombstone is needed only while it hides a value that stays for another line.
pub fn collectable(living: &[Line], versions: &[(Branch, bool)]) -> Vec<Branch> {
    fn on_line<'a>(versions: &'a [(Branch, bool)], line: &'a Line) -> impl Iterator<Item = &'a (Branch, bool)> {
        versions.iter().filter(|(branch, _)| line.sees(*branch))
    }
    let nearest: Vec<(&Line, (Branch, bool))> =
        living.iter().filter_map(|line| Some((line, *on_line(versions, line).next()?))).collect();
    let is_nearest = |version: (Branch, bool)| nearest.iter().any(|(_, found)| *found == version);
    let stays = |version: (Branch, bool)| !version.1 && is_nearest(version);
    let hides = |line: &Line| on_line(versions, line).any(|version| stays(*version));
    let needed = |version: (Branch, bool)| match version.1 {
        false => is_nearest(version),
        true => nearest.iter().any(|(line, found)| *found == version && hides(line)),
    };
    versions.iter().filter(|version| !needed(**version)).map(|(branch, _)| *branch).collect()
}

fn get(read: &dyn Read, family: Family, branch: Branch) -> Result<BranchRecord> {
    let what = format!("branch {branch} of family {family}");
    let value = read.get(&key::of_branch(tag::BRANCH, family, branch))?;
    decode(&what, &value.ok_or_else(|| Error::corrupt(what.clone(), "a record", "none"))?)
}

fn put(txn: &mut dyn Txn, family: Family, branch: Branch, record: BranchRecord) {
    txn.put(key::of_branch(tag::BRANCH, family, branch), record.encode_to_vec());
}
