//! What mounts have to forget: changes of a bucket by anybody but themselves.
//!
//! - Changes arrive in commit order, before the operation that made them is answered.
//! - An S3 write is answered once every feed of its bucket has acknowledged it, so that no mount shows what it
//!   replaced. A mount that does not answer within [`PATIENCE`] is not waited for: its kernel is stuck anyway.
//! - A mount's own operations never wait for feeds: two mounts that waited for each other would never end.
//! - The feed of a mount that outlives the server (a *lasting* one) is there from the opening of the store, before
//!   anybody listens, and stays when its listener goes: what it is not given is owed to it (`owed.rs`).

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

/// Whose feed it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// A mount that ends with the process.
    Process,
    /// One that outlives it.
    Lasting,
}

/// One feed, seen from both ends.
struct Shared {
    bucket: u64,
    mount: u64,
    life: Life,
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
    /// Nobody listens any more.
    closed: bool,
    /// The mount is gone.
    gone: bool,
}

/// Changes by others (S3, other mounts), in commit order. Take a batch, drop the caches, then acknowledge: an S3 write
/// is answered only after that.
pub struct Feed(Arc<Shared>);

/// What a feed has not acknowledged yet.
pub(crate) struct Debt {
    shared: Arc<Shared>,
    target: u64,
}

impl Debt {
    /// Whether it has by now, or never will.
    pub fn is_paid(&self) -> bool {
        let queue = self.shared.queue.lock();
        queue.gone || queue.acknowledged >= self.target
    }
}

impl Feeds {
    /// A feed of the changes that others than `mount` make to a bucket: the one that is there, with what has gathered
    /// in it, or a new one. Also whether it was closed for a time, and missed what was published then.
    pub fn open(&self, bucket: u64, mount: u64, life: Life) -> (Feed, bool) {
        let mut feeds = self.0.lock();
        if let Some(found) = feeds.iter().find(|feed| feed.mount == mount) {
            let missed = std::mem::take(&mut found.queue.lock().closed);
            return (Feed(found.clone()), missed);
        }
        let (queue, filled, settled) = (Mutex::default(), Condvar::new(), Notify::new());
        let shared = Arc::new(Shared { bucket, mount, life, queue, filled, settled });
        feeds.push(shared.clone());
        (Feed(shared), false)
    }

    /// Whether anybody listens to a bucket, or will.
    pub fn wanted(&self, bucket: u64) -> bool {
        self.0.lock().iter().any(|feed| feed.bucket == bucket)
    }

    /// Whether a change has to be recorded for a lasting mount.
    pub fn owes(&self, bucket: u64, origin: u64) -> bool {
        self.0.lock().iter().any(|feed| feed.is_owed(bucket, origin))
    }

    /// What lasting mounts have to acknowledge of all that was published so far.
    pub fn debts(&self, bucket: u64, origin: u64) -> Vec<Debt> {
        let feeds = self.0.lock();
        let owed = feeds.iter().filter(|feed| feed.is_owed(bucket, origin));
        owed.map(|shared| Debt { shared: shared.clone(), target: shared.queue.lock().published }).collect()
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

    /// Ends listening for a mount. A lasting one is owed what comes from now on.
    pub fn close(&self, mount: u64) {
        let mut feeds = self.0.lock();
        for feed in feeds.iter().filter(|feed| feed.mount == mount) {
            feed.close();
        }
        feeds.retain(|feed| feed.mount != mount || feed.life == Life::Lasting);
    }

    /// Ends the feed of a mount that is gone.
    pub fn remove(&self, mount: u64) {
        let mut feeds = self.0.lock();
        for feed in feeds.iter().filter(|feed| feed.mount == mount) {
            feed.queue.lock().gone = true;
            feed.close();
        }
        feeds.retain(|feed| feed.mount != mount);
    }
}

impl Shared {
    fn is_owed(&self, bucket: u64, origin: u64) -> bool {
        self.bucket == bucket && self.mount != origin && self.life == Life::Lasting
    }

    fn push(&self, changes: &[Change]) {
        let mut queue = self.queue.lock();
        queue.published += changes.len() as u64;
        if !queue.closed {
            queue.changes.extend(changes.iter().cloned());
            self.filled.notify_one();
        }
    }

    fn close(&self) {
        self.queue.lock().closed = true;
        self.filled.notify_all();
        self.settled.notify_waiters();
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
    /// Waits for changes; `None` once the feed is closed and all that came before was taken.
    #[expect(clippy::should_implement_trait, reason = "it blocks, and nobody chains adapters on it")]
    pub fn next(&mut self) -> Option<Vec<Change>> {
        let mut queue = self.0.queue.lock();
        while queue.changes.is_empty() {
            if queue.closed {
                return None;
            }
            self.0.filled.wait(&mut queue);
        }
        Some(take(&mut queue))
    }

    /// What has gathered, without waiting.
    #[cfg(test)]
    pub(crate) fn gathered(&mut self) -> Vec<Change> {
        take(&mut self.0.queue.lock())
    }

    /// All batches taken so far are done with.
    pub fn acknowledge(&mut self) {
        let mut queue = self.0.queue.lock();
        queue.acknowledged = queue.taken;
        drop(queue);
        self.0.settled.notify_waiters();
    }
}

fn take(queue: &mut Queue) -> Vec<Change> {
    queue.taken = queue.published;
    queue.changes.drain(..).collect()
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
        let (mut mine, _) = feeds.open(7, 1, Life::Process);
        feeds.publish(7, 1, &[entry("own")]);
        feeds.publish(8, 0, &[entry("other bucket")]);
        feeds.publish(7, 0, &[entry("s3")]);
        assert_eq!(mine.next(), Some(vec![entry("s3")]));
        feeds.close(1);
        assert_eq!(mine.next(), None);
        assert!(!feeds.wanted(7));
    }

    #[test]
    fn a_lasting_mount_is_owed_what_nobody_gives_it() {
        let feeds = Feeds::default();
        drop(feeds.open(7, 1, Life::Lasting));
        assert!(feeds.owes(7, 0) && !feeds.owes(7, 1) && !feeds.owes(8, 0));
        feeds.publish(7, 0, &[entry("before")]);
        let (mut mine, missed) = feeds.open(7, 1, Life::Lasting);
        let debts = feeds.debts(7, 0);
        assert_eq!((mine.next(), missed), (Some(vec![entry("before")]), false));
        assert!(!debts[0].is_paid());
        mine.acknowledge();
        assert!(debts[0].is_paid());
        feeds.close(1);
        feeds.publish(7, 0, &[entry("after")]);
        let debts = feeds.debts(7, 0);
        assert!(mine.next().is_none() && feeds.owes(7, 0) && !debts[0].is_paid());
        assert!(feeds.open(7, 1, Life::Lasting).1, "it missed what came after");
        feeds.remove(1);
        assert!(debts[0].is_paid() && !feeds.wanted(7));
    }

    #[tokio::test]
    async fn settling_waits_for_the_acknowledgement() {
        let feeds = Arc::new(Feeds::default());
        let (mut feed, _) = feeds.open(7, 1, Life::Process);
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
