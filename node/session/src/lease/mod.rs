//! Leases: how long a node may serve from its caches, and how long the store waits before it ends the node's session.
//!
//! ```text
//! node   sent ──────── fresh ────────┤ stale: no caches ├ expired: everything is dropped
//! store       received ──────────────────────────────────── + margin ┤ the session is dead
//! ```
//! - The node counts from the moment when it *sent* the renewal, the store from the moment when it *received* it, each
//!   on its own clock. The margin covers the difference of the clocks' rates.
//! - An expired lease stays expired: an answer that arrives late does not renew it.

mod node;
mod store;

pub use node::{Lease, Standing};
pub use store::Granted;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Moment, Terms};

    fn at(millis: u64) -> Moment {
        Moment::after_start(Duration::from_millis(millis))
    }

    fn terms() -> Terms {
        Terms { lease: Duration::from_millis(1000), rate_difference_ppm: 100_000, ..Terms::default() }
    }

    #[test]
    fn a_lease_is_fresh_then_stale_then_expired_and_stays_so() {
        let mut lease = Lease::new(terms(), at(0));
        assert_eq!(lease.standing(at(499)), Standing::Fresh);
        assert_eq!(lease.cacheable(at(100)), Duration::from_millis(400));
        assert_eq!(lease.standing(at(500)), Standing::Stale);
        assert_eq!(lease.cacheable(at(500)), Duration::ZERO);
        assert_eq!(lease.left(at(500)), Duration::from_millis(500));
        assert!(lease.renewed(at(400)), "the renewal was sent before");
        assert_eq!(lease.standing(at(899)), Standing::Fresh);
        assert!(lease.renewed(at(300)), "an older answer that arrives later");
        assert_eq!(lease.standing(at(1399)), Standing::Stale);
        assert_eq!(lease.standing(at(1400)), Standing::Expired);
        assert!(!lease.renewed(at(1399)));
        assert_eq!(lease.left(at(1399)), Duration::ZERO);
        assert_eq!(lease.standing(at(0)), Standing::Expired);
        lease.resumed(at(1390));
        assert_eq!((lease.standing(at(1400)), lease.standing(at(2390))), (Standing::Fresh, Standing::Expired));
    }

    #[test]
    fn the_store_outwaits_every_clock_within_the_difference() {
        // For each true rate of the node's clock within the difference, and each delay of the renewal.
        for slower_ppm in [0, 1, 50_000, 99_999, 100_000] {
            for delay in [0, 1, 300] {
                let mut node = Lease::new(terms(), at(0));
                let store = Granted::new(terms(), at(delay));
                let dead = store.end();
                assert!(store.is_over(dead) && !store.is_over(at(delay + 1000)));
                let elapsed = dead.since(Moment::default());
                let read = elapsed.mul_f64(1.0 / (1.0 + f64::from(slower_ppm) / 1e6));
                assert_eq!(node.standing(Moment::after_start(read)), Standing::Expired, "{slower_ppm} {delay}");
            }
        }
    }

    #[test]
    fn a_process_that_resumes_a_session_which_is_behind_counts_from_the_last_renewal() {
        let mut lease = Lease::aged(terms(), at(5000), Duration::from_millis(600));
        assert_eq!(
            [5000, 5399, 5400].map(|now| lease.standing(at(now))),
            [Standing::Stale, Standing::Stale, Standing::Expired]
        );
        let mut lease = Lease::aged(terms(), at(5000), Duration::ZERO);
        assert_eq!(lease.standing(at(5499)), Standing::Fresh);
        let mut lease = Lease::aged(terms(), at(100), Duration::from_millis(101));
        assert_eq!(lease.standing(at(100)), Standing::Expired, "it was renewed before this machine was started");
    }
}
