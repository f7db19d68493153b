//! Segments: empty ones are removed, and those under half live are rewritten.
//!
//! - A record moves by writing it anew, on disk, and then letting its blob's record point there, in one transaction
//!   that looks again whether it is still referred to.
//! - The old segment goes once readers that began before have ended.
//! - Damaged records stay, and their segment with them: the sound ones around them move.

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

/// A segment with less than one live byte in so many is rewritten.
const LIVE_SHARE: u64 = 2;
/// Records moved in one transaction.
const STEP: usize = 64;

/// Segments that nothing refers to, each with the moment that was seen.
pub(super) type Dead = HashMap<u64, u64>;

/// Looks through the segments; how many went. Those that a reader may still need stay in `dead` for the next time.
pub(super) fn collect(core: &Arc<Core>, dead: &mut Dead, stopping: &dyn Fn() -> bool) -> Result<u64> {
    let mut removed = 0;
    for info in core.blobs.segments()?.into_iter().filter(|info| !info.active) {
        if stopping() {
            break;
        }
        let live = live_bytes(core, &info)?;
        if live > 0 && live.saturating_mul(LIVE_SHARE) < info.bytes {
            match rewrite(core, &info) {
                // It stays, with what is sound in it: others are collected all the same.
                Err(error @ Error::Corrupt { .. }) => tracing::debug!(%error, "a damaged segment is not rewritten"),
                done => done?,
            }
        }
        if live_bytes(core, &info)? > 0 {
            dead.remove(&info.id);
            continue;
        }
        let moment = *dead.entry(info.id).or_insert_with(|| core.readers.moment());
        // First the readers, and those who are about to name what they packed; then a look at what is named.
        if core.readers.ended_before(moment) && live_bytes(core, &info)? == 0 {
            remove(core, info.id)?;
            dead.remove(&info.id);
            removed += 1;
        }
    }
    Ok(removed)
}

fn remove(core: &Core, segment: u64) -> Result<()> {
    // What was dropped is dropped on disk before its bytes go: a power cut must not bring the reference back.
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

fn rewrite(core: &Arc<Core>, info: &SegmentInfo) -> Result<()> {
    for records in core.blobs.scan_segment(info.id)?.chunks(STEP) {
        let mut copies = Vec::new();
        for record in records {
            let here = PackedAt { segment: info.id, offset: record.offset };
            let Some(blob) = referred(core, record.id, here)? else { continue };
            let data = match core.blobs.read_packed(record.id, here.segment, here.offset, blob.length) {
                // It stays where it is: reading it says so, and the scrub lists it.
                Err(Error::Corrupt { .. }) => continue,
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
    Ok(())
}

/// Lets a blob lie in its new place, if it still lay in the old one.
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
