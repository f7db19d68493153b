//! Saving files: what was changed goes to the bucket and into the metadata.
//!
//! - A few changed bytes go into the metadata as patches, with one transaction. More go as chunks into objects, which are
//!   in the bucket before the transaction that names them.
//! - A change during a save is left for the next one.
//! - Objects that are named no more are removed after the transaction is durable.
//!
//! A crash before the transaction leaves objects that no record names; a crash after it leaves the old ones.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::BytesMut;
use objstore_base::error::Result;
use parking_lot::Mutex;

use super::Shared;
use super::file::RemoteFile;
use super::places::{CHUNK_BYTES, Change, ChunkAt, FileHead, Patch};
use super::state::{Base, Chunk, Kind, PAGE, runs, start};
use super::transfer;
use crate::open_files::Name;

/// The most changed bytes of a save that go into the metadata.
const PATCHED_MAX: u64 = 64 * 1024;
/// The most bytes in patches over one chunk: then it is sent as a whole.
const PATCHES_MAX: u64 = 128 * 1024;
/// The most files saved with one transaction.
const FILES_AT_ONCE: usize = 32;

/// A dirty chunk as its save found it.
struct Taken {
    index: u32,
    dirty: u128,
    turn: u64,
}

/// A save of one file whose objects are in the bucket.
struct Prepared<'a> {
    file: &'a RemoteFile,
    change: Change,
    taken: Vec<Taken>,
    head: bool,
    cut_objects: Vec<u64>,
}

impl Shared {
    /// Saves a file: what was written before is durable when this returns.
    pub(super) fn save(self: &Arc<Self>, file: &RemoteFile) -> Result<()> {
        let _one = file.saving.lock();
        if file.state.lock().kind == Kind::Filling {
            return self.publish(file);
        }
        let Some(prepared) = self.prepare(file)? else { return Ok(()) };
        self.commit(vec![prepared])
    }

    /// Saves all dirty files.
    pub(super) fn save_all(self: &Arc<Self>) -> Result<()> {
        let names: Vec<Name> = self.dirty.lock().iter().copied().collect();
        let files: Vec<Arc<RemoteFile>> = names.iter().filter_map(|name| self.known(*name)).collect();
        for some in files.chunks(FILES_AT_ONCE) {
            let _all: Vec<_> = {
                let mut some: Vec<_> = some.iter().collect();
                // In one order, since each is locked.
                some.sort_by_key(|file| Arc::as_ptr(file));
                some.iter().map(|file| file.saving.lock()).collect()
            };
            let prepared = Mutex::new(Vec::new());
            let done = transfer::for_each(some, |file| {
                if let Some(one) = self.prepare(file)? {
                    prepared.lock().push(one);
                }
                Ok(())
            });
            let committed = self.commit(prepared.into_inner());
            done.and(committed)?;
        }
        Ok(())
    }

    /// Sends a new object as a whole.
    pub(super) fn publish(&self, file: &RemoteFile) -> Result<()> {
        let length = file.state.lock().length;
        transfer::put_whole(&self.bucket, file.name, &file.local, length)?;
        let mut state = file.state.lock();
        state.kind = Kind::Whole;
        state.whole = length;
        state.head_dirty = false;
        for chunk in state.chunks.values_mut() {
            chunk.base = Base::Whole;
        }
        if let Name::Segment(segment) = file.name
            && let Some(packs) = &mut *self.packs.lock()
        {
            packs.insert(segment, length);
        }
        Ok(())
    }

    /// Takes what is changed of a file, and sends what does not go into the metadata.
    fn prepare<'a>(&self, file: &'a RemoteFile) -> Result<Option<Prepared<'a>>> {
        let Name::Blob(blob) = file.name else { return Ok(None) };
        let (taken, small, head, (cut, cut_objects)) = {
            let _still = file.guard.read();
            let mut state = file.state.lock();
            if state.kind != Kind::InPlace || state.removed || !state.is_dirty() {
                self.dirty.lock().remove(&file.name);
                return Ok(None);
            }
            let small = state.dirty_bytes() <= PATCHED_MAX
                && state.chunks.values().all(|chunk| {
                    u64::from(chunk.patch_bytes) + u64::from(chunk.dirty.count_ones()) * PAGE <= PATCHES_MAX
                });
            let mut taken = Vec::new();
            for (index, chunk) in state.chunks.iter_mut().filter(|(_, chunk)| chunk.dirty != 0) {
                taken.push(Taken { index: *index, dirty: chunk.dirty, turn: chunk.turn });
                chunk.dirty = 0;
            }
            let cut = (state.cut.take(), std::mem::take(&mut state.cut_objects));
            (taken, small, std::mem::take(&mut state.head_dirty), cut)
        };
        let change = Change { blob, head: FileHead::default(), cut, chunks: Vec::new(), patches: Vec::new() };
        let mut prepared = Prepared { file, change, taken, head, cut_objects };
        let sent = if small { prepared.patch() } else { prepared.send(self) };
        if let Err(error) = sent {
            prepared.give_back();
            return Err(error);
        }
        let modified = objstore_disk::File::modified(file);
        let state = file.state.lock();
        match modified {
            Ok(modified) => prepared.change.head = state.head(modified),
            Err(error) => {
                drop(state);
                prepared.give_back();
                return Err(error);
            }
        }
        // What was cut off or cleared meanwhile is not what was sent.
        let turns: Vec<(u32, u64)> = prepared.taken.iter().map(|taken| (taken.index, taken.turn)).collect();
        let same = |index: u32| {
            let now = state.chunks.get(&index).map(|chunk| chunk.turn);
            turns.iter().any(|(of, turn)| *of == index && Some(*turn) == now)
        };
        prepared.change.chunks.retain(|(index, _)| same(*index));
        prepared.change.patches.retain(|patch| same(patch.chunk));
        drop(state);
        Ok(Some(prepared))
    }

    /// Makes the records of prepared saves durable.
    fn commit(&self, prepared: Vec<Prepared<'_>>) -> Result<()> {
        if prepared.is_empty() {
            return Ok(());
        }
        let changes = prepared.iter().map(|one| one.change.clone()).collect();
        if let Err(error) = self.places.save(changes) {
            prepared.into_iter().for_each(Prepared::give_back);
            return Err(error);
        }
        let mut unnamed = Vec::new();
        for one in prepared {
            one.finish(self, &mut unnamed)?;
        }
        self.removals.lock().extend(unnamed);
        Ok(())
    }
}

