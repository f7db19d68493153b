//! The mapping from errors of the store to gRPC codes.
//!
//! - The sidecar retries on every code, but treats ALREADY_EXISTS of a grant as success without a response and crashes:
//!   `access.rs` never returns that code.

use objstore::Error;
use tonic::{Code, Status};

/// The gRPC status for an error of the store.
pub(crate) fn of(error: &Error) -> Status {
    let message = match error {
        Error::Io { source, .. } => format!("{error}: {source}"),
        _ => error.to_string(),
    };
    Status::new(code(error), message)
}

fn code(error: &Error) -> Code {
    match error {
        Error::NotFound { .. } | Error::DeleteMarker { .. } => Code::NotFound,
        Error::Exists { .. } => Code::AlreadyExists,
        Error::Invalid { .. } => Code::InvalidArgument,
        Error::NotEmpty { .. } | Error::InUse { .. } | Error::Precondition { .. } => Code::FailedPrecondition,
        Error::QuotaExceeded { .. } | Error::TooMany { .. } | Error::TooDeep { .. } => Code::ResourceExhausted,
        Error::Denied { .. } => Code::PermissionDenied,
        // The caller has to repeat the call to learn the outcome.
        Error::Busy { .. } | Error::Indeterminate { .. } => Code::Aborted,
        Error::Poisoned { .. } | Error::Unusable { .. } => Code::Unavailable,
        Error::Corrupt { .. } => Code::DataLoss,
        Error::Posix(_) | Error::Io { .. } | Error::Engine { .. } => Code::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use objstore::Noun;

    #[test]
    fn codes_say_what_to_do() {
        let exists = Error::Exists { noun: Noun::Bucket, name: "b".into(), why: "w".into() };
        let cases = [
            (Error::not_found(Noun::Bucket, "b"), Code::NotFound),
            (exists, Code::AlreadyExists),
            (Error::invalid("parameter", "x", "y"), Code::InvalidArgument),
            (Error::Indeterminate { why: "x".into() }, Code::Aborted),
            (Error::Poisoned { why: "x".into() }, Code::Unavailable),
        ];
        for (error, code) in cases {
            assert_eq!(of(&error).code(), code, "{error}");
        }
    }

    #[test]
    fn the_systems_reason_is_told() {
        let error = Error::io("syncing", std::io::Error::from_raw_os_error(28));
        assert!(of(&error).message().contains("No space left"));
    }
}
