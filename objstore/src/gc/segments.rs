//! Segments: empty ones are removed, and those under half live are rewritten.
//!
//! - A record moves by writing it anew, on disk, and then letting its blob's record point there, in one transaction
//!   that looks again whether it is still referred to.
//! - The old segment goes once readers that began before have ended.

use std::sync::Arc;

use crate::blob::{BlobId, SegmentInfo};
use crate::core::Core;
use crate::error::Result;
use crate::meta::Durability;
use crate::record::blob::{Blob, PackedAt, Segment};
use crate::record::decode;
use crate::record::key::{self, tag};

/// A segment with less than one live byte in so many is rewritten.
const LIVE_SHARE: u64 = 2;

/// Looks through the segments; how many went.
pub(super) fn collect(core: &Arc<Core>) -> Result<u64> {
    let mut removed = 0;
    for info in core.blobs.segments()? {
        if info.active {
            continue;
        }
        let live = live_bytes(core, &info)?;
        if live > 0 && live.saturating_mul(LIVE_SHARE) < info.bytes {
            rewrite(core, &info)?;
        }
        // First the readers, and those who are about to name what they packed; then a look at what is named.
        if readers_ended(core) && live_bytes(core, &info)? == 0 {
            core.blobs.remove_segment(info.id)?;
            let key = key::by_id(tag::SEGMENT, info.id);
            core.meta
                .write(Durability::Buffered, move |txn| {
                    txn.delete(key);
                    Ok(())
                })
                .wait()?;
            removed += 1;
        }
    }
    Ok(removed)
}

fn readers_ended(core: &Core) -> bool {
    let moment = core.readers.moment();
    core.readers.ended_before(moment)
}

fn live_bytes(core: &Core, info: &SegmentInfo) -> Result<u64> {
    let value = core.meta.snapshot().get(&key::by_id(tag::SEGMENT, info.id))?;
    Ok(value.map_or(Ok(Segment::default()), |value| decode("a segment", &value))?.live_bytes)
}

fn rewrite(core: &Arc<Core>, info: &SegmentInfo) -> Result<()> {
    for record in core.blobs.scan_segment(info.id)? {
        let here = PackedAt { segment: info.id, offset: record.offset };
        let Some(blob) = referred(core, record.id, here)? else { continue };
        let data = core.blobs.read_packed(record.id, here.segment, here.offset, blob.length)?;
        let packed = core.blobs.append(record.id, data).wait()?;
        let there = PackedAt { segment: packed.segment, offset: packed.offset };
        let id = record.id;
        let moved = core.meta.write(Durability::Synced, move |txn| match txn.get(&key::by_id(tag::BLOB, id.0))? {
            Some(value) => {
                let blob: Blob = decode("a blob", &value)?;
                if blob.packed == Some(here) { crate::content::move_packed(txn, id.0, &blob, there) } else { Ok(()) }
            }
            None => Ok(()),
        });
        moved.wait()?;
    }
    Ok(())
}

/// The blob, if its record says that it lies here.
fn referred(core: &Core, id: BlobId, here: PackedAt) -> Result<Option<Blob>> {
    let Some(value) = core.meta.snapshot().get(&key::by_id(tag::BLOB, id.0))? else { return Ok(None) };
    let blob: Blob = decode("a blob", &value)?;
    Ok((blob.packed == Some(here)).then_some(blob))
}
