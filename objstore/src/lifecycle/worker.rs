//! The thread of the lifecycle worker.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::step::{self, Pass, Stepped};
use super::{Day, LifecycleStats, Progress};
use crate::clock::Timestamp;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::store::Store;

/// The longest sleep between two looks at the clock, which may be set meanwhile.
const LOOK_MAX: Duration = Duration::from_secs(60);
/// Passes are due every day. If this many days went by since the last one began, the clock may be wrong.
const LEAP_DAYS: u32 = 7;
/// How many times the duration of a step the worker rests after it.
const REST_FACTOR: u32 = 4;
/// The shortest and the longest rest.
const REST: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(500));

/// Executes lifecycle rules until it is stopped or dropped.
#[derive(Debug)]
pub struct Worker {
    shared: Arc<WorkerState>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct WorkerState {
    stop: Mutex<bool>,
    stopped: Condvar,
    stats: Mutex<LifecycleStats>,
}

impl Worker {
    /// Starts the worker of a store; a store has one.
    ///
    /// # Errors
    /// [`Error::Io`] if no thread can be started.
    pub fn start(store: &Store, day: Day) -> Result<Self> {
        let shared = Arc::new(WorkerState::default());
        let (mine, core) = (shared.clone(), store.core.clone());
        let thread = std::thread::Builder::new().name("amphora-life".into()).spawn(move || mine.run(&core, day));
        let thread = thread.map_err(|source| Error::io("starting the thread of lifecycle rules", source))?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Its statistics and progress.
    pub fn stats(&self) -> LifecycleStats {
        self.shared.stats.lock().clone()
    }

    /// Ends the current step and stops.
    pub fn stop(&self) {
        *self.shared.stop.lock() = true;
        self.shared.stopped.notify_all();
        let thread = self.thread.lock().take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the lifecycle thread panicked");
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop();
    }
}

impl WorkerState {
    fn run(&self, core: &Arc<Core>, day: Day) {
        let mut next = self.first_pass(core, day);
        while self.wait_until(core, day, next) && self.outwait_leap(core, day) {
            let started = match self.pass(core, day) {
                Ok(Some(started)) => started,
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!(%error, "a lifecycle pass stopped at an error; it is retried");
                    self.stats.lock().errors += 1;
                    let now = core.clock.now();
                    next = Timestamp(now.0.saturating_add(nanos(LOOK_MAX))).min(day.next_pass(now));
                    continue;
                }
            };
            next = day.next_pass(started);
        }
    }

    /// The start of the first pass: at once if one is in progress, or the last one is long ago.
    fn first_pass(&self, core: &Core, day: Day) -> Timestamp {
        let Ok(record) = step::read(&*core.meta.snapshot()) else { return Timestamp(i64::MIN) };
        if record.completed != 0 {
            self.stats.lock().completed = Some(Timestamp(record.completed));
        }
        if record.place.is_some() || record.started == 0 {
            return Timestamp(i64::MIN);
        }
        day.next_pass(Timestamp(record.started))
    }

    /// Sleeps until `then`, or as long as after a pass begun now if that is sooner, since the clock may have been
    /// ahead. Returns whether to continue.
    fn wait_until(&self, core: &Core, day: Day, mut then: Timestamp) -> bool {
        loop {
            let now = core.clock.now();
            then = then.min(day.next_pass(now));
            let left = then.0.saturating_sub(now.0);
            let Ok(left @ 1..) = u64::try_from(left) else { return !*self.stop.lock() };
            if !self.rest(Duration::from_nanos(left).min(LOOK_MAX)) {
                return false;
            }
        }
    }

    /// After a leap of the clock, waits for one day of monotonic time: what a wrong clock makes due must not be deleted
    /// before the clock can be corrected. Returns whether to continue.
    fn outwait_leap(&self, core: &Core, day: Day) -> bool {
        let until = Instant::now() + day.length();
        let mut told = false;
        while leapt(core, day) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            if !told {
                told = true;
                tracing::warn!(
                    "by the clock it is more than {LEAP_DAYS} days since the last pass of lifecycle rules: if it is \
                     wrong, set it; the rules wait for a day"
                );
            }
            if !self.rest(left.min(LOOK_MAX)) {
                return false;
            }
        }
        true
    }

    /// Sleeps. Returns whether to continue.
    fn rest(&self, pause: Duration) -> bool {
        let mut stop = self.stop.lock();
        if !*stop {
            self.stopped.wait_for(&mut stop, pause);
        }
        !*stop
    }

    /// Begins or continues a pass; returns its start, or `None` if it was stopped.
    fn pass(&self, core: &Arc<Core>, day: Day) -> Result<Option<Timestamp>> {
        let mut pass = Pass::resume(core, day)?;
        loop {
            core.writable()?;
            let began = Instant::now();
            match pass.step(core) {
                Ok(stepped) if stepped.done => {
                    let started = Timestamp(pass.record.started);
                    self.finished(pass.finish(core)?);
                    return Ok(Some(started));
                }
                Ok(stepped) => self.note(stepped),
                Err(error) => {
                    let bucket = self.stats.lock().progress.as_ref().map(|progress| progress.bucket.to_string());
                    tracing::warn!(%error, bucket, "cannot apply the lifecycle rules of a bucket; the next pass retries");
                    self.stats.lock().errors += 1;
                    pass.skip_bucket();
                }
            }
            let pause = (began.elapsed() * REST_FACTOR).clamp(REST.0, REST.1);
            if !self.rest(pause) {
                return Ok(None);
            }
        }
    }

    fn note(&self, stepped: Stepped) {
        let mut stats = self.stats.lock();
        let changed = stepped.changed;
        stats.looked_at += stepped.looked_at;
        stats.current += changed.current;
        stats.noncurrent += changed.noncurrent;
        stats.markers += changed.markers;
        stats.uploads += changed.uploads;
        let Some((_, bucket)) = stepped.bucket else { return };
        match &mut stats.progress {
            Some(progress) if progress.bucket == bucket => progress.looked_at += stepped.looked_at,
            progress => *progress = Some(Progress { bucket, looked_at: stepped.looked_at }),
        }
    }

    fn finished(&self, at: Timestamp) {
        let mut stats = self.stats.lock();
        stats.passes += 1;
        stats.completed = Some(at);
        stats.progress = None;
    }
}

/// Whether the clock leapt since the last pass began. An unreadable record is reported by the pass.
fn leapt(core: &Core, day: Day) -> bool {
    let Ok(record) = step::read(&*core.meta.snapshot()) else { return false };
    let passed = core.clock.now().0.saturating_sub(record.started);
    record.started != 0 && passed > nanos(day.length().saturating_mul(LEAP_DAYS))
}

fn nanos(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}
