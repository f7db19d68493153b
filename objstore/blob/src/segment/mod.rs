//! Segments: files that hold many small blobs, `segments/<16 hex>.seg`.
//!
//! - Segments grow only at their end, and only in the process that created them. An old one is never written again, so
//!   a torn end needs no repair.
//! - A segment id, like a blob id, is never reused.
//! - A record is durable before its append is answered.
//!
//! A crash leaves, in the newest segment, possibly a part of a group whose appends were not answered.

mod active;
mod adopt;
mod appender;
mod header;
mod scan;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;

use bytes::{Bytes, BytesMut};
use objstore_base::error::{Error, Result};
use objstore_base::ticket::Ticket;
use objstore_disk::{Disk, File, Poison};
use parking_lot::Mutex;

use super::Helpers;
use super::id::{BlobId, parse_hex};
use super::open_files::{Name, OpenFiles};
use super::remote::RemoteDisk;

use appender::{Append, Appender, LONGEST, Queue};
use header::{RECORD_HEADER, RecordHeader};
use scan::Scan;

/// The place of a packed blob.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packed {
    /// The segment.
    pub segment: u64,
    /// The offset of the record's header in the segment, in bytes.
    pub offset: u64,
    /// The length of the data, in bytes.
    pub length: u64,
    /// The CRC-32C of the data.
    pub crc: u32,
}

/// A record found in a segment. Its header is whole; its data is verified only when it is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// The blob.
    pub id: BlobId,
    /// The offset of the record's header in the segment, in bytes.
    pub offset: u64,
    /// The length of the data, in bytes.
    pub length: u64,
}

/// An existing segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentInfo {
    /// The segment.
    pub id: u64,
    /// Its size in bytes; after a crash this may include up to 1 MiB of zeros at its end.
    pub bytes: u64,
    /// Whether it still grows and therefore cannot be removed.
    pub active: bool,
}

/// The growing segment, as other threads see it.
#[derive(Clone, Copy)]
struct Growing {
    segment: u64,
    end: u64,
}

/// State that the appender thread shares with callers.
struct Shared {
    poison: Poison,
    growing: Mutex<Option<Growing>>,
    batch: Mutex<Arc<AtomicU64>>,
}

/// How new segments are created.
pub(super) struct Grow {
    /// The id of the first new segment.
    pub(super) first: u64,
    /// The size in bytes at which a segment is followed by the next.
    pub(super) segment_bytes: u64,
    /// The thread that appends.
    pub(super) helpers: Helpers,
    /// The bucket, if segments are objects: then each group is a segment.
    pub(super) remote: Option<RemoteDisk>,
}

/// All segments of a store.
pub(super) struct Segments {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    open: Arc<OpenFiles>,
    shared: Arc<Shared>,
    appending: Appending,
    remote: Option<RemoteDisk>,
}

/// The thread that appends.
enum Appending {
    /// A thread, while the queue is open.
    Thread(Option<Queue>, Option<JoinHandle<()>>),
    /// The calling thread.
    Caller(Mutex<Appender>),
}

impl Segments {
    /// Opens the segments in `dir`.
    pub(super) fn open(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        open: Arc<OpenFiles>,
        poison: Poison,
        grow: Grow,
    ) -> Result<Self> {
        disk.make_dir_all(&dir)?;
        let shared = Arc::new(Shared { poison, growing: Mutex::default(), batch: Mutex::default() });
        let appender = Appender {
            disk: disk.clone(),
            dir: dir.clone(),
            shared: shared.clone(),
            // An object does not grow.
            segment_bytes: if grow.remote.is_some() { 0 } else { grow.segment_bytes },
            in_bucket: grow.remote.is_some(),
            next_segment: grow.first,
            active: None,
            buffer: Vec::new(),
        };
        let appending = match grow.helpers {
            Helpers::Threads => start(appender)?,
            Helpers::Callers => Appending::Caller(Mutex::new(appender)),
        };
        Ok(Self { disk, dir, open, shared, appending, remote: grow.remote })
    }

