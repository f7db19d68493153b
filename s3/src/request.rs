//! One request, as the layers around `s3s` share it.
//!
//! - `s3s` hands nothing from authentication to the access check, so the request rides along as a task-local: it is
//!   set for the whole of a request and read by [`current`].
//! - What is known of a request is filled in as it is learned; the access line and the metrics read it at the end.
//! - It holds no secret.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use http::request::Parts;
use http::{HeaderMap, HeaderName, Method};
use objstore::name::BucketName;
use objstore::store::Account;
use s3s::{S3Error, S3ErrorCode, S3Result};

use crate::access::{self, Authority, Seen, Standing};
use crate::address::{Address, Resource, host_header};
use crate::body::{Fault, Kind, Share};
use crate::change;
use crate::checksum::Sums;
use crate::client_info::ClientInfo;
use crate::error::{Failure, refuse};
use crate::server::Peer;

tokio::task_local! {
    static CURRENT: Arc<Request>;
}

/// A request under way.
pub(crate) struct Request {
    /// `x-amz-request-id`.
    pub(crate) id: String,
    /// The HTTP method.
    pub(crate) method: Method,
    /// When its head was read.
    pub(crate) start: Instant,
    /// The bucket its host or its path names, if that is a bucket name.
    pub(crate) bucket: Option<BucketName>,
    /// What stands where a bucket's name belongs, whether it is one or not.
    pub(crate) bucket_text: String,
    /// The key its path names.
    pub(crate) key: Option<String>,
    /// What kind of thing it addresses.
    pub(crate) resource: Resource,
    /// Whether its host names the bucket.
    pub(crate) by_host: bool,
    /// Who sent it; `None` where no connection did.
    pub(crate) peer: Option<Peer>,
    /// What its head says that its body is.
    pub(crate) body: Kind,
    /// What its headers say of the client.
    pub(crate) client: ClientInfo,
    /// Bytes of body read so far.
    pub(crate) bytes_in: AtomicU64,
    /// Whether the connection cannot carry another request: a rest of the body will never be read, or its client waits
    /// for a `100 Continue` that never came.
    pub(crate) ends_connection: AtomicBool,
    operation: OnceLock<&'static str>,
    caller: OnceLock<Arc<Caller>>,
    url_signer: OnceLock<String>,
    authority: OnceLock<Arc<Authority>>,
    source: OnceLock<(Arc<Authority>, String)>,
    seen: OnceLock<Seen>,
    body_sums: Mutex<Option<Sums>>,
    fault: OnceLock<Fault>,
    hoisted: OnceLock<Vec<HeaderName>>,
    share: Mutex<Option<Share>>,
    asked_change: Option<&'static str>,
    version: OnceLock<String>,
    error_code: OnceLock<String>,
    failure: OnceLock<Failure>,
}

/// Who sent a request, as its access key says. To be trusted only once `s3s` verified the signature.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// The access key id.
    pub(crate) access_key: String,
    /// Its account.
    pub(crate) account: Account,
    /// How the account stands to the bucket of the path, if that names one; looked up in the same trip to the store.
    pub(crate) standing: Option<objstore::Result<Standing>>,
}

impl Request {
    /// A request whose head was just read.
    pub(crate) fn new(id: String, head: &Parts, address: Address, peer: Option<Peer>) -> Self {
        let of_object = address.key.is_some();
        Self {
            id,
            asked_change: change::asked_for(&head.method, &head.uri, of_object),
            client: ClientInfo::of(&head.headers),
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
            peer,
            body: Kind::of(head, of_object),
            bytes_in: AtomicU64::new(0),
            ends_connection: AtomicBool::new(false),
            operation: OnceLock::new(),
            caller: OnceLock::new(),
            authority: OnceLock::new(),
            source: OnceLock::new(),
            seen: OnceLock::new(),
            body_sums: Mutex::new(None),
            fault: OnceLock::new(),
            hoisted: OnceLock::new(),
            share: Mutex::new(None),
        }
    }

    /// Runs `work` with this request as the current one.
    pub(crate) async fn scope<F: Future>(self: Arc<Self>, work: F) -> F::Output {
        CURRENT.scope(self, work).await
    }

