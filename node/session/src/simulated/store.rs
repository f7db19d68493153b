//! The simulated store: lists of tokens, a guarded number and a lock, over the state machines of the store's side.

use std::collections::BTreeMap;
use std::time::Duration;

use objstore_testing::random::Choices;

use super::checker::Checker;
use super::ledger::{Commit, Ledger};
use super::node::micros;
use super::packet::{Act, Kind, Op, Packet, Recorded};
use super::planted::Planted;
use crate::change::Delivery;
use crate::exclusive::{Admission, Exclusive};
use crate::lock::{Kind as LockKind, Locks, Mode, Owner, Range, Set, Ticket, Wait};
use crate::sessions::{Barrier, Permit, Recovered, Renewal, Sessions, Wish};
use crate::slot::{Begin, Finished, Outcome, Table};
use crate::{Boot, Incarnation, Moment, SessionId, Terms};

/// The slots of a session.
pub(super) const SLOTS: u32 = 3;
/// The node number of S3.
pub(super) const S3: usize = usize::MAX;

/// A message to a node.
pub(super) type Sent = (usize, Packet);

/// An answer that waits for others to acknowledge.
struct Held {
    barrier: Barrier,
    answer: Answer,
}

enum Answer {
    Node(Sent),
    S3(Op),
}

/// The store's process and its disk.
pub(super) struct Store {
    planted: Planted,
    terms: Terms,
    /// Rises with each start of the process: connections do not outlive it.
    pub(super) life: u64,
    boot: Boot,
    pub(super) ledger: Ledger,
    sessions: Sessions<u64>,
    tables: BTreeMap<SessionId, Table>,
    /// The process of each session that is connected.
    incarnations: BTreeMap<SessionId, u64>,
    locks: Locks<u64>,
    exclusive: Exclusive,
    held: Vec<Held>,
    /// Messages that wait for the grace time or a recall.
    parked: Vec<Sent>,
    waiting: BTreeMap<Ticket, (usize, Packet)>,
    next_token: u64,
    habits: Habits,
}

/// How often the store does something by itself: once in so many looks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Habits {
    pub(super) sync: usize,
    pub(super) s3: usize,
}

impl Store {
    /// A store without sessions.
    pub(super) fn new(terms: Terms, planted: Planted, habits: Habits, now: Moment) -> Self {
        let mut store = Self {
            planted,
            terms,
            life: 0,
            boot: Boot(0),
            ledger: Ledger::default(),
            sessions: Sessions::new(terms, [], Recovered::Whole, now),
            tables: BTreeMap::new(),
            incarnations: BTreeMap::new(),
            locks: Locks::new(100),
            exclusive: Exclusive::default(),
            held: Vec::new(),
            parked: Vec::new(),
            waiting: BTreeMap::new(),
            next_token: 1 << 40,
            habits,
        };
        store.restart(now);
        store
    }

    /// The process starts again, after a kill or a power cut.
    pub(super) fn restart(&mut self, now: Moment) {
        let recovered = if self.ledger.is_cut { Recovered::TailLost } else { Recovered::Whole };
        self.life += 1;
        self.boot.0 += 1;
        self.ledger.sync();
        let state = &self.ledger.state;
        let (terms, ids) = (self.terms, state.sessions.keys().copied());
        self.sessions = Sessions::new(terms, ids.clone(), recovered, now);
        if self.planted == Planted::NoGrace {
            ids.clone().for_each(|id| assert!(self.sessions.reclaimed(id)));
        }
        self.tables = ids.map(|id| (id, Table::new(id, SLOTS, Incarnation(0)))).collect();
        self.incarnations.clear();
        self.locks = Locks::new(100);
        self.exclusive = match state.grant {
            Some(session) if self.planted != Planted::GrantNotRecorded => {
                Exclusive::recorded(session, state.last_grant)
            }
            _ => Exclusive::shared(state.last_grant),
        };
        self.held.clear();
        self.parked.clear();
        self.waiting.clear();
    }

