//! The store's own records: numbers that were given stay below the next ones, checksums belong to blobs, what is in the
//! trash is referred to by nobody, and the workers' places can be read.

use prost::Message;

use super::fix::Fix;
use super::{Checked, Report, Root, accounts};
use crate::error::Result;
use crate::record::blob::{Blob, Exposed, SUMS_PER_RECORD, Sums, Trash};
use crate::record::bucket::{self, BranchKind};
use crate::record::decode;
use crate::record::key::{self, tag};
use crate::record::lifecycle::Lifecycle;
use crate::record::restore::Restore;
use crate::record::scrub::Scrub;
use crate::store::header;

/// Checks all.
pub(super) fn check(store: &Checked<'_>, roots: &[Root], report: &mut Report) -> Result<()> {
    head(store, roots, report)?;
    families(store, report)?;
    branches(store, roots, report)?;
    sums(store, report)?;
    trash(store, report)?;
    store.each(&[tag::EXPOSED], |pair| {
        report.take(decode::<Exposed>("a file that a program may write past the server", &pair.value));
        Ok(())
    })?;
    store.each(&[tag::SETTINGS], |pair| {
        let bucket = key::u64_at(&pair.key, 1).unwrap_or_default();
        if !accounts::is_bucket(store, bucket)? {
            report.problem(format!("settings of bucket {bucket}: there is no such bucket"));
            let done = format!("settings of bucket {bucket}: removed, there is no such bucket");
            store.fix(Fix::remove(pair.key.to_vec(), done));
        }
        Ok(())
    })?;
    store.each(&[tag::RESTORE], |pair| {
        report.take(decode::<Restore>("a restore under way", &pair.value));
        Ok(())
    })?;
    if let Some(value) = store.read().get(&key::scrub())?
        && report.take(decode::<Scrub>("the scrub", &value)).is_none()
    {
        store.fix(Fix::remove(key::scrub(), "the scrub begins its pass anew".into()));
    }
    if let Some(value) = store.read().get(&key::lifecycle())? {
        let place = decode::<Lifecycle>("the lifecycle worker", &value);
        if report.take(place).is_none() {
            store.fix(Fix::remove(key::lifecycle(), "the lifecycle worker begins its pass anew".into()));
        }
    }
    Ok(())
}

/// No number is given twice.
fn head(store: &Checked<'_>, roots: &[Root], report: &mut Report) -> Result<()> {
    let Some(head) = header::read(store.read())? else { return Ok(()) };
    let last = |prefix: &[u8]| -> Result<u64> {
        let last = store.read().scan_back(prefix, &key::after_prefix(prefix), 1)?;
        Ok(last.first().and_then(|pair| key::u64_at(&pair.key, 1)).unwrap_or_default())
    };
    let trash = last(&[tag::TRASH])?;
    let mut highest = 0;
    for tag in [tag::BUCKET_ID, tag::FAMILY, tag::ACCOUNT_ID] {
        highest = highest.max(last(&[tag])?);
    }
    highest = roots.iter().map(|root| root.family).fold(highest, u64::max);
    if head.next_id > highest && (trash == 0 || head.next_trash > trash) {
        return Ok(());
    }
    report.problem(format!(
        "the store: its next number {} and place in the trash {} were given before",
        head.next_id, head.next_trash
    ));
    let mended = crate::record::Header {
        next_id: head.next_id.max(highest + 1),
        next_trash: head.next_trash.max(trash + 1),
        ..head
    };
    store.fix(Fix::put(key::header(), mended.encode_to_vec(), "the store: its next numbers were never given".into()));
    Ok(())
}

