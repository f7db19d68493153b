//! Preallocated blob files, so that a file that gets an in-place blob waits neither for its creation nor for its name
//! to be synced.
//!
//! - The name of a preallocated file is on disk before the file is handed out. So a record never names a blob file that
//!   a power cut removed, and syncing a new blob means syncing its content only.
//! - A thread creates them; it starts with the first request. All of one batch lie in one folder, so one sync covers
//!   all names.
//! - A caller that finds none creates a file itself, and waits until its name is synced, together with other such
//!   callers. The next batch is twice as large then, and half as large again once files are used slowly.
//! - The thread yields its processor between two files: where the file system takes long to create one, callers that
//!   wait for a mount's reply would otherwise wait behind many.
//!
//! A crash leaves files that no record names.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;

use objstore_base::error::Result;
use objstore_disk::File;
use parking_lot::{Condvar, Mutex};

use super::Helpers;
use super::files::Files;
use super::id::{BlobId, Ids};
use super::shards::SHARDS;

/// The size of the first batches, and of later ones while files are used slowly.
const BATCH_MIN: usize = 32;
/// The size of a batch while files are used as fast as they are created.
const BATCH_MAX: usize = 128;

/// The preallocated blob files.
pub(super) struct PreallocatedFiles {
    shared: Arc<PreallocatorState>,
    thread: Mutex<Thread>,
}

#[derive(Default)]
enum Thread {
    #[default]
    NotStarted,
    Running(JoinHandle<()>),
    /// The thread could not be started: each in-place blob's file is created when it is needed.
    Missing,
    /// The caller that takes a file creates the next batch.
    Caller,
}

struct PreallocatorState {
    files: Arc<Files>,
    ids: Arc<Ids>,
    state: Mutex<State>,
    wanted: Condvar,
}

struct State {
    ready: VecDeque<(BlobId, Arc<dyn File>)>,
    /// Ids of the batch that is being created.
    making: Vec<BlobId>,
    /// The size of the next batch.
    batch: usize,
    /// Whether a caller found no file since the batch was begun.
    missed: bool,
    /// The folder of the next batch, by number.
    shard: usize,
    closed: bool,
}

impl Default for State {
    fn default() -> Self {
        let (ready, making) = (VecDeque::new(), Vec::new());
        Self { ready, making, batch: BATCH_MIN, missed: false, shard: 0, closed: false }
    }
}

impl State {
    /// Whether so few files are left that the next batch has to be created.
    fn is_low(&self) -> bool {
        self.ready.len() < self.batch / 2
    }

    /// Adds a batch of files.
    fn add(&mut self, made: Vec<(BlobId, Arc<dyn File>)>) {
        self.batch = next_batch(self.batch, self.ready.len(), self.missed);
        self.ready.extend(made);
    }
}

/// The size of the batch after one of `batch` files. `left` is how many of the half batch that was there at its start
/// are left, which shows how fast files are used; `missed` says that they did not suffice.
fn next_batch(batch: usize, left: usize, missed: bool) -> usize {
    match missed {
        true => (2 * batch).min(BATCH_MAX),
        false if left >= batch * 3 / 8 => (batch / 2).max(BATCH_MIN),
        false => batch,
    }
}

impl PreallocatedFiles {
    pub fn new(files: Arc<Files>, ids: Arc<Ids>, helpers: Helpers) -> Self {
        let shared = PreallocatorState { files, ids, state: Mutex::default(), wanted: Condvar::new() };
        let thread = match helpers {
            Helpers::Threads => Thread::NotStarted,
            Helpers::Callers => Thread::Caller,
        };
        Self { shared: Arc::new(shared), thread: Mutex::new(thread) }
    }

    /// A file for an in-place blob.
    pub fn take(&self) -> Result<(BlobId, Arc<dyn File>)> {
        let (prepared_file, low) = {
            let mut state = self.shared.state.lock();
            let prepared_file = state.ready.pop_front();
            state.missed |= prepared_file.is_none();
            (prepared_file, state.is_low())
        };
        if low {
            self.start();
            self.shared.wanted.notify_one();
        }
        match prepared_file {
            Some((id, file)) => {
                self.shared.files.adopt(id, &file)?;
                Ok((id, file))
            }
            None => self.shared.make_alone(),
        }
    }

    /// Whether the file of `id` is a preallocated one that is not in use.
    pub fn holds(&self, id: BlobId) -> bool {
        let state = self.shared.state.lock();
        state.making.contains(&id) || state.ready.iter().any(|(prepared_file, _)| *prepared_file == id)
    }