    /// Adds to the bytes of body read.
    pub(crate) fn count_in(&self, bytes: usize) {
        self.bytes_in.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// The URL of an object, in the style and at the host this request used.
    pub(crate) fn url(&self, headers: &HeaderMap, bucket: &str, key: &str) -> String {
        let scheme = if self.peer.is_some_and(|peer| peer.secure) { "https" } else { "http" };
        let host = host_header(headers);
        if self.by_host { format!("{scheme}://{host}/{key}") } else { format!("{scheme}://{host}/{bucket}/{key}") }
    }

    /// The operation `s3s` routed to.
    pub(crate) fn set_operation(&self, name: &'static str) {
        let _ = self.operation.set(name);
    }

    /// The operation, or `-` if the request did not get so far.
    pub(crate) fn operation(&self) -> &'static str {
        self.operation.get().copied().unwrap_or("-")
    }

    /// Whom the access key belongs to.
    pub(crate) fn set_caller(&self, caller: Arc<Caller>) {
        let _ = self.caller.set(caller);
    }

    /// Whom the access key belongs to, if one was given and is known.
    pub(crate) fn caller(&self) -> Option<&Caller> {
        self.caller.get().map(Arc::as_ref)
    }

    /// The caller's account. Only for operations, which run after the access check.
    pub(crate) fn account(&self) -> S3Result<&Account> {
        self.caller()
            .map(|caller| &caller.account)
            .ok_or_else(|| refuse(S3ErrorCode::AccessDenied, "Sign the request."))
    }

    /// Who the caller is, in answers. Only for operations, which run after the access check.
    pub(crate) fn caller_name(&self) -> &str {
        self.caller().map_or("anonymous", |caller| &caller.account.name)
    }

    /// Notes the access key that signed its URL with Signature Version 2, once that was verified.
    pub(crate) fn set_url_signer(&self, access_key: String) {
        let _ = self.url_signer.set(access_key);
    }

    /// The access key that signed its URL with Signature Version 2.
    pub(crate) fn url_signer(&self) -> Option<&str> {
        self.url_signer.get().map(String::as_str)
    }

    /// What the caller may do with the bucket of the path, once the access check found it.
    pub(crate) fn set_authority(&self, authority: Arc<Authority>) {
        let _ = self.authority.set(authority);
    }

    /// What the caller may do with the bucket of the path. Only after the access check.
    pub(crate) fn authority(&self) -> S3Result<Arc<Authority>> {
        let authority = self.authority.get().cloned();
        authority.ok_or_else(|| refuse(S3ErrorCode::InternalError, "The request was not checked."))
    }

    /// What the caller may do with the bucket a copy reads, and the key it reads.
    pub(crate) fn set_source(&self, authority: Arc<Authority>, key: String) {
        let _ = self.source.set((authority, key));
    }

    /// What the caller may do with the bucket that is read, and the key: those of the copy's source, or of the path.
    pub(crate) fn source(&self) -> S3Result<(Arc<Authority>, &str)> {
        match self.source.get() {
            Some((authority, key)) => Ok((Arc::clone(authority), key)),
            None => Ok((self.authority()?, self.key.as_deref().unwrap_or_default())),
        }
    }

    /// The source of a copy, as the copy was allowed.
    pub(crate) fn set_seen(&self, seen: Seen) {
        let _ = self.seen.set(seen);
    }

    /// The source that the copy was allowed of, if it matters which it is.
    pub(crate) fn seen(&self) -> Option<&Seen> {
        self.seen.get()
    }

    /// The bucket's name for logs.
    pub(crate) fn bucket_shown(&self) -> &str {
        self.bucket.as_ref().map_or("-", |bucket| bucket.as_str())
    }

    /// The account's name for logs: known only once the signature was verified, and none of an anonymous request.
    pub(crate) fn verified_account(&self) -> Option<&str> {
        self.caller().filter(|_| self.is_routed()).map(|caller| caller.account.name.as_str())
    }

    /// The id of the access key for logs, if the store knows it. The signature may be wrong.
    pub(crate) fn key_id(&self) -> Option<&str> {
        self.caller().map(|caller| caller.access_key.as_str())
    }

