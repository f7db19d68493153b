//! Errors of a log. Each says whether something may have been changed, and what the caller does next.

use std::time::Duration;

use crate::owner::Epoch;

/// The result of a log operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation on a log failed. Nothing was changed, except perhaps with [`Error::Indeterminate`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Another ownership has begun. The caller steps down.
    #[error("another server has taken the log over: epoch {epoch} has ended")]
    Fenced {
        /// The epoch of the caller.
        epoch: Epoch,
    },
    /// The lease of the present owner has not ended. The caller tries again later.
    #[error("the server \"{server}\" owns the log; its lease ends in {} ms unless it is renewed", remaining.as_millis())]
    Held {
        /// The name of the owner.
        server: String,
        /// How long its lease still lasts.
        remaining: Duration,
    },
    /// The log has an entry of this number, or had one. The caller steps down.
    #[error("the log already has an entry {number}")]
    Taken {
        /// The number of the first entry of the refused batch.
        number: u64,
    },
    /// The entry was trimmed. The caller begins with a checkpoint.
    #[error("the log begins with entry {first}: earlier entries were trimmed")]
    Trimmed {
        /// The first entry that is left.
        first: u64,
    },
    /// The engine could not be reached, or refused. The caller may try again.
    #[error("the log is not available: {why}")]
    Unavailable {
        /// What happened.
        why: String,
    },
    /// It is unknown whether the change was made, or will be. The caller steps down.
    #[error("it is unknown whether the log has received a change: {why}")]
    Indeterminate {
        /// What happened.
        why: String,
    },
    /// The engine cannot be used as it is.
    #[error("{why}")]
    Unusable {
        /// What is wrong, and what to do.
        why: String,
    },
    /// The caller asked for something impossible.
    #[error("{why}")]
    Invalid {
        /// What is wrong.
        why: String,
    },
}
