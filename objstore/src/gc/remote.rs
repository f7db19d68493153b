//! What the collector does for content in a bucket: removal of objects, which waits for many, of what an earlier process
//! left, and freeing the cache.

use std::time::Duration;

use crate::blob::BlobId;
use crate::clock::Timestamp;
use crate::core::Core;
use crate::error::{Result, with_source};
use crate::record::blob::Trash;
use crate::record::decode;
use crate::record::key::{self, tag};

/// How long after one look at all segments the next one comes: each group of small content is a segment, so there are many.
const SEGMENTS_EVERY: Duration = Duration::from_secs(60);
/// How long after a failed search for unnamed objects the next one comes.
const UNNAMED_EVERY: Duration = Duration::from_secs(60);

/// When work on a bucket was done.
#[derive(Default)]
pub(super) struct RemoteTurns {
    segments: Option<Timestamp>,
    unnamed_tried: Option<Timestamp>,
    unnamed_done: bool,
}

impl RemoteTurns {
    /// Whether to look at the segments now: always, if they are in the data folder.
    pub(super) fn segments_due(&mut self, core: &Core) -> bool {
        if !core.blobs.is_remote() {
            return true;
        }
        due(&mut self.segments, core.clock.now(), SEGMENTS_EVERY)
    }
}

fn due(last: &mut Option<Timestamp>, now: Timestamp, every: Duration) -> bool {
    // A clock that was set back must not stop this.
    let passed = last.map(|last| now.millis() - last.millis());
    let early = passed.is_some_and(|passed| (0..every.as_millis() as i64).contains(&passed));
    if !early {
        *last = Some(now);
    }
    !early
}

/// Tends the bucket. A bucket that cannot be reached is no reason to stop collecting.
pub(super) fn tend(core: &Core, turns: &mut RemoteTurns) {
    if !core.blobs.is_remote() {
        return;
    }
    if let Err(error) = core.blobs.tend() {
        tracing::warn!(error = %with_source(&error), "objects of the S3 store cannot be removed; trying again");
    }
    if turns.unnamed_done || !due(&mut turns.unnamed_tried, core.clock.now(), UNNAMED_EVERY) {
        return;
    }
    match core.blobs.collect_unnamed(&|id| is_named(core, id)) {
        Ok(0) => turns.unnamed_done = true,
        Ok(objects) => {
            turns.unnamed_done = true;
            tracing::info!(objects, "removed objects of the S3 store that an earlier process left in a crash");
        }
        Err(error) => {
            tracing::warn!(error = %with_source(&error), "cannot search the S3 store for unreferenced objects; trying again");
        }
    }
}

/// Whether a blob has a record, or one in the trash.
fn is_named(core: &Core, id: BlobId) -> Result<bool> {
    let snapshot = core.meta.snapshot();
    if snapshot.get(&key::by_id(tag::BLOB, id.0))?.is_some() {
        return Ok(true);
    }
    for pair in crate::scan::all(&*snapshot, &[tag::TRASH])? {
        // Of a damaged record, nothing is known: keep it.
        if decode::<Trash>("the trash", &pair.value).map_or(true, |trash| trash.id() == id) {
            return Ok(true);
        }
    }
    Ok(false)
}
