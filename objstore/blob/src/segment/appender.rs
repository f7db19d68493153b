//! The appender thread: writes all waiting appends to the segment in one write and one sync.
//!
//! - An append is answered after the sync that covers it, or with the error of its group.
//! - The thread ends when its queue is closed, after all queued appends were answered.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender};

use bytes::Bytes;
use objstore_base::error::Result;
use objstore_base::ticket::Answer;
use objstore_disk::Disk;

use super::active::Active;
use super::header::{FILE_HEADER, RECORD_HEADER, RecordHeader, record_size};
use super::{Growing, Packed, Shared};
use crate::id::BlobId;

/// The number of appends or bytes at which a group is full.
const GROUP_APPENDS: usize = 1024;
pub(super) const GROUP_BYTES: usize = 8 * 1024 * 1024;

/// A queued append.
pub(super) struct Append {
    pub(super) id: BlobId,
    pub(super) data: Bytes,
    pub(super) crc: u32,
    pub(super) answer: Answer<Packed>,
}

pub(super) type Queue = Sender<Append>;

/// The state of the appender thread.
pub(super) struct Appender {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) dir: PathBuf,
    pub(super) shared: Arc<Shared>,
    pub(super) segment_bytes: u64,
    /// Whether each segment is one object of a bucket.
    pub(super) in_bucket: bool,
    pub(super) next_segment: u64,
    pub(super) active: Option<Active>,
    pub(super) buffer: Vec<u8>,
}

impl Appender {
    /// Serves `queue` until it is closed.
    pub(super) fn run(mut self, queue: &Receiver<Append>) {
        let mut held = None;
        while let Some(group) = gather(queue, &mut held) {
            self.serve(group);
        }
        self.close();
    }

    /// Appends a group and answers its callers.
    pub(super) fn serve(&mut self, group: Vec<Append>) {
        let result = self.commit(&group);
        self.publish();
        answer(group, result);
    }

    fn commit(&mut self, group: &[Append]) -> Result<Vec<Packed>> {
        self.shared.poison.check()?;
        if self.active.as_ref().is_some_and(|active| active.end >= self.segment_bytes) {
            self.close();
        }
        let active = match &mut self.active {
            Some(active) => active,
            none => {
                let segment = self.next_segment;
                self.next_segment += 1;
                // Set before the file exists, since the collector may remove any segment that is not known to grow.
                *self.shared.growing.lock() = Some(Growing { segment, end: FILE_HEADER as u64 });
                none.insert(Active::create(&*self.disk, &self.dir, segment)?)
            }
        };
        let batch = self.shared.batch.lock().load(Ordering::Acquire);
        let packed = encode(group, active.segment, active.end, batch, &mut self.buffer);
        if self.in_bucket {
            if let Err(error) = active.send(&self.buffer) {
                let segment = active.segment;
                self.abandon(segment);
                return Err(error);
            }
        } else {
            active.append(&self.buffer, &*self.disk, &self.dir, &self.shared.poison)?;
        }
        Ok(packed)
    }

    /// Ends a segment whose request failed: the object may be there, and nothing will name it.
    fn abandon(&mut self, segment: u64) {
        self.active = None;
        if let Err(error) = self.disk.remove(&super::segment_path(&self.dir, segment)) {
            tracing::debug!(segment, %error, "a segment that was not sent stays until the store is opened again");
        }
    }

    fn publish(&self) {
        let growing = self.active.as_ref().map(|active| Growing { segment: active.segment, end: active.end });
        *self.shared.growing.lock() = growing;
    }

    /// Ends the growing segment.
    pub(super) fn close(&mut self) {
        if let Some(active) = self.active.take() {
            active.close();
            self.publish();
        }
    }
}

// Waits for one append, then takes those already queued, up to a full group; the first append that does not fit is put
// into `held`.
fn gather(queue: &Receiver<Append>, held: &mut Option<Append>) -> Option<Vec<Append>> {
    let first = match held.take() {
        Some(append) => append,
        None => queue.recv().ok()?,
    };
    let mut bytes = record_size(first.data.len());
    let mut group = vec![first];
    while group.len() < GROUP_APPENDS {
        let Ok(append) = queue.try_recv() else { break };
        bytes += record_size(append.data.len());
        if bytes > GROUP_BYTES {
            *held = Some(append);
            break;
        }
        group.push(append);
    }
    Some(group)
}

fn encode(group: &[Append], segment: u64, start: u64, batch: u64, buffer: &mut Vec<u8>) -> Vec<Packed> {
    buffer.clear();
    buffer.reserve(group.iter().map(|append| record_size(append.data.len())).sum());
    let place = |append: &Append| {
        let offset = start + buffer.len() as u64;
        let length = append.data.len() as u32;
        let header = RecordHeader { length, id: append.id, batch, group: start, segment, data_crc: append.crc };
        let past = buffer.len() + record_size(append.data.len());
        buffer.extend_from_slice(&header.encode());
        buffer.extend_from_slice(&append.data);
        buffer.resize(past, 0);
        Packed { segment, offset, length: u64::from(length), crc: append.crc }
    };
    group.iter().map(place).collect()
}

fn answer(group: Vec<Append>, result: Result<Vec<Packed>>) {
    match result {
        Ok(packed) => group.into_iter().zip(packed).for_each(|(append, packed)| append.answer.send(Ok(packed))),
        Err(error) => group.into_iter().for_each(|append| append.answer.send(Err(error.clone()))),
    }
}

/// The longest data of a single record, in bytes.
pub(super) const LONGEST: usize = GROUP_BYTES - RECORD_HEADER;
