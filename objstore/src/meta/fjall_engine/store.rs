//! fjall under the writer.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fjall::{AbstractTree, Database, Guard, Keyspace, OwnedWriteBatch, PersistMode, Readable};

use super::journal::Journal;
use super::tail::{End, Mark, Tail};
use super::{MEMTABLE_BYTES, error};
use crate::disk::{Need, Room, space_of};
use crate::error::Result;
use crate::meta::backend::{BATCH_KEY, Backend, Changes, decode_batch, span};
use crate::meta::engine::Durability;
use crate::meta::txn::{Pair, Read, Snapshot, Value};

/// How fjall is told to make the journal durable with a commit.
///
/// `Buffer` flushes fjall's own buffer into the file: the kernel has it. `SyncData` is fdatasync, which is enough
/// ([`Journal::sync`]).
fn persist_mode(durability: Durability) -> PersistMode {
    match durability {
        Durability::Synced => PersistMode::SyncData,
        Durability::Buffered => PersistMode::Buffer,
    }
}

pub(super) struct Store {
    database: Database,
    keyspace: Keyspace,
    path: PathBuf,
    room: Room,
    journal: Journal,
    tail: Tail,
}

impl Store {
    /// What fjall has opened in `folder`, once its end was compared with what was on disk.
    pub fn open(database: Database, keyspace: Keyspace, folder: &Path, mark: Mark) -> Result<Self> {
        let last = View { snapshot: database.snapshot(), keyspace: keyspace.clone() }.get(BATCH_KEY)?;
        let end = End { batch: decode_batch(last.as_deref())?, journal: database.seqno() };
        let tail = Tail::open(folder, mark, end)?;
        let (path, journal) = (folder.to_owned(), Journal::open(folder)?);
        Ok(Self { database, keyspace, path, room: Room::default(), journal, tail })
    }

    /// The number, of fjall's, up to which every batch is in tables. It only grows: each batch sets [`BATCH_KEY`], and
    /// tables keep the newest that they have of it.
    fn in_tables(&self) -> u64 {
        self.keyspace.tree.get_highest_persisted_seqno().unwrap_or(0)
    }

    /// Holds the writer back while the memtable waits for a busy background thread to take it.
    ///
    /// fjall limits the memtables that were taken, not how far the open one grows until then: without this, a
    /// burst of large values takes hundreds of MiB. The wait is bounded, as that thread may have died: then the
    /// commit says so.
    fn wait_for_room(&self) {
        const LONGEST: Duration = Duration::from_millis(200);
        const STEP: Duration = Duration::from_millis(1);
        let started = Instant::now();
        while self.keyspace.tree.active_memtable().size() > 2 * MEMTABLE_BYTES && started.elapsed() < LONGEST {
            std::thread::sleep(STEP);
        }
    }
}

/// More than most batches take in the journal.
const BATCH_BYTES: u64 = 64 << 10;

impl Backend for Store {
    fn snapshot(&self) -> Box<dyn Snapshot> {
        Box::new(View { snapshot: self.database.snapshot(), keyspace: self.keyspace.clone() })
    }

    fn commit(&self, changes: Changes, durability: Durability) -> Result<()> {
        self.wait_for_room();
        let number = decode_batch(changes.get(BATCH_KEY).and_then(|value| value.as_deref()))?;
        let mut batch = OwnedWriteBatch::with_capacity(self.database.clone(), changes.len())
            .durability(Some(persist_mode(durability)));
        for (key, value) in changes {
            match value {
                Some(value) => batch.insert(&self.keyspace, key, value),
                None => batch.remove(&self.keyspace, key),
            }
        }
        batch.commit().map_err(error::on_write)?;
        let end = End { batch: number, journal: self.database.seqno() };
        self.tail.committed(end);
        if durability == Durability::Synced {
            self.tail.synced(end, || self.in_tables());
        }
        Ok(())
    }

    fn room(&self) -> Result<()> {
        self.room.take(BATCH_BYTES, Need::Freeing, || space_of(&self.path))
    }

    fn sync(&self) -> Result<()> {
        let last = self.tail.last();
        self.journal.sync()?;
        self.tail.synced(last, || self.in_tables());
        Ok(())
    }
}

struct View {
    snapshot: fjall::Snapshot,
    keyspace: Keyspace,
}

impl View {
    fn range(&self, from: &[u8], to: &[u8]) -> impl DoubleEndedIterator<Item = Guard> + use<> {
        span(from, to).map(|(from, to)| self.snapshot.range(&self.keyspace, from..to)).into_iter().flatten()
    }
}

impl Read for View {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        Ok(self.snapshot.get(&self.keyspace, key).map_err(error::on_read)?.map(Value::from))
    }

    fn scan(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Pair>> {
        self.range(from, to).take(limit).map(pair).collect()
    }

    fn scan_back(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Pair>> {
        self.range(from, to).rev().take(limit).map(pair).collect()
    }
}

impl Snapshot for View {}

fn pair(found: Guard) -> Result<Pair> {
    let (key, value) = found.into_inner().map_err(error::on_read)?;
    Ok(Pair { key: key.into(), value: value.into() })
}
