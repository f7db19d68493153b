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

/// Requests that wait at most: more than all doors together can have under way.
const QUEUED_MAX: usize = 65_536;

/// One queued operation.
pub(super) struct Request {
    pub durability: Durability,
    pub operation: Operation,
    pub done: Done,
}

/// Why a request is not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Too many wait.
    Full,
    /// Nothing more will be queued.
    Closed,
}

/// Why [`Queue::wait`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wake {
    /// The thread was called.
    Called,
    /// The deadline passed first.
    Deadline,
    /// Nothing more will be queued.
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

    /// Moves everything queued into the empty `taken`; false if there is nothing.
    pub fn take(&self, taken: &mut VecDeque<Request>) -> bool {
        std::mem::swap(&mut self.state.lock().requests, taken);
        !taken.is_empty()
    }

    /// Whether nothing is queued.
    pub fn is_empty(&self) -> bool {
        self.state.lock().requests.is_empty()
    }

    /// Wakes the thread.
    pub fn call(&self) {
        self.state.lock().called = true;
        self.called.notify_one();
    }

    /// Wakes the thread at the end of somebody else's turn, if there is anything for it to do: `left` says so, or
    /// requests that came meanwhile, or that it sleeps without the deadline which is `due` now.
    pub fn call_after_turn(&self, left: bool, due: bool) {
        let mut state = self.state.lock();
        if !left && state.requests.is_empty() && (!due || state.timed) {
            return;
        }
        state.called = true;
        drop(state);
        self.called.notify_one();
    }

    /// Sleeps until the thread is called, the queue is closed, or `deadline`.
    pub fn wait(&self, deadline: Option<Instant>) -> Wake {
        let mut state = self.state.lock();
        // The thread had the turn a moment ago, if only to look for the deadline: who found it taken calls nobody.
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

    /// Requests pushed and not run yet.
    pub fn depth(&self) -> u64 {
        self.depth.load(Relaxed)
    }

    /// Refuses requests from now on, and wakes the thread.
    pub fn close(&self) {
        self.state.lock().closed = true;
        self.called.notify_all();
    }
}
