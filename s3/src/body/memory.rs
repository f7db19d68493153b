//! Memory limits: how much all request bodies, and all responses, in progress may take together.
//!
//! - A body reserves the most it may take before its first byte is read. Its sender was authorized before that, so a
//!   stranger takes nothing from others.
//! - A body that fits the buffer of an HTTP/1 connection needs no reservation; the connection limit bounds those.
//! - A body's share is released when the request is answered, a response's when it was sent.
//! - While others wait, a client slower than [`SLOW_BYTES_PER_S`] loses its share.
//! - A response reserves memory when it is created. Only a few may wait with the memory they hold; further ones are
//!   refused at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::Version;
use http_body::Body as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::elements::ELEMENTS_MAX;
use super::{Fault, Kind};

/// The largest signed chunk, which is held until its signature is verified. Clients send 64 KiB to 1 MiB.
pub(crate) const CHUNK_BYTES_MAX: usize = 4 * MIB as usize;
/// The largest document of a request: 1,000 keys of 1,024 bytes, each character written as `&#xNN;`.
pub(crate) const DOCUMENT_BYTES_MAX: usize = 8 * MIB as usize;

/// The longest body that needs no share.
const UNSHARED_BYTES: u64 = 64 * 1024;
/// Memory that streamed content takes: two blocks, and what the connection read ahead.
const PASSING_BYTES: u64 = MIB;
/// The memory of one parsed element (`<Part/>`: 290 bytes), and the shortest text of one (`<a/>`).
const ELEMENT_BYTES: u64 = 300;
const ELEMENT_BYTES_MIN: u64 = 4;
/// The unit of shares; they are rounded up to it.
const UNIT_BYTES: u64 = 1024;
const MIB: u64 = 1024 * 1024;
/// The most responses that wait for a share, each holding a block.
const ANSWERS_WAITING_MAX: usize = 256;

/// The rate that a client has to keep while others wait for its share, over the time it is waited for.
const SLOW_BYTES_PER_S: u64 = 16 * 1024;
/// How long a client is waited for before it counts as slow.
const SLOW_AFTER: Duration = Duration::from_secs(4);
/// The interval at which a waited-for client is checked.
pub(crate) const LOOK: Duration = Duration::from_secs(2);

/// A share of the memory, released on drop.
pub(crate) struct Share {
    /// Number of requests that wait for a share.
    wanted: Arc<AtomicUsize>,
    _permit: OwnedSemaphorePermit,
}

impl Share {
    /// Whether others wait for memory.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) > 0
    }

    /// Whether others wait for memory while this client, waited for `waited` in all, moved at most `bytes`.
    pub(crate) fn is_wasted(&self, bytes: u64, waited: Duration) -> bool {
        let slow = || waited >= SLOW_AFTER && bytes < SLOW_BYTES_PER_S * waited.as_secs();
        self.is_wanted() && slow()
    }
}

/// A request that waits for a share.
struct Wanting<'a>(&'a AtomicUsize);

impl Drop for Wanting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The memory budget: a cheap handle.
#[derive(Clone)]
pub(crate) struct Memory {
    free: Arc<Semaphore>,
    units: u32,
    wait: Duration,
    wanted: Arc<AtomicUsize>,
    /// Limits how many responses wait.
    waiting: Arc<Semaphore>,
}

impl Memory {
    /// A budget of this many bytes; a request waits up to `wait` for its share.
    pub(crate) fn new(bytes: u64, wait: Duration) -> Self {
        let units = u32::try_from(bytes / UNIT_BYTES).unwrap_or(u32::MAX).clamp(1, u32::MAX >> 3);
        let waiting = Arc::new(Semaphore::new(ANSWERS_WAITING_MAX));
        Self { free: Arc::new(Semaphore::new(units as usize)), units, wait, wanted: Arc::default(), waiting }
    }

    /// Bytes in use, and bytes in all.
    pub(crate) fn in_use(&self) -> (u64, u64) {
        let all = u64::from(self.units) * UNIT_BYTES;
        (all.saturating_sub(self.free.available_permits() as u64 * UNIT_BYTES), all)
    }

    /// The share for a response, if it needs one; waits if none is free.
    pub(crate) async fn for_answer(&self, answer: &s3s::Body) -> Result<Option<Share>, Fault> {
        let Some(bytes) = most_of_answer(answer) else { return Ok(None) };
        if let Some(share) = self.take(bytes) {
            return Ok(Some(share));
        }
        let _waiting = self.waiting.try_acquire().map_err(|_| Fault::NoRoomToAnswer)?;
        self.clone().wait(bytes).await.map(Some).map_err(|_| Fault::NoRoomToAnswer)
    }

    /// A share of this many bytes, if free. A request for more than the budget gets all of it.
    pub(crate) fn take(&self, bytes: u64) -> Option<Share> {
        Arc::clone(&self.free).try_acquire_many_owned(self.units(bytes)).ok().map(|permit| self.share(permit))
    }

