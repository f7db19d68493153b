//! Whether other mounts use the bucket, and what a kernel may cache then.
//!
//! - The kernel drops a name under the lock of its directory. A program that changes the directory holds that lock until
//!   its call is answered, and the answer waits until other mounts have dropped what changed. If their programs change
//!   the same directory, each mount would wait for the other. So a name expires by itself: soon while the bucket is
//!   shared, later while it is not. An invalidation that has to wait for the lock counts as applied when every name that
//!   was answered before has expired (decision 0098).
//! - A name that was just created is answered with no time at all while the bucket is shared: its answer arrives after
//!   changes of others, and no lock orders them.
//! - Raising the epoch of the mount (FUSE_NOTIFY_INC_EPOCH) needs no lock, but the kernel then detaches every mount
//!   whose mount point lies in this one.
//! - Attributes and pages have no such limits: their invalidation takes no lock that a waiting call holds.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// How long the kernel caches a name while no other mount uses the bucket.
const ALONE: Duration = Duration::from_secs(5);
/// How long it caches a name while others do. A blocked invalidation waits about as long.
const SHARED: Duration = Duration::from_millis(50);
/// How late a kernel may begin to count the time of an answer.
const LATE: Duration = Duration::from_millis(100);

/// Whether the bucket is shared, and the requests that read names. A mount that was not told is not alone.
pub(crate) struct Sharing {
    state: Mutex<State>,
    answered: Condvar,
}

struct State {
    is_shared: bool,
    /// When the last name that was answered for the longer time expires.
    alone_until: Option<Instant>,
    /// The number of the last request that reads names.
    last: u64,
    /// Those that are being served.
    served: BTreeSet<u64>,
}

/// A request that reads names, until it is answered.
pub(crate) struct Reading<'a> {
    sharing: &'a Sharing,
    number: u64,
}

impl Sharing {
    /// For a mount that an earlier process served, which may have been alone, or for a new one.
    pub fn new(inherited: bool) -> Self {
        let alone_until = inherited.then(|| Instant::now() + ALONE);
        let state = State { is_shared: true, alone_until, last: 0, served: BTreeSet::new() };
        Self { state: Mutex::new(state), answered: Condvar::new() }
    }

    /// Whether other mounts use the bucket.
    pub fn is_shared(&self) -> bool {
        self.state.lock().is_shared
    }

    /// How long the kernel may cache a name that is looked up now.
    pub fn name_limit(&self) -> Duration {
        let mut state = self.state.lock();
        if state.is_shared {
            return SHARED;
        }
        state.alone_until = Some(Instant::now() + ALONE);
        ALONE
    }

    /// How long it may cache a name that was just created.
    pub fn created_limit(&self) -> Duration {
        if self.is_shared() { Duration::ZERO } else { self.name_limit() }
    }

    /// Others use the bucket from now on, or nobody else.
    pub fn set(&self, shared: bool) {
        let was = std::mem::replace(&mut self.state.lock().is_shared, shared);
        if shared && !was {
            // Their answers may have the longer time, from when they are sent.
            self.wait_for_readings(Instant::now() + ALONE);
            let mut state = self.state.lock();
            state.alone_until = state.alone_until.map(|until| until.max(Instant::now() + ALONE));
        }
    }

    /// A request that reads names begins.
    pub fn begin(&self) -> Reading<'_> {
        let mut state = self.state.lock();
        state.last += 1;
        let number = state.last;
        state.served.insert(number);
        Reading { sharing: self, number }
    }

    /// Waits until all requests that read names and began before are answered; whether they are.
    pub fn wait_for_readings(&self, until: Instant) -> bool {
        let mut state = self.state.lock();
        let last = state.last;
        let earlier = |state: &mut State| state.served.first().is_some_and(|oldest| *oldest <= last);
        self.answered.wait_while_until(&mut state, earlier, until);
        !earlier(&mut state)
    }

    /// When each name that was answered until now has expired.
    pub fn expiry(&self) -> Instant {
        let state = self.state.lock();
        let now = Instant::now();
        let limit = if state.is_shared { SHARED } else { ALONE };
        state.alone_until.map_or(now + limit, |until| until.max(now + limit)) + LATE
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.sharing.state.lock().served.remove(&self.number);
        self.sharing.answered.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_for_a_shorter_time_once_others_have_the_bucket() {
        let is_soon = |sharing: &Sharing| sharing.expiry() <= Instant::now() + SHARED + LATE;
        assert!(!is_soon(&Sharing::new(true)), "an earlier process may have been alone");
        let sharing = Sharing::new(false);
        assert_eq!((sharing.name_limit(), sharing.created_limit()), (SHARED, Duration::ZERO));
        assert!(is_soon(&sharing));
        sharing.set(false);
        assert!(!is_soon(&sharing));
        sharing.set(true);
        assert!(is_soon(&sharing), "no name was answered meanwhile");
        sharing.set(false);
        assert_eq!((sharing.name_limit(), sharing.created_limit()), (ALONE, ALONE));
        sharing.set(true);
        assert!(!is_soon(&sharing), "names that were answered before live longer");
    }

    #[test]
    fn requests_that_began_before_are_waited_for() {
        let sharing = Sharing::new(false);
        let now = Instant::now();
        assert!(sharing.wait_for_readings(now));
        let first = sharing.begin();
        assert!(!sharing.wait_for_readings(now));
        let second = sharing.begin();
        drop(first);
        assert!(!sharing.wait_for_readings(now));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| sharing.wait_for_readings(Instant::now() + Duration::from_secs(60)));
            std::thread::sleep(Duration::from_millis(20));
            let _later = sharing.begin();
            drop(second);
            assert!(waiting.join().unwrap(), "one that began later is not waited for");
        });
    }
}
