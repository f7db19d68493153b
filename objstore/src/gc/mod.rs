//! The garbage collector: removes unreferenced content and records, in bounded steps in the background.
//!
//! - Nothing is removed that an active reader may need: the trash is emptied only after its grace period.
//! - Each step is one transaction or one removal, so a crash loses nothing: collection continues when the store opens.

mod branches;
mod completed;
pub(crate) mod orphans;
mod segments;
mod sessions;
mod trash;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::clock::Timestamp;
use crate::content::BackedFiles;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::tree::Tree;
use crate::volume::{Change, SessionId};

/// How long the collector sleeps unless it is woken.
const PAUSE: Duration = Duration::from_secs(2);

/// Collection at the opening of a store, before it is used. `continued` are the sessions of mounts that continue.
pub(crate) fn recover(core: &Arc<Core>, continued: &[SessionId]) -> Result<()> {
    // First, so that later readers find the files' current attributes.
    let written = crate::volume::settle_left(core)?;
    BackedFiles::recover(core, |(bucket, ino)| home_of(core, bucket, ino))?;
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

/// Where a file of a bucket is written in place, by its inode.
fn home_of(core: &Core, bucket: u64, ino: u64) -> Result<Option<u64>> {
    let snapshot = core.meta.snapshot();
    let Some(name) = crate::store::bucket_name(&*snapshot, bucket)? else { return Ok(None) };
    let Some(record) = core.bucket_record(&*snapshot, &name)? else { return Ok(None) };
    let line = core.lines.line(&*snapshot, record.family, record.branch)?;
    Ok(Tree { read: &*snapshot, line: &line }.inode(ino)?.and_then(|(_, inode)| inode.home()))
}

/// The collector's thread; by default there is none.
#[derive(Default)]
pub(crate) struct Background {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Shared {
    /// Locked while collecting: one collection at a time.
    waiting: Mutex<Waiting>,
    state: Mutex<State>,
    woken: Condvar,
    collected: AtomicU64,
}

/// Work that waits for readers to end, or for its time.
#[derive(Default)]
struct Waiting {
    trash: Option<trash::Load>,
    segments: segments::Known,
    /// The time of the last collection of completed uploads.
    completed: Option<Timestamp>,
}

#[derive(Default)]
struct State {
    stop: bool,
    woken: bool,
}

impl Background {
    /// Starts the collector.
    pub fn start(core: &Arc<Core>) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let (mine, core) = (shared.clone(), core.clone());
        let thread = std::thread::Builder::new().name("amphora-gc".into()).spawn(move || mine.run(&core));
        let thread = thread.map_err(|source| Error::io("starting the collector's thread", source))?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Wakes the collector, because there is work.
    pub fn wake(&self) {
        self.shared.state.lock().woken = true;
        self.shared.woken.notify_one();
    }

    /// Collects on the calling thread.
    #[cfg(test)]
    pub fn collect_now(&self, core: &Arc<Core>) -> Result<()> {
        self.shared.step(core)
    }

    /// Number of removed blobs, segments and records.
    pub fn collected(&self) -> u64 {
        self.shared.collected.load(Ordering::Relaxed)
    }

    /// Stops the collector.
    pub fn stop(&self) {
        self.shared.state.lock().stop = true;
        self.shared.woken.notify_one();
        let thread = self.thread.lock().take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the garbage collector thread panicked");
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn run(&self, core: &Arc<Core>) {
        while self.sleep() {
            if let Err(error) = self.step(core) {
                tracing::warn!(%error, "garbage collection stopped at an error; it is retried");
            }
        }
    }

    /// Waits for work. Returns whether to continue.
    fn sleep(&self) -> bool {
        let mut state = self.state.lock();
        if !state.woken && !state.stop {
            self.woken.wait_for(&mut state, PAUSE);
        }
        state.woken = false;
        !state.stop
    }

    fn stopping(&self) -> bool {
        self.state.lock().stop
    }

    fn step(&self, core: &Arc<Core>) -> Result<()> {
        let mut waiting = self.waiting.lock();
        core.settle_closed()?;
        // This also syncs what mounts wrote in the last seconds.
        core.blobs.sync_dirty()?;
        BackedFiles::sweep(core)?;
        let stopping = || self.stopping();
        let removed = branches::collect(core, &stopping)?
            + branches::collect_shadowed(core, &stopping)?
            + completed::collect(core, &mut waiting.completed, &stopping)?
            + trash::empty(core, &mut waiting.trash)?
            // Last, because rewriting needs space before it frees any: on a full disk it is refused until the trash is
            // emptied.
            + segments::collect(core, &mut waiting.segments, &stopping)?;
        self.collected.fetch_add(removed, Ordering::Relaxed);
        Ok(())
    }
}
