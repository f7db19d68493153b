//! One bucket and prefix of an S3 store, as the place of content and checkpoints.
//!
//! - An object is created once ([`Bucket::put`]) or replaced by compare-and-swap ([`Bucket::replace`]); nothing is
//!   overwritten blindly. A repeated request whose first answer was lost is recognised by a token in the object's metadata.
//! - Lengths, ranges and checksums of answers are compared with what was asked: a server that lies is an
//!   [`Error::Damaged`], never data.
//! - A listing is a hint: it may be old. It names what to collect, and never decides what exists.
//! - Every call is bounded: attempts, time, requests under way, bytes in memory.
//! - Credentials, region and profile are found by the rules of AWS (`aws-config`); none reaches an error or a log.
//!
//! A crash leaves objects that no caller names, and parts of unfinished uploads, which
//! [`Bucket::abort_uploads`] removes.
//!
//! The calls block; they work on any thread, also where tasks of another runtime run.

mod connect;
mod error;
mod get;
mod list;
mod location;
mod marker;
mod multipart;
mod put;
mod remove;
mod stats;
#[cfg(test)]
mod tests;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_sdk_s3::Client;
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, SemaphorePermit};

pub use error::{Error, Result};
pub use get::Object;
pub use list::Listed;
pub use location::Location;
pub use marker::Claim;
pub use multipart::{PART_BYTES, Source};
pub use stats::{Kind, Stats};

use stats::Counters;

/// The largest object that [`Bucket::put`] sends as one request; longer content is for [`Bucket::put_large`].
pub const SINGLE_BYTES_MAX: usize = 64 << 20;

/// How to reach a bucket.
#[derive(Clone, Debug)]
pub struct Options {
    /// The bucket and prefix.
    pub location: Location,
    /// The address of the S3 store; `None` for the one of AWS, or of the AWS configuration.
    pub endpoint: Option<String>,
    /// The region; `None` for that of the AWS configuration.
    pub region: Option<String>,
    /// The key to sign with; `None` for what the AWS configuration finds.
    pub keys: Option<Keys>,
    /// How the bucket is named in requests.
    pub addressing: Addressing,
    /// How long calls may take.
    pub patience: Patience,
    /// The number of requests under way at a time.
    pub requests: usize,
}

impl Options {
    /// The bucket at `location` with everything else by default.
    pub fn new(location: Location) -> Self {
        let (addressing, patience) = (Addressing::default(), Patience::default());
        Self { location, endpoint: None, region: None, keys: None, addressing, patience, requests: 64 }
    }
}

/// An access key that is given directly.
#[derive(Clone)]
pub struct Keys {
    /// The id.
    pub id: String,
    /// The secret.
    pub secret: String,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").field("id", &self.id).finish_non_exhaustive()
    }
}

/// How requests name the bucket (S3 API, "virtual hosting of buckets").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Addressing {
    /// In the path for an endpoint that was given, and in the host name for AWS.
    #[default]
    Automatic,
    /// In the path.
    Path,
    /// In the host name.
    Host,
}

/// How long calls may take, and how often they are tried.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// To make a connection.
    pub connect: Duration,
    /// One attempt, with all of its bytes.
    pub attempt: Duration,
    /// A call with all of its attempts.
    pub call: Duration,
    /// The number of attempts.
    pub attempts: u32,
}

impl Default for Patience {
    fn default() -> Self {
        let (connect, attempt, call) = (Duration::from_secs(5), Duration::from_secs(60), Duration::from_secs(120));
        Self { connect, attempt, call, attempts: 8 }
    }
}

/// A bucket; clones share its connections.
#[derive(Clone)]
pub struct Bucket(Arc<Inner>);

struct Inner {
    client: Client,
    runtime: Option<Runtime>,
    location: Location,
    patience: Patience,
    slots: Semaphore,
    counters: Counters,
    /// The beginning of all tokens of this client.
    client_id: u64,
    tokens: AtomicU64,
}

impl Bucket {
    /// Finds credentials and region, and makes the client. No request reaches the bucket yet.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an endpoint or region that cannot be one; [`Error::Refused`] without a region.
    pub fn open(options: Options) -> Result<Self> {
        connect::open(options).map(|inner| Self(Arc::new(inner)))
    }

    /// The bucket and prefix.
    pub fn location(&self) -> &Location {
        &self.0.location
    }

    /// Counts and latencies of requests so far.
    pub fn stats(&self) -> Stats {
        self.0.counters.read()
    }

    /// Runs `call` on the bucket's own threads, and waits for it here.
    fn wait<T, F>(&self, call: impl FnOnce(Arc<Inner>) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let closed = || Error::Unavailable {
            operation: "asking",
            name: self.0.location.to_string(),
            why: "the client was closed".into(),
        };
        let runtime = self.0.runtime.as_ref().ok_or_else(closed)?;
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let call = call(self.0.clone());
        runtime.spawn(async move {
            // The caller waits until it is answered.
            let _ = sender.send(call.await);
        });
        receiver.recv().unwrap_or_else(|_| Err(closed()))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The last user may be a task of this runtime, or of another one, where waiting for threads is not allowed.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Inner {
    /// One of the requests that may be under way.
    async fn slot(&self) -> SemaphorePermit<'_> {
        match self.slots.acquire().await {
            Ok(permit) => permit,
            Err(_) => unreachable!("the semaphore is never closed"),
        }
    }

    /// A value that no other write has.
    fn token(&self) -> String {
        format!("{:016x}-{:x}", self.client_id, self.tokens.fetch_add(1, Ordering::Relaxed))
    }
}
