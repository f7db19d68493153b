//! The table of open nodes: their modes and open counts, in memory that outlives this process.
//!
//! - A node is read and changed under its lock, from the decision how to open it to the count. The count is never below
//!   the kernel's: it rises before an OPEN is answered, and falls after the kernel's release.
//! - A change is first noted under its request number. A request that is resent, because an earlier process died
//!   without answering it, finds its note and is not counted again.
//! - A node that finds no free slot is opened through the kernel's pages and not counted. From then on every node
//!   without a slot is opened this way until the mount ends, because it may be open already.
//!
//! A crash before the note leaves nothing; between note and slot, a note that the slot shows to be void; after the
//! slot, a valid note, and a request that is resent if it was not answered. Notes of answered requests that a crash
//! left behind stay: their numbers are not used again, and the oldest are overwritten.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::{Mutex, MutexGuard};

use super::state::State;
use crate::shared_memory::{Note, SharedMemory, Slot};

/// Number of locks that all nodes share.
const STRIPES: usize = 64;
/// Number of notes among which a request chooses.
const CHOICE: usize = 8;
/// How often to look for a free note before one of this process is overwritten.
const PATIENCE: u32 = 10_000;
/// The request number of a note that is being written.
const CLAIMED: u64 = u64::MAX;

/// The request that asks for a change: its number, and whether an earlier process may have served it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub request: u64,
    pub resent: bool,
}

/// All open nodes.
pub(crate) struct Table {
    shared: Arc<SharedMemory>,
    stripes: Vec<Mutex<()>>,
    index: Mutex<Index>,
}

struct Index {
    slots: HashMap<u64, u32>,
    /// Free slots that were used before.
    free: Vec<u32>,
    /// The first slot that was never used; the memory behind it was never touched.
    untouched: u32,
}

/// A node under its lock.
pub(crate) struct LockedNode<'a> {
    table: &'a Table,
    node: u64,
    slot: Option<u32>,
    _alone: MutexGuard<'a, ()>,
}

impl Table {
    /// The table that an earlier process left, or an empty one.
    pub fn resume(shared: Arc<SharedMemory>) -> Self {
        let known = |note: &&Note| note.request.load(Ordering::Acquire) != 0;
        shared.notes().iter().filter(known).for_each(|note| settle(note, shared.slots()));
        let touched = shared.touched();
        let untouched = u32::try_from(touched).unwrap_or(u32::MAX);
        let mut index = Index { slots: HashMap::new(), free: Vec::new(), untouched };
        for (number, slot) in (0u32..).zip(&shared.slots()[..touched]) {
            let node = slot.node.load(Ordering::Acquire);
            if node != 0 && slot.word.load(Ordering::Acquire) != 0 && !index.slots.contains_key(&node) {
                index.slots.insert(node, number);
            } else {
                slot.node.store(0, Ordering::Release);
                index.free.push(number);
            }
        }
        // The lowest slots are taken first.
        index.free.reverse();
        let stripes = std::iter::repeat_with(Mutex::default).take(STRIPES).collect();
        Self { shared, stripes, index: Mutex::new(index) }
    }

    /// The nodes in the table.
    pub fn nodes(&self) -> Vec<u64> {
        self.index.lock().slots.keys().copied().collect()
    }

