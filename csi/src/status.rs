//! The mapping from errors of the store to gRPC codes, chosen by the sidecars' reaction (`rpc::status`).

use objstore::{Error, Noun};
use tonic::{Code, Status};

/// The gRPC status for an error of the store.
#[expect(clippy::needless_pass_by_value, reason = "used in `map_err` at every call of the store")]
pub(crate) fn of(error: Error) -> Status {
    rpc::status::of(&error)
}

/// The status for a volume that does not exist.
pub(crate) fn no_such_volume(id: &str) -> Status {
    of(Error::not_found(Noun::Bucket, id))
}

/// Whether what a failed call was about may exist: its outcome is unknown, and the caller repeats it.
pub(crate) fn may_exist(failed: &Status) -> bool {
    matches!(failed.code(), Code::Aborted | Code::Unavailable | Code::Cancelled | Code::DeadlineExceeded)
}

/// A required field; INVALID_ARGUMENT if it is empty.
pub(crate) fn required<'a>(field: &str, value: &'a str) -> Result<&'a str, Status> {
    match value.is_empty() {
        true => Err(Status::invalid_argument(format!("{field} is missing"))),
        false => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unknown_outcomes_say_that_a_volume_may_exist() {
        let exists = Error::Exists { noun: Noun::Bucket, name: "b".into(), why: "w".into() };
        let denied = Error::Denied { why: "w".into() };
        let corrupt = Error::corrupt("a", "b", "c");
        let cases = [
            (no_such_volume("b"), Code::NotFound),
            (of(exists), Code::AlreadyExists),
            (of(Error::invalid("a", "b", "c")), Code::InvalidArgument),
            (of(denied), Code::PermissionDenied),
            (of(corrupt), Code::DataLoss),
            (of(Error::Indeterminate { why: "w".into() }), Code::Aborted),
            (of(Error::Busy { what: "w".into() }), Code::Aborted),
            (of(Error::Poisoned { why: "w".into() }), Code::Unavailable),
            (of(Error::io("w", std::io::Error::from_raw_os_error(5))), Code::Internal),
            (of(Error::io("w", std::io::Error::from_raw_os_error(28))), Code::ResourceExhausted),
            (of(Error::io("w", std::io::Error::from_raw_os_error(122))), Code::ResourceExhausted),
        ];
        for (status, code) in cases {
            assert_eq!(status.code(), code, "{status}");
            assert_eq!(may_exist(&status), matches!(code, Code::Aborted | Code::Unavailable), "{status}");
        }
    }

    #[test]
    fn the_systems_reason_is_told() {
        assert!(of(Error::io("mounting", std::io::Error::from_raw_os_error(1))).message().contains("not permitted"));
    }
}
