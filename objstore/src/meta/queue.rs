//! The operations that wait for the writer thread.
//!
//! - First in, first out: the order of pushes is the order of commits.
//! - Closing refuses new requests; those already queued are still taken.
//! - It has no limit of its own: every caller waits for its ticket, so callers bound it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use super::engine::{Done, Durability, Operation};

/// One queued operation.
pub(super) struct Request {
    pub durability: Durability,
    pub operation: Operation,
    pub done: Done,
}

/// Why [`Queue::wait`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wake {
    /// Requests were taken.
    Work,
    /// The deadline passed first.
    Deadline,
    /// Nothing is queued and nothing will be.
    Closed,
}

#[derive(Default)]
struct State {
    requests: VecDeque<Request>,
    closed: bool,
}

#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    arrived: Condvar,
    depth: AtomicU64,
}

impl Queue {
    /// Queues `request`, or hands it back if the queue is closed.
    pub fn push(&self, request: Request) -> Result<(), Request> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(request);
        }
        state.requests.push_back(request);
        self.depth.fetch_add(1, Relaxed);
        drop(state);
        self.arrived.notify_one();
        Ok(())
    }

    /// Moves everything queued into the empty `taken`; false if there is nothing.
    pub fn take(&self, taken: &mut VecDeque<Request>) -> bool {
        std::mem::swap(&mut self.state.lock().requests, taken);
        !taken.is_empty()
    }

    /// Like [`Queue::take`], but waits for a request, for the queue to close, or until `deadline`.
    pub fn wait(&self, taken: &mut VecDeque<Request>, deadline: Option<Instant>) -> Wake {
        let mut state = self.state.lock();
        while state.requests.is_empty() {
            if state.closed {
                return Wake::Closed;
            }
            match deadline {
                None => self.arrived.wait(&mut state),
                Some(deadline) => {
                    if self.arrived.wait_until(&mut state, deadline).timed_out() && state.requests.is_empty() {
                        return Wake::Deadline;
                    }
                }
            }
        }
        std::mem::swap(&mut state.requests, taken);
        Wake::Work
    }

    /// Counts one request as run.
    pub fn ran(&self) {
        self.depth.fetch_sub(1, Relaxed);
    }

    /// Requests pushed and not run yet.
    pub fn depth(&self) -> u64 {
        self.depth.load(Relaxed)
    }

    /// Refuses requests from now on, and wakes the writer.
    pub fn close(&self) {
        self.state.lock().closed = true;
        self.arrived.notify_all();
    }
}
