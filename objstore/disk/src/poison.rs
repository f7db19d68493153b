//! The record of a failed write or sync, shared by all of a store: metadata and content.
//!
//! - A poisoned store stays poisoned until it is reopened: the kernel reports a lost write once, so what a later sync
//!   says about the same bytes means nothing.
//! - After a failed commit it is unknown whether the commit is on disk. So code that removes content checks this first:
//!   what a record that may exist refers to has to stay until opening the store has shown which records there are.

use std::sync::{Arc, OnceLock};

use objstore_base::error::{Error, Result};

/// Whether a write to disk failed; shared by all code that writes.
#[derive(Clone, Debug, Default)]
pub struct Poison(Arc<OnceLock<String>>);

impl Poison {
    /// Refuses if a write to disk has failed.
    pub fn check(&self) -> Result<()> {
        match self.0.get() {
            Some(why) => Err(Error::Poisoned { why: why.clone() }),
            None => Ok(()),
        }
    }

    /// Passes on the result of a sync; an error poisons the store.
    pub fn judge<T>(&self, synced: Result<T>) -> Result<T> {
        synced.inspect_err(|error| {
            self.set(error);
        })
    }

    /// Poisons the store; returns the first failure, which is the reason.
    pub fn set(&self, error: &Error) -> String {
        self.0.get_or_init(|| describe(error)).clone()
    }

    /// The first failure, if there was one.
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
