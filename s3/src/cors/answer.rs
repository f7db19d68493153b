//! CORS preflights, and the CORS headers of responses to other origins.
//!
//! - A preflight is a browser's question before it sends the request: it is unsigned, and its answer shows only what
//!   the rules allow.
//! - Responses vary with the origin in every bucket with rules, refusals too, so that no cache mixes them up.

use http::header::{ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use objstore::Store;
use objstore::name::BucketName;
use s3s::{HttpResponse, S3Error, S3Result};

use super::config::METHODS;
use super::rule::{ScriptRequest, allow, names};
use crate::error::{OrRefuse as _, custom, says};
use crate::service::{Call, Service};

const VARIES: HeaderValue =
    HeaderValue::from_static("Origin, Access-Control-Request-Headers, Access-Control-Request-Method");
/// The most headers that a preflight may name; browsers name those that a script sets.
const NAMES_MAX: usize = 100;
/// The name of preflights in the access line and metrics.
const OPERATION: &str = "Preflight";

/// A cross-origin request.
pub(crate) struct Asked {
    origin: String,
    method: String,
}

impl Asked {
    /// From a request with an Origin that is not a preflight.
    pub(crate) fn of(head: &Parts) -> Option<Self> {
        let origin = text(&head.headers, &ORIGIN).filter(|_| head.method != Method::OPTIONS)?;
        // Scripts cannot send this header; another client that does is answered for the method it names.
        let method = text(&head.headers, &ACCESS_CONTROL_REQUEST_METHOD).unwrap_or(head.method.as_str());
        Some(Self { origin: origin.to_owned(), method: method.to_owned() })
    }

    /// Adds what the bucket's rules allow to `answer`.
    pub(crate) async fn tell(&self, call: &Call, answer: &mut HttpResponse) {
        let Some(bucket) = call.request.bucket.clone() else { return };
        let (origin, method) = (self.origin.clone(), self.method.clone());
        let Ok(Some(told)) = judge(call, bucket, origin, method, String::new()).await else { return };
        answer.headers_mut().append(VARY, VARIES);
        if let Decision::Allowed(headers) = told {
            answer.headers_mut().extend(headers);
        }
    }
}

/// Answers a preflight (S3 API, "OPTIONS object").
pub(crate) async fn preflight(call: &Call, headers: &HeaderMap) -> S3Result<HttpResponse> {
    call.request.set_operation(OPERATION);
    let Some(origin) = text(headers, &ORIGIN) else {
        return Err(bad("Insufficient information. Origin request header needed."));
    };
    let method = text(headers, &ACCESS_CONTROL_REQUEST_METHOD).unwrap_or("null");
    if !METHODS.contains(&method) {
        return Err(bad(format!("Invalid Access-Control-Request-Method: {method}")));
    }
    let asked = text(headers, &ACCESS_CONTROL_REQUEST_HEADERS).unwrap_or_default();
    if names(asked).count() > NAMES_MAX {
        return Err(bad(format!("Access-Control-Request-Headers names at most {NAMES_MAX} headers.")));
    }
    let (origin, method, asked) = (origin.to_owned(), method.to_owned(), asked.to_owned());
    let told = match call.request.bucket.clone() {
        Some(bucket) => judge(call, bucket, origin, method, asked).await.unwrap_or_default(),
        None => None,
    };
    let told = match told {
        Some(Decision::Allowed(told)) => told,
        None => return Err(forbidden("CORSResponse: CORS is not enabled for this bucket.")),
        Some(Decision::Refused) => {
            return Err(forbidden(
                "CORSResponse: This CORS request is not allowed. This is usually because the evaluation of Origin, \
                 request method / Access-Control-Request-Method or Access-Control-Request-Headers are not whitelisted \
                 by the resource's CORS spec.",
            ));
        }
    };
    let mut answer = HttpResponse::new(s3s::Body::empty());
    *answer.headers_mut() = told;
    answer.headers_mut().insert(VARY, VARIES);
    Ok(answer)
}

/// The verdict of a bucket's rules.
enum Decision {
    Allowed(HeaderMap),
    Refused,
}

/// Evaluates the rules of a bucket; `None` if it has none. It runs off the async workers, because the author of the
/// rules determines how long that takes.
async fn judge(
    service: &Service,
    bucket: BucketName,
    origin: String,
    method: String,
    headers: String,
) -> S3Result<Option<Decision>> {
    let judge = move |store: &Store| {
        let settings = store.settings(&bucket).or_refuse()?.settings;
        let allowed = || allow(&settings.cors, ScriptRequest { origin: &origin, method: &method, headers: &headers });
        Ok((!settings.cors.is_empty()).then(|| allowed().map_or(Decision::Refused, Decision::Allowed)))
    };
    service.blocking(judge).await
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn bad(words: impl Into<String>) -> S3Error {
    says(custom("BadRequest"), words)
}

fn forbidden(words: &'static str) -> S3Error {
    says(custom("AccessForbidden"), words)
}
