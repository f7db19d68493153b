//! Compaction of segments: empty ones are removed, and those with less than half of their bytes referenced are
//! rewritten.
//!
//! - A record is moved by appending it to another segment, durably, and then updating its blob's record, in one
//!   transaction that checks again whether it is still referenced.
//! - The old segment is removed once readers that began before have ended.
//! - Damaged records stay, and their segment with them; the intact ones around them are moved. The segment is scanned
//!   again once fewer records refer to it.

use std::collections::HashMap;
use std::sync::Arc;

use crate::blob::{BlobId, SegmentInfo};
use crate::content::move_packed;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::meta::{Durability, Txn};
use crate::record::blob::{Blob, PackedAt, Segment};
use crate::record::decode;
use crate::record::key::{self, tag};

/// A segment with less than one in this many bytes referenced is rewritten.
const DIRTY_SHARE: u64 = 2;
/// Records moved in one transaction.
const STEP: usize = 64;

/// State of segments from earlier collections.
#[derive(Default)]
pub(super) struct SegmentHistory {
    /// Unreferenced segments, each with the moment when that was found.
    dead: HashMap<u64, u64>,
    /// Segments kept because of damage, each with its remaining referenced bytes.
    damaged: HashMap<u64, u64>,
}

/// Examines the segments; returns how many were removed. Those that a reader may still need are remembered for the next
/// time.
pub(super) fn collect(core: &Arc<Core>, known: &mut SegmentHistory, stopping: &dyn Fn() -> bool) -> Result<u64> {
    let SegmentHistory { dead, damaged } = known;
    let mut removed = 0;
    for info in core.blobs.segments()?.into_iter().filter(|info| !info.active) {
        if stopping() {
            break;
        }
        let dirty = live_bytes(core, &info)?;
        let sparse = dirty > 0 && dirty.saturating_mul(DIRTY_SHARE) < info.bytes;
        if sparse && damaged.get(&info.id) != Some(&dirty) {
            let whole = match rewrite(core, &info) {
                // It stays with its intact records; other segments are collected nevertheless.
                Err(error @ Error::Corrupt { .. }) => {
                    tracing::debug!(%error, "a damaged segment is not rewritten");
                    false
                }
                done => done?,
            };
            if !whole {
                damaged.insert(info.id, live_bytes(core, &info)?);
            }
        }
        if live_bytes(core, &info)? > 0 {
            dead.remove(&info.id);
            continue;
        }
        let moment = *dead.entry(info.id).or_insert_with(|| core.readers.moment());
        // First wait for readers, and for writers about to name what they packed; then check the references.
        if core.readers.ended_before(moment) && live_bytes(core, &info)? == 0 {
            remove(core, info.id)?;
            dead.remove(&info.id);
            damaged.remove(&info.id);
            removed += 1;
        }
    }
    Ok(removed)
}

fn remove(core: &Core, segment: u64) -> Result<()> {
    // Dropped references are durable before the bytes are removed: a power cut must not bring a reference back.
    core.meta.sync().wait()?;
    core.blobs.remove_segment(segment)?;
    let key = key::by_id(tag::SEGMENT, segment);
    let done = core.meta.write(Durability::Buffered, move |txn| {
        txn.delete(key);
        Ok(())
    });
    done.wait()
}

fn live_bytes(core: &Core, info: &SegmentInfo) -> Result<u64> {
    let value = core.meta.snapshot().get(&key::by_id(tag::SEGMENT, info.id))?;
    Ok(value.map_or(Ok(Segment::default()), |value| decode("a segment", &value))?.live_bytes)
}

/// Moves the intact records of a segment to another. Returns whether none are left.
fn rewrite(core: &Arc<Core>, info: &SegmentInfo) -> Result<bool> {
    let mut whole = true;
    for records in core.blobs.scan_segment(info.id)?.chunks(STEP) {
        let mut copies = Vec::new();
        for record in records {
            let here = PackedAt { segment: info.id, offset: record.offset };
            let Some(blob) = referred(core, record.id, here)? else { continue };
            let data = match core.blobs.read_packed(record.id, here.segment, here.offset, blob.length) {
                // It stays: reading it answers an error, and the scrub lists it.
                Err(Error::Corrupt { .. }) => {
                    whole = false;
                    continue;
                }
                data => data?,
            };
            copies.push((record.id, here, core.blobs.append(record.id, data)));
        }
        let mut moves = Vec::with_capacity(copies.len());
        for (id, here, copy) in copies {
            let packed = copy.wait()?;
            moves.push((id, here, PackedAt { segment: packed.segment, offset: packed.offset }));
        }
        let moved = core.meta.write(Durability::Synced, move |txn| {
            moves.into_iter().try_for_each(|(id, here, there)| repoint(txn, id, here, there))
        });
        moved.wait()?;
    }
    Ok(whole)
}

/// Updates a blob's position if it is still the old one.
fn repoint(txn: &mut dyn Txn, id: BlobId, here: PackedAt, there: PackedAt) -> Result<()> {
    let Some(value) = txn.get(&key::by_id(tag::BLOB, id.0))? else { return Ok(()) };
    let blob: Blob = decode("a blob", &value)?;
    if blob.packed == Some(here) { move_packed(txn, id.0, &blob, there) } else { Ok(()) }
}

/// The blob, if its record says that it lies here.
fn referred(core: &Core, id: BlobId, here: PackedAt) -> Result<Option<Blob>> {
    let Some(value) = core.meta.snapshot().get(&key::by_id(tag::BLOB, id.0))? else { return Ok(None) };
    let blob: Blob = decode("a blob", &value)?;
    Ok((blob.packed == Some(here)).then_some(blob))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::test_store::TestStore;

    #[test]
    fn a_segment_that_damage_keeps_is_walked_once() {
        let test = TestStore::with_segments(64 << 10);
        let (bucket, core) = (test.bucket("packed"), test.store.core.clone());
        for at in ["damaged", "sound", "gone", "gone too", "next"] {
            test.put(&bucket, at, &[7; 20 << 10]).unwrap();
        }
        test.store.background.stop();
        let segment = core.blobs.segments().unwrap()[0].id;
        let file = test.dir.path().join(format!("content/segments/{segment:016x}.seg"));
        let mut bytes = std::fs::read(&file).unwrap();
        bytes[1000] ^= 1;
        std::fs::write(&file, bytes).unwrap();
        let mut known = SegmentHistory::default();
        let mut collect = || {
            let before = core.meta.stats().operations;
            let removed = collect(&core, &mut known, &|| false).unwrap();
            (removed, core.meta.stats().operations - before)
        };
        for at in ["gone", "gone too"] {
            test.delete(&bucket, at).unwrap();
        }
        assert_eq!((collect(), collect()), ((0, 1), (0, 0)));
        assert_eq!(test.get(&bucket, "sound").unwrap(), vec![7; 20 << 10]);
        test.delete(&bucket, "damaged").unwrap();
        assert_eq!(collect().0, 1);
    }
}
