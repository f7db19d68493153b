//! The node's side of slots: calls in flight, and answered changes that the store may still lose.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Boot, CallId, Position};

/// What an answered call did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing was changed, so no outcome is recorded.
    Unchanged,
    /// A change was committed at this position.
    Changed(Position),
}

/// The outcome of a change that was sent again after the store had lost it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replayed {
    /// It had the same result as before.
    Same(Effect),
    /// It had another result: the acknowledged change is lost. Files it concerned answer EIO to the next fsync.
    Lost,
}

/// A slot of a session.
#[derive(Clone, Debug)]
enum Slot<R> {
    /// No call is in flight; the number of the last one.
    Free { last: u64 },
    /// A call is in flight or has to be resent.
    Busy { sequence: u64, request: R },
}

/// An answered change that the store may lose.
#[derive(Clone, Debug)]
struct Kept<R> {
    call: CallId,
    request: R,
    /// Where it is committed now.
    position: Position,
}

/// All slots of one session, on the node.
///
/// `R` is what the node needs to send a call again.
#[derive(Clone, Debug)]
pub struct Slots<R> {
    slots: Vec<Slot<R>>,
    /// Answered changes that the store has not synced yet, by the position that they were first committed at: a change
    /// that is sent again keeps its place, so that a second loss does not change the order.
    unsynced: BTreeMap<Position, Kept<R>>,
    /// The next of these that have to be sent again, because the store lost them.
    replays: BTreeSet<Position>,
    boot: Boot,
}

impl<R: Clone> Slots<R> {
    /// The slots of a new session with a store of this opening.
    pub fn new(count: u32, boot: Boot) -> Self {
        let slots = (0..count).map(|_| Slot::Free { last: 0 }).collect();
        Self { slots, unsynced: BTreeMap::new(), replays: BTreeSet::new(), boot }
    }

    /// The slots of a session that another process of this node used before, from the last outcomes that the store
    /// recorded. The store has superseded the other process, so none of its calls arrives later.
    pub fn inherited(count: u32, boot: Boot, recorded: &[CallId]) -> Self {
        let mut slots = Self::new(count, boot);
        for call in recorded {
            if let Some(slot) = slots.slots.get_mut(call.slot as usize) {
                *slot = Slot::Free { last: call.sequence };
            }
        }
        slots
    }

    /// Takes up a call of the process before this one, which the store recorded last in its slot: it is resent, and answered
    /// from the record. `false` if the slot is in use or recorded another call.
    pub fn adopt(&mut self, call: CallId, request: R) -> bool {
        let slot = self.slots.get_mut(call.slot as usize);
        let Some(slot) = slot.filter(|slot| matches!(slot, Slot::Free { last } if *last == call.sequence)) else {
            return false;
        };
        *slot = Slot::Busy { sequence: call.sequence, request };
        true
    }

    /// Takes a free slot for a change. `None` while all slots are busy, or lost changes have to be sent again first.
    pub fn begin(&mut self, request: R) -> Option<CallId> {
        if !self.replays.is_empty() {
            return None;
        }
        let (index, last) = self.slots.iter().enumerate().find_map(|(index, slot)| match slot {
            Slot::Free { last } => Some((index, *last)),
            Slot::Busy { .. } => None,
        })?;
        let sequence = last + 1;
        self.slots[index] = Slot::Busy { sequence, request };
        Some(CallId { slot: u32::try_from(index).unwrap_or(u32::MAX), sequence })
    }

    /// The calls without an answer: to be resent after a reconnection, in any order. Empty while lost changes have to be
    /// sent again first, since these may be ones that the calls build on.
    pub fn unanswered(&self) -> Vec<(CallId, R)> {
        if !self.replays.is_empty() {
            return Vec::new();
        }
        let busy = self.slots.iter().zip(0..).filter_map(|(slot, index)| match slot {
            Slot::Busy { sequence, request } => Some((CallId { slot: index, sequence: *sequence }, request.clone())),
            Slot::Free { .. } => None,
        });
        busy.collect()
    }

    /// Takes the answer to a call, and frees its slot. `false` if the call is not in flight: the answer is a repetition.
    pub fn answered(&mut self, call: CallId, effect: Effect) -> bool {
        let Some(slot) = self.slots.get_mut(call.slot as usize) else { return false };
        let Slot::Busy { sequence, request } = slot else { return false };
        if *sequence != call.sequence {
            return false;
        }
        if let Effect::Changed(position) = effect {
            self.unsynced.insert(position, Kept { call, request: request.clone(), position });
        }
        *slot = Slot::Free { last: call.sequence };
        true
    }

    /// The store has synced everything up to this position. A position of an opening that this session has not resumed
    /// with yet says nothing about the changes kept here.
    pub fn synced(&mut self, position: Position) {
        if position.boot == self.boot && self.replays.is_empty() {
            self.unsynced.retain(|_, kept| kept.position > position);
        }
    }

    /// How many answered changes are not known to be synced. A node that keeps too many asks the store to sync.
    pub fn unsynced(&self) -> usize {
        self.unsynced.len()
    }

