//! Exclusive leases of volumes: which session alone uses a bucket, and may have answered changes that the store has yet to
//! make (decision 0132).
//!
//! - A lease is granted while no change of the bucket by others is under way, and while its session is the only one. Every
//!   other use of the bucket first has it taken back: [`Leases::recall`] sends the recall to the session, whose acknowledgement
//!   says that nothing is left to be made. The end of the session returns the lease too.
//! - A change by others is counted before it looks for a lease, and a lease is entered before its grant looks at that
//!   count: of two at the same moment at least one sees the other.
//! - Where no volume is leased, a use costs one load of an atomic, and a change two additions besides.
//!
//! The record of the session says that it has a lease, so a store that opens begins with the leases of before.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicUsize, Ordering};

use node_session::SessionId;
use node_session::exclusive::{Admission, Exclusive};
use parking_lot::Mutex;

use crate::clock::Timestamp;
use crate::feed::{Change, Feeds};
use crate::name::BucketName;
use crate::session_id::SessionId as OwnId;

/// The counts of changes: buckets that share one are granted a little less often.
const PLACES: usize = 64;
/// How long a bucket is not leased again after others used it.
const PAUSE_NS: i64 = 1_000_000_000;
/// The bits of a grant's number that count within one opening of the store.
const COUNT_BITS: u32 = 32;

/// All leases.
pub(crate) struct Leases {
    /// How many there are.
    held: AtomicUsize,
    /// Changes by others under way.
    changing: [AtomicUsize; PLACES],
    state: Mutex<State>,
}

struct State {
    /// The number of the last grant.
    last: u64,
    leases: HashMap<u64, Lease>,
    /// When others used a bucket that was leased.
    used: HashMap<u64, Timestamp>,
}

struct Lease {
    exclusive: Exclusive,
    grant: u64,
    holder: Leaseholder,
}

/// The session that has a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leaseholder {
    /// The id that the node chose.
    pub session: SessionId,
    /// The id of its record.
    pub own: OwnId,
    /// Its feed.
    pub mount: u64,
}

/// A lease that is being taken back: it is [returned](Leases::returned) when the session has acknowledged or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recalled {
    /// The session.
    pub holder: Leaseholder,
    /// The number of its grant.
    pub grant: u64,
}

/// A change by others that is under way.
pub(crate) struct Changing<'a>(&'a AtomicUsize);

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn place(bucket: &BucketName) -> usize {
    let mut hasher = DefaultHasher::new();
    bucket.as_str().hash(&mut hasher);
    hasher.finish() as usize % PLACES
}

impl Leases {
    /// No leases, for the opening of the store with this number: grants are numbered from it on.
    pub fn new(life: u32) -> Self {
        let last = u64::from(life) << COUNT_BITS;
        let state = State { last, leases: HashMap::new(), used: HashMap::new() };
        Self { held: AtomicUsize::new(0), changing: [const { AtomicUsize::new(0) }; PLACES], state: Mutex::new(state) }
    }

    /// Whether any volume is leased.
    pub fn is_any(&self) -> bool {
        self.held.load(Ordering::SeqCst) != 0
    }

    /// Whether this bucket is leased.
    pub fn is_leased(&self, bucket: u64) -> bool {
        self.is_any() && self.state.lock().leases.contains_key(&bucket)
    }

    /// Whether a session has the lease of a bucket, which may be being taken back.
    pub fn is_held_by(&self, bucket: u64, session: SessionId) -> bool {
        self.state.lock().leases.get(&bucket).is_some_and(|lease| lease.exclusive.holder() == Some(session))
    }

