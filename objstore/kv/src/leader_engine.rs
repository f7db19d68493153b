//! A deterministic test engine: no thread, and a plain log on the test's disk.
//!
//! - The caller that submits an operation runs it, and all queued ones, before the call returns. Commits, batches and
//!   answers work as in every engine ([`leader`](super::leader)).
//! - The log is one file of records, each a batch: its length, a checksum that also covers the record before it, and
//!   the changes. A buffered commit is a write, a synced one a write and a sync; time triggers no sync.
//!
//! A crash leaves a prefix of the records: opening cuts off what follows the last whole one.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use objstore_base::error::{Error, Result};
use objstore_base::ticket::Ticket;
use objstore_disk::{Disk, File, Poison};
use parking_lot::Mutex;

use super::backend::{Backend, Changes};
use super::engine::{Done, Durability, Engine, Operation};
use super::handle::Meta;
use super::memory::Map;
use super::queue::Request;
use super::shared::WriterState;
use super::stats::Stats;
use super::txn::Snapshot;

/// Opens the log at `path`, or creates it in an existing folder.
pub fn open(disk: &dyn Disk, path: &Path) -> Result<Meta> {
    let log = match disk.exists(path)? {
        true => disk.open(path)?,
        false => {
            let log = disk.create(path)?;
            disk.sync_dir(path.parent().unwrap_or(Path::new("/")))?;
            log
        }
    };
    let (map, end) = (Map::default(), Mutex::new(End::default()));
    let backend = Log { map, file: log, end };
    backend.replay(&disk.read_all(path)?)?;
    Ok(Meta::new(Arc::new(LeaderEngine(WriterState::new(backend, Duration::MAX)?))))
}

/// The position at which the log ends.
#[derive(Clone, Copy, Default)]
struct End {
    at: u64,
    /// The checksum of the last record.
    sum: u32,
}

struct Log {
    map: Map,
    file: Arc<dyn File>,
    end: Mutex<End>,
}

impl Log {
    fn replay(&self, mut bytes: &[u8]) -> Result<()> {
        let mut end = End::default();
        while let Some((record, sum)) = record(bytes, end.sum) {
            end = End { at: end.at + 8 + record.len() as u64, sum };
            self.map.commit(decode(record), Durability::Buffered)?;
            bytes = &bytes[8 + record.len()..];
        }
        if !bytes.is_empty() {
            self.file.set_len(end.at)?;
            self.file.sync()?;
        }
        *self.end.lock() = end;
        Ok(())
    }
}

/// Decodes the next record, which follows one with the checksum `before`; `None` if it is not whole.
fn record(bytes: &[u8], before: u32) -> Option<(&[u8], u32)> {
    let mut head = bytes.get(..8)?;
    let (len, sum) = (head.get_u32() as usize, head.get_u32());
    let record = bytes.get(8..8 + len).filter(|record| !record.is_empty())?;
    (checksum(record, before) == sum).then_some((record, sum))
}

fn checksum(record: &[u8], before: u32) -> u32 {
    crc_fast::crc32_iscsi(record) ^ before.rotate_left(1)
}

fn encode(changes: &Changes, before: u32) -> (Vec<u8>, u32) {
    let mut record = vec![0; 8];
    for (key, value) in changes {
        record.put_u32(key.len() as u32);
        record.put_slice(key);
        record.put_u32(value.as_ref().map_or(u32::MAX, |value| value.len() as u32));
        record.put_slice(value.as_deref().unwrap_or_default());
    }
    let sum = checksum(&record[8..], before);
    let len = record.len() as u32 - 8;
    record[..4].copy_from_slice(&len.to_be_bytes());
    record[4..8].copy_from_slice(&sum.to_be_bytes());
    (record, sum)
}

fn decode(record: &[u8]) -> Changes {
    let mut rest = Bytes::copy_from_slice(record);
    let mut changes = Changes::new();
    while !rest.is_empty() {
        let len = rest.get_u32() as usize;
        let key = rest.split_to(len);
        let value = match rest.get_u32() {
            u32::MAX => None,
            len => Some(rest.split_to(len as usize)),
        };
        changes.insert(key, value);
    }
    changes
}

impl Backend for Log {
    fn snapshot(&self) -> Box<dyn Snapshot> {
        self.map.snapshot()
    }

    fn commit(&self, changes: Changes, durability: Durability) -> Result<()> {
        let mut end = self.end.lock();
        let (record, sum) = encode(&changes, end.sum);
        self.file.write_at(&record, end.at)?;
        *end = End { at: end.at + record.len() as u64, sum };
        if durability == Durability::Synced {
            self.file.sync()?;
        }
        self.map.commit(changes, durability)
    }

    fn sync(&self) -> Result<()> {
        self.file.sync()
    }
}

struct LeaderEngine(WriterState<Log>);

impl LeaderEngine {
    fn write(&self) {
        while let Some(turn) = self.0.try_turn() {
            // The commit leader checks the queue once more after its round: an action may have queued an operation.
            if !turn.take() && self.0.queue.is_empty() {
                return;
            }
        }
    }
}

impl Engine for LeaderEngine {
    fn snapshot(&self) -> Box<dyn Snapshot> {
        self.0.backend.snapshot()
    }

    fn submit(&self, durability: Durability, operation: Operation, done: Done) {
        match self.0.queue.push(Request { durability, operation, done }) {
            Ok(()) => self.write(),
            Err((_, request)) => (request.done)(Err(Error::Engine { why: "it is closed".into() })),
        }
    }

    fn submit_here(&self, durability: Durability, operation: Operation, done: Done) {
        self.submit(durability, operation, done);
    }

    fn sync(&self) -> Ticket<()> {
        let (answer, ticket) = Ticket::pair();
        self.submit(Durability::Synced, Box::new(|_| Ok(())), Box::new(|outcome| answer.send(outcome)));
        ticket
    }

    fn sync_here(&self) -> Result<()> {
        self.0.sync()
    }

    fn poison(&self) -> Poison {
        self.0.poison.clone()
    }

    fn synced_batch(&self) -> u64 {
        self.0.synced_batch.load(std::sync::atomic::Ordering::Acquire)
    }

    fn is_synced(&self) -> bool {
        let committed = self.0.committed_batch.load(std::sync::atomic::Ordering::Acquire);
        self.synced_batch() >= committed && self.0.poison.check().is_ok()
    }

    fn epoch(&self, kinds: &[u8]) -> Option<u64> {
        self.0.epochs.of(kinds)
    }

    fn close(&self) {
        self.write();
        self.0.queue.close();
        drop(self.0.sync());
    }

    fn stats(&self) -> Stats {
        self.0.counters.read(self.0.queue.depth())
    }
}
