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
    /// The moment before which names may have been answered for the longer time.
    since: Instant,
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

impl Default for Sharing {
    /// An earlier process may have served the mount, alone.
    fn default() -> Self {
        let state = State { is_shared: true, since: Instant::now(), last: 0, served: BTreeSet::new() };
        Self { state: Mutex::new(state), answered: Condvar::new() }
    }
}

impl Sharing {
    /// Whether other mounts use the bucket.
    pub fn is_shared(&self) -> bool {
        self.state.lock().is_shared
    }

    /// How long the kernel may cache a name that is looked up now.
    pub fn name_limit(&self) -> Duration {
        if self.is_shared() { SHARED } else { ALONE }
    }

    /// How long it may cache a name that was just created.
    pub fn created_limit(&self) -> Duration {
        if self.is_shared() { Duration::ZERO } else { ALONE }
    }

    /// Others use the bucket from now on, or nobody else.
    pub fn set(&self, shared: bool) {
        let was = std::mem::replace(&mut self.state.lock().is_shared, shared);
        if shared && !was {
            // Their answers may have the longer time.
            self.wait_for_readings(Instant::now() + ALONE);
            self.state.lock().since = Instant::now();
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
        (now + limit).max(state.since + ALONE) + LATE
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
        let sharing = Sharing::default();
        assert_eq!((sharing.name_limit(), sharing.created_limit()), (SHARED, Duration::ZERO));
        sharing.set(false);
        assert_eq!((sharing.name_limit(), sharing.created_limit()), (ALONE, ALONE));
        assert!(sharing.expiry() > Instant::now() + ALONE);
        sharing.set(true);
        assert!(sharing.expiry() > Instant::now() + ALONE, "names that were answered before live longer");
        sharing.state.lock().since = Instant::now().checked_sub(2 * ALONE).unwrap();
        assert!(sharing.expiry() <= Instant::now() + SHARED + LATE);
    }

    #[test]
    fn requests_that_began_before_are_waited_for() {
        let sharing = Sharing::default();
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
