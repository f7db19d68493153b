//! The cached keys of one issuer.
//!
//! - A token whose key is known is verified without waiting, however slow the issuer's server is.
//! - A token with an unknown key waits for one fetch, together with all others; none begins within [`REFETCH`] of the one
//!   before, whether that succeeded or not. So strangers who invent key ids cause one fetch in that time.
//! - Keys older than [`RENEW`] are fetched again beside the requests that use them; a key that the issuer no longer
//!   names is gone then. While no fetch succeeds, the keys stay for [`KEEP`], and not longer.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::jwk::KeySet;
use crate::jws::Token;
use crate::refusal::Refusal;
use crate::source::{self, KeySource, Reach};

/// The least time between two fetches of the keys of an issuer.
pub const REFETCH: Duration = Duration::from_secs(30);
/// The age at which keys are fetched again.
const RENEW: Duration = Duration::from_secs(10 * 60);
/// The age up to which keys are used while the issuer cannot be reached.
const KEEP: Duration = Duration::from_secs(24 * 60 * 60);

/// The times of a cache, which tests shorten.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) refetch: Duration,
    pub(crate) renew: Duration,
    pub(crate) keep: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self { refetch: REFETCH, renew: RENEW, keep: KEEP }
    }
}

/// The cached keys of an issuer.
#[derive(Debug)]
pub(crate) struct Cache {
    issuer: String,
    source: KeySource,
    reach: Reach,
    times: Times,
    known: Mutex<Option<Known>>,
    /// When the last fetch began; locked during a fetch.
    last: tokio::sync::Mutex<Option<Instant>>,
}

#[derive(Clone, Debug)]
struct Known {
    keys: Arc<KeySet>,
    since: Instant,
}

impl Cache {
    pub(crate) fn new(issuer: String, source: KeySource, reach: Reach, times: Times) -> Self {
        Self { issuer, source, reach, times, known: Mutex::default(), last: tokio::sync::Mutex::default() }
    }

    /// The keys to verify a token with.
    pub(crate) async fn keys_for(self: &Arc<Self>, token: &Token<'_>) -> Result<Arc<KeySet>, Refusal> {
        if let Some(known) = self.known()
            && known.keys.has_key_for(token)
        {
            if known.since.elapsed() >= self.times.renew {
                let cache = Arc::clone(self);
                tokio::spawn(async move { cache.renew().await });
            }
            return Ok(known.keys);
        }
        self.fetch_unless_recent(&mut *self.last.lock().await).await;
        match self.known() {
            None => Err(Refusal::Unreachable),
            Some(known) if known.keys.has_key_for(token) => Ok(known.keys),
            Some(_) => Err(Refusal::UnknownKey(token.key_id.clone().unwrap_or_default())),
        }
    }

    /// Fetches the keys again, unless another request does already.
    async fn renew(&self) {
        if let Ok(mut last) = self.last.try_lock() {
            self.fetch_unless_recent(&mut last).await;
        }
    }

    async fn fetch_unless_recent(&self, last: &mut Option<Instant>) {
        if last.is_some_and(|last| last.elapsed() < self.times.refetch) {
            return;
        }
        *last = Some(Instant::now());
        match source::read(&self.issuer, &self.source, &self.reach).await {
            Ok(keys) => self.set(Known { keys: Arc::new(keys), since: Instant::now() }),
            Err(why) => {
                tracing::warn!(issuer = self.issuer, why, "the keys of an issuer of tokens cannot be read");
            }
        }
    }

    fn known(&self) -> Option<Known> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
        known.filter(|known| known.since.elapsed() < self.times.keep)
    }

    fn set(&self, known: Known) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(known);
    }
}
