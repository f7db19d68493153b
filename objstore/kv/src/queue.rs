//! The queue of operations to commit.
//!
//! - First in, first out: the order of pushes is the order of commits.
//! - Closing refuses new requests; queued ones are still executed.
//! - Every caller waits for its ticket, so callers bound the queue, and [`QUEUED_MAX`] bounds those of callers that
//!   left without waiting.
//! - The writer thread sleeps until it is notified. The caller that pushes notifies it, or becomes the commit leader
//!   itself and notifies it only for what remains.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use super::engine::{Done, Durability, Operation};

/// The largest number of queued requests: more than all front ends together can have in progress.
const QUEUED_MAX: usize = 65_536;

/// One queued operation.
pub(super) struct Request {
    pub durability: Durability,
    pub operation: Operation,
    pub done: Done,
}

/// Why a request was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Too many requests are queued.
    Full,
    /// The queue is closed.
    Closed,
}

/// Why [`Queue::wait`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wake {
    /// Another thread called [`Queue::call`] or pushed a request.
    Called,
    /// The deadline passed.
    Deadline,
    /// The queue is closed.
    Closed,
}

#[derive(Default)]
struct State {
    requests: VecDeque<Request>,
    called: bool,
    /// Whether the thread sleeps with a deadline.
    timed: bool,
    closed: bool,
}

#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    called: Condvar,
    depth: AtomicU64,
}

impl Queue {
    /// Queues `request`, or hands it back.
    pub fn push(&self, request: Request) -> Result<(), (Refusal, Request)> {
        let mut state = self.state.lock();
        if state.closed {
            return Err((Refusal::Closed, request));
        }
        if state.requests.len() >= QUEUED_MAX {
            return Err((Refusal::Full, request));
        }
        state.requests.push_back(request);
        self.depth.fetch_add(1, Relaxed);
        Ok(())
    }

    /// Moves all queued requests into the empty `taken`; false if there are none.
    pub fn take(&self, taken: &mut VecDeque<Request>) -> bool {
        std::mem::swap(&mut self.state.lock().requests, taken);
        !taken.is_empty()
    }

    /// Whether nothing is queued.
    pub fn is_empty(&self) -> bool {
        self.state.lock().requests.is_empty()
    }

    /// Wakes the writer thread.
    pub fn call(&self) {
        self.state.lock().called = true;
        self.called.notify_one();
    }

    /// Wakes the writer thread after another thread's round as commit leader, if it has anything to do: `left` says
    /// that requests were left, others may have arrived meanwhile, or it sleeps without the deadline that is `due` now.
    pub fn call_after_turn(&self, left: bool, due: bool) {
        let mut state = self.state.lock();
        if !left && state.requests.is_empty() && (!due || state.timed) {
            return;
        }
        state.called = true;
        drop(state);
        self.called.notify_one();
    }

    /// Sleeps until the thread is woken, the queue is closed, or `deadline` passes.
    pub fn wait(&self, deadline: Option<Instant>) -> Wake {
        let mut state = self.state.lock();
        // The thread itself led a moment ago, if only to check the deadline: a caller that found a leader woke no one.
        state.called |= !state.requests.is_empty();
        state.timed = deadline.is_some();
        let wake = loop {
            if std::mem::take(&mut state.called) {
                break Wake::Called;
            }
            if state.closed {
                break Wake::Closed;
            }
            match deadline {
                None => self.called.wait(&mut state),
                Some(deadline) if Instant::now() >= deadline => break Wake::Deadline,
                Some(deadline) => drop(self.called.wait_until(&mut state, deadline)),
            }
        };
        state.timed = false;
        wake
    }

    /// Counts one request as run.
    pub fn ran(&self) {
        self.depth.fetch_sub(1, Relaxed);
    }

    /// The number of requests pushed and not run yet.
    pub fn depth(&self) -> u64 {
        self.depth.load(Relaxed)
    }

    /// Refuses requests from now on and wakes the thread.
    pub fn close(&self) {
        self.state.lock().closed = true;
        self.called.notify_all();
    }
}
