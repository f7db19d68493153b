//! Change feeds: the cache invalidations for each mount of a bucket, for every change made by another client.
//!
//! - Changes arrive in commit order, before the operation that made them is answered.
//! - A change by S3 or through a mount is answered once every other feed of its bucket has acknowledged it, or has ended:
//!   no mount shows what was replaced. A mount that does not acknowledge within [`PATIENCE`] is *lost*: it is ended, and
//!   answers wait for that end. No mount's acknowledgement waits for an answer (decision 0098), so none wait in a circle.
//! - A feed says whether other mounts use the bucket ([`Feeds::tell_sharing`]), since their kernels then cache less.
//! - The feed of a persistent session exists from the opening of the store, before there is a listener, and stays when
//!   its listener ends: invalidations without a listener are recorded as undelivered (`undelivered.rs`).
//! - A queue is bounded. A growing one drops repeated invalidations. Beyond [`CROWDED`], other mounts are slowed down
//!   ([`Feeds::make_room`]), as S3 is already. A mount that leaves [`CHANGES_MAX`] changes unread is *lost*: its caches
//!   may be wrong, so it has to be ended.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;

use crate::latency::{Latency, Recorder};
use crate::shrink::Shrink;
pub use objstore_files::Change;

mod behind;

pub(crate) use behind::Behind;

/// How long an answer waits for a mount, which is then ended. A session of another machine that leaves a change
/// unacknowledged for half a lease is not renewed, so its node has stopped to serve from its caches by then
/// (decision 0091), and the session ended with its lease unless the server that counts leases did not.
const PATIENCE: Duration = Duration::from_secs(40);

/// How long an answer waits for a persistent session that nothing serves yet: what it misses is recorded, and it is sent
/// that before it is served.
const UNSERVED_PATIENCE: Duration = Duration::from_secs(2);

/// The queue length at which repetitions are dropped and other mounts begin to wait.
const CROWDED: usize = 65_536;
/// The most distinct changes that a mount may leave unread: about 50 MB, and minutes of a kernel's work.
const CHANGES_MAX: usize = 4 * CROWDED;
/// Why a mount is ended that has more.
const CROWDED_OUT: &str = "it has too many undelivered cache invalidations";
/// How long a change through another mount waits for a crowded one.
const GIVEN_WAY: Duration = Duration::from_millis(50);

/// All feeds.
#[derive(Default)]
pub(crate) struct Feeds {
    all: Mutex<Vec<Arc<FeedState>>>,
    /// Whether any queue is crowded.
    crowded: AtomicBool,
    waited: Arc<Recorder>,
}

/// The lifetime of a feed's mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FeedOwner {
    /// The mount ends with the process.
    Process,
    /// The mount outlives the process.
    Lasting,
    /// The mount is on another machine, which serves from its caches as long as it has a lease.
    Leased,
}

/// A feed, shared by both ends.
struct FeedState {
    bucket: u64,
    mount: u64,
    life: FeedOwner,
    queue: Mutex<Queue>,
    filled: Condvar,
    /// Wakes tasks that wait for acknowledgements.
    settled: Notify,
    /// Wakes threads that wait for acknowledgements.
    moved: Condvar,
}

#[derive(Default)]
struct Queue {
    changes: VecDeque<Change>,
    published: u64,
    taken: u64,
    acknowledged: u64,
    /// A listener takes the changes.
    followed: bool,
    /// The listener wants to know whether there are other mounts.
    tells_sharing: bool,
    /// There is no listener any more.
    closed: bool,
    /// The mount is gone, or is about to be ended.
    gone: bool,
    /// The feed is removed: the mount has ended.
    removed: bool,
    /// It left too many changes unread, or one for too long.
    lost: bool,
    /// The number of distinct changes when repetitions were last dropped.
    thinned: usize,
}

/// Changes by others (S3, other mounts), in commit order. Take a batch, drop the caches, then acknowledge: an S3 write
/// is answered only after that.
pub struct Feed(Arc<FeedState>);

