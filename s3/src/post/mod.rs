//! Uploads by HTML forms (S3 API, PostObject; "Browser-based uploads using POST").
//!
//! - A form is read up to its file. Then its signature, its policy and its signer's rights are checked, in this order.
//!   Only then is the file read, hashed and staged like the body of a PutObject.
//! - A form without a signature is anonymous.
//! - `s3s` would buffer the file of a form without a declared length before authentication, so it never receives one.

mod answer;
mod form;
#[cfg(any(test, feature = "fuzzing"))]
mod fuzzed;
mod policy;
mod signature;
mod upload;

use std::ops::RangeInclusive;

use futures::TryStreamExt as _;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Uri};
use objstore::clock::{Clock as _, SystemClock};
use objstore::name::BucketName;
use percent_encoding::utf8_percent_encode;
use s3s::auth::S3Auth as _;
use s3s::dto::StreamingBlob;
use s3s::{HttpResponse, S3ErrorCode, S3Result};

use crate::auth::Keys;
use crate::body::{Inbound, receive_within};
use crate::error::refuse;
use crate::guard::Query;
use crate::object::put::Upload;
use crate::request::{Caller, Request};
use crate::service::Service;
use crate::unsupported_headers;
use crate::{access, acl};

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use fuzzed::read;

use answer::Success;
use form::{Fields, Form};
use policy::Policy;
use signature::Signature;

/// The name of forms in the access line and metrics.
const OPERATION: &str = "PostObject";
const FORM: &str = "multipart/form-data";

/// Whether a request is a form. A POST of another operation may have this Content-Type for the object that it creates.
pub(crate) fn is_form(head: &Parts) -> bool {
    head.method == Method::POST
        && !is_operation(&head.uri)
        && content_type(&head.headers).get(..FORM.len()).is_some_and(|kind| kind.eq_ignore_ascii_case(FORM))
}

/// Keeps `s3s` from treating a request of another operation as a form because of its Content-Type. A blank before the
/// type has that effect and does not change the signature; it is removed where types are stored.
pub(crate) fn hide_type(head: &mut Parts) {
    let Some(given) = head.headers.get_mut(CONTENT_TYPE).filter(|_| head.method == Method::POST) else { return };
    if let Ok(hidden) = HeaderValue::from_bytes(&[b" ", given.as_bytes()].concat()) {
        *given = hidden;
    }
}

fn is_operation(uri: &Uri) -> bool {
    const OPERATIONS: [&str; 5] = ["delete", "restore", "select", "uploadId", "uploads"];
    let query = Query::of(uri);
    OPERATIONS.iter().any(|name| query.has_in_any_case(name))
}

fn content_type(headers: &HeaderMap) -> &str {
    headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Stores the file of a form: on disk and visible to all when the response is sent.
pub(crate) async fn serve(service: &Service, request: &Request, head: &Parts, body: Inbound) -> S3Result<HttpResponse> {
    let bucket = request.bucket.clone().filter(|_| request.key.is_none());
    let bucket = bucket.ok_or_else(|| {
        refuse(S3ErrorCode::MethodNotAllowed, "A form is posted to a bucket, and names the key in a field.")
    })?;
    let body = s3s::Body::http_body_unsync(body).map_err(s3s_multipart::Error::stream_read_failed);
    let Form { fields, file } = Form::read(content_type(&head.headers), body).await?;
    let (caller, size) = authenticate(service, request, &fields, &bucket).await?;
    request.set_operation(OPERATION);

    let headers = upload::headers(&fields, &head.headers)?;
    let mut input = upload::input(bucket.as_str(), &fields, &headers)?;
    unsupported_headers::check("PostObject", &headers)?;
    unsupported_headers::check("PostObject", &head.headers)?;
    acl::check(&head.headers, false)?;
    let account = caller.map(|caller| caller.account.clone());
    access::allow_form(service, request, account, bucket.clone(), &input.key, (&headers, &head.uri)).await?;
    let success = Success::of(&fields)?;
    let upload = Upload::new(service, &mut input, &headers).await?;
    let received = receive_within(&service.store, StreamingBlob::wrap(file), &upload.claims, size).await?;
    let object = upload.store(service, received).await?;

    let path = utf8_percent_encode(&object.key, answer::PATH).to_string();
    Ok(success.answer(bucket.as_str(), &object, &request.url(&head.headers, bucket.as_str(), &path)))
}

/// The signer of a form, and the largest file that its policy allows.
async fn authenticate<'a>(
    service: &Service,
    request: &'a Request,
    fields: &Fields,
    bucket: &BucketName,
) -> S3Result<(Option<&'a Caller>, RangeInclusive<u64>)> {
    fields.require("key")?;
    let now = SystemClock.now();
    let Some(signature) = Signature::find(fields, &service.region, now)? else { return Ok((None, 0..=u64::MAX)) };
    let secret = Keys(service.clone()).get_secret_key(signature.access_key()).await?;
    signature.verify(&secret)?;
    let size = Policy::parse(signature.policy())?.check(fields, bucket.as_str(), now)?;
    Ok((request.caller(), size))
}
