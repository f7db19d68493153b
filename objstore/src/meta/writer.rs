//! The one thread that writes: it takes all queued operations, commits once, syncs once and answers all.
//!
//! - Commits are numbered from 1; each stores its number under the engine's own key, in the same batch.
//! - Buffered commits are synced with the next synced operation, and within [`SYNC_AFTER`] at most.
//! - The first failed commit or sync poisons: nothing is written after it, so what is on disk stays a prefix. The batch
//!   it failed is dropped after that, so that what its operations would remove when they fail is not removed.
//!
//! A crash at any point leaves whole batches: see the module [`meta`](super).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;

use super::backend::{BATCH_KEY, Backend, Changes, decode_batch, encode_batch};
use super::batch::{Batch, answer, guarded};
use super::engine::{Done, Durability, Engine, Operation};
use super::queue::{Queue, Request, Wake};
use super::stats::{Counters, Stats};
use super::txn::Snapshot;
use crate::disk::Poison;
use crate::error::{Error, Result};
use crate::ticket::Ticket;

/// A buffered commit waits this long for someone else's sync; the promise of 3 s leaves room for the sync itself.
const SYNC_AFTER: Duration = Duration::from_secs(2);

/// An engine over `B`. Dropping it closes it.
pub(super) struct Writer<B> {
    shared: Arc<Shared<B>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What callers and the writer thread both hold.
struct Shared<B> {
    backend: B,
    queue: Queue,
    counters: Counters,
    synced_batch: AtomicU64,
    poison: Poison,
}

impl<B: Backend> Writer<B> {
    /// Starts the writer thread over `backend`, all of whose content is on disk.
    pub fn start(backend: B) -> Result<Self> {
        let last_batch = decode_batch(backend.snapshot().get(BATCH_KEY)?.as_deref())?;
        let shared = Arc::new(Shared {
            backend,
            queue: Queue::default(),
            counters: Counters::default(),
            synced_batch: AtomicU64::new(last_batch),
            poison: Poison::default(),
        });
        let work = Work { shared: Arc::clone(&shared), taken: VecDeque::new(), last_batch, unsynced_since: None };
        let thread = std::thread::Builder::new()
            .name("meta-writer".into())
            .spawn(move || work.run())
            .map_err(|source| Error::io("starting the metadata writer thread", source))?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }
}

impl<B: Backend> Engine for Writer<B> {
    fn snapshot(&self) -> Box<dyn Snapshot> {
        self.shared.backend.snapshot()
    }

    fn submit(&self, durability: Durability, operation: Operation, done: Done) {
        if let Err(refused) = self.shared.queue.push(Request { durability, operation, done }) {
            (refused.done)(Err(Error::Engine { why: "it is closed, as the store is shutting down".into() }));
        }
    }

    fn sync(&self) -> Ticket<()> {
        let (answer, ticket) = Ticket::pair();
        self.submit(Durability::Synced, Box::new(|_| Ok(())), Box::new(|outcome| answer.send(outcome)));
        ticket
    }

    fn poison(&self) -> Poison {
        self.shared.poison.clone()
    }

    fn synced_batch(&self) -> u64 {
        self.shared.synced_batch.load(Ordering::Acquire)
    }

    fn close(&self) {
        self.stop();
    }

    fn stats(&self) -> Stats {
        self.shared.counters.read(self.shared.queue.depth())
    }
}

impl<B> Writer<B> {
    fn stop(&self) {
        self.shared.queue.close();
        let Some(thread) = self.thread.lock().take() else { return };
        // The last handle may be dropped by an operation's own closure, and a thread cannot wait for itself.
        if thread.thread().id() != std::thread::current().id() {
            // A panic there has answered all it owed when it dropped the queue.
            let _ = thread.join();
        }
    }
}

impl<B> Drop for Writer<B> {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What the writer thread alone holds.
struct Work<B> {
    shared: Arc<Shared<B>>,
    taken: VecDeque<Request>,
    last_batch: u64,
    /// When the oldest commit that is not on disk was made.
    unsynced_since: Option<Instant>,
}

impl<B: Backend> Work<B> {
    fn run(mut self) {
        loop {
            match self.wait() {
                Wake::Work => self.batch(),
                // A failure poisons; there is no one else to tell.
                Wake::Deadline => drop(self.sync()),
                Wake::Closed => break,
            }
        }
        drop(self.sync());
    }

