//! Check of branches: a bucket writes a live one, a snapshot reads one of its own, and each knows its parent.
//!
//! - The first branch of a clone group has no parent, and the record that shows a branch determines its kind. A
//!   snapshot and the branch where its bucket continues are created together with consecutive numbers, so they have the
//!   same parent. For any other unreadable branch the parent is unknown: it is reported and left unchanged.

use prost::Message;

use super::fix::Fix;
use super::{Checked, Report, Root};
use crate::error::Result;
use crate::meta::Pair;
use crate::record::bucket::{Branch as BranchRecord, BranchKind};
use crate::record::decode;
use crate::record::key::{self, Branch, CloneGroup, tag};

/// Checks all branches.
pub(super) fn check(store: &Checked<'_>, roots: &[Root], report: &mut Report) -> Result<()> {
    store.each(&[tag::BRANCH], |pair| {
        let ids = key::u64_at(&pair.key, 1).zip(key::unbranched(&pair.key).map(|(_, branch)| branch));
        let Some((clone_group, branch)) = ids else { return Ok(()) };
        let what = format!("branch {branch} of clone group {clone_group}");
        if let Err(error) = decode::<BranchRecord>(&what, &pair.value) {
            match follows(store, roots, clone_group, branch)? {
                Some(record) => {
                    report.problem(error.to_string());
                    let done = format!("{what}: its record was created again");
                    store.fix(Fix::quarantine_record(pair, Some(record.encode_to_vec()), done));
                }
                None => {
                    report.problem(format!("{error}; its parent is unknown: restore its buckets from a backup"));
                }
            }
        }
        Ok(())
    })?;
    roots.iter().try_for_each(|root| shown(store, root, report))
}

fn shown(store: &Checked<'_>, root: &Root, report: &mut Report) -> Result<()> {
    let value = store.read().get(&key::of_branch(tag::BRANCH, root.clone_group, root.branch))?;
    let what = format!("{}: branch {} of clone group {}", root.what, root.branch, root.clone_group);
    let Some(value) = value else {
        report.problem(format!("{what}: it has no record"));
        return Ok(());
    };
    let wanted = if root.bucket.is_some() { BranchKind::Live } else { BranchKind::Snapshot };
    if let Ok(branch) = decode::<BranchRecord>(&what, &value)
        && branch.kind() != wanted
    {
        report.problem(format!("{what}: it is {:?}, not {wanted:?}", branch.kind()));
    }
    Ok(())
}

/// The record of a branch, as far as it follows from others.
fn follows(
    store: &Checked<'_>,
    roots: &[Root],
    clone_group: CloneGroup,
    branch: Branch,
) -> Result<Option<BranchRecord>> {
    let root = roots.iter().find(|root| (root.clone_group, root.branch) == (clone_group, branch));
    let others: Vec<(Branch, BranchRecord)> = crate::store::all(store.read(), &key::by_id(tag::BRANCH, clone_group))?
        .iter()
        .filter_map(|Pair { key, value }| Some((key::unbranched(key)?.1, BranchRecord::decode(&**value).ok()?)))
        .collect();
    let kind = match root {
        Some(root) if root.bucket.is_some() => BranchKind::Live,
        Some(_) => BranchKind::Snapshot,
        None if others.iter().any(|(_, other)| other.parent == branch) => BranchKind::Interior,
        None => return Ok(None),
    };
    let record = |parent, created| Some(BranchRecord { parent, kind: kind as i32, created });
    if branch == Branch::MAX {
        return Ok(record(0, others.iter().map(|(_, other)| other.created).min().unwrap_or_default()));
    }
    let beside = others.iter().find(|(id, other)| match kind {
        BranchKind::Snapshot => *id + 1 == branch,
        _ => *id == branch + 1 && other.kind() == BranchKind::Snapshot,
    });
    Ok(beside.and_then(|(_, other)| record(other.parent, other.created)))
}
