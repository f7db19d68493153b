//! The limits on connections of a listener: for peers that are not admitted yet (*strangers*), for strangers of one
//! address, and for admitted peers.
//!
//! A host with IPv6 has 2^64 addresses, so all addresses of a network of 64 bits count as one.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::Limits;

/// The counts; a cheap handle.
#[derive(Clone)]
pub(super) struct Admission {
    counts: Arc<Mutex<Counts>>,
    changed: Arc<Notify>,
}

struct Counts {
    strangers: usize,
    by_address: HashMap<IpAddr, usize>,
    admitted: usize,
    strangers_most: usize,
    per_address_most: usize,
    admitted_most: usize,
}

/// A connection that is not admitted yet; counted until it is dropped.
pub(super) struct Stranger {
    admission: Admission,
    address: IpAddr,
}

/// An admitted connection; counted until it is dropped.
pub(super) struct Seat(Admission);

impl Admission {
    pub(super) fn new(limits: &Limits) -> Self {
        let counts = Counts {
            strangers: 0,
            by_address: HashMap::new(),
            admitted: 0,
            strangers_most: limits.strangers,
            per_address_most: limits.strangers_per_address,
            admitted_most: limits.connections,
        };
        Self { counts: Arc::new(Mutex::new(counts)), changed: Arc::new(Notify::new()) }
    }

    /// Counts a new connection, unless there are too many.
    pub(super) fn enter(&self, address: IpAddr) -> Option<Stranger> {
        let address = network(address);
        let mut counts = self.counts.lock();
        let most = counts.per_address_most;
        if counts.strangers >= counts.strangers_most {
            return None;
        }
        let here = counts.by_address.entry(address).or_default();
        if *here >= most {
            return None;
        }
        *here += 1;
        counts.strangers += 1;
        Some(Stranger { admission: self.clone(), address })
    }

    pub(super) fn admitted(&self) -> usize {
        self.counts.lock().admitted
    }

    /// Waits until no connection is admitted.
    pub(super) async fn empty(&self) {
        loop {
            let changed = self.changed.notified();
            if self.admitted() == 0 {
                return;
            }
            changed.await;
        }
    }
}

/// What counts as one address.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from(u128::from(address) & !u128::from(u64::MAX)).into(),
        address @ IpAddr::V4(_) => address,
    }
}

impl Stranger {
    /// Counts the connection as admitted; `None` if there are too many.
    pub(super) fn admit(self) -> Option<Seat> {
        let mut counts = self.admission.counts.lock();
        if counts.admitted >= counts.admitted_most {
            return None;
        }
        counts.admitted += 1;
        drop(counts);
        Some(Seat(self.admission.clone()))
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let mut counts = self.admission.counts.lock();
        counts.strangers -= 1;
        let here = counts.by_address.get_mut(&self.address).expect("the address of a stranger is counted");
        *here -= 1;
        if *here == 0 {
            counts.by_address.remove(&self.address);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.counts.lock().admitted -= 1;
        self.0.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_addresses_of_a_host_count_as_one() {
        let limits = Limits { strangers_per_address: 1, ..Limits::default() };
        let admission = Admission::new(&limits);
        let enter = |address: &str| admission.enter(address.parse().expect("an address"));
        let held = [enter("2001:db8::1"), enter("2001:db8:0:1::1"), enter("10.0.0.1"), enter("10.0.0.2")];
        assert!(held.iter().all(Option::is_some));
        for same in ["2001:db8::ffff:0:0:2", "::ffff:10.0.0.1"] {
            assert!(enter(same).is_none(), "{same}");
        }
        drop(held);
        assert!(admission.counts.lock().by_address.is_empty());
    }

    #[test]
    fn strangers_of_one_address_leave_room_for_others_and_for_admitted_peers() {
        let limits = Limits { connections: 1, strangers: 3, strangers_per_address: 2, ..Limits::default() };
        let admission = Admission::new(&limits);
        let [a, b] = [1, 2].map(|last| IpAddr::from([10, 0, 0, last]));
        let mut strangers: Vec<_> = (0..2).map(|_| admission.enter(a).expect("two of one address")).collect();
        assert!(admission.enter(a).is_none(), "a third of this address");
        let other = admission.enter(b).expect("another address");
        assert!(admission.enter(b).is_none(), "three in all");
        let seat = other.admit().expect("a free seat");
        assert_eq!(admission.admitted(), 1);
        strangers.push(admission.enter(b).expect("the admitted one counts no longer"));
        assert!(strangers.pop().expect("a stranger").admit().is_none(), "no free seat");
        drop((seat, strangers));
        assert_eq!((admission.admitted(), admission.counts.lock().strangers), (0, 0));
        assert!(admission.counts.lock().by_address.is_empty());
    }
}
