//! Error numbers: the one table from errors of the store to errno(3).

use std::io::ErrorKind;

use objstore_base::error::{Error, Noun, Posix};
use rustix::io::Errno;

/// The result of a file system operation.
pub(crate) type Result<T> = std::result::Result<T, Errno>;

/// The error number of a POSIX outcome.
fn posix(outcome: Posix) -> Errno {
    match outcome {
        Posix::NotFound => Errno::NOENT,
        Posix::Exists => Errno::EXIST,
        Posix::NotDirectory => Errno::NOTDIR,
        Posix::IsDirectory => Errno::ISDIR,
        Posix::NotEmpty => Errno::NOTEMPTY,
        Posix::Invalid => Errno::INVAL,
        Posix::NameTooLong => Errno::NAMETOOLONG,
        Posix::NotUtf8 => Errno::ILSEQ,
        Posix::TooManyLinks => Errno::MLINK,
        Posix::TooLarge => Errno::FBIG,
        Posix::Stale => Errno::STALE,
        Posix::ReadOnly => Errno::ROFS,
        Posix::NotPermitted => Errno::PERM,
        Posix::CrossDevice => Errno::XDEV,
        Posix::NoData => Errno::NODATA,
        Posix::NoSpace => Errno::NOSPC,
        Posix::NotSupported => Errno::OPNOTSUPP,
        Posix::InUse => Errno::BUSY,
    }
}

/// The error number that a program on the mount receives for an error of the store.
///
/// A poisoned store answers EROFS, as a disk file system does after its journal failed: reads work, and writes fail
/// until an operator acts. Where acknowledged data may be lost it answers EIO: see [`of_sync`].
fn number(error: &Error) -> Errno {
    match error {
        Error::Posix(outcome) => posix(*outcome),
        Error::NotFound { noun: Noun::Bucket | Noun::Snapshot, .. } => Errno::STALE,
        Error::NotFound { noun: Noun::Xattr, .. } => Errno::NODATA,
        Error::NotFound { .. } | Error::DeleteMarker { .. } => Errno::NOENT,
        Error::Exists { .. } => Errno::EXIST,
        Error::NotEmpty { .. } => Errno::NOTEMPTY,
        Error::Invalid { .. } => Errno::INVAL,
        Error::QuotaExceeded { .. } => Errno::DQUOT,
        Error::Denied { .. } => Errno::ACCESS,
        Error::Busy { .. } | Error::TooMany { .. } => Errno::AGAIN,
        Error::InUse { .. } => Errno::BUSY,
        Error::TooDeep { .. } => Errno::NOSPC,
        Error::Poisoned { .. } => Errno::ROFS,
        Error::Io { source, .. } => match source.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Errno::NOSPC,
            // The file would be larger than the file system below allows.
            ErrorKind::FileTooLarge => Errno::FBIG,
            _ => Errno::IO,
        },
        Error::Corrupt { .. }
        | Error::Engine { .. }
        | Error::Indeterminate { .. }
        | Error::Unusable { .. }
        | Error::Precondition { .. } => Errno::IO,
    }
}

/// The error number for `error`. Errors that an operator should know of are logged here, once.
pub(crate) fn of(error: &Error) -> Errno {
    let number = number(error);
    if number == Errno::IO {
        let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
        tracing::error!(%error, cause, "a request of a mount failed");
    }
    number
}

/// The error number for a failed sync. The caller must not assume that earlier writes are on disk.
pub(crate) fn of_sync(error: &Error) -> Errno {
    match of(error) {
        Errno::ROFS => Errno::IO,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_get_the_number_linux_would_give() {
        let full = std::io::Error::from_raw_os_error(libc::ENOSPC);
        let large = std::io::Error::from_raw_os_error(libc::EFBIG);
        let broken = std::io::Error::from_raw_os_error(libc::EIO);
        let quota = Error::QuotaExceeded { bucket: "b".into(), limit_bytes: 1, used_bytes: 1, asked_bytes: 1 };
        let cases = [
            (Error::Posix(Posix::NotUtf8), Errno::ILSEQ),
            (Error::Posix(Posix::NoData), Errno::NODATA),
            (quota, Errno::DQUOT),
            (Error::not_found(Noun::Bucket, "b"), Errno::STALE),
            (Error::io("write", full), Errno::NOSPC),
            (Error::io("write", std::io::Error::from_raw_os_error(libc::EDQUOT)), Errno::NOSPC),
            (Error::io("write", ErrorKind::StorageFull.into()), Errno::NOSPC),
            (Error::io("write", large), Errno::FBIG),
            (Error::io("write", broken), Errno::IO),
            (Error::corrupt("blob", "a", "b"), Errno::IO),
            (Error::Poisoned { why: "sync".into() }, Errno::ROFS),
            (Error::Denied { why: "revoked".into() }, Errno::ACCESS),
            (Error::Busy { what: "the store".into() }, Errno::AGAIN),
        ];
        for (error, expected) in cases {
            assert_eq!(of(&error), expected, "{error}");
        }
    }

    #[test]
    fn a_sync_of_a_poisoned_store_is_an_io_error() {
        assert_eq!(of_sync(&Error::Poisoned { why: "sync".into() }), Errno::IO);
        assert_eq!(of_sync(&Error::Posix(Posix::Stale)), Errno::STALE);
    }
}
