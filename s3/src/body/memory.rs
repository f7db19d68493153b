//! The memory that all bodies under way may take together.
//!
//! - A body gets its share, the most it may come to hold, before its first byte is asked for. That is after its sender
//!   was found to be allowed to send it, so a stranger takes nothing from the others.
//! - What fits the buffer of a connection of HTTP/1 needs no share: there the number of connections is the bound.
//! - The share is given back when the request is answered.

use std::sync::Arc;
use std::time::Duration;

use http::Version;
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

/// A part of the memory, given back when it drops.
pub(crate) type Share = OwnedSemaphorePermit;

/// The memory there is: a cheap handle.
#[derive(Clone)]
pub(crate) struct Memory {
    free: Arc<Semaphore>,
    units: u32,
    wait: Duration,
}

impl Memory {
    /// So many bytes; who finds none free waits for `wait`.
    pub(crate) fn new(bytes: u64, wait: Duration) -> Self {
        let units = u32::try_from(bytes / UNIT_BYTES).unwrap_or(u32::MAX).clamp(1, u32::MAX >> 3);
        Self { free: Arc::new(Semaphore::new(units as usize)), units, wait }
    }

    /// A share of so many bytes, if it is free. More than there is are all there is.
    pub(super) fn take(&self, bytes: u64) -> Option<Share> {
        Arc::clone(&self.free).try_acquire_many_owned(self.units(bytes)).ok()
    }

    /// Waits for a share, its turn being after those who wait already.
    pub(super) async fn wait(self, bytes: u64) -> Result<Share, Fault> {
        let units = self.units(bytes);
        let share = tokio::time::timeout(self.wait, self.free.acquire_many_owned(units)).await;
        share.ok().and_then(Result::ok).ok_or(Fault::NoRoom)
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

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(memory.clone().wait(1).await.err(), Some(Fault::NoRoom));
        let (share, ()) = tokio::join!(memory.clone().wait(1), async { drop(all) });
        assert!(memory.take(10 * UNIT_BYTES).is_none());
        drop(share);
        assert!(memory.take(10 * UNIT_BYTES).is_some());
    }
}
