//! Memory budgets: bytes are reserved before they are allocated. A connection reads nothing while it waits for a
//! budget.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The unit in which bytes are counted.
const UNIT_BYTES: u64 = 1 << 10;

/// A number of bytes that several holders share.
#[derive(Clone, Debug)]
pub struct Budget {
    units: Arc<Semaphore>,
    all: u32,
}

/// Bytes taken from a budget; dropping it returns them.
#[derive(Debug)]
pub struct Share {
    _units: OwnedSemaphorePermit,
}

/// Shares that several holders keep; returned when the last one drops them. A cheap handle.
#[derive(Clone, Debug, Default)]
pub struct Held {
    _shares: Arc<Vec<Share>>,
}

impl From<Vec<Share>> for Held {
    fn from(shares: Vec<Share>) -> Self {
        Self { _shares: Arc::new(shares) }
    }
}

impl Budget {
    /// A budget of so many bytes, rounded up to whole KiB.
    pub fn new(bytes: u64) -> Self {
        let all = units(bytes).max(1);
        Self { units: Arc::new(Semaphore::new(all.try_into().unwrap_or(Semaphore::MAX_PERMITS))), all }
    }

    /// Waits for `bytes`, first come, first served. More than the whole budget counts as all of it.
    pub async fn take(&self, bytes: u64) -> Share {
        let units = Arc::clone(&self.units).acquire_many_owned(units(bytes).min(self.all));
        Share { _units: units.await.expect("the semaphore of a budget is never closed") }
    }

    /// How many bytes are free.
    pub fn free_bytes(&self) -> u64 {
        self.units.available_permits() as u64 * UNIT_BYTES
    }
}

fn units(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn a_budget_is_never_overdrawn_and_never_waits_for_more_than_all() {
        let budget = Budget::new(10 << 10);
        let most = u64::from(u32::MAX) << 20;
        let all = budget.take(most).now_or_never().expect("all of it is free");
        assert!(budget.take(1).now_or_never().is_none());
        drop(all);
        let part = budget.take(6 << 10).now_or_never().expect("free again");
        assert!(budget.take(5 << 10).now_or_never().is_none());
        assert_eq!(budget.free_bytes(), 4 << 10);
        drop(part);
    }
}
