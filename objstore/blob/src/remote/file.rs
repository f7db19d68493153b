//! A file whose bytes are in a bucket, with a local file as its cache and as the place of changes.
//!
//! - The local file has the same offsets. A chunk is *here* if the local file has its bytes; the others are got when they
//!   are read, or written in part.
//! - A lock is held shared by reads and exclusively by changes: so an upload reads whole writes, and nothing is removed
//!   from the cache that is being read.
//! - An object that never changes becomes a file that is written in place with its first change.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use bytes::Bytes;
use objstore_base::error::Result;
use objstore_disk::{Allocate, File, full, is_full};
use parking_lot::{Mutex, RwLock};

use super::Shared;
use super::places::CHUNK_BYTES;
use super::sidecar::Sidecar;
use super::state::{Base, Chunk, Kind, Modified, PAGE, State, chunk_of, chunks_of, pages, start};
use super::transfer;
use crate::open_files::Name;

/// The most chunks that one read gets ahead.
const AHEAD_MAX: u32 = 16;

/// A file of the bucket.
pub(super) struct RemoteFile {
    pub(super) shared: Arc<Shared>,
    pub(super) name: Name,
    pub(super) local: Arc<dyn File>,
    pub(super) sidecar: Sidecar,
    /// Held shared by reads and exclusively by changes.
    pub(super) guard: RwLock<()>,
    pub(super) state: Mutex<State>,
    /// Held by the one save of the file that is under way.
    pub(super) saving: Mutex<()>,
    /// When it was last read or written, in the order of uses.
    pub(super) used: AtomicU64,
}

impl RemoteFile {
    pub(super) fn new(
        shared: &Arc<Shared>,
        name: Name,
        local: Arc<dyn File>,
        sidecar: Sidecar,
        state: State,
    ) -> Arc<Self> {
        shared.cached.fetch_add(state.held(), Ordering::Relaxed);
        Arc::new(Self {
            shared: shared.clone(),
            name,
            local,
            sidecar,
            guard: RwLock::new(()),
            state: Mutex::new(state),
            saving: Mutex::default(),
            used: AtomicU64::new(shared.tick()),
        })
    }

    fn note_use(&self) {
        self.used.store(self.shared.tick(), Ordering::Relaxed);
    }

    /// Whether all chunks of the range are here.
    fn all_here(&self, offset: u64, len: u64) -> bool {
        let state = self.state.lock();
        let end = offset.saturating_add(len).min(state.length);
        chunks_of(&(offset..end)).all(|index| state.chunk(index).here)
    }

    /// Reads with the guard held. `keep` says whether what is got may be written to the local file.
    fn fill(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let length = self.state.lock().length;
        let end = offset.saturating_add(buf.len() as u64).min(length);
        let (mut at, mut missed) = (offset, false);
        while at < end {
            let index = chunk_of(at);
            let chunk = self.state.lock().chunk(index);
            let stop = (start(index) + CHUNK_BYTES).min(end);
            if chunk.here {
                let room = &mut buf[(at - offset) as usize..(stop - offset) as usize];
                let count = self.local.read_at(room, at)?;
                room[count..].fill(0);
                at = stop;
                continue;
            }
            missed = true;
            let (first, bytes) = self.get_run(index, chunk, chunks_of(&(at..end)).end)?;
            let stop = (first + bytes.len() as u64).min(end).max(stop);
            let room = &mut buf[(at - offset) as usize..(stop - offset) as usize];
            let from = bytes.len().min((at - first) as usize);
            let count = room.len().min(bytes.len() - from);
            room[..count].copy_from_slice(&bytes[from..from + count]);
            room[count..].fill(0);
            at = stop;
        }
        self.shared.count_read(missed);
        self.state.lock().read_end = at;
        Ok(at.saturating_sub(offset) as usize)
    }

