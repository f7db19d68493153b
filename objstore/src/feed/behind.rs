//! Waiting for the acknowledgement of what was published.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::FeedState;
use crate::latency::Recorder;

/// How long an answer waits until the kernel has ended a mount that is lost.
const ENDING: Duration = Duration::from_secs(10);

/// How far each of several feeds has to come.
pub(crate) struct Behind {
    pub(super) feeds: Vec<(Arc<FeedState>, u64)>,
    /// The times that answers waited.
    pub(super) waited: Arc<Recorder>,
}

impl Behind {
    /// Waits until each feed has acknowledged or ended. The time is that of the most patient feed, however many do not
    /// answer.
    pub async fn acknowledged(self) {
        if self.feeds.is_empty() {
            return;
        }
        let begun = tokio::time::Instant::now();
        for (feed, target) in self.feeds {
            let until = begun + feed.patience();
            if tokio::time::timeout_at(until, feed.acknowledged(target)).await.is_err() && feed.give_up() {
                // What is lost is waited for no longer than its end may take.
                let _ = tokio::time::timeout(ENDING, feed.acknowledged(target)).await;
            }
        }
        self.waited.record(begun.elapsed());
    }

    /// As [`Behind::acknowledged`], on a thread that may wait.
    pub fn wait(self) {
        if self.feeds.is_empty() {
            return;
        }
        let begun = Instant::now();
        for (feed, target) in self.feeds {
            if !feed.wait(target, begun + feed.patience()) && feed.give_up() {
                feed.wait(target, Instant::now() + ENDING);
            }
        }
        self.waited.record(begun.elapsed());
    }
}
