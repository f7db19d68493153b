//! The limits on connections of a listener: for peers that are not admitted yet (*strangers*), for strangers of one
//! address, and for admitted peers.
//!
//! - A host with IPv6 has 2^64 addresses, so all addresses of a network of 64 bits count as one.
//! - Addresses from which a peer was admitted have places of their own: no number of other addresses takes these.
//! - Where no place is free, the newcomer takes that of the oldest stranger of the address that has the most: a peer that
//!   means it is admitted within a moment, so who waits the longest among the many is who only holds places.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::Limits;

/// How many addresses with admitted peers are kept.
const KNOWN_MAX: usize = 4096;

/// The counts; a cheap handle.
#[derive(Clone)]
pub(super) struct Admission {
    counts: Arc<Mutex<Counts>>,
    changed: Arc<Notify>,
}

struct Counts {
    /// The number of the last connection.
    last: u64,
    unknown: Strangers,
    known: Strangers,
    /// Addresses from which a peer was admitted, with the number of its connection.
    admitted_from: HashMap<IpAddr, u64>,
    admitted: usize,
    strangers_most: usize,
    per_address_most: usize,
    admitted_most: usize,
}

/// Strangers by their address and number, so by their age.
#[derive(Default)]
struct Strangers {
    count: usize,
    by_address: HashMap<IpAddr, BTreeMap<u64, Arc<Notify>>>,
}

/// A connection that is not admitted yet; counted until it is dropped.
pub(super) struct Stranger {
    admission: Admission,
    address: IpAddr,
    number: u64,
    evicted: Arc<Notify>,
}

/// An admitted connection; counted until it is dropped.
pub(super) struct Seat(Admission);

impl Strangers {
    /// Removes a stranger, and says whether it was still counted.
    fn remove(&mut self, address: IpAddr, number: u64) -> bool {
        let Some(here) = self.by_address.get_mut(&address) else { return false };
        let was_counted = here.remove(&number).is_some();
        if here.is_empty() {
            self.by_address.remove(&address);
        }
        self.count -= usize::from(was_counted);
        was_counted
    }

    /// Ends the oldest stranger of an address.
    fn evict(&mut self, address: IpAddr) {
        let oldest = self.by_address.get(&address).and_then(BTreeMap::first_key_value);
        if let Some((number, evicted)) = oldest.map(|(number, evicted)| (*number, Arc::clone(evicted))) {
            evicted.notify_one();
            self.remove(address, number);
        }
    }

    /// The address with the most strangers; of several, the one with the oldest.
    fn busiest(&self) -> Option<IpAddr> {
        let rank = |here: &BTreeMap<u64, _>| (here.len(), here.keys().next().map(|oldest| std::cmp::Reverse(*oldest)));
        self.by_address.iter().max_by_key(|(_, here)| rank(here)).map(|(address, _)| *address)
    }

    /// Makes a place for a newcomer from this address.
    fn make_place(&mut self, address: IpAddr, most: usize, per_address_most: usize) {
        if self.by_address.get(&address).is_some_and(|here| here.len() >= per_address_most) {
            self.evict(address);
        }
        if self.count >= most {
            self.busiest().into_iter().for_each(|busiest| self.evict(busiest));
        }
    }
}

impl Counts {
    fn strangers(&mut self, address: IpAddr) -> &mut Strangers {
        if self.admitted_from.contains_key(&address) { &mut self.known } else { &mut self.unknown }
    }

    /// Keeps an address from which a peer was admitted, in place of the one that was the longest without.
    fn admitted_from(&mut self, address: IpAddr, number: u64) {
        self.admitted_from.insert(address, number);
        if self.admitted_from.len() > KNOWN_MAX {
            let oldest = self.admitted_from.iter().min_by_key(|(_, number)| **number).map(|(address, _)| *address);
            self.admitted_from.retain(|address, _| Some(*address) != oldest);
        }
    }
}

impl Admission {
    pub(super) fn new(limits: &Limits) -> Self {
        let counts = Counts {
            last: 0,
            unknown: Strangers::default(),
            known: Strangers::default(),
            admitted_from: HashMap::new(),
            admitted: 0,
            strangers_most: limits.strangers,
            per_address_most: limits.strangers_per_address,
            admitted_most: limits.connections,
        };
        Self { counts: Arc::new(Mutex::new(counts)), changed: Arc::new(Notify::new()) }
    }