    /// Gets a chunk that is not here, and some that follow if the file is read in order; keeps them here. Returns where
    /// they begin.
    fn get_run(&self, index: u32, chunk: Chunk, asked: u32) -> Result<(u64, Bytes)> {
        let (past, whole) = {
            let mut state = self.state.lock();
            let in_order = state.read_end >= start(index).saturating_sub(CHUNK_BYTES)
                && state.read_end <= start(index) + CHUNK_BYTES;
            state.ahead = if in_order && index > 0 { (state.ahead * 2).min(AHEAD_MAX) } else { 1 };
            let most = asked.max(index + state.ahead).min(index + AHEAD_MAX);
            let last = chunks_of(&(0..state.length)).end.min(most);
            let same = |next: u32| {
                let next = state.chunk(next);
                chunk.base == Base::Whole && next.base == Base::Whole && !next.here && next.patch_bytes == 0
            };
            let alone = chunk.patch_bytes > 0 || chunk.base != Base::Whole;
            let past = if alone {
                index + 1
            } else {
                (index + 1..last).find(|next| !same(*next)).unwrap_or(last.max(index + 1))
            };
            (past, state.whole)
        };
        let mut bytes = transfer::get(&self.shared.bucket, self.name, chunk.base, index..past, whole)?;
        if chunk.patch_bytes > 0
            && let Name::Blob(id) = self.name
        {
            bytes = transfer::patched(bytes, &self.shared.places.patches(id, index)?);
        }
        self.keep(index..past, &bytes)?;
        Ok((start(index), bytes))
    }

    /// Writes chunks that were got to the local file, if there is space.
    fn keep(&self, chunks: std::ops::Range<u32>, bytes: &Bytes) -> Result<()> {
        {
            let mut state = self.state.lock();
            if matches!(state.modified, Modified::Local) && state.kind == Kind::InPlace {
                // The write below is none of the file's.
                state.modified = Modified::At(self.local.modified()?);
            }
        }
        let begin = start(chunks.start);
        let mut written = Ok(());
        for (page, at) in bytes.chunks(64 * 1024).zip((begin..).step_by(64 * 1024)) {
            // Zeros stay holes.
            if written.is_ok() && page.iter().any(|byte| *byte != 0) {
                written = self.local.write_at(page, at);
            }
        }
        match written {
            Ok(()) => {}
            Err(error) if is_full(&error) => return Ok(()),
            Err(error) => return Err(error),
        }
        let mut state = self.state.lock();
        let mut kept = 0;
        for index in chunks {
            let chunk = state.chunk(index);
            if !chunk.here {
                state.chunks.insert(index, Chunk { here: true, ..chunk });
                kept += CHUNK_BYTES;
            }
        }
        drop(state);
        self.shared.cached.fetch_add(kept, Ordering::Relaxed);
        Ok(())
    }

    /// Makes the chunks that a change touches in part be here. The guard is held exclusively.
    fn bring(&self, offset: u64, len: u64) -> Result<()> {
        let range = offset..offset.saturating_add(len);
        let length = self.state.lock().length;
        for index in chunks_of(&range) {
            let chunk = self.state.lock().chunk(index);
            let of_file = start(index)..(start(index) + CHUNK_BYTES).min(length);
            let covered = range.start <= of_file.start && range.end >= of_file.end;
            if !chunk.here && !covered && !of_file.is_empty() {
                self.bring_one(index)?;
            }
        }
        Ok(())
    }

    /// Makes a chunk be here; on a full disk in the place of what is in the bucket too.
    fn bring_one(&self, index: u32) -> Result<()> {
        for evicts in [true, false] {
            let chunk = self.state.lock().chunk(index);
            self.get_run(index, chunk, index + 1)?;
            if self.state.lock().chunk(index).here {
                return Ok(());
            }
            if evicts {
                self.shared.evict_to(0);
            }
        }
        Err(full("keeping a part of a file on the local disk"))
    }

    /// Announces a change of a range. The guard is held exclusively. On an error nothing is announced.
    fn begin_change(&self, offset: u64, len: u64) -> Result<()> {
        self.announce(offset, len, &[])
    }