    /// What happens without a message: leases end, S3 works, changes are delivered again, the log is synced.
    pub(super) fn tick(&mut self, now: Moment, choices: &mut Choices, checker: &mut Checker) -> Vec<Sent> {
        let mut sent = Vec::new();
        let lapse = if self.planted == Planted::Impatient { self.terms.lease * 4 / 5 } else { Duration::ZERO };
        for id in self.sessions.overdue(now + lapse) {
            sent.extend(self.end(id, checker));
        }
        if choices.once_in(self.habits.sync) {
            self.ledger.sync();
        }
        self.ledger.is_cut &= self.sessions.is_grace();
        if choices.once_in(self.habits.s3) {
            self.s3(now, choices, checker);
        }
        for (id, node) in self.ledger.state.sessions.clone() {
            if choices.once_in(4) {
                sent.extend(self.deliveries(id, node));
            }
            if let Some((_, grant)) = self.exclusive.recalled().filter(|(holder, _)| *holder == id) {
                sent.push((node, Packet { number: grant, ..self.packet(Kind::Recall, id) }));
            }
        }
        for (node, packet) in std::mem::take(&mut self.parked) {
            sent.extend(self.receive(node, packet, now, checker));
        }
        sent.extend(self.pass(checker));
        sent
    }

    fn packet(&self, kind: Kind, id: SessionId) -> Packet {
        let session = u64::try_from(id.0).expect("a session of the run");
        // An answer belongs to the connection of a process; a later process does not receive it.
        let incarnation = self.incarnations.get(&id).copied().unwrap_or_default();
        Packet { session, incarnation, boot: self.boot.0, synced: self.ledger.synced(), ..Packet::new(kind) }
    }

    fn deliveries(&self, id: SessionId, node: usize) -> Vec<Sent> {
        let deliver = |(number, delivery): (u64, Delivery<u64>)| {
            let tokens = match delivery {
                Delivery::One(file) => vec![file],
                Delivery::All => Vec::new(),
            };
            (node, Packet { number, tokens, ..self.packet(Kind::Deliver, id) })
        };
        self.sessions.undelivered(id).into_iter().map(deliver).collect()
    }

    /// Ends a session in one transaction: the fence.
    fn end(&mut self, id: SessionId, checker: &mut Checker) -> Vec<Sent> {
        let node = self.ledger.state.sessions.get(&id).copied();
        self.ledger.commit(Commit::End(id));
        self.ledger.sync();
        checker.ended(u64::try_from(id.0).expect("a session of the run"));
        checker.note(|| format!("store ends {id:?}"));
        let lists = &self.ledger.state.lists;
        let absent = |file, token| !lists.get(&file).is_some_and(|list| list.contains(&token));
        if let Some(node) = node {
            checker.forgives(node, absent);
        }
        self.sessions.ended(id);
        self.tables.remove(&id);
        self.exclusive.ended(id);
        let granted = self.locks.end_all_of(id);
        self.waiting.retain(|_, (_, packet)| u128::from(packet.session) != id.0);
        self.grant(granted)
    }

    /// A PUT or GET of S3.
    fn s3(&mut self, now: Moment, choices: &mut Choices, checker: &mut Checker) {
        if !self.may(None, if choices.once_in(2) { Wish::Read } else { Wish::Change }) {
            return;
        }
        let file = choices.below_u64(3);
        if choices.once_in(2) {
            let list = self.ledger.state.lists.get(&file).cloned().unwrap_or_default();
            let required = checker.required(file);
            checker.read("S3", &required, &list);
        } else if self.may(None, Wish::Change) {
            self.next_token += 1;
            let op = Op::new(Act::Append, file, self.next_token);
            checker.begins((S3, 0), &op);
            self.ledger.commit(Commit::Change(op.clone(), None));
            self.ledger.sync();
            checker.note(|| format!("S3 {op:?}"));
            let barrier = self.sessions.publish(None, &op.file, now);
            self.held.push(Held { barrier, answer: Answer::S3(op) });
        }
    }

    /// Whether a user of the volume need not wait.
    fn may(&mut self, user: Option<SessionId>, wish: Wish) -> bool {
        if self.sessions.permit(user, wish) != Permit::Now {
            return false;
        }
        self.planted == Planted::NoRecall || self.exclusive.admit(user) == Admission::Now
    }

    /// The session that has the volume for itself.
    pub(super) fn holder(&self) -> Option<SessionId> {
        self.exclusive.holder()
    }

