//! The clock and the source of randomness, as arguments.
//!
//! - Nothing else in the store asks the system for the time or for random bytes, so a test can control both.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// A point in time: nanoseconds since 1970, negative before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Whole milliseconds since 1970.
    pub fn millis(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    /// Whole seconds since 1970, and the nanoseconds past them.
    pub fn parts(self) -> (i64, u32) {
        let nanos = u32::try_from(self.0.rem_euclid(1_000_000_000)).unwrap_or(0);
        (self.0.div_euclid(1_000_000_000), nanos)
    }

    /// From seconds and nanoseconds; saturates past the years 1677 and 2262.
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

/// Tells the time.
pub trait Clock: Send + Sync {
    /// Now.
    fn now(&self) -> Timestamp;
}

/// Gives random bytes.
pub trait Random: Send + Sync {
    /// Fills `buffer`.
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

/// The system's randomness.
pub struct SystemRandom;

impl Random for SystemRandom {
    /// # Panics
    /// If the kernel has no randomness: no secret may be made then.
    fn fill(&self, buffer: &mut [u8]) {
        getrandom::fill(buffer).expect("the kernel gives random bytes");
    }
}

/// A clock and a source of bytes a test owns: each reading is one microsecond after the last, each byte follows
/// from the seed.
pub struct Scripted {
    nanos: AtomicU64,
    state: AtomicU64,
}

impl Scripted {
    /// Starts at 2001-09-09 with the given seed.
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
