//! The backend of the writer on fjall.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fjall::{AbstractTree, Database, Guard, Keyspace, OwnedWriteBatch, PersistMode, Readable};
use objstore_base::error::Result;
use objstore_disk::{Need, Room, is_full, space_of};
use xxhash_rust::xxh3::xxh3_64;

use super::batches::{self, Batch};
use super::journal::Journal;
use super::reserve::Reserve;
use super::tail::{Mark, Tail};
use super::validate::Log;
use super::{MEMTABLE_BYTES, error};
use crate::backend::{BATCH_KEY, Backend, Changes, decode_batch, span};
use crate::engine::Durability;
use crate::txn::{Pair, Read, Snapshot, Value};

/// The mode in which fjall makes the journal durable with a commit.
///
/// `Buffer` writes fjall's own buffer to the file, so that the kernel has it. `SyncData` is fdatasync, which is enough
/// ([`Journal::sync`]).
fn persist_mode(durability: Durability) -> PersistMode {
    match durability {
        Durability::Synced => PersistMode::SyncData,
        Durability::Buffered => PersistMode::Buffer,
    }
}

pub(super) struct Store {
    database: Database,
    pub keyspace: Keyspace,
    path: PathBuf,
    room: Room,
    reserve: Option<Reserve>,
    journal: Journal,
    tail: Tail,
}

impl Store {
    /// The backend over what fjall has opened in `folder`, after the comparison with the journal and the watermark.
    pub fn open(
        opened: (Database, Keyspace),
        folder: &Path,
        (mark, log): (Mark, Option<Log>),
        reserve: Option<Reserve>,
    ) -> Result<Self> {
        let (last, tables) = compare(&opened, folder, log)?;
        let (database, keyspace) = opened;
        let tail = Tail::open(folder, mark, last, tables)?;
        let (path, journal) = (folder.to_owned(), Journal::open(folder)?);
        Ok(Self { database, keyspace, path, room: Room::default(), reserve, journal, tail })
    }

    /// The batch up to which tables contain everything; 0 if that cannot be read.
    fn in_tables(&self) -> u64 {
        in_tables(&self.keyspace).ok().flatten().map_or(0, |last| last.ours)
    }

    /// Delays the writer while the memtable waits for a busy background thread to flush it.
    ///
    /// fjall limits the number of memtables that wait for the flush, but not how far the open one grows until then:
    /// without this delay a burst of large values takes hundreds of MiB. The wait is bounded, since that thread may
    /// have died: then the commit reports it.
    fn wait_for_room(&self) {
        const LONGEST: Duration = Duration::from_millis(200);
        const STEP: Duration = Duration::from_millis(1);
        let started = Instant::now();
        while self.keyspace.tree.active_memtable().size() > 2 * MEMTABLE_BYTES && started.elapsed() < LONGEST {
            std::thread::sleep(STEP);
        }
    }
}

/// The last batch of all and the last batch in tables, after comparing both with the journal.
pub(super) fn compare(
    (database, keyspace): &(Database, Keyspace),
    folder: &Path,
    log: Option<Log>,
) -> Result<(u64, u64)> {
    // Read before the next flush ends: later, tables may contain batches that were never verified.
    let tables = in_tables(keyspace)?;
    let last = View { snapshot: database.snapshot(), keyspace: keyspace.clone() }.get(BATCH_KEY)?;
    let last = decode_batch(last.as_deref())?;
    log.map_or(Ok(()), |log| log.joins(folder, tables, last))?;
    Ok((last, tables.map_or(0, |tables| tables.ours)))
}

