//! The owner's end of a log: appends in order, a few at a time, and the position up to which all are acknowledged.
//!
//! - Up to [`MAX_UNDER_WAY`] appends are under way. What is pushed meanwhile waits, and forms larger batches.
//! - An entry counts as acknowledged when every entry up to it is.
//! - Memory: [`MAX_WAITING_BYTES`], and what is under way. Beyond that [`Appender::push`] waits.
//! - After the first failed append nothing is sent and nothing acknowledged any more.
//!
//! A crash leaves in the log what was acknowledged, and perhaps some of what was under way.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::batch::{Batch, MAX_BATCH_BYTES, MAX_BATCH_ENTRIES, MAX_UNDER_WAY};
use crate::error::{Error, Result};
use crate::log::Log;
use crate::owner::Epoch;

/// The bytes that may wait before a caller of [`Appender::push`] does.
pub const MAX_WAITING_BYTES: usize = 16 << 20;

/// Receives the first failure.
type OnFailure = Box<dyn Fn(&Error) + Send + Sync>;

/// The appends of one ownership. Clones are of the same one.
#[derive(Clone)]
pub struct Appender(Arc<Inner>);

struct Inner {
    log: Arc<dyn Log>,
    epoch: Epoch,
    state: Mutex<State>,
    changed: Condvar,
    on_failure: OnceLock<OnFailure>,
    this: Weak<Inner>,
}

struct State {
    waiting: VecDeque<(Bytes, Instant)>,
    waiting_bytes: usize,
    /// The bytes of all entries that were ever pushed.
    pushed_bytes: u64,
    under_way: VecDeque<UnderWay>,
    /// The number of the next entry to push.
    next: u64,
    /// Every entry up to this number is acknowledged.
    acknowledged: u64,
    /// Whether a thread is between taking a batch and passing it to the log.
    sending: bool,
    failure: Option<Error>,
}

struct UnderWay {
    last: u64,
    since: Instant,
    answered: bool,
}

impl Appender {
    /// Appends to `log` as the owner of `epoch`, beginning with the entry `next`.
    pub fn new(log: Arc<dyn Log>, epoch: Epoch, next: u64) -> Self {
        let state = State {
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            pushed_bytes: 0,
            under_way: VecDeque::new(),
            next,
            acknowledged: next - 1,
            sending: false,
            failure: None,
        };
        let inner = |this: &Weak<Inner>| Inner {
            log,
            epoch,
            state: Mutex::new(state),
            changed: Condvar::new(),
            on_failure: OnceLock::new(),
            this: Weak::clone(this),
        };
        Self(Arc::new_cyclic(inner))
    }

    /// Queues the entry `number`, which must follow the last one pushed. Waits while too much is queued.
    ///
    /// # Errors
    /// - The error of an earlier append that failed.
    /// - [`Error::Invalid`]: the entry is too large for the log, or another number is next. Nothing was queued.
    pub fn push(&self, number: u64, body: Bytes) -> Result<()> {
        Batch { epoch: self.0.epoch, first: number, bodies: vec![body.clone()] }.check()?;
        let mut state = self.0.wait_until(|state| state.waiting_bytes < MAX_WAITING_BYTES)?;
        if state.next != number {
            let why = format!("entry {number} was pushed where {} is next", state.next);
            return Err(Error::Invalid { why });
        }
        state.next += 1;
        state.waiting_bytes += body.len();
        state.pushed_bytes += body.len() as u64;
        state.waiting.push_back((body, Instant::now()));
        drop(state);
        self.0.send();
        Ok(())
    }

    /// Returns once the entry `number`, which was pushed, and all before it are acknowledged.
    ///
    /// # Errors
    /// The error of the append that failed: whether the log has the entry is unknown.
    pub fn wait(&self, number: u64) -> Result<()> {
        let satisfied = |state: &State| state.acknowledged >= number;
        if satisfied(&self.0.state.lock()) {
            return Ok(());
        }
        self.0.wait_until(satisfied).map(drop)
    }

