//! What a client is told when its request fails (S3 API, "Error responses").
//!
//! - `table` has every code that is answered, with its status and AWS's sentence; `sentence` has those of codes with
//!   several. Tools and people know these sentences, so ours never take their place.
//! - Particulars stand in AWS's elements beside the message (`particulars`), and our own advice in an element `Hint`.
//! - `document` writes the answer, and `foreign` words what `s3s` refused by itself. `store` maps the store's errors.
//! - Nothing here holds a secret: an error has what its client sent, and what everybody may know.

mod document;
mod foreign;
mod late;
mod particulars;
mod sent;
mod signature;
mod store;
mod table;

use s3s::{S3Error, S3ErrorCode};

use crate::xml::shown;

pub(crate) use document::{Failure, has_document};
pub(crate) use foreign::read;
pub(crate) use late::Late;
pub(crate) use particulars::Detail;
use particulars::Particulars;
pub(crate) use sent::Sent;
pub(crate) use signature::of_policy;
pub(crate) use store::{OrRefuse, from_store};

/// An error with AWS's sentence for its code, and our own advice as its hint.
pub(crate) fn refuse(code: S3ErrorCode, hint: impl Into<String>) -> S3Error {
    plain(code).hint(hint)
}

/// An error with AWS's sentence for its code, and nothing else.
pub(crate) fn plain(code: S3ErrorCode) -> S3Error {
    let sentence = table::sentence(code.as_str());
    says(code, sentence)
}

/// An error of a code that has several sentences on AWS, with the one that fits.
pub(crate) fn says(code: S3ErrorCode, sentence: impl Into<String>) -> S3Error {
    let status = table::status(code.as_str());
    let mut error = S3Error::with_message(code, shown(sentence.into()));
    error.set_source(Box::new(Particulars::default()));
    if let Some(status) = status {
        error.set_status_code(status);
    }
    error
}

/// A code that `s3s` does not list; it has to stand in the table.
pub(crate) fn custom(code: &'static str) -> S3ErrorCode {
    S3ErrorCode::Custom(code.into())
}

/// A value of the request that is refused: AWS's sentence, the argument's name, and what it was.
pub(crate) fn bad_argument(sentence: impl Into<String>, name: impl ToString, value: impl ToString) -> S3Error {
    says(S3ErrorCode::InvalidArgument, sentence).with("ArgumentName", name).with("ArgumentValue", value)
}

/// The request asks for something that is not offered.
pub(crate) fn not_offered(what: &str) -> S3Error {
    refuse(S3ErrorCode::NotImplemented, format!("{what} is not offered by Amphora."))
}

/// A blocking task died before it answered.
pub(crate) fn lost(error: &impl std::error::Error) -> S3Error {
    tracing::error!(%error, "a task of a request panicked or was cancelled");
    refuse(S3ErrorCode::InternalError, "The request could not be finished; try again.")
}

/// A failure of ours that is not the request's fault: logged with its cause, told without it.
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
