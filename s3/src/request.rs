//! The context of one request, shared by the layers around `s3s`.
//!
//! - It is an argument everywhere: `s3s` passes nothing from authentication to the access check, so it is given to both
//!   by the [`Call`](crate::service::Call) that serves this one request (`adapter`).
//! - It is filled while the request is processed; the access line and the metrics read it at the end.
//! - It holds no secret but the session token, which nothing prints.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use http::request::Parts;
use http::{HeaderMap, HeaderName, Method};
use objstore::name::BucketName;
use objstore::store::{Account, Secret};
use s3s::{S3Error, S3ErrorCode, S3Result};

use crate::access_log;
use crate::address::{Address, Resource, host_header};
use crate::authorization::{Authority, Caller, CheckedSource, Sender};
use crate::body::{Fault, Kind, Share};
use crate::checksum::{Claims, Sums};
use crate::client_info::ClientInfo;
use crate::error::{Failure, refuse};
use crate::peer::Peer;

/// The name of an unsupported operation in metrics and the access line.
pub(crate) const NOT_OFFERED: &str = "NotOffered";

/// A request in progress.
pub(crate) struct Request {
    /// `x-amz-request-id`.
    pub(crate) id: String,
    /// The HTTP method.
    pub(crate) method: Method,
    /// When its head was read.
    pub(crate) start: Instant,
    /// The bucket that the host or path names, if it is a valid bucket name.
    pub(crate) bucket: Option<BucketName>,
    /// The text in the place of a bucket name, valid or not.
    pub(crate) bucket_text: String,
    /// The key that the path names.
    pub(crate) key: Option<String>,
    /// The kind of resource that it addresses.
    pub(crate) resource: Resource,
    /// Whether the host names the bucket.
    pub(crate) by_host: bool,
    /// The client's connection; `None` for a request without one.
    pub(crate) peer: Option<Peer>,
    /// The kind of its body, according to its head.
    pub(crate) body: Kind,
    /// The client headers for the access line.
    pub(crate) client: ClientInfo,
    /// Whether it came to the website listener.
    pub(crate) website: bool,
    /// What its head says for the access log of its bucket.
    pub(crate) head: access_log::Head,
    /// Bytes of body read so far.
    pub(crate) bytes_in: AtomicU64,
    /// Whether the connection cannot carry another request: the rest of the body will not be read, or the client waits
    /// for a `100 Continue` that was never sent.
    pub(crate) ends_connection: AtomicBool,
    /// Microseconds from its head to the last bytes of its body so far.
    body_end_us: AtomicU64,
    object_bytes: OnceLock<u64>,
    operation: OnceLock<&'static str>,
    caller: OnceLock<Arc<Caller>>,
    url_signer: OnceLock<String>,
    session_token: OnceLock<Secret>,
    subject: Mutex<Option<String>>,
    authority: OnceLock<Arc<Authority>>,
    source: OnceLock<(Arc<Authority>, String)>,
    checked_source: OnceLock<CheckedSource>,
    body_sums: Mutex<Option<Sums>>,
    fault: OnceLock<Fault>,
    hoisted: OnceLock<Vec<HeaderName>>,
    share: Mutex<Option<Share>>,
    version: OnceLock<String>,
    error_code: OnceLock<String>,
    failure: OnceLock<Failure>,
}

impl Request {
    /// The context of a request whose head was just read.
    pub(crate) fn new(id: String, head: &Parts, address: Address, peer: Option<Peer>) -> Self {
        let of_object = address.key.is_some();
        let website = peer.is_some_and(|peer| peer.website);
        Self {
            id,
            website,
            client: ClientInfo::of(&head.headers),
            head: access_log::Head::of(head),
            body_end_us: AtomicU64::new(0),
            object_bytes: OnceLock::new(),
            version: OnceLock::new(),
            error_code: OnceLock::new(),
            failure: OnceLock::new(),
            resource: address.resource(),
            method: head.method.clone(),
            start: Instant::now(),
            bucket: address.bucket.parse().ok(),
            bucket_text: address.bucket,
            key: address.key,
            by_host: address.by_host,
            url_signer: OnceLock::new(),
            session_token: OnceLock::new(),
            subject: Mutex::new(None),
            peer,
            body: Kind::of(head, of_object),
            bytes_in: AtomicU64::new(0),
            ends_connection: AtomicBool::new(false),
            operation: OnceLock::new(),
            caller: OnceLock::new(),
            authority: OnceLock::new(),
            source: OnceLock::new(),
            checked_source: OnceLock::new(),
            body_sums: Mutex::new(None),
            fault: OnceLock::new(),
            hoisted: OnceLock::new(),
            share: Mutex::new(None),
        }
    }

    /// Adds to the bytes of body read.
    pub(crate) fn count_in(&self, bytes: usize) {
        self.bytes_in.fetch_add(bytes as u64, Ordering::Relaxed);
        let now = u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.body_end_us.store(now, Ordering::Relaxed);
    }

    /// From its head to the last bytes of its body.
    pub(crate) fn body_end(&self) -> Duration {
        Duration::from_micros(self.body_end_us.load(Ordering::Relaxed))
    }

