//! The store's table of sessions: leases, undelivered changes, and the grace time after a restart.
//!
//! - A session is recorded durably before its opening is answered, and removed by one transaction that also ends its
//!   locks and its exclusive lease; every transaction of a session checks its record. So a fenced session changes
//!   nothing, even by calls that are still on their way.
//! - A change is answered when every other session has acknowledged it, or is ended. No session is ended before its node
//!   has stopped serving from its caches.
//! - After a restart the store knows only the records. New changes and locks wait until every recorded session has
//!   resumed or is ended. So nodes reclaim their locks and resend lost changes before anything can conflict with them.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::change::{Delivery, Outbox};
use crate::lease::Granted;
use crate::{Moment, Position, SessionId, Terms};

/// What a store that opens knows about the end of its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovered {
    /// Only the process had ended: every answered change is there.
    Whole,
    /// The machine may have lost power: changes that were answered and not synced may be missing. It stays so, over
    /// further restarts, until a grace time has ended; the caller records it.
    TailLost,
}

/// What a call wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Read.
    Read,
    /// Change something, open a session, or take a lock.
    Change,
    /// Reclaim a lock.
    Reclaim,
    /// Send again a change that was committed at this position and lost. Lost changes of all nodes are done in their old
    /// order, so each waits until every session has said what its next one is, or is ended.
    Replay(Position),
}

/// Whether a call may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permit {
    /// It may.
    Now,
    /// It waits for other sessions to return or end.
    AfterGrace,
    /// The grace time is over, or the session has completed its reclaims: nothing can be reclaimed.
    TooLate,
    /// The session is unknown, ended or fenced: ESTALE.
    NoSession,
}

/// The answer to a renewal, an opening or a resumption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Renewal {
    /// The lease is renewed. The number of the last published change: a node that lacks one asks for it.
    Renewed {
        /// The number.
        published: u64,
    },
    /// The lease is not renewed, because changes wait for this session's acknowledgement for too long. It was renewed
    /// last so long ago; a node that acknowledges in time is renewed again.
    Behind {
        /// The age of the lease.
        age: Duration,
    },
    /// The session is unknown, ended or fenced.
    NoSession,
}

/// What has to happen before a change is answered: these sessions acknowledge these numbers, or end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Barrier(Vec<(SessionId, u64)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Found in the records; its node has not come back yet.
    Absent,
    /// Its node is back and reclaims; the position of its next lost change, once it has said so.
    Reclaiming(Option<Position>),
    /// In use.
    Live,
}

#[derive(Clone, Debug)]
struct Session<C> {
    lease: Granted,
    changes: Outbox<C>,
    phase: Phase,
}

/// All sessions of a store. `C` is a change, as nodes receive it.
#[derive(Clone, Debug)]
pub struct Sessions<C> {
    terms: Terms,
    recovered: Recovered,
    sessions: BTreeMap<SessionId, Session<C>>,
}

impl<C> Session<C> {
    /// Renews the lease, unless changes wait for the session's acknowledgement for too long. Each message that renews
    /// comes through here: a session that only comes back again and again would keep every change waiting.
    fn renew(&mut self, terms: Terms, now: Moment) -> Renewal {
        if self.changes.oldest().is_some_and(|oldest| now.since(oldest) >= terms.acknowledgement()) {
            return Renewal::Behind { age: self.lease.age(now) };
        }
        self.lease.renew(now);
        Renewal::Renewed { published: self.changes.published() }
    }
}

impl<C: Clone> Sessions<C> {
    /// The sessions of a store that opens, from their records.
    pub fn new(terms: Terms, recorded: impl IntoIterator<Item = SessionId>, recovered: Recovered, now: Moment) -> Self {
        let absent = |_| Session {
            lease: Granted::new(terms, now),
            changes: Outbox::reopened(terms.changes, now),
            phase: Phase::Absent,
        };
        let sessions = recorded.into_iter().map(|id| (id, absent(id))).collect();
        Self { terms, recovered, sessions }
    }

