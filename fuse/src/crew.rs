//! Who does the work of a request: the thread that took it, or another while too many are busy.
//!
//! - A call may wait for the disk. Session threads run it themselves, which costs no handing over, as long as at
//!   least one session thread stays free to take the next request; past that, calls go to workers.
//! - Workers are started on demand, up to a limit, and leave when idle.
//! - A call that panics answers EIO (dropping its reply does) and takes no thread with it.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex, WaitTimeoutResult};

/// Enough to keep a disk busy; more only queue inside the store.
const WORKERS_MAX: usize = 64;
const IDLE_MAX: Duration = Duration::from_secs(10);

type Job = Box<dyn FnOnce() + Send>;

/// Runs calls.
pub(crate) struct Crew {
    /// How many session threads may still run a call themselves.
    seats: AtomicUsize,
    hall: Arc<Hall>,
}

#[derive(Default)]
struct Hall {
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    workers: usize,
    idle: usize,
    closed: bool,
}

/// The right to run a call on a session thread.
pub(crate) struct Seat<'a>(&'a AtomicUsize);

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

impl Crew {
    /// For `session_threads` threads.
    pub fn new(session_threads: usize) -> Self {
        Self { seats: AtomicUsize::new(session_threads.saturating_sub(1)), hall: Arc::default() }
    }

    /// The right to run a call here, unless this is the last session thread free.
    pub fn seat(&self) -> Option<Seat<'_>> {
        self.seats
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, |free| free.checked_sub(1))
            .ok()
            .map(|_| Seat(&self.seats))
    }

    /// Runs `job` here or hands it over.
    pub fn serve(&self, job: impl FnOnce() + Send + 'static) {
        match self.seat() {
            Some(_seat) => guarded(job),
            None => self.send(job),
        }
    }

    /// Hands `job` to a worker.
    pub fn send(&self, job: impl FnOnce() + Send + 'static) {
        let mut state = self.hall.state.lock();
        state.jobs.push_back(Box::new(job));
        if state.jobs.len() > state.idle && state.workers < WORKERS_MAX {
            state.workers += 1;
            let hall = self.hall.clone();
            let started = std::thread::Builder::new().name("fuse-worker".into()).spawn(move || hall.run());
            if let Err(error) = started {
                state.workers -= 1;
                tracing::warn!(%error, "cannot start a worker thread; mounts will be slower");
                if state.workers == 0 {
                    let job = state.jobs.pop_back();
                    drop(state);
                    job.into_iter().for_each(guarded);
                    return;
                }
            }
        }
        drop(state);
        self.hall.work.notify_one();
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.hall.state.lock().closed = true;
        self.hall.work.notify_all();
    }
}

impl Hall {
    /// A worker's life.
    fn run(&self) {
        while let Some(job) = self.next() {
            guarded(job);
        }
    }

    /// The next job, or `None` when it is time to leave.
    fn next(&self) -> Option<Job> {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            state.idle += 1;
            let waited = (!state.closed).then(|| self.work.wait_for(&mut state, IDLE_MAX));
            state.idle -= 1;
            if state.jobs.is_empty() && waited.is_none_or(WaitTimeoutResult::timed_out) {
                state.workers -= 1;
                return None;
            }
        }
    }
}

/// Runs `job`; a panic ends it, not the thread.
fn guarded(job: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(job)).is_err() {
        tracing::error!("a mount's request panicked and was answered with EIO");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn the_last_session_thread_stays_free() {
        let crew = Crew::new(3);
        let (first, second) = (crew.seat(), crew.seat());
        assert!(first.is_some() && second.is_some());
        assert!(crew.seat().is_none());
        drop(first);
        assert!(crew.seat().is_some());
    }

    #[test]
    fn blocked_calls_do_not_hold_up_others() {
        let crew = Crew::new(1);
        let (release, blocked) = mpsc::channel::<()>();
        let (done, results) = mpsc::channel();
        let slow = done.clone();
        crew.serve(move || {
            let _ = blocked.recv();
            let _ = slow.send("slow");
        });
        crew.serve(move || {
            let _ = done.send("fast");
        });
        let wait = Duration::from_secs(10);
        assert_eq!(results.recv_timeout(wait), Ok("fast"));
        drop(release);
        assert_eq!(results.recv_timeout(wait), Ok("slow"));
    }

    #[test]
    fn a_panic_takes_no_worker_with_it() {
        let crew = Crew::new(1);
        let (done, results) = mpsc::channel();
        crew.serve(|| panic!("on purpose"));
        crew.serve(move || {
            let _ = done.send(());
        });
        assert!(results.recv_timeout(Duration::from_secs(10)).is_ok());
    }
}