/// Changes that a feed has not acknowledged yet.
pub(crate) struct Unacknowledged {
    shared: Arc<FeedState>,
    target: u64,
}

impl Unacknowledged {
    /// Whether the feed has acknowledged them, or never will.
    pub fn is_paid(&self) -> bool {
        let queue = self.shared.queue.lock();
        queue.gone || queue.acknowledged >= self.target
    }

    /// Stops waiting for a mount with too many unread changes.
    pub fn give_up(&self) {
        if !self.is_paid() {
            self.shared.lose(&mut self.shared.queue.lock(), CROWDED_OUT);
        }
    }
}

impl Feeds {
    /// Opens the feed of changes that others than `mount` make to a bucket: the existing one with its queued changes,
    /// or a new one. Also returns whether it was closed for a time, and missed changes.
    pub fn open(&self, bucket: u64, mount: u64, life: FeedOwner) -> (Feed, bool) {
        let mut feeds = self.all.lock();
        if let Some(found) = feeds.iter().find(|feed| feed.mount == mount) {
            let missed = std::mem::take(&mut found.queue.lock().closed);
            return (Feed(found.clone()), missed);
        }
        let (queue, filled, settled, moved) = (Mutex::default(), Condvar::new(), Notify::new(), Condvar::new());
        let shared = Arc::new(FeedState { bucket, mount, life, queue, filled, settled, moved });
        feeds.push(shared.clone());
        if feeds.iter().filter(|feed| feed.bucket == bucket).count() == 2 {
            self.say_sharing(&feeds, bucket, true);
        }
        (Feed(shared), false)
    }

    /// Has the listener of a mount told whether other mounts use its bucket, now and whenever that changes.
    pub fn tell_sharing(&self, bucket: u64, mount: u64) {
        let feeds = self.all.lock();
        let shared = feeds.iter().filter(|feed| feed.bucket == bucket).count() > 1;
        for feed in feeds.iter().filter(|feed| feed.mount == mount) {
            feed.queue.lock().tells_sharing = true;
            self.push(feed, &[Change::Sharing { shared }]);
        }
    }

    /// Tells the listeners of a bucket whether there are others.
    fn say_sharing(&self, feeds: &[Arc<FeedState>], bucket: u64, shared: bool) {
        for feed in feeds.iter().filter(|feed| feed.bucket == bucket) {
            if feed.queue.lock().tells_sharing {
                self.push(feed, &[Change::Sharing { shared }]);
            }
        }
    }

    /// Removes feeds, and tells a mount that is the last of its bucket.
    fn retain(&self, feeds: &mut Vec<Arc<FeedState>>, stays: impl Fn(&FeedState) -> bool) {
        let left: HashSet<u64> = feeds.iter().filter(|feed| !stays(feed)).map(|feed| feed.bucket).collect();
        feeds.retain(|feed| stays(feed));
        for bucket in left {
            if feeds.iter().filter(|feed| feed.bucket == bucket).count() == 1 {
                self.say_sharing(feeds, bucket, false);
            }
        }
    }

    /// Whether a bucket has a listener, or will have.
    pub fn wanted(&self, bucket: u64) -> bool {
        self.all.lock().iter().any(|feed| feed.bucket == bucket)
    }

    /// How many listeners a bucket has, or will have.
    pub fn count(&self, bucket: u64) -> usize {
        self.all.lock().iter().filter(|feed| feed.bucket == bucket).count()
    }

    /// What the feed of one mount has yet to acknowledge.
    pub fn behind_at(&self, mount: u64) -> Behind {
        self.behind(|feed| feed.mount == mount)
    }

    /// Whether a change has to be recorded for a persistent session.
    pub fn owes(&self, bucket: u64, origin: u64) -> bool {
        self.all.lock().iter().any(|feed| feed.is_owed(bucket, origin))
    }

