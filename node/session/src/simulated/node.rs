//! The simulated node: caches, programs, and the state machines of the node's side.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use objstore_testing::random::Choices;

use super::checker::Checker;
use super::packet::{Act, Kind, Op, Packet};
use super::planted::Planted;
use super::program::{Doing, GUARDED, Program, Step};
use super::store::SLOTS;
use crate::change::Inbox;
use crate::exclusive::Delegation;
use crate::lease::{Lease, Standing};
use crate::slot::Slots;
use crate::{Boot, CallId, Moment, SessionId, Terms};

/// How far the connection to the store is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Away,
    /// The session is opened or resumed.
    Resuming,
    /// Locks and lost changes are sent.
    Reclaiming,
    Up,
}

/// The node's process, and what outlives it: the programs, the session's id, and changes that were answered here.
pub(super) struct Node {
    pub(super) id: usize,
    pub(super) terms: Terms,
    pub(super) planted: Planted,
    pub(super) session: u64,
    pub(super) is_open: bool,
    pub(super) incarnation: u64,
    /// The life of the store that the connection leads to.
    pub(super) connected: u64,
    pub(super) stage: Stage,
    pub(super) boot: Boot,
    pub(super) lease: Option<Lease>,
    pub(super) slots: Slots<Op>,
    pub(super) inbox: Inbox,
    pub(super) delegation: Delegation,
    /// Changes that were answered here under the exclusive lease. They outlive the process.
    pub(super) behind: VecDeque<Op>,
    pub(super) flushing: Option<CallId>,
    /// The grant to return once everything is sent.
    pub(super) returning: Option<u64>,
    pub(super) cache: BTreeMap<u64, Vec<u64>>,
    /// Rises with each change of this node that is sent or answered.
    pub(super) own_changes: u64,
    pub(super) programs: Vec<Program>,
    pub(super) relocks: Vec<u64>,
    /// Changes of an earlier process may be unsynced, and no process could send them again.
    pub(super) is_uncertain: bool,
    /// What syncs covered since the world looked.
    pub(super) synced_tokens: Vec<u64>,
    /// The process began after the session did.
    pub(super) is_successor: bool,
    pub(super) last: u64,
    /// Programs that entered the section under the lock since the world looked.
    pub(super) entered: Vec<u64>,
    pub(super) is_working: bool,
}

impl Node {
    pub(super) fn new(id: usize, terms: Terms, planted: Planted) -> Self {
        let number = |index| id as u64 * 10 + index;
        Self {
            id,
            terms,
            planted,
            session: id as u64 * 1000 + 1,
            is_open: false,
            incarnation: 1,
            connected: 0,
            stage: Stage::Away,
            boot: Boot(0),
            lease: None,
            slots: Slots::new(SLOTS, Boot(0)),
            inbox: Inbox::new(Boot(0)),
            delegation: Delegation::default(),
            behind: VecDeque::new(),
            flushing: None,
            returning: None,
            cache: BTreeMap::new(),
            own_changes: 0,
            programs: (1..=2).map(|index| Program::new(number(index))).collect(),
            relocks: Vec::new(),
            is_uncertain: false,
            synced_tokens: Vec::new(),
            is_successor: false,
            last: 0,
            entered: Vec::new(),
            is_working: true,
        }
    }

    /// The session's id.
    pub(super) fn session(&self) -> SessionId {
        SessionId(self.session.into())
    }

    /// The process dies and the next one begins.
    pub(super) fn restart(&mut self) {
        let old = std::mem::replace(self, Self::new(self.id, self.terms, self.planted));
        self.session = old.session;
        self.is_open = old.is_open;
        self.incarnation = old.incarnation + 1;
        self.behind = old.behind;
        self.delegation = old.delegation;
        self.programs = old.programs;
        self.last = old.last + 1000;
        self.own_changes = old.own_changes + 1;
        self.is_successor = true;
        self.is_uncertain = true;
        // Locks may have to be reclaimed again if the other process had not said that it was done.
        self.boot = if old.stage == Stage::Up { old.boot } else { Boot(0) };
        self.is_working = old.is_working;
        for program in &mut self.programs {
            if let Doing::Change { call, .. } = &mut program.doing {
                *call = None;
            }
        }
    }

    /// What the lease allows. A process that has not resumed its session may serve nothing.
    pub(super) fn standing(&mut self, now: Moment) -> Standing {
        let standing = self.lease.as_mut().map_or(Standing::Stale, |lease| lease.standing(now));
        if self.planted == Planted::ServesStale && self.lease.is_some() { Standing::Fresh } else { standing }
    }

