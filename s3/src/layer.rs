//! The layer around `s3s`: request ids, guards, requests that `s3s` does not support, error documents, the access line
//! and metrics.
//!
//! - Every response carries `x-amz-request-id` and `x-amz-id-2`; an error document repeats them with the request's
//!   bucket and key.
//! - Nothing of a signature, a query or a secret is logged.

mod late;
mod website;

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, SERVER};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use hyper::body::Incoming;
use objstore::clock::{Clock as _, SystemClock};
use percent_encoding::percent_decode_str;
use s3s::{HttpResponse, S3Error};

use crate::adapter::Adapter;
use crate::address::{self, Address, Domains};
use crate::body::{Memory, Share, is_form};
use crate::error::{self, Failure, Sent};
use crate::inbound::Inbound;
use crate::limits::Limits;
use crate::outbound::{Listeners, Outbound};
use crate::peer::Peer;
use crate::query::{Query, order_repeated};
use crate::request::{Ids, Request};
use crate::service::{Call, Service};
use crate::xml::Document;
use crate::{cors, guard, post, presigned_v2, rewrite, sts};
use late::Late;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-amz-request-id");
const HOST_ID: HeaderName = HeaderName::from_static("x-amz-id-2");
/// The operation that may fail after its response has begun.
const COMPLETION: &str = "CompleteMultipartUpload";
const VERSION_PARAMETER: &str = "versionId";
const VERSION_HEADER: &str = "x-amz-version-id";

/// The service behind each connection: a cheap handle.
#[derive(Clone)]
pub(crate) struct Layer(Arc<Inner>);

/// The domains below which hosts name buckets.
pub(crate) struct Hosts {
    /// On the S3 listener.
    pub(crate) s3: Domains,
    /// On the website listener.
    pub(crate) websites: Domains,
}

struct Inner {
    adapter: Adapter,
    service: Arc<Service>,
    ids: Arc<Ids>,
    listeners: Arc<Listeners>,
    hosts: Hosts,
    body_stall: Duration,
    memory: Memory,
    answers: Memory,
    /// The memory for bodies of requests to STS, whose senders may be unknown.
    sts_memory: Memory,
}

impl Layer {
    /// The layer around the services that `adapter` makes. Its requests have ids of this series. `limits` bounds the
    /// bodies.
    pub(crate) fn new(
        adapter: Adapter,
        service: Arc<Service>,
        listeners: Listeners,
        (hosts, ids): (Hosts, Arc<Ids>),
        limits: &Limits,
    ) -> Self {
        let memory = Memory::new(limits.body_memory_bytes, limits.memory_wait);
        let answers = Memory::new(limits.answer_memory_bytes, limits.memory_wait);
        let sts_memory = Memory::new(sts::MEMORY_BYTES, limits.memory_wait);
        let (listeners, body_stall) = (Arc::new(listeners), limits.body_stall);
        Self(Arc::new(Inner { adapter, service, ids, listeners, hosts, body_stall, memory, answers, sts_memory }))
    }