impl Prepared<'_> {
    /// Reads the changed pages, to go into the metadata.
    fn patch(&mut self) -> Result<()> {
        let file = self.file;
        let _still = file.guard.read();
        for taken in &self.taken {
            let (mut number, length) = {
                let state = file.state.lock();
                (state.chunk(taken.index).next_patch, state.length)
            };
            for run in runs(taken.dirty) {
                let from = start(taken.index) + u64::from(run.start) * PAGE;
                let to = (start(taken.index) + u64::from(run.end) * PAGE).min(length);
                if from >= to {
                    continue;
                }
                let mut bytes = BytesMut::zeroed((to - from) as usize);
                file.local.read_at(&mut bytes, from)?;
                let offset = (from - start(taken.index)) as u32;
                self.change.patches.push(Patch { chunk: taken.index, number, offset, bytes: bytes.freeze() });
                number += 1;
            }
        }
        Ok(())
    }

    /// Sends the changed chunks as objects.
    fn send(&mut self, shared: &Shared) -> Result<()> {
        let (file, sent) = (self.file, Mutex::new(Vec::new()));
        transfer::for_each(&self.taken, |taken| {
            let bytes = {
                let _still = file.guard.read();
                let length = file.state.lock().length;
                let len = length.saturating_sub(start(taken.index)).min(CHUNK_BYTES) as usize;
                let mut bytes = BytesMut::zeroed(len);
                file.local.read_at(&mut bytes, start(taken.index))?;
                bytes.freeze()
            };
            let at = transfer::put_chunk(&shared.bucket, shared.ids.next(), bytes)?;
            sent.lock().push((taken.index, at));
            Ok(())
        })?;
        self.change.chunks = sent.into_inner();
        Ok(())
    }

    /// Marks everything as changed again, after a failure.
    fn give_back(self) {
        let mut state = self.file.state.lock();
        for taken in &self.taken {
            let counted = match state.chunks.get_mut(&taken.index).filter(|chunk| chunk.turn == taken.turn) {
                Some(chunk) => {
                    // Pages that were changed again meanwhile were counted again.
                    let again = taken.dirty & chunk.dirty;
                    chunk.dirty |= taken.dirty;
                    again
                }
                None => taken.dirty,
            };
            let bytes = u64::from(counted.count_ones()) * PAGE;
            self.file.shared.dirty_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        state.head_dirty |= self.head;
        state.cut_objects.extend(&self.cut_objects);
        state.cut = match (state.cut, self.change.cut) {
            (Some(now), Some(then)) => Some(now.min(then)),
            (now, then) => now.or(then),
        };
        drop(state);
        self.file.shared.dirty.lock().insert(self.file.name);
    }

    /// Records what is saved now.
    fn finish(self, shared: &Shared, unnamed: &mut Vec<String>) -> Result<()> {
        let mut state = self.file.state.lock();
        let saved: u64 = self.taken.iter().map(|taken| u64::from(taken.dirty.count_ones()) * PAGE).sum();
        shared.dirty_bytes.fetch_sub(saved, Ordering::Relaxed);
        state.recorded = true;
        unnamed.extend(self.cut_objects.iter().map(|object| transfer::chunk_key(*object)));
        let turn_of = |index: u32| self.taken.iter().find(|taken| taken.index == index).map(|taken| taken.turn);
        for (index, at) in &self.change.chunks {
            let same = |chunk: &&mut Chunk| Some(chunk.turn) == turn_of(*index);
            let Some(chunk) = state.chunks.get_mut(index).filter(same) else { continue };
            if let Base::Object(before) = chunk.base {
                unnamed.push(transfer::chunk_key(before.object));
            }
            chunk.base = match at {
                ChunkAt { object: 0, .. } => Base::Zeros,
                at => Base::Object(*at),
            };
            (chunk.patch_bytes, chunk.next_patch) = (0, 0);
        }
        for patch in &self.change.patches {
            let same = |chunk: &&mut Chunk| Some(chunk.turn) == turn_of(patch.chunk);
            let Some(chunk) = state.chunks.get_mut(&patch.chunk).filter(same) else { continue };
            chunk.patch_bytes += patch.bytes.len() as u32;
            chunk.next_patch = chunk.next_patch.max(patch.number + 1);
        }
        for taken in &self.taken {
            if state.chunks.get(&taken.index).is_none_or(|chunk| chunk.dirty == 0) {
                self.file.sidecar.mark(Some(taken.index), false)?;
            }
        }
        if !state.head_dirty {
            self.file.sidecar.mark(None, false)?;
        }
        if !state.is_dirty() {
            shared.dirty.lock().remove(&self.file.name);
        }
        Ok(())
    }
}