    /// What persistent sessions have yet to acknowledge of everything published so far.
    pub fn debts(&self, bucket: u64, origin: u64) -> Vec<Unacknowledged> {
        let feeds = self.all.lock();
        let undelivered = feeds.iter().filter(|feed| feed.is_owed(bucket, origin));
        undelivered
            .map(|shared| Unacknowledged { shared: shared.clone(), target: shared.queue.lock().published })
            .collect()
    }

    /// Sends changes to every feed of the bucket except the origin's.
    pub fn publish(&self, bucket: u64, origin: u64, changes: &[Change]) {
        for feed in self.all.lock().iter().filter(|feed| feed.bucket == bucket && feed.mount != origin) {
            self.push(feed, changes);
        }
    }

    fn push(&self, feed: &FeedState, changes: &[Change]) {
        if feed.push(changes) >= CROWDED {
            self.crowded.store(true, Ordering::Relaxed);
        }
    }

    /// Waits a moment for crowded mounts, before a change through `origin`. The wait is bounded, because two mounts
    /// that waited for each other would never end.
    pub fn make_room(&self, bucket: u64, origin: u64) {
        if !self.crowded.load(Ordering::Relaxed) {
            return;
        }
        let feeds: Vec<_> = self.all.lock().clone();
        let crowded = |feed: &&Arc<FeedState>| feed.queue.lock().changes.len() >= CROWDED;
        let here = |feed: &&Arc<FeedState>| feed.bucket == bucket && feed.mount != origin;
        let all: Vec<_> = feeds.iter().filter(crowded).collect();
        self.crowded.store(!all.is_empty(), Ordering::Relaxed);
        if all.into_iter().any(|feed| here(&feed)) {
            std::thread::sleep(GIVEN_WAY);
        }
    }

    /// Whether a mount left too many changes unread to continue.
    pub fn is_lost(&self, mount: u64) -> bool {
        self.all.lock().iter().any(|feed| feed.mount == mount && feed.queue.lock().lost)
    }

    /// Ends all mounts of a bucket: which invalidations they need is not known.
    pub fn lose_all(&self, bucket: u64) {
        for feed in self.all.lock().iter().filter(|feed| feed.bucket == bucket) {
            feed.lose(&mut feed.queue.lock(), "its undelivered cache invalidations cannot be read");
        }
    }

    /// Sends changes to the feed of one mount.
    pub fn publish_to(&self, mount: u64, changes: &[Change]) {
        for feed in self.all.lock().iter().filter(|feed| feed.mount == mount) {
            self.push(feed, changes);
        }
    }

    /// Waits until everything published to a bucket's feeds is acknowledged.
    pub async fn wait_for_mounts(&self, bucket: u64) {
        self.wait_for_those(|feed| feed.bucket == bucket).await;
    }

    /// Waits until everything published to all feeds is acknowledged.
    pub async fn wait_for_all(&self) {
        self.wait_for_those(|_| true).await;
    }

    async fn wait_for_those(&self, concerned: impl Fn(&FeedState) -> bool) {
        self.behind(concerned).acknowledged().await;
    }

    /// What the feeds of a bucket except the origin's have yet to acknowledge.
    pub fn behind_of(&self, bucket: u64, origin: u64) -> Behind {
        self.behind(|feed| feed.bucket == bucket && feed.mount != origin)
    }

    fn behind(&self, concerned: impl Fn(&FeedState) -> bool) -> Behind {
        let feeds = self.all.lock();
        let behind = |feed: &Arc<FeedState>| {
            let queue = feed.queue.lock();
            (!queue.is_settled(queue.published)).then_some(queue.published)
        };
        let concerned = feeds.iter().filter(|feed| concerned(feed));
        let feeds = concerned.filter_map(|feed| Some((feed.clone(), behind(feed)?))).collect();
        Behind { feeds, waited: self.waited.clone() }
    }

    /// How long answers to changes waited until other mounts had applied them; those that did not wait are not counted.
    pub fn waited(&self) -> Latency {
        self.waited.read()
    }