    /// A session was recorded. Opening it twice is opening it once, and a renewal: its node counts the lease from the opening
    /// that is answered.
    pub fn opened(&mut self, id: SessionId, now: Moment) -> Renewal {
        let fresh = || Session {
            lease: Granted::new(self.terms, now),
            changes: Outbox::new(self.terms.changes),
            phase: Phase::Live,
        };
        self.sessions.entry(id).or_insert_with(fresh).renew(self.terms, now)
    }

    /// The node of a session is there again. That renews the lease as a renewal does; a session that is behind resumes on
    /// the lease it has, so that it can acknowledge.
    pub fn resumed(&mut self, id: SessionId, now: Moment) -> Renewal {
        let Some(session) = self.sessions.get_mut(&id) else { return Renewal::NoSession };
        if session.phase == Phase::Absent {
            session.phase = Phase::Reclaiming(None);
        }
        session.renew(self.terms, now)
    }

    /// The next lost change that the node of a session will send again. `false` if there is no such session.
    pub fn declare(&mut self, id: SessionId, next: Position) -> bool {
        let Some(session) = self.sessions.get_mut(&id) else { return false };
        if let Phase::Reclaiming(declared) = &mut session.phase {
            *declared = Some(next);
        }
        true
    }

    /// The node has reclaimed everything that it wants to keep. `false` if there is no such session.
    pub fn reclaimed(&mut self, id: SessionId) -> bool {
        let session = self.sessions.get_mut(&id);
        session.map(|session| session.phase = Phase::Live).is_some()
    }

    /// A renewal was received.
    pub fn renew(&mut self, id: SessionId, now: Moment) -> Renewal {
        let session = self.sessions.get_mut(&id);
        session.map_or(Renewal::NoSession, |session| session.renew(self.terms, now))
    }

    /// The sessions whose lease is over: the caller ends each in a transaction, and then calls [`Sessions::ended`].
    pub fn overdue(&self, now: Moment) -> Vec<SessionId> {
        let over = self.sessions.iter().filter(|(_, session)| session.lease.is_over(now));
        over.map(|(id, _)| *id).collect()
    }

    /// When the next lease is over, unless it is renewed.
    pub fn next_end(&self) -> Option<Moment> {
        self.sessions.values().map(|session| session.lease.end()).min()
    }

    /// The record of a session was removed.
    pub fn ended(&mut self, id: SessionId) {
        self.sessions.remove(&id);
    }

    /// Whether there is such a session.
    pub fn has(&self, id: SessionId) -> bool {
        self.sessions.contains_key(&id)
    }

    /// All sessions.
    pub fn ids(&self) -> impl Iterator<Item = SessionId> {
        self.sessions.keys().copied()
    }

    /// Whether a call may go on: of a session, or of S3 (`None`).
    pub fn permit(&self, user: Option<SessionId>, wish: Wish) -> Permit {
        let phase = match user {
            None => Phase::Live,
            Some(id) => match self.sessions.get(&id) {
                None => return Permit::NoSession,
                Some(session) => session.phase,
            },
        };
        match wish {
            Wish::Reclaim | Wish::Replay(_) if !matches!(phase, Phase::Reclaiming(_)) => Permit::TooLate,
            Wish::Replay(position) if !self.is_next(position) => Permit::AfterGrace,
            Wish::Reclaim | Wish::Replay(_) => Permit::Now,
            Wish::Read if self.recovered == Recovered::Whole => Permit::Now,
            Wish::Read | Wish::Change if self.is_grace() => Permit::AfterGrace,
            Wish::Read | Wish::Change => Permit::Now,
        }
    }

    /// Whether no session has or may have an earlier lost change.
    fn is_next(&self, position: Position) -> bool {
        self.sessions.values().all(|session| match session.phase {
            Phase::Absent | Phase::Reclaiming(None) => false,
            Phase::Reclaiming(Some(next)) => next >= position,
            Phase::Live => true,
        })
    }

