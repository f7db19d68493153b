//! Test amounts: small within `cargo verify`, full with `cargo verify --full`.

use std::time::Duration;

/// The environment variable that selects the full amount.
pub const FULL: &str = "AMPHORA_FULL";

/// Whether the full amount is selected.
#[must_use]
pub fn is_full() -> bool {
    std::env::var_os(FULL).is_some_and(|value| value != "0")
}

/// The small or the full amount.
#[must_use]
pub fn amount<T>(small: T, full: T) -> T {
    if is_full() { full } else { small }
}

/// Prints the progress of a run at full size, twenty times in all.
#[expect(clippy::print_stdout, reason = "cargo verify --full shows it; the test harness hides it otherwise")]
pub fn progress(what: &str, done: usize, total: usize) {
    if is_full() && done.is_multiple_of((total / 20).max(1)) {
        println!("{what}: {done} of {total}");
    }
}

/// A time limit in seconds, scaled to the amount.
#[must_use]
pub fn limit(small_seconds: u64) -> Duration {
    Duration::from_secs(amount(small_seconds, 3600))
}