    /// The number up to which all entries are acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.0.state.lock().acknowledged
    }

    /// The bytes of all entries that were pushed since the beginning of the ownership.
    pub fn appended_bytes(&self) -> u64 {
        self.0.state.lock().pushed_bytes
    }

    /// For how long the oldest entry has waited to be acknowledged.
    pub fn lag(&self) -> Duration {
        let state = self.0.state.lock();
        let oldest = state.under_way.front().map(|append| append.since);
        let oldest = oldest.or_else(|| state.waiting.front().map(|(_, since)| *since));
        oldest.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Why nothing more is appended, if that is so.
    pub fn failure(&self) -> Option<Error> {
        self.0.state.lock().failure.clone()
    }

    /// Calls `report` with the first failure, on the thread that finds it, which must not be blocked. Set once, before
    /// the first entry is pushed.
    pub fn on_failure(&self, report: impl Fn(&Error) + Send + Sync + 'static) {
        // A second one is not kept; there is one caller.
        let _ = self.0.on_failure.set(Box::new(report));
    }

    /// Appends nothing more, because of `error`; each caller that waits for an acknowledgement receives it.
    pub fn fail(&self, error: Error) {
        self.0.fail(error);
    }

    /// A function that calls [`Appender::fail`] as long as the appender exists.
    pub fn failing(&self) -> impl Fn(Error) + Send + Sync + 'static {
        let inner = Arc::downgrade(&self.0);
        move |error| {
            if let Some(inner) = inner.upgrade() {
                inner.fail(error);
            }
        }
    }
}

impl Inner {
    fn wait_until(&self, satisfied: impl Fn(&State) -> bool) -> Result<MutexGuard<'_, State>> {
        loop {
            let state = self.state.lock();
            if let Some(error) = &state.failure {
                return Err(error.clone());
            }
            if satisfied(&state) {
                return Ok(state);
            }
            drop(state);
            if self.log.drive() {
                continue;
            }
            let mut state = self.state.lock();
            if state.failure.is_none() && !satisfied(&state) {
                self.changed.wait(&mut state);
            }
        }
    }

    /// Passes batches to the log, unless another thread does: that one looks again.
    fn send(&self) {
        let mut state = self.state.lock();
        if state.sending {
            return;
        }
        while let Some(batch) = state.take_batch(self.epoch) {
            state.sending = true;
            drop(state);
            let (this, last) = (Weak::clone(&self.this), batch.last());
            let done = move |outcome| {
                if let Some(inner) = this.upgrade() {
                    inner.answered(last, outcome);
                }
            };
            self.log.append(batch, Box::new(done));
            state = self.state.lock();
            state.sending = false;
        }
        drop(state);
        self.changed.notify_all();
    }

    fn answered(&self, last: u64, outcome: Result<()>) {
        if let Err(error) = outcome {
            return self.fail(error);
        }
        let mut state = self.state.lock();
        if let Some(append) = state.under_way.iter_mut().find(|append| append.last == last) {
            append.answered = true;
        }
        // What was answered before a failure counts; what is answered after it may follow a gap.
        while state.failure.is_none() && state.under_way.front().is_some_and(|append| append.answered) {
            state.acknowledged = state.under_way.pop_front().map_or(0, |append| append.last);
        }
        drop(state);
        self.changed.notify_all();
        self.send();
    }

    fn fail(&self, error: Error) {
        let mut state = self.state.lock();
        let first = state.failure.is_none();
        let error = state.failure.get_or_insert(error).clone();
        state.waiting.clear();
        state.waiting_bytes = 0;
        drop(state);
        self.changed.notify_all();
        if let Some(report) = self.on_failure.get().filter(|_| first) {
            report(&error);
        }
    }
}

impl State {
    /// The next batch, if there is one and it may be under way.
    fn take_batch(&mut self, epoch: Epoch) -> Option<Batch> {
        if self.failure.is_some() || self.under_way.len() >= MAX_UNDER_WAY || self.waiting.is_empty() {
            return None;
        }
        let first = self.next - self.waiting.len() as u64;
        let (mut bodies, mut bytes) = (Vec::new(), 0);
        let since = self.waiting.front().map_or_else(Instant::now, |(_, since)| *since);
        while bodies.len() < MAX_BATCH_ENTRIES
            && let Some((body, _)) =
                self.waiting.pop_front_if(|(body, _)| bytes == 0 || bytes + body.len() <= MAX_BATCH_BYTES)
        {
            bytes += body.len();
            bodies.push(body);
        }
        self.waiting_bytes -= bytes;
        let batch = Batch { epoch, first, bodies };
        self.under_way.push_back(UnderWay { last: batch.last(), since, answered: false });
        Some(batch)
    }
}

#[cfg(test)]
mod tests;
