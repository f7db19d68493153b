//! The nodes that a kernel may have cached, for a session that can be cut off from its store: then all are dropped.
//!
//! - A session that is never cut off needs no such table.
//! - Each node has the number of lookups that were answered with it and not returned by FORGET. A node whose last lookup
//!   is answered beside the FORGET of an earlier one stays.
//! - The table lies in the mount's shared memory, so that the next process knows what this one answered. A slot is written
//!   before the answer is sent. A crash leaves too many lookups, never too few: to drop a node that the kernel does not
//!   know is no error.
//! - What a kernel forgets while no server runs is counted in the same slot by the holder, for the next process.
//! - A mount that an earlier version served, or that knows more nodes than the table has slots, is ended when it is cut off
//!   after a takeover.
//! - A page that a program is just reading is locked until the store answers, which may take as long as the cut. Its node is
//!   waited for as long as the lease lasts, since nobody else may change what the page shows until then; all other nodes are
//!   dropped meanwhile, by further threads. A mount whose pages cannot be dropped in time is ended.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use objstore_files::FileSession;
use parking_lot::Mutex;

use crate::shared_memory::{SharedMemory, Slot};

/// Where a slot's word has the references that the kernel has returned while no server ran, which the next process returns to
/// the store.
const FORGOTTEN_AT: u32 = 40;
/// The most lookups of a slot.
const LOOKUPS_MAX: u64 = (1 << FORGOTTEN_AT) - 1;
/// The most such references of a node; more are returned when the session ends.
const FORGOTTEN_MAX: u64 = u64::MAX >> FORGOTTEN_AT;

/// How long the kernel may take to drop everything, if the lease does not last longer.
const DROPPING: Duration = Duration::from_secs(2);
/// The threads that drop nodes, and the most of them while some wait for pages.
const THREADS: (usize, usize) = (4, 32);
/// After how long without an end another thread is started.
const STUCK: Duration = Duration::from_millis(50);

/// The nodes, if they are counted.
pub(crate) struct Known(Option<Table>);

/// The nodes in shared memory, and where each lies.
struct Table {
    memory: Arc<SharedMemory>,
    places: Mutex<Places>,
}

#[derive(Default)]
struct Places {
    nodes: HashMap<u64, Place>,
    /// Slots before `end` without a node.
    free: Vec<usize>,
    /// The first slot that was never used.
    end: usize,
}

struct Place {
    /// `None` if there was no free slot: then only this process knows the node.
    slot: Option<usize>,
    lookups: u64,
}

impl Known {
    /// The table of a session's mount, with the nodes that earlier processes left in the mount's memory.
    pub fn resume(session: &FileSession, memory: Arc<SharedMemory>) -> Self {
        let is_lost = session.about().inherited && memory.have_nodes_overflown();
        let counts = session.cacheable().is_some() && memory.nodes().is_some() && !is_lost;
        Self(counts.then(|| Table::resume(memory)))
    }

    /// What the kernel has returned while no server ran: nodes and numbers of lookups. Asked twice, it is nothing: a crash
    /// after that leaves the references until the session ends.
    pub fn take_forgotten(&self) -> Vec<(u64, u64)> {
        self.0.as_ref().map(Table::take_forgotten).unwrap_or_default()
    }

    /// A table of nothing.
    #[cfg(test)]
    pub fn none() -> Self {
        Self(None)
    }

    /// A lookup is answered with a node.
    pub fn insert(&self, node: u64) {
        if let Self(Some(table)) = self {
            table.insert(node);
        }
    }

    /// The kernel has returned lookups of a node.
    pub fn remove(&self, node: u64, lookups: u64) {
        if let Self(Some(table)) = self {
            table.remove(node, lookups);
        }
    }

    /// Has all nodes dropped, the root among them; whether that succeeded. `lease` is what is left of it.
    pub fn drop_all(&self, root: u64, lease: Duration, drops: impl Fn(u64) + Clone + Send + 'static) -> bool {
        let Self(Some(table)) = self else { return false };
        let all: Vec<u64> = table.places.lock().nodes.keys().copied().chain([root]).collect();
        let until = Instant::now() + lease.max(DROPPING);
        let (all, (done, dropped)) = (Arc::new(Mutex::new(all)), channel());
        let start = || {
            let (all, done, drops) = (Arc::clone(&all), done.clone(), drops.clone());
            let thread = std::thread::Builder::new().name("fuse-drop".into()).spawn(move || {
                loop {
                    let Some(node) = all.lock().pop() else { break };
                    drops(node);
                }
                // Nobody waits for it if it is late.
                let _ = done.send(());
            });
            thread.is_ok()
        };
        let (mut running, mut started) = (0, 0);
        while started < THREADS.0 || running > 0 {
            let is_stuck = started >= THREADS.0;
            if is_stuck {
                let now = Instant::now();
                let wait = STUCK.min(until.saturating_duration_since(now));
                if dropped.recv_timeout(wait).is_ok() {
                    running -= 1;
                    continue;
                }
                if now >= until {
                    return false;
                }
                if started >= THREADS.1 || all.lock().is_empty() {
                    continue;
                }
            }
            if !start() {
                return false;
            }
            (running, started) = (running + 1, started + 1);
        }
        true
    }
}

