//! The store's side of slots: whether a call is executed, answered from its recorded outcome, or refused.

use std::collections::BTreeMap;

use crate::{CallId, Digest, Incarnation, SessionId};

/// The last outcome of a slot, written by the transaction that made the change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The number of the call.
    pub sequence: u64,
    /// The digest of its content.
    pub digest: Digest,
    /// The bytes of its reply.
    pub reply: Vec<u8>,
}

/// Where outcomes are kept. Reading sees every committed change; the write of an outcome is part of the caller's own
/// transaction, which also checks that the session exists: that check is the fence.
pub trait Outcomes {
    /// The last recorded outcome of a slot.
    fn last(&self, session: SessionId, slot: u32) -> Option<Outcome>;
}

/// What the store does with a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begin {
    /// Do it, then call [`Table::finish`], or [`Table::abandon`] if no transaction was begun.
    Run,
    /// It was done: send this reply again.
    Replay(Vec<u8>),
    /// It is being done; the answer follows from there.
    InProgress,
    /// The slot has gone on: the node has the answer already. Send nothing.
    Stale,
    /// The number was used for another content; the node is faulty.
    FalseRetry,
    /// The slot is busy with an earlier call, or there is no such slot; the node is faulty.
    Misused,
    /// A later process of the node has the session.
    Superseded,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finished {
    /// Its transaction recorded the outcome.
    Recorded,
    /// It changed nothing; its reply is kept in memory alone.
    Unchanged(Vec<u8>),
}

/// What the store remembers of a slot without reading it.
#[derive(Clone, Debug)]
enum Seen {
    Running {
        sequence: u64,
        digest: Digest,
    },
    Unchanged {
        sequence: u64,
        digest: Digest,
        reply: Vec<u8>,
    },
    /// Given up. The node had the answers to all earlier calls when it sent this one.
    Abandoned {
        sequence: u64,
    },
}

/// The slots of one session at the store. A restart loses nothing of it that matters: outcomes are records, and calls
/// that were running are either recorded or not done.
#[derive(Clone, Debug)]
pub struct Table {
    session: SessionId,
    count: u32,
    incarnation: Incarnation,
    seen: BTreeMap<u32, Seen>,
}

impl Table {
    /// The table of a session with so many slots.
    pub fn new(session: SessionId, count: u32, incarnation: Incarnation) -> Self {
        Self { session, count, incarnation, seen: BTreeMap::new() }
    }

    /// A later process of the node takes the session over. `false` while calls of the earlier one are running, or if the
    /// process is an earlier one: the outcomes may be read only afterwards.
    pub fn supersede(&mut self, incarnation: Incarnation) -> bool {
        if incarnation < self.incarnation {
            return false;
        }
        if incarnation > self.incarnation {
            self.incarnation = incarnation;
            // The successor counts on behind the recorded calls, so it uses the numbers of unrecorded ones again. Late
            // copies of those are refused as calls of its predecessor.
            self.seen.retain(|_, seen| matches!(seen, Seen::Running { .. }));
        }
        !self.seen.values().any(|seen| matches!(seen, Seen::Running { .. }))
    }

    /// Decides what to do with a call.
    pub fn begin(&mut self, outcomes: &impl Outcomes, incarnation: Incarnation, call: CallId, digest: Digest) -> Begin {
        if incarnation != self.incarnation {
            return Begin::Superseded;
        }
        if call.slot >= self.count || call.sequence == 0 {
            return Begin::Misused;
        }
        let last = match self.seen.get(&call.slot) {
            Some(Seen::Running { sequence, digest: running }) => {
                return match sequence.cmp(&call.sequence) {
                    std::cmp::Ordering::Greater => Begin::Stale,
                    std::cmp::Ordering::Less => Begin::Misused,
                    std::cmp::Ordering::Equal if *running == digest => Begin::InProgress,
                    std::cmp::Ordering::Equal => Begin::FalseRetry,
                };
            }
            Some(Seen::Unchanged { sequence, digest, reply }) => {
                Some(Outcome { sequence: *sequence, digest: *digest, reply: reply.clone() })
            }
            Some(Seen::Abandoned { sequence }) if call.sequence < *sequence => return Begin::Stale,
            Some(Seen::Abandoned { .. }) | None => outcomes.last(self.session, call.slot),
        };
        match last {
            Some(last) if last.sequence > call.sequence => Begin::Stale,
            Some(last) if last.sequence == call.sequence && last.digest == digest => Begin::Replay(last.reply),
            Some(last) if last.sequence == call.sequence => Begin::FalseRetry,
            _ => {
                self.seen.insert(call.slot, Seen::Running { sequence: call.sequence, digest });
                Begin::Run
            }
        }
    }

    /// A call that was to [`Begin::Run`] ended.
    pub fn finish(&mut self, call: CallId, finished: Finished) {
        let Some(Seen::Running { sequence, digest }) = self.seen.get(&call.slot) else { return };
        if *sequence != call.sequence {
            return;
        }
        match finished {
            Finished::Recorded => drop(self.seen.remove(&call.slot)),
            Finished::Unchanged(reply) => {
                let seen = Seen::Unchanged { sequence: *sequence, digest: *digest, reply };
                self.seen.insert(call.slot, seen);
            }
        }
    }

