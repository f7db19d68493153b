//! Syncs outside of commits: one at a time, each for all callers that wait.
//!
//! - A sync makes durable what was committed before it began. A caller that arrives during one waits for its end; of
//!   those that it did not cover, one makes the next sync for all.
//! - It needs no commit leader: others commit meanwhile.
//! - The first failure poisons the store. After it no caller gets the answer that anything is on disk.
//! - Commits that no caller asked to sync have a deadline, which the writer thread keeps.
//!
//! A crash during a sync leaves its data on disk or not; no caller was answered.

use std::sync::atomic::Ordering;
use std::time::Instant;

use objstore_base::error::{Error, Result};

use super::backend::Backend;
use super::batch::guarded;
use super::engine::Durability;
use super::shared::WriterState;

impl<B: Backend> WriterState<B> {
    /// Returns once everything committed before this call is on disk.
    ///
    /// # Errors
    /// [`Error::Poisoned`]: this sync failed, or an earlier write to disk did.
    pub fn sync(&self) -> Result<()> {
        let asked = self.committed_batch.load(Ordering::Acquire);
        let mut running = self.syncs.running.lock();
        loop {
            self.poison.check()?;
            if self.synced_batch.load(Ordering::Acquire) >= asked {
                return Ok(());
            }
            if !*running {
                break;
            }
            self.syncs.ended.wait(&mut running);
        }
        *running = true;
        drop(running);
        let synced = self.sync_now();
        *self.syncs.running.lock() = false;
        self.syncs.ended.notify_all();
        synced
    }

    fn sync_now(&self) -> Result<()> {
        let (batch, started) = (self.committed_batch.load(Ordering::Acquire), Instant::now());
        guarded("a sync", || self.backend.sync()).map_err(|error| Error::Poisoned { why: self.fail(&error) })?;
        self.counters.synced(started.elapsed());
        self.on_disk(batch, started);
        Ok(())
    }

    /// Syncs if a commit has waited long enough. A failure poisons the store; there is no caller to report it to.
    pub fn sync_if_due(&self) {
        if self.deadline().is_some_and(|deadline| deadline <= Instant::now()) {
            drop(self.sync());
        }
    }

    /// When the oldest buffered commit has to be on disk. `None` after a failed write: a later sync could report
    /// success for pages that the kernel has dropped.
    pub fn deadline(&self) -> Option<Instant> {
        let (_, since) = self.syncs.oldest.lock().filter(|_| self.poison.check().is_ok())?;
        since.checked_add(self.sync_after)
    }

    /// Records that `batch` was committed.
    pub fn committed(&self, batch: u64, durability: Durability) {
        // This comes first, because a sync that ends now checks for later commits.
        self.committed_batch.store(batch, Ordering::Release);
        match durability {
            Durability::Synced => self.on_disk(batch, Instant::now()),
            Durability::Buffered => {
                let mut oldest = self.syncs.oldest.lock();
                // A sync in between may have made the batch durable: then no other sync would clear its deadline.
                if self.synced_batch.load(Ordering::Acquire) < batch {
                    oldest.get_or_insert_with(|| (batch, Instant::now()));
                }
            }
        }
    }

    /// Records that the commits up to `batch` are on disk; all later ones were made after `began`.
    fn on_disk(&self, batch: u64, began: Instant) {
        self.synced_batch.fetch_max(batch, Ordering::AcqRel);
        let mut oldest = self.syncs.oldest.lock();
        if oldest.is_some_and(|(waiting, _)| waiting <= batch) {
            let later = self.committed_batch.load(Ordering::Acquire) > batch;
            *oldest = later.then_some((batch + 1, began));
        }
    }

    /// Refuses all writes from now on; returns the reason.
    pub fn fail(&self, error: &Error) -> String {
        let why = self.poison.set(error);
        tracing::error!(why, "a metadata write failed: the store refuses writes until the server is restarted");
        why
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::memory::Map;

    #[test]
    fn what_a_sync_brought_to_disk_before_it_was_noted_is_not_waited_for() {
        let shared = WriterState::new(Map::default(), Duration::ZERO).unwrap();
        // The state that a commit finds if another sync ran between the two steps in which the commit is recorded.
        shared.committed_batch.store(1, Ordering::Release);
        shared.sync().unwrap();
        shared.committed(1, Durability::Buffered);
        assert_eq!(shared.deadline(), None, "the writer thread would look for it for ever");
        shared.committed(2, Durability::Buffered);
        assert!(shared.deadline().is_some());
        shared.sync_if_due();
        assert_eq!(shared.deadline(), None);
    }
}
