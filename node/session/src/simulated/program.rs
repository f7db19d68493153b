//! The programs of a node: one call at a time, and sometimes a section under the lock.

use std::collections::VecDeque;

use super::packet::{Act, Op};
use crate::CallId;

/// The file that stands for the guarded number.
pub(super) const GUARDED: u64 = u64::MAX;

/// What a program does under the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Lock,
    Read,
    Raise,
    Unlock,
}

/// The call of a program.
#[derive(Clone, Debug, Default)]
pub(super) enum Doing {
    #[default]
    Nothing,
    Change {
        op: Op,
        call: Option<CallId>,
    },
    Read {
        file: u64,
        number: u64,
        /// What the answer has to contain, as far as it was known to anyone when the call began.
        required: Vec<u64>,
        /// How many own changes the node had then.
        epoch: u64,
    },
    Sync {
        number: u64,
        tokens: Vec<u64>,
    },
}

/// A program.
#[derive(Clone, Debug)]
pub(super) struct Program {
    /// Unique in the run.
    pub(super) number: u64,
    pub(super) doing: Doing,
    pub(super) script: VecDeque<Step>,
    pub(super) has_lock: bool,
    pub(super) seen: u64,
    /// A change that was answered is lost: the next fsync answers EIO.
    pub(super) has_lost: bool,
}

impl Program {
    pub(super) fn new(number: u64) -> Self {
        Self { number, doing: Doing::Nothing, script: VecDeque::new(), has_lock: false, seen: 0, has_lost: false }
    }

    pub(super) fn is_idle(&self) -> bool {
        matches!(self.doing, Doing::Nothing)
    }

    /// The program gets an error: its session is lost, or its lock.
    pub(super) fn fail(&mut self) {
        *self = Self { seen: self.seen, ..Self::new(self.number) };
    }

    /// The change of a step under the lock.
    pub(super) fn change(&self, step: Step) -> Option<Op> {
        match step {
            Step::Lock => Some(Op::new(Act::Lock, 0, self.number)),
            Step::Raise => Some(Op::new(Act::Raise, 0, self.seen + 1)),
            Step::Unlock => Some(Op::new(Act::Unlock, 0, self.number)),
            Step::Read => None,
        }
    }
}
