//! The garbage collector: removes unreferenced content and records, in bounded steps in the background.
//!
//! - Nothing is removed that an active reader may need: the trash is emptied only after its grace period.
//! - Each step is one transaction or one removal, so a crash loses nothing: collection continues when the store opens.

mod aged;
mod branches;
mod orphans;
mod remote;
mod segments;
mod sessions;
mod trash;

use std::sync::Arc;

use crate::clock::Timestamp;
use crate::content::{recover_mapped_writable, settle_left, sweep_mapped_writable};
use crate::core::Core;
use crate::error::Result;
use crate::feed::Change;
use crate::session_id::SessionId;
use crate::store::Step;

/// Collection at the opening of a store, before it is used. `continued` are the sessions of mounts that continue.
pub(crate) fn recover(core: &Arc<Core>, continued: &[SessionId]) -> Result<()> {
    // First, so that later readers find the files' current attributes.
    let written = settle_left(core)?;
    recover_mapped_writable(core)?;
    sessions::recover(core, continued)?;
    // Writes in place send invalidations that are not recorded: the server may have died in between.
    for (bucket, ino) in written {
        core.feeds.publish(bucket, 0, &[Change::Content { ino }]);
    }
    crate::backup::abandon_all(core)?;
    orphans::collect_all(core)?;
    trash::remove_unnamed_files(core)?;
    trash::empty(core, &mut None).map(|_| ())
}

/// Work that waits for readers to end, or for its time.
#[derive(Default)]
struct Waiting {
    trash: Option<trash::Load>,
    segments: segments::SegmentHistory,
    /// The time of the last collection of records that are kept for a day.
    aged: Option<Timestamp>,
    remote: remote::RemoteTurns,
}

/// What the collector's thread runs: see [`crate::store::Background`].
pub(crate) fn collector(core: &Arc<Core>) -> Step {
    let (core, mut waiting) = (core.clone(), Waiting::default());
    Box::new(move |stopping| step(&core, &mut waiting, stopping))
}

fn step(core: &Arc<Core>, waiting: &mut Waiting, stopping: &dyn Fn() -> bool) -> Result<u64> {
    core.settle_closed()?;
    // This also syncs what mounts wrote in the last seconds.
    core.blobs.sync_dirty()?;
    sweep_mapped_writable(core)?;
    remote::tend(core, &mut waiting.remote);
    let removed = branches::collect(core, stopping)?
        + branches::collect_overridden(core, stopping)?
        + aged::collect(core, &mut waiting.aged, stopping)?
        + trash::empty(core, &mut waiting.trash)?
        // Last, because rewriting needs space before it frees any: on a full disk it is refused until the trash is
        // emptied.
        + if waiting.remote.segments_due(core) { segments::collect(core, &mut waiting.segments, stopping)? } else { 0 };
    Ok(removed)
}
