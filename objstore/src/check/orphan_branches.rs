//! Orphan branches: what remains of a bucket or snapshot whose record is missing or unreadable.
//!
//! - Each live branch belongs to a bucket, and each snapshot branch to a snapshot, except for one that a restore fills.
//!   A branch without an owner lost its record.
//! - If exactly one record of a kind is unreadable and one branch of that kind is left, they belong together, and the
//!   name shows the branch again. Otherwise the assignment is unknown, and each branch gets a new name.
//! - Facts that only the record held are lost: the branch belongs to root, a bucket has no quota, and it has versioning
//!   if there are versions.

use std::collections::HashSet;

use super::fix::{Fix, Found};
use super::{Checked, Report, Roots};
use crate::error::Result;
use crate::meta::Pair;
use crate::record::account::Account;
use crate::record::bucket::{Branch as BranchRecord, BranchKind};
use crate::record::decode;
use crate::record::inode::Inode;
use crate::record::key::{self, Branch, CloneGroup, tag};
use crate::store::ROOT_ACCOUNT;
use crate::tree::order_of;

/// An orphan branch.
struct OrphanBranch {
    clone_group: CloneGroup,
    branch: Branch,
    record: BranchRecord,
}

/// Facts about the bucket of a branch, derived from its inodes.
#[derive(Clone, Copy, Default)]
pub(super) struct Traits {
    /// Whether it had versioning.
    pub versions: bool,
    /// Whether it had object lock.
    pub locked: bool,
}

/// Finds orphan branches, and gives them names.
pub(super) fn check(store: &Checked<'_>, roots: &Roots, report: &mut Report) -> Result<()> {
    let nobodys = nobodys(store, roots)?;
    for (kind, noun, tag) in
        [(BranchKind::Live, "bucket", tag::BUCKET), (BranchKind::Snapshot, "snapshot", tag::SNAPSHOT)]
    {
        let unreadable: Vec<&Pair> = roots.unreadable.iter().filter(|pair| pair.key[0] == tag).collect();
        let branches: Vec<&OrphanBranch> = nobodys.iter().filter(|found| found.record.kind() == kind).collect();
        for pair in &unreadable {
            let name = String::from_utf8_lossy(&pair.key[1..]);
            store.fix(Fix::quarantine_record(pair, None, format!("{noun} \"{name}\": its record cannot be read")));
        }
        for found in &branches {
            let OrphanBranch { clone_group, branch, record } = found;
            let name = match (&unreadable[..], branches.len()) {
                ([pair], 1) => String::from_utf8_lossy(&pair.key[1..]).into_owned(),
                _ => format!("lost-{clone_group:x}-{branch:x}"),
            };
            report.problem(format!(
                "branch {branch} of clone group {clone_group}: it belongs to a {noun}, but no {noun} shows it"
            ));
            let Traits { versions, locked } = traits(store, *clone_group, *branch)?;
            store.fix(Fix::Found(Found {
                id: id_of(store, tag::BUCKET_ID, name.as_bytes())?.filter(|_| kind == BranchKind::Live),
                name,
                clone_group: *clone_group,
                branch: *branch,
                snapshot: kind == BranchKind::Snapshot,
                created: record.created,
                owner: root(store)?,
                versions,
                locked,
            }));
        }
    }
    strays(store, roots, report)
}

fn nobodys(store: &Checked<'_>, roots: &Roots) -> Result<Vec<OrphanBranch>> {
    let shown: HashSet<(CloneGroup, Branch)> = roots.shown.iter().map(|root| (root.clone_group, root.branch)).collect();
    let mut nobodys = Vec::new();
    store.each(&[tag::BRANCH], |pair| {
        let Some((clone_group, (_, branch))) = key::u64_at(&pair.key, 1).zip(key::unbranched(&pair.key)) else {
            return Ok(());
        };
        let Ok(record) = decode::<BranchRecord>("a branch", &pair.value) else { return Ok(()) };
        let is_living = matches!(record.kind(), BranchKind::Live | BranchKind::Snapshot);
        if is_living
            && !shown.contains(&(clone_group, branch))
            && store.read().get(&key::by_id(tag::RESTORE, clone_group))?.is_none()
        {
            nobodys.push(OrphanBranch { clone_group, branch, record });
        }
        Ok(())
    })?;
    Ok(nobodys)
}

/// Ids that lead to the name of a missing bucket.
fn strays(store: &Checked<'_>, roots: &Roots, report: &mut Report) -> Result<()> {
    store.each(&[tag::BUCKET_ID], |pair| {
        let at = [&[tag::BUCKET], &pair.value[..]].concat();
        if store.read().get(&at)?.is_none() && !roots.unreadable.iter().any(|pair| pair.key == at) {
            let id = key::u64_at(&pair.key, 1).unwrap_or_default();
            let what = format!("bucket id {id}");
            report.problem(format!("{what}: it leads to no bucket"));
            // A bucket with this id may exist under another name.
            if !roots.shown.iter().any(|root| root.bucket == Some(id)) {
                store.fix(Fix::quarantine_record(pair, None, format!("{what}: removed, it led to no bucket")));
            }
        }
        Ok(())
    })
}

/// The id that leads to a name.
pub(super) fn id_of(store: &Checked<'_>, tag: u8, name: &[u8]) -> Result<Option<u64>> {
    let mut found = None;
    store.each(&[tag], |pair| {
        if pair.value == name {
            found = found.or(key::u64_at(&pair.key, 1));
        }
        Ok(())
    })?;
    Ok(found)
}

/// The id of the root account.
fn root(store: &Checked<'_>) -> Result<u64> {
    let value = store.read().get(&key::by_name(tag::ACCOUNT, ROOT_ACCOUNT))?;
    if let Some(Ok(account)) = value.map(|value| decode::<Account>("an account", &value)) {
        return Ok(account.id);
    }
    Ok(id_of(store, tag::ACCOUNT_ID, ROOT_ACCOUNT.as_bytes())?.unwrap_or_default())
}

/// Reads all inodes that a branch sees.
pub(super) fn traits(store: &Checked<'_>, clone_group: CloneGroup, branch: Branch) -> Result<Traits> {
    let Ok(ancestry) = store.lines.ancestry(store.read(), clone_group, branch) else { return Ok(Traits::default()) };
    let versions = ancestry.all(store.read(), tag::VERSION).next().transpose()?;
    let mut traits = Traits { versions: versions.is_some(), locked: false };
    for record in ancestry.all(store.read(), tag::INODE) {
        let Ok(inode) = decode::<Inode>("an inode", &record?.value) else { continue };
        traits.versions |= order_of(&inode) != 0;
        traits.locked |= inode.object.is_some_and(|object| object.legal_hold || object.retention.is_some());
    }
    Ok(traits)
}