    /// A message of a node.
    pub(super) fn receive(&mut self, node: usize, packet: Packet, now: Moment, checker: &mut Checker) -> Vec<Sent> {
        let id = SessionId(packet.session.into());
        if packet.kind() == Kind::Resume && packet.result == 1 {
            self.open(id, node, now);
        }
        let fenced = !self.sessions.has(id);
        if fenced && !(self.planted == Planted::NoFence && packet.kind() == Kind::Change) {
            return vec![(node, self.packet(Kind::NoSession, id))];
        }
        match packet.kind() {
            Kind::Resume => self.resume(id, (node, packet), now),
            Kind::Reclaimed => {
                self.sessions.reclaimed(id);
                vec![(node, self.packet(Kind::Reclaimed, id))]
            }
            Kind::Renew => self.renew(id, (node, packet), now),
            Kind::Change | Kind::Replay => self.change(id, (node, packet), now, checker),
            Kind::Read => self.read(id, (node, packet)),
            Kind::Acknowledge => {
                if packet.boot == self.boot.0 {
                    self.sessions.acknowledge(id, packet.number);
                }
                self.pass(checker)
            }
            Kind::Deliver => self.deliveries(id, node),
            Kind::Sync => {
                self.ledger.sync();
                vec![(node, Packet { number: packet.number, ..self.packet(Kind::Sync, id) })]
            }
            Kind::Relock => {
                let owner = Owner::Process(id, packet.number);
                if self.sessions.permit(Some(id), Wish::Reclaim) == Permit::Now {
                    // Refused if another session has the lock; the answer shows it.
                    let _ = self.locks.set(0, owner, LockKind::Ranges, (Range::ALL, Mode::Exclusive), Wait::No);
                }
                let result = u64::from(self.locks.held().any(|(.., lock)| lock.owner == owner));
                vec![(node, Packet { number: packet.number, result, ..self.packet(Kind::Relock, id) })]
            }
            Kind::Exclusive => self.lend(id, (node, packet)),
            Kind::Recall => {
                if self.exclusive.returned(id, packet.number) {
                    self.ledger.commit(Commit::Returned);
                    self.ledger.sync();
                }
                Vec::new()
            }
            Kind::None | Kind::NoSession => Vec::new(),
        }
    }

    fn open(&mut self, id: SessionId, node: usize, now: Moment) {
        let is_known = self.sessions.has(id) || self.ledger.state.ended.contains(&id);
        if !is_known && self.sessions.permit(None, Wish::Change) == Permit::Now {
            self.ledger.commit(Commit::Open(id, node));
            self.ledger.sync();
            let _ = self.sessions.opened(id, now);
            self.tables.insert(id, Table::new(id, SLOTS, Incarnation(0)));
        }
    }

    fn resume(&mut self, id: SessionId, (node, packet): Sent, now: Moment) -> Vec<Sent> {
        let incarnation = Incarnation(packet.incarnation);
        let mut sent = self.interrupt(&packet);
        let table = self.tables.get_mut(&id).expect("a table of each session");
        if !table.supersede(incarnation) {
            return sent;
        }
        self.incarnations.insert(id, packet.incarnation);
        let age = match self.sessions.resumed(id, now) {
            Renewal::Behind { age } => micros(Moment::after_start(age)) + 1,
            Renewal::Renewed { .. } | Renewal::NoSession => 0,
        };
        let outcomes = self.ledger.state.outcomes.range((id, 0)..=(id, u32::MAX));
        let recorded = outcomes.map(|((_, slot), outcome)| Recorded {
            slot: *slot,
            sequence: outcome.sequence,
            digest: outcome.digest.0.to_vec().into(),
        });
        let recorded = recorded.collect();
        let (number, included) = (packet.number, self.sessions.included(id));
        sent.push((node, Packet { number, included, recorded, age, ..self.packet(Kind::Resume, id) }));
        sent
    }

    /// A waiting lock is the only call that lasts. The process that waited for it is gone.
    fn interrupt(&mut self, resume: &Packet) -> Vec<Sent> {
        let mut sent = Vec::new();
        for (ticket, (_, waiting)) in self.waiting.clone() {
            if waiting.session != resume.session || waiting.incarnation >= resume.incarnation {
                continue;
            }
            self.waiting.remove(&ticket);
            if let Some(table) = self.tables.get_mut(&SessionId(waiting.session.into())) {
                table.abandon(waiting.call());
            }
            let granted = self.locks.interrupt(ticket).unwrap_or_default();
            sent.extend(self.grant(granted));
        }
        sent
    }

