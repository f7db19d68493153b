//! What happens to messages between an owner and a log in memory.

use crate::batch::Batch;
use crate::log::Done;

/// Chooses what is lost, delayed and reordered.
pub struct Faults {
    choose: Option<Box<dyn FnMut(usize) -> usize + Send>>,
    one_in: usize,
}

/// What happens to an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Answered,
    /// The entries are in the log, and the owner does not know.
    AnswerLost,
    /// The entries are not in the log, and the owner does not know.
    RequestLost,
    /// The owner has given up; the entries may arrive later.
    Late,
    /// The engine refused, and the owner knows.
    Refused,
}

/// An append that has not reached the log; without a `done`, its sender has had an answer.
pub(super) struct UnderWay {
    pub batch: Batch,
    pub done: Option<Done>,
}

impl Faults {
    /// Every append arrives at once, in order, and is answered.
    pub fn none() -> Self {
        Self { choose: None, one_in: 0 }
    }

    /// Takes its choices from `choose`, which returns a number below its argument. Appends are delayed and reordered;
    /// one in `one_in` is lost, in one way or another (none if that is 0).
    pub fn chosen(choose: impl FnMut(usize) -> usize + Send + 'static, one_in: usize) -> Self {
        Self { choose: Some(Box::new(choose)), one_in }
    }

    /// A number below `end`.
    pub(super) fn choose(&mut self, end: usize) -> usize {
        self.choose.as_mut().map_or(0, |choose| choose(end))
    }

    /// Whether one more message arrives now.
    pub(super) fn arrives(&mut self) -> bool {
        self.choose.is_none() || self.choose(2) == 0
    }

    pub(super) fn fate(&mut self) -> Fate {
        if self.one_in == 0 || self.choose(self.one_in) > 0 {
            return Fate::Answered;
        }
        [Fate::AnswerLost, Fate::RequestLost, Fate::Late, Fate::Refused][self.choose(4)]
    }
}