    /// A call that was to [`Begin::Run`] was given up before it changed anything, for example with its connection.
    pub fn abandon(&mut self, call: CallId) {
        if matches!(self.seen.get(&call.slot), Some(Seen::Running { sequence, .. }) if *sequence == call.sequence) {
            self.seen.insert(call.slot, Seen::Abandoned { sequence: call.sequence });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Incarnation = Incarnation(1);
    const SESSION: SessionId = SessionId(9);

    #[derive(Default)]
    struct Recorded(BTreeMap<u32, Outcome>);

    impl Outcomes for Recorded {
        fn last(&self, _session: SessionId, slot: u32) -> Option<Outcome> {
            self.0.get(&slot).cloned()
        }
    }

    fn digest(byte: u8) -> Digest {
        Digest([byte; 16])
    }

    fn call(sequence: u64) -> CallId {
        CallId { slot: 0, sequence }
    }

    #[test]
    fn a_change_runs_once_and_is_answered_from_its_record_after_a_restart_too() {
        let (mut table, mut recorded) = (Table::new(SESSION, 1, FIRST), Recorded::default());
        assert_eq!(table.begin(&recorded, FIRST, call(1), digest(1)), Begin::Run);
        assert_eq!(table.begin(&recorded, FIRST, call(1), digest(1)), Begin::InProgress);
        recorded.0.insert(0, Outcome { sequence: 1, digest: digest(1), reply: b"done".to_vec() });
        table.finish(call(1), Finished::Recorded);
        for mut table in [table, Table::new(SESSION, 1, FIRST)] {
            assert_eq!(table.begin(&recorded, FIRST, call(1), digest(1)), Begin::Replay(b"done".to_vec()));
            assert_eq!(table.begin(&recorded, FIRST, call(1), digest(2)), Begin::FalseRetry);
            assert_eq!(table.begin(&recorded, FIRST, call(2), digest(2)), Begin::Run);
            assert_eq!(table.begin(&recorded, FIRST, call(1), digest(1)), Begin::Stale);
        }
    }

    #[test]
    fn a_call_that_changed_nothing_cannot_be_done_late_in_place_of_the_next_one() {
        let (mut table, recorded) = (Table::new(SESSION, 1, FIRST), Recorded::default());
        assert_eq!(table.begin(&recorded, FIRST, call(1), digest(1)), Begin::Run);
        table.finish(call(1), Finished::Unchanged(b"exists".to_vec()));
        assert_eq!(table.begin(&recorded, FIRST, call(1), digest(1)), Begin::Replay(b"exists".to_vec()));
        assert_eq!(table.begin(&recorded, FIRST, call(2), digest(2)), Begin::Run);
        table.finish(call(2), Finished::Unchanged(Vec::new()));
        assert_eq!(table.begin(&recorded, FIRST, call(1), digest(1)), Begin::Stale);
        assert_eq!(table.begin(&recorded, FIRST, call(3), digest(3)), Begin::Run);
        table.abandon(call(3));
        assert_eq!(table.begin(&recorded, FIRST, call(2), digest(2)), Begin::Stale);
        assert_eq!(table.begin(&recorded, FIRST, call(3), digest(3)), Begin::Run);
    }

    #[test]
    fn faulty_nodes_and_superseded_processes_are_refused() {
        let (mut table, recorded) = (Table::new(SESSION, 1, FIRST), Recorded::default());
        let other_slot = CallId { slot: 1, sequence: 1 };
        assert_eq!(table.begin(&recorded, FIRST, other_slot, digest(1)), Begin::Misused);
        assert_eq!(table.begin(&recorded, FIRST, call(0), digest(1)), Begin::Misused);
        assert_eq!(table.begin(&recorded, FIRST, call(1), digest(1)), Begin::Run);
        assert_eq!(table.begin(&recorded, FIRST, call(2), digest(2)), Begin::Misused, "the slot is busy");
        assert!(!table.supersede(Incarnation(2)), "a call of the predecessor runs");
        assert_eq!(table.begin(&recorded, FIRST, call(1), digest(1)), Begin::Superseded);
        table.abandon(call(1));
        assert!(table.supersede(Incarnation(2)));
        assert!(!table.supersede(FIRST), "the predecessor comes back");
    }

    #[test]
    fn a_successor_uses_the_numbers_of_unrecorded_calls_again() {
        let (mut table, recorded) = (Table::new(SESSION, 1, FIRST), Recorded::default());
        assert_eq!(table.begin(&recorded, FIRST, call(1), digest(1)), Begin::Run);
        table.finish(call(1), Finished::Unchanged(b"exists".to_vec()));
        assert!(table.supersede(Incarnation(2)));
        assert_eq!(table.begin(&recorded, FIRST, call(1), digest(1)), Begin::Superseded, "a late copy");
        assert_eq!(table.begin(&recorded, Incarnation(2), call(1), digest(2)), Begin::Run);
    }
}