/// The last batch in the tables of a version, whose type fjall does not name.
macro_rules! last_batch {
    ($version:expr) => {{
        // The newest tables come first.
        let runs = $version.iter_levels().flat_map(|level| level.iter());
        let mut last = Ok(None);
        for table in runs.filter_map(|run| run.get_for_key(BATCH_KEY)) {
            match table.get(BATCH_KEY, u64::MAX, xxh3_64(BATCH_KEY)) {
                Ok(None) => continue,
                Ok(Some(found)) => {
                    let fjalls = found.key.seqno;
                    let batch = |ours| Some($crate::fjall_engine::batches::Batch { ours, fjalls });
                    last = decode_batch(Some(&found.value)).map(batch);
                }
                Err(failure) => last = Err(error::on_read(failure.into())),
            }
            break;
        }
        last
    }};
}
pub(super) use last_batch;

/// The last batch in tables. They contain all batches before it, since a memtable is flushed as a whole and each batch
/// sets [`BATCH_KEY`]. The tables are read directly, because the tree can be read only at a snapshot that is still
/// held.
fn in_tables(keyspace: &Keyspace) -> Result<Option<Batch>> {
    let tables = keyspace.tree.current_version();
    last_batch!(tables)
}

/// A size that most batches in the journal do not exceed, in bytes.
const BATCH_BYTES: u64 = 64 << 10;

fn room_for_batch(room: &Room, folder: &Path) -> Result<()> {
    room.take(BATCH_BYTES, Need::Freeing, || space_of(folder))
}

/// Ensures that a batch has space on disk, releasing part of the reserve if necessary.
///
/// # Errors
/// The disk is full, and nothing of the reserve is left.
pub(super) fn make_room(room: &Room, reserve: &Reserve, folder: &Path) -> Result<()> {
    loop {
        match room_for_batch(room, folder) {
            Err(error) if is_full(&error) && reserve.give() => {}
            answer => return answer,
        }
    }
}

impl Backend for Store {
    fn snapshot(&self) -> Box<dyn Snapshot> {
        Box::new(View { snapshot: self.database.snapshot(), keyspace: self.keyspace.clone() })
    }

    fn commit(&self, changes: Changes, durability: Durability) -> Result<()> {
        self.wait_for_room();
        let number = decode_batch(changes.get(BATCH_KEY).and_then(|value| value.as_deref()))?;
        let bytes = batches::bytes(&changes);
        let mut batch = OwnedWriteBatch::with_capacity(self.database.clone(), changes.len())
            .durability(Some(persist_mode(durability)));
        for (key, value) in changes {
            match value {
                Some(value) => batch.insert(&self.keyspace, key, value),
                None => batch.remove(&self.keyspace, key),
            }
        }
        batch.commit().map_err(error::on_write)?;
        self.journal.grew(bytes);
        self.tail.committed(number);
        if durability == Durability::Synced {
            self.tail.synced(number, || self.in_tables());
        }
        Ok(())
    }

    fn room(&self) -> Result<()> {
        match &self.reserve {
            None => room_for_batch(&self.room, &self.path),
            Some(reserve) => make_room(&self.room, reserve, &self.path).inspect(|()| reserve.take()),
        }
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

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::backend::encode_batch;

    #[test]
    fn a_new_journal_file_is_open_before_anybody_syncs_it() {
        let folder = tempfile::tempdir().unwrap();
        let opened = super::super::start(folder.path(), super::super::Options::default(), None).unwrap();
        let store = Store::open(opened, folder.path(), (Mark::default(), None), None).unwrap();
        let (mut number, mut in_tables) = (0, 0);
        let mut commit = || {
            number += 1;
            let value = Some(Bytes::from(vec![number as u8; 2 << 20]));
            let batch = (Bytes::from_static(BATCH_KEY), Some(encode_batch(number)));
            store.commit([batch, (Bytes::from_static(b"key"), value)].into(), Durability::Buffered).unwrap();
            // Flushes happen meanwhile; the tables are read again nevertheless.
            let before = std::mem::replace(&mut in_tables, store.in_tables());
            assert!((before..=number).contains(&in_tables), "{before}, {in_tables}, {number}");
        };
        while !folder.path().join("1.jnl").exists() {
            commit();
        }
        commit();
        assert!(store.journal.knows(1));
        assert!(in_tables > 0);
    }
}
