//! Error responses: code, status and text of everything that a client can be refused with (S3 API, "Error responses").
//!
//! - `table` has every code with its status and AWS's sentence; `sentence` has those of codes with several. Tools and
//!   people know these sentences, so ours never replace them.
//! - Further facts stand in AWS's elements beside the message (`particulars`), and our advice in an element `Hint`.
//! - `document` writes the response, `foreign` rewords errors of `s3s`, and `store` maps the store's errors.
//! - Errors contain no secret: only what the client sent, and what anyone may know.

mod document;
mod foreign;
mod particulars;
mod sent;
mod signature;
mod store;
mod table;

use s3s::{S3Error, S3ErrorCode};

use crate::xml::shown;

pub(crate) use document::{Failure, has_document};
pub(crate) use foreign::read;
pub(crate) use particulars::Detail;
use particulars::Particulars;
pub(crate) use sent::Sent;
pub(crate) use signature::of_policy;
pub(crate) use store::{OrRefuse, from_store, refuse_source};

/// An error with AWS's sentence for its code, and our advice as its hint.
pub(crate) fn refuse(code: S3ErrorCode, hint: impl Into<String>) -> S3Error {
    plain(code).hint(hint)
}

/// An error with AWS's sentence for its code.
pub(crate) fn plain(code: S3ErrorCode) -> S3Error {
    let sentence = table::sentence(code.as_str());
    says(code, sentence)
}

/// An error of a code for which AWS has several sentences, with the applicable one.
pub(crate) fn says(code: S3ErrorCode, sentence: impl Into<String>) -> S3Error {
    let status = table::status(code.as_str());
    let mut error = S3Error::with_message(code, shown(sentence.into()));
    error.set_source(Box::new(Particulars::default()));
    if let Some(status) = status {
        error.set_status_code(status);
    }
    error
}

/// A code that `s3s` does not list; it has to be in the table.
pub(crate) fn custom(code: &'static str) -> S3ErrorCode {
    S3ErrorCode::Custom(code.into())
}

/// The error for a refused argument: AWS's sentence, the argument's name, and its value.
pub(crate) fn bad_argument(sentence: impl Into<String>, name: impl ToString, value: impl ToString) -> S3Error {
    says(S3ErrorCode::InvalidArgument, sentence).with("ArgumentName", name).with("ArgumentValue", value)
}

/// The error for a feature that is not supported.
pub(crate) fn not_offered(what: &str) -> S3Error {
    refuse(S3ErrorCode::NotImplemented, format!("{what} is not offered by Amphora."))
}

/// The error for a blocking task that panicked or was cancelled.
pub(crate) fn lost(error: &impl std::error::Error) -> S3Error {
    tracing::error!(%error, "a task of a request panicked or was cancelled");
    refuse(S3ErrorCode::InternalError, "The request could not be finished; try again.")
}

/// The error for a failure inside the server: logged with its cause, reported without it.
pub(crate) fn internal(cause: &(impl std::fmt::Display + ?Sized)) -> S3Error {
    tracing::error!(%cause, "a request failed inside the server");
    plain(S3ErrorCode::InternalError)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_stands_beside_the_sentence_of_aws() {
        let error = refuse(S3ErrorCode::NoSuchKey, "Look\u{1}again.");
        assert_eq!(error.message(), Some("The specified key does not exist."));
        assert_eq!(error.status_code().map(|status| status.as_u16()), Some(404));
        let failure = Failure::of(&error);
        assert_eq!(failure.hint(), Some("Look\\u{1}again."));
        let error = bad_argument("Unknown metadata directive.", "x-amz-metadata-directive", "NONE");
        let failure = Failure::of(&error);
        assert_eq!(failure.element("ArgumentName"), Some("x-amz-metadata-directive"));
        assert_eq!(failure.element("ArgumentValue"), Some("NONE"));
        assert_eq!(failure.hint(), None);
    }
}