    pub(super) fn has_exclusive(&mut self, now: Moment) -> bool {
        self.delegation.may_answer() && self.standing(now) == Standing::Fresh
    }

    pub(super) fn packet(&self, kind: Kind) -> Packet {
        let (session, incarnation, boot) = (self.session, self.incarnation, self.boot.0);
        Packet { session, incarnation, boot, ..Packet::new(kind) }
    }

    pub(super) fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// The session is lost: caches and what was not sent are dropped, programs get errors, and a new session begins.
    pub(super) fn lose(&mut self, checker: &mut Checker) {
        let (stage, applied) = (self.stage, self.inbox.applied());
        checker.note(|| format!("node {} loses session {}, {stage:?}, {applied} applied", self.id, self.session));
        let mut programs = std::mem::take(&mut self.programs);
        for program in &mut programs {
            checker.leaves(program.number);
            program.fail();
        }
        let next = Self::new(self.id, self.terms, self.planted);
        let old = std::mem::replace(self, next);
        self.programs = programs;
        self.session = old.session + 1;
        self.last = old.last;
        self.own_changes = old.own_changes + 1;
        self.is_working = old.is_working;
    }

    /// What happens without a message.
    pub(super) fn tick(
        &mut self,
        now: Moment,
        store: u64,
        choices: &mut Choices,
        checker: &mut Checker,
    ) -> Vec<Packet> {
        if self.standing(now) == Standing::Expired {
            self.lose(checker);
        }
        let mut sent = Vec::new();
        if self.connected != store {
            self.connected = store;
            self.stage = Stage::Resuming;
        }
        if self.stage == Stage::Resuming && choices.once_in(2) {
            sent.push(self.resume(now));
        }
        if self.stage == Stage::Reclaiming && choices.once_in(2) {
            sent.extend(self.reclaim());
        }
        if self.stage == Stage::Up {
            let is_due = self.lease.as_ref().is_some_and(|lease| lease.cacheable(now) < self.terms.fresh() / 2);
            if is_due || choices.once_in(3) {
                let number = micros(now);
                sent.push(Packet { number, ..self.packet(Kind::Renew) });
            }
            if choices.once_in(3) {
                sent.extend(self.resend());
            }
            if self.is_uncertain {
                sent.push(self.packet(Kind::Sync));
            }
            if self.is_working && choices.once_in(6) {
                sent.push(self.packet(Kind::Exclusive));
            }
        }
        for index in 0..self.programs.len() {
            if self.lease.is_some() && self.programs[index].is_idle() && choices.once_in(3) {
                self.work(index, now, choices, checker);
            }
        }
        sent.extend(self.pump(now));
        sent
    }

    fn resume(&mut self, now: Moment) -> Packet {
        let result = u64::from(!self.is_open);
        Packet { number: micros(now), result, ..self.packet(Kind::Resume) }
    }

    /// The next thing to reclaim.
    pub(super) fn reclaim(&mut self) -> Option<Packet> {
        if let Some(number) = self.relocks.first().copied() {
            return Some(Packet { number, ..self.packet(Kind::Relock) });
        }
        match self.slots.next_replay() {
            Some((position, call, op)) => {
                let (boot, commit) = (position.boot.0, position.commit);
                Some(Packet { boot, commit, op: Some(op), ..self.packet(Kind::Replay) }.with_call(call))
            }
            None => Some(self.packet(Kind::Reclaimed)),
        }
    }

    /// Sends again what has no answer.
    fn resend(&mut self) -> Vec<Packet> {
        if self.planted == Planted::NewNumber {
            self.renumber();
        }
        let calls = self.slots.unanswered().into_iter();
        let mut sent: Vec<_> = calls.map(|(call, op)| self.change(call, op)).collect();
        for program in &self.programs {
            match &program.doing {
                Doing::Read { file, number, .. } if self.behind.is_empty() => {
                    let op = Some(Op::new(Act::None, *file, 0));
                    sent.push(Packet { number: *number, op, ..self.packet(Kind::Read) });
                }
                Doing::Sync { number, .. } if self.behind.is_empty() => {
                    sent.push(Packet { number: *number, ..self.packet(Kind::Sync) });
                }
                _ => {}
            }
        }
        sent
    }

    fn renumber(&mut self) {
        for program in &mut self.programs {
            if let Doing::Change { call: Some(call), op } = &mut program.doing {
                self.slots.answered(*call, crate::slot::Effect::Unchanged);
                if let Some(next) = self.slots.begin(op.clone()) {
                    *call = next;
                }
            }
        }
    }

