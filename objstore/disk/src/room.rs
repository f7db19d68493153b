//! The room that is kept free on the disk, so that a disk that fills never stops what would empty it.
//!
//! - What adds content or names is refused first; then every change but those that free; those last, with so much left
//!   that a commit never meets the end of the disk in its midst, which would poison the store.
//! - A refusal is ENOSPC with nothing changed, and ends by itself once there is room again.
//! - The system is asked again only after as many bytes as it can spare, or some milliseconds, in which others may have
//!   filled it: what costs is a look at the clock for each write.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Instant;

use objstore_base::error::{Error, Result};

use super::Space;

/// The most that is kept free.
const RESERVE_BYTES: u64 = 64 << 20;
/// Of a small disk, one part in so many.
const RESERVE_PART: u64 = 5;
/// A shortage has ended once so large a part of what is kept free is free beside it.
const PLENTY_PART: u64 = 16;
/// The most that is written before the system is asked again.
const STRIDE_BYTES: u64 = 16 << 20;
/// The longest that an answer counts.
const STRIDE_MILLIS: u64 = 20;

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// What a change does to the room there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// It adds content or names.
    Adding,
    /// It changes what is there.
    Changing,
    /// It frees what was taken, or was allowed before.
    Freeing,
}

impl Need {
    /// How much it leaves free of what is kept.
    fn floor(self, reserve: u64) -> u64 {
        match self {
            Self::Adding => reserve,
            Self::Changing => reserve / 2,
            Self::Freeing => reserve / 16,
        }
    }
}

/// How much is kept free on a disk of so many bytes.
pub fn reserve(total_bytes: u64) -> u64 {
    RESERVE_BYTES.min(total_bytes / RESERVE_PART)
}

/// How much can be written before the system has to be asked again.
#[derive(Debug, Default)]
pub struct Room {
    left: AtomicI64,
    // When the system was asked, in milliseconds.
    asked: AtomicU64,
    short: AtomicBool,
}

impl Room {
    /// Takes room for `bytes`; `space` asks the system.
    ///
    /// # Errors
    /// [`Error::Io`] with ENOSPC if less would be left than is kept.
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
        // A small write or a deletion that still fits is no end of the shortage: the log would tell of one at each.
        if free_bytes >= reserve + reserve / PLENTY_PART && self.short.swap(false, Ordering::Relaxed) {
            tracing::info!(free_bytes, "the disk has free space again");
        }
        Ok(())
    }
}

impl Room {
    /// Whether `bytes` may be reserved. The system is asked each time, and a refusal is no news for an operator: the
    /// caller asked for more than there is, and what others add still fits.
    ///
    /// # Errors
    /// [`Error::Io`] with ENOSPC if less would be left than is kept.
    pub fn reserve(&self, bytes: u64, space: impl FnOnce() -> Result<Space>) -> Result<()> {
        let Space { total_bytes, free_bytes } = space()?;
        let reserve = reserve(total_bytes);
        if bytes > 0 && free_bytes < reserve.saturating_add(bytes) {
            return Err(full(free_bytes, reserve));
        }
        // What was allowed to writes before may not fit any more.
        self.left.store(0, Ordering::Relaxed);
        Ok(())
    }
}

fn full(free_bytes: u64, reserve: u64) -> Error {
    let what = format!("the disk has {free_bytes} bytes free, of which {reserve} are kept for deleting");
    Error::io(what, std::io::Error::from_raw_os_error(libc::ENOSPC))
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
        assert!(is_short(1, Need::Adding, 65), "a smaller write fits, and is no news");
        assert!(is_short(1, Need::Freeing, 60), "a deletion fits, and is no news");
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
        let refused = room.reserve(1000 * MIB, disk(500 * MIB)).expect_err("there is not so much");
        assert!(crate::is_full(&refused) && !room.short.load(Ordering::Relaxed), "{refused:?}");
        room.reserve(400 * MIB, disk(500 * MIB)).expect("there is so much");
        room.reserve(0, disk(0)).expect("it is there already");
        room.take(1, Need::Adding, disk(500 * MIB)).expect("writes go on");
    }

    #[test]
    fn a_small_disk_keeps_a_part() {
        assert_eq!([reserve(50 * MIB), reserve(1 << 40)], [10 * MIB, 64 * MIB]);
    }
}
