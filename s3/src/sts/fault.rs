//! Refusals in the form of STS: an XML document with a code, and whose fault it is (AWS STS API, Common errors and the
//! errors of each action).

use http::StatusCode;
use s3_oidc::Refusal;
use s3s::{HttpResponse, S3Error, S3ErrorCode};

use super::answer::{self, ErrorCode};
use crate::error::internal;
use crate::xml::shown;

/// A refusal.
#[derive(Debug)]
pub(super) struct Fault {
    status: StatusCode,
    code: &'static str,
    message: String,
}

impl Fault {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: shown(message.into()) }
    }

    /// A parameter is not acceptable.
    pub(super) fn validation(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "ValidationError", message)
    }

    /// A parameter breaks a rule, in the words of AWS.
    pub(super) fn constraint(value: &str, parameter: &str, rule: impl std::fmt::Display) -> Self {
        let value: String = value.chars().take(256).collect();
        Self::validation(format!(
            "1 validation error detected: Value '{value}' at '{parameter}' failed to satisfy constraint: {rule}"
        ))
    }

    /// A parameter is missing.
    pub(super) fn missing(name: &'static str) -> Self {
        if name == "Action" || name == "Version" {
            let code = if name == "Action" { "MissingAction" } else { "MissingParameter" };
            return Self::new(StatusCode::BAD_REQUEST, code, format!("The request must contain the parameter {name}"));
        }
        let mut member = name.to_owned();
        if let Some(first) = member.get_mut(..1) {
            first.make_ascii_lowercase();
        }
        Self::validation(format!(
            "1 validation error detected: Value null at '{member}' failed to satisfy constraint: Member must not be null"
        ))
    }

    /// The action or its version does not exist here.
    pub(super) fn invalid_action(action: &str, version: &str) -> Self {
        let [action, version] = [action, version].map(|text| text.chars().take(64).collect::<String>());
        let words = format!("Could not find operation {action} for version {version}");
        Self::new(StatusCode::BAD_REQUEST, "InvalidAction", words)
    }

    /// The request is too long.
    pub(super) fn too_long() -> Self {
        let words = format!("the body of a request has at most {} bytes", super::BODY_BYTES_MAX);
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", words)
    }

    /// The request was sent too slowly.
    pub(super) fn slow() -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "RequestTimeout", "the body of the request did not arrive in time")
    }

    /// Too many requests are in progress.
    pub(super) fn throttled() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", "too many requests are in progress; try again")
    }

    /// The caller may not perform the action.
    pub(super) fn denied(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "AccessDenied", message)
    }

    /// The caller may not take the role, or there is no such role.
    pub(super) fn not_authorized(action: &str) -> Self {
        Self::denied(format!("Not authorized to perform sts:{action}"))
    }

    /// The policy of the session is malformed.
    pub(super) fn malformed_policy(why: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "MalformedPolicyDocument", why)
    }

    /// The policy of the session does not fit its token.
    pub(super) fn packed_policy(percent: usize) -> Self {
        let words = format!("Packed policy consumes {percent}% of allotted space, please use smaller policy.");
        Self::new(StatusCode::BAD_REQUEST, "PackedPolicyTooLarge", words)
    }

    /// The request is not signed.
    pub(super) fn unsigned() -> Self {
        let words = "Request is missing Authentication Token";
        Self::new(StatusCode::FORBIDDEN, "MissingAuthenticationToken", words)
    }

    /// The signature is malformed.
    pub(super) fn incomplete(why: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "IncompleteSignature", why)
    }

    /// The signature does not match.
    pub(super) fn signature(why: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "SignatureDoesNotMatch", why)
    }

    /// A web identity token was refused.
    pub(super) fn of_token(refusal: &Refusal) -> Self {
        let message = refusal.to_string();
        match refusal {
            Refusal::Expired { .. } => Self::new(StatusCode::BAD_REQUEST, "ExpiredTokenException", message),
            Refusal::Unreachable => Self::new(StatusCode::BAD_REQUEST, "IDPCommunicationError", message),
            _ => Self::new(StatusCode::BAD_REQUEST, "InvalidIdentityToken", message),
        }
    }

    /// The keys of a signed request were refused, in the words of S3.
    pub(super) fn of_keys(error: &S3Error) -> Self {
        match *error.code() {
            S3ErrorCode::ExpiredToken => {
                let words = "The security token included in the request is expired";
                Self::new(StatusCode::FORBIDDEN, "ExpiredToken", words)
            }
            S3ErrorCode::InvalidAccessKeyId | S3ErrorCode::InvalidToken => {
                let words = "The security token included in the request is invalid.";
                Self::new(StatusCode::FORBIDDEN, "InvalidClientTokenId", words)
            }
            _ => Self::failed(),
        }
    }

    /// The store failed.
    pub(super) fn of_store(error: &objstore::Error) -> Self {
        // Logged with its cause.
        let _ = internal(error);
        Self::failed()
    }

    fn failed() -> Self {
        let words = "The request processing has failed because of an unknown error, exception or failure.";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalFailure", words)
    }

    /// The response.
    pub(super) fn response(self, request_id: &str) -> HttpResponse {
        let sender = if self.status.is_server_error() { "Receiver" } else { "Sender" };
        let document = answer::error_document(sender, self.code, &self.message, request_id);
        let mut response = answer::response(self.status, document, request_id);
        response.extensions_mut().insert(ErrorCode(self.code));
        response
    }
}
