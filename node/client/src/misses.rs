//! Directories of which one name after the other is looked up.
//!
//! - The look-ups are counted that were not answered here, up to [`MISSES`]. Then the directory is to be fetched
//!   (`prefetch`), and not again within [`PAUSE`].

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use node_session::Moment;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// After how many look-ups in a directory that took a trip its names are fetched.
const MISSES: u32 = 3;
/// For how long a directory is not fetched again.
const PAUSE: Duration = Duration::from_secs(5);
/// The most directories that are fetched at a time.
const TOGETHER: usize = 4;
/// The most directories whose look-ups are counted.
const COUNTED_MAX: usize = 1024;

/// The directories in which look-ups took a trip.
pub(crate) struct Misses {
    directories: Mutex<HashMap<u64, Missed>>,
    places: Arc<Semaphore>,
}

#[derive(Default)]
struct Missed {
    count: u32,
    fetched: Option<Moment>,
}

impl Default for Misses {
    fn default() -> Self {
        Self { directories: Mutex::default(), places: Arc::new(Semaphore::new(TOGETHER)) }
    }
}

impl Misses {
    /// A look-up in this directory takes a trip. Whether the directory is to be fetched.
    pub(crate) fn missed(&self, directory: u64, now: Moment) -> bool {
        let mut directories = self.directories.lock();
        if directories.len() >= COUNTED_MAX && !directories.contains_key(&directory) {
            directories.clear();
        }
        let Missed { count, fetched } = directories.entry(directory).or_default();
        *count += 1;
        if *count < MISSES || fetched.is_some_and(|before| now.since(before) < PAUSE) {
            return false;
        }
        (*count, *fetched) = (0, Some(now));
        true
    }

    /// A place to fetch a directory, unless as many as may are just being fetched.
    pub(crate) fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_fetched_after_some_look_ups_and_not_again_soon() {
        let misses = Misses::default();
        let at = |seconds| Moment::after_start(Duration::from_secs(seconds));
        let missed: Vec<bool> = (0..8).map(|_| misses.missed(1, at(1))).collect();
        assert_eq!(missed.iter().position(|fetch| *fetch), Some(MISSES as usize - 1));
        assert_eq!(missed.into_iter().filter(|fetch| *fetch).count(), 1);
        assert!(!misses.missed(2, at(1)), "each directory is counted by itself");
        assert!(misses.missed(1, at(7)));
        let fetches = (3..=2 * COUNTED_MAX as u64).filter(|directory| misses.missed(*directory, at(8))).count();
        assert_eq!(fetches, 0);
        assert!(misses.directories.lock().len() <= COUNTED_MAX);
    }
}
