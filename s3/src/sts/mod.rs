//! The Security Token Service: short-lived credentials in place of keys (AWS STS API, version 2011-06-15).
//!
//! - It answers on the S3 listener: a POST of a form to the path `/` means nothing in S3. A host that names a bucket has
//!   no such path. SDKs are pointed at it by `AWS_ENDPOINT_URL_STS`, with the URL of S3.
//! - `AssumeRoleWithWebIdentity` needs no signature but a token of OpenID Connect (`s3_oidc`); `AssumeRole` and
//!   `GetCallerIdentity` are signed with Version 4 for the service `sts`.
//! - A session writes nothing (`objstore::store::Store::begin_role_session`). Each one that begins, or is refused, is in
//!   the audit trail.
//! - What strangers can make it hold is bounded: the body has at most [`BODY_BYTES_MAX`] and [`BODY_LIMIT`], its memory
//!   comes from a small budget of its own, and verification waits for keys no longer than one fetch takes.
//! - A refusal does not tell whether a role exists.

mod answer;
mod assume_role;
mod caller_identity;
mod fault;
mod form;
mod role;
mod signature;
mod web_identity;

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use http::request::Parts;
use http_body::Body as _;
use objstore::clock::{Clock as _, SystemClock, Timestamp};
use s3s::HttpResponse;

use crate::address::Resource;
use crate::body::{Kind, Memory, content_type};
use crate::guard;
use crate::inbound::Inbound;
use crate::request::Request;
use crate::service::Call;
use answer::Answer;
pub(crate) use answer::ErrorCode;
use fault::Fault;
use form::Form;

/// The most bytes of a request: a token of 20,000 characters, a policy, and their encoding.
const BODY_BYTES_MAX: usize = 64 * 1024;
/// How long a request may take to be sent.
const BODY_LIMIT: Duration = Duration::from_secs(10);
/// The memory for the bodies of all requests in progress.
pub(crate) const MEMORY_BYTES: u64 = 16 * 1024 * 1024;
/// The media type of a request.
const FORM: &str = "application/x-www-form-urlencoded";

/// Whether a request is one to STS.
pub(crate) fn is_addressed(head: &Parts, request: &Request) -> bool {
    let form = content_type(&head.headers).get(..FORM.len()).is_some_and(|kind| kind.eq_ignore_ascii_case(FORM));
    head.method == Method::POST && request.resource == Resource::Service && request.body == Kind::Content && form
}

/// Answers a request to STS.
pub(crate) async fn serve(call: &Call, head: &Parts, body: Inbound, memory: &Memory) -> HttpResponse {
    let request = &call.request;
    let answered = match receive(head, body, memory, request).await {
        Ok(bytes) => Box::pin(operate(call, head, &bytes)).await,
        Err(fault) => Err(fault),
    };
    match answered {
        Ok(answer) => answer.response(&request.id),
        Err(fault) => fault.response(&request.id),
    }
}

/// Performs the action that a form names.
async fn operate(call: &Call, head: &Parts, bytes: &[u8]) -> Result<Answer, Fault> {
    let form = Form::parse(bytes)?;
    let version = form.require("Version")?;
    if version != answer::VERSION {
        return Err(Fault::invalid_action(form.get("Action").unwrap_or_default(), version));
    }
    let now = SystemClock.now();
    match form.require("Action")? {
        "AssumeRoleWithWebIdentity" => {
            call.request.set_operation("AssumeRoleWithWebIdentity");
            web_identity::assume(call, &form, now).await
        }
        "AssumeRole" => {
            call.request.set_operation("AssumeRole");
            signature::verify(call, head, bytes, now).await?;
            assume_role::assume(call, &form).await
        }
        "GetCallerIdentity" => {
            call.request.set_operation("GetCallerIdentity");
            signature::verify(call, head, bytes, now).await?;
            form.allow(&[])?;
            caller_identity::answer(call)
        }
        other => Err(Fault::invalid_action(other, version)),
    }
}

/// Reads the body of a request.
async fn receive(head: &Parts, mut body: Inbound, memory: &Memory, request: &Arc<Request>) -> Result<Vec<u8>, Fault> {
    guard::check_size(&head.headers).map_err(|_| Fault::validation("the headers of the request are too large"))?;
    let expected = body.size_hint().upper().unwrap_or(BODY_BYTES_MAX as u64);
    if expected > BODY_BYTES_MAX as u64 {
        return Err(Fault::too_long());
    }
    let share = match memory.take(expected) {
        Some(share) => share,
        None => memory.clone().wait(expected).await.map_err(|_| Fault::throttled())?,
    };
    request.hold(share);
    let read = async {
        let mut bytes = Vec::new();
        while let Some(frame) = std::future::poll_fn(|context| std::pin::Pin::new(&mut body).poll_frame(context)).await
        {
            let frame = frame.map_err(|_| Fault::validation("the body of the request broke off"))?;
            let data = frame.data_ref().map_or(&[][..], |data| data);
            if bytes.len() + data.len() > BODY_BYTES_MAX {
                return Err(Fault::too_long());
            }
            bytes.extend_from_slice(data);
        }
        Ok(bytes)
    };
    tokio::time::timeout(BODY_LIMIT, read).await.unwrap_or_else(|_| Err(Fault::slow()))
}

/// Seconds since 1970.
fn seconds(now: Timestamp) -> i64 {
    now.parts().0
}

/// Parses a request, for the fuzz targets.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn parse(bytes: &[u8]) {
    let Ok(form) = Form::parse(bytes) else { return };
    let _ = role::RoleArn::parse(form.get("RoleArn").unwrap_or_default()).is_ok();
    let _ = role::session(&form).is_ok();
}