    /// Locks a node.
    pub fn hold(&self, node: u64) -> LockedNode<'_> {
        let stripe = node.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58;
        let alone = self.stripes[stripe as usize % STRIPES].lock();
        let slot = self.index.lock().slots.get(&node).copied();
        LockedNode { table: self, node, slot, _alone: alone }
    }

    /// Whether the table has an entry for a node. It does not wait.
    pub fn knows(&self, node: u64) -> bool {
        self.index.lock().slots.contains_key(&node)
    }

    /// Whether a node without a slot may be opened by passthrough.
    pub fn is_exact(&self) -> bool {
        !self.shared.has_overflown()
    }

    /// Whether a request was counted already.
    pub fn is_counted(&self, asked: Asked) -> bool {
        asked.resent && self.choice(asked.request).any(|note| note.request.load(Ordering::Acquire) == asked.request)
    }

    /// Frees the note of an answered request: it is not resent.
    pub fn answered(&self, request: u64) {
        for note in self.choice(request) {
            let _ = note.request.compare_exchange(request, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    fn choice(&self, request: u64) -> impl Iterator<Item = &Note> {
        let notes = self.shared.notes();
        // The kernel's request numbers are even.
        let first = (request / 2) as usize * CHOICE;
        (0..CHOICE).map(move |at| &notes[(first + at) % notes.len()])
    }

    /// A note for a request: a free one, otherwise the oldest left behind.
    fn claim(&self, request: u64) -> &Note {
        let mut patience = PATIENCE;
        loop {
            let claim =
                |note: &&Note| note.request.compare_exchange(0, CLAIMED, Ordering::AcqRel, Ordering::Relaxed).is_ok();
            if let Some(note) = self.choice(request).find(claim) {
                return note;
            }
            let least = u32::from(patience > 0);
            let age = |note: &&Note| note.done.load(Ordering::Relaxed);
            if let Some(oldest) = self.choice(request).filter(|note| age(note) > least).max_by_key(age) {
                oldest.request.store(0, Ordering::Release);
            }
            // Notes of this process are about to be answered and freed.
            patience = patience.saturating_sub(1);
            std::thread::yield_now();
        }
    }
}

/// Decides whether a note of an earlier process is valid, and frees it if not.
fn settle(note: &Note, slots: &[Slot]) {
    let (request, done) = (note.request.load(Ordering::Acquire), note.done.load(Ordering::Acquire));
    let (node, number) = (note.node.load(Ordering::Relaxed), note.slot.load(Ordering::Relaxed));
    let slot = slots.get(number as usize).filter(|slot| slot.node.load(Ordering::Acquire) == node);
    let now = slot.map_or(0, |slot| slot.word.load(Ordering::Acquire));
    if request == CLAIMED || (done == 0 && now == note.before.load(Ordering::Relaxed)) {
        note.request.store(0, Ordering::Release);
    } else if request != 0 {
        note.done.store(done.saturating_add(1).max(2), Ordering::Release);
    }
}

impl LockedNode<'_> {
    /// The node's state.
    pub fn state(&self) -> State {
        self.slot().map_or_else(State::default, |slot| State::decode(slot.word.load(Ordering::Acquire)))
    }

    /// Records the node's state after a request. Returns whether there was a slot for it.
    pub fn change(&mut self, asked: Asked, state: State) -> bool {
        let Some(number) = self.slot.or_else(|| self.take_free()) else { return false };
        let slot = &self.table.shared.slots()[number as usize];
        let note = self.table.claim(asked.request);
        note.node.store(self.node, Ordering::Relaxed);
        note.before.store(if self.slot.is_some() { slot.word.load(Ordering::Relaxed) } else { 0 }, Ordering::Relaxed);
        note.slot.store(number, Ordering::Relaxed);
        note.done.store(0, Ordering::Relaxed);
        note.request.store(asked.request, Ordering::Release);
        self.write(number, state);
        note.done.store(1, Ordering::Release);
        true
    }

    /// Records the node's remaining state, outside any request.
    pub fn settle(&mut self, state: State) {
        if let Some(number) = self.slot {
            self.write(number, state);
        }
    }

    /// Records that the node was opened uncounted.
    pub fn overflow(&self) {
        self.table.shared.overflow();
    }

    fn slot(&self) -> Option<&Slot> {
        self.slot.map(|number| &self.table.shared.slots()[number as usize])
    }

    fn take_free(&self) -> Option<u32> {
        let mut index = self.table.index.lock();
        if let Some(number) = index.free.pop() {
            return Some(number);
        }
        let number = index.untouched;
        ((number as usize) < self.table.shared.slots().len()).then(|| {
            index.untouched += 1;
            number
        })
    }

    /// The word decides: a slot gets its node after its word, and is free once the word is 0, with any node.
    fn write(&mut self, number: u32, state: State) {
        let slot = &self.table.shared.slots()[number as usize];
        let word = state.encode();
        slot.word.store(word, Ordering::Release);
        if word != 0 && self.slot.is_none() {
            slot.node.store(self.node, Ordering::Release);
            self.table.index.lock().slots.insert(self.node, number);
            self.slot = Some(number);
        } else if word == 0 {
            slot.node.store(0, Ordering::Release);
            let mut index = self.table.index.lock();
            index.slots.remove(&self.node);
            index.free.push(number);
            self.slot = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared_memory::Tables;

    const ONE: State = State {
        mode: super::super::state::Mode::Cached,
        opens: 1,
        mapped_writable: false,
        mapped: false,
        fresh: false,
    };

    fn memory() -> Arc<SharedMemory> {
        Arc::new(SharedMemory::create(Tables::Opens).unwrap())
    }

    fn asked(request: u64) -> Asked {
        Asked { request, resent: false }
    }

    fn again(request: u64) -> Asked {
        Asked { request, resent: true }
    }

    #[test]
    fn a_mount_takes_memory_for_the_slots_it_uses_alone() {
        let shared = memory();
        let table = Table::resume(shared.clone());
        assert_eq!(shared.touched(), 0);
        for node in 1..=1000 {
            assert!(table.hold(node).change(asked(2 * node), ONE));
            table.answered(2 * node);
        }
        let touched = shared.touched();
        assert!((1000..2000).contains(&touched), "{touched}");
        drop(table);
        let next = Table::resume(shared.clone());
        assert_eq!(next.nodes().len(), 1000);
        assert!(next.hold(5000).change(asked(4000), ONE));
        assert_eq!((next.nodes().len(), shared.touched()), (1001, touched));
    }

    #[test]
    fn what_a_process_counted_the_next_one_knows() {
        let shared = memory();
        let table = Table::resume(shared.clone());
        assert!(table.hold(7).change(asked(2), ONE));
        assert!(table.hold(8).change(asked(4), ONE) && table.hold(8).change(asked(6), State::default()));
        table.answered(2);
        let next = Table::resume(shared);
        assert_eq!((next.hold(7).state(), next.hold(8).state()), (ONE, State::default()));
        assert_eq!(next.nodes(), [7]);
        assert!(!next.is_counted(again(2)), "it was answered, and is another if it comes");
        assert!(next.is_counted(again(4)) && next.is_counted(again(6)));
        assert!(!next.is_counted(asked(4)), "only what is resent can have been counted");
    }

    #[test]
    fn a_change_that_was_noted_and_not_made_counts_for_nothing() {
        let shared = memory();
        let table = Table::resume(shared.clone());
        table.hold(7).change(asked(2), ONE);
        // The state that a process leaves when it dies between the two writes.
        let note = table.claim(4);
        let number = table.index.lock().slots[&7];
        note.node.store(7, Ordering::Relaxed);
        note.before.store(ONE.encode(), Ordering::Relaxed);
        note.slot.store(number, Ordering::Relaxed);
        note.done.store(0, Ordering::Relaxed);
        note.request.store(4, Ordering::Release);
        // A note that is complete except for its last word.
        table.hold(9).change(asked(6), ONE);
        table
            .choice(6)
            .find(|note| note.request.load(Ordering::Relaxed) == 6)
            .unwrap()
            .done
            .store(0, Ordering::Relaxed);
        let next = Table::resume(shared);
        assert!(!next.is_counted(again(4)) && next.is_counted(again(6)));
        assert_eq!((next.hold(7).state(), next.hold(9).state()), (ONE, ONE));
    }

    #[test]
    fn a_full_table_says_so() {
        let shared = memory();
        let table = Table::resume(shared.clone());
        let room = shared.slots().len() as u64;
        for node in 1..=room {
            assert!(table.hold(node).change(asked(2 * node), ONE));
            table.answered(2 * node);
        }
        let mut one_more = table.hold(room + 1);
        assert!(!one_more.change(asked(2), ONE));
        one_more.overflow();
        drop(one_more);
        assert!(!table.is_exact() && table.hold(3).change(asked(4), State::default()));
        assert!(!Table::resume(shared).is_exact(), "until the mount ends");
    }

    #[test]
    fn notes_that_many_processes_left_give_way() {
        let shared = memory();
        for process in 0..3 * CHOICE as u64 {
            let table = Table::resume(shared.clone());
            // All these requests choose from the same notes.
            let request = 2 + 2 * process * (shared.notes().len() / CHOICE) as u64;
            assert!(table.hold(1 + process).change(asked(request), ONE));
        }
        assert_eq!(Table::resume(shared).nodes().len(), 3 * CHOICE);
    }

    #[test]
    fn counts_are_exact_among_threads() {
        let table = Table::resume(memory());
        std::thread::scope(|scope| {
            for thread in 0..8u64 {
                let table = &table;
                scope.spawn(move || {
                    for round in 0..2_000u64 {
                        let request = 2 * (1 + thread + 8 * round);
                        let mut held = table.hold(1 + round / 2 % 5);
                        let state = held.state();
                        let next = if round % 2 == 0 { state.opened().unwrap() } else { state };
                        let next = if round % 2 == 1 { state.released() } else { next };
                        // Each thread opens and then releases the same node.
                        held.change(Asked { request, resent: false }, next);
                        drop(held);
                        table.answered(request);
                    }
                });
            }
        });
        let left: Vec<u32> = (1..=5).map(|node| table.hold(node).state().opens).collect();
        assert_eq!(left.iter().sum::<u32>(), 0);
    }
}
