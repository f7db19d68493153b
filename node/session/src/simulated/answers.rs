//! How the simulated node handles the messages of the store.

use std::time::Duration;

use super::checker::Checker;
use super::node::{Node, Stage, moment};
use super::packet::{Act, Kind, Op, Packet};
use super::planted::Planted;
use super::program::{Doing, GUARDED, Program, Step};
use super::store::SLOTS;
use crate::change::{Delivery, Inbox, Received};
use crate::exclusive::Recall;
use crate::lease::{Lease, Standing};
use crate::slot::{Effect, Replayed, Slots};
use crate::{Boot, CallId, Moment, Position};

impl Node {
    /// A message of the store.
    pub(super) fn receive(&mut self, packet: &Packet, now: Moment, checker: &mut Checker) -> Vec<Packet> {
        let is_own = packet.incarnation == self.incarnation || packet.kind() == Kind::NoSession;
        if packet.session != self.session || !is_own {
            return Vec::new();
        }
        if self.standing(now) == Standing::Expired {
            self.lose(checker);
            return Vec::new();
        }
        let mut sent = Vec::new();
        match packet.kind() {
            Kind::Resume => self.resumed(packet, now, checker),
            Kind::Relock => self.relocked(packet, checker),
            Kind::Replay => self.replayed(packet, checker),
            Kind::Reclaimed => {
                if self.stage == Stage::Reclaiming && self.relocks.is_empty() && self.slots.next_replay().is_none() {
                    self.stage = Stage::Up;
                }
            }
            Kind::Renew => sent.extend(self.renewed(packet, now)),
            Kind::Change => self.changed(packet, checker),
            Kind::Read => self.has_read(packet, checker),
            Kind::Deliver => sent.push(self.deliver(packet)),
            Kind::Sync => self.synced(packet),
            Kind::Exclusive => {
                if packet.boot == self.boot.0 && self.stage == Stage::Up {
                    self.delegation.granted(packet.number);
                }
            }
            Kind::Recall => sent.extend(self.recalled(packet.number)),
            Kind::NoSession => {
                // Also an opening: its session may have been opened and ended while the answer was lost, and the id of an
                // ended session is not used again.
                self.lose(checker);
            }
            Kind::Acknowledge | Kind::None => {}
        }
        if self.stage == Stage::Reclaiming && matches!(packet.kind(), Kind::Resume | Kind::Relock | Kind::Replay) {
            sent.extend(self.reclaim());
        }
        sent.extend(self.pump(now));
        sent
    }

    fn resumed(&mut self, packet: &Packet, now: Moment, checker: &mut Checker) {
        if self.stage != Stage::Resuming || packet.incarnation != self.incarnation {
            return;
        }
        let boot = Boot(packet.boot);
        let is_other = boot != self.boot;
        let calls: Vec<CallId> = packet.recorded.iter().map(|one| recorded(one).0).collect();
        let sent = if self.planted == Planted::CountsFromAnswer { now } else { moment(packet.number) };
        let age = Duration::from_micros(packet.age);
        match (&mut self.lease, sent.before(age)) {
            (Some(lease), Some(renewed)) => drop(lease.renewed(renewed)),
            (Some(_), None) => {}
            (none @ None, _) => *none = Some(Lease::aged(self.terms, sent, age)),
        }
        if self.is_successor || !self.is_open {
            self.slots = Slots::inherited(SLOTS, boot, &calls);
            self.inbox = Inbox::inherited(boot, packet.included);
            self.adopt(packet);
        } else if is_other {
            self.slots.resumed(boot, &calls);
            self.inbox.resumed(boot);
            while let Some((_, call, _)) = self.slots.next_replay().filter(|_| self.planted == Planted::NoReplay) {
                self.slots.replayed(call, Replayed::Lost);
            }
        }
        if is_other && self.is_uncertain {
            self.lost();
        }
        let reclaims = is_other && self.planted != Planted::NoReclaim;
        let holds = self.programs.iter().filter(|program| program.has_lock && reclaims);
        self.relocks = holds.map(|program| program.number).collect();
        (self.boot, self.is_open, self.is_successor) = (boot, true, false);
        self.stage = Stage::Reclaiming;
        checker.note(|| format!("node {} resumes session {}", self.id, self.session));
    }

    /// Calls that the process before this one sent, and that the store recorded, are taken up under their numbers.
    fn adopt(&mut self, packet: &Packet) {
        for one in &packet.recorded {
            let (call, digest) = recorded(one);
            let is_it = |op: &Op| op.digest().0[..] == digest[..];
            if self.behind.front().is_some_and(is_it) && self.slots.adopt(call, self.behind[0].clone()) {
                self.flushing = Some(call);
            }
            for program in &mut self.programs {
                if let Doing::Change { op, call: known } = &mut program.doing
                    && is_it(op)
                    && self.slots.adopt(call, op.clone())
                {
                    *known = Some(call);
                }
            }
        }
    }

    fn relocked(&mut self, packet: &Packet, checker: &mut Checker) {
        if !self.relocks.contains(&packet.number) {
            return;
        }
        self.relocks.retain(|number| *number != packet.number);
        if packet.result == 0 {
            checker.leaves(packet.number);
            self.programs.iter_mut().filter(|program| program.number == packet.number).for_each(Program::fail);
        }
    }