    /// Queues `data`; the ticket is answered once it is durable.
    pub(super) fn append(&self, id: BlobId, data: Bytes) -> Ticket<Packed> {
        if let Err(error) = self.shared.poison.check() {
            return Ticket::ready(Err(error));
        }
        if data.len() > LONGEST {
            let why = format!("a packed blob has at most {LONGEST} bytes; write a separate file");
            return Ticket::ready(Err(Error::invalid("length", data.len().to_string(), why)));
        }
        // Computed here, so that the work is spread over the callers' threads.
        let crc = crc_fast::crc32_iscsi(&data);
        let (answer, ticket) = Ticket::pair();
        let append = Append { id, data, crc, answer };
        match &self.appending {
            // If the thread has ended, the append is dropped and its ticket reports that.
            Appending::Thread(queue, _) => drop(queue.as_ref().map(|queue| queue.send(append))),
            Appending::Caller(appender) => appender.lock().serve(vec![append]),
        }
        ticket
    }

    /// Lets the operating system drop the record at `offset` from the page cache.
    pub(super) fn forget_cached(&self, segment: u64, offset: u64, length: u64) -> Result<()> {
        let file = self.open.get(Name::Segment(segment), &segment_path(&self.dir, segment))?;
        file.forget_cached(offset, length.saturating_add(RECORD_HEADER as u64));
        Ok(())
    }

    /// The data of the record at `offset`, verified against the arguments and the record's header.
    pub(super) fn read(&self, id: BlobId, segment: u64, offset: u64, length: u64) -> Result<Bytes> {
        let what = || format!("blob {id} at {offset} of {}", segment_name(segment));
        if length > LONGEST as u64 {
            return Err(Error::corrupt(what(), format!("at most {LONGEST} bytes"), length.to_string()));
        }
        let file = self.open.get(Name::Segment(segment), &segment_path(&self.dir, segment))?;
        let mut buf = BytesMut::zeroed(RECORD_HEADER + length as usize);
        let count = file.read_at(&mut buf, offset)?;
        let header = RecordHeader::decode(&buf[..count]).ok_or_else(|| Error::corrupt(what(), "a record", "none"))?;
        if (header.id, header.segment, u64::from(header.length)) != (id, segment, length) {
            let found = format!("{} bytes of blob {}", header.length, header.id);
            return Err(Error::corrupt(what(), format!("{length} bytes"), found));
        }
        if count < buf.len() {
            let expected = format!("{length} bytes");
            return Err(Error::corrupt(what(), expected, format!("{}", count - RECORD_HEADER)));
        }
        let data = buf.freeze().slice(RECORD_HEADER..);
        let found = crc_fast::crc32_iscsi(&data);
        if found != header.data_crc {
            let expected = format!("checksum {:08x}", header.data_crc);
            return Err(Error::corrupt(what(), expected, format!("{found:08x}")));
        }
        Ok(data)
    }

    /// All segments, oldest first.
    pub(super) fn list(&self) -> Result<Vec<SegmentInfo>> {
        if let Some(remote) = &self.remote {
            let there = remote.segments()?;
            let growing = *self.shared.growing.lock();
            let active = |id| growing.is_some_and(|growing| growing.segment == id);
            return Ok(there.into_iter().map(|(id, bytes)| SegmentInfo { id, bytes, active: active(id) }).collect());
        }
        let names = self.disk.list(&self.dir)?;
        // Read after the names: a listed segment that does not grow now never will.
        let growing = *self.shared.growing.lock();
        let mut ids: Vec<u64> = names.iter().filter_map(|name| parse_hex(name.strip_suffix(".seg")?)).collect();
        ids.sort_unstable();
        let info = |id| match growing.filter(|growing| growing.segment == id) {
            Some(growing) => Ok(SegmentInfo { id, bytes: growing.end, active: true }),
            None => {
                let bytes = self.disk.open(&segment_path(&self.dir, id))?.len()?;
                Ok(SegmentInfo { id, bytes, active: false })
            }
        };
        ids.into_iter().map(info).collect()
    }