    /// The memory for request bodies, and that for responses.
    pub(crate) fn memory(&self) -> (Memory, Memory) {
        (self.0.memory.clone(), self.0.answers.clone())
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
        let (mut head, body) = request.into_parts();
        let context = Arc::new(self.context(&mut head));
        let (sent, asked) = (Arc::new(Sent::of(&head)), cors::Asked::of(&head));
        let body = Inbound::new(body, &head, Arc::clone(&context), self.body_stall, &self.memory);
        let call = Call { service: Arc::clone(&self.service), request: Arc::clone(&context) };
        let mut answer = self.answer(head, body, &call).await;
        context.let_go();
        if let Some(fault) = context.fault() {
            answer = written(fault.refuse());
        }
        let share = self.share_of(&context.method, &mut answer).await;
        note_answer(&context, &answer);
        self.tell_failure(&mut answer, &context, &sent);
        self.tell_late_failure(&mut answer, &context, &sent);
        self.stamp(&mut answer, &context.method, &context.id);
        if let Some(asked) = asked {
            asked.tell(&call, &mut answer).await;
        }
        if sent.is_http_11() && context.ends_connection.load(Ordering::Relaxed) {
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let (parts, body) = answer.into_parts();
        let body = Outbound::new(body, parts.status, share, context, Arc::clone(&self.listeners));
        http::Response::from_parts(parts, body)
    }

    /// The request with this head, whose URL and headers are brought into the form that is verified and routed.
    fn context(&self, head: &mut Parts) -> Request {
        let peer = head.extensions.get::<Peer>().copied();
        if peer.is_some_and(|peer| peer.website) {
            let path = percent_decode_str(head.uri.path()).decode_utf8_lossy();
            let address = Address::of_website(&self.hosts.websites, address::host(head), &path);
            return Request::new(self.ids.next(), head, address, peer);
        }
        order_repeated(&mut head.uri);
        let hoisted = guard::hoist(head);
        let path = percent_decode_str(head.uri.path()).decode_utf8_lossy();
        let address = Address::new(&self.hosts.s3, address::host(head), &path);
        let request = Request::new(self.ids.next(), head, address, peer);
        note_version(&request, &head.uri);
        request.set_hoisted(hoisted);
        request
    }

    /// Takes memory for a response, or replaces it with a refusal. Only GET responses are large, so a refused request
    /// has changed nothing.
    async fn share_of(&self, method: &Method, answer: &mut HttpResponse) -> Option<Share> {
        if *method != Method::GET {
            return None;
        }
        let share = self.answers.for_answer(answer.body()).await;
        share.unwrap_or_else(|fault| {
            *answer = written(fault.refuse());
            None
        })
    }

    /// Answers preflights, requests to STS and forms, which `s3s` does not support, and passes other requests on.
    async fn answer(&self, mut head: Parts, body: Inbound, call: &Call) -> HttpResponse {
        let request = &call.request;
        if request.website {
            return website::serve(&self.adapter, call, &head).await;
        }
        if head.method == Method::OPTIONS {
            if let Err(error) = guard::check_size(&head.headers) {
                return written(error);
            }
            return cors::preflight(call, &head.headers).await.unwrap_or_else(written);
        }
        if sts::is_addressed(&head, request) {
            return sts::serve(call, &head, body, &self.sts_memory).await;
        }
        let endpoint = guard::Endpoint { region: &self.service.region, presigned_v2: self.service.presigned_v2 };
        if let Err(error) = guard::check(&head, request.resource, request.body, endpoint) {
            return written(error);
        }
        note_session(request, &head);
        if is_form(&head) {
            return Box::pin(post::serve(call, &head, body)).await.unwrap_or_else(written);
        }
        if let Err(error) = presigned_v2::verify(call, &mut head).await {
            return written(error);
        }
        post::hide_type(&mut head);
        operate(&self.adapter, call, head, s3s::Body::http_body_unsync(body)).await
    }

    /// Writes an error document as AWS does, and records the error's code.
    fn tell_failure(&self, answer: &mut HttpResponse, context: &Request, sent: &Sent) {
        if context.website {
            return website::tell_failure(answer, context, &self.ids.run);
        }
        if !(answer.status().is_client_error() || answer.status().is_server_error()) {
            return;
        }
        if let Some(sts::ErrorCode(code)) = answer.extensions_mut().remove() {
            return context.set_error_code(code.to_owned());
        }
        let Some(mut failure) = failure_of(answer, context, sent) else { return };
        failure.complete(context.addressed(), sent);
        if error::has_document(&context.method) {
            let ids = [("Resource", sent.resource()), ("RequestId", &*context.id), ("HostId", &*self.ids.run)];
            *answer.body_mut() = s3s::Body::from(failure.document(&ids));
            answer.headers_mut().remove(CONTENT_LENGTH);
            answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
        }
        context.set_error_code(failure.code);
    }

    /// Lets a response that began before its operation ended report an error as AWS does.
    fn tell_late_failure(&self, answer: &mut HttpResponse, context: &Arc<Request>, sent: &Arc<Sent>) {
        if answer.status() == StatusCode::OK && context.operation() == COMPLETION && answer.body().bytes().is_none() {
            let body = std::mem::take(answer.body_mut());
            let late = Late::new(body, Arc::clone(context), Arc::clone(sent), self.ids.run.clone());
            *answer.body_mut() = s3s::Body::http_body_unsync(late);
        }
    }

    fn stamp(&self, answer: &mut HttpResponse, method: &Method, id: &str) {
        let run = &self.ids.run;
        // `s3s` answers a HEAD of a range with status 200.
        if *method == Method::HEAD && answer.status() == StatusCode::OK && answer.headers().contains_key(CONTENT_RANGE)
        {
            *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
        }
        // Removes the body: hyper drops it over HTTP/1 only, and HTTP/2 clients treat data here as a protocol error.
        if *method == Method::HEAD {
            *answer.body_mut() = s3s::Body::empty();
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

/// Has `s3s` answer a request, its headers rewritten. A document that the operation wrote takes the place of the body.
async fn operate(adapter: &Adapter, call: &Call, mut head: Parts, body: s3s::Body) -> HttpResponse {
    rewrite::headers(call, &mut head).await;
    let mut answer = adapter.serve(call, head, body).await.unwrap_or_else(|error| {
        tracing::error!(%error, request_id = call.request.id, "a request failed outside of an operation");
        bare(StatusCode::INTERNAL_SERVER_ERROR)
    });
    if let Some(Document(body)) = answer.extensions_mut().remove() {
        answer.headers_mut().remove(CONTENT_LENGTH);
        *answer.body_mut() = s3s::Body::from(body);
    }
    answer
}

/// Records the version that the URL names, for the access line.
fn note_version(request: &Request, uri: &http::Uri) {
    if uri.query().is_some_and(|query| query.contains(VERSION_PARAMETER))
        && let Some(version) = Query::of(uri).get(VERSION_PARAMETER)
    {
        request.set_version(version.to_owned());
    }
}

/// Records the session token of a request, which the guards accepted.
fn note_session(request: &Request, head: &Parts) {
    if let Ok(Some(token)) = guard::session_token(&Query::of(&head.uri), &head.headers) {
        request.set_session_token(token);
    }
}

/// Records the version and the object size that the response names, for the access line and the access log.
fn note_answer(request: &Request, answer: &HttpResponse) {
    let reads = ["GetObject", "HeadObject", "GetWebsiteObject", "HeadWebsiteObject"];
    if reads.contains(&request.operation()) && answer.status().is_success() {
        object_bytes(answer.headers()).into_iter().for_each(|bytes| request.set_object_bytes(bytes));
    }
    if let Some(version) = answer.headers().get(VERSION_HEADER).and_then(|version| version.to_str().ok()) {
        request.set_version(version.to_owned());
    }
}

/// The size of the object that an answer with these headers has all or a range of.
fn object_bytes(headers: &HeaderMap) -> Option<u64> {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    match text(CONTENT_RANGE) {
        Some(range) => range.rsplit_once('/')?.1.parse().ok(),
        None => text(CONTENT_LENGTH)?.parse().ok(),
    }
}

/// How a request failed: an error of this crate, one that it passed to `s3s`, or one of `s3s` itself, whose status may
/// be wrong.
fn failure_of(answer: &mut HttpResponse, context: &Request, sent: &Sent) -> Option<Failure> {
    if let Some(failure) = answer.extensions_mut().remove::<Failure>() {
        return Some(failure);
    }
    if let Some(failure) = context.failure() {
        return Some(failure.clone());
    }
    let (failure, status) = error::read(&answer.body().bytes()?, sent, SystemClock.now())?;
    if let Some(status) = status {
        *answer.status_mut() = status;
    }
    Some(failure)
}

/// An error as a response; its document is written when the request is complete.
#[expect(clippy::needless_pass_by_value, reason = "it ends the way of an error, as an argument of unwrap_or_else")]
fn written(error: S3Error) -> HttpResponse {
    let mut answer = bare(error.status_code().unwrap_or(StatusCode::INTERNAL_SERVER_ERROR));
    answer.headers_mut().extend(error.headers().cloned().unwrap_or_default());
    answer.extensions_mut().insert(Failure::of(&error));
    answer
}

fn bare(status: StatusCode) -> HttpResponse {
    let mut answer = HttpResponse::new(s3s::Body::empty());
    *answer.status_mut() = status;
    answer
}
