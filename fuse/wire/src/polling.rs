//! Adaptive polling: whether requests follow each other so quickly that polling for the next one pays.
//!
//! A thread that sleeps until a request comes has to be woken, often on a processor that sleeps as well. That takes
//! longer than serving most requests: in a virtual machine three times as long.
//!
//! - A score over the last requests decides. An idle mount does not poll, and neither does one with more waiting
//!   requests than it serves, which needs all its threads.
//! - The polling thread yields the processor between two looks. If another thread used it meanwhile, there may be no
//!   processor to spare: the score falls with the length of that time.
//! - If requests waited while a slow one was served, the mount has several callers. From then on, a request that waits
//!   for the disk is served only after another thread waits for requests.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long to poll. A caller that pauses longer between its requests loses little by the wake-up.
const PATIENCE: Duration = Duration::from_micros(50);
/// The longest gap between a reply and the next request that polling would have covered, wake-up included.
const GAP_MAX: Duration = Duration::from_micros(75);
/// A request served within this time delays no other.
const SERVICE_MAX: Duration = Duration::from_micros(100);
/// A longer time between two looks means that other threads used the processor.
const LOOK_MAX: Duration = Duration::from_micros(30);

/// The score from which on a thread polls.
const QUICK: i32 = 4;
const SCORE_MAX: i32 = 16;
const SCORE_MIN: i32 = -256;
/// The time lost to other threads that lowers the score by one.
const LOST: Duration = Duration::from_micros(20);
/// By how much the score falls if requests waited while a slow one was served.
const CONTENDED: i32 = 4;
/// By how much the score falls if a request waited though the last one was fast. The next quick request regains half of
/// it.
const WAITED: i32 = 2;
/// By how much the score falls if that happened so often that all threads are needed.
const OVERRUN: i32 = 64;
/// After this many slow requests that delayed no other, the mount counts as having one caller again.
const CROWD: i32 = 64;

/// How requests arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum RequestRate {
    /// With pauses between them.
    Calm,
    /// Each soon after the last reply: one caller, or few.
    Quick,
    /// Faster than one thread serves them: callers queue.
    Crowded,
}

/// The polling state of one session.
#[derive(Debug)]
pub(super) struct AdaptivePolling {
    score: AtomicI32,
    /// Above 0 if there are several callers.
    crowd: AtomicI32,
    began: Instant,
    /// When the last request was answered, in nanoseconds since `began`.
    answered: AtomicU64,
    /// Whether the machine has a processor besides the caller's.
    possible: bool,
}

impl AdaptivePolling {
    pub fn new() -> Self {
        Self {
            score: AtomicI32::new(0),
            crowd: AtomicI32::new(0),
            began: Instant::now(),
            answered: AtomicU64::new(0),
            possible: std::thread::available_parallelism().is_ok_and(|processors| processors.get() > 1),
        }
    }

    /// Whether a thread has to poll for the next request.
    pub fn is_quick(&self) -> bool {
        self.flow() == RequestRate::Quick
    }

    /// How requests arrive, judged by the last ones.
    pub fn flow(&self) -> RequestRate {
        match self.score.load(Ordering::Relaxed) {
            score if self.possible && score >= QUICK => RequestRate::Quick,
            score if score < 0 => RequestRate::Crowded,
            _ => RequestRate::Calm,
        }
    }

    /// Whether there are several callers, so that none may wait for another's disk access.
    pub fn is_crowded(&self) -> bool {
        self.crowd.load(Ordering::Relaxed) > 0
    }

    /// Records that a request was taken. Returns the time, for [`AdaptivePolling::answered`].
    pub fn taken(&self) -> Instant {
        let now = Instant::now();
        let gap = self.since_begin(now).saturating_sub(self.answered.load(Ordering::Relaxed));
        self.count(if Duration::from_nanos(gap) <= GAP_MAX { 1 } else { -1 });
        now
    }

