//! Check of the store's own records: issued numbers are below the next ones, checksums belong to blobs, blobs in the
//! trash are unreferenced, and the positions of background workers can be read.

use std::collections::HashSet;

use prost::Message;

use super::fix::Fix;
use super::{Checked, Report, Root, accounts};
use crate::error::Result;
use crate::record::blob::{Blob, SUMS_PER_RECORD, Sums, Trash};
use crate::record::bucket;
use crate::record::damage::{Damaged, Quarantined};
use crate::record::decode;
use crate::record::key::{self, Branch, CloneGroup, tag};
use crate::record::lifecycle::Lifecycle;
use crate::record::restore::Restore;
use crate::record::scrub::Scrub;
use crate::store::header;

/// More numbers than a clone group is likely to have issued for records that are gone since.
const GIVEN_MAX: u64 = 1 << 32;

/// Checks all.
pub(super) fn check(store: &Checked<'_>, roots: &[Root], report: &mut Report) -> Result<()> {
    head(store, roots, report)?;
    clone_groups(store, roots, report)?;
    sums(store, report)?;
    trash(store, report)?;
    damaged(store, report)?;
    store.each(&[tag::SETTINGS], |pair| {
        let bucket = key::u64_at(&pair.key, 1).unwrap_or_default();
        if !accounts::is_bucket(store, bucket)? {
            report.problem(format!("settings of bucket {bucket}: there is no such bucket"));
            store.fix(Fix::quarantine_record(
                pair,
                None,
                format!("settings of bucket {bucket}: removed, there was no such bucket"),
            ));
        }
        Ok(())
    })?;
    store.each(&[tag::RESTORE], |pair| {
        if report.take(decode::<Restore>("a restore under way", &pair.value)).is_none() {
            let clone_group = key::u64_at(&pair.key, 1).unwrap_or_default();
            store.fix(Fix::quarantine_record(
                pair,
                restore(store, clone_group)?,
                "a restore in progress: ended".into(),
            ));
        }
        Ok(())
    })?;
    if let Some(value) = store.read().get(&key::scrub())?
        && report.take(decode::<Scrub>("the scrub", &value)).is_none()
    {
        store.fix(Fix::remove(key::scrub(), "the scrub starts its pass again".into()));
    }
    if let Some(value) = store.read().get(&key::lifecycle())? {
        let place = decode::<Lifecycle>("the lifecycle worker", &value);
        if report.take(place).is_none() {
            store.fix(Fix::remove(key::lifecycle(), "the lifecycle worker starts its pass again".into()));
        }
    }
    Ok(())
}

/// Checks that a restore fills the first branch of a separate clone group.
fn restore(store: &Checked<'_>, clone_group: CloneGroup) -> Result<Option<Vec<u8>>> {
    let branch = Branch::MAX;
    let there = store.read().get(&key::of_branch(tag::BRANCH, clone_group, branch))?.is_some();
    Ok(there.then(|| Restore { branch, ..Restore::default() }.encode_to_vec()))
}

/// Checks that no number is issued twice.
fn head(store: &Checked<'_>, roots: &[Root], report: &mut Report) -> Result<()> {
    let Some(head) = header::read(store.read())? else { return Ok(()) };
    let last = |prefix: &[u8]| -> Result<u64> {
        let last = store.read().scan_back(prefix, &key::after_prefix(prefix), 1)?;
        Ok(last.first().and_then(|pair| key::u64_at(&pair.key, 1)).unwrap_or_default())
    };
    let trash = last(&[tag::TRASH])?;
    let mut highest = 0;
    for tag in [tag::BUCKET_ID, tag::CLONE_GROUP, tag::ACCOUNT_ID] {
        highest = highest.max(last(&[tag])?);
    }
    highest = roots.iter().map(|root| root.clone_group).fold(highest, u64::max);
    if head.next_id > highest && (trash == 0 || head.next_trash > trash) {
        return Ok(());
    }
    report.problem(format!(
        "the store: its next number {} and position in the trash {} were issued before",
        head.next_id, head.next_trash
    ));
    let repaired = crate::record::Header {
        next_id: head.next_id.max(highest + 1),
        next_trash: head.next_trash.max(trash + 1),
        ..head
    };
    store.fix(Fix::put(
        key::header(),
        repaired.encode_to_vec(),
        "the store: repaired, its next numbers are unused".into(),
    ));
    Ok(())
}

fn clone_groups(store: &Checked<'_>, roots: &[Root], report: &mut Report) -> Result<()> {
    let mut readable = HashSet::new();
    store.each(&[tag::CLONE_GROUP], |pair| {
        let Some(id) = key::u64_at(&pair.key, 1) else { return Ok(()) };
        let what = format!("clone group {id}");
        let kept = report.take(decode::<bucket::CloneGroup>(&what, &pair.value));
        readable.insert(id);
        let least = given(store, id)?;
        let done = format!("{what}: repaired, its next numbers are unused");
        let Some(clone_group) = kept else {
            store.fix(Fix::put(pair.key.to_vec(), past(least).encode_to_vec(), done));
            return Ok(());
        };
        let repaired = bucket::CloneGroup {
            next_ino: clone_group.next_ino.max(least.next_ino),
            next_branch: clone_group.next_branch.min(least.next_branch),
            next_version: clone_group.next_version.min(least.next_version),
        };
        if repaired != clone_group {
            report.problem(format!("{what}: its next inode, branch or version number was issued before"));
            store.fix(Fix::put(pair.key.to_vec(), repaired.encode_to_vec(), done));
        }
        Ok(())
    })?;
    for root in roots.iter().filter(|root| !readable.contains(&root.clone_group)) {
        let what = format!("{}: clone group {}", root.what, root.clone_group);
        report.problem(format!("{what}: it has no record"));
        let made = past(given(store, root.clone_group)?).encode_to_vec();
        store.fix(Fix::put(
            key::by_id(tag::CLONE_GROUP, root.clone_group),
            made,
            format!("{what}: its record was created again"),
        ));
    }
    Ok(())
}