    fn replayed(&mut self, packet: &Packet, checker: &mut Checker) {
        let op = packet.op.clone().unwrap_or_default();
        let result =
            if packet.result == 0 { Replayed::Lost } else { Replayed::Same(Effect::Changed(packet.position())) };
        if self.slots.replayed(packet.call(), result) && result == Replayed::Lost {
            self.lost();
            checker.forgives(self.id, |_, token| token == op.token);
        }
    }

    fn renewed(&mut self, packet: &Packet, now: Moment) -> Option<Packet> {
        let sent = if self.planted == Planted::CountsFromAnswer { now } else { moment(packet.number) };
        let lease = self.lease.as_mut()?;
        lease.renewed(sent);
        let is_behind = packet.boot == self.boot.0 && packet.included > self.inbox.applied();
        is_behind.then(|| self.packet(Kind::Deliver))
    }

    fn changed(&mut self, packet: &Packet, checker: &mut Checker) {
        let effect = if packet.commit == 0 { Effect::Unchanged } else { Effect::Changed(packet.position()) };
        if !self.slots.answered(packet.call(), effect) {
            return;
        }
        let (boot, answered) = (Boot(packet.boot), self.planted == Planted::AnsweredIsSynced);
        let commit = if answered { packet.synced.max(packet.commit) } else { packet.synced };
        self.slots.synced(Position { boot, commit });
        self.own_changes += 1;
        if self.flushing == Some(packet.call()) {
            self.flushing = None;
            self.behind.pop_front();
            return;
        }
        let is_its = |program: &&mut Program| matches!(&program.doing, Doing::Change { call: Some(call), .. } if *call == packet.call());
        let Some(program) = self.programs.iter_mut().find(is_its) else { return };
        let Doing::Change { op, .. } = std::mem::take(&mut program.doing) else { return };
        self.cache.remove(&op.file);
        if packet.result == 0 {
            program.script.clear();
        } else if op.act() == Act::Lock {
            program.has_lock = true;
            self.entered.push(program.number);
        } else {
            checker.note(|| format!("node {} has the answer to {op:?}", self.id));
            checker.acknowledged(&op);
        }
    }

    fn has_read(&mut self, packet: &Packet, checker: &mut Checker) {
        let is_its =
            |program: &&mut Program| matches!(&program.doing, Doing::Read { number, .. } if *number == packet.number);
        let Some(program) = self.programs.iter_mut().find(is_its) else { return };
        let Doing::Read { file, required, epoch, .. } = std::mem::take(&mut program.doing) else { return };
        if file == GUARDED {
            program.seen = packet.tokens.first().copied().unwrap_or_default();
            if program.script.front() != Some(&Step::Raise) {
                program.script.clear();
            }
            return;
        }
        checker.read(&format!("node {} from the store", self.id), &required, &packet.tokens);
        let in_flight = self.slots.unanswered().iter().any(|(_, op)| op.file == file);
        let is_current = self.inbox.may_cache(Boot(packet.boot), packet.included) && epoch == self.own_changes;
        let is_current = is_current || self.planted == Planted::CachesAnything;
        if is_current && !in_flight && self.behind.is_empty() {
            self.cache.insert(file, packet.tokens.clone());
        }
    }

    fn deliver(&mut self, packet: &Packet) -> Packet {
        let delivery = packet.tokens.first().map_or(Delivery::All, |file| Delivery::One(*file));
        let mut received = self.inbox.receive(Boot(packet.boot), packet.number, &delivery);
        if received == Received::Gap && self.planted == Planted::SkipsGaps {
            received = self.inbox.receive(Boot(packet.boot), packet.number, &Delivery::<u64>::All);
        }
        match (received, delivery) {
            (Received::Apply, Delivery::One(file)) => drop(self.cache.remove(&file)),
            (Received::Apply, Delivery::All) => self.cache.clear(),
            (Received::Gap, _) => return self.packet(Kind::Deliver),
            (Received::Repeated | Received::Foreign, _) => {}
        }
        Packet { number: self.inbox.applied(), ..self.packet(Kind::Acknowledge) }
    }

    fn synced(&mut self, packet: &Packet) {
        let is_its =
            |program: &&mut Program| matches!(&program.doing, Doing::Sync { number, .. } if *number == packet.number);
        self.slots.synced(Position { boot: Boot(packet.boot), commit: packet.synced });
        self.is_uncertain = false;
        let Some(program) = self.programs.iter_mut().find(is_its) else { return };
        let Doing::Sync { tokens, .. } = std::mem::take(&mut program.doing) else { return };
        // Otherwise fsync answers EIO, once.
        if !std::mem::take(&mut program.has_lost) {
            self.synced_tokens.extend(tokens);
        }
    }

    /// A change that was answered is lost.
    fn lost(&mut self) {
        self.programs.iter_mut().for_each(|program| program.has_lost = true);
    }

    fn recalled(&mut self, grant: u64) -> Option<Packet> {
        match self.delegation.recall(grant) {
            Recall::Return => Some(Packet { number: grant, ..self.packet(Kind::Recall) }),
            Recall::Flush => {
                self.returning = Some(grant);
                let is_sent = self.behind.is_empty() || self.planted == Planted::ReturnsEarly;
                if is_sent { self.give_back() } else { None }
            }
        }
    }
}

fn recorded(one: &super::packet::Recorded) -> (CallId, Vec<u8>) {
    (CallId { slot: one.slot, sequence: one.sequence }, one.digest.to_vec())
}