    fn wait(&mut self) -> Wake {
        if !self.taken.is_empty() {
            return Wake::Work;
        }
        let deadline = self.unsynced_since.map(|since| since + SYNC_AFTER);
        self.shared.queue.wait(&mut self.taken, deadline)
    }

    fn next(&mut self) -> Option<Request> {
        if self.taken.is_empty() {
            self.shared.queue.take(&mut self.taken);
        }
        let request = self.taken.pop_front()?;
        self.shared.queue.ran();
        Some(request)
    }

    /// Runs, commits and answers the operations that wait.
    fn batch(&mut self) {
        let shared = Arc::clone(&self.shared);
        if let Err(poisoned) = shared.poison.check() {
            return self.refuse(&poisoned);
        }
        let base = shared.backend.snapshot();
        let mut batch = Batch::default();
        while !batch.is_full()
            && let Some(request) = self.next()
        {
            batch.run(&*base, request.durability, request.operation, request.done);
        }
        // An engine need not keep the values this commit replaces for our own view.
        drop(base);
        let committed = self.commit(&mut batch);
        shared.counters.operations.fetch_add(batch.operations(), Ordering::Relaxed);
        shared.counters.failures.fetch_add(batch.failures(), Ordering::Relaxed);
        batch.finish(&committed);
    }

    fn refuse(&mut self, error: &Error) {
        while let Some(request) = self.next() {
            answer(request.done, Err(error.clone()));
        }
    }

    /// Commits the batch's writes, as durably as its operations ask or the time demands.
    fn commit(&mut self, batch: &mut Batch) -> Result<()> {
        let overdue = self.unsynced_since.is_some_and(|since| since.elapsed() >= SYNC_AFTER);
        let durability = if batch.synced() || overdue { Durability::Synced } else { Durability::Buffered };
        let bytes = batch.bytes();
        let Some(mut changes) = batch.take_changes() else {
            return if durability == Durability::Synced { self.sync() } else { Ok(()) };
        };
        let number = self.last_batch + 1;
        changes.insert(Bytes::from_static(BATCH_KEY), Some(encode_batch(number)));
        self.store(changes, durability).map_err(|error| Error::Indeterminate { why: self.poison(&error) })?;
        self.last_batch = number;
        self.shared.counters.commits.fetch_add(1, Ordering::Relaxed);
        self.shared.counters.committed_bytes.fetch_add(bytes, Ordering::Relaxed);
        if durability == Durability::Synced {
            self.on_disk();
        } else {
            self.unsynced_since.get_or_insert_with(Instant::now);
        }
        Ok(())
    }

    fn store(&self, changes: Changes, durability: Durability) -> Result<()> {
        let started = Instant::now();
        guarded("a commit", || self.shared.backend.commit(changes, durability))?;
        if durability == Durability::Synced {
            self.shared.counters.synced(started.elapsed());
        }
        Ok(())
    }

    /// Brings every commit to disk; nothing to do if they are.
    fn sync(&mut self) -> Result<()> {
        if self.unsynced_since.is_none() {
            return Ok(());
        }
        let started = Instant::now();
        guarded("a sync", || self.shared.backend.sync())
            .map_err(|error| Error::Poisoned { why: self.poison(&error) })?;
        self.shared.counters.synced(started.elapsed());
        self.on_disk();
        Ok(())
    }

    fn on_disk(&mut self) {
        self.unsynced_since = None;
        self.shared.synced_batch.store(self.last_batch, Ordering::Release);
    }

    /// Refuses all writes from now on, and says why.
    fn poison(&mut self, error: &Error) -> String {
        // Once it failed, a later sync could report success for pages the kernel has dropped.
        self.unsynced_since = None;
        let why = self.shared.poison.set(error);
        tracing::error!(why, "writing metadata failed: the store refuses writes until it is opened again");
        why
    }
}

impl<B> Drop for Work<B> {
    /// However the thread ends, nobody waits for it forever: a dropped request answers its ticket.
    fn drop(&mut self) {
        self.shared.queue.close();
        self.shared.queue.take(&mut VecDeque::new());
    }
}