    /// The records of `segment` in order, up to its end or a torn group.
    pub(super) fn scan(&self, segment: u64) -> Result<Vec<Record>> {
        let mut scan = self.walk(segment)?;
        let mut records = Vec::new();
        while let Some((offset, header)) = scan.next()? {
            records.push(Record { id: header.id, offset, length: u64::from(header.length) });
        }
        Ok(records)
    }

    /// Removes a segment that no longer grows; an absent one is no error.
    pub(super) fn remove(&self, segment: u64) -> Result<()> {
        self.shared.poison.check()?;
        if self.shared.growing.lock().is_some_and(|growing| growing.segment == segment) {
            return Err(Error::Busy { what: format!("{}, which still grows,", segment_name(segment)) });
        }
        self.disk.remove(&segment_path(&self.dir, segment))?;
        self.open.forget(Name::Segment(segment));
        Ok(())
    }

    /// The file of a segment that no longer grows.
    pub(super) fn file(&self, segment: u64) -> Result<Arc<dyn File>> {
        self.open.get(Name::Segment(segment), &segment_path(&self.dir, segment))
    }

    /// Copies a segment of another store here, unless its whole copy is here already. Returns the blobs whose bytes do not
    /// have their checksum: they are copied as they are. Content and name are not durable before a sync of the folder.
    pub(super) fn adopt(&self, segment: u64, source: &dyn File) -> Result<Vec<BlobId>> {
        let (path, length) = (segment_path(&self.dir, segment), source.len()?);
        if self.disk.exists(&path)? {
            let file = self.disk.open(&path)?;
            if file.len()? == length && matches!(adopt::stamp(&file, segment, adopt::Stamp::Check), Ok(None)) {
                return Ok(Vec::new());
            }
            self.disk.remove(&path)?;
            self.open.forget(Name::Segment(segment));
        }
        let file = self.disk.create(&path)?;
        adopt::copy(source, &*file, length)?;
        Ok(adopt::stamp(&file, segment, adopt::Stamp::Write)?.unwrap_or_default())
    }

    /// The largest batch number in the newest segment that has a record; 0 if there is none.
    pub(super) fn highest_batch(&self) -> Result<u64> {
        // Batch numbers never fall from one append to the next, so older segments have no larger one.
        for info in self.list()?.into_iter().rev() {
            let mut scan = self.walk(info.id)?;
            let mut highest = None;
            while let Some((_, header)) = scan.next()? {
                highest = highest.max(Some(header.batch));
            }
            if let Some(highest) = highest {
                return Ok(highest);
            }
        }
        Ok(0)
    }

    /// Sets where to read the batch number that records contain.
    pub(super) fn set_batch(&self, batch: Arc<AtomicU64>) {
        *self.shared.batch.lock() = batch;
    }

    fn walk(&self, segment: u64) -> Result<Scan> {
        let growing = *self.shared.growing.lock();
        let file = self.open.get(Name::Segment(segment), &segment_path(&self.dir, segment))?;
        let end = match growing.filter(|growing| growing.segment == segment) {
            Some(growing) => growing.end,
            None => file.len()?,
        };
        Scan::open(file, segment, end)
    }
}

impl Drop for Segments {
    fn drop(&mut self) {
        match &mut self.appending {
            Appending::Thread(queue, thread) => {
                *queue = None;
                if let Some(thread) = thread.take() {
                    let _ = thread.join();
                }
            }
            Appending::Caller(appender) => appender.get_mut().close(),
        }
    }
}

fn start(appender: Appender) -> Result<Appending> {
    let (queue, appends) = channel();
    let thread = std::thread::Builder::new().name("blob-append".into()).spawn(move || appender.run(&appends));
    let thread = thread.map_err(|error| Error::io("starting the thread that appends to segments", error))?;
    Ok(Appending::Thread(Some(queue), Some(thread)))
}

fn segment_path(dir: &Path, segment: u64) -> PathBuf {
    dir.join(format!("{segment:016x}.seg"))
}

fn segment_name(segment: u64) -> String {
    format!("segment {segment:016x}")
}
