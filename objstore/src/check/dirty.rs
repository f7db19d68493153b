//! Check of dirty files: each record of a file written in place, or by passthrough, agrees with the file's inode.
//!
//! - A server that dies leaves such records, and the next opening flushes them: that is not damage.

use prost::Message;

use super::fix::Fix;
use super::{Checked, Report};
use crate::error::Result;
use crate::record::blob::WritableMapping;
use crate::record::bucket::Bucket;
use crate::record::decode;
use crate::record::dirty::DirtyFile;
use crate::record::inode::Content;
use crate::record::key::{self, tag};
use crate::tree::Tree;

/// Checks all.
pub(super) fn check(store: &Checked<'_>, report: &mut Report) -> Result<()> {
    store.each(&[tag::DIRTY], |pair| {
        let ids = key::u64_at(&pair.key, 1).zip(key::u64_at(&pair.key, key::DIRTY_INODE_AT));
        let Some((bucket, ino)) = ids else {
            report.problem("a dirty file: its key has no bucket and inode");
            return Ok(());
        };
        let what = format!("dirty file {ino} of bucket {bucket}");
        match report.take(decode::<DirtyFile>(&what, &pair.value)) {
            Some(dirty) => {
                report.dirty_files += 1;
                check_one(store, &what, (bucket, ino), dirty, report)?;
            }
            None => {
                let dirty = content(store, (bucket, ino))?.and_then(|content| dirty_of(&content));
                let value = dirty.map(|dirty| dirty.encode_to_vec());
                store.fix(Fix::quarantine_record(
                    pair,
                    value,
                    format!("{what}: removed, its inode says where it is written"),
                ));
            }
        }
        Ok(())
    })?;
    mapped_writable(store, report)
}

fn dirty_of(content: &Content) -> Option<DirtyFile> {
    match content {
        Content::Blob(content) => Some(DirtyFile { blob: content.id, whole: true }),
        Content::Extents(content) => Some(DirtyFile { blob: content.in_place?, whole: false }),
        Content::Inline(_) => None,
    }
}

/// Checks records of files that a program may write through a mapping.
fn mapped_writable(store: &Checked<'_>, report: &mut Report) -> Result<()> {
    store.each(&[tag::MAPPED_WRITABLE], |pair| {
        let Some(ids) = key::u64_at(&pair.key, 1).zip(key::u64_at(&pair.key, key::DIRTY_INODE_AT)) else {
            return Ok(());
        };
        let what = format!("file {} of bucket {}, which a program may write by passthrough", ids.1, ids.0);
        if report.take(decode::<WritableMapping>(&what, &pair.value)).is_none() {
            let value = match content(store, ids)? {
                Some(Content::Blob(content)) => Some(WritableMapping { blob: content.id }.encode_to_vec()),
                _ => None,
            };
            store.fix(Fix::quarantine_record(
                pair,
                value,
                format!("{what}: removed, its inode says where it is written"),
            ));
        }
        Ok(())
    })
}

/// The content of an inode of a bucket.
fn content(store: &Checked<'_>, (bucket, ino): (u64, u64)) -> Result<Option<Content>> {
    let Some(name) = store.read().get(&key::by_id(tag::BUCKET_ID, bucket))? else { return Ok(None) };
    let Some(value) = store.read().get(&[&[tag::BUCKET], &name[..]].concat())? else { return Ok(None) };
    let Ok(record) = decode::<Bucket>("a bucket", &value) else { return Ok(None) };
    let Ok(ancestry) = store.lines.ancestry(store.read(), record.clone_group, record.branch) else { return Ok(None) };
    let inode = Tree { read: store.read(), ancestry: &ancestry }.inode(ino).ok().flatten();
    Ok(inode.and_then(|(_, inode)| inode.content))
}

fn check_one(
    store: &Checked<'_>,
    what: &str,
    (bucket, ino): (u64, u64),
    dirty: DirtyFile,
    report: &mut Report,
) -> Result<()> {
    let name = store.read().get(&key::by_id(tag::BUCKET_ID, bucket))?;
    let record = match name {
        Some(name) => store.read().get(&[&[tag::BUCKET], &name[..]].concat())?,
        None => None,
    };
    let Some(record) = record.and_then(|value| decode::<Bucket>(what, &value).ok()) else {
        report.problem(format!("{what}: there is no such bucket, or it cannot be read"));
        return Ok(());
    };
    let Ok(ancestry) = store.lines.ancestry(store.read(), record.clone_group, record.branch) else { return Ok(()) };
    let found = report.take(Tree { read: store.read(), ancestry: &ancestry }.inode(ino)).flatten();
    let in_place = found.filter(|(branch, _)| *branch == record.branch).and_then(|(_, inode)| inode.in_place());
    if in_place != Some(dirty.blob) {
        report.problem(format!("{what}: {:016x} is not its in-place blob", dirty.blob));
    }
    Ok(())
}