    /// Ends listening for a mount. For a persistent session, later changes are recorded as undelivered.
    pub fn close(&self, mount: u64) {
        let mut feeds = self.all.lock();
        for feed in feeds.iter().filter(|feed| feed.mount == mount) {
            feed.close();
        }
        self.retain(&mut feeds, |feed| feed.mount != mount || feed.life != FeedOwner::Process);
    }

    /// Removes the feed of a mount that is gone.
    pub fn remove(&self, mount: u64) {
        let mut feeds = self.all.lock();
        for feed in feeds.iter().filter(|feed| feed.mount == mount) {
            feed.end();
        }
        self.retain(&mut feeds, |feed| feed.mount != mount);
    }
}

impl FeedState {
    /// Whether a change is recorded for the mount. One on another machine drops every cache when it comes back after a
    /// restart of the store (decision 0091).
    fn is_owed(&self, bucket: u64, origin: u64) -> bool {
        self.bucket == bucket && self.mount != origin && self.life == FeedOwner::Lasting && !self.queue.lock().lost
    }

    /// How long an answer waits for the mount.
    fn patience(&self) -> Duration {
        let is_served = self.life == FeedOwner::Leased || self.queue.lock().followed;
        if is_served { PATIENCE } else { UNSERVED_PATIENCE }
    }

    /// An answer does not wait for this mount any longer. Whether the mount is ended.
    fn give_up(&self) -> bool {
        let queue = &mut *self.queue.lock();
        let is_served = self.life == FeedOwner::Leased || queue.followed;
        if is_served && !queue.lost {
            self.lose(queue, "it confirms no cache invalidation");
        }
        if !is_served {
            let (bucket, mount) = (self.bucket, self.mount);
            tracing::warn!(bucket, mount, "an answer does not wait for a mount that no server has taken over yet");
        }
        is_served
    }

    /// Waits until the feed has acknowledged or ended; whether it has.
    fn wait(&self, target: u64, until: std::time::Instant) -> bool {
        let mut queue = self.queue.lock();
        self.moved.wait_while_until(&mut queue, |queue| !queue.is_settled(target), until);
        queue.is_settled(target)
    }

    /// Queues changes; returns the length of the queue.
    fn push(&self, changes: &[Change]) -> usize {
        let mut queue = self.queue.lock();
        queue.published += changes.len() as u64;
        if !queue.closed {
            queue.changes.extend(changes.iter().cloned());
            if queue.changes.len() >= CROWDED.max(2 * queue.thinned) {
                queue.thin_out();
            }
            if queue.changes.len() > CHANGES_MAX {
                queue.thin_out();
                if queue.changes.len() > CHANGES_MAX {
                    self.lose(&mut queue, CROWDED_OUT);
                }
            }
            self.filled.notify_one();
        }
        queue.changes.len()
    }

    fn lose(&self, queue: &mut Queue, why: &str) {
        (queue.lost, queue.gone, queue.closed) = (true, true, true);
        queue.changes = VecDeque::new();
        let (bucket, mount) = (self.bucket, self.mount);
        tracing::error!(bucket, mount, why, "a mount is ended, since it may show stale data: mount it again");
        self.wake();
    }

    fn close(&self) {
        let queue = &mut *self.queue.lock();
        (queue.closed, queue.followed) = (true, false);
        self.wake();
    }

    /// The mount has ended.
    fn end(&self) {
        let queue = &mut *self.queue.lock();
        (queue.gone, queue.closed, queue.removed) = (true, true, true);
        self.wake();
    }

    /// Wakes who waits for changes, or for their acknowledgement.
    fn wake(&self) {
        self.filled.notify_all();
        self.settled.notify_waiters();
        self.moved.notify_all();
    }

    async fn acknowledged(&self, target: u64) {
        loop {
            let notified = self.settled.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if self.queue.lock().is_settled(target) {
                return;
            }
            notified.await;
        }
    }
}