    /// Begins a change of a bucket by others than a session: until it is dropped the bucket is not leased. The caller then
    /// has a lease that exists taken back.
    pub fn change(&self, bucket: &BucketName) -> Changing<'_> {
        let count = &self.changing[place(bucket)];
        count.fetch_add(1, Ordering::SeqCst);
        Changing(count)
    }

    /// Leases a bucket to a session, if others neither change it nor have just used it, and if `is_alone` says so once the
    /// lease is entered; the number of the grant. A session that has the lease receives its number again.
    pub fn grant(
        &self,
        (bucket, name): (u64, &BucketName),
        holder: Leaseholder,
        now: Timestamp,
        is_alone: impl FnOnce() -> bool,
    ) -> Option<u64> {
        let state = &mut *self.state.lock();
        if let Some(lease) = state.leases.get_mut(&bucket) {
            return lease.exclusive.grant(holder.session, false);
        }
        if state.used.get(&bucket).is_some_and(|used| (0..PAUSE_NS).contains(&(now.0 - used.0))) {
            return None;
        }
        let mut exclusive = Exclusive::shared(state.last);
        let grant = exclusive.grant(holder.session, true)?;
        state.last = grant;
        state.leases.insert(bucket, Lease { exclusive, grant, holder });
        self.held.fetch_add(1, Ordering::SeqCst);
        if self.changing[place(name)].load(Ordering::SeqCst) == 0 && is_alone() {
            return Some(grant);
        }
        state.leases.remove(&bucket);
        self.held.fetch_sub(1, Ordering::SeqCst);
        None
    }

    /// A lease that the store finds recorded when it opens. Of two for a bucket the later one counts: the record of the
    /// earlier one was not removed before the store died.
    pub fn recorded(&self, bucket: u64, holder: Leaseholder, grant: u64) {
        let state = &mut *self.state.lock();
        if state.leases.get(&bucket).is_some_and(|lease| lease.grant > grant) {
            return;
        }
        let lease = Lease { exclusive: Exclusive::recorded(holder.session, grant), grant, holder };
        if state.leases.insert(bucket, lease).is_none() {
            self.held.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Has the lease of a bucket taken back, if there is one: what its session has to acknowledge is then on its feed.
    pub fn recall(&self, feeds: &Feeds, bucket: u64, now: Timestamp) -> Option<Recalled> {
        if !self.is_any() {
            return None;
        }
        let state = &mut *self.state.lock();
        let lease = state.leases.get_mut(&bucket)?;
        if let Admission::Recall { grant, .. } = lease.exclusive.admit(None) {
            state.used.retain(|_, used| (0..PAUSE_NS).contains(&(now.0 - used.0)));
            state.used.insert(bucket, now);
            feeds.publish_to(lease.holder.mount, &[Change::Recall { grant }]);
        }
        Some(Recalled { holder: lease.holder, grant: lease.grant })
    }

    /// The session has acknowledged the recall, or has ended; whether it had the lease until now.
    pub fn returned(&self, bucket: u64, session: SessionId, grant: u64) -> bool {
        self.remove(bucket, |lease| lease.exclusive.returned(session, grant))
    }

    /// The session has ended.
    pub fn ended(&self, bucket: u64, session: SessionId) {
        self.remove(bucket, |lease| lease.exclusive.holder() == Some(session));
    }

    fn remove(&self, bucket: u64, is_over: impl FnOnce(&mut Lease) -> bool) -> bool {
        let state = &mut *self.state.lock();
        let is_over = state.leases.get_mut(&bucket).is_some_and(is_over);
        if is_over {
            state.leases.remove(&bucket);
            self.held.fetch_sub(1, Ordering::SeqCst);
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feed::FeedOwner;

    fn holder(id: u128, mount: u64) -> Leaseholder {
        Leaseholder { session: SessionId(id), own: OwnId::new(mount).expect("not zero"), mount }
    }

    fn name() -> BucketName {
        "jar".parse().expect("a name")
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp(seconds * PAUSE_NS)
    }

    #[test]
    fn a_change_and_a_grant_at_the_same_moment_see_each_other() {
        let leases = Leases::new(3);
        let one = holder(1, 11);
        let change = leases.change(&name());
        assert_eq!(leases.grant((7, &name()), one, at(0), || true), None, "a change is under way");
        drop(change);
        let arrives = || {
            assert!(leases.is_any(), "a session that is opened now sees the lease");
            false
        };
        assert_eq!(leases.grant((7, &name()), one, at(0), arrives), None, "it is not alone");
        assert!(!leases.is_any());
        let grant = leases.grant((7, &name()), one, at(0), || true).expect("it is alone");
        assert!(grant > 3 << COUNT_BITS && leases.is_held_by(7, one.session) && !leases.is_leased(8));
        assert_eq!(leases.grant((7, &name()), one, at(0), || true), Some(grant), "a repeated request");
        assert_eq!(leases.grant((7, &name()), holder(2, 12), at(0), || true), None);
    }

    #[test]
    fn a_lease_is_taken_back_by_one_recall_and_not_granted_again_at_once() {
        let one = holder(1, 11);
        let (leases, feeds) = (Leases::new(0), Feeds::default());
        let (mut feed, _) = feeds.open(7, 11, FeedOwner::Leased);
        let grant = leases.grant((7, &name()), one, at(0), || true).expect("it is alone");
        let recalled = Recalled { holder: one, grant };
        assert_eq!(leases.recall(&feeds, 7, at(5)), Some(recalled));
        assert_eq!(leases.recall(&feeds, 7, at(5)), Some(recalled), "another user waits as well");
        assert_eq!(feed.gathered(), [Change::Recall { grant }]);
        assert!(leases.is_held_by(7, one.session), "it sends what is left");
        assert_eq!(leases.grant((7, &name()), one, at(5), || true), None, "it is being taken back");
        assert!(leases.returned(7, one.session, grant) && !leases.returned(7, one.session, grant));
        assert!(!leases.is_held_by(7, one.session) && leases.recall(&feeds, 7, at(5)).is_none());
        assert_eq!(leases.grant((7, &name()), one, at(5), || true), None, "others use it");
        assert!(leases.grant((7, &name()), one, at(6), || true).is_some_and(|next| next > grant));
    }

    #[test]
    fn the_later_of_two_recorded_leases_counts_and_the_end_of_its_session_returns_it() {
        let (leases, one) = (Leases::new(9), holder(1, 11));
        leases.recorded(7, holder(2, 12), 5);
        leases.recorded(7, one, 4);
        assert!(leases.is_held_by(7, SessionId(2)));
        leases.ended(7, one.session);
        assert!(leases.is_leased(7));
        leases.ended(7, SessionId(2));
        assert!(!leases.is_any());
    }
}
