//! A reading of one machine's clock, which is compared with readings of the same clock alone.

use std::ops::Add;
use std::time::Duration;

/// The time since some start of one machine's monotonic clock. The clock must count the time in which the machine is
/// suspended (`CLOCK_BOOTTIME`), or a suspended node would serve from its caches after its lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(Duration);

impl Moment {
    /// The moment so long after the start of the clock.
    pub fn after_start(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    /// The time from `earlier` to this moment; zero if it is later.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// The moment so long before this one; `None` before the start of the clock.
    pub fn before(self, age: Duration) -> Option<Self> {
        self.0.checked_sub(age).map(Self)
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, later: Duration) -> Self {
        Self(self.0.saturating_add(later))
    }
}