    /// Waits for a share, in order of arrival.
    pub(crate) async fn wait(self, bytes: u64) -> Result<Share, Fault> {
        let (units, free) = (self.units(bytes), Arc::clone(&self.free));
        self.wanted.fetch_add(1, Ordering::Relaxed);
        let wanting = Wanting(&self.wanted);
        let permit = tokio::time::timeout(self.wait, free.acquire_many_owned(units)).await;
        drop(wanting);
        permit.ok().and_then(Result::ok).map(|permit| self.share(permit)).ok_or(Fault::NoRoom)
    }

    fn share(&self, permit: OwnedSemaphorePermit) -> Share {
        Share { wanted: Arc::clone(&self.wanted), _permit: permit }
    }

    fn units(&self, bytes: u64) -> u32 {
        u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX).min(self.units)
    }
}

/// The most that a body may take, in bytes, if it needs a share.
pub(crate) fn most(kind: Kind, version: Version, length: Option<u64>) -> Option<u64> {
    let length = length.unwrap_or(u64::MAX);
    if length == 0 || version < Version::HTTP_2 && length <= UNSHARED_BYTES {
        return None;
    }
    Some(match kind {
        Kind::Content => length.min(PASSING_BYTES),
        Kind::Chunks => length.min(PASSING_BYTES) + length.min(CHUNK_BYTES_MAX as u64),
        Kind::Document => {
            let length = length.min(DOCUMENT_BYTES_MAX as u64);
            length + ELEMENT_BYTES * (length / ELEMENT_BYTES_MIN).min(ELEMENTS_MAX.into())
        }
    })
}

/// The most that a response may take, in bytes, if it needs a share: a document in full, of streamed content a few
/// blocks.
fn most_of_answer(answer: &s3s::Body) -> Option<u64> {
    let length = match answer.bytes() {
        Some(whole) => whole.len() as u64,
        None => answer.size_hint().upper().unwrap_or(u64::MAX).min(PASSING_BYTES),
    };
    (length > UNSHARED_BYTES).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_holds_its_share_and_few_wait_for_one() {
        let memory = Memory::new(MIB, Duration::from_millis(50));
        let answer = |len: usize| s3s::Body::from(bytes::Bytes::from(vec![7; len]));
        assert_eq!(most_of_answer(&answer(64 * 1024)), None);
        assert_eq!(most_of_answer(&answer(3 << 20)), Some(3 << 20), "a document is there whole");
        let share = memory.for_answer(&answer(1 << 20)).await.unwrap();
        assert!(share.is_some() && memory.for_answer(&answer(1000)).await.unwrap().is_none());
        let told = memory.for_answer(&answer(100_000)).await.err();
        assert_eq!(told, Some(Fault::NoRoomToAnswer), "it waited");
        let _waiting = memory.waiting.clone().try_acquire_many_owned(ANSWERS_WAITING_MAX as u32).unwrap();
        assert!(memory.for_answer(&answer(100_000)).await.is_err());
        drop(share);
        assert!(memory.for_answer(&answer(100_000)).await.unwrap().is_some());
    }

    #[test]
    fn a_share_is_the_most_that_a_body_may_hold() {
        let (one, two) = (Version::HTTP_11, Version::HTTP_2);
        for (kind, version, length, expected) in [
            (Kind::Content, one, Some(0), None),
            (Kind::Content, one, Some(4096), None),
            (Kind::Document, one, Some(UNSHARED_BYTES), None),
            (Kind::Content, two, Some(4096), Some(4096)),
            (Kind::Content, one, Some(100_000), Some(100_000)),
            (Kind::Content, one, None, Some(MIB)),
            (Kind::Chunks, one, Some(100_000), Some(200_000)),
            (Kind::Chunks, one, Some(5 << 30), Some(5 * MIB)),
            (Kind::Document, two, Some(1000), Some(1000 + 250 * 300)),
            (Kind::Document, one, None, Some(8 * MIB + 30_000_000)),
        ] {
            assert_eq!(most(kind, version, length), expected, "{kind:?} {version:?} {length:?}");
        }
    }

    #[tokio::test]
    async fn what_is_not_free_is_waited_for_and_not_for_ever() {
        let memory = Memory::new(10 * UNIT_BYTES, Duration::from_millis(50));
        let all = memory.take(u64::MAX).unwrap();
        assert!(memory.take(1).is_none());
        assert!(!all.is_wasted(0, Duration::from_secs(60)), "nobody wants it");
        let (told, wasted) = tokio::join!(memory.clone().wait(1), async {
            tokio::task::yield_now().await;
            let after = |bytes, seconds| all.is_wasted(bytes, Duration::from_secs(seconds));
            (after(0, 3), after(0, 5), after(100_000, 5))
        });
        assert_eq!((told.err(), wasted), (Some(Fault::NoRoom), (false, true, false)));
        let (share, ()) = tokio::join!(memory.clone().wait(1), async { drop(all) });
        assert!(memory.take(10 * UNIT_BYTES).is_none());
        drop(share);
        assert!(memory.take(10 * UNIT_BYTES).is_some());
    }
}