    /// Announces a change of a range, except that the caller marks the chunks `away` once their bytes are here: a mark
    /// without the bytes would have zeros sent over what the bucket has, after the process died in between.
    fn announce(&self, offset: u64, len: u64, away: &[u32]) -> Result<()> {
        let range = offset..offset.saturating_add(len);
        let mut state = self.state.lock();
        if state.kind == Kind::Whole {
            state.kind = Kind::InPlace;
        }
        if state.kind == Kind::InPlace {
            let unmarked = |index: &u32| state.chunk(*index).dirty == 0 && !away.contains(index);
            for index in chunks_of(&range).filter(unmarked) {
                self.sidecar.mark(Some(index), true)?;
            }
        }
        let mut held = 0;
        for index in chunks_of(&range) {
            let chunk = state.chunk(index);
            held += if chunk.here && state.chunks.contains_key(&index) { 0 } else { CHUNK_BYTES };
            // A new object is sent as a whole.
            let more = if state.kind == Kind::InPlace { pages(index, &range) & !chunk.dirty } else { 0 };
            self.shared.dirty_bytes.fetch_add(u64::from(more.count_ones()) * PAGE, Ordering::Relaxed);
            state.chunks.insert(index, Chunk { here: true, dirty: chunk.dirty | more, ..chunk });
        }
        state.modified = Modified::Local;
        let in_place = state.kind == Kind::InPlace;
        drop(state);
        self.shared.cached.fetch_add(held, Ordering::Relaxed);
        if in_place {
            self.shared.dirty.lock().insert(self.name);
        }
        Ok(())
    }

    /// Marks chunks whose bytes are here now, and no longer what the bucket has.
    fn mark_changed(&self, chunks: &[u32]) -> Result<()> {
        if self.state.lock().kind != Kind::InPlace {
            return Ok(());
        }
        chunks.iter().try_for_each(|index| self.sidecar.mark(Some(*index), true))
    }

    /// The chunks of a range that are not here.
    fn away(&self, offset: u64, len: u64) -> Vec<u32> {
        let state = self.state.lock();
        chunks_of(&(offset..offset.saturating_add(len))).filter(|index| !state.chunk(*index).here).collect()
    }

    /// Ends the announced change of chunks that were to be written as a whole, and were not.
    fn take_back(&self, chunks: &[u32]) {
        let mut state = self.state.lock();
        for index in chunks {
            let Some(chunk) = state.chunks.get_mut(index) else { continue };
            self.shared.dirty_bytes.fetch_sub(u64::from(chunk.dirty.count_ones()) * PAGE, Ordering::Relaxed);
            self.shared.cached.fetch_sub(CHUNK_BYTES, Ordering::Relaxed);
            (chunk.here, chunk.dirty) = (false, 0);
            // A mark that stays would have the hole sent after a crash.
            let _ = self.sidecar.mark(Some(*index), false);
            // What is got later leaves holes where it has zeros.
            let _ = self.local.punch(start(*index), CHUNK_BYTES);
        }
    }

    /// Announces a change of length or time, or that the file exists.
    pub(super) fn mark_head(&self) -> Result<()> {
        let mut state = self.state.lock();
        if !state.head_dirty && state.kind == Kind::InPlace {
            self.sidecar.mark(None, true)?;
        }
        state.head_dirty = true;
        state.modified = Modified::Local;
        if state.kind == Kind::InPlace {
            self.shared.dirty.lock().insert(self.name);
        }
        Ok(())
    }

    /// Forgets chunks from `first` on, which were cut off.
    fn cut(&self, first: u32) {
        let mut state = self.state.lock();
        state.turns += 1;
        let (mut dirty, mut held, mut objects) = (0, 0, Vec::new());
        state.chunks.retain(|index, chunk| {
            if *index >= first {
                if let Base::Object(at) = chunk.base {
                    objects.push(at.object);
                }
                dirty += u64::from(chunk.dirty.count_ones()) * PAGE;
                held += if chunk.here { CHUNK_BYTES } else { 0 };
            }
            *index < first
        });
        state.cut_objects.append(&mut objects);
        state.cut = Some(state.cut.map_or(first, |cut| cut.min(first)));
        drop(state);
        self.shared.dirty_bytes.fetch_sub(dirty, Ordering::Relaxed);
        self.shared.cached.fetch_sub(held, Ordering::Relaxed);
    }

