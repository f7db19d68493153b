//! The clock and the source of randomness, as arguments.
//!
//! - Nothing else in the store asks the system for the time or for random bytes, so a test can control both.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// A point in time: nanoseconds since 1970, negative before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The time in whole milliseconds since 1970.
    pub fn millis(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    /// The time in whole seconds since 1970, and the remaining nanoseconds.
    pub fn parts(self) -> (i64, u32) {
        let nanos = u32::try_from(self.0.rem_euclid(1_000_000_000)).unwrap_or(0);
        (self.0.div_euclid(1_000_000_000), nanos)
    }

    /// The time at `secs` and `nanos` since 1970; limited to the years 1677 to 2262.
    pub fn from_parts(secs: i64, nanos: u32) -> Self {
        Self(secs.saturating_mul(1_000_000_000).saturating_add(i64::from(nanos)))
    }
}

impl From<Timestamp> for SystemTime {
    fn from(time: Timestamp) -> Self {
        let (secs, nanos) = time.parts();
        let whole = std::time::Duration::from_secs(secs.unsigned_abs());
        let start = if secs < 0 { UNIX_EPOCH - whole } else { UNIX_EPOCH + whole };
        start + std::time::Duration::from_nanos(u64::from(nanos))
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Self(i64::try_from(after.as_nanos()).unwrap_or(i64::MAX)),
            Err(before) => Self(i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |nanos| -nanos)),
        }
    }
}

/// A source of the current time.
pub trait Clock: Send + Sync {
    /// The current time.
    fn now(&self) -> Timestamp;
}

/// A source of random bytes.
pub trait Random: Send + Sync {
    /// Fills `buffer` with random bytes.
    fn fill(&self, buffer: &mut [u8]);
}

/// The system's clock.
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that asks the system for the time")]
    fn now(&self) -> Timestamp {
        SystemTime::now().into()
    }
}

/// The operating system's random bytes.
pub struct SystemRandom;

impl Random for SystemRandom {
    /// # Panics
    /// If the kernel has no random bytes, since no secret may be made without them.
    fn fill(&self, buffer: &mut [u8]) {
        getrandom::fill(buffer).expect("the kernel gives random bytes");
    }
}

/// A clock and a source of bytes that a test controls: each reading is one microsecond after the last, and the bytes
/// follow from the seed.
pub struct Scripted {
    nanos: AtomicU64,
    state: AtomicU64,
}

impl Scripted {
    /// Starts in 2001, on September 9, with the given seed.
    pub fn new(seed: u64) -> Self {
        Self { nanos: AtomicU64::new(1_000_000_000_000_000_000), state: AtomicU64::new(seed | 1) }
    }
}

impl Clock for Scripted {
    fn now(&self) -> Timestamp {
        Timestamp(i64::try_from(self.nanos.fetch_add(1_000, Ordering::Relaxed)).unwrap_or(i64::MAX))
    }
}

impl Random for Scripted {
    fn fill(&self, buffer: &mut [u8]) {
        for byte in buffer {
            let step = self.state.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
            let mixed = (step ^ (step >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            *byte = (mixed >> 56) as u8;
        }
    }
}