    pub(super) fn change(&self, call: CallId, op: Op) -> Packet {
        Packet { op: Some(op), ..self.packet(Kind::Change) }.with_call(call)
    }

    /// A program does something next.
    fn work(&mut self, index: usize, now: Moment, choices: &mut Choices, checker: &mut Checker) {
        let program = &mut self.programs[index];
        if program.script.is_empty() {
            if !self.is_working {
                return;
            }
            let file = choices.below_u64(3);
            match choices.below(20) {
                0..=7 => self.read(index, file, now, checker),
                8..=13 => {
                    let op = Op::new(Act::Append, file, self.token());
                    self.begin(index, op, now, checker);
                }
                14 => {
                    let op = Op::new(Act::Create, 10 + choices.below_u64(4), self.token());
                    self.begin(index, op, now, checker);
                }
                15 | 16 => {
                    let (number, tokens) = (self.number(), checker.answered_of(self.session));
                    self.programs[index].doing = Doing::Sync { number, tokens };
                }
                _ => program.script = [Step::Lock, Step::Read, Step::Raise, Step::Unlock].into(),
            }
            return;
        }
        let step = program.script.pop_front().expect("a step");
        match program.change(step) {
            Some(op) => {
                if step == Step::Unlock {
                    program.has_lock = false;
                    checker.leaves(program.number);
                }
                self.begin(index, op, now, checker);
            }
            None => self.read(index, GUARDED, now, checker),
        }
    }

    fn token(&mut self) -> u64 {
        self.number() * 100 + self.id as u64
    }

    /// A program asks for a change: answered here under the exclusive lease, by the store otherwise.
    fn begin(&mut self, index: usize, op: Op, now: Moment, checker: &mut Checker) {
        checker.begins((self.id, self.session), &op);
        let is_own = op.act() == Act::Append && self.has_exclusive(now);
        if let Some(list) = self.cache.get_mut(&op.file).filter(|_| is_own) {
            list.push(op.token);
            checker.note(|| format!("node answers {op:?} itself"));
            checker.acknowledged(&op);
            self.behind.push_back(op);
            return;
        }
        self.programs[index].doing = Doing::Change { op, call: None };
    }

    fn read(&mut self, index: usize, file: u64, now: Moment, checker: &mut Checker) {
        let required = checker.required(file);
        let cached = self.cache.get(&file).filter(|_| file != GUARDED).cloned();
        if let Some(list) = cached.filter(|_| self.standing(now) == Standing::Fresh) {
            checker.read(&format!("node {} from its cache", self.id), &required, &list);
            return;
        }
        let (number, epoch) = (self.number(), self.own_changes);
        self.programs[index].doing = Doing::Read { file, number, required, epoch };
    }

    /// Sends the changes that can be sent now: what was answered here comes first.
    pub(super) fn pump(&mut self, now: Moment) -> Vec<Packet> {
        let mut sent = Vec::new();
        if self.stage != Stage::Up || self.standing(now) == Standing::Expired {
            return sent;
        }
        if let (Some(op), None, true) = (self.behind.front().cloned(), self.flushing, self.is_flush_due()) {
            self.flushing = self.slots.begin(op.clone());
            sent.extend(self.flushing.map(|call| self.change(call, op)));
        }
        if self.behind.is_empty() {
            for index in 0..self.programs.len() {
                if let Doing::Change { op, call: call @ None } = &mut self.programs[index].doing {
                    *call = self.slots.begin(op.clone());
                    let (call, op) = (*call, op.clone());
                    self.cache.remove(&op.file);
                    self.own_changes += 1;
                    sent.extend(call.map(|call| self.change(call, op)));
                }
            }
            sent.extend(self.give_back());
        }
        sent
    }

    /// Whether what was answered here is to be sent now: the volume is wanted back, or something waits for it.
    fn is_flush_due(&self) -> bool {
        let waits = self.programs.iter().any(|program| !program.is_idle());
        waits || !self.delegation.may_answer() || self.behind.len() >= 4 || !self.is_working
    }

    /// Returns the exclusive lease, once it was recalled and everything is sent.
    pub(super) fn give_back(&mut self) -> Option<Packet> {
        let number = self.returning.take()?;
        self.delegation.flushed();
        Some(Packet { number, ..self.packet(Kind::Recall) })
    }
}

/// A node's time as a number that the store sends back.
pub(super) fn micros(now: Moment) -> u64 {
    u64::try_from(now.since(Moment::default()).as_micros()).unwrap_or(u64::MAX)
}

/// The moment of such a number.
pub(super) fn moment(micros: u64) -> Moment {
    Moment::after_start(Duration::from_micros(micros))
}
