//! A request of the website listener.
//!
//! - The order is AWS's: a redirect of everything, routing rules without an error, the object (or the index document of
//!   the folder), the redirect that the object has, the folder of that name, routing rules about the error, the error
//!   document.
//! - Each object is read by a request of its own through `s3s` and the access check, without a key: the path is built
//!   here and always names an object, and of the headers only conditions, ranges and those that policies refer to are
//!   passed on.
//! - Those requests have no access line and no metrics; the client's request has both.

use std::sync::Arc;

use http::header::{
    ALLOW, HOST, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, LOCATION, RANGE, REFERER,
    USER_AGENT,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use objstore::name::BucketName;
use objstore::store::{BucketSettings, RoutingRule, Website};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use s3s::{HttpResponse, S3Error, S3ErrorCode, S3Result};

use super::super::{failure_of, operate, written};
use super::page::OfErrorDocument;
use super::{location, rules};
use crate::adapter::Adapter;
use crate::address::{self, Address};
use crate::error::{Failure, OrRefuse as _, Sent, custom, plain};
use crate::guard;
use crate::request::Request;
use crate::service::Call;

const REDIRECT: HeaderName = HeaderName::from_static("x-amz-website-redirect-location");
/// Headers that conditions of a policy ask for.
const ABOUT_CLIENT: [HeaderName; 2] = [REFERER, USER_AGENT];
/// Headers of a read.
const OF_READ: [HeaderName; 6] = [IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE];
/// The characters that are encoded in the path of an inner request.
const PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Answers a request of the website listener. An error is in the extensions of the answer.
pub(in crate::layer) async fn serve(adapter: &Adapter, call: &Call, head: &Parts) -> HttpResponse {
    match answer(adapter, call, head).await {
        Ok(answer) => answer,
        Err(error) => written(error),
    }
}

async fn answer(adapter: &Adapter, call: &Call, head: &Parts) -> S3Result<HttpResponse> {
    let context = &call.request;
    match head.method {
        Method::GET => context.set_operation("GetWebsiteObject"),
        Method::HEAD => context.set_operation("HeadWebsiteObject"),
        _ => return Err(not_allowed()),
    }
    guard::check_size(&head.headers)?;
    if percent_decode_str(head.uri.path()).decode_utf8().is_err() {
        return Err(plain(S3ErrorCode::InvalidURI));
    }
    let bucket = context.bucket.clone().ok_or_else(|| plain(S3ErrorCode::NoSuchBucket))?;
    let name = bucket.clone();
    let found = call.blocking(move |store| store.settings(&name).or_refuse()).await?;
    let BucketSettings { settings, .. } = found;
    let none = || plain(S3ErrorCode::NoSuchWebsiteConfiguration);
    let website = settings.website.as_ref().ok_or_else(none)?;
    let key = context.key.as_deref().unwrap_or_default();
    let visit = Visit { adapter, call, head, bucket, website, key };
    if let Some(to) = &website.redirect_all {
        let query = head.uri.query().unwrap_or_default();
        let protocol = visit.protocol(to.protocol.as_deref());
        let location = location::elsewhere(protocol, &to.host, ("", key), query);
        return redirect(StatusCode::MOVED_PERMANENTLY, location);
    }
    visit.answer().await
}

fn not_allowed() -> S3Error {
    let mut error = plain(S3ErrorCode::MethodNotAllowed);
    error.set_headers(HeaderMap::from_iter([(ALLOW, HeaderValue::from_static("GET, HEAD"))]));
    error
}

/// A request about a website.
struct Visit<'a> {
    adapter: &'a Adapter,
    call: &'a Call,
    head: &'a Parts,
    bucket: BucketName,
    website: &'a Website,
    key: &'a str,
}