    fn renew(&mut self, id: SessionId, (node, packet): Sent, now: Moment) -> Vec<Sent> {
        match self.sessions.renew(id, now) {
            Renewal::Renewed { published } => {
                let answer = Packet { number: packet.number, included: published, ..self.packet(Kind::Renew, id) };
                vec![(node, answer)]
            }
            Renewal::Behind { .. } => self.deliveries(id, node),
            Renewal::NoSession => vec![(node, self.packet(Kind::NoSession, id))],
        }
    }

    fn park(&mut self, node: usize, packet: Packet) {
        if !self.parked.iter().any(|(_, parked)| *parked == packet) {
            self.parked.push((node, packet));
        }
    }

    fn lend(&mut self, id: SessionId, (node, packet): Sent) -> Vec<Sent> {
        let alone = self.sessions.ids().count() == 1;
        if packet.boot != self.boot.0 || !self.may(Some(id), Wish::Change) {
            return Vec::new();
        }
        let Some(grant) = self.exclusive.grant(id, alone) else { return Vec::new() };
        self.ledger.commit(Commit::Grant(id, grant));
        self.ledger.sync();
        vec![(node, Packet { number: grant, ..self.packet(Kind::Exclusive, id) })]
    }

    fn read(&mut self, id: SessionId, (node, packet): Sent) -> Vec<Sent> {
        if !self.may(Some(id), Wish::Read) {
            self.park(node, packet);
            return Vec::new();
        }
        let file = packet.op.as_ref().map_or(0, |op| op.file);
        let tokens = match file {
            u64::MAX => vec![self.ledger.state.guarded],
            file => self.ledger.state.lists.get(&file).cloned().unwrap_or_default(),
        };
        let included = self.sessions.included(id);
        let (number, op) = (packet.number, packet.op);
        vec![(node, Packet { number, op, tokens, included, ..self.packet(Kind::Read, id) })]
    }

    /// A change in a slot, or one that was lost.
    fn change(&mut self, id: SessionId, (node, packet): Sent, now: Moment, checker: &mut Checker) -> Vec<Sent> {
        let op = packet.op.clone().expect("a change has an operation");
        let call = packet.call();
        let is_replay = packet.kind() == Kind::Replay;
        if is_replay {
            self.sessions.declare(id, packet.position());
        }
        let wish = match op.act() {
            _ if is_replay && self.planted == Planted::UnorderedReplays => Wish::Reclaim,
            _ if is_replay => Wish::Replay(packet.position()),
            // Who gives a lock back need not wait.
            Act::Unlock => Wish::Read,
            _ => Wish::Change,
        };
        if self.planted != Planted::NoFence && !self.may(Some(id), wish) {
            if !is_replay {
                self.park(node, packet);
            }
            return Vec::new();
        }
        let incarnation = Incarnation(packet.incarnation);
        let state = &self.ledger.state;
        let begun = match self.tables.get_mut(&id) {
            Some(table) => table.begin(state, incarnation, call, op.digest()),
            None => Begin::Run,
        };
        match begun {
            Begin::Run => self.run(id, (node, packet), &op, now, checker),
            Begin::Replay(reply) => {
                let [result, commit] =
                    [0, 8].map(|at| u64::from_le_bytes(reply[at..at + 8].try_into().expect("a reply")));
                let answer = self.changed(id, &packet, result, commit);
                self.hold(self.sessions.everything(Some(id)), Planted::NoBarrierForReplies, (node, answer));
                self.pass(checker)
            }
            Begin::InProgress | Begin::Stale | Begin::Superseded => Vec::new(),
            Begin::FalseRetry | Begin::Misused => {
                checker.fail(format!("{begun:?} of {call:?} {op:?}"));
                Vec::new()
            }
        }
    }

