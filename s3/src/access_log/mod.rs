//! Server access logging: one line for each request about a bucket, delivered as objects of another bucket (S3 User
//! Guide, "Logging requests with server access logging").
//!
//! - A request that ends appends its line to a buffer in memory and never waits. One background task (`delivery`) looks
//!   up where the lines of a bucket go, and writes each batch as an object of the target bucket.
//! - The buffer is bounded (`buffer`): lines beyond the bound are dropped and counted.
//! - Delivery is best effort, as on AWS: an orderly end delivers what is buffered, a crash loses it.
//! - This module knows neither requests nor the endpoint: `outbound` gives it the values of a line.
//! - What a client sends is escaped (`line`), so that no request can forge a line or a field.

mod buffer;
mod delivery;
mod head;
mod line;
mod lines;
mod name;
mod operation;
mod route;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use objstore::Store;
use objstore::name::BucketName;
use tokio::sync::Notify;

use buffer::Buffer;
pub(crate) use delivery::refusal;
pub(crate) use head::Head;
pub(crate) use line::{Client, Entry};
pub(crate) use lines::Lines;
pub(crate) use operation::Asked;
use route::{Routes, Way};

/// The access log of an endpoint: a cheap handle.
#[derive(Clone)]
pub(crate) struct AccessLog(Arc<Inner>);

struct Inner {
    store: Store,
    lines: Lines,
    region: Arc<str>,
    /// The age at which a line is delivered.
    delay: Duration,
    routes: Routes,
    buffer: Mutex<Buffer>,
    /// Wakes the delivery task: a line has to be looked up, or a batch is due.
    wake: Notify,
}

impl AccessLog {
    /// The log of the buckets of a store, whose lines are delivered when they are as old as `delay` and counted in `lines`.
    pub(crate) fn new(store: Store, region: Arc<str>, lines: Lines, delay: Duration) -> Self {
        let (routes, buffer) = (Routes::default(), Mutex::new(Buffer::default()));
        Self(Arc::new(Inner { store, lines, region, delay, routes, buffer, wake: Notify::new() }))
    }

    /// Logs a request about a bucket, unless the bucket is known to have no access log. `entry` is called only then.
    pub(crate) fn record<'a>(&self, bucket: &BucketName, entry: impl FnOnce() -> Entry<'a>) {
        let inner = &self.0;
        let way = inner.routes.way(inner.store.access_epoch(), bucket);
        if matches!(way, Way::Nowhere) {
            return;
        }
        let entry = entry();
        let (day, text) = (entry.day(), entry.written(bucket));
        let mut buffer = inner.buffer.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = match way {
            Way::To(route) => buffer.append(route, day, &text, Instant::now()),
            Way::Unknown => buffer.hold(bucket, day, text),
            Way::Nowhere => return,
        };
        drop(buffer);
        match kept {
            buffer::Kept::Waits => {}
            buffer::Kept::Due => inner.wake.notify_one(),
            buffer::Kept::Full => inner.lines.add("full", 1),
        }
    }
}
