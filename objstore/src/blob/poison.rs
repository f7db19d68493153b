//! The memory of a failed sync.
//!
//! - Once poisoned, poisoned until the store is reopened: the kernel reports a lost write once, and what a later sync
//!   says about the same bytes is worth nothing.

use std::sync::{Arc, OnceLock};

use crate::error::{Error, Result};

/// Whether a sync failed; shared by all that write content.
#[derive(Clone, Default)]
pub(super) struct Poison(Arc<OnceLock<String>>);

impl Poison {
    /// Refuses when a sync has failed.
    pub(super) fn check(&self) -> Result<()> {
        match self.0.get() {
            Some(why) => Err(Error::Poisoned { why: why.clone() }),
            None => Ok(()),
        }
    }

    /// Hands a sync's result on; a failure poisons.
    pub(super) fn judge<T>(&self, synced: Result<T>) -> Result<T> {
        if let Err(error) = &synced {
            self.0.get_or_init(|| describe(error));
        }
        synced
    }

    /// The first failure.
    pub(super) fn why(&self) -> Option<String> {
        self.0.get().cloned()
    }
}

fn describe(error: &Error) -> String {
    match error {
        Error::Io { what, source } => format!("{what}: {source}"),
        other => other.to_string(),
    }
}
