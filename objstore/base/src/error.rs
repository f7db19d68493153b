//! The errors of the store.
//!
//! - Each variant says what the caller has to do: correct the request, free space, retry, or call the operator.
//! - No variant contains a secret, and `Display` never prints its source.
//! - An error means that nothing was changed, except [`Error::Indeterminate`].

use std::fmt;
use std::sync::Arc;

use crate::clock::Timestamp;

/// The result of a store operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a name stands for, in errors about names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noun {
    /// A bucket, by name.
    Bucket,
    /// An object key.
    Key,
    /// An object version.
    Version,
    /// A multipart upload.
    Upload,
    /// A multipart part.
    Part,
    /// A snapshot.
    Snapshot,
    /// An account.
    Account,
    /// An access key.
    AccessKey,
    /// A grant.
    Grant,
    /// A volume publication.
    Publication,
    /// An extended attribute.
    Xattr,
}

impl fmt::Display for Noun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bucket => "bucket",
            Self::Key => "object",
            Self::Version => "object version",
            Self::Upload => "multipart upload",
            Self::Part => "part",
            Self::Snapshot => "snapshot",
            Self::Account => "account",
            Self::AccessKey => "access key",
            Self::Grant => "grant",
            Self::Publication => "publication",
            Self::Xattr => "extended attribute",
        })
    }
}

/// A POSIX outcome of a tree operation; `fuse` maps each to its errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posix {
    /// ENOENT
    NotFound,
    /// EEXIST
    Exists,
    /// ENOTDIR
    NotDirectory,
    /// EISDIR
    IsDirectory,
    /// ENOTEMPTY
    NotEmpty,
    /// EINVAL
    Invalid,
    /// ENAMETOOLONG
    NameTooLong,
    /// EILSEQ: the name is not UTF-8, so it could not be an object key.
    NotUtf8,
    /// EMLINK
    TooManyLinks,
    /// EFBIG
    TooLarge,
    /// ESTALE: the inode or its bucket is gone.
    Stale,
    /// EROFS: the view is a snapshot.
    ReadOnly,
    /// EPERM
    NotPermitted,
    /// EXDEV: it can only be moved by copying.
    CrossDevice,
    /// ENODATA: no such extended attribute.
    NoData,
    /// ENOSPC for extended attributes past their limit.
    NoSpace,
    /// EOPNOTSUPP
    NotSupported,
    /// EBUSY: a program uses it in a way that the change would have to forbid.
    InUse,
}