    /// The size of the object that the answer is about, if it says one.
    pub(crate) fn object_bytes(&self) -> Option<u64> {
        self.object_bytes.get().copied()
    }

    /// Notes the size of the object that the answer is about.
    pub(crate) fn set_object_bytes(&self, bytes: u64) {
        let _ = self.object_bytes.set(bytes);
    }

    /// The text in the place of a bucket name, and the key.
    pub(crate) fn addressed(&self) -> (&str, Option<&str>) {
        (&self.bucket_text, self.key.as_deref())
    }

    /// What conditions of policies ask of the sender and the operation.
    pub(crate) fn sender(&self) -> Sender {
        Sender { peer: self.peer, operation: self.operation(), url_v2: self.url_signer().is_some() }
    }

    /// The URL of an object, addressed in the style and at the host of this request.
    pub(crate) fn url(&self, headers: &HeaderMap, bucket: &str, key: &str) -> String {
        let scheme = if self.peer.is_some_and(|peer| peer.secure) { "https" } else { "http" };
        let host = host_header(headers);
        if self.by_host { format!("{scheme}://{host}/{key}") } else { format!("{scheme}://{host}/{bucket}/{key}") }
    }

    /// Records the operation that `s3s` routed to.
    pub(crate) fn set_operation(&self, name: &'static str) {
        let _ = self.operation.set(name);
    }