impl Visit<'_> {
    async fn answer(&self) -> S3Result<HttpResponse> {
        let Self { website, key, .. } = *self;
        if let Some(rule) = rules::first(website, key, None) {
            return self.route(rule);
        }
        let index = website.index.as_deref().unwrap_or_default();
        let folder = key.is_empty() || key.ends_with('/');
        let object = if folder { format!("{key}{index}") } else { key.to_owned() };
        let answer = self.read(&object, &OF_READ).await;
        let status = answer.status();
        if answer.extensions().get::<Failure>().is_none() {
            return match answer.headers().get(&REDIRECT).map(|to| String::from_utf8_lossy(to.as_bytes())) {
                Some(to) if status.is_success() => redirect(StatusCode::MOVED_PERMANENTLY, location::kept(&to)),
                _ => Ok(answer),
            };
        }
        let absent = status == StatusCode::NOT_FOUND || status == StatusCode::FORBIDDEN;
        if absent && !folder && self.has(&format!("{key}/{index}")).await {
            return redirect(StatusCode::FOUND, location::folder(key));
        }
        match rules::first(website, key, Some(status.as_u16())) {
            Some(rule) => self.route(rule),
            None => Ok(self.with_document(answer).await),
        }
    }

    /// Answers a failure with the error document, if there is one.
    async fn with_document(&self, mut failed: HttpResponse) -> HttpResponse {
        let Some(document) = &self.website.error else { return failed };
        let mut answer = self.read(document, &[]).await;
        match answer.extensions_mut().remove::<Failure>() {
            None => {
                if let Some(failure) = failed.extensions().get::<Failure>() {
                    self.call.request.set_error_code(failure.code.clone());
                }
                *answer.status_mut() = failed.status();
                answer
            }
            Some(of_document) => {
                failed.extensions_mut().insert(OfErrorDocument(of_document));
                failed
            }
        }
    }

    /// Whether an object is there that may be read.
    async fn has(&self, key: &str) -> bool {
        let answer = self.request(Method::HEAD, key, &[]).await;
        answer.status().is_success()
    }

    async fn read(&self, key: &str, headers: &[HeaderName]) -> HttpResponse {
        self.request(self.head.method.clone(), key, headers).await
    }

    /// Asks for an object anonymously, with these headers of the request. A failure is in the extensions of
    /// the answer.
    async fn request(&self, method: Method, key: &str, headers: &[HeaderName]) -> HttpResponse {
        let path = format!("/{}/{}", self.bucket, percent_encode(key.as_bytes(), PATH));
        let uri = match path.parse::<Uri>() {
            Ok(uri) if !key.is_empty() => uri,
            _ => return written(plain(S3ErrorCode::NoSuchKey)),
        };
        let (mut head, ()) = http::Request::new(()).into_parts();
        (head.method, head.uri) = (method, uri);
        for name in ABOUT_CLIENT.iter().chain(headers) {
            for value in self.head.headers.get_all(name) {
                head.headers.append(name, value.clone());
            }
        }
        // An address is no host that could name another bucket.
        head.headers.insert(HOST, HeaderValue::from_static("127.0.0.1"));
        let address = Address { bucket: self.bucket.to_string(), key: Some(key.to_owned()), by_host: false };
        let visit = &self.call.request;
        let request = Arc::new(Request::new(visit.id.clone(), &head, address, visit.peer));
        let (call, sent) = (Call { request, ..self.call.clone() }, Sent::of(&head));
        let mut answer = operate(self.adapter, &call, head, s3s::Body::empty()).await;
        if answer.status().is_client_error() || answer.status().is_server_error() {
            let unknown = || Failure::of(&plain(S3ErrorCode::InternalError));
            let mut failure = failure_of(&mut answer, &call.request, &sent).unwrap_or_else(unknown);
            failure.complete(call.request.addressed(), &sent);
            answer.extensions_mut().insert(failure);
        }
        answer
    }

    /// Leads where a routing rule says.
    fn route(&self, rule: &RoutingRule) -> S3Result<HttpResponse> {
        let (start, rest) = rules::target(rule, self.key);
        let host = rule.host.as_deref().unwrap_or_else(|| address::host(self.head));
        let location = location::elsewhere(self.protocol(rule.protocol.as_deref()), host, (&start, rest), "");
        let status = rule.redirect_code.and_then(|code| StatusCode::from_u16(u16::try_from(code).ok()?).ok());
        redirect(status.unwrap_or(StatusCode::MOVED_PERMANENTLY), location)
    }

    /// The protocol of a redirect: where none is set, that of the request.
    fn protocol<'b>(&self, set: Option<&'b str>) -> &'b str {
        let secure = self.call.request.peer.is_some_and(|peer| peer.secure);
        set.unwrap_or(if secure { "https" } else { "http" })
    }
}

fn redirect(status: StatusCode, location: Option<HeaderValue>) -> S3Result<HttpResponse> {
    let location = location.ok_or_else(|| plain(custom("InvalidRedirectLocation")))?;
    let mut answer = HttpResponse::new(s3s::Body::empty());
    *answer.status_mut() = status;
    answer.headers_mut().insert(LOCATION, location);
    Ok(answer)
}