    /// Frees local space of chunks that are in the bucket too. `false` if the file is in use.
    pub(super) fn evict(&self, range: &std::ops::Range<u64>) -> bool {
        // What a save has taken counts as unchanged, and is not in the bucket yet.
        let (Some(_idle), Some(_alone)) = (self.saving.try_lock(), self.guard.try_write()) else { return false };
        let mut state = self.state.lock();
        if state.kind == Kind::Filling {
            return false;
        }
        if matches!(state.modified, Modified::Local)
            && let Ok(modified) = self.local.modified()
        {
            state.modified = Modified::At(modified);
        }
        let elsewhere =
            |chunk: &Chunk| chunk.here && chunk.dirty == 0 && (chunk.base != Base::Zeros || chunk.patch_bytes > 0);
        let touched = chunks_of(&(range.start..range.end.min(state.length)));
        let mut freed = 0;
        for (index, chunk) in
            state.chunks.iter_mut().filter(|(index, chunk)| touched.contains(index) && elsewhere(chunk))
        {
            if self.local.punch(start(*index), CHUNK_BYTES).is_ok() {
                chunk.here = false;
                freed += CHUNK_BYTES;
            }
        }
        drop(state);
        self.shared.cached.fetch_sub(freed, Ordering::Relaxed);
        true
    }
}

