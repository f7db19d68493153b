//! Directories of which one name after the other is looked up: their names and attributes are fetched together, behind the
//! requests of programs.
//!
//! - It begins after [`MISSES`] look-ups in a directory that were not answered here, and not twice within [`PAUSE`].
//! - The references that the store counts for it are the node's own (`cache`), so the kernel's first look-up takes no trip.
//! - What is fetched is bounded: [`PAGES`] of names for a directory, [`TOGETHER`] directories at a time. A directory that has
//!   more names keeps those.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use node_codec::session::LOOKUPS_PER_CALL;
use node_session::Moment;
use objstore_base::error::Result;
use objstore_files::{Context, DirEntry, NAMES_MAX, NameOp, Names, Reply};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::call::{fetch, one};
use crate::link::Link;

/// After how many look-ups in a directory that took a trip its names are fetched.
const MISSES: u32 = 3;
/// For how long a directory is not fetched again.
const PAUSE: Duration = Duration::from_secs(5);
/// The most pages of names of one directory, some 900 names each.
const PAGES: usize = 8;
/// The most directories that are fetched at a time, and the most calls for one of them.
const TOGETHER: usize = 4;
/// The most directories whose look-ups are counted.
const COUNTED_MAX: usize = 1024;

/// The directories in which look-ups took a trip.
pub(crate) struct Prefetches {
    missed: Mutex<HashMap<u64, Missed>>,
    places: Arc<Semaphore>,
}

#[derive(Default)]
struct Missed {
    count: u32,
    fetched: Option<Moment>,
}

impl Default for Prefetches {
    fn default() -> Self {
        Self { missed: Mutex::default(), places: Arc::new(Semaphore::new(TOGETHER)) }
    }
}

impl Prefetches {
    /// A look-up in this directory takes a trip. Whether the directory is to be fetched.
    pub(crate) fn missed(&self, directory: u64, now: Moment) -> bool {
        let mut missed = self.missed.lock();
        if missed.len() >= COUNTED_MAX && !missed.contains_key(&directory) {
            missed.clear();
        }
        let Missed { count, fetched } = missed.entry(directory).or_default();
        *count += 1;
        if *count < MISSES || fetched.is_some_and(|before| now.since(before) < PAUSE) {
            return false;
        }
        (*count, *fetched) = (0, Some(now));
        true
    }
}

/// Fetches the names and attributes of a directory, unless others are just being fetched.
pub(crate) async fn directory(link: Arc<Link>, directory: u64) {
    let Ok(_place) = Arc::clone(&link.prefetches.places).try_acquire_owned() else { return };
    if let Err(error) = fetched(&link, directory).await {
        tracing::debug!(directory, %error, "the names of a directory cannot be fetched ahead");
    }
}

async fn fetched(link: &Arc<Link>, parent: u64) -> Result<()> {
    let Some(session) = link.about.get().map(|about| about.number) else { return Ok(()) };
    let context = Context { session, caller: None, request: None };
    let (mut after, mut looking) = (None, JoinSet::new());
    for _ in 0..PAGES {
        let read = NameOp::ReadDir { ino: parent, after: after.take(), limit: NAMES_MAX };
        let Reply::Names(Names { entries, next }) = one(link, &context, read.into(), &[]).await?.reply else { break };
        for part in entries.chunks(LOOKUPS_PER_CALL) {
            while looking.len() >= TOGETHER {
                let _ = looking.join_next().await;
            }
            let (link, entries): (_, Vec<DirEntry>) = (Arc::clone(link), part.to_vec());
            looking.spawn(async move {
                let look = NameOp::LookupAll { parent, entries: entries.into(), listed: false };
                fetch(&link, &context, look.into()).await
            });
        }
        match next {
            Some(next) => after = Some(next.into()),
            None => break,
        }
    }
    // What was not fetched is asked for by who needs it.
    while looking.join_next().await.is_some() {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_fetched_after_some_look_ups_and_not_again_soon() {
        let prefetches = Prefetches::default();
        let at = |seconds| Moment::after_start(Duration::from_secs(seconds));
        let missed: Vec<bool> = (0..8).map(|_| prefetches.missed(1, at(1))).collect();
        assert_eq!(missed.iter().position(|fetch| *fetch), Some(MISSES as usize - 1));
        assert_eq!(missed.into_iter().filter(|fetch| *fetch).count(), 1);
        assert!(!prefetches.missed(2, at(1)), "each directory is counted by itself");
        assert!(prefetches.missed(1, at(7)));
        let fetches = (3..=2 * COUNTED_MAX as u64).filter(|directory| prefetches.missed(*directory, at(8))).count();
        assert_eq!(fetches, 0);
        assert!(prefetches.missed.lock().len() <= COUNTED_MAX);
    }
}
