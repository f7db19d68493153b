//! The background task of an access log: it looks up where lines go, and delivers them.
//!
//! - A batch becomes one object of the target bucket, which belongs to that bucket's owner as every object of it does.
//!   The write is the server's own: no request, so it is logged nowhere, also in a bucket that is its own target.
//! - Each delivery checks again what PutBucketLogging checked: the target exists, has the owner of the logged bucket,
//!   and has no default retention. A batch that cannot be delivered is dropped and counted, with one warning.
//! - One batch is written at a time, so the store never does more for logs than for one client.

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use objstore::clock::{Clock as _, SystemClock};
use objstore::store::{Condition, EntityTags, Headers, Lock, ObjectAccess, PutObject};
use objstore::{Error, Store};
use s3s::crypto::{Checksum as _, Md5};
use time::OffsetDateTime;
use tokio::sync::watch;

use super::buffer::{Batch, Buffer};
use super::route::Route;
use super::{AccessLog, Inner, name};

/// How long the task sleeps while no line waits.
const IDLE: std::time::Duration = std::time::Duration::from_secs(60 * 60);

impl AccessLog {
    /// Delivers until `stop` turns true, and then delivers the remaining lines.
    pub(crate) async fn deliver(self, mut stop: watch::Receiver<bool>) {
        let inner = &self.0;
        loop {
            let until = inner.lock().next_due(inner.delay).unwrap_or_else(|| Instant::now() + IDLE);
            let stopped = tokio::select! {
                () = inner.wake.notified() => false,
                () = tokio::time::sleep_until(until.into()) => false,
                // A sender that is gone means the same.
                _ = stop.wait_for(|stop| *stop) => true,
            };
            inner.look_up().await;
            let delay = if stopped { std::time::Duration::ZERO } else { inner.delay };
            let due = inner.lock().take_due(Instant::now(), delay);
            for batch in due {
                inner.deliver(batch).await;
            }
            if stopped {
                return;
            }
        }
    }
}

/// The reason for dropping a batch.
enum Dropped {
    /// The target bucket does not exist, or may no longer be a target.
    Target(&'static str),
    /// The store refused the write.
    Store(Error),
}

impl Dropped {
    /// The name of the reason in metrics.
    fn reason(&self) -> &'static str {
        match self {
            Self::Target(_) | Self::Store(Error::NotFound { .. }) => "target",
            Self::Store(Error::QuotaExceeded { .. }) => "quota",
            Self::Store(_) => "failed",
        }
    }
}

impl From<Error> for Dropped {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl std::fmt::Display for Dropped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Target(why) => f.write_str(why),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Buffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a blocking piece of work on the store, off the async workers.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store) -> objstore::Result<T> + Send + 'static,
    ) -> objstore::Result<T> {
        let store = self.store.clone();
        let task = tokio::task::spawn_blocking(move || work(&store)).await;
        task.unwrap_or_else(|error| Err(Error::Engine { why: format!("a look-up of the access log stopped: {error}") }))
    }

    /// Finds the routes of lines whose bucket was not looked up yet.
    async fn look_up(&self) {
        let held = self.lock().take_held();
        for line in held {
            let epoch = self.store.access_epoch();
            let route = match self.routes.way(epoch, &line.bucket) {
                super::Way::Nowhere => continue,
                super::Way::To(route) => Some(route),
                super::Way::Unknown => {
                    let source = line.bucket.clone();
                    let found = match self.blocking(move |store| Route::find(store, &source)).await {
                        Ok(found) => found.map(Arc::new),
                        Err(error) => {
                            tracing::warn!(bucket = %line.bucket, %error, "an access log line is dropped: the bucket's settings cannot be read");
                            self.lines.add("failed", 1);
                            continue;
                        }
                    };
                    if let Some(epoch) = epoch {
                        self.routes.put(epoch, line.bucket, found.clone());
                    }
                    found
                }
            };
            let Some(route) = route else { continue };
            if self.lock().append(route, line.day, &line.text, Instant::now()) == super::buffer::Kept::Full {
                self.lines.add("full", 1);
            }
        }
    }

    /// Delivers a batch, or drops it.
    async fn deliver(&self, mut batch: Batch) {
        let text = Bytes::from(std::mem::take(&mut batch.text));
        let outcome = match self.put(&batch, text.clone()).await {
            Ok(()) => "delivered",
            Err(dropped) => {
                let Route { source, target, .. } = &*batch.route;
                let lines = batch.lines;
                tracing::warn!(%source, %target, lines, why = %dropped, "access log lines are dropped");
                dropped.reason()
            }
        };
        self.lines.add(outcome, batch.lines);
        self.lock().done(text.len());
    }

    async fn put(&self, batch: &Batch, text: Bytes) -> Result<(), Dropped> {
        let route = Arc::clone(&batch.route);
        let target = route.target.clone();
        let found = self.blocking(move |store| store.settings(&target)).await?;
        if let Some(why) = refusal(&found, route.owner_id) {
            return Err(Dropped::Target(why));
        }
        let now = OffsetDateTime::from_unix_timestamp(SystemClock.now().parts().0);
        let now = now.unwrap_or(OffsetDateTime::UNIX_EPOCH);
        let key = name::of(&route, &self.region, batch.day, now, &unique());
        let mut md5 = Md5::new();
        md5.update(&text);
        let put = PutObject {
            bucket: route.target.clone(),
            key: key.parse()?,
            content: self.store.stage(text).await?,
            etag: hex_simd::encode_to_string(md5.finalize(), hex_simd::AsciiCase::Lower),
            headers: Headers { content_type: Some("text/plain".into()), ..Headers::default() },
            metadata: Default::default(),
            tags: Default::default(),
            access: ObjectAccess::default(),
            checksums: Vec::new(),
            lock: Lock::default(),
            condition: Condition { if_none_match: Some(EntityTags::Any), ..Condition::default() },
        };
        self.store.put_object(put).await?;
        Ok(())
    }
}

/// Sixteen digits that are different for each object.
fn unique() -> String {
    let (half, _) = uuid::Uuid::new_v4().as_u64_pair();
    format!("{half:016X}")
}

/// The reason why a bucket cannot be the target for a logged bucket of this account.
pub(crate) fn refusal(target: &objstore::store::BucketSettings, owner: u64) -> Option<&'static str> {
    if target.taken_of.is_some() {
        return Some("the target is a snapshot");
    }
    if target.owner != owner {
        return Some("the target belongs to another account");
    }
    let retains = target.settings.object_lock.is_some_and(|lock| lock.default.is_some());
    retains.then_some("the target has a default retention")
}
