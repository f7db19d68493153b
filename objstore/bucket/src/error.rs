//! Errors of a bucket: each says what the caller or the operator has to do.
//!
//! - No variant contains a credential: texts are made from the server's code and message, and from names.

use std::error::Error as StdError;

use aws_sdk_s3::config::http::HttpResponse;
use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};

/// The result of a call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The object does not exist.
    #[error("{name} does not exist in the S3 store")]
    Missing {
        /// The object.
        name: String,
    },
    /// An object with this key exists already, or is not the one that was to be replaced.
    #[error("{name} exists already in the S3 store, or was changed meanwhile")]
    Conflict {
        /// The object.
        name: String,
    },
    /// The server refuses, and would refuse again: the operator has to change something.
    #[error("{operation} {name} was refused: {why}")]
    Refused {
        /// What was done.
        operation: &'static str,
        /// The object or bucket.
        name: String,
        /// Why, and what to do.
        why: String,
    },
    /// The server did not answer, or not now. A write may or may not have been made.
    #[error("{operation} {name} failed: {why}; is the S3 store available?")]
    Unavailable {
        /// What was done.
        operation: &'static str,
        /// The object or bucket.
        name: String,
        /// Why.
        why: String,
    },
    /// The server answered with other bytes than were asked for.
    #[error("the S3 store answered wrongly for {name}: expected {expected}, found {found}")]
    Damaged {
        /// The object.
        name: String,
        /// What was asked for.
        expected: String,
        /// What was answered.
        found: String,
    },
    /// The bucket and prefix cannot be used by this store.
    #[error("{why}")]
    Foreign {
        /// What is wrong, and what to do.
        why: String,
    },
    /// A setting is not acceptable.
    #[error("{what} \"{value}\" is not valid: {why}")]
    Invalid {
        /// The setting.
        what: &'static str,
        /// Its value.
        value: String,
        /// What would be accepted.
        why: String,
    },
}

impl Error {
    /// Whether the same call may succeed later, without a change by the operator.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }

    /// Whether the object does not exist.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Missing { .. })
    }
}

/// A call that fails: what was done, and the name of the object or bucket.
pub(crate) type Call = (&'static str, String);

/// The error of a failed request.
pub(crate) fn explain<E>(error: &SdkError<E, HttpResponse>, (operation, name): Call) -> Error
where
    E: ProvideErrorMetadata + StdError + 'static,
{
    match error {
        SdkError::ServiceError(failed) => {
            let status = failed.raw().status().as_u16();
            let (code, message) = (failed.err().code().unwrap_or_default(), failed.err().message().unwrap_or_default());
            of_answer(status, code, message, operation, name)
        }
        SdkError::TimeoutError(_) => Error::Unavailable { operation, name, why: "it took too long".into() },
        other => {
            let why = chain(other);
            if why.contains("credential") || why.contains("identity") {
                let why = format!(
                    "no usable credentials were found ({why}): set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or a role"
                );
                return Error::Refused { operation, name, why };
            }
            Error::Unavailable { operation, name, why }
        }
    }
}

fn of_answer(status: u16, code: &str, message: &str, operation: &'static str, name: String) -> Error {
    let refused = |why: String| Error::Refused { operation, name: name.clone(), why };
    let said = said(status, code, message);
    match (status, code) {
        (_, "NoSuchBucket") => refused("the bucket does not exist: create it, or correct the URL".into()),
        (
            _,
            "InvalidAccessKeyId" | "SignatureDoesNotMatch" | "InvalidToken" | "ExpiredToken" | "TokenRefreshRequired",
        ) => refused(format!("the S3 store does not accept the credentials ({said})")),
        (_, "RequestTimeTooSkewed") => {
            refused(format!("the clocks of this machine and of the S3 store differ ({said})"))
        }
        (_, "PermanentRedirect" | "AuthorizationHeaderMalformed" | "IllegalLocationConstraintException")
        | (301 | 307, _) => {
            refused(format!("the bucket belongs to another region or endpoint ({said}): set the region"))
        }
        (409, _) | (412, _) | (_, "PreconditionFailed" | "ConditionalRequestConflict") => Error::Conflict { name },
        (_, "NoSuchKey" | "NoSuchUpload" | "NotFound") | (404, _) => Error::Missing { name },
        (501, _) | (_, "NotImplemented") => refused(format!("the S3 store cannot do this ({said})")),
        (401 | 403 | 405, _) => refused(format!(
            "the credentials do not allow it, or the bucket is read-only ({said}): allow GetObject, PutObject, DeleteObject and ListBucket"
        )),
        (429, _) | (500.., _) => Error::Unavailable { operation, name, why: said },
        _ => refused(said),
    }
}

fn said(status: u16, code: &str, message: &str) -> String {
    // Bounded, since a server may say anything.
    let message: String = message.chars().filter(|char| !char.is_control()).take(200).collect();
    match (code.is_empty(), message.is_empty()) {
        (true, _) => format!("HTTP status {status}"),
        (false, true) => format!("{code}, HTTP status {status}"),
        (false, false) => format!("{code}: {message}"),
    }
}

/// The error and its causes on one line, each once.
pub(crate) fn chain(error: &(dyn StdError + 'static)) -> String {
    let (mut all, mut next) = (String::new(), Some(error));
    while let Some(cause) = next.filter(|_| all.len() < 400) {
        let text = cause.to_string();
        if !all.contains(&text) {
            all.push_str(if all.is_empty() { "" } else { ": " });
            all.extend(text.chars().filter(|char| !char.is_control()).take(200));
        }
        next = cause.source();
    }
    all
}
