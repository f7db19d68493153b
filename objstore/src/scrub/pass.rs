//! A pass of the scrub over all blobs, step by step.
//!
//! - The bytes on the disk are verified, not the page cache: cached pages are dropped first, except those that a
//!   program has mapped. They are cached again afterwards, so clients lose nothing.

use prost::Message;

use super::damage;
use crate::blob::{BlobId, Place as Lying};
use crate::clock::Timestamp;
use crate::content::verified_blob;
use crate::core::Core;
use crate::disk::is_broken;
use crate::error::{Error, Result};
use crate::meta::{Durability, Read};
use crate::record::blob::Blob;
use crate::record::decode;
use crate::record::key::{self, tag};
use crate::record::scrub::{Place, Scrub};

/// The most bytes read in one step, and in one read.
const STEP_BYTES: u64 = 4 << 20;
/// The most blobs examined in one step.
const STEP_BLOBS: usize = 128;
/// Bytes read after which the position is recorded.
const UNWRITTEN_BYTES: u64 = 64 << 20;
/// Blobs examined after which the position is recorded.
const UNWRITTEN_BLOBS: u64 = 8 << 10;
/// The most damaged blobs per pass whose owners are searched, which reads all inodes.
const NAMED_MAX: u64 = 32;

/// A pass in progress.
pub(super) struct Pass {
    /// Its record.
    pub record: Scrub,
    place: Place,
    unwritten: (u64, u64),
    named: u64,
    /// Whether the current blob was intact so far.
    sound: bool,
}

/// The result of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stepped {
    pub blobs: u64,
    pub bytes: u64,
    /// Number of newly found damaged blobs.
    pub found: u64,
    /// Whether the pass is complete.
    pub done: bool,
}

/// The record with the position that the last process reached.
pub(super) fn read(read: &dyn Read) -> Result<Scrub> {
    let value = read.get(&key::scrub())?;
    value.map_or(Ok(Scrub::default()), |value| decode("the scrub", &value))
}

impl Pass {
    /// Continues the pass in the record, or begins a new one.
    pub fn resume(core: &Core) -> Result<Self> {
        let mut record = read(&*core.meta.snapshot())?;
        let place = match record.place {
            Some(place) => place,
            None => {
                record.started = core.clock.now().0;
                Place { total_bytes: total(core)?, ..Place::default() }
            }
        };
        record.place = Some(place);
        let pass = Self { record, place, unwritten: (0, 0), named: 0, sound: place.offset == 0 };
        pass.write(core)?;
        Ok(pass)
    }

    /// Bytes read, and bytes in all.
    pub fn progress(&self) -> (u64, u64) {
        (self.place.read_bytes, self.place.total_bytes.max(self.place.read_bytes))
    }

    /// Takes one step.
    pub fn step(&mut self, core: &Core) -> Result<Stepped> {
        let mut stepped = Stepped::default();
        let from = key::by_id(tag::BLOB, self.place.blob);
        let pairs = core.meta.snapshot().scan(&from, &key::after_prefix(&[tag::BLOB]), STEP_BLOBS)?;
        stepped.done = pairs.is_empty();
        for pair in &pairs {
            let Some(id) = key::u64_at(&pair.key, 1) else { continue };
            if id != self.place.blob {
                (self.place.blob, self.place.offset, self.sound) = (id, 0, true);
            }
            self.look(core, id, &mut stepped)?;
            if stepped.bytes >= STEP_BYTES {
                break;
            }
        }
        self.unwritten = (self.unwritten.0 + stepped.blobs, self.unwritten.1 + stepped.bytes);
        if self.unwritten.0 >= UNWRITTEN_BLOBS || self.unwritten.1 >= UNWRITTEN_BYTES {
            self.unwritten = (0, 0);
            self.write(core)?;
        }
        Ok(stepped)
    }

