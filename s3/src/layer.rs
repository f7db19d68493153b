//! What surrounds each request: its id, the guards, the access line and the figures.
//!
//! - Every answer carries `x-amz-request-id` and `x-amz-id-2`; an error's XML repeats them beside what was asked for.
//! - Nothing of a signature, a query or a secret is logged.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_RANGE, EXPECT, SERVER};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, StatusCode, Version};
use hyper::body::Incoming;
use percent_encoding::percent_decode_str;
use s3s::service::S3Service;
use s3s::{HttpResponse, S3Error};

use crate::body::{Inbound, Outbound};
use crate::checksum::Claims;
use crate::guard;
use crate::metrics::Metrics;
use crate::request::{Ids, Request};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-amz-request-id");
const HOST_ID: HeaderName = HeaderName::from_static("x-amz-id-2");
const ERROR_END: &[u8] = b"</Error>";

/// The service behind each connection: a cheap handle.
#[derive(Clone)]
pub(crate) struct Layer(Arc<Inner>);

struct Inner {
    s3: S3Service,
    ids: Ids,
    metrics: Metrics,
}

impl Layer {
    /// Surrounds `s3`.
    pub(crate) fn new(s3: S3Service, metrics: Metrics) -> Self {
        Self(Arc::new(Inner { s3, ids: Ids::new(), metrics }))
    }
}

impl hyper::service::Service<http::Request<Incoming>> for Layer {
    type Response = http::Response<Outbound>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: http::Request<Incoming>) -> Self::Future {
        let inner = Arc::clone(&self.0);
        Box::pin(async move { Ok(inner.serve(request).await) })
    }
}

impl Inner {
    async fn serve(&self, request: http::Request<Incoming>) -> http::Response<Outbound> {
        let (head, body) = request.into_parts();
        let path = percent_decode_str(head.uri.path()).decode_utf8_lossy();
        let context = Arc::new(Request::new(self.ids.next(), head.method.clone(), &path));
        let resource = escape(head.uri.path());
        let (version, method, guarded) = (head.version, head.method.clone(), guard::check(&head));
        let body =
            Inbound::new(body, Arc::clone(&context), body_claims(&head).as_ref(), head.headers.contains_key(EXPECT));
        let mut answer = match guarded {
            Ok(()) => self.hand_on(head, body, &context).await,
            Err(error) => {
                drop(body);
                written(error)
            }
        };
        self.stamp(&mut answer, &method, &context.id, &resource);
        if version == Version::HTTP_11 && context.cut_short.load(Ordering::Relaxed) {
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let (parts, body) = answer.into_parts();
        let body = Outbound::new(body, parts.status, context, self.metrics.clone());
        http::Response::from_parts(parts, body)
    }

    async fn hand_on(&self, head: Parts, body: Inbound, context: &Arc<Request>) -> HttpResponse {
        let request = http::Request::from_parts(head, s3s::Body::http_body_unsync(body));
        let answer = Arc::clone(context).scope(self.s3.call(request)).await;
        answer.unwrap_or_else(|error| {
            tracing::error!(%error, request_id = context.id, "a request failed outside its operation");
            bare(StatusCode::INTERNAL_SERVER_ERROR)
        })
    }

    fn stamp(&self, answer: &mut HttpResponse, method: &Method, id: &str, resource: &str) {
        let run = &self.ids.run;
        if answer.status().is_client_error() || answer.status().is_server_error() {
            complete(
                answer,
                &format!("<Resource>{resource}</Resource><RequestId>{id}</RequestId><HostId>{run}</HostId>"),
            );
        }
        // `s3s` answers a HEAD of a range with 200.
        if *method == Method::HEAD && answer.status() == StatusCode::OK && answer.headers().contains_key(CONTENT_RANGE)
        {
            *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
        }
        let headers = answer.headers_mut();
        for (name, value) in [(REQUEST_ID, id), (HOST_ID, run)] {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        }
        headers.insert(SERVER, HeaderValue::from_static("Amphora"));
    }
}

/// What is claimed of a body that `s3s` reads whole, where the claim is of the body itself.
fn body_claims(head: &Parts) -> Option<Claims> {
    let deletes = head.method == Method::POST && guard::has_parameter(&head.uri, "delete");
    if deletes { Claims::from_headers(&head.headers).ok() } else { None }
}

/// Adds `more` to the XML of an error.
fn complete(answer: &mut HttpResponse, more: &str) {
    let Some(xml) = answer.body().bytes() else { return };
    let Some(start) = xml.strip_suffix(ERROR_END) else { return };
    let whole = Bytes::from([start, more.as_bytes(), ERROR_END].concat());
    answer.headers_mut().remove(CONTENT_LENGTH);
    *answer.body_mut() = s3s::Body::from(whole);
}

fn written(error: S3Error) -> HttpResponse {
    error.to_http_response().unwrap_or_else(|_| bare(StatusCode::BAD_REQUEST))
}

fn bare(status: StatusCode) -> HttpResponse {
    let mut answer = HttpResponse::new(s3s::Body::empty());
    *answer.status_mut() = status;
    answer
}

/// A path, as XML writes it.
fn escape(path: &str) -> String {
    path.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_their_request() {
        let mut answer = written(s3s::S3Error::new(s3s::S3ErrorCode::NoSuchKey));
        complete(&mut answer, "<RequestId>7</RequestId>");
        let xml = String::from_utf8(answer.body().bytes().unwrap().to_vec()).unwrap();
        assert!(xml.contains("<Code>NoSuchKey</Code>"), "{xml}");
        assert!(xml.ends_with("<RequestId>7</RequestId></Error>"), "{xml}");
    }

    #[test]
    fn paths_are_escaped() {
        assert_eq!(escape("/a&b<c>"), "/a&amp;b&lt;c&gt;");
    }
}
