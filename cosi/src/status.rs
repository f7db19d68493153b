//! The mapping from errors of the store to gRPC codes (`rpc::status`).
//!
//! - The sidecar retries on every code, but treats ALREADY_EXISTS of a grant as success without a response and crashes:
//!   `access.rs` never returns that code.

pub(crate) use rpc::status::of;

#[cfg(test)]
mod tests {
    use objstore::{Error, Noun};
    use tonic::Code;

    use super::*;

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