/// Counts what the kernel has returned of nodes, in the memory of a mount that no server serves.
pub(crate) fn note_forgotten(memory: &SharedMemory, mut nodes: HashMap<u64, u64>) {
    for slot in memory.nodes().unwrap_or_default().iter().take(memory.touched_nodes()) {
        let Some(lookups) = nodes.remove(&slot.node.load(Ordering::Acquire)) else { continue };
        let word = slot.word.load(Ordering::Relaxed);
        let forgotten = (word >> FORGOTTEN_AT).saturating_add(lookups).min(FORGOTTEN_MAX);
        slot.word.store(word & LOOKUPS_MAX | forgotten << FORGOTTEN_AT, Ordering::Relaxed);
        if nodes.is_empty() {
            return;
        }
    }
}

impl Table {
    fn resume(memory: Arc<SharedMemory>) -> Self {
        let mut places = Places { end: memory.touched_nodes(), ..Places::default() };
        for (index, slot) in memory.nodes().unwrap_or_default().iter().enumerate().take(places.end) {
            match slot.node.load(Ordering::Acquire) {
                0 => places.free.push(index),
                node => {
                    let lookups = slot.word.load(Ordering::Relaxed) & LOOKUPS_MAX;
                    places.nodes.insert(node, Place { slot: Some(index), lookups });
                }
            }
        }
        Self { memory, places: Mutex::new(places) }
    }

    fn take_forgotten(&self) -> Vec<(u64, u64)> {
        let places = self.places.lock();
        let mut all = Vec::new();
        for (node, place) in &places.nodes {
            let Some(slot) = self.slot(place) else { continue };
            let forgotten = slot.word.load(Ordering::Relaxed) >> FORGOTTEN_AT;
            if forgotten > 0 {
                slot.word.store(place.lookups, Ordering::Relaxed);
                all.push((*node, forgotten));
            }
        }
        all
    }

    fn insert(&self, node: u64) {
        let Places { nodes, free, end } = &mut *self.places.lock();
        let place = nodes.entry(node).or_insert_with(|| Place { slot: self.take(free, end), lookups: 0 });
        place.lookups = (place.lookups + 1).min(LOOKUPS_MAX);
        if let Some(slot) = self.slot(place) {
            slot.word.store(place.lookups, Ordering::Relaxed);
            slot.node.store(node, Ordering::Release);
        }
    }

    fn remove(&self, node: u64, lookups: u64) {
        let Places { nodes, free, .. } = &mut *self.places.lock();
        let Some(place) = nodes.get_mut(&node) else { return };
        place.lookups = place.lookups.saturating_sub(lookups);
        let left = place.lookups;
        if let Some(slot) = self.slot(place) {
            slot.word.store(left, Ordering::Relaxed);
            if left == 0 {
                slot.node.store(0, Ordering::Release);
            }
        }
        if left == 0 {
            free.extend(nodes.remove(&node).and_then(|place| place.slot));
        }
    }

    fn slot(&self, place: &Place) -> Option<&Slot> {
        self.memory.nodes()?.get(place.slot?)
    }

