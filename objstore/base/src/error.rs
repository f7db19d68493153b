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

/// What a name refers to, in errors about names.
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
    /// A group snapshot.
    GroupSnapshot,
    /// A role.
    Role,
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
            Self::GroupSnapshot => "group snapshot",
            Self::Role => "role",
        })
    }
}

/// A POSIX error of a tree operation; `fuse` maps each to its errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posix {
    /// ENOENT: the file or directory does not exist.
    NotFound,
    /// EEXIST: the name exists.
    Exists,
    /// ENOTDIR: not a directory.
    NotDirectory,
    /// EISDIR: a directory.
    IsDirectory,
    /// ENOTEMPTY: the directory is not empty.
    NotEmpty,
    /// EINVAL: an argument is invalid.
    Invalid,
    /// ENAMETOOLONG: a name or path is too long.
    NameTooLong,
    /// EILSEQ: the name is not UTF-8, so it cannot be an object key.
    NotUtf8,
    /// EMLINK: the inode has too many names.
    TooManyLinks,
    /// EFBIG: the file would be too large.
    TooLarge,
    /// ESTALE: the inode or its bucket no longer exists.
    Stale,
    /// EROFS: a snapshot cannot be changed.
    ReadOnly,
    /// EPERM: the operation is not permitted.
    NotPermitted,
    /// EXDEV: the file can only be moved by copying it.
    CrossDevice,
    /// ENODATA: the extended attribute does not exist.
    NoData,
    /// ENOSPC, for extended attributes beyond their limit.
    NoSpace,
    /// EOPNOTSUPP: the operation is not supported.
    NotSupported,
    /// EBUSY: a program uses the file in a way that the change would have to prevent.
    InUse,
}

/// Why an operation of the store failed. Nothing was changed, except perhaps with [`Error::Indeterminate`].
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// A bucket, object or other named resource does not exist.
    #[error("{noun} \"{name}\" does not exist")]
    NotFound {
        /// The kind of the resource.
        noun: Noun,
        /// The name that was asked for.
        name: String,
        /// For a key: the version id of the delete marker that is the current version.
        marker: Option<String>,
    },
    /// The named resource exists, and differs from the requested one.
    #[error("{noun} \"{name}\" already exists: {why}")]
    Exists {
        /// The kind of the resource.
        noun: Noun,
        /// The name that was asked for.
        name: String,
        /// How it differs, or who owns it.
        why: String,
    },
    /// The bucket still has objects, uploads or snapshots.
    #[error("bucket \"{name}\" is not empty: it holds {what}; delete them first or force the deletion")]
    NotEmpty {
        /// The bucket's name.
        name: String,
        /// What the bucket holds.
        what: String,
    },
    /// A mount or a node uses the bucket or snapshot.
    #[error("{noun} \"{name}\" is in use: {user}")]
    InUse {
        /// The kind of the resource.
        noun: Noun,
        /// Its name.
        name: String,
        /// Who uses it, and what to do first.
        user: String,
    },
    /// A value is not acceptable.
    #[error("{what} \"{value}\" is not valid: {why}")]
    Invalid {
        /// The name of the field or parameter.
        what: &'static str,
        /// The value as received (never a secret).
        value: String,
        /// What would be accepted.
        why: String,
    },
    /// The requested version is a delete marker, which has no content.
    #[error("version {version} of \"{key}\" is a delete marker: ask for another version, or delete it")]
    DeleteMarker {
        /// The object's key.
        key: String,
        /// The version id.
        version: String,
        /// When the delete marker was made.
        modified: Timestamp,
    },
    /// A condition of the request did not hold.
    #[error("the condition {condition} does not hold for \"{key}\"")]
    Precondition {
        /// The condition's header name.
        condition: &'static str,
        /// The object's key.
        key: String,
    },
    /// The write would exceed the bucket's quota.
    #[error(
        "bucket \"{bucket}\" has a quota of {limit_bytes} bytes and uses {used_bytes}: {asked_bytes} more do not fit"
    )]
    QuotaExceeded {
        /// The bucket's name.
        bucket: String,
        /// The quota, in bytes.
        limit_bytes: u64,
        /// The bytes in use.
        used_bytes: u64,
        /// The bytes that the write would add.
        asked_bytes: u64,
    },
    /// The account is not allowed to do this; everything that is not granted is denied.
    #[error("access denied: {why}")]
    Denied {
        /// What is missing, without secrets.
        why: String,
    },
    /// A tree operation failed with a POSIX error.
    #[error("{0:?}")]
    Posix(Posix),
    /// The largest number of something is reached.
    #[error("there are {limit} {what}, which is the largest number allowed: remove some first")]
    TooMany {
        /// What there is too much of, in the plural.
        what: &'static str,
        /// The largest number.
        limit: u64,
    },
    /// The branch has too long an ancestry, or the clone group has no branch ids left.
    #[error(
        "{limit} snapshots and clones were taken of this bucket, which is the largest number possible: \
         copy its objects to a new bucket, or restore a backup of it"
    )]
    TooDeep {
        /// The largest number of snapshots and clones.
        limit: u64,
    },
    /// Another operation uses the resource; try again.
    #[error("{what} is busy: try again")]
    Busy {
        /// What is in use.
        what: String,
    },
    /// Stored bytes differ from what was written. Such bytes are never returned as data.
    #[error("{what} is damaged: expected {expected}, found {found}; run `amphora check`")]
    Corrupt {
        /// The name of the record, blob or file.
        what: String,
        /// The expected content.
        expected: String,
        /// The content that was found.
        found: String,
    },
    /// An earlier write failed, to the disk or to the log elsewhere; the store refuses writes until it is reopened.
    #[error("the store refuses writes because one failed ({why}); remove the cause, then restart the server")]
    Poisoned {
        /// The first failed write.
        why: String,
    },
    /// The data folder cannot be used in its present state.
    #[error("{why}")]
    Unusable {
        /// What is wrong and what to do.
        why: String,
    },
    /// A call to the operating system failed.
    #[error("{what} failed")]
    Io {
        /// The operation and path.
        what: String,
        /// The system's error.
        #[source]
        source: Arc<std::io::Error>,
    },
    /// The metadata engine failed.
    #[error("the metadata engine failed: {why}")]
    Engine {
        /// The engine's message.
        why: String,
    },
    /// The result is unknown: the change may or may not have been made.
    #[error("the outcome of the operation is unknown: {why}")]
    Indeterminate {
        /// What happened.
        why: String,
    },
}

impl Error {
    /// The error for a failed system call on `what`.
    pub fn io(what: impl Into<String>, source: std::io::Error) -> Self {
        Self::Io { what: what.into(), source: Arc::new(source) }
    }

    /// The error for a resource of kind `noun`, called `name`, that does not exist.
    pub fn not_found(noun: Noun, name: impl Into<String>) -> Self {
        Self::NotFound { noun, name: name.into(), marker: None }
    }

    /// The error for a `value` that is not a valid `what`, for the reason `why`.
    pub fn invalid(what: &'static str, value: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Invalid { what, value: value.into(), why: why.into() }
    }

    /// The error for stored bytes of `what` that differ from what was written.
    pub fn corrupt(what: impl Into<String>, expected: impl Into<String>, found: impl Into<String>) -> Self {
        Self::Corrupt { what: what.into(), expected: expected.into(), found: found.into() }
    }
}

/// The message of an error and its cause, on one line.
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
