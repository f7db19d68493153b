//! What mounts have to forget: changes of a bucket by anybody but themselves.
//!
//! - Changes arrive in commit order, before the operation that made them is answered.
//! - An S3 write is answered once every feed of its bucket has acknowledged it, so that no mount shows what it
//!   replaced. A mount that does not answer within [`PATIENCE`] is not waited for: its kernel is stuck anyway.
//! - A mount's own operations never wait for feeds: two mounts that waited for each other would never end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;

use crate::volume::Change;

/// How long an answer waits for a mount.
const PATIENCE: Duration = Duration::from_secs(2);

/// All feeds.
#[derive(Default)]
pub(crate) struct Feeds(Mutex<Vec<Arc<Shared>>>);

/// One feed, seen from both ends.
struct Shared {
    bucket: u64,
    mount: u64,
    queue: Mutex<Queue>,
    filled: Condvar,
    settled: Notify,
}

#[derive(Default)]
struct Queue {
    changes: VecDeque<Change>,
    published: u64,
    taken: u64,
    acknowledged: u64,
    closed: bool,
}

/// Changes by others (S3, other mounts), in commit order. Take a batch, drop the caches, then acknowledge: an S3 write
/// is answered only after that.
pub struct Feed(Arc<Shared>);

impl Feeds {
    /// A feed of the changes that others than `mount` make to a bucket.
    pub fn open(&self, bucket: u64, mount: u64) -> Feed {
        let shared =
            Arc::new(Shared { bucket, mount, queue: Mutex::default(), filled: Condvar::new(), settled: Notify::new() });
        self.0.lock().push(shared.clone());
        Feed(shared)
    }

    /// Whether anybody listens to a bucket.
    pub fn wanted(&self, bucket: u64) -> bool {
        self.0.lock().iter().any(|feed| feed.bucket == bucket)
    }

    /// Hands changes to every feed of the bucket but the origin's.
    pub fn publish(&self, bucket: u64, origin: u64, changes: &[Change]) {
        for feed in self.0.lock().iter().filter(|feed| feed.bucket == bucket && feed.mount != origin) {
            feed.push(changes);
        }
    }

    /// Hands changes to the feed of one mount.
    pub fn publish_to(&self, mount: u64, changes: &[Change]) {
        for feed in self.0.lock().iter().filter(|feed| feed.mount == mount) {
            feed.push(changes);
        }
    }

    /// Waits until all that was published to a bucket's feeds is acknowledged.
    pub async fn settle(&self, bucket: u64) {
        let behind: Vec<_> = self.0.lock().iter().filter(|feed| feed.bucket == bucket).cloned().collect();
        for feed in behind {
            let target = feed.queue.lock().published;
            if tokio::time::timeout(PATIENCE, feed.acknowledged(target)).await.is_err() {
                tracing::warn!(bucket, mount = feed.mount, "a mount does not drop its caches; not waiting for it");
            }
        }
    }

    /// Ends the feed of a mount.
    pub fn close(&self, mount: u64) {
        let mut feeds = self.0.lock();
        for feed in feeds.iter().filter(|feed| feed.mount == mount) {
            feed.queue.lock().closed = true;
            feed.filled.notify_all();
            feed.settled.notify_waiters();
        }
        feeds.retain(|feed| feed.mount != mount);
    }
}

impl Shared {
    fn push(&self, changes: &[Change]) {
        let mut queue = self.queue.lock();
        queue.changes.extend(changes.iter().cloned());
        queue.published += changes.len() as u64;
        self.filled.notify_one();
    }

    async fn acknowledged(&self, target: u64) {
        loop {
            let notified = self.settled.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            {
                let queue = self.queue.lock();
                if queue.acknowledged >= target || queue.closed {
                    return;
                }
            }
            notified.await;
        }
    }
}

impl Feed {
    /// Waits for changes; `None` once the feed is closed.
    #[expect(clippy::should_implement_trait, reason = "it blocks, and nobody chains adapters on it")]
    pub fn next(&mut self) -> Option<Vec<Change>> {
        let mut queue = self.0.queue.lock();
        while queue.changes.is_empty() {
            if queue.closed {
                return None;
            }
            self.0.filled.wait(&mut queue);
        }
        queue.taken = queue.published;
        Some(queue.changes.drain(..).collect())
    }

    /// All batches taken so far are done with.
    pub fn acknowledge(&mut self) {
        let mut queue = self.0.queue.lock();
        queue.acknowledged = queue.taken;
        drop(queue);
        self.0.settled.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str) -> Change {
        Change::Entry { parent: 1, name: name.into() }
    }

    #[test]
    fn a_mount_hears_of_others_only() {
        let feeds = Feeds::default();
        let mut mine = feeds.open(7, 1);
        feeds.publish(7, 1, &[entry("own")]);
        feeds.publish(8, 0, &[entry("other bucket")]);
        feeds.publish(7, 0, &[entry("s3")]);
        assert_eq!(mine.next(), Some(vec![entry("s3")]));
        feeds.close(1);
        assert_eq!(mine.next(), None);
        assert!(!feeds.wanted(7));
    }

    #[tokio::test]
    async fn settling_waits_for_the_acknowledgement() {
        let feeds = Arc::new(Feeds::default());
        let mut feed = feeds.open(7, 1);
        feeds.publish(7, 0, &[entry("a")]);
        let settling = tokio::spawn({
            let feeds = feeds.clone();
            async move { feeds.settle(7).await }
        });
        tokio::task::yield_now().await;
        assert!(!settling.is_finished());
        feed.next();
        feed.acknowledge();
        settling.await.unwrap();
    }
}
