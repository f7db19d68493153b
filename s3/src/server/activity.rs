//! Activity and deadlines of a connection.
//!
//! - Between requests a connection is idle. With a request it is busy until the response's body is dropped.
//! - A connection whose response holds memory is checked often, and closed if others wait for that memory and its
//!   client reads almost nothing.
//! - On HTTP/1, bytes sent keep the connection alive, because the end of a response leaves slowly. On HTTP/2 they do
//!   not count, because pings are among them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use http::Version;
use tokio::time::Instant;

use super::waker::ConnectionWaker;
use crate::body::LOOK;
use crate::limits::Limits;
use crate::outbound::Taking;

/// The activity of one connection.
pub(super) struct Activity {
    opened: Instant,
    state: Mutex<State>,
    /// Milliseconds from `opened` to the last bytes sent.
    sent_ms: AtomicU64,
    http2: AtomicBool,
    /// Whether it became busy or idle since its task last checked.
    turned: AtomicBool,
    /// Wakes its task.
    connection_waker: Arc<ConnectionWaker>,
}

struct State {
    /// The requests in progress by number, in order of their start.
    requests: BTreeMap<u64, Underway>,
    next: u64,
    /// The number of them without a response yet.
    working: usize,
    /// The time of the last progress.
    moved: Instant,
}

/// A request in progress.
struct Underway {
    begun: Instant,
    /// Set for a response that holds memory.
    taking: Option<Arc<Taking>>,
}

/// The decision on a connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It may go on; check again at this time.
    Fine(Instant),
    /// It did nothing since its last request.
    Idle,
    /// Its first head, a request or the reading of a response takes too long.
    Overdue,
}

impl Activity {
    /// A connection that was just opened.
    pub(super) fn new() -> Arc<Self> {
        let opened = Instant::now();
        Arc::new(Self {
            opened,
            state: Mutex::new(State { requests: BTreeMap::new(), next: 0, working: 0, moved: opened }),
            sent_ms: AtomicU64::new(0),
            http2: AtomicBool::new(false),
            turned: AtomicBool::new(false),
            connection_waker: Arc::default(),
        })
    }

    /// Begins a request; it ends when the guard is dropped.
    pub(super) fn begin(self: &Arc<Self>, version: Version) -> Busy {
        self.http2.store(version == Version::HTTP_2, Ordering::Relaxed);
        let now = Instant::now();
        let mut state = self.lock();
        let id = state.next;
        state.next += 1;
        state.working += 1;
        state.moved = now;
        state.requests.insert(id, Underway { begun: now, taking: None });
        if state.requests.len() == 1 {
            self.turn();
        }
        drop(state);
        Busy { activity: Arc::clone(self), id, working: true }
    }

    /// Records that bytes were sent.
    pub(super) fn sent(&self) {
        let ms = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.sent_ms.store(ms, Ordering::Relaxed);
    }

    /// Polls the connection. HTTP/1 requests begin and end within.
    pub(super) fn poll<T>(
        &self,
        context: &Context<'_>,
        connection: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.connection_waker.poll(context, connection)
    }

    /// Whether the connection became busy or idle since the last call. Its task is woken when it does.
    pub(super) fn has_turned(&self) -> bool {
        self.turned.swap(false, Ordering::SeqCst)
    }

    fn turn(&self) {
        self.turned.store(true, Ordering::SeqCst);
        self.connection_waker.call();
    }

    /// Whether it had an HTTP/2 request.
    pub(super) fn is_http2(&self) -> bool {
        self.http2.load(Ordering::Relaxed)
    }

    /// Whether no request is in progress.
    pub(super) fn is_idle(&self) -> bool {
        self.lock().requests.is_empty()
    }