    fn start(&self) {
        let mut thread = self.thread.lock();
        if matches!(*thread, Thread::Caller) {
            return self.shared.make_one();
        }
        if !matches!(*thread, Thread::NotStarted) {
            return;
        }
        let shared = self.shared.clone();
        let started = std::thread::Builder::new().name("blob-spares".into()).spawn(move || shared.run());
        *thread = started.map_or_else(
            |error| {
                tracing::warn!(%error, "cannot start the thread that preallocates blob files; creating files will be slower");
                Thread::Missing
            },
            Thread::Running,
        );
    }
}

impl Drop for PreallocatedFiles {
    fn drop(&mut self) {
        self.shared.state.lock().closed = true;
        self.shared.wanted.notify_all();
        if let Thread::Running(thread) = std::mem::take(&mut *self.thread.lock())
            && thread.join().is_err()
        {
            tracing::error!("the thread that preallocates blob files panicked");
        }
        self.shared.remove_all();
    }
}

impl PreallocatorState {
    fn run(&self) {
        while let Some(shard) = self.next_batch() {
            if let Err(error) = self.make_batch(shard) {
                tracing::debug!(%error, "no blob files are preallocated for now");
                if !self.pause() {
                    break;
                }
            }
        }
    }

    /// Creates one file for a caller that cannot wait for a batch.
    fn make_alone(&self) -> Result<(BlobId, Arc<dyn File>)> {
        let shard = self.state.lock().shard;
        let id = self.ids.next_in(shard);
        let file = self.files.create_private(id)?;
        self.files.sync_name(id)?;
        self.files.adopt(id, &file)?;
        Ok((id, file))
    }

    /// Creates a batch on this thread.
    fn make_one(&self) {
        let shard = {
            let mut state = self.state.lock();
            state.shard = (state.shard + 1) % SHARDS;
            state.shard
        };
        if let Err(error) = self.make_batch(shard) {
            tracing::debug!(%error, "no blob files are preallocated for now");
        }
    }

    /// Waits until a batch is needed; returns the number of its folder, or `None` when the store closes.
    fn next_batch(&self) -> Option<usize> {
        let mut state = self.state.lock();
        while !state.closed && !state.is_low() {
            self.wanted.wait(&mut state);
        }
        state.shard = (state.shard + 1) % SHARDS;
        (!state.closed).then_some(state.shard)
    }

    /// Waits after a failure; returns whether to continue.
    fn pause(&self) -> bool {
        let mut state = self.state.lock();
        if !state.closed {
            self.wanted.wait_for(&mut state, std::time::Duration::from_secs(1));
        }
        !state.closed
    }

    fn make_batch(&self, shard: usize) -> Result<()> {
        let ids = self.begin_batch(shard);
        let made = self.create(&ids);
        if made.is_err() {
            ids.iter().for_each(|id| self.remove(*id));
        }
        let mut state = self.state.lock();
        state.making.clear();
        state.add(made?);
        Ok(())
    }

    fn begin_batch(&self, shard: usize) -> Vec<BlobId> {
        let batch = {
            let mut state = self.state.lock();
            state.missed = false;
            state.batch
        };
        let ids: Vec<BlobId> = (0..batch).map(|_| self.ids.next_in(shard)).collect();
        self.state.lock().making.clone_from(&ids);
        ids
    }

    fn create(&self, ids: &[BlobId]) -> Result<Vec<(BlobId, Arc<dyn File>)>> {
        let mut made = Vec::with_capacity(ids.len());
        for id in ids {
            made.push((*id, self.files.create_private(*id)?));
            std::thread::yield_now();
        }
        ids.last().map_or(Ok(()), |id| self.files.sync_name(*id))?;
        Ok(made)
    }

    fn remove_all(&self) {
        let left = std::mem::take(&mut self.state.lock().ready);
        left.into_iter().for_each(|(id, _)| self.remove(id));
    }

    fn remove(&self, id: BlobId) {
        if let Err(error) = self.files.remove(id) {
            tracing::debug!(%error, "a preallocated blob file stays until the store is opened again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_grow_while_files_are_missed_and_shrink_while_few_are_taken() {
        assert_eq!(next_batch(BATCH_MIN, 0, true), 2 * BATCH_MIN);
        assert_eq!(next_batch(BATCH_MAX, 0, true), BATCH_MAX);
        assert_eq!(
            next_batch(BATCH_MAX, BATCH_MAX / 4, false),
            BATCH_MAX,
            "files are used quickly, and the batch suffices"
        );
        assert_eq!(next_batch(BATCH_MAX, BATCH_MAX / 2, false), BATCH_MAX / 2);
        assert_eq!(next_batch(BATCH_MIN, BATCH_MIN / 2, false), BATCH_MIN);
    }
}