    /// A free slot.
    fn take(&self, free: &mut Vec<usize>, end: &mut usize) -> Option<usize> {
        let all = self.memory.nodes().map_or(0, <[Slot]>::len);
        match free.pop() {
            None if *end < all => {
                *end += 1;
                Some(*end - 1)
            }
            None => {
                self.memory.overflow_nodes();
                None
            }
            slot => slot,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared_memory::Tables;

    fn known(memory: &SharedMemory) -> Known {
        let memory = SharedMemory::open(memory.memory().try_clone_to_owned().unwrap()).unwrap();
        Known(Some(Table::resume(Arc::new(memory))))
    }

    /// A hundred nodes, with the root.
    fn many() -> Known {
        let known = known(&SharedMemory::create(Tables::OpensAndNodes).unwrap());
        (2..=100).for_each(|node| known.insert(node));
        known
    }

    fn dropped(known: &Known) -> Vec<u64> {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let hears = heard.clone();
        assert!(known.drop_all(1, Duration::ZERO, move |node| hears.lock().push(node)));
        let mut heard = heard.lock().clone();
        heard.sort_unstable();
        heard
    }

    #[test]
    fn the_next_process_drops_what_this_one_answered() {
        let memory = SharedMemory::create(Tables::OpensAndNodes).unwrap();
        let first = known(&memory);
        for node in [5, 6, 7, 5] {
            first.insert(node);
        }
        first.remove(6, 1);
        first.remove(5, 1);
        assert_eq!(dropped(&first), [1, 5, 7]);
        drop(first);
        let second = known(&memory);
        assert_eq!(dropped(&second), [1, 5, 7], "it was not told of them");
        second.insert(8);
        second.remove(5, 1);
        second.remove(9, 1);
        drop(second);
        let third = known(&memory);
        assert_eq!(dropped(&third), [1, 7, 8]);
        assert_eq!(third.0.as_ref().unwrap().places.lock().end, 256, "free slots are used before new ones");
    }

    #[test]
    fn what_was_forgotten_while_no_server_ran_is_returned_once() {
        let memory = SharedMemory::create(Tables::OpensAndNodes).unwrap();
        let first = known(&memory);
        [5, 5, 6].into_iter().for_each(|node| first.insert(node));
        drop(first);
        note_forgotten(&memory, HashMap::from([(5, 1), (9, 4)]));
        note_forgotten(&memory, HashMap::from([(5, 1), (6, u64::MAX)]));
        let next = known(&memory);
        assert_eq!(dropped(&next), [1, 5, 6], "the references are returned first");
        let mut forgotten = next.take_forgotten();
        forgotten.sort_unstable();
        assert_eq!(forgotten, [(5, 2), (6, FORGOTTEN_MAX)]);
        next.remove(5, 2);
        assert_eq!((dropped(&next), next.take_forgotten()), (vec![1, 6], vec![]));
        drop(next);
        assert_eq!(known(&memory).take_forgotten(), []);
    }

    #[test]
    fn a_lookup_beside_the_forget_of_an_earlier_one_is_kept() {
        let memory = SharedMemory::create(Tables::OpensAndNodes).unwrap();
        let known = known(&memory);
        known.insert(5);
        known.insert(5);
        known.remove(5, 1);
        assert_eq!(dropped(&known), [1, 5]);
        known.remove(5, 1);
        assert_eq!(dropped(&known), [1]);
    }

    #[test]
    fn nodes_without_a_slot_are_dropped_by_this_process_and_make_the_table_useless_for_the_next() {
        let memory = SharedMemory::create(Tables::OpensAndNodes).unwrap();
        let known = known(&memory);
        let table = known.0.as_ref().unwrap();
        table.places.lock().end = memory.nodes().unwrap().len();
        known.insert(5);
        assert_eq!(dropped(&known), [1, 5]);
        assert!(memory.have_nodes_overflown());
        known.remove(5, 1);
        assert_eq!(dropped(&known), [1]);
    }

    /// A page that is just being read is locked until the store answers.
    #[test]
    fn a_locked_page_is_waited_for_as_long_as_the_lease_lasts_and_keeps_no_other_node() {
        let dropped = Arc::new(Mutex::new(Vec::new()));
        let drops = |locked: Duration| {
            let dropped = Arc::clone(&dropped);
            move |node: u64| {
                // More than the first threads wait.
                if node.is_multiple_of(10) {
                    std::thread::sleep(locked);
                }
                dropped.lock().push(node);
            }
        };
        let begun = Instant::now();
        assert!(many().drop_all(1, Duration::from_secs(60), drops(Duration::from_secs(3))));
        assert!(begun.elapsed() >= Duration::from_secs(3), "longer than without a lease");
        assert_eq!(dropped.lock().len(), 100);
        assert!(dropped.lock()[..90].iter().all(|node| !node.is_multiple_of(10)), "the others were dropped before");
        dropped.lock().clear();
        let begun = Instant::now();
        assert!(!many().drop_all(1, Duration::ZERO, drops(Duration::from_secs(10))));
        assert!(begun.elapsed() < Duration::from_secs(9), "the lease is over");
        assert_eq!(dropped.lock().len(), 90);
    }
}