    /// The session goes on with another opening of the store, which recorded these last calls of its slots. What it did
    /// not record was lost with its power, and is sent again by [`Slots::next_replay`].
    pub fn resumed(&mut self, boot: Boot, recorded: &[CallId]) {
        let last: BTreeMap<u32, u64> = recorded.iter().map(|call| (call.slot, call.sequence)).collect();
        let is_lost = |call: &CallId| last.get(&call.slot).is_none_or(|recorded| *recorded < call.sequence);
        self.boot = boot;
        self.replays = self.unsynced.iter().filter(|(_, kept)| is_lost(&kept.call)).map(|(at, _)| *at).collect();
    }

    /// The first change that the store lost, in the order of its log; `None` once all are replayed. They are sent one
    /// after the other, under their old numbers; the position tells the store its place among those of other nodes.
    pub fn next_replay(&self) -> Option<(Position, CallId, R)> {
        let at = self.replays.first()?;
        let kept = self.unsynced.get(at)?;
        Some((*at, kept.call, kept.request.clone()))
    }

    /// Takes the answer to the change of [`Slots::next_replay`]. `false` if it is for another one.
    pub fn replayed(&mut self, call: CallId, result: Replayed) -> bool {
        let Some(at) = self.replays.first().copied() else { return false };
        let Some(kept) = self.unsynced.get_mut(&at).filter(|kept| kept.call == call) else { return false };
        self.replays.remove(&at);
        match result {
            Replayed::Same(Effect::Changed(position)) => kept.position = position,
            Replayed::Same(Effect::Unchanged) | Replayed::Lost => drop(self.unsynced.remove(&at)),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(boot: u64, commit: u64) -> Position {
        Position { boot: Boot(boot), commit }
    }

    fn call(slot: u32, sequence: u64) -> CallId {
        CallId { slot, sequence }
    }

    #[test]
    fn a_slot_is_not_used_again_before_its_answer_is_known() {
        let mut slots = Slots::new(2, Boot(1));
        assert_eq!(slots.begin("a"), Some(call(0, 1)));
        assert_eq!(slots.begin("b"), Some(call(1, 1)));
        assert_eq!(slots.begin("c"), None);
        assert_eq!(slots.unanswered(), [(call(0, 1), "a"), (call(1, 1), "b")]);
        assert!(slots.answered(call(1, 1), Effect::Unchanged));
        assert!(!slots.answered(call(1, 1), Effect::Unchanged), "a repeated answer");
        assert_eq!(slots.begin("c"), Some(call(1, 2)), "a number never repeats");
        assert!(!slots.answered(call(1, 1), Effect::Unchanged), "a late answer to the call before");
        assert_eq!(slots.unanswered().len(), 2);
    }

    #[test]
    fn what_the_store_lost_is_sent_again_in_order_before_anything_else() {
        let mut slots = Slots::new(2, Boot(1));
        for (request, position) in [("a", 5), ("b", 6), ("c", 7)] {
            let call = slots.begin(request).unwrap();
            assert!(slots.answered(call, Effect::Changed(at(1, position))));
        }
        slots.synced(at(1, 5));
        assert_eq!(slots.unsynced(), 2);
        let open = slots.begin("d").unwrap();
        slots.resumed(Boot(2), &[call(0, 2)]);
        assert_eq!((slots.begin("e"), slots.unanswered().len()), (None, 0));
        assert_eq!(slots.next_replay(), Some((at(1, 7), call(0, 3), "c")), "b was recorded");
        slots.synced(at(2, 100));
        assert_eq!(slots.unsynced(), 2, "not before what was lost is there again");
        assert!(!slots.replayed(open, Replayed::Lost));
        assert!(slots.replayed(call(0, 3), Replayed::Same(Effect::Changed(at(2, 9)))));
        assert_eq!((slots.next_replay(), slots.unanswered()), (None, vec![(open, "d")]));
        slots.synced(at(2, 8));
        assert_eq!(slots.unsynced(), 1, "a position of the old opening is synced by the new one");
        slots.synced(at(2, 9));
        assert_eq!(slots.unsynced(), 0);
    }

    #[test]
    fn a_second_loss_during_the_replay_keeps_the_order() {
        let mut slots = Slots::new(1, Boot(1));
        for (request, position) in [("a", 5), ("b", 6)] {
            let call = slots.begin(request).unwrap();
            assert!(slots.answered(call, Effect::Changed(at(1, position))));
        }
        slots.resumed(Boot(2), &[]);
        assert!(slots.replayed(call(0, 1), Replayed::Same(Effect::Changed(at(2, 1)))));
        slots.resumed(Boot(3), &[]);
        assert_eq!(slots.next_replay(), Some((at(1, 5), call(0, 1), "a")), "the store would take b for the later call");
    }

    #[test]
    fn a_successor_goes_on_behind_the_recorded_calls() {
        let mut slots = Slots::inherited(3, Boot(1), &[call(1, 7), call(99, 1)]);
        assert!(!slots.adopt(call(1, 6), "x") && slots.adopt(call(1, 7), "y"));
        assert_eq!(slots.unanswered(), [(call(1, 7), "y")]);
        assert_eq!([slots.begin("a"), slots.begin("b")], [Some(call(0, 1)), Some(call(2, 1))]);
    }
}