    /// Whether a recorded session has neither reclaimed what it had nor ended.
    pub fn is_grace(&self) -> bool {
        self.sessions.values().any(|session| session.phase != Phase::Live)
    }

    /// A change was committed by a session or by S3 (`None`): it is queued for every other session, and is answered after
    /// the barrier. The caller holds the order of the commits.
    pub fn publish(&mut self, by: Option<SessionId>, change: &C, now: Moment) -> Barrier {
        let others = self.sessions.iter_mut().filter(|(id, _)| Some(**id) != by);
        Barrier(others.map(|(id, session)| (*id, session.changes.publish(change.clone(), now))).collect())
    }

    /// The barrier of an answer that is sent again: everything published so far, since nothing is known of when its own
    /// change was.
    pub fn everything(&self, by: Option<SessionId>) -> Barrier {
        let others = self.sessions.iter().filter(|(id, _)| Some(**id) != by);
        Barrier(others.map(|(id, session)| (*id, session.changes.published())).collect())
    }

    /// Whether every session of a barrier has acknowledged or ended.
    pub fn is_passed(&self, barrier: &Barrier) -> bool {
        let acknowledged = |(id, number): &(SessionId, u64)| {
            self.sessions.get(id).is_none_or(|session| session.changes.is_acknowledged(*number))
        };
        barrier.0.iter().all(acknowledged)
    }