/// Why the store refused.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The thing named does not exist.
    #[error("{noun} \"{name}\" does not exist")]
    NotFound {
        /// What kind of thing.
        noun: Noun,
        /// The name asked for.
        name: String,
        /// Of a key: the delete marker that is its current version.
        marker: Option<String>,
    },
    /// The thing named exists, and differs from what was asked.
    #[error("{noun} \"{name}\" already exists: {why}")]
    Exists {
        /// What kind of thing.
        noun: Noun,
        /// The name asked for.
        name: String,
        /// How it differs or who owns it.
        why: String,
    },
    /// The bucket still holds objects, uploads or snapshots.
    #[error("bucket \"{name}\" is not empty: it holds {what}; delete them first or force the deletion")]
    NotEmpty {
        /// The bucket.
        name: String,
        /// What it holds.
        what: String,
    },
    /// A mount or a node uses the bucket or snapshot; nothing was changed.
    #[error("{noun} \"{name}\" is in use: {user}")]
    InUse {
        /// What kind of thing.
        noun: Noun,
        /// Its name.
        name: String,
        /// Who uses it, and what to do first.
        user: String,
    },
    /// A value is not acceptable; nothing was changed.
    #[error("{what} \"{value}\" is not valid: {why}")]
    Invalid {
        /// Which field or parameter.
        what: &'static str,
        /// The value as given (never a secret).
        value: String,
        /// What would be accepted.
        why: String,
    },
    /// The version asked for is a delete marker: it has no content.
    #[error("version {version} of \"{key}\" is a delete marker: ask for another version, or delete it")]
    DeleteMarker {
        /// The object.
        key: String,
        /// The version.
        version: String,
        /// When it was made.
        modified: Timestamp,
    },
    /// A condition of the request did not hold.
    #[error("the condition {condition} does not hold for \"{key}\"")]
    Precondition {
        /// The condition, by its header name.
        condition: &'static str,
        /// The object.
        key: String,
    },
    /// The write would pass the bucket's quota.
    #[error(
        "bucket \"{bucket}\" has a quota of {limit_bytes} bytes and uses {used_bytes}: {asked_bytes} more do not fit"
    )]
    QuotaExceeded {
        /// The bucket.
        bucket: String,
        /// The limit, in bytes.
        limit_bytes: u64,
        /// In use, in bytes.
        used_bytes: u64,
        /// Asked for, in bytes.
        asked_bytes: u64,
    },
    /// The account may not do this; default deny.
    #[error("access denied: {why}")]
    Denied {
        /// What is missing, without secrets.
        why: String,
    },
    /// A tree operation ended as POSIX says.
    #[error("{0:?}")]
    Posix(Posix),
    /// There are as many of something as the store has room for.
    #[error("there are {limit} {what}, as many as there may be: remove some first")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many there may be.
        limit: u64,
    },
    /// Snapshots and clones were taken of snapshots and clones, over and over.
    #[error(
        "of this bucket snapshots and clones were taken {limit} times, one after the other, as often as there may be: \
         a copy of it, or a backup that is restored, begins anew"
    )]
    TooDeep {
        /// How many there may be.
        limit: u64,
    },
    /// Another operation holds the thing; try again.
    #[error("{what} is busy: try again")]
    Busy {
        /// What is held.
        what: String,
    },
    /// Stored bytes are not what was written. Never returned as data.
    #[error("{what} is damaged: expected {expected}, found {found}; run `amphora check`")]
    Corrupt {
        /// Which record, blob or file.
        what: String,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// An earlier write to disk failed; the store refuses writes until it is reopened.
    #[error("the store refuses writes since a write to disk failed ({why}); mend the disk, then restart")]
    Poisoned {
        /// The first failure.
        why: String,
    },
    /// The data folder cannot be used as it is.
    #[error("{why}")]
    Unusable {
        /// What is wrong and what to do.
        why: String,
    },
    /// The operating system refused.
    #[error("{what} failed")]
    Io {
        /// The operation and path.
        what: String,
        /// The system's error.
        #[source]
        source: Arc<std::io::Error>,
    },
    /// The engine below failed.
    #[error("the metadata engine failed: {why}")]
    Engine {
        /// The engine's words.
        why: String,
    },
    /// The answer was lost: the change may or may not have been made.
    #[error("the outcome of the operation is not known: {why}")]
    Indeterminate {
        /// What happened.
        why: String,
    },
}

impl Error {
    /// An I/O failure of `what`.
    pub fn io(what: impl Into<String>, source: std::io::Error) -> Self {
        Self::Io { what: what.into(), source: Arc::new(source) }
    }

    /// The thing of kind `noun` called `name` is absent.
    pub fn not_found(noun: Noun, name: impl Into<String>) -> Self {
        Self::NotFound { noun, name: name.into(), marker: None }
    }

    /// `value` is no valid `what`, because `why`.
    pub fn invalid(what: &'static str, value: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Invalid { what, value: value.into(), why: why.into() }
    }

    /// Stored bytes of `what` are wrong.
    pub fn corrupt(what: impl Into<String>, expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self::Corrupt { what: what.into(), expected: expected.into(), found: found.into() }
    }
}

/// An error with its cause, in one line.
pub fn with_source(error: &Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

impl From<Posix> for Error {
    fn from(posix: Posix) -> Self {
        Self::Posix(posix)
    }
}
