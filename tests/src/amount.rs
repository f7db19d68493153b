//! How much the judges of mounts do: a little within `cargo verify`, all of it with `cargo verify --full`.

use std::time::Duration;

/// The environment variable that asks for all of it.
pub const FULL: &str = "AMPHORA_FULL";

/// Whether all of it is asked for.
#[must_use]
pub fn is_full() -> bool {
    std::env::var_os(FULL).is_some_and(|value| value != "0")
}

/// One of two amounts.
#[must_use]
pub fn amount<T>(small: T, full: T) -> T {
    if is_full() { full } else { small }
}

/// Prints how far a run at full size is, twenty times in all.
#[expect(clippy::print_stdout, reason = "cargo verify --full shows it; the test harness hides it otherwise")]
pub fn progress(what: &str, done: usize, total: usize) {
    if is_full() && done.is_multiple_of((total / 20).max(1)) {
        println!("{what}: {done} of {total}");
    }
}

/// A limit in seconds that fits the amount.
#[must_use]
pub fn limit(small_seconds: u64) -> Duration {
    Duration::from_secs(amount(small_seconds, 3600))
}