/// The next unused numbers of a clone group, according to its records.
fn given(store: &Checked<'_>, clone_group: CloneGroup) -> Result<bucket::CloneGroup> {
    let inodes = key::by_id(tag::INODE, clone_group);
    let last = store.read().scan_back(&inodes, &key::after_prefix(&inodes), 1)?;
    let ino = last.first().and_then(|pair| key::u64_at(&pair.key, key::INODE_AT)).unwrap_or_default();
    let branches = key::by_id(tag::BRANCH, clone_group);
    let first = store.read().scan(&branches, &key::after_prefix(&branches), 1)?;
    let branch = first.first().and_then(|pair| key::unbranched(&pair.key)).map_or(u32::MAX, |(_, branch)| branch);
    let shown = store.lowest.borrow().get(&clone_group).copied().unwrap_or(u64::MAX);
    let version = lowest_version(store, clone_group)?.min(shown);
    Ok(bucket::CloneGroup { next_ino: ino + 1, next_branch: branch.saturating_sub(1), next_version: version })
}

/// Numbers beyond all that may have been issued for records that are gone since.
fn past(least: bucket::CloneGroup) -> bucket::CloneGroup {
    bucket::CloneGroup {
        next_ino: least.next_ino.saturating_add(GIVEN_MAX),
        next_branch: least.next_branch.saturating_sub(1 << 10),
        next_version: least.next_version.saturating_sub(GIVEN_MAX),
    }
}

fn lowest_version(store: &Checked<'_>, clone_group: u64) -> Result<u64> {
    let mut lowest = u64::MAX;
    store.each(&key::by_id(tag::VERSION, clone_group), |pair| {
        let name = key::text_at(&pair.key, key::VERSION_KEY_AT);
        let order = name.and_then(|name| key::u64_at(&pair.key, key::VERSION_KEY_AT + name.len() + 1));
        lowest = lowest.min(order.unwrap_or(u64::MAX));
        Ok(())
    })?;
    Ok(lowest)
}

/// Checks that checksums belong to a blob that has them, and that their number matches its size.
fn sums(store: &Checked<'_>, report: &mut Report) -> Result<()> {
    let mut stray = 0_u64;
    store.each(&[tag::SUMS], |pair| {
        let Some(id) = key::u64_at(&pair.key, 1) else { return Ok(()) };
        let what = format!("checksums of blob {id:016x}");
        let sums = report.take(decode::<Sums>(&what, &pair.value));
        let blob = store.read().get(&key::by_id(tag::BLOB, id))?;
        let blob = blob.and_then(|value| decode::<Blob>(&what, &value).ok()).filter(|blob| blob.sums);
        let Some(blob) = blob else {
            stray += 1;
            store.fix(Fix::remove(pair.key.to_vec(), format!("{what}: removed, it has none")));
            return Ok(());
        };
        let index = pair.key.get(9..).and_then(|rest| rest.first_chunk().copied()).map_or(0, u32::from_be_bytes);
        let blocks = blob.length.div_ceil(crate::blob::SUM_BLOCK as u64);
        let expected = blocks.saturating_sub(u64::from(index) * SUMS_PER_RECORD as u64).min(SUMS_PER_RECORD as u64);
        let found = sums.as_ref().map(|sums| sums.crc.len() as u64);
        if found != Some(expected) {
            if let Some(found) = found {
                report.problem(format!("{what}: {expected} expected in record {index}, {found} found"));
            }
            // Without checksums damage cannot be detected: reading it answers an error from now on.
            store.fix(Fix::Content { blob: id, why: format!("{what} cannot be read") });
            store.fix(Fix::quarantine_record(pair, None, what));
        }
        Ok(())
    })?;
    if stray > 0 {
        report.problem(format!("{stray} records of checksums belong to blobs without checksums"));
    }
    Ok(())
}

/// Checks quarantine records: quarantined content stays quarantined, and so does everything it may stand for.
fn damaged(store: &Checked<'_>, report: &mut Report) -> Result<()> {
    store.each(&[tag::DAMAGED], |pair| {
        if report.take(decode::<Damaged>("quarantined content", &pair.value)).is_none() {
            let quarantine = vec![Quarantined { key: pair.key.to_vec(), value: pair.value.to_vec() }];
            let why = "the recorded reason is unreadable".to_owned();
            let record = Damaged { why: why.clone(), quarantine, ..Damaged::default() };
            store.fix(Fix::put(pair.key.to_vec(), record.encode_to_vec(), format!("quarantined content: {why}")));
        }
        Ok(())
    })
}

fn trash(store: &Checked<'_>, report: &mut Report) -> Result<()> {
    store.each(&[tag::TRASH], |pair| {
        let Some(trash) = store.take_or_quarantine::<Trash>("the trash", pair, report) else { return Ok(()) };
        let id = trash.id();
        if store.read().get(&key::by_id(tag::BLOB, id.0))?.is_some() {
            report.problem(format!("blob {id}: it is in the trash, but has a record"));
            store.fix(Fix::remove(pair.key.to_vec(), format!("blob {id}: taken out of the trash")));
        }
        Ok(())
    })
}
