//! Accounting of sent responses on a connection: bytes that hyper accepted may still be in its buffer when the client
//! disconnects.
//!
//! - An HTTP/1 response is complete once everything up to its end was handed to the operating system. Until then its
//!   access line waits here. If the connection ends first, the line reports that the response was cut off, and after
//!   how many bytes.
//! - HTTP/2 interleaves responses on one connection: there a response counts as sent once hyper has all of it, which
//!   may be up to 256 KiB too early.
//! - Each connection has its own ledger, so its lock is hardly ever contended.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::line::{AccessLine, Cut};

/// The responses of one connection.
#[derive(Default)]
pub(crate) struct ReplyLedger {
    /// Bytes handed to the operating system, heads included.
    sent: AtomicU64,
    /// Whether a line waits; readable without the lock.
    waits: AtomicBool,
    /// Whether the server closes the connection because its client is too slow.
    overdue: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: Vec<AccessLine>,
    closed: bool,
}

impl ReplyLedger {
    /// Records bytes handed to the operating system.
    pub(crate) fn sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Total bytes sent since the connection began.
    pub(crate) fn total(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Records that everything up to here was handed to the operating system.
    pub(crate) fn flushed(&self) {
        if self.waits.load(Ordering::Relaxed) {
            let waiting = self.take(false);
            drop(waiting);
        }
    }

    /// Records that the server is about to close the connection.
    pub(crate) fn expire(&self) {
        self.overdue.store(true, Ordering::Relaxed);
    }

    /// Records that the connection has ended.
    pub(crate) fn close(&self) {
        for mut line in self.take(true) {
            line.cut_short(self.cause(), self.total());
        }
    }

    /// Why a response is cut off if the connection ends now.
    pub(super) fn cause(&self) -> Cut {
        if self.overdue.load(Ordering::Relaxed) { Cut::Stalled } else { Cut::Left }
    }

    /// Keeps the access line of a response that hyper has all of.
    pub(super) fn park(&self, mut line: AccessLine) {
        let mut state = self.lock();
        if state.closed {
            drop(state);
            line.cut_short(self.cause(), self.total());
            return;
        }
        state.waiting.push(line);
        self.waits.store(true, Ordering::Relaxed);
    }

    fn take(&self, closes: bool) -> Vec<AccessLine> {
        let mut state = self.lock();
        state.closed |= closes;
        self.waits.store(false, Ordering::Relaxed);
        std::mem::take(&mut state.waiting)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::Pin;
    use std::sync::Arc;

    use http::{HeaderMap, StatusCode, Version};
    use http_body::Body as _;
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::address::{Address, Domains};
    use crate::change::Auditor;
    use crate::metrics::Metrics;
    use crate::outbound::{Listeners, Outbound};
    use crate::request::Request;

    /// Counters of responses on a connection.
    struct Counted(Registry, Arc<Listeners>);

    impl Counted {
        fn new() -> Self {
            let mut registry = Registry::default();
            let listeners =
                Listeners { metrics: Metrics::new(&mut registry), auditor: Auditor::default(), access_log: None };
            Self(registry, Arc::new(listeners))
        }

        /// A response of 1,000 bytes, of which hyper accepted all or nothing.
        async fn answer(&self, ledger: &Arc<ReplyLedger>, version: Version, taken: bool) {
            let (head, ()) = http::Request::get("/b/k").body(()).unwrap().into_parts();
            let request = Request::new("id".into(), &head, Address::new(&Domains::default(), "", "/b/k"), None);
            let body = s3s::Body::from(bytes::Bytes::from(vec![7; 1_000]));
            let mut body = Outbound::new(body, StatusCode::OK, None, Arc::new(request), self.1.clone());
            body.on(Arc::clone(ledger), version, &HeaderMap::new());
            if taken {
                let frame = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await;
                assert!(frame.is_some_and(|frame| frame.is_ok()));
            }
        }

        /// Bytes sent, and the numbers of responses cut off by the client and by a stall.
        fn now(&self) -> [u64; 3] {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &self.0).unwrap();
            [
                "s3_sent_bytes_total ",
                "s3_answers_cut_total{reason=\"client\"} ",
                "s3_answers_cut_total{reason=\"stalled\"} ",
            ]
            .map(|name| text.lines().find_map(|line| line.strip_prefix(name)).unwrap().parse().unwrap())
        }
    }

    #[tokio::test]
    async fn an_answer_is_whole_once_its_last_byte_was_handed_to_the_system() {
        let (counted, ledger) = (Counted::new(), Arc::<ReplyLedger>::default());
        counted.answer(&ledger, Version::HTTP_11, true).await;
        assert_eq!(counted.now(), [0, 0, 0], "it waits for the connection");
        ledger.sent(1_200);
        ledger.flushed();
        assert_eq!(counted.now(), [1_000, 0, 0]);
        ledger.close();
        assert_eq!(counted.now(), [1_000, 0, 0], "its end changes nothing");
    }

    #[tokio::test]
    async fn an_answer_that_hyper_took_and_the_client_did_not_is_cut() {
        let (counted, ledger) = (Counted::new(), Arc::<ReplyLedger>::default());
        ledger.sent(5_000);
        counted.answer(&ledger, Version::HTTP_11, true).await;
        ledger.sent(500);
        ledger.expire();
        ledger.close();
        let [sent, left, stalled] = counted.now();
        // Some of the 500 bytes were the head.
        assert!((400..500).contains(&sent), "{sent}");
        assert_eq!((left, stalled), (0, 1));
        counted.answer(&ledger, Version::HTTP_11, true).await;
        assert_eq!(counted.now(), [sent, 0, 2], "it came after the end of the connection");
    }

    #[tokio::test]
    async fn an_answer_that_nobody_took_is_cut_in_each_version() {
        for version in [Version::HTTP_11, Version::HTTP_2] {
            let (counted, ledger) = (Counted::new(), Arc::<ReplyLedger>::default());
            counted.answer(&ledger, version, false).await;
            assert_eq!(counted.now(), [0, 1, 0], "{version:?}");
        }
        let (counted, ledger) = (Counted::new(), Arc::<ReplyLedger>::default());
        counted.answer(&ledger, Version::HTTP_2, true).await;
        assert_eq!(counted.now(), [1_000, 0, 0]);
    }
}
