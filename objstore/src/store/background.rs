//! The garbage collector's thread: it runs one step after another until the store closes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::error::{Error, Result};

/// How long the collector sleeps unless it is woken.
const PAUSE: Duration = Duration::from_secs(2);

/// One round of collection: how much it removed. It is given whether to stop early.
pub(crate) type Step = Box<dyn FnMut(&dyn Fn() -> bool) -> Result<u64> + Send>;

/// The collector: with a thread of its own, or run by its caller alone.
pub(crate) struct Background {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    /// Locked while collecting: one collection at a time.
    step: Mutex<Step>,
    state: Mutex<State>,
    woken: Condvar,
    collected: AtomicU64,
}

#[derive(Default)]
struct State {
    stop: bool,
    woken: bool,
}

impl Background {
    /// A collector without a thread.
    pub fn idle(step: Step) -> Self {
        let shared = Shared {
            step: Mutex::new(step),
            state: Mutex::default(),
            woken: Condvar::new(),
            collected: AtomicU64::default(),
        };
        Self { shared: Arc::new(shared), thread: Mutex::default() }
    }

    /// Starts the collector.
    pub fn start(step: Step) -> Result<Self> {
        let started = Self::idle(step);
        let mine = started.shared.clone();
        let thread = std::thread::Builder::new().name("amphora-gc".into()).spawn(move || mine.run());
        let thread = thread.map_err(|source| Error::io("starting the collector's thread", source))?;
        *started.thread.lock() = Some(thread);
        Ok(started)
    }

    /// Wakes the collector, because there is work.
    pub fn wake(&self) {
        self.shared.state.lock().woken = true;
        self.shared.woken.notify_one();
    }

    /// Collects on the calling thread.
    #[cfg(test)]
    pub fn collect_now(&self) -> Result<()> {
        self.shared.collect()
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
    fn run(&self) {
        while self.sleep() {
            if let Err(error) = self.collect() {
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

    fn collect(&self) -> Result<()> {
        let mut step = self.step.lock();
        let removed = step(&|| self.state.lock().stop)?;
        self.collected.fetch_add(removed, Ordering::Relaxed);
        Ok(())
    }
}
