//! The worker threads of a session: which of them wait for requests, which serve one, and which rest.
//!
//! - The thread that reads a request serves it: nothing is handed over or copied. Serving may take any time. A thread
//!   that takes a request while no other thread waits for the next one wakes or starts another thread first.
//! - A thread that finishes while enough others wait already rests, and ends when it has rested too long. So a burst of
//!   slow calls creates threads, up to a limit, and an idle mount has few.
//! - While requests follow each other quickly (adaptive polling, see `polling`), one thread takes them all and wakes no
//!   other. One resting thread is the watcher: if it sees the same request still being served on two looks in a row
//!   while another request waits, it takes the waiting one.
//! - While requests queue up (many callers), the awake threads, one for each processor, take one request after the
//!   other and wake no other: a wake-up costs two context switches, more than most requests take. The watcher takes a
//!   waiting request when all of them are busy.
//! - In the common case taking a request and returning from it cost a few atomic additions.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::polling::RequestRate;

/// The most threads that serve requests at a time: enough to keep a disk busy. More would only queue inside the store.
const BUSY_MAX: usize = 64;
const REST_MAX: Duration = Duration::from_secs(10);
/// The interval at which the watcher looks at the other threads.
const WATCH: Duration = Duration::from_millis(1);

/// The counts of a session's threads.
#[derive(Debug)]
pub(super) struct Workers {
    /// Threads that wait for a request, or are on their way there.
    readers: AtomicUsize,
    readers_max: usize,
    /// Number of requests taken since the start.
    taken: AtomicU64,
    /// A [`RequestRate`] as a number.
    flow: AtomicU8,
    /// Whether a resting thread is the watcher.
    watched: AtomicBool,
    state: Mutex<State>,
    called: Condvar,
    left: Condvar,
}

#[derive(Debug, Default)]
struct State {
    threads: usize,
    resting: usize,
    /// Resting threads that were notified and have not woken up yet.
    calls: usize,
    closed: bool,
}

impl Workers {
    /// A pool in which up to `readers_max` threads wait at a time. The caller has to start the first thread.
    pub fn new(readers_max: usize) -> Self {
        Self {
            readers: AtomicUsize::new(1),
            readers_max: readers_max.max(1),
            taken: AtomicU64::new(0),
            flow: AtomicU8::new(RequestRate::Calm as u8),
            watched: AtomicBool::new(false),
            state: Mutex::new(State { threads: 1, ..State::default() }),
            called: Condvar::new(),
            left: Condvar::new(),
        }
    }

    /// Records that a reader took a request. With `call`, another thread has to wait for the next request even if there
    /// is a watcher. Returns whether the caller has to start one more thread, which is counted already.
    #[must_use]
    pub fn took(&self, call: bool) -> bool {
        self.taken.fetch_add(1, Ordering::Relaxed);
        self.readers.fetch_sub(1, Ordering::SeqCst) == 1 && (call || !self.is_watched()) && self.call()
    }

    fn is_watched(&self) -> bool {
        !self.is(RequestRate::Calm) && self.watched.load(Ordering::SeqCst)
    }

    fn is(&self, flow: RequestRate) -> bool {
        self.flow.load(Ordering::Acquire) == flow as u8
    }

    /// Ends the watch. Returns whether a thread may have taken a request and woken no other because it relied on the
    /// watcher. The watcher and that thread must see each other's store, so these four accesses have one order
    /// (SeqCst).
    fn unwatch(&self) -> bool {
        self.watched.store(false, Ordering::SeqCst);
        !self.is(RequestRate::Calm) && self.readers.load(Ordering::SeqCst) == 0
    }

