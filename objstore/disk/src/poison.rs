//! The memory of a failed write or sync, one for all of a store: metadata and content.
//!
//! - Once poisoned, poisoned until the store is reopened: the kernel reports a lost write once, and what a later sync
//!   says about the same bytes is worth nothing.
//! - Of a failed commit nobody knows whether it is on disk. So whoever removes content asks here first: what a record
//!   that may be there names has to stay until opening the store has shown which records there are.

use std::sync::{Arc, OnceLock};

use objstore_base::error::{Error, Result};

/// Whether a write to disk failed; shared by all that write.
#[derive(Clone, Debug, Default)]
pub struct Poison(Arc<OnceLock<String>>);

impl Poison {
    /// Refuses when a write to disk has failed.
    pub fn check(&self) -> Result<()> {
        match self.0.get() {
            Some(why) => Err(Error::Poisoned { why: why.clone() }),
            None => Ok(()),
        }
    }

    /// Hands a sync's result on; a failure poisons.
    pub fn judge<T>(&self, synced: Result<T>) -> Result<T> {
        synced.inspect_err(|error| {
            self.set(error);
        })
    }

    /// Poisons; gives the first failure, which is the reason.
    pub fn set(&self, error: &Error) -> String {
        self.0.get_or_init(|| describe(error)).clone()
    }

    /// The first failure.
    pub fn why(&self) -> Option<String> {
        self.0.get().cloned()
    }
}

fn describe(error: &Error) -> String {
    match error {
        Error::Io { what, source } => format!("{what}: {source}"),
        other => other.to_string(),
    }
}
