//! The history of one key: requests, their times and responses.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// The effect on the key, or its state, that an answer states. The state is the ETag of the object, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Created the object; the key had none.
    Created(String),
    /// Replaced the object with the first ETag.
    Swapped { from: String, to: String },
    /// Deleted the object with this ETag.
    Removed(String),
    /// Found this state.
    Found(Option<String>),
    /// Found an object with any ETag but this one.
    FoundOther(Option<String>),
    /// Did nothing, because another request was in progress (`409 ConditionalRequestConflict`).
    Nothing,
}

impl Effect {
    /// The state after the operation; `None` if the state before it does not allow it.
    pub fn apply(&self, state: &Option<String>) -> Option<Option<String>> {
        let holds = |etag: &String| state.as_ref() == Some(etag);
        match self {
            Self::Created(etag) => state.is_none().then(|| Some(etag.clone())),
            Self::Swapped { from, to } => holds(from).then(|| Some(to.clone())),
            Self::Removed(etag) => holds(etag).then_some(None),
            Self::Found(found) => (found == state).then(|| state.clone()),
            Self::FoundOther(etag) => (state.is_some() && etag != state).then(|| state.clone()),
            Self::Nothing => Some(state.clone()),
        }
    }

    /// Whether it changes what the key holds.
    pub fn writes(&self) -> bool {
        matches!(self, Self::Created(_) | Self::Swapped { .. } | Self::Removed(_))
    }
}

/// One request.
#[derive(Clone, Debug)]
pub struct Operation {
    pub client: usize,
    pub what: &'static str,
    pub start: Instant,
    pub end: Instant,
    pub effect: Effect,
}

/// All requests of one round, by all clients.
#[derive(Debug, Default)]
pub struct History {
    operations: Mutex<Vec<Operation>>,
}

impl History {
    pub fn add(&self, operation: Operation) {
        self.operations.lock().unwrap_or_else(PoisonError::into_inner).push(operation);
    }

    /// The operations by their start.
    pub fn take(&self) -> Vec<Operation> {
        let mut all = std::mem::take(&mut *self.operations.lock().unwrap_or_else(PoisonError::into_inner));
        all.sort_by_key(|operation| operation.start);
        all
    }
}

/// Shows times from the first start on.
pub struct Shown<'a>(pub &'a [Operation]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.0.first() else { return Ok(()) };
        for operation in self.0 {
            let [start, end] = [operation.start, operation.end].map(|at| (at - first.start).as_micros());
            let Operation { client, what, effect, .. } = operation;
            writeln!(f, "{start:>8}..{end:<8} us  client {client:>2}  {what}: {effect:?}")?;
        }
        Ok(())
    }
}
