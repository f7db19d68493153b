//! Check of references to blobs: recounted over all branches and parts, and compared with the records.

use std::collections::HashMap;

use prost::Message;

use super::fix::Fix;
use super::{Checked, Report};
use crate::error::Result;
use crate::record::blob::{Blob, Segment};
use crate::record::damage::Damaged;
use crate::record::decode;
use crate::record::inode::{Content, Extent, Inode};
use crate::record::key::{self, tag};
use crate::record::upload::Part;

/// Checks all references.
pub(super) fn check(store: &Checked<'_>, report: &mut Report) -> Result<()> {
    let (mut counted, unseen) = count(store, report)?;
    for (key, why) in unseen {
        store.fix(Fix::Unseen { key, why });
    }
    // References of unreadable records are unknown, so no blob counts as unreferenced then.
    let kept = !store.unreadable.borrow().is_empty() || moved_to_quarantine(store)?;
    let mut dirty: HashMap<u64, u64> = HashMap::new();
    store.each(&[tag::BLOB], |pair| {
        let Some(id) = key::u64_at(&pair.key, 1) else { return Ok(()) };
        let what = format!("blob {id:016x}");
        let refs = counted.remove(&id).unwrap_or(0);
        let Some(blob) = report.take(decode::<Blob>(&what, &pair.value)) else {
            // An unreferenced blob is examined again once it has a record.
            store.fix(Fix::MissingBlob { blob: id, refs: refs.max(1) });
            return Ok(());
        };
        report.blobs += 1;
        match refs {
            0 if kept => report.kept_blobs += 1,
            0 => {
                report.problem(format!("{what}: it counts {} references, but no record refers to it", blob.refs));
                store.fix(Fix::Orphan { blob: id });
            }
            _ if refs != blob.refs => {
                report.problem(format!("{what}: it counts {} references, but {refs} records refer to it", blob.refs));
                store.fix(Fix::References { blob: id, refs });
            }
            _ => {}
        }
        if blob.packed.is_some() || blob.sums {
            report.content_bytes += blob.length;
        }
        if let Some(at) = blob.packed {
            *dirty.entry(at.segment).or_default() += blob.length;
        }
        Ok(())
    })?;
    for (id, refs) in counted {
        report.problem(format!("blob {id:016x}: {refs} records refer to it, but it has no record"));
        store.fix(Fix::MissingBlob { blob: id, refs });
    }
    check_segments(store, dirty, report)
}

/// Whether quarantined records exist whose references are unknown.
fn moved_to_quarantine(store: &Checked<'_>) -> Result<bool> {
    let mut quarantine = false;
    store.each(&[tag::DAMAGED], |pair| {
        let there = store.read().get(&[&[tag::BLOB], &pair.key[1..]].concat())?.is_some();
        quarantine |= there
            && decode::<Damaged>("quarantined content", &pair.value).is_ok_and(|record| !record.quarantine.is_empty());
        Ok(())
    })?;
    Ok(quarantine)
}

/// References to each blob, and unreadable inodes that no tree shows.
type Counted = (HashMap<u64, u32>, Vec<(Vec<u8>, String)>);

fn count(store: &Checked<'_>, report: &mut Report) -> Result<Counted> {
    let (mut counted, mut unseen): Counted = Counted::default();
    let seen = store.unreadable.borrow().clone();
    let mut refer = |id: u64| *counted.entry(id).or_default() += 1;
    store.each(&[tag::INODE], |pair| {
        if pair.value.is_empty() {
            return Ok(());
        }
        let content = match decode::<Inode>("an inode that only older branches see", &pair.value) {
            Ok(inode) => inode.content,
            Err(error) => {
                if !seen.contains(&pair.key) {
                    unseen.push((pair.key.to_vec(), error.to_string()));
                }
                store.unreadable(&pair.key, &error, report);
                None
            }
        };
        match content {
            Some(Content::Blob(content)) => refer(content.id),
            Some(Content::Extents(content)) => content.in_place.into_iter().for_each(&mut refer),
            _ => {}
        }
        Ok(())
    })?;
    store.each(&[tag::EXTENT], |pair| {
        if pair.value.is_empty() {
            return Ok(());
        }
        match decode::<Extent>("an extent", &pair.value) {
            Ok(extent) => refer(extent.blob),
            Err(error) => {
                store.fix(Fix::Extent { key: pair.key.to_vec(), why: error.to_string() });
                store.unreadable(&pair.key, &error, report);
            }
        }
        Ok(())
    })?;
    store.each(&[tag::PART], |pair| {
        // An unreadable part is reported and quarantined with its upload.
        if let Ok(part) = decode::<Part>("a part", &pair.value) {
            part.pieces.iter().filter(|piece| piece.blob != 0).for_each(|piece| refer(piece.blob));
        }
        Ok(())
    })?;
    Ok((counted, unseen))
}

fn check_segments(store: &Checked<'_>, mut dirty: HashMap<u64, u64>, report: &mut Report) -> Result<()> {
    store.each(&[tag::SEGMENT], |pair| {
        let Some(id) = key::u64_at(&pair.key, 1) else { return Ok(()) };
        let counted = dirty.remove(&id).unwrap_or(0);
        let Some(segment) = report.take(decode::<Segment>("a segment", &pair.value)) else {
            store.fix(put_segment(id, Segment { live_bytes: counted, stored_bytes: counted }));
            return Ok(());
        };
        if segment.live_bytes != counted {
            report.problem(format!(
                "segment {id:016x}: it counts {} referenced bytes, but has {counted}",
                segment.live_bytes
            ));
            store.fix(put_segment(id, Segment { live_bytes: counted, ..segment }));
        }
        Ok(())
    })?;
    for (id, bytes) in dirty {
        report.problem(format!("segment {id:016x}: {bytes} bytes in it are referenced, but it has no record"));
        store.fix(put_segment(id, Segment { live_bytes: bytes, stored_bytes: bytes }));
    }
    Ok(())
}

fn put_segment(id: u64, segment: Segment) -> Fix {
    let done = format!("segment {id:016x}: it counts {} referenced bytes", segment.live_bytes);
    Fix::put(key::by_id(tag::SEGMENT, id), segment.encode_to_vec(), done)
}