impl Queue {
    /// Whether no answer waits for the changes up to `target`: they are applied, or there are no caches any more. A mount
    /// that is lost has its caches until it has ended.
    fn is_settled(&self, target: u64) -> bool {
        self.acknowledged >= target || self.removed || (self.closed && !self.lost)
    }

    /// Drops repetitions: all of a batch is applied before any of it counts as applied.
    fn thin_out(&mut self) {
        let mut seen = HashSet::new();
        let changes = std::mem::take(&mut self.changes);
        self.changes = changes.into_iter().filter(|change| seen.insert(change.clone())).collect();
        self.thinned = self.changes.len();
    }
}

impl Feed {
    /// Whether it ended because too many changes were unread: the mount's caches may be wrong.
    pub fn is_lost(&self) -> bool {
        self.0.queue.lock().lost
    }

    /// Waits for changes; `None` once the feed is closed and all earlier changes were taken.
    #[expect(clippy::should_implement_trait, reason = "it blocks, and nobody chains adapters on it")]
    pub fn next(&mut self) -> Option<Vec<Change>> {
        let mut queue = self.0.queue.lock();
        queue.followed = !queue.closed;
        while queue.changes.is_empty() {
            if queue.closed {
                return None;
            }
            self.0.filled.wait(&mut queue);
        }
        Some(take(&mut queue))
    }

    /// The queued changes, without waiting.
    #[cfg(test)]
    pub(crate) fn gathered(&mut self) -> Vec<Change> {
        take(&mut self.0.queue.lock())
    }

    /// Acknowledges all batches taken so far.
    pub fn acknowledge(&mut self) {
        let mut queue = self.0.queue.lock();
        queue.acknowledged = queue.taken;
        drop(queue);
        self.0.settled.notify_waiters();
        self.0.moved.notify_all();
    }
}