    /// A session has applied every change up to this number.
    pub fn acknowledge(&mut self, id: SessionId, number: u64) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.changes.acknowledge(number);
        }
    }

    /// What a session has not acknowledged.
    pub fn undelivered(&self, id: SessionId) -> Vec<(u64, Delivery<C>)> {
        let session = self.sessions.get(&id);
        let changes = session.map(|session| session.changes.undelivered().map(|(at, change)| (at, change.clone())));
        changes.map(Iterator::collect).unwrap_or_default()
    }

    /// The number of the last change that an answer to this session, read now, includes.
    pub fn included(&self, id: SessionId) -> u64 {
        self.sessions.get(&id).map_or(0, |session| session.changes.published())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: SessionId = SessionId(1);
    const B: SessionId = SessionId(2);

    fn at(millis: u64) -> Moment {
        Moment::after_start(Duration::from_millis(millis))
    }

    fn terms() -> Terms {
        Terms { lease: Duration::from_millis(1000), rate_difference_ppm: 0, changes: 10 }
    }

    fn fresh(sessions: &[SessionId]) -> Sessions<&'static str> {
        let mut table = Sessions::new(terms(), [], Recovered::Whole, at(0));
        for id in sessions {
            assert_eq!(table.opened(*id, at(0)), Renewal::Renewed { published: 0 });
        }
        table
    }

    #[test]
    fn a_change_waits_for_each_other_session_to_acknowledge_or_end() {
        let mut table = fresh(&[A, B]);
        let barrier = table.publish(Some(A), &"change", at(10));
        assert!(!table.is_passed(&barrier));
        table.acknowledge(A, 1);
        assert!(!table.is_passed(&barrier), "the writer is not waited for, and answers for nobody else");
        assert!(!table.is_passed(&table.everything(Some(A))), "an answer that is sent again waits as long");
        let mut ended = table.clone();
        table.acknowledge(B, 1);
        assert!(table.is_passed(&barrier));
        assert_eq!(ended.overdue(at(1000)), []);
        assert_eq!(ended.overdue(at(1001)), [A, B]);
        ended.ended(B);
        assert!(ended.is_passed(&barrier));
        assert_eq!(ended.renew(B, at(1002)), Renewal::NoSession);
        assert_eq!(ended.permit(Some(B), Wish::Read), Permit::NoSession);
    }

    #[test]
    fn an_opening_that_is_sent_again_begins_the_lease_that_its_node_counts() {
        let mut table = fresh(&[A]);
        assert_eq!(table.opened(A, at(900)), Renewal::Renewed { published: 0 });
        assert_eq!(table.overdue(at(1899)), []);
        assert_eq!(table.overdue(at(1901)), [A]);
    }

    #[test]
    fn a_session_that_acknowledges_nothing_is_not_renewed_and_ends() {
        let mut table = fresh(&[A, B]);
        table.publish(Some(A), &"change", at(100));
        assert_eq!(table.renew(B, at(599)), Renewal::Renewed { published: 1 });
        let behind = |age| Renewal::Behind { age: Duration::from_millis(age) };
        assert_eq!(table.renew(B, at(600)), behind(1));
        assert_eq!(table.resumed(B, at(650)), behind(51), "coming back renews no more than a renewal");
        assert_eq!(table.opened(B, at(700)), behind(101), "nor does an opening that is sent again");
        assert_eq!(table.renew(A, at(600)), Renewal::Renewed { published: 0 });
        assert_eq!(table.overdue(at(1600)), [B], "counted from the last renewal that was granted");
        table.acknowledge(B, 1);
        assert_eq!(table.resumed(B, at(1500)), Renewal::Renewed { published: 1 }, "it has acknowledged");
    }

    #[test]
    fn after_a_restart_others_wait_until_each_session_is_back_or_over() {
        let mut table: Sessions<()> = Sessions::new(terms(), [A, B], Recovered::TailLost, at(0));
        assert_eq!(table.permit(None, Wish::Change), Permit::AfterGrace);
        assert_eq!(table.permit(None, Wish::Read), Permit::AfterGrace, "it may have been lost");
        assert_eq!(table.permit(Some(A), Wish::Reclaim), Permit::TooLate, "it has not resumed");
        assert_eq!(table.resumed(A, at(100)), Renewal::Renewed { published: 1 });
        assert_eq!(table.permit(Some(A), Wish::Reclaim), Permit::Now);
        assert_eq!(table.permit(Some(A), Wish::Change), Permit::AfterGrace);
        assert!(table.reclaimed(A));
        assert_eq!(table.permit(Some(A), Wish::Reclaim), Permit::TooLate);
        assert!(!table.is_passed(&table.everything(Some(A))), "the other session may have anything cached");
        assert_eq!(table.undelivered(B), [(1, Delivery::All)]);
        assert_eq!(table.overdue(at(1001)), [B]);
        table.ended(B);
        assert_eq!(table.permit(Some(A), Wish::Change), Permit::Now);
        assert!(table.is_passed(&table.everything(Some(A))));
    }

    #[test]
    fn lost_changes_of_several_nodes_are_done_in_their_old_order() {
        let position = |commit| Position { commit, ..Position::default() };
        let mut table: Sessions<()> = Sessions::new(terms(), [A, B], Recovered::TailLost, at(0));
        assert!(table.resumed(A, at(1)) != Renewal::NoSession && table.declare(A, position(7)));
        let replay = |table: &Sessions<()>, id, commit| table.permit(Some(id), Wish::Replay(position(commit)));
        assert_eq!(replay(&table, A, 7), Permit::AfterGrace, "the other session may have an earlier one");
        assert!(table.resumed(B, at(2)) != Renewal::NoSession && table.declare(B, position(6)));
        assert_eq!([replay(&table, A, 7), replay(&table, B, 6)], [Permit::AfterGrace, Permit::Now]);
        assert!(table.declare(B, position(9)));
        assert_eq!([replay(&table, A, 7), replay(&table, B, 9)], [Permit::Now, Permit::AfterGrace]);
        assert!(table.reclaimed(A));
        assert_eq!([replay(&table, A, 8), replay(&table, B, 9)], [Permit::TooLate, Permit::Now]);
    }

    #[test]
    fn after_a_crash_of_the_process_alone_reads_go_on() {
        let table: Sessions<()> = Sessions::new(terms(), [A], Recovered::Whole, at(0));
        assert_eq!(table.permit(Some(A), Wish::Read), Permit::Now);
        assert_eq!(table.permit(Some(A), Wish::Change), Permit::AfterGrace);
    }
}
