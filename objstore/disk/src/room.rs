//! The space that is kept free on the disk, so that a disk that becomes full never blocks the operations that free
//! space.
//!
//! - Changes that add content or names are refused first, then all others except those that free space. Those are
//!   refused last, while enough space is left that no commit fails part way, which would poison the store.
//! - A refusal is ENOSPC with nothing changed; there are no more refusals once there is enough space.
//! - The file system is asked only after as many bytes as it has to spare, or after some milliseconds, in which other
//!   programs may have filled it. So most writes only read the clock.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Instant;

use objstore_base::error::{Error, Result};

use super::Space;

/// The most space that is kept free, in bytes.
const RESERVE_BYTES: u64 = 64 << 20;
/// On a small disk, this fraction of it is kept free.
const RESERVE_PART: u64 = 5;
/// A shortage ends once this fraction of what is kept free is available in addition.
const PLENTY_PART: u64 = 16;
/// The most bytes that are written before the file system is asked again.
const STRIDE_BYTES: u64 = 16 << 20;
/// How long an answer of the file system is valid, in milliseconds.
const STRIDE_MILLIS: u64 = 20;

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// What a change does to the free space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The change adds content or names.
    Adding,
    /// The change modifies what exists.
    Changing,
    /// The change frees space, or was allowed before.
    Freeing,
}

impl Need {
    /// How much of the space that is kept free must remain after the change.
    fn floor(self, reserve: u64) -> u64 {
        match self {
            Self::Adding => reserve,
            Self::Changing => reserve / 2,
            Self::Freeing => reserve / 16,
        }
    }
}

/// How much space is kept free on a disk of `total_bytes`.
pub fn reserve(total_bytes: u64) -> u64 {
    RESERVE_BYTES.min(total_bytes / RESERVE_PART)
}

/// How much can be written before the file system has to be asked again.
#[derive(Debug, Default)]
pub struct Room {
    left: AtomicI64,
    // When the file system was asked, in milliseconds.
    asked: AtomicU64,
    short: AtomicBool,
}

impl Room {
    /// Takes room for `bytes`; `space` asks the file system.
    ///
    /// # Errors
    /// [`Error::Io`] with ENOSPC if less would remain than is kept free.
    pub fn take(&self, bytes: u64, need: Need, space: impl FnOnce() -> Result<Space>) -> Result<()> {
        let bytes_signed = i64::try_from(bytes).unwrap_or(i64::MAX);
        let now = u64::try_from(START.elapsed().as_millis()).unwrap_or(u64::MAX);
        let is_fresh = now.saturating_sub(self.asked.load(Ordering::Relaxed)) < STRIDE_MILLIS;
        if self.left.fetch_sub(bytes_signed, Ordering::Relaxed) >= bytes_signed && is_fresh {
            return Ok(());
        }
        self.asked.store(now, Ordering::Relaxed);
        let Space { total_bytes, free_bytes } = space()?;
        let reserve = reserve(total_bytes);
        let spare = free_bytes.saturating_sub(reserve).saturating_sub(bytes);
        let stride = i64::try_from((spare / 4).min(STRIDE_BYTES)).unwrap_or(0);
        self.left.store(stride, Ordering::Relaxed);
        let fits = free_bytes >= need.floor(reserve).saturating_add(bytes);
        if !fits {
            if !self.short.swap(true, Ordering::Relaxed) {
                tracing::warn!(free_bytes, reserve, "the disk is full: writes are refused until data is deleted");
            }
            return Err(full(free_bytes, reserve));
        }
        // A small write or a deletion that still fits does not end the shortage; otherwise the log would report its end
        // each time.
        if free_bytes >= reserve + reserve / PLENTY_PART && self.short.swap(false, Ordering::Relaxed) {
            tracing::info!(free_bytes, "the disk has free space again");
        }
        Ok(())
    }
}

impl Room {
    /// Whether `bytes` may be reserved. The file system is asked each time. A refusal is not logged: the caller asked
    /// for more than there is, while other writes still fit.
    ///
    /// # Errors
    /// [`Error::Io`] with ENOSPC if less would remain than is kept free.
    pub fn reserve(&self, bytes: u64, space: impl FnOnce() -> Result<Space>) -> Result<()> {
        let Space { total_bytes, free_bytes } = space()?;
        let reserve = reserve(total_bytes);
        if bytes > 0 && free_bytes < reserve.saturating_add(bytes) {
            return Err(full(free_bytes, reserve));
        }
        // What earlier answers allowed to writes may not fit any more.
        self.left.store(0, Ordering::Relaxed);
        Ok(())
    }
}

fn full(free_bytes: u64, reserve: u64) -> Error {
    let what = format!("the disk has {free_bytes} bytes free, of which {reserve} are kept for deletions");
    crate::full(what)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn disk(free_bytes: u64) -> impl Fn() -> Result<Space> {
        move || Ok(Space { total_bytes: 1000 * MIB, free_bytes })
    }

    #[test]
    fn what_frees_goes_on_where_what_adds_is_refused() {
        for (free, allowed) in [(65, 3), (63, 2), (31, 1), (4, 0)] {
            let needs = [Need::Freeing, Need::Changing, Need::Adding];
            let fits = needs.iter().filter(|need| Room::default().take(1, **need, disk(free * MIB)).is_ok());
            assert_eq!(fits.count(), allowed, "{free} MiB free");
        }
        let full = Room::default().take(1, Need::Adding, disk(0)).expect_err("full");
        assert!(crate::is_full(&full), "{full:?}");
    }

    #[test]
    fn a_shortage_is_told_once_and_ends_where_there_is_plenty() {
        let room = Room::default();
        let is_short = |bytes, need, free_mib| {
            let _ = room.take(bytes, need, disk(free_mib * MIB));
            room.asked.store(0, Ordering::Relaxed);
            room.left.store(0, Ordering::Relaxed);
            room.short.load(Ordering::Relaxed)
        };
        assert!(is_short(2 * MIB, Need::Adding, 65));
        assert!(is_short(1, Need::Adding, 65), "a smaller write fits, and does not end the shortage");
        assert!(is_short(1, Need::Freeing, 60), "a deletion fits, and does not end the shortage");
        assert!(!is_short(1, Need::Adding, 68));
    }

    #[test]
    fn the_system_is_asked_again_before_the_reserve_is_reached() {
        let room = Room::default();
        let mut free = 200 * MIB;
        while room.take(MIB, Need::Adding, disk(free)).is_ok() {
            free -= MIB;
        }
        assert_eq!(free, 64 * MIB);
        room.take(MIB, Need::Adding, disk(100 * MIB)).expect("there is room again");
    }

    #[test]
    fn a_reservation_that_is_refused_is_no_news() {
        let room = Room::default();
        let refused = room.reserve(1000 * MIB, disk(500 * MIB)).expect_err("the disk has too little free space");
        assert!(crate::is_full(&refused) && !room.short.load(Ordering::Relaxed), "{refused:?}");
        room.reserve(400 * MIB, disk(500 * MIB)).expect("the disk has enough free space");
        room.reserve(0, disk(0)).expect("no further space is needed");
        room.take(1, Need::Adding, disk(500 * MIB)).expect("writes go on");
    }

    #[test]
    fn a_small_disk_keeps_a_part() {
        assert_eq!([reserve(50 * MIB), reserve(1 << 40)], [10 * MIB, 64 * MIB]);
    }
}
