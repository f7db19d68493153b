//! The mapping from errors of the store to gRPC codes, for CSI and COSI; the admin service differs where people read it.
//!
//! - For the CSI provisioner, only CANCELLED, DEADLINE_EXCEEDED, UNAVAILABLE and ABORTED mean that a volume may exist; with
//!   any other code it forgets the volume. So UNAVAILABLE and ABORTED are used only for unknown outcomes.

use std::io::ErrorKind;

use objstore::Error;
use tonic::{Code, Status};

/// The gRPC status for an error of the store, with the system's reason.
pub fn of(error: &Error) -> Status {
    let message = match error {
        Error::Io { source, .. } => format!("{error}: {source}"),
        _ => error.to_string(),
    };
    Status::new(code(error), message)
}

/// The gRPC code for an error of the store.
pub fn code(error: &Error) -> Code {
    match error {
        Error::NotFound { .. } | Error::DeleteMarker { .. } => Code::NotFound,
        Error::Exists { .. } => Code::AlreadyExists,
        Error::Invalid { .. } => Code::InvalidArgument,
        Error::NotEmpty { .. } | Error::InUse { .. } | Error::Precondition { .. } => Code::FailedPrecondition,
        Error::QuotaExceeded { .. } | Error::TooMany { .. } | Error::TooDeep { .. } => Code::ResourceExhausted,
        Error::Io { source, .. } if is_full(source) => Code::ResourceExhausted,
        Error::Denied { .. } => Code::PermissionDenied,
        // The caller has to repeat the call to learn the outcome.
        Error::Busy { .. } | Error::Indeterminate { .. } => Code::Aborted,
        Error::Poisoned { .. } | Error::Unusable { .. } => Code::Unavailable,
        Error::Corrupt { .. } => Code::DataLoss,
        Error::Posix(_) | Error::Io { .. } | Error::Engine { .. } => Code::Internal,
    }
}

/// Whether a disk has no room for a change, of which nothing is done then.
fn is_full(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}
