//! One request, as the layers around `s3s` share it.
//!
//! - `s3s` hands nothing from authentication to the access check, so the request rides along as a task-local: it is
//!   set for the whole of a request and read by [`current`].
//! - What is known of a request is filled in as it is learned; the access line and the metrics read it at the end.
//! - It holds no secret.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use http::Method;
use objstore::name::BucketName;
use objstore::store::{Account, Mode};
use s3s::{S3ErrorCode, S3Result};

use crate::checksum::Sums;
use crate::error::refuse;

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
    /// The bucket its path names, if that is a bucket name.
    pub(crate) bucket: Option<BucketName>,
    /// The key its path names.
    pub(crate) key: Option<String>,
    /// Bytes of body read so far.
    pub(crate) bytes_in: AtomicU64,
    /// Whether a rest of its body will never be read: the connection cannot carry another request.
    pub(crate) cut_short: AtomicBool,
    operation: OnceLock<&'static str>,
    caller: OnceLock<Caller>,
    body_sums: Mutex<Option<Sums>>,
}

/// Who sent a request, as its access key says. To be trusted only once `s3s` verified the signature.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// The access key id.
    pub(crate) access_key: String,
    /// Its account.
    pub(crate) account: Account,
    /// What the account may do with the bucket of the path, looked up in the same trip to the store.
    pub(crate) mode: objstore::Result<Option<Mode>>,
}

impl Request {
    /// A request whose head was just read. `path` is the percent-decoded path.
    pub(crate) fn new(id: String, method: Method, path: &str) -> Self {
        let (bucket, key) = split(path);
        Self {
            id,
            method,
            start: Instant::now(),
            bucket: bucket.parse().ok(),
            key,
            bytes_in: AtomicU64::new(0),
            cut_short: AtomicBool::new(false),
            operation: OnceLock::new(),
            caller: OnceLock::new(),
            body_sums: Mutex::new(None),
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

    /// The operation `s3s` routed to.
    pub(crate) fn set_operation(&self, name: &'static str) {
        let _ = self.operation.set(name);
    }

    /// The operation, or `-` if the request did not get so far.
    pub(crate) fn operation(&self) -> &'static str {
        self.operation.get().copied().unwrap_or("-")
    }

    /// Whom the access key belongs to.
    pub(crate) fn set_caller(&self, caller: Caller) {
        let _ = self.caller.set(caller);
    }

    /// Whom the access key belongs to, if one was given and is known.
    pub(crate) fn caller(&self) -> Option<&Caller> {
        self.caller.get()
    }

    /// The caller's account. Only for operations, which run after the access check.
    pub(crate) fn account(&self) -> S3Result<&Account> {
        self.caller()
            .map(|caller| &caller.account)
            .ok_or_else(|| refuse(S3ErrorCode::AccessDenied, "Sign the request."))
    }

    /// The account's name for the access line: known only once the request passed the access check.
    pub(crate) fn account_shown(&self) -> &str {
        match self.caller() {
            Some(caller) if self.operation.get().is_some() => &caller.account.name,
            _ => "-",
        }
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

/// Bucket and key of a path: `/bucket/key`.
fn split(path: &str) -> (&str, Option<String>) {
    let path = path.strip_prefix('/').unwrap_or(path);
    match path.split_once('/') {
        None => (path, None),
        Some((bucket, "")) => (bucket, None),
        Some((bucket, key)) => (bucket, Some(key.to_owned())),
    }
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
    fn paths_name_bucket_and_key() {
        assert_eq!(split("/"), ("", None));
        assert_eq!(split("/abc"), ("abc", None));
        assert_eq!(split("/abc/"), ("abc", None));
        assert_eq!(split("/abc/a/b"), ("abc", Some("a/b".into())));
        assert_eq!(split("/abc//b"), ("abc", Some("/b".into())));
    }

    #[test]
    fn ids_do_not_repeat() {
        let ids = Ids::new();
        let made: std::collections::BTreeSet<String> = (0..1000).map(|_| ids.next()).collect();
        assert_eq!(made.len(), 1000);
    }
}