    fn run(&mut self, id: SessionId, (node, packet): Sent, op: &Op, now: Moment, checker: &mut Checker) -> Vec<Sent> {
        let call = packet.call();
        if matches!(op.act(), Act::Lock | Act::Unlock) {
            return self.lock(id, (node, packet), op);
        }
        let (result, changes) = self.ledger.state.result(op);
        if op.act() == Act::Raise && !changes {
            checker.raised_wrongly(op, self.ledger.state.guarded, packet.kind() == Kind::Replay);
        }
        if !changes {
            self.finish(id, call, Finished::Unchanged(reply(result, 0)));
            return vec![(node, self.changed(id, &packet, result, 0))];
        }
        let commit = self.ledger.synced() + self.ledger.unsynced() as u64 + 1;
        let outcome = Outcome { sequence: call.sequence, digest: op.digest(), reply: reply(result, commit) };
        let outcome = (self.planted != Planted::NoOutcomes).then_some((id, call, outcome));
        self.ledger.commit(Commit::Change(op.clone(), outcome));
        self.finish(id, call, Finished::Recorded);
        let list = self.ledger.state.lists.get(&op.file).cloned().unwrap_or_default();
        checker.applied(packet.session, op, &list, packet.kind() == Kind::Replay);
        checker.note(|| format!("store does {op:?} of {id:?} {call:?} as {commit}"));
        let file = if op.act() == Act::Raise { u64::MAX } else { op.file };
        let barrier = self.sessions.publish(Some(id), &file, now);
        let mut sent = Vec::new();
        for (other, its) in self.ledger.state.sessions.clone().into_iter().filter(|(other, _)| *other != id) {
            sent.extend(self.deliveries(other, its).pop());
        }
        let answer = self.changed(id, &packet, result, commit);
        self.hold(barrier, Planted::NoBarrier, (node, answer));
        sent.extend(self.pass(checker));
        sent
    }

    fn finish(&mut self, id: SessionId, call: crate::CallId, finished: Finished) {
        if let Some(table) = self.tables.get_mut(&id) {
            table.finish(call, finished);
        }
    }

    fn changed(&self, id: SessionId, packet: &Packet, result: u64, commit: u64) -> Packet {
        let (kind, op) = (packet.kind(), packet.op.clone());
        Packet { result, commit, op, ..self.packet(kind, id) }.with_call(packet.call())
    }

    fn lock(&mut self, id: SessionId, (node, packet): Sent, op: &Op) -> Vec<Sent> {
        let owner = Owner::Process(id, op.token);
        let call = packet.call();
        if op.act() == Act::Unlock {
            let granted = self.locks.unset(0, owner, LockKind::Ranges, Range::ALL);
            self.finish(id, call, Finished::Unchanged(reply(1, 0)));
            let mut sent = self.grant(granted);
            sent.push((node, self.changed(id, &packet, 1, 0)));
            return sent;
        }
        match self.locks.set(0, owner, LockKind::Ranges, (Range::ALL, Mode::Exclusive), Wait::Yes) {
            Set::Waits(ticket, _) => {
                self.waiting.insert(ticket, (node, packet));
                Vec::new()
            }
            Set::Granted(_) => {
                self.finish(id, call, Finished::Unchanged(reply(1, 0)));
                vec![(node, self.changed(id, &packet, 1, 0))]
            }
            Set::Refused(..) | Set::Deadlock | Set::TooMany => {
                self.finish(id, call, Finished::Unchanged(reply(0, 0)));
                vec![(node, self.changed(id, &packet, 0, 0))]
            }
        }
    }

    /// Waiting locks were granted.
    fn grant(&mut self, granted: Vec<Ticket>) -> Vec<Sent> {
        let mut sent = Vec::new();
        for ticket in granted {
            if let Some((node, packet)) = self.waiting.remove(&ticket) {
                let id = SessionId(packet.session.into());
                self.finish(id, packet.call(), Finished::Unchanged(reply(1, 0)));
                sent.push((node, self.changed(id, &packet, 1, 0)));
            }
        }
        sent
    }

    fn hold(&mut self, barrier: Barrier, without: Planted, sent: Sent) {
        let barrier = if self.planted == without { Barrier::default() } else { barrier };
        self.held.push(Held { barrier, answer: Answer::Node(sent) });
    }

    /// Sends the answers that wait no longer.
    fn pass(&mut self, checker: &mut Checker) -> Vec<Sent> {
        let (passed, held) =
            std::mem::take(&mut self.held).into_iter().partition(|held| self.sessions.is_passed(&held.barrier));
        self.held = held;
        let passed: Vec<Held> = passed;
        let mut sent = Vec::new();
        for held in passed {
            match held.answer {
                Answer::Node((node, packet)) => sent.push((node, packet)),
                Answer::S3(op) => {
                    checker.acknowledged(&op);
                    checker.synced(&[op.token]);
                }
            }
        }
        sent
    }
}

fn reply(result: u64, commit: u64) -> Vec<u8> {
    [result.to_le_bytes(), commit.to_le_bytes()].concat()
}