fn take(queue: &mut Queue) -> Vec<Change> {
    queue.taken = queue.published;
    queue.thinned = 0;
    let taken = queue.changes.drain(..).collect();
    queue.changes.shrink();
    taken
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
        let (mut mine, _) = feeds.open(7, 1, FeedOwner::Process);
        feeds.publish(7, 1, &[entry("own")]);
        feeds.publish(8, 0, &[entry("other bucket")]);
        feeds.publish(7, 0, &[entry("s3")]);
        assert_eq!(mine.next(), Some(vec![entry("s3")]));
        feeds.close(1);
        assert_eq!(mine.next(), None);
        assert!(!feeds.wanted(7));
    }

    #[test]
    fn a_persistent_mount_is_owed_what_nobody_gives_it() {
        let feeds = Feeds::default();
        drop(feeds.open(7, 1, FeedOwner::Lasting));
        assert!(feeds.owes(7, 0) && !feeds.owes(7, 1) && !feeds.owes(8, 0));
        feeds.publish(7, 0, &[entry("before")]);
        let (mut mine, missed) = feeds.open(7, 1, FeedOwner::Lasting);
        let debts = feeds.debts(7, 0);
        assert_eq!((mine.next(), missed), (Some(vec![entry("before")]), false));
        assert!(!debts[0].is_paid());
        mine.acknowledge();
        assert!(debts[0].is_paid());
        feeds.close(1);
        feeds.publish(7, 0, &[entry("after")]);
        let debts = feeds.debts(7, 0);
        assert!(mine.next().is_none() && feeds.owes(7, 0) && !debts[0].is_paid());
        assert!(feeds.open(7, 1, FeedOwner::Lasting).1, "it missed what came after");
        feeds.remove(1);
        assert!(debts[0].is_paid() && !feeds.wanted(7));
    }

    #[test]
    fn what_is_said_twice_is_kept_once_and_what_is_left_to_lie_is_lost() {
        let feeds = Feeds::default();
        let (mut mine, _) = feeds.open(7, 1, FeedOwner::Lasting);
        let one = |ino: usize| Change::Content { ino: ino as u64 };
        for _ in 0..4 {
            let all: Vec<Change> = (0..CROWDED).map(one).collect();
            feeds.publish(7, 0, &all);
        }
        let debts = feeds.debts(7, 0);
        assert!(feeds.crowded.load(Ordering::Relaxed));
        assert!(mine.next().is_some_and(|changes| (CROWDED..2 * CROWDED).contains(&changes.len())));
        mine.acknowledge();
        feeds.make_room(7, 2);
        assert!(debts[0].is_paid() && !feeds.crowded.load(Ordering::Relaxed));

        let many: Vec<Change> = (0..=CHANGES_MAX).map(one).collect();
        feeds.publish(7, 0, &many[..CHANGES_MAX]);
        assert!(!feeds.is_lost(1));
        feeds.publish(7, 0, &many[CHANGES_MAX..]);
        assert!(feeds.is_lost(1) && mine.is_lost() && mine.next().is_none());
        assert!(!feeds.owes(7, 0), "nothing is recorded for it any more");
    }

    #[test]
    fn who_owes_too_many_records_is_lost() {
        let feeds = Feeds::default();
        drop(feeds.open(7, 1, FeedOwner::Lasting));
        feeds.publish(7, 0, &[entry("a")]);
        let debts = feeds.debts(7, 0);
        debts[0].give_up();
        assert!(debts[0].is_paid() && feeds.is_lost(1));
    }

    #[test]
    fn a_mount_knows_whether_it_is_alone() {
        let feeds = Feeds::default();
        let (mut one, _) = feeds.open(7, 1, FeedOwner::Process);
        feeds.tell_sharing(7, 1);
        assert_eq!(one.gathered(), [Change::Sharing { shared: false }]);
        drop(feeds.open(7, 2, FeedOwner::Leased));
        drop((feeds.open(7, 3, FeedOwner::Lasting), feeds.open(8, 4, FeedOwner::Process)));
        assert_eq!(one.gathered(), [Change::Sharing { shared: true }]);
        feeds.remove(3);
        feeds.close(2);
        assert_eq!(one.gathered(), [], "a session of another machine lasts");
        feeds.remove(2);
        assert_eq!(one.gathered(), [Change::Sharing { shared: false }]);
        feeds.tell_sharing(7, 1);
        assert_eq!(one.gathered(), [Change::Sharing { shared: false }], "a later listener hears it as well");
    }

    #[test]
    fn an_answer_waits_for_the_end_of_a_mount_that_is_lost() {
        let feeds = Feeds::default();
        let (mut feed, _) = feeds.open(7, 1, FeedOwner::Process);
        let (state, now) = (feed.0.clone(), std::time::Instant::now());
        feeds.publish(7, 0, &[entry("a")]);
        assert_eq!((feed.next(), state.patience()), (Some(vec![entry("a")]), PATIENCE));
        assert!(!state.wait(1, now));
        assert!(state.give_up() && feed.is_lost() && feed.next().is_none());
        assert!(!state.wait(1, now), "its kernel has caches still");
        assert!(feeds.behind_of(7, 1).feeds.is_empty() && feeds.behind_of(7, 2).feeds.len() == 1);
        feeds.remove(1);
        assert!(state.wait(1, now));
    }

    #[tokio::test]
    async fn settling_waits_for_the_acknowledgement() {
        let feeds = Arc::new(Feeds::default());
        let (mut feed, _) = feeds.open(7, 1, FeedOwner::Process);
        feeds.publish(7, 0, &[entry("a")]);
        let settling = |bucket: Option<u64>| {
            let feeds = feeds.clone();
            async move {
                match bucket {
                    Some(bucket) => feeds.wait_for_mounts(bucket).await,
                    None => feeds.wait_for_all().await,
                }
            }
        };
        let (one, all) = (tokio::spawn(settling(Some(7))), tokio::spawn(settling(None)));
        settling(Some(8)).await;
        tokio::task::yield_now().await;
        assert!(!one.is_finished() && !all.is_finished());
        feed.next();
        feed.acknowledge();
        one.await.unwrap();
        all.await.unwrap();
    }
}
