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
use http::{HeaderValue, Method};
use objstore::clock::{Clock as _, SystemClock};
use objstore::name::BucketName;
use percent_encoding::utf8_percent_encode;
use s3s::dto::StreamingBlob;
use s3s::{HttpResponse, S3ErrorCode, S3Result};

use crate::auth::secret_key;
use crate::authorization::Caller;
use crate::body::{content_type, receive_within};
use crate::error::refuse;
use crate::inbound::Inbound;
use crate::object::put::Upload;
use crate::service::Call;
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

/// Keeps `s3s` from treating a request of another operation as a form because of its Content-Type. A blank before the
/// type has that effect and does not change the signature; it is removed where types are stored.
pub(crate) fn hide_type(head: &mut Parts) {
    let Some(given) = head.headers.get_mut(CONTENT_TYPE).filter(|_| head.method == Method::POST) else { return };
    if let Ok(hidden) = HeaderValue::from_bytes(&[b" ", given.as_bytes()].concat()) {
        *given = hidden;
    }
}

/// Stores the file of a form: on disk and visible to all when the response is sent.
pub(crate) async fn serve(call: &Call, head: &Parts, body: Inbound) -> S3Result<HttpResponse> {
    let request = &call.request;
    let bucket = request.bucket.clone().filter(|_| request.key.is_none());
    let bucket = bucket.ok_or_else(|| {
        refuse(S3ErrorCode::MethodNotAllowed, "A form is posted to a bucket, and names the key in a field.")
    })?;
    let body = s3s::Body::http_body_unsync(body).map_err(s3s_multipart::Error::stream_read_failed);
    let Form { fields, file } = Form::read(content_type(&head.headers), body).await?;
    let (caller, size) = authenticate(call, &fields, &bucket).await?;
    request.set_operation(OPERATION);

    let headers = upload::headers(&fields, &head.headers)?;
    let mut input = upload::input(bucket.as_str(), &fields, &headers)?;
    unsupported_headers::check("PostObject", &headers)?;
    unsupported_headers::check("PostObject", &head.headers)?;
    acl::check(&head.headers, false)?;
    let account = caller.map(|caller| caller.account.clone());
    access::allow_form(call, account, bucket.clone(), &input.key, (&headers, &head.uri)).await?;
    let success = Success::of(&fields)?;
    let upload = Upload::new(call, &mut input, &headers).await?;
    let received = receive_within(&call.store, StreamingBlob::wrap(file), &upload.claims, size).await?;
    let object = upload.store(call, received).await?;

    let path = utf8_percent_encode(&object.key, answer::PATH).to_string();
    Ok(success.answer(bucket.as_str(), &object, &request.url(&head.headers, bucket.as_str(), &path)))
}

/// The signer of a form, and the largest file that its policy allows.
async fn authenticate<'a>(
    call: &'a Call,
    fields: &Fields,
    bucket: &BucketName,
) -> S3Result<(Option<&'a Caller>, RangeInclusive<u64>)> {
    fields.require("key")?;
    let now = SystemClock.now();
    let Some(signature) = Signature::find(fields, &call.region, now)? else { return Ok((None, 0..=u64::MAX)) };
    if let Some(token) = fields.get("x-amz-security-token") {
        call.request.set_session_token(token.to_owned());
    }
    let secret = secret_key(call, signature.access_key()).await?;
    signature.verify(&secret)?;
    let size = Policy::parse(signature.policy())?.check(fields, bucket.as_str(), now)?;
    Ok((call.request.caller(), size))
}
