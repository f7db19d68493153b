//! The checker of the promises that hold in every schedule. It sees the state of all machines at once.

use std::collections::{BTreeMap, BTreeSet};

use super::packet::{Act, Op};

/// What became of a token.
#[derive(Clone, Debug, Default)]
struct Fate {
    file: u64,
    node: usize,
    session: u64,
    /// Its place in the list, when it was last done.
    place: Option<usize>,
    /// A program has the answer.
    is_acknowledged: bool,
    /// An fsync after the answer succeeded, or S3 answered.
    is_synced: bool,
    /// It may be absent: it was answered, never synced, and the one that could have sent it again is gone.
    is_forgiven: bool,
}

/// The state of the check.
#[derive(Debug, Default)]
pub(super) struct Checker {
    tokens: BTreeMap<u64, Fate>,
    ended: BTreeSet<u64>,
    critical: BTreeMap<u64, usize>,
    /// A session ended or a process lost its memory, so what only it could send again may be missing.
    is_impaired: bool,
    /// What happened, for the message.
    pub(super) notes: Vec<String>,
    pub(super) violation: Option<String>,
    pub(super) acknowledged: u64,
}

impl Checker {
    pub(super) fn note(&mut self, note: impl FnOnce() -> String) {
        if self.notes.len() < 4000 {
            self.notes.push(note());
        }
    }

    pub(super) fn fail(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    /// A node, or S3 (`usize::MAX`), begins a change with this token.
    pub(super) fn begins(&mut self, (node, session): (usize, u64), op: &Op) {
        if matches!(op.act(), Act::Append | Act::Create) {
            self.tokens.insert(op.token, Fate { file: op.file, node, session, ..Fate::default() });
        }
    }

    /// A program has the answer to its change.
    pub(super) fn acknowledged(&mut self, op: &Op) {
        self.acknowledged += 1;
        if let Some(fate) = self.tokens.get_mut(&op.token).filter(|_| matches!(op.act(), Act::Append | Act::Create)) {
            fate.is_acknowledged = true;
        }
    }

    /// The answered changes of a session, which a sync that begins now covers.
    pub(super) fn answered_of(&self, session: u64) -> Vec<u64> {
        let of_session = self.tokens.iter().filter(|(_, fate)| fate.session == session && fate.is_acknowledged);
        of_session.filter(|(_, fate)| !fate.is_synced && !fate.is_forgiven).map(|(token, _)| *token).collect()
    }

    pub(super) fn synced(&mut self, tokens: &[u64]) {
        for token in tokens {
            let fate = self.tokens.get_mut(token).expect("a token of the run");
            fate.is_synced = true;
        }
    }

    /// What a node answered and did not sync may be lost: its session is lost, or it lost its memory.
    pub(super) fn forgives(&mut self, node: usize, absent: impl Fn(u64, u64) -> bool) {
        self.is_impaired = true;
        for (token, fate) in self.tokens.iter_mut().filter(|(_, fate)| fate.node == node && !fate.is_synced) {
            fate.is_forgiven |= absent(fate.file, *token);
        }
    }

    /// The tokens that a read of a file which begins now has to contain.
    pub(super) fn required(&self, file: u64) -> Vec<u64> {
        let of_file = self.tokens.iter().filter(|(_, fate)| fate.file == file && fate.is_acknowledged);
        of_file.map(|(token, _)| *token).collect()
    }

    /// A read that began with this requirement returned these tokens.
    pub(super) fn read(&mut self, who: &str, required: &[u64], read: &[u64]) {
        let missing = required.iter().find(|token| {
            let fate = &self.tokens[*token];
            !fate.is_forgiven && !read.contains(token)
        });
        if let Some(token) = missing {
            let fate = self.tokens[token].clone();
            self.fail(format!("{who} read {read:?} and misses {token}, {fate:?}"));
        }
    }

    /// The store ends a session.
    pub(super) fn ended(&mut self, session: u64) {
        self.ended.insert(session);
    }

    /// The store does a change of a session, or does it again after a loss.
    pub(super) fn applied(&mut self, session: u64, op: &Op, list: &[u64], is_replay: bool) {
        if self.ended.contains(&session) {
            self.fail(format!("the ended session {session} did {op:?}"));
        }
        if op.act() == Act::Append && list.iter().filter(|token| **token == op.token).count() > 1 {
            self.fail(format!("{op:?} was done twice: {list:?}"));
        }
        let place = |token: &u64| self.tokens.get(token).and_then(|fate| fate.place);
        let later = list.iter().filter(|token| place(token) > place(&op.token)).count();
        if is_replay && op.act() == Act::Append && later > 0 && !self.is_impaired {
            self.fail(format!("{op:?} was done again behind a change that followed it: {list:?}"));
        }
        if let Some(fate) = self.tokens.get_mut(&op.token).filter(|_| op.act() == Act::Append) {
            fate.place = Some(list.len());
        }
    }

    /// The guarded number was to be raised, and was not the one before.
    pub(super) fn raised_wrongly(&mut self, op: &Op, guarded: u64, is_replay: bool) {
        // A number that was read and then lost with the only process that could raise it again is a loss, no lock's fault.
        let is_lost = self.is_impaired && op.token > guarded;
        if !is_replay && !is_lost {
            self.fail(format!("{op:?} over {guarded}: two programs had the lock"));
        } else if is_replay && !self.is_impaired {
            self.fail(format!("{op:?} over {guarded}: lost changes were done in another order"));
        }
    }

    /// A program enters the section that the lock guards; `believes` tells whether a node may still act on its lock.
    pub(super) fn enters(&mut self, program: u64, node: usize, mut believes: impl FnMut(usize) -> bool) {
        let other = self.critical.iter().find(|(other, node)| **other != program && believes(**node));
        if let Some((other, _)) = other {
            self.fail(format!("program {program} entered beside program {other}"));
        }
        self.critical.insert(program, node);
    }

    pub(super) fn leaves(&mut self, program: u64) {
        self.critical.remove(&program);
    }

    /// At the end, when everything is connected and quiet.
    pub(super) fn finally(&mut self, lists: &BTreeMap<u64, Vec<u64>>) {
        let lost = self.tokens.iter().find(|(token, fate)| {
            let kept = lists.get(&fate.file).is_some_and(|list| list.contains(token));
            fate.is_acknowledged && !fate.is_forgiven && !kept
        });
        if let Some((token, fate)) = lost {
            let what = format!("the acknowledged {token} is lost: {fate:?}");
            self.fail(what);
        }
    }
}
