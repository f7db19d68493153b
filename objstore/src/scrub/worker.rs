//! The thread of the scrub.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::pass::{self, Pass, Stepped};
use crate::clock::Timestamp;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::store::Store;

/// The longest sleep between two looks at the clock, which may be set meanwhile.
const LOOK_MAX: Duration = Duration::from_secs(60);

/// The interval and speed of the scrub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// From the start of one pass to the start of the next; `None`: only on request.
    pub interval: Option<Duration>,
    /// The most bytes read per second.
    pub bytes_per_second: u64,
}

/// Statistics and progress of the scrub.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScrubStats {
    /// Number of complete passes.
    pub passes: u64,
    /// Number of blobs examined.
    pub blobs: u64,
    /// Number of bytes verified.
    pub bytes: u64,
    /// Number of newly found damaged blobs.
    pub found: u64,
    /// Number of passes that ended with an error; they are retried.
    pub errors: u64,
    /// The start of the current or last pass, possibly in an earlier process.
    pub started: Option<Timestamp>,
    /// The end of the last complete pass, possibly in an earlier process.
    pub completed: Option<Timestamp>,
    /// For a pass in progress: bytes read, and bytes in all.
    pub progress: Option<(u64, u64)>,
}

/// Reads all content repeatedly until it is stopped or dropped.
#[derive(Debug)]
pub struct Worker {
    shared: Arc<WorkerState>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct WorkerState {
    rate: Rate,
    state: Mutex<State>,
    changed: Condvar,
    stats: Mutex<ScrubStats>,
}

#[derive(Debug, Default)]
struct State {
    stop: bool,
    /// A requested pass with its read limit per second.
    wanted: Option<u64>,
}

impl Worker {
    /// Starts the scrub of a store; a store has one.
    ///
    /// # Errors
    /// [`Error::Io`] if no thread can be started.
    pub fn start(store: &Store, rate: Rate) -> Result<Self> {
        let shared =
            Arc::new(WorkerState { rate, state: Mutex::default(), changed: Condvar::new(), stats: Mutex::default() });
        let (mine, core) = (shared.clone(), store.core.clone());
        let thread = std::thread::Builder::new().name("amphora-scrub".into()).spawn(move || mine.run(&core));
        let thread = thread.map_err(|source| Error::io("starting the thread of the scrub", source))?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Its statistics and progress.
    pub fn stats(&self) -> ScrubStats {
        self.shared.stats.lock().clone()
    }

    /// Begins a pass now. One in progress continues, with the given read limit if there is one.
    pub fn begin(&self, bytes_per_second: Option<u64>) {
        let rate = bytes_per_second.unwrap_or(self.shared.rate.bytes_per_second);
        self.shared.state.lock().wanted = Some(rate);
        self.shared.changed.notify_all();
    }

    /// Ends the current step and stops.
    pub fn stop(&self) {
        self.shared.state.lock().stop = true;
        self.shared.changed.notify_all();
        let thread = self.thread.lock().take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the scrub thread panicked");
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop();
    }
}

impl WorkerState {
    fn run(&self, core: &Core) {
        let mut next = self.first_pass(core);
        while self.wait_until(core, next) {
            match self.pass(core) {
                Ok(Some(started)) => next = self.after(started),
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!(%error, "the scrub stopped at an error; it continues in a minute");
                    let mut stats = self.stats.lock();
                    (stats.errors, stats.progress) = (stats.errors + 1, None);
                    next = Some(Timestamp(core.clock.now().0.saturating_add(nanos(LOOK_MAX))));
                }
            }
        }
    }

    /// The start of the first pass: at once if one is in progress.
    fn first_pass(&self, core: &Core) -> Option<Timestamp> {
        let Ok(record) = pass::read(&*core.meta.snapshot()) else { return self.after(core.clock.now()) };
        let mut stats = self.stats.lock();
        let some = |at: i64| (at != 0).then_some(Timestamp(at));
        (stats.started, stats.completed) = (some(record.started), some(record.completed));
        match record.place {
            Some(_) => Some(Timestamp(i64::MIN)),
            None => self.after(stats.started.unwrap_or_else(|| core.clock.now())),
        }
    }

    fn after(&self, started: Timestamp) -> Option<Timestamp> {
        self.rate.interval.map(|interval| Timestamp(started.0.saturating_add(nanos(interval))))
    }

    /// Sleeps until `then`, or until a pass is requested, but no longer than an interval, since the clock may have been
    /// ahead. Returns whether to continue.
    fn wait_until(&self, core: &Core, mut then: Option<Timestamp>) -> bool {
        loop {
            let now = core.clock.now();
            then = then.min(self.after(now).or(then));
            let left = then.map_or(u64::MAX, |then| u64::try_from(then.0.saturating_sub(now.0)).unwrap_or(0));
            let mut state = self.state.lock();
            if state.stop {
                return false;
            }
            if left == 0 || state.wanted.is_some() {
                return true;
            }
            self.changed.wait_for(&mut state, Duration::from_nanos(left).min(LOOK_MAX));
        }
    }

    /// Begins or continues a pass; returns its start, or `None` if it was stopped.
    fn pass(&self, core: &Core) -> Result<Option<Timestamp>> {
        let mut pass = Pass::resume(core)?;
        {
            let mut stats = self.stats.lock();
            (stats.started, stats.progress) = (Some(Timestamp(pass.record.started)), Some(pass.progress()));
        }
        let mut rate = self.rate.bytes_per_second;
        loop {
            core.writable()?;
            if let Some(wanted) = self.state.lock().wanted.take() {
                rate = wanted;
            }
            let began = Instant::now();
            let stepped = pass.step(core)?;
            if stepped.done {
                let started = Timestamp(pass.record.started);
                let completed = pass.finish(core)?;
                let mut stats = self.stats.lock();
                stats.passes += 1;
                (stats.completed, stats.progress) = (Some(completed), None);
                return Ok(Some(started));
            }
            self.note(stepped, pass.progress());
            let due = Duration::from_secs_f64(stepped.bytes as f64 / rate.max(1) as f64);
            if !self.rest(due.saturating_sub(began.elapsed())) {
                return Ok(None);
            }
        }
    }

    fn note(&self, stepped: Stepped, progress: (u64, u64)) {
        let mut stats = self.stats.lock();
        stats.blobs += stepped.blobs;
        stats.bytes += stepped.bytes;
        stats.found += stepped.found;
        stats.progress = Some(progress);
    }

    /// Sleeps. Returns whether to continue.
    fn rest(&self, pause: Duration) -> bool {
        let mut state = self.state.lock();
        if !state.stop && state.wanted.is_none() && !pause.is_zero() {
            self.changed.wait_for(&mut state, pause);
        }
        !state.stop
    }
}

fn nanos(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}
