//! The memory that all bodies under way may take together, and all answers.
//!
//! - A body gets its share, the most it may come to hold, before its first byte is asked for. That is after its sender
//!   was found to be allowed to send it, so a stranger takes nothing from the others.
//! - What fits the buffer of a connection of HTTP/1 needs no share: there the number of connections is the bound.
//! - The share is given back when the request is answered, and that of an answer when it was taken.
//! - Who has a share while others wait for one has to move: a client slower than [`SLOW_BYTES_PER_S`] gives it up.
//! - An answer asks for its share when it is made. Few wait with what they hold; the others are refused at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::Version;
use http_body::Body as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::elements::ELEMENTS_MAX;
use super::{Fault, Kind};

/// A signed chunk is held whole until its signature is proved. Clients send 64 KiB to 1 MiB.
pub(crate) const CHUNK_BYTES_MAX: usize = 4 * MIB as usize;
/// A document of a request: 1,000 keys of 1,024 bytes, each written as `&#xNN;`.
pub(crate) const DOCUMENT_BYTES_MAX: usize = 8 * MIB as usize;

/// Up to this length a body needs no share.
const UNSHARED_BYTES: u64 = 64 * 1024;
/// What content holds while it passes: two blocks, and what the connection read ahead.
const PASSING_BYTES: u64 = MIB;
/// What an element becomes (`<Part/>`: 290 bytes), and the least it is written with (`<a/>`).
const ELEMENT_BYTES: u64 = 300;
const ELEMENT_BYTES_MIN: u64 = 4;
/// What is counted in: shares are rounded up to it.
const UNIT_BYTES: u64 = 1024;
const MIB: u64 = 1024 * 1024;
/// Answers that wait for a share, each with a block in its hands.
const ANSWERS_WAITING_MAX: usize = 256;

/// What a client has to send or take while others wait for its share, counted over the time it is waited for.
const SLOW_BYTES_PER_S: u64 = 16 * 1024;
/// How long a client is waited for before it counts as slow.
const SLOW_AFTER: Duration = Duration::from_secs(4);
/// How often a client that is waited for is looked at.
pub(crate) const LOOK: Duration = Duration::from_secs(2);

/// A part of the memory, given back when it drops.
pub(crate) struct Share {
    /// How many wait for one.
    wanted: Arc<AtomicUsize>,
    _permit: OwnedSemaphorePermit,
}

impl Share {
    /// Whether others want it.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) > 0
    }

    /// Whether others want it while its client, waited for so long in all, moved no more than so many bytes.
    pub(crate) fn is_wasted(&self, bytes: u64, waited: Duration) -> bool {
        let slow = || waited >= SLOW_AFTER && bytes < SLOW_BYTES_PER_S * waited.as_secs();
        self.is_wanted() && slow()
    }
}

/// One who waits for a share.
struct Wanting<'a>(&'a AtomicUsize);

impl Drop for Wanting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The memory there is: a cheap handle.
#[derive(Clone)]
pub(crate) struct Memory {
    free: Arc<Semaphore>,
    units: u32,
    wait: Duration,
    wanted: Arc<AtomicUsize>,
    /// For answers.
    waiting: Arc<Semaphore>,
}

impl Memory {
    /// So many bytes; who finds none free waits for `wait`.
    pub(crate) fn new(bytes: u64, wait: Duration) -> Self {
        let units = u32::try_from(bytes / UNIT_BYTES).unwrap_or(u32::MAX).clamp(1, u32::MAX >> 3);
        let waiting = Arc::new(Semaphore::new(ANSWERS_WAITING_MAX));
        Self { free: Arc::new(Semaphore::new(units as usize)), units, wait, wanted: Arc::default(), waiting }
    }

    /// Bytes that are taken, and bytes there are.
    pub(crate) fn in_use(&self) -> (u64, u64) {
        let all = u64::from(self.units) * UNIT_BYTES;
        (all.saturating_sub(self.free.available_permits() as u64 * UNIT_BYTES), all)
    }

    /// The share of an answer, if it needs one; where none is free it is waited for.
    pub(crate) async fn for_answer(&self, answer: &s3s::Body) -> Result<Option<Share>, Fault> {
        let Some(bytes) = most_of_answer(answer) else { return Ok(None) };
        if let Some(share) = self.take(bytes) {
            return Ok(Some(share));
        }
        let _waiting = self.waiting.try_acquire().map_err(|_| Fault::NoRoomToAnswer)?;
        self.clone().wait(bytes).await.map(Some).map_err(|_| Fault::NoRoomToAnswer)
    }

    /// A share of so many bytes, if it is free. More than there is are all there is.
    pub(super) fn take(&self, bytes: u64) -> Option<Share> {
        Arc::clone(&self.free).try_acquire_many_owned(self.units(bytes)).ok().map(|permit| self.share(permit))
    }

    /// Waits for a share, its turn being after those who wait already.
    pub(super) async fn wait(self, bytes: u64) -> Result<Share, Fault> {
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

/// The most that a body may come to hold, in bytes, where that needs a share.
pub(super) fn most(kind: Kind, version: Version, length: Option<u64>) -> Option<u64> {
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

/// The most that an answer may come to hold, in bytes, where that needs a share: a document is there whole, of content
/// a few blocks are.
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