impl File for RemoteFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.note_use();
        let shared = self.guard.read();
        let kind = self.state.lock().kind;
        if kind != Kind::InPlace || self.all_here(offset, buf.len() as u64) {
            return self.fill(buf, offset);
        }
        drop(shared);
        // A chunk that is got must not go over a newer write.
        let _alone = self.guard.write();
        self.fill(buf, offset)
    }

    fn read_cached(&self, buf: &mut [u8], offset: u64) -> bool {
        let Some(_shared) = self.guard.try_read() else { return false };
        let whole = offset.saturating_add(buf.len() as u64) <= self.state.lock().length;
        whole && self.all_here(offset, buf.len() as u64) && self.local.read_cached(buf, offset)
    }

    fn write_at(&self, data: &[u8], offset: u64) -> Result<()> {
        if data.is_empty() {
            return Ok(());
        }
        self.note_use();
        self.shared.wait_for_uploads()?;
        let _alone = self.guard.write();
        self.bring(offset, data.len() as u64)?;
        let away = self.away(offset, data.len() as u64);
        self.announce(offset, data.len() as u64, &away)?;
        // A failed write leaves pages marked that hold what they held before.
        let mut written = self.local.write_at(data, offset);
        if written.as_ref().is_err_and(is_full) {
            self.shared.evict_to(0);
            written = self.local.write_at(data, offset);
        }
        if let Err(error) = written.and_then(|()| self.mark_changed(&away)) {
            self.take_back(&away);
            // A part may be there, past the end.
            let length = self.state.lock().length;
            if self.local.len()? > length {
                self.local.set_len(length)?;
            }
            return Err(error);
        }
        let mut state = self.state.lock();
        state.length = state.length.max(offset + data.len() as u64);
        Ok(())
    }

    fn write_direct(&self, data: &[u8], offset: u64) -> Result<()> {
        self.write_at(data, offset)
    }

    fn len(&self) -> Result<u64> {
        Ok(self.state.lock().length)
    }

    fn set_len(&self, len: u64) -> Result<()> {
        let _alone = self.guard.write();
        let before = self.state.lock().length;
        if len == before {
            return Ok(());
        }
        if len < before {
            let edge = chunk_of(len);
            if len > start(edge) {
                // The tail of the last chunk reads as zeros from now on.
                let tail = (start(edge) + CHUNK_BYTES).min(before) - len;
                self.bring(len, tail)?;
                // All of it is sent again, and ends here: what lies behind in the bucket must not come back.
                self.begin_change(start(edge), CHUNK_BYTES)?;
            }
            self.begin_change(len, 0)?;
            self.mark_head()?;
            self.local.set_len(len)?;
            self.cut(if len > start(edge) { edge + 1 } else { edge });
            let mut state = self.state.lock();
            state.whole = state.whole.min(len);
            state.length = len;
            return Ok(());
        }
        self.begin_change(len, 0)?;
        self.mark_head()?;
        self.local.set_len(len)?;
        self.state.lock().length = len;
        Ok(())
    }

    fn punch(&self, offset: u64, len: u64) -> Result<()> {
        let _alone = self.guard.write();
        let end = offset.saturating_add(len).min(self.state.lock().length);
        if offset >= end {
            return Ok(());
        }
        self.bring(offset, end - offset)?;
        self.begin_change(offset, end - offset)?;
        self.local.punch(offset, end - offset)
    }

    fn allocate(&self, offset: u64, len: u64, size: Allocate) -> Result<()> {
        let _alone = self.guard.write();
        self.begin_change(offset, 0)?;
        let end = offset.saturating_add(len);
        let before = self.state.lock().length;
        if size == Allocate::Extend && end > before {
            // The local file may end before the file does.
            self.local.set_len(before)?;
            self.mark_head()?;
        }
        self.local.allocate(offset, len, size)?;
        if size == Allocate::Extend {
            let mut state = self.state.lock();
            state.length = state.length.max(end);
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.shared.save(self)
    }

    fn sync_with_time(&self) -> Result<()> {
        self.sync()
    }

    fn forget_cached(&self, offset: u64, len: u64) {
        self.evict(&(offset..offset.saturating_add(len)));
    }

    fn seek_data(&self, offset: u64) -> Result<Option<u64>> {
        let _shared = self.guard.read();
        let (mut at, length) = (offset, self.state.lock().length);
        while at < length {
            let index = chunk_of(at);
            let stop = (start(index) + CHUNK_BYTES).min(length);
            if !self.state.lock().chunk(index).here {
                return Ok(Some(at));
            }
            match self.local.seek_data(at)? {
                Some(found) if found < stop => return Ok(Some(found)),
                _ => at = stop,
            }
        }
        Ok(None)
    }

    fn seek_hole(&self, offset: u64) -> Result<Option<u64>> {
        let _shared = self.guard.read();
        let (mut at, length) = (offset, self.state.lock().length);
        if at > length {
            return Ok(None);
        }
        while at < length {
            let index = chunk_of(at);
            let stop = (start(index) + CHUNK_BYTES).min(length);
            if !self.state.lock().chunk(index).here {
                at = stop;
                continue;
            }
            match self.local.seek_hole(at)? {
                Some(found) if found >= stop => at = stop,
                Some(found) => return Ok(Some(found)),
                // The local file ends before.
                None => return Ok(Some(at)),
            }
        }
        Ok(Some(length))
    }

    fn reflink_from(&self, _source: &dyn File) -> Result<bool> {
        Ok(false)
    }

    fn raw(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        // A kernel that wrote to the local file would pass by what is sent to the bucket.
        None
    }

    fn blocks(&self) -> Result<u64> {
        let state = self.state.lock();
        let away = |index: &u32| !state.chunk(*index).here;
        let bytes: u64 = chunks_of(&(0..state.length))
            .filter(away)
            .map(|index| (state.length - start(index)).min(CHUNK_BYTES))
            .sum();
        Ok(self.local.blocks()? + bytes.div_ceil(512))
    }

    fn modified(&self) -> Result<SystemTime> {
        let modified = self.state.lock().modified;
        match modified {
            Modified::Local => self.local.modified(),
            Modified::At(time) => Ok(time),
        }
    }
}

impl Drop for RemoteFile {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        let (held, dirty) = (state.held(), state.dirty_bytes());
        self.shared.cached.fetch_sub(held, Ordering::Relaxed);
        self.shared.dirty_bytes.fetch_sub(dirty, Ordering::Relaxed);
    }
}