fn families(store: &Checked<'_>, report: &mut Report) -> Result<()> {
    store.each(&[tag::FAMILY], |pair| {
        let Some(id) = key::u64_at(&pair.key, 1) else { return Ok(()) };
        let what = format!("family {id}");
        let Some(family) = report.take(decode::<bucket::Family>(&what, &pair.value)) else { return Ok(()) };
        let inodes = key::by_id(tag::INODE, id);
        let last = store.read().scan_back(&inodes, &key::after_prefix(&inodes), 1)?;
        let ino = last.first().and_then(|pair| key::u64_at(&pair.key, key::INODE_AT)).unwrap_or_default();
        let branches = key::by_id(tag::BRANCH, id);
        let first = store.read().scan(&branches, &key::after_prefix(&branches), 1)?;
        let branch = first.first().and_then(|pair| key::unbranched(&pair.key)).map_or(u32::MAX, |(_, branch)| branch);
        let version = lowest_version(store, id)?;
        if family.next_ino > ino && family.next_branch < branch && family.next_version <= version {
            return Ok(());
        }
        report.problem(format!("{what}: its next inode, branch or version number was given before"));
        let mended = bucket::Family {
            next_ino: family.next_ino.max(ino + 1),
            next_branch: family.next_branch.min(branch - 1),
            next_version: family.next_version.min(version),
        };
        store.fix(Fix::put(
            pair.key.to_vec(),
            mended.encode_to_vec(),
            format!("{what}: its next numbers were never given"),
        ));
        Ok(())
    })
}

fn lowest_version(store: &Checked<'_>, family: u64) -> Result<u64> {
    let mut lowest = u64::MAX;
    store.each(&key::by_id(tag::VERSION, family), |pair| {
        let name = key::text_at(&pair.key, key::VERSION_KEY_AT);
        let order = name.and_then(|name| key::u64_at(&pair.key, key::VERSION_KEY_AT + name.len() + 1));
        lowest = lowest.min(order.unwrap_or(u64::MAX));
        Ok(())
    })?;
    Ok(lowest)
}

/// A bucket writes a live branch, a snapshot reads one of its own.
fn branches(store: &Checked<'_>, roots: &[Root], report: &mut Report) -> Result<()> {
    for root in roots {
        let value = store.read().get(&key::of_branch(tag::BRANCH, root.family, root.branch))?;
        let what = format!("{}: branch {} of family {}", root.what, root.branch, root.family);
        let Some(value) = value else {
            report.problem(format!("{what}: it has no record"));
            continue;
        };
        let wanted = if root.bucket.is_some() { BranchKind::Live } else { BranchKind::Snapshot };
        if let Some(branch) = report.take(decode::<bucket::Branch>(&what, &value))
            && branch.kind() != wanted
        {
            report.problem(format!("{what}: it is {:?}, not {wanted:?}", branch.kind()));
        }
    }
    Ok(())
}

/// Checksums are of a blob that says it has them, and are as many as it has blocks.
fn sums(store: &Checked<'_>, report: &mut Report) -> Result<()> {
    let mut stray = 0_u64;
    store.each(&[tag::SUMS], |pair| {
        let Some(id) = key::u64_at(&pair.key, 1) else { return Ok(()) };
        let what = format!("checksums of blob {id:016x}");
        let Some(sums) = report.take(decode::<Sums>(&what, &pair.value)) else { return Ok(()) };
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
        if sums.crc.len() as u64 != expected {
            report.problem(format!("{what}: {expected} expected in record {index}, {} found", sums.crc.len()));
        }
        Ok(())
    })?;
    if stray > 0 {
        report.problem(format!("{stray} records of checksums are of blobs that have none"));
    }
    Ok(())
}

fn trash(store: &Checked<'_>, report: &mut Report) -> Result<()> {
    store.each(&[tag::TRASH], |pair| {
        let Some(trash) = report.take(decode::<Trash>("the trash", &pair.value)) else { return Ok(()) };
        let id = trash.id();
        if store.read().get(&key::by_id(tag::BLOB, id.0))?.is_some() {
            report.problem(format!("blob {id}: it is in the trash, but has a record"));
            store.fix(Fix::remove(pair.key.to_vec(), format!("blob {id}: taken out of the trash")));
        }
        Ok(())
    })
}