    /// The change of a bucket or its settings that it asks for.
    pub(crate) fn change(&self) -> Option<&'static str> {
        let asked = self.asked_change?;
        match self.operation() {
            "-" | access::NOT_OFFERED => Some(asked),
            operation => Some(operation).filter(|operation| change::is_change(operation)),
        }
    }

    /// The version that the URL names, or else the answer.
    pub(crate) fn version(&self) -> Option<&str> {
        self.version.get().map(String::as_str)
    }

    /// Notes the version that the URL or the answer names; the first one counts.
    pub(crate) fn set_version(&self, version: String) {
        let _ = self.version.set(version);
    }

    /// The S3 code of the error it is answered with.
    pub(crate) fn error_code(&self) -> Option<&str> {
        self.error_code.get().map(String::as_str)
    }

    /// Notes the S3 code of the error it is answered with.
    pub(crate) fn set_error_code(&self, code: String) {
        let _ = self.error_code.set(code);
    }

    /// Notes how its key look-up, its access check or its operation failed: `s3s` writes no more of it than a code and
    /// a message.
    pub(crate) fn note_failure(&self, error: &S3Error) {
        let _ = self.failure.set(Failure::of(error));
    }

    /// How its key look-up, its access check or its operation failed, if one did.
    pub(crate) fn failure(&self) -> Option<&Failure> {
        self.failure.get()
    }

    /// Notes how its body failed to come; what failed first counts.
    pub(crate) fn set_fault(&self, fault: Fault) {
        let _ = self.fault.set(fault);
    }

    /// How its body failed to come, if it did.
    pub(crate) fn fault(&self) -> Option<Fault> {
        self.fault.get().copied()
    }

    /// Whether the operation is known.
    pub(crate) fn is_routed(&self) -> bool {
        self.operation.get().is_some()
    }

    /// Which headers came as parameters of a signed URL.
    pub(crate) fn set_hoisted(&self, names: Vec<HeaderName>) {
        let _ = self.hoisted.set(names);
    }

    /// The headers that came as parameters of a signed URL, and are signed with it.
    pub(crate) fn hoisted(&self) -> &[HeaderName] {
        self.hoisted.get().map_or(&[], Vec::as_slice)
    }

    /// Keeps the share of the memory that its body takes.
    pub(crate) fn hold(&self, share: Share) {
        *self.share.lock().unwrap_or_else(PoisonError::into_inner) = Some(share);
    }

    /// Whether others want the share, while its client was waited for so long in all.
    pub(crate) fn wastes_share(&self, waited: Duration) -> bool {
        let share = self.share.lock().unwrap_or_else(PoisonError::into_inner);
        share.as_ref().is_some_and(|share| share.is_wasted(self.bytes_in.load(Ordering::Relaxed), waited))
    }

    /// Gives it back.
    pub(crate) fn let_go(&self) {
        *self.share.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Keeps the sums of a body that `s3s` reads itself.
    pub(crate) fn set_body_sums(&self, sums: Sums) {
        *self.lock_sums() = Some(sums);
    }

    /// The sums of a body that `s3s` read itself.
    pub(crate) fn take_body_sums(&self) -> Option<Sums> {
        self.lock_sums().take()
    }

    fn lock_sums(&self) -> MutexGuard<'_, Option<Sums>> {
        self.body_sums.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The request this task serves.
pub(crate) fn current() -> S3Result<Arc<Request>> {
    CURRENT.try_with(Arc::clone).map_err(|_| refuse(S3ErrorCode::InternalError, "The request has no context."))
}

/// Notes a failure that is about to be handed to `s3s`, for the request this task serves.
pub(crate) fn noted<T>(result: S3Result<T>) -> S3Result<T> {
    result.inspect_err(|error| {
        let _ = CURRENT.try_with(|request| request.note_failure(error));
    })
}

/// Makes request ids: unlike within a run, and most likely across runs.
pub(crate) struct Ids {
    /// `x-amz-id-2`: tells which run of the server answered.
    pub(crate) run: String,
    seed: u64,
    next: AtomicU64,
}

impl Ids {
    /// A new series.
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
