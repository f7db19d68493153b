//! Errors of mounting and unmounting.

use std::io;
use std::path::{Path, PathBuf};

use crate::users::User;

pub(crate) use fuse_holder::with_causes;

/// The result of mounting or unmounting.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why mounting or unmounting failed. `Display` never prints its source.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This machine or process cannot mount FUSE at all.
    #[error("this process cannot mount: {why}")]
    Unable {
        /// What is missing and how to get it.
        why: &'static str,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The path cannot be used as a mount point.
    #[error("cannot mount at {}: {why}", path.display())]
    Target {
        /// The path as given.
        path: PathBuf,
        /// What is wrong and what to do.
        why: &'static str,
    },
    /// An option's value is not acceptable.
    #[error("mount option {option} is not valid: {why}")]
    Option {
        /// The name of the option.
        option: &'static str,
        /// Which values are accepted.
        why: &'static str,
    },
    /// A system call failed.
    #[error("{what} {} failed", path.display())]
    Io {
        /// The operation that failed.
        what: &'static str,
        /// The path of the operation.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// Programs use a mount that was to be unmounted.
    #[error("{} is busy: {}; end them, or unmount it from under them with --lazy", path.display(), listed(users))]
    InUse {
        /// The mount point.
        path: PathBuf,
        /// The processes that were found to use it.
        users: Vec<User>,
    },
    /// Writes through a mount could not be synced when it ended.
    #[error("{} is unmounted, but what was written through it may not be on disk", path.display())]
    Unsynced {
        /// The mount point.
        path: PathBuf,
        /// The store's error.
        #[source]
        source: objstore_base::error::Error,
    },
}

impl Error {
    /// The error of operation `what` at `path`.
    pub(crate) fn io(what: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        Self::Io { what, path: path.to_owned(), source: source.into() }
    }

    /// The error for a `path` that cannot be a mount point.
    pub(crate) fn target(path: &Path, why: &'static str) -> Self {
        Self::Target { path: path.to_owned(), why }
    }
}

/// The most processes that an error names.
const NAMED_MAX: usize = 20;

fn listed(users: &[User]) -> String {
    if users.is_empty() {
        return "another mount lies in it, or a process that this one cannot see uses it".to_owned();
    }
    let named: Vec<_> = users.iter().take(NAMED_MAX).map(ToString::to_string).collect();
    let more = users.len().saturating_sub(NAMED_MAX);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("the processes {}{rest} use it", named.join(", "))
}