    /// Reads a blob from the position on, as far as the step allows.
    fn look(&mut self, core: &Core, id: u64, stepped: &mut Stepped) -> Result<()> {
        loop {
            let left = STEP_BYTES.saturating_sub(stepped.bytes);
            match compare(core, id, self.place.offset, left.max(1)) {
                Ok(Compared::Read(bytes)) => {
                    stepped.bytes += bytes;
                    self.place.offset += bytes;
                    self.place.read_bytes += bytes;
                    if stepped.bytes >= STEP_BYTES {
                        return Ok(());
                    }
                }
                Ok(Compared::End) => {
                    if self.sound && damage::is_known(&*core.meta.snapshot(), id)? && damage::forget(core, id)? {
                        tracing::info!(blob = %BlobId(id), "content that was damaged matches its checksum again");
                    }
                    break;
                }
                Err(error) if matches!(error, Error::Corrupt { .. }) || is_broken(&error) => {
                    stepped.found += u64::from(self.found(core, id, &error)?);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        stepped.blobs += 1;
        (self.place.blob, self.place.offset, self.sound) = (id + 1, 0, true);
        Ok(())
    }

    /// Records damage. Returns whether it is new.
    fn found(&mut self, core: &Core, id: u64, error: &Error) -> Result<bool> {
        if damage::is_known(&*core.meta.snapshot(), id)? {
            return Ok(false);
        }
        let who = if self.named < NAMED_MAX { crate::check::owners_of(core, id)? } else { Vec::new() };
        self.named += 1;
        let why = crate::error::with_source(error);
        let new = damage::note(core, id, why, who.clone())?;
        if new {
            let who = who.join(", ");
            tracing::error!(%error, who, "content does not match its checksum: upload the object again, delete it, or restore it from a backup");
        }
        Ok(new)
    }

    fn write(&self, core: &Core) -> Result<()> {
        let record = Scrub { place: Some(self.place), ..self.record };
        put(core, record)
    }

    /// Ends the pass; returns the time.
    pub fn finish(self, core: &Core) -> Result<Timestamp> {
        damage::sweep(core)?;
        let completed = core.clock.now();
        put(core, Scrub { completed: completed.0, place: None, ..self.record })?;
        Ok(completed)
    }
}

fn put(core: &Core, record: Scrub) -> Result<()> {
    let written = core.meta.write(Durability::Buffered, move |txn| {
        txn.put(key::scrub(), record.encode_to_vec());
        Ok(())
    });
    written.wait()
}

/// The total size of all blobs with checksums.
fn total(core: &Core) -> Result<u64> {
    let (mut from, mut total) = (vec![tag::BLOB], 0);
    loop {
        let pairs = core.meta.snapshot().scan(&from, &key::after_prefix(&[tag::BLOB]), STEP_BLOBS)?;
        for pair in &pairs {
            total += decode::<Blob>("a blob", &pair.value)?.length;
        }
        match pairs.last() {
            Some(last) if pairs.len() == STEP_BLOBS => from = [&last.key[..], &[0]].concat(),
            _ => return Ok(total),
        }
    }
}

enum Compared {
    /// This many bytes were intact.
    Read(u64),
    /// The end of the blob.
    End,
}

/// Verifies a range of a blob. A blob that changed meanwhile is examined again.
fn compare(core: &Core, id: u64, offset: u64, most: u64) -> Result<Compared> {
    loop {
        let _reading = core.readers.begin();
        let snapshot = core.meta.snapshot();
        let Some(value) = snapshot.get(&key::by_id(tag::BLOB, id))? else { return Ok(Compared::End) };
        let found = decode("a blob", &value).and_then(|blob| compare_with(core, &*snapshot, id, &blob, offset, most));
        let now = core.meta.snapshot().get(&key::by_id(tag::BLOB, id))?;
        match found {
            Err(_) if now.as_ref().is_none_or(|now| *now != value) => {}
            found => return found,
        }
    }
}

fn compare_with(core: &Core, read: &dyn Read, id: u64, blob: &Blob, offset: u64, most: u64) -> Result<Compared> {
    if blob.place() == Lying::File && !blob.sums {
        // Without checksums, it only has to exist.
        return core.blobs.file(BlobId(id)).map(|_| Compared::End);
    }
    let length = match blob.packed {
        Some(_) => blob.length - offset.min(blob.length),
        None => blob.length.saturating_sub(offset).min(most.next_multiple_of(crate::blob::SUM_BLOCK as u64)),
    };
    if length == 0 {
        return Ok(Compared::End);
    }
    // Damage on the disk below a cached page would not be noticed.
    match blob.packed {
        Some(at) => core.blobs.forget_cached_packed(at.segment, at.offset, length)?,
        None => core.blobs.forget_cached(BlobId(id), offset, length)?,
    }
    verified_blob(&core.blobs, read, id, blob, offset, length)?;
    Ok(Compared::Read(length))
}
