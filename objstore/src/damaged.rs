//! Damaged records at the opening of a store: each is logged and skipped, and everything else is served (decision
//! 0074).

use crate::error::{Error, Result};

/// The value read from one record while a store opens. A damaged record is skipped, and everything else is served.
/// `None`, with an error in the log that names `what`, where it is damaged.
pub fn unless_damaged<T>(what: impl std::fmt::Display, read: Result<T>) -> Result<Option<T>> {
    match read {
        Err(error @ Error::Corrupt { .. }) => {
            tracing::error!(
                %what, %error,
                "a damaged record is skipped at the start; stop the server and run `amphora check --repair`"
            );
            Ok(None)
        }
        read => read.map(Some),
    }
}
