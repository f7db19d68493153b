//! A test engine whose disk outlives it, and whose commits fail on demand: before they are on disk, or after.

use std::sync::Arc;

use objstore_base::error::{Error, Result};
use parking_lot::Mutex;

use super::backend::{Backend, Changes};
use super::engine::Durability;
use super::handle::Meta;
use super::memory::Map;
use super::txn::Snapshot;
use super::writer::Writer;

/// What happens to a commit that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The commit is not on disk.
    Lost,
    /// The commit is on disk, but only its sync failed, so no one was answered.
    Written,
}

/// A simulated disk that holds metadata.
#[derive(Clone, Default)]
pub struct Log {
    disk: Arc<Map>,
    failure: Arc<Mutex<Option<Failure>>>,
}

impl Log {
    /// Opens the metadata on the disk.
    pub fn open(&self) -> Meta {
        *self.failure.lock() = None;
        let writer = Writer::start(Faulty { shown: self.disk.copy(), log: self.clone() });
        Meta::new(Arc::new(writer.expect("a store in memory opens")))
    }

    /// Makes every commit from now on fail, until the disk is opened again.
    pub fn fail(&self, failure: Failure) {
        *self.failure.lock() = Some(failure);
    }
}

struct Faulty {
    shown: Map,
    log: Log,
}

impl Backend for Faulty {
    fn snapshot(&self) -> Box<dyn Snapshot> {
        self.shown.snapshot()
    }

    fn commit(&self, changes: Changes, durability: Durability) -> Result<()> {
        let failure = *self.log.failure.lock();
        if failure != Some(Failure::Lost) {
            self.log.disk.commit(changes.clone(), durability)?;
        }
        match failure {
            None => self.shown.commit(changes, durability),
            Some(_) => Err(Error::io("the test's disk", std::io::Error::other("as the test wants"))),
        }
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }
}
