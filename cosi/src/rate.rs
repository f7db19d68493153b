//! Delayed answers for new buckets: CreateBucket waits until the COSI controller has probably written the bucket's name
//! into its claim.
//!
//! The COSI controller 0.2.2 creates the Bucket object first and writes the name and a finalizer into the BucketClaim
//! afterwards, in some ten calls to the API server. The sidecar sees the Bucket at once. If the driver answers before
//! those calls are done, the sidecar writes into the claim between them, and the claim never gets its name or never
//! becomes ready (decision 0056). The driver has no sign of their end except time.
//!
//! - The wait is counted from the bucket's creation, so a repeated call waits for the rest of it, and a later one not
//!   at all.
//! - The controller makes five calls a second for all claims together, so the wait grows with the number of recently
//!   created buckets, up to [`WAIT_MAX`].
//!
//! A driver that restarts during the wait forgets it, and answers the repeated call at once.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use objstore::name::BucketName;
use tokio::time::{Instant, sleep};

/// The longest wait, and how long a bucket counts as recently created.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Creation times of the buckets of the last minute.
pub(crate) struct CreationRate {
    /// The wait for a single bucket.
    delay: Duration,
    made: Mutex<HashMap<BucketName, Instant>>,
}

impl CreationRate {
    pub(crate) fn new(delay: Duration) -> Self {
        Self { delay, made: Mutex::default() }
    }

    /// Records that a bucket was created just now.
    pub(crate) fn note(&self, bucket: &BucketName) {
        if !self.delay.is_zero() {
            self.made().insert(bucket.clone(), Instant::now());
        }
    }

    /// Waits until the bucket may be answered for. Further buckets may be created meanwhile.
    pub(crate) async fn wait(&self, bucket: &BucketName) {
        while let Some(left) = self.left(bucket) {
            sleep(left).await;
        }
    }

    /// How long the answer for a bucket still has to wait.
    fn left(&self, bucket: &BucketName) -> Option<Duration> {
        let mut made = self.made();
        made.retain(|_, at| at.elapsed() < WAIT_MAX);
        let crowd = u32::try_from(made.len()).unwrap_or(u32::MAX);
        let wait = self.delay.saturating_mul(crowd).min(WAIT_MAX);
        made.get(bucket).and_then(|at| wait.checked_sub(at.elapsed())).filter(|left| !left.is_zero())
    }

    fn made(&self) -> std::sync::MutexGuard<'_, HashMap<BucketName, Instant>> {
        // No operation leaves the map half changed.
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: Duration = Duration::from_millis(40);

    fn name(name: &str) -> BucketName {
        name.parse().unwrap()
    }

    async fn waited(rate: &CreationRate, bucket: &str) -> Duration {
        let begin = Instant::now();
        rate.wait(&name(bucket)).await;
        begin.elapsed()
    }

    #[tokio::test]
    async fn the_first_answer_waits_and_later_ones_do_not() {
        let rate = CreationRate::new(DELAY);
        rate.note(&name("one"));
        assert!(waited(&rate, "one").await >= DELAY);
        assert!(waited(&rate, "one").await < DELAY, "the bucket is old enough now");
        assert!(waited(&rate, "older").await < DELAY, "the bucket was created earlier");
    }

    #[tokio::test]
    async fn the_wait_grows_with_the_number_of_new_buckets() {
        let rate = CreationRate::new(DELAY);
        let begin = Instant::now();
        rate.note(&name("one"));
        let one = name("one");
        let first = rate.wait(&one);
        let second = async {
            tokio::time::sleep(DELAY / 2).await;
            rate.note(&name("two"));
            rate.note(&name("three"));
        };
        tokio::join!(first, second);
        assert!(begin.elapsed() >= DELAY * 3, "{:?}", begin.elapsed());
    }

    #[tokio::test]
    async fn no_delay_is_no_wait() {
        let rate = CreationRate::new(Duration::ZERO);
        rate.note(&name("one"));
        assert_eq!(rate.left(&name("one")), None);
    }
}
