//! The threads of a session: who waits for requests, who serves one, who rests.
//!
//! - A request is served by the thread that took it: nothing is handed over and nothing copied. It may take as long as it
//!   likes: whoever takes a request while nobody else waits for the next one calls another thread first.
//! - Threads that come back while enough wait already rest, and leave when they rest too long. So a burst of slow calls
//!   makes threads, up to a limit, and a mount at rest has few.
//! - In the common case coming and going is two atomic additions.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

/// Enough to keep a disk busy; more only queue inside the store.
const BUSY_MAX: usize = 64;
const REST_MAX: Duration = Duration::from_secs(10);

/// The counts of a session's threads.
#[derive(Debug)]
pub(super) struct Crew {
    /// Threads that wait for a request, or are on their way there.
    readers: AtomicUsize,
    readers_max: usize,
    state: Mutex<State>,
    called: Condvar,
    left: Condvar,
}

#[derive(Debug, Default)]
struct State {
    threads: usize,
    resting: usize,
    /// Resting threads that were called and have not woken up yet.
    calls: usize,
    closed: bool,
}

impl Crew {
    /// Where up to `readers_max` threads wait at a time. The first has to be started by the caller.
    pub fn new(readers_max: usize) -> Self {
        Self {
            readers: AtomicUsize::new(1),
            readers_max: readers_max.max(1),
            state: Mutex::new(State { threads: 1, ..State::default() }),
            called: Condvar::new(),
            left: Condvar::new(),
        }
    }

    /// A reader took a request. Whether the caller has to start one more thread, which counts from now on.
    #[must_use]
    pub fn took(&self) -> bool {
        self.readers.fetch_sub(1, Ordering::AcqRel) == 1 && self.call()
    }

    fn call(&self) -> bool {
        let mut state = self.state.lock();
        if state.closed {
            return false;
        }
        if state.resting > state.calls {
            state.calls += 1;
            self.readers.fetch_add(1, Ordering::AcqRel);
            self.called.notify_one();
            return false;
        }
        let more = state.threads < self.readers_max + BUSY_MAX;
        if more {
            state.threads += 1;
            self.readers.fetch_add(1, Ordering::AcqRel);
        }
        more
    }

    /// A thread is done with its request. Whether it shall take another; else it has left.
    #[must_use]
    pub fn back(&self) -> bool {
        let room = |readers| (readers < self.readers_max).then_some(readers + 1);
        self.readers.fetch_update(Ordering::AcqRel, Ordering::Relaxed, room).is_ok() || self.rest()
    }

    /// Rests until called.
    fn rest(&self) -> bool {
        let until = Instant::now() + REST_MAX;
        let mut state = self.state.lock();
        state.resting += 1;
        while state.calls == 0 && !state.closed {
            if self.called.wait_until(&mut state, until).timed_out() {
                break;
            }
        }
        state.resting -= 1;
        if state.calls > 0 {
            state.calls -= 1;
            return true;
        }
        self.leave(state);
        false
    }

    /// A reader leaves, or a thread that was asked for could not be started.
    pub fn lost(&self) {
        self.readers.fetch_sub(1, Ordering::AcqRel);
        self.leave(self.state.lock());
    }

    fn leave(&self, mut state: MutexGuard<'_, State>) {
        state.threads -= 1;
        self.left.notify_all();
    }

    /// Sends the resting ones home.
    pub fn close(&self) {
        self.state.lock().closed = true;
        self.called.notify_all();
    }

    /// Waits until all threads have left.
    pub fn wait(&self) {
        let mut state = self.state.lock();
        self.left.wait_while(&mut state, |state| state.threads > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn the_last_who_waits_calls_another_before_it_works() {
        let crew = Crew::new(2);
        assert!(crew.took(), "nobody else waits");
        assert!(crew.back());
        assert!(!crew.took(), "one still waits");
        assert!(crew.took());
    }

    #[test]
    fn threads_are_limited() {
        let crew = Crew::new(1);
        let started = (0..1000).filter(|_| crew.readers.load(Ordering::Relaxed) > 0 && crew.took()).count();
        assert_eq!(started, BUSY_MAX);
        assert!(crew.back(), "who comes back goes on");
    }

    /// A crew with a thread that rests, and what that thread is told in the end.
    fn with_one_at_rest() -> (Arc<Crew>, std::thread::JoinHandle<bool>) {
        let crew = Arc::new(Crew::new(1));
        assert!(crew.took());
        let resting = crew.clone();
        let rests = std::thread::spawn(move || resting.back());
        while crew.state.lock().resting == 0 {
            std::thread::yield_now();
        }
        (crew, rests)
    }

    #[test]
    fn resting_threads_are_called_before_new_ones_are_started() {
        let (crew, rests) = with_one_at_rest();
        assert!(!crew.took());
        assert!(rests.join().unwrap());
    }

    #[test]
    fn who_rests_leaves_at_the_end() {
        let (crew, rests) = with_one_at_rest();
        crew.close();
        assert!(!rests.join().unwrap());
        crew.lost();
        crew.wait();
    }
}