    /// Counts a new connection, in the place of an older one if there are too many.
    pub(super) fn enter(&self, address: IpAddr) -> Stranger {
        let address = network(address);
        let evicted = Arc::new(Notify::new());
        let counts = &mut *self.counts.lock();
        counts.last += 1;
        let (number, most, per_address_most) = (counts.last, counts.strangers_most, counts.per_address_most);
        let strangers = counts.strangers(address);
        strangers.make_place(address, most, per_address_most);
        strangers.by_address.entry(address).or_default().insert(number, Arc::clone(&evicted));
        strangers.count += 1;
        Stranger { admission: self.clone(), address, number, evicted }
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
    /// Completes when a newer connection takes the place of this one.
    pub(super) fn evicted(&self) -> impl Future<Output = ()> + use<> {
        let evicted = Arc::clone(&self.evicted);
        async move { evicted.notified().await }
    }

    /// Counts the connection as admitted; `None` if there are too many.
    pub(super) fn admit(self) -> Option<Seat> {
        let mut counts = self.admission.counts.lock();
        if counts.admitted >= counts.admitted_most {
            return None;
        }
        counts.admitted += 1;
        counts.admitted_from(self.address, self.number);
        drop(counts);
        Some(Seat(self.admission.clone()))
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let counts = &mut *self.admission.counts.lock();
        // Its address may have become known since it entered.
        let was_counted = counts.unknown.remove(self.address, self.number);
        if !was_counted {
            counts.known.remove(self.address, self.number);
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
    use futures::FutureExt as _;

    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn is_evicted(stranger: &Stranger) -> bool {
        stranger.evicted().now_or_never().is_some()
    }

    fn strangers(admission: &Admission) -> [usize; 2] {
        let counts = admission.counts.lock();
        [counts.unknown.count, counts.known.count]
    }

    #[test]
    fn all_addresses_of_a_host_count_as_one() {
        let limits = Limits { strangers_per_address: 1, ..Limits::default() };
        let admission = Admission::new(&limits);
        let enter = |text: &str| admission.enter(address(text));
        let held = ["2001:db8::1", "2001:db8:0:1::1", "10.0.0.1", "10.0.0.2"].map(enter);
        assert_eq!(strangers(&admission), [4, 0]);
        let next = ["2001:db8::ffff:0:0:2", "::ffff:10.0.0.1"].map(enter);
        assert_eq!(held.each_ref().map(is_evicted), [true, false, true, false], "the older one of each address");
        assert_eq!(strangers(&admission), [4, 0]);
        drop((held, next));
        assert_eq!(strangers(&admission), [0, 0]);
        assert!(admission.counts.lock().unknown.by_address.is_empty());
    }

    #[test]
    fn the_oldest_stranger_of_the_busiest_address_makes_place() {
        let limits = Limits { connections: 1, strangers: 4, strangers_per_address: 3, ..Limits::default() };
        let admission = Admission::new(&limits);
        let [busy, other, new] = [1, 2, 3].map(|last| IpAddr::from([10, 0, 0, last]));
        let held = [busy, busy, other, other].map(|from| admission.enter(from));
        let newcomers = [new, new].map(|from| admission.enter(from));
        assert_eq!(held.each_ref().map(is_evicted), [true, false, true, false], "of equals, that with the oldest");
        assert_eq!(strangers(&admission), [4, 0]);
        drop(held);
        assert_eq!(strangers(&admission), [2, 0], "who was evicted counts no longer");
        let [first, second] = newcomers;
        let seat = first.admit().expect("a free seat");
        assert!(second.admit().is_none(), "no free seat");
        assert_eq!((admission.admitted(), strangers(&admission)), (1, [0, 0]));
        drop(seat);
        assert_eq!(admission.admitted(), 0);
    }

    #[test]
    fn an_address_with_an_admitted_peer_has_places_that_no_stranger_takes() {
        let limits = Limits { strangers: 2, strangers_per_address: 2, ..Limits::default() };
        let admission = Admission::new(&limits);
        let node = address("10.0.0.1");
        let before = admission.enter(node);
        let seat = admission.enter(node).admit();
        let known = admission.enter(node);
        let many: Vec<_> = (2..200).map(|last| admission.enter([10, 0, 0, last].into())).collect();
        assert!(is_evicted(&before), "it entered before its address was known");
        assert!(!is_evicted(&known) && seat.is_some());
        assert_eq!(strangers(&admission), [2, 1]);
        drop((before, known, many, seat));
        assert_eq!(strangers(&admission), [0, 0]);
        for number in 0..2 * KNOWN_MAX as u32 {
            drop(admission.enter(IpAddr::from(number.to_be_bytes())).admit().expect("a seat"));
        }
        let counts = admission.counts.lock();
        assert!(counts.admitted_from.len() == KNOWN_MAX && !counts.admitted_from.contains_key(&node));
    }
}
