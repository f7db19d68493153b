//! The disk of the simulated store: a log of commits. A power cut keeps the synced commits, and of the later ones any
//! number without a gap.

use std::collections::{BTreeMap, BTreeSet};

use super::packet::{Act, Op};
use crate::slot::{Outcome, Outcomes};
use crate::{CallId, SessionId};

/// One transaction.
#[derive(Clone, Debug)]
pub(super) enum Commit {
    Open(SessionId, usize),
    End(SessionId),
    /// A change, of a session or of S3, with the outcome of its slot.
    Change(Op, Option<(SessionId, CallId, Outcome)>),
    Grant(SessionId, u64),
    Returned,
}

/// What the log amounts to.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    /// The sessions with their nodes.
    pub(super) sessions: BTreeMap<SessionId, usize>,
    pub(super) outcomes: BTreeMap<(SessionId, u32), Outcome>,
    pub(super) lists: BTreeMap<u64, Vec<u64>>,
    pub(super) guarded: u64,
    pub(super) grant: Option<SessionId>,
    pub(super) last_grant: u64,
    /// Sessions that ended: a late opening does not revive one.
    pub(super) ended: BTreeSet<SessionId>,
}

/// The disk.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    log: Vec<Commit>,
    synced: usize,
    pub(super) state: State,
    /// A power cut may have lost commits that were not sent again yet.
    pub(super) is_cut: bool,
}

impl Outcomes for State {
    fn last(&self, session: SessionId, slot: u32) -> Option<Outcome> {
        self.outcomes.get(&(session, slot)).cloned()
    }
}

impl State {
    /// The result of a change, and whether it changes anything.
    pub(super) fn result(&self, op: &Op) -> (u64, bool) {
        match op.act() {
            Act::Append => (self.lists.get(&op.file).map_or(0, Vec::len) as u64 + 1, true),
            Act::Create if self.lists.get(&op.file).is_some_and(|list| !list.is_empty()) => (0, false),
            Act::Create => (1, true),
            Act::Raise => (u64::from(self.guarded + 1 == op.token), self.guarded + 1 == op.token),
            Act::None | Act::Lock | Act::Unlock => (1, false),
        }
    }

    fn apply(&mut self, commit: &Commit) {
        match commit {
            Commit::Open(session, node) => drop(self.sessions.insert(*session, *node)),
            Commit::End(session) => {
                self.sessions.remove(session);
                self.ended.insert(*session);
                self.outcomes.retain(|(of, _), _| of != session);
                self.grant = self.grant.filter(|holder| holder != session);
            }
            Commit::Change(op, outcome) => {
                if op.act() == Act::Raise {
                    self.guarded = op.token;
                } else {
                    self.lists.entry(op.file).or_default().push(op.token);
                }
                if let Some((session, call, outcome)) = outcome {
                    self.outcomes.insert((*session, call.slot), outcome.clone());
                }
            }
            Commit::Grant(session, number) => (self.grant, self.last_grant) = (Some(*session), *number),
            Commit::Returned => self.grant = None,
        }
    }
}

impl Ledger {
    /// Commits without a sync; the number of the commit.
    pub(super) fn commit(&mut self, commit: Commit) -> u64 {
        self.state.apply(&commit);
        self.log.push(commit);
        self.log.len() as u64
    }

    pub(super) fn sync(&mut self) {
        self.synced = self.log.len();
    }

    pub(super) fn synced(&self) -> u64 {
        self.synced as u64
    }

    /// Whether a power cut now would keep a token.
    pub(super) fn has_synced(&self, token: u64) -> bool {
        self.log[..self.synced].iter().any(|commit| matches!(commit, Commit::Change(op, _) if op.token == token))
    }

    pub(super) fn unsynced(&self) -> usize {
        self.log.len() - self.synced
    }

    /// A power cut keeps so many of the commits that were not synced.
    pub(super) fn cut(&mut self, kept: usize) {
        self.is_cut = true;
        self.log.truncate(self.synced + kept);
        self.synced = self.log.len();
        self.state = State::default();
        for commit in &self.log {
            self.state.apply(commit);
        }
    }
}