    /// The decision at `now` under `limits`.
    pub(super) fn verdict(&self, limits: &Limits, now: Instant) -> Verdict {
        let state = self.lock();
        let sent = match self.http2.load(Ordering::Relaxed) || state.next == 0 {
            true => state.moved,
            false => state.moved.max(self.opened + Duration::from_millis(self.sent_ms.load(Ordering::Relaxed))),
        };
        let Some((_, oldest)) = state.requests.first_key_value() else {
            let (limit, then) = match state.next {
                0 => (limits.head, Verdict::Overdue),
                _ => (limits.idle, Verdict::Idle),
            };
            let end = sent + limit;
            return if now < end { Verdict::Fine(end) } else { then };
        };
        let given_up = |taking: &Arc<Taking>| taking.is_too_slow() || taking.is_stalled(limits.wanted_answer_stall);
        if state.takings().any(given_up) {
            return Verdict::Overdue;
        }
        let look = state.takings().next().map(|_| now + LOOK);
        let end = oldest.begun + limits.request;
        // The store may take its time; a client may not. A response that begins meanwhile is checked then.
        let stalled = if state.working == 0 { sent } else { now } + limits.answer_stall;
        let end = end.min(stalled).min(look.unwrap_or(stalled));
        if now < end { Verdict::Fine(end) } else { Verdict::Overdue }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn takings(&self) -> impl Iterator<Item = &Arc<Taking>> {
        self.requests.values().filter_map(|request| request.taking.as_ref())
    }
}

/// Keeps a request counted as in progress.
pub(super) struct Busy {
    activity: Arc<Activity>,
    id: u64,
    working: bool,
}

impl Busy {
    /// The response begins; `taking` tracks the client's reading if the response holds memory.
    pub(super) fn answers(&mut self, taking: Option<Arc<Taking>>) {
        let mut state = self.activity.lock();
        state.moved = Instant::now();
        state.working -= usize::from(std::mem::take(&mut self.working));
        if taking.is_some()
            && let Some(request) = state.requests.get_mut(&self.id)
        {
            request.taking = taking;
            self.activity.turn();
        }
    }

    /// More of the response was read.
    pub(super) fn moves(&self) {
        self.activity.lock().moved = Instant::now();
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut state = self.activity.lock();
        state.moved = Instant::now();
        state.working -= usize::from(self.working);
        state.requests.remove(&self.id);
        if state.requests.is_empty() {
            self.activity.turn();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn limits() -> Limits {
        let [head, idle, answer_stall, request] = [10, 20, 30, 100].map(Duration::from_secs);
        Limits { head, idle, answer_stall, request, ..Limits::default() }
    }

    /// The decision after this many seconds.
    fn after(activity: &Activity, seconds: u32) -> Option<Verdict> {
        let verdict = activity.verdict(&limits(), Instant::now() + seconds * SECOND);
        (!matches!(verdict, Verdict::Fine(_))).then_some(verdict)
    }

    #[tokio::test]
    async fn the_first_head_has_less_time_than_the_next() {
        let activity = Activity::new();
        activity.sent();
        assert_eq!((after(&activity, 9), after(&activity, 11)), (None, Some(Verdict::Overdue)));
        drop(activity.begin(Version::HTTP_11));
        assert_eq!((after(&activity, 19), after(&activity, 21)), (None, Some(Verdict::Idle)));
    }

    #[tokio::test]
    async fn work_may_take_long_and_an_answer_that_is_not_taken_may_not() {
        let activity = Activity::new();
        let mut busy = activity.begin(Version::HTTP_2);
        assert_eq!((after(&activity, 99), after(&activity, 101)), (None, Some(Verdict::Overdue)));
        busy.answers(None);
        assert_eq!((after(&activity, 29), after(&activity, 31)), (None, Some(Verdict::Overdue)));
        let other = activity.begin(Version::HTTP_2);
        assert_eq!(after(&activity, 31), None, "one of two works");
        drop(busy);
        assert!(!activity.is_idle());
        drop(other);
        assert!(activity.is_idle());
    }

    #[tokio::test]
    async fn its_task_looks_after_each_turn() {
        let activity = Activity::new();
        assert!(!activity.has_turned());
        let first = activity.begin(Version::HTTP_2);
        assert_eq!((activity.has_turned(), activity.has_turned()), (true, false));
        let second = activity.begin(Version::HTTP_2);
        drop(first);
        assert!(!activity.has_turned(), "it is as busy as before");
        drop(second);
        assert!(activity.has_turned());
    }

    #[tokio::test]
    async fn bytes_sent_count_for_http_1_only() {
        for (version, expected) in [(Version::HTTP_11, None), (Version::HTTP_2, Some(Verdict::Idle))] {
            let activity = Activity::new();
            drop(activity.begin(version));
            // As if the last bytes left 15 seconds after the request.
            activity.sent_ms.store(15_000, Ordering::Relaxed);
            assert_eq!(after(&activity, 25), expected, "{version:?}");
        }
    }
}