    /// Records that the request taken at `taken` is answered. `more` says whether others wait already.
    pub fn answered(&self, taken: Instant, more: impl FnOnce() -> bool) {
        let now = Instant::now();
        self.answered.store(self.since_begin(now), Ordering::Relaxed);
        if now - taken > SERVICE_MAX && self.flow() != RequestRate::Calm {
            if more() {
                self.crowd.store(CROWD, Ordering::Relaxed);
                self.fall(if self.is_quick() { CONTENDED } else { 0 });
            } else if self.is_crowded() {
                self.crowd.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// Polls with `look` for a request, for a limited time. `at_once` says that a request was expected immediately,
    /// because the last reply had no waiter.
    pub fn look_out(&self, at_once: bool, look: impl Fn() -> bool) {
        if look() {
            if !at_once {
                self.fall(WAITED);
                self.fall(if self.is_quick() { 0 } else { OVERRUN });
            }
            return;
        }
        let begin = Instant::now();
        let mut last = begin;
        while !look() {
            std::thread::yield_now();
            let now = Instant::now();
            let took = now - last;
            if took > LOOK_MAX {
                self.fall(i32::try_from(took.as_micros() / LOST.as_micros()).unwrap_or(i32::MAX));
                return;
            }
            if now - begin > PATIENCE {
                return;
            }
            last = now;
        }
    }

    fn since_begin(&self, now: Instant) -> u64 {
        u64::try_from((now - self.began).as_nanos()).unwrap_or(u64::MAX)
    }

    /// Counts one more quick request, or one that was not quick. Threads that count at the same time may lose a point,
    /// which does not matter.
    fn count(&self, by: i32) {
        let score = self.score.load(Ordering::Relaxed);
        let counted = (score + by).clamp(score.min(0), SCORE_MAX);
        if counted != score {
            self.score.store(counted, Ordering::Relaxed);
        }
    }

    fn fall(&self, by: i32) {
        let score = self.score.load(Ordering::Relaxed);
        self.score.store(score.saturating_sub(by).max(SCORE_MIN), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn polling(score: i32) -> AdaptivePolling {
        AdaptivePolling { possible: true, score: AtomicI32::new(score), ..AdaptivePolling::new() }
    }

    #[test]
    fn a_mount_at_rest_looks_out_for_nothing() {
        let polling = polling(SCORE_MAX);
        assert!(polling.is_quick());
        std::thread::sleep(2 * GAP_MAX);
        (0..SCORE_MAX).for_each(|_| {
            polling.taken();
        });
        assert!(!polling.is_quick());
        assert!(!AdaptivePolling { possible: false, ..self::polling(SCORE_MAX) }.is_quick(), "with one processor");
    }

    #[test]
    fn requests_that_follow_answers_are_looked_out_for() {
        let polling = polling(0);
        let mut taken = polling.taken();
        for _ in 0..1000 {
            polling.answered(taken, || false);
            polling.look_out(true, || true);
            taken = polling.taken();
        }
        assert!(polling.is_quick());
        for _ in 0..2 * SCORE_MAX {
            polling.look_out(false, || true);
            polling.answered(taken, || false);
            taken = polling.taken();
        }
        assert!(!polling.is_quick(), "they waited already");
    }

    #[test]
    fn requests_that_waited_have_several_callers_until_none_waits_any_more() {
        let polling = polling(SCORE_MAX);
        let long_ago = Instant::now();
        std::thread::sleep(2 * SERVICE_MAX);
        polling.answered(Instant::now(), || true);
        polling.answered(long_ago, || false);
        assert!(!polling.is_crowded());
        polling.answered(long_ago, || true);
        assert!(polling.is_crowded() && polling.is_quick());
        (0..CROWD).for_each(|_| polling.answered(long_ago, || false));
        assert!(!polling.is_crowded());
        (0..3).for_each(|_| polling.answered(long_ago, || true));
        assert!(!polling.is_quick());
    }

    #[test]
    fn looking_out_ends_in_time_and_when_others_want_the_processor() {
        let polling = polling(SCORE_MAX);
        polling.look_out(false, || true);
        polling.look_out(false, || false);
        polling.look_out(false, || {
            std::thread::sleep(LOOK_MAX * 40);
            false
        });
        assert!(!polling.is_quick());
    }
}
