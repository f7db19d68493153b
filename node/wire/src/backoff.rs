//! The pauses between attempts to connect: they double up to a maximum, and each is jittered.

use std::time::Duration;

/// The state of the pauses.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    /// Pauses from `first` to `longest`.
    pub fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, next: first }
    }

    /// The next pause: between half of the current step and the whole step, chosen by `random`. The halves of many
    /// nodes that lost one server spread their attempts.
    pub fn pause(&mut self, random: u64) -> Duration {
        let step = self.next.min(self.longest);
        self.next = step.saturating_mul(2).min(self.longest);
        let half = step / 2;
        let nanos = u64::try_from(half.as_nanos()).unwrap_or(u64::MAX).saturating_add(1);
        half + Duration::from_nanos(random % nanos)
    }

    /// Begins with the first pause again, after a success.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_to_the_longest_and_stay_within_half() {
        let (first, longest) = (Duration::from_millis(10), Duration::from_secs(1));
        let mut backoff = Backoff::new(first, longest);
        let mut step = first;
        for random in [0, u64::MAX, 1 << 40, 77, 12_345_678_901, 3, u64::MAX - 9, 5, 6, 7] {
            let pause = backoff.pause(random);
            assert!(pause >= step / 2 && pause <= step, "{pause:?} of {step:?}");
            step = (step * 2).min(longest);
        }
        backoff.reset();
        assert!(backoff.pause(0) <= first);
    }
}