    /// Records how requests flow, by a thread that is about to wait for one. Returns whether it is the only one that
    /// waits.
    pub fn alone(&self, flow: RequestRate) -> bool {
        if !self.is(flow) {
            self.flow.store(flow as u8, Ordering::Release);
            if flow != RequestRate::Calm && self.state.lock().resting > 0 {
                // The woken thread becomes the watcher.
                self.called.notify_one();
            }
        }
        self.readers.load(Ordering::Acquire) == 1
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

    /// Called by a thread that has finished its request. Returns whether the thread has to take another; otherwise it
    /// has left the pool. `waits` says whether a request is waiting.
    #[must_use]
    pub fn back(&self, waits: impl Fn() -> bool) -> bool {
        self.join() || self.rest(waits)
    }

    /// Joins the readers if there are too few of them.
    fn join(&self) -> bool {
        let enough = if self.is(RequestRate::Quick) { 1 } else { self.readers_max };
        let room = |readers| (readers < enough).then_some(readers + 1);
        self.readers.fetch_update(Ordering::AcqRel, Ordering::Relaxed, room).is_ok()
    }

    /// Rests until the thread is notified, or until it is needed as watcher.
    fn rest(&self, waits: impl Fn() -> bool) -> bool {
        let until = Instant::now() + REST_MAX;
        let mut state = self.state.lock();
        state.resting += 1;
        while state.calls == 0 && !state.closed {
            if !self.is(RequestRate::Calm) && !self.watched.swap(true, Ordering::AcqRel) {
                let needed = self.watch(&mut state, &waits);
                let counted_on = self.unwatch();
                if needed {
                    state.resting -= 1;
                    return true;
                }
                if counted_on {
                    continue;
                }
            }
            if state.calls > 0 || state.closed || self.called.wait_until(&mut state, until).timed_out() {
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

    /// Watches until the thread is notified, until requests become rare, or until no request comes. Returns whether the
    /// watcher has to take a request itself. A single serving thread gets one interval before that; several get none,
    /// since one of them may be blocked while the other takes all requests.
    fn watch(&self, state: &mut MutexGuard<'_, State>, waits: impl Fn() -> bool) -> bool {
        let mut before = None;
        while state.calls == 0 && !state.closed && !self.is(RequestRate::Calm) {
            let _ = self.called.wait_for(state, WATCH);
            let taken = self.taken.load(Ordering::Relaxed);
            let goes_on = before.replace(taken) != Some(taken);
            let is_waited_for = self.readers.load(Ordering::Acquire) > 0;
            // A waiting reader makes the watch unnecessary, and notifies when that changes.
            if is_waited_for && !goes_on {
                return false;
            }
            if !is_waited_for && (!goes_on || self.is(RequestRate::Crowded)) && waits() && self.join() {
                return true;
            }
        }
        false
    }

    /// Lets a reader that waited long leave the pool, unless it is the last. Returns whether it left.
    #[must_use]
    pub fn leave_rest(&self) -> bool {
        let others = |readers: usize| (readers > 1).then(|| readers - 1);
        let leaves = self.readers.fetch_update(Ordering::AcqRel, Ordering::Relaxed, others).is_ok();
        if leaves {
            self.leave(self.state.lock());
        }
        leaves
    }

    /// Counts out a reader that leaves, or a thread that could not be started.
    pub fn lost(&self) {
        self.readers.fetch_sub(1, Ordering::AcqRel);
        self.leave(self.state.lock());
    }

    fn leave(&self, mut state: MutexGuard<'_, State>) {
        state.threads -= 1;
        self.left.notify_all();
    }

    /// Ends all resting threads.
    pub fn close(&self) {
        self.state.lock().closed = true;
        self.called.notify_all();
    }

    /// Waits until all threads have ended.
    pub fn wait(&self) {
        let mut state = self.state.lock();
        self.left.wait_while(&mut state, |state| state.threads > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn nothing() -> bool {
        false
    }

    #[test]
    fn the_last_who_waits_calls_another_before_it_works() {
        let workers = Workers::new(2);
        assert!(workers.took(false), "nobody else waits");
        assert!(workers.back(nothing));
        assert!(!workers.took(false), "one still waits");
        assert!(workers.took(false));
    }

    #[test]
    fn threads_are_limited() {
        let workers = Workers::new(1);
        let started = (0..1000).filter(|_| workers.readers.load(Ordering::Relaxed) > 0 && workers.took(false)).count();
        assert_eq!(started, BUSY_MAX);
        assert!(workers.back(nothing), "a returning thread may continue");
    }

    /// A pool with one resting thread, and what that thread's call returned.
    fn with_one_at_rest() -> (Arc<Workers>, std::thread::JoinHandle<bool>) {
        let workers = Arc::new(Workers::new(1));
        assert!(workers.took(false));
        let resting = workers.clone();
        let rests = std::thread::spawn(move || resting.back(nothing));
        while workers.state.lock().resting == 0 {
            std::thread::yield_now();
        }
        (workers, rests)
    }

    #[test]
    fn resting_threads_are_called_before_new_ones_are_started() {
        let (workers, rests) = with_one_at_rest();
        assert!(!workers.took(false));
        assert!(rests.join().unwrap());
    }

    #[test]
    fn one_thread_takes_all_while_another_keeps_watch() {
        let workers = Arc::new(Workers::new(2));
        assert!(workers.took(false) && workers.took(false), "nobody keeps watch yet");
        assert!(workers.back(nothing), "the first who waits");
        workers.alone(RequestRate::Quick);
        let (resting, waits) = (workers.clone(), Arc::new(AtomicBool::new(false)));
        let seen = waits.clone();
        let rests = std::thread::spawn(move || resting.back(|| seen.load(Ordering::Relaxed)));
        while !workers.is_watched() {
            std::thread::yield_now();
        }
        workers.readers.store(1, Ordering::Relaxed);
        for _ in 0..3 {
            assert!(workers.alone(RequestRate::Quick) && !workers.took(false));
            std::thread::sleep(3 * WATCH);
            assert!(workers.back(nothing), "it takes long, but nobody waits");
        }
        assert!(!workers.took(false));
        waits.store(true, Ordering::Relaxed);
        assert!(rests.join().unwrap(), "who keeps watch takes it");
        assert_eq!(workers.readers.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_crowd_is_served_by_those_who_are_awake_and_one_that_is_held_up_is_stood_in_for() {
        let workers = Arc::new(Workers::new(2));
        assert!(workers.took(false) && workers.back(nothing), "two wait, since nobody kept watch yet");
        workers.alone(RequestRate::Crowded);
        let (resting, waits) = (workers.clone(), Arc::new(AtomicBool::new(false)));
        let seen = waits.clone();
        let rests = std::thread::spawn(move || resting.back(|| seen.load(Ordering::Relaxed)));
        while !workers.is_watched() {
            std::thread::yield_now();
        }
        for _ in 0..3 {
            assert!(!workers.took(false) && !workers.took(false), "both are at work, and nobody is called");
            assert!(workers.back(nothing) && workers.back(nothing));
        }
        assert!(!workers.took(false) && !workers.took(false));
        waits.store(true, Ordering::Relaxed);
        // The count goes on, as if one of the two threads took all requests.
        while !rests.is_finished() {
            workers.taken.fetch_add(1, Ordering::Relaxed);
            std::thread::yield_now();
        }
        assert!(rests.join().unwrap(), "the watching thread takes the waiting request");
    }

    #[test]
    fn a_watch_that_ends_while_a_request_is_taken_begins_again() {
        let workers = Workers::new(1);
        workers.alone(RequestRate::Quick);
        workers.watched.store(true, Ordering::Relaxed);
        assert!(!workers.took(false), "a thread watches the device");
        assert!(workers.unwatch(), "the watch has to continue, since no thread was woken");
        assert!(workers.back(nothing) && !workers.unwatch(), "no watch while a thread waits");
    }

    #[test]
    fn of_readers_that_wait_long_one_stays() {
        let workers = Workers::new(3);
        assert!(
            workers.took(false)
                && workers.took(false)
                && workers.took(false)
                && workers.back(nothing)
                && workers.back(nothing)
        );
        assert_eq!(workers.readers.load(Ordering::Relaxed), 3);
        assert_eq!([workers.leave_rest(), workers.leave_rest(), workers.leave_rest()], [true, true, false]);
        assert_eq!(
            (workers.readers.load(Ordering::Relaxed), workers.state.lock().threads),
            (1, 2),
            "and one is at work"
        );
        assert!(workers.took(false), "it calls another when it takes a request");
    }

    #[test]
    fn who_rests_leaves_at_the_end() {
        let (workers, rests) = with_one_at_rest();
        workers.close();
        assert!(!rests.join().unwrap());
        workers.lost();
        workers.wait();
    }
}