    /// The operation, or `-` if the request was not routed.
    pub(crate) fn operation(&self) -> &'static str {
        self.operation.get().copied().unwrap_or("-")
    }

    /// Records the owner of the access key.
    pub(crate) fn set_caller(&self, caller: Arc<Caller>) {
        let _ = self.caller.set(caller);
    }

    /// The owner of the access key, if one was given and exists.
    pub(crate) fn caller(&self) -> Option<&Caller> {
        self.caller.get().map(Arc::as_ref)
    }

    /// The caller's account. Valid in operations only, which run after the access check.
    pub(crate) fn account(&self) -> S3Result<&Account> {
        self.caller()
            .map(|caller| &caller.account)
            .ok_or_else(|| refuse(S3ErrorCode::AccessDenied, "Sign the request."))
    }

    /// The caller's name for responses. Valid in operations only, which run after the access check.
    pub(crate) fn caller_name(&self) -> &str {
        self.caller().map_or("anonymous", |caller| &caller.account.name)
    }

    /// Records the access key that signed the URL with Signature Version 2, once verified.
    pub(crate) fn set_url_signer(&self, access_key: String) {
        let _ = self.url_signer.set(access_key);
    }

    /// The access key that signed its URL with Signature Version 2.
    pub(crate) fn url_signer(&self) -> Option<&str> {
        self.url_signer.get().map(String::as_str)
    }

    /// Records the session token that the request was sent with.
    pub(crate) fn set_session_token(&self, token: String) {
        let _ = self.session_token.set(Secret::new(token));
    }

    /// The session token that the request was sent with; not verified.
    pub(crate) fn session_token(&self) -> Option<&Secret> {
        self.session_token.get()
    }

    /// Records what a change of this request concerns, if not its bucket, for the audit trail; the last one counts.
    pub(crate) fn set_subject(&self, subject: String) {
        *self.subject.lock().unwrap_or_else(PoisonError::into_inner) = Some(subject);
    }

    /// What a change of this request concerns, if not its bucket.
    pub(crate) fn subject(&self) -> Option<String> {
        self.subject.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records the caller's authority over the bucket of the path, after the access check.
    pub(crate) fn set_authority(&self, authority: Arc<Authority>) {
        let _ = self.authority.set(authority);
    }

    /// The caller's authority over the bucket of the path. Valid after the access check.
    pub(crate) fn authority(&self) -> S3Result<Arc<Authority>> {
        let authority = self.authority.get().cloned();
        authority.ok_or_else(|| refuse(S3ErrorCode::InternalError, "The request was not checked."))
    }

    /// Records the caller's authority over the bucket that a copy reads, and the key it reads.
    pub(crate) fn set_source(&self, authority: Arc<Authority>, key: String) {
        let _ = self.source.set((authority, key));
    }

    /// The authority over the bucket that is read, and the key: of the copy's source, or of the path.
    pub(crate) fn source(&self) -> S3Result<(Arc<Authority>, &str)> {
        match self.source.get() {
            Some((authority, key)) => Ok((Arc::clone(authority), key)),
            None => Ok((self.authority()?, self.key.as_deref().unwrap_or_default())),
        }
    }

    /// Records the source of a copy as the access check saw it.
    pub(crate) fn set_checked_source(&self, source: CheckedSource) {
        let _ = self.checked_source.set(source);
    }

    /// The source as the access check saw it, if the copy depends on it.
    pub(crate) fn checked_source(&self) -> Option<&CheckedSource> {
        self.checked_source.get()
    }

    /// The bucket's name for logs.
    pub(crate) fn bucket_shown(&self) -> &str {
        self.bucket.as_ref().map_or("-", |bucket| bucket.as_str())
    }

    /// The account's name for logs; known only once the signature was verified, and absent for an anonymous request.
    pub(crate) fn verified_account(&self) -> Option<&str> {
        self.caller().filter(|_| self.is_routed()).map(|caller| caller.account.name.as_str())
    }

    /// The access key's id for logs, if the key exists. The signature may be wrong.
    pub(crate) fn key_id(&self) -> Option<&str> {
        self.caller().map(|caller| caller.access_key.as_str())
    }

    /// The version that the URL names, or else the response.
    pub(crate) fn version(&self) -> Option<&str> {
        self.version.get().map(String::as_str)
    }

    /// Records the version that the URL or the response names; the first one counts.
    pub(crate) fn set_version(&self, version: String) {
        let _ = self.version.set(version);
    }

    /// The S3 code of the error response.
    pub(crate) fn error_code(&self) -> Option<&str> {
        self.error_code.get().map(String::as_str)
    }

    /// Records the S3 code of the error response.
    pub(crate) fn set_error_code(&self, code: String) {
        let _ = self.error_code.set(code);
    }

    /// Records an error of the key look-up, the access check or the operation; `s3s` itself writes only its code and
    /// message.
    pub(crate) fn note_failure(&self, error: &S3Error) {
        let _ = self.failure.set(Failure::of(error));
    }

    /// Passes a result on to `s3s`, and records its error.
    pub(crate) fn noted<T>(&self, result: S3Result<T>) -> S3Result<T> {
        result.inspect_err(|error| self.note_failure(error))
    }

    /// The recorded error of the key look-up, the access check or the operation.
    pub(crate) fn failure(&self) -> Option<&Failure> {
        self.failure.get()
    }

    /// Records why the body could not be received; the first fault counts.
    pub(crate) fn set_fault(&self, fault: Fault) {
        let _ = self.fault.set(fault);
    }

    /// Why the body could not be received, if so.
    pub(crate) fn fault(&self) -> Option<Fault> {
        self.fault.get().copied()
    }

    /// Whether `s3s` has routed the request.
    pub(crate) fn is_routed(&self) -> bool {
        self.operation.get().is_some()
    }

    /// Records which headers came as parameters of a signed URL.
    pub(crate) fn set_hoisted(&self, names: Vec<HeaderName>) {
        let _ = self.hoisted.set(names);
    }

    /// The headers that came as parameters of a signed URL, and are covered by its signature.
    pub(crate) fn hoisted(&self) -> &[HeaderName] {
        self.hoisted.get().map_or(&[], Vec::as_slice)
    }

    /// Keeps the memory share of its body.
    pub(crate) fn hold(&self, share: Share) {
        *self.share.lock().unwrap_or_else(PoisonError::into_inner) = Some(share);
    }

    /// Whether other requests wait for memory while this client was waited for `waited` in all and sent too little.
    pub(crate) fn wastes_share(&self, waited: Duration) -> bool {
        let share = self.share.lock().unwrap_or_else(PoisonError::into_inner);
        share.as_ref().is_some_and(|share| share.is_wasted(self.bytes_in.load(Ordering::Relaxed), waited))
    }

    /// Releases the memory share.
    pub(crate) fn let_go(&self) {
        *self.share.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Keeps the digests of a body that `s3s` reads itself.
    pub(crate) fn set_body_sums(&self, sums: Sums) {
        *self.lock_sums() = Some(sums);
    }

    /// Compares the claims in `headers` with the document that `s3s` read.
    pub(crate) fn prove(&self, headers: &HeaderMap) -> S3Result<()> {
        self.prove_claims(&Claims::from_headers(headers)?)
    }

    /// Compares these claims with the document that `s3s` read.
    pub(crate) fn prove_claims(&self, claims: &Claims) -> S3Result<()> {
        let sums = self.lock_sums().take();
        match sums {
            Some(sums) => claims.verify(&sums, None),
            None if claims.is_empty() => Ok(()),
            None => Err(refuse(S3ErrorCode::InvalidRequest, "The body's checksum could not be checked.")),
        }
    }

    fn lock_sums(&self) -> MutexGuard<'_, Option<Sums>> {
        self.body_sums.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Generates request ids: unique within a run, and very likely unique across runs.
pub(crate) struct Ids {
    /// `x-amz-id-2`, which identifies the run of the server.
    pub(crate) run: String,
    seed: u64,
    next: AtomicU64,
}

impl Ids {
    /// A new series of ids.
    pub(crate) fn new() -> Self {
        let run = uuid::Uuid::new_v4();
        let (seed, _) = run.as_u64_pair();
        Self { run: run.simple().to_string(), seed, next: AtomicU64::new(0) }
    }

    /// The next id.
    pub(crate) fn next(&self) -> String {
        // An odd factor maps the counter onto all of u64 without a repeat.
        let count = self.next.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        format!("{:016X}", self.seed.wrapping_add(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_do_not_repeat() {
        let ids = Ids::new();
        let made: std::collections::BTreeSet<String> = (0..1000).map(|_| ids.next()).collect();
        assert_eq!(made.len(), 1000);
    }
}
