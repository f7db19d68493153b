//! The state of a file whose bytes are in a bucket: which chunks are here, which are changed, and where the rest is.

use std::collections::HashMap;
use std::ops::Range;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::places::{CHUNK_BYTES, ChunkAt, FileHead, Saved};

/// The unit in which changes are tracked, in bytes.
pub(super) const PAGE: u64 = 4096;
const _: () = assert!(CHUNK_BYTES / PAGE == 128, "one bit of a mask for each page");

/// What a file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// A new object that is being written, and is sent as a whole.
    Filling,
    /// An object, which never changes.
    Whole,
    /// A file that is written in place.
    InPlace,
}

/// Where the bytes of a chunk are, apart from those here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Base {
    Zeros,
    /// In the object that the file began as, at the same offset.
    Whole,
    Object(ChunkAt),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    pub base: Base,
    /// Whether the local file has its bytes.
    pub here: bool,
    /// The pages that were changed since they were last saved.
    pub dirty: u128,
    /// The bytes in patches, and the number of the next one.
    pub patch_bytes: u32,
    pub next_patch: u32,
    /// Changes when the chunk is cut off or cleared, so that an upload that began before does not count.
    pub turn: u64,
}

/// Where the modification time comes from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Modified {
    /// The local file, which was written since.
    Local,
    At(SystemTime),
}

pub(super) struct State {
    pub kind: Kind,
    pub length: u64,
    /// How many bytes of the object that the file began as count.
    pub whole: u64,
    pub modified: Modified,
    pub chunks: HashMap<u32, Chunk>,
    /// Whether length, time or a cut are to be saved.
    pub head_dirty: bool,
    pub cut: Option<u32>,
    /// Objects of chunks that were cut off.
    pub cut_objects: Vec<u64>,
    /// Whether the metadata has a record of this file.
    pub recorded: bool,
    /// Whether it is to be written in place, so that the transaction that names it records it.
    pub begun: bool,
    pub turns: u64,
    /// Where the last read ended, and how many chunks the next one that continues it fetches.
    pub read_end: u64,
    pub ahead: u32,
    pub removed: bool,
}

impl State {
    pub fn new(kind: Kind, length: u64) -> Self {
        Self {
            kind,
            length,
            whole: if kind == Kind::Whole { length } else { 0 },
            modified: Modified::Local,
            chunks: HashMap::new(),
            head_dirty: false,
            cut: None,
            cut_objects: Vec::new(),
            recorded: false,
            begun: false,
            turns: 0,
            read_end: 0,
            ahead: 1,
            removed: false,
        }
    }

    /// The state of a file as it is recorded, of which nothing is here.
    pub fn saved(saved: &Saved) -> Self {
        let mut state = Self::new(Kind::InPlace, saved.head.length);
        state.whole = saved.head.whole;
        state.modified = Modified::At(UNIX_EPOCH + Duration::from_nanos(saved.head.modified_ns));
        state.recorded = true;
        for (index, at) in &saved.chunks {
            let base = if at.object == 0 { Base::Zeros } else { Base::Object(*at) };
            let fresh = Chunk { base, here: base == Base::Zeros, ..state.untouched(*index) };
            state.chunks.insert(*index, fresh);
        }
        for (index, number, bytes) in &saved.patches {
            let mut chunk = state.chunk(*index);
            chunk.here = false;
            chunk.patch_bytes += bytes;
            chunk.next_patch = chunk.next_patch.max(number + 1);
            state.chunks.insert(*index, chunk);
        }
        state
    }

    /// A chunk; one that was never touched lies where the file began.
    pub fn chunk(&self, index: u32) -> Chunk {
        self.chunks.get(&index).copied().unwrap_or_else(|| self.untouched(index))
    }

    fn untouched(&self, index: u32) -> Chunk {
        let base = if start(index) < self.whole { Base::Whole } else { Base::Zeros };
        Chunk { base, here: base == Base::Zeros, dirty: 0, patch_bytes: 0, next_patch: 0, turn: self.turns }
    }

    /// The bytes that are changed and not saved.
    pub fn dirty_bytes(&self) -> u64 {
        self.chunks.values().map(|chunk| u64::from(chunk.dirty.count_ones()) * PAGE).sum()
    }

    pub fn is_dirty(&self) -> bool {
        self.head_dirty || self.chunks.values().any(|chunk| chunk.dirty != 0)
    }

    /// The bytes of chunks that are here.
    pub fn held(&self) -> u64 {
        self.chunks.values().filter(|chunk| chunk.here).count() as u64 * CHUNK_BYTES
    }

    pub fn head(&self, modified: SystemTime) -> FileHead {
        let since = modified.duration_since(UNIX_EPOCH).unwrap_or_default();
        let modified_ns = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        FileHead { length: self.length, modified_ns, whole: self.whole }
    }
}

/// Where a chunk begins.
pub(super) fn start(index: u32) -> u64 {
    u64::from(index) * CHUNK_BYTES
}

/// The chunk that an offset lies in.
pub(super) fn chunk_of(offset: u64) -> u32 {
    u32::try_from(offset / CHUNK_BYTES).unwrap_or(u32::MAX)
}

/// The chunks that a range touches.
pub(super) fn chunks_of(range: &Range<u64>) -> Range<u32> {
    if range.is_empty() { 0..0 } else { chunk_of(range.start)..chunk_of(range.end - 1) + 1 }
}

/// The pages of a chunk that a range of the file touches.
pub(super) fn pages(index: u32, range: &Range<u64>) -> u128 {
    let (from, to) = (range.start.max(start(index)), range.end.min(start(index) + CHUNK_BYTES));
    if from >= to {
        return 0;
    }
    let (first, past) = ((from - start(index)) / PAGE, (to - start(index)).div_ceil(PAGE));
    (u128::MAX >> (128 - (past - first))) << first
}

/// The runs of set bits, as ranges of pages.
pub(super) fn runs(mut mask: u128) -> Vec<Range<u32>> {
    let mut runs = Vec::new();
    while mask != 0 {
        let first = mask.trailing_zeros();
        let past = first + (!(mask >> first)).trailing_zeros().min(128 - first);
        runs.push(first..past);
        mask &= if past == 128 { 0 } else { u128::MAX << past };
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_and_runs_agree_with_counting() {
        for (from, to) in [
            (0, 1),
            (0, PAGE),
            (1, PAGE + 1),
            (PAGE, CHUNK_BYTES),
            (0, CHUNK_BYTES),
            (CHUNK_BYTES - 1, CHUNK_BYTES + 5),
        ] {
            let mask = pages(0, &(from..to));
            for page in 0..128 {
                let touched = from < (page + 1) * PAGE && to > page * PAGE;
                assert_eq!(mask >> page & 1 == 1, touched, "{from}..{to}, page {page}");
            }
            let counted: u32 = runs(mask).iter().map(|run| run.end - run.start).sum();
            assert_eq!(counted, mask.count_ones());
        }
        assert_eq!(runs(0b1011 | 1 << 127), vec![0..2, 3..4, 127..128]);
        assert_eq!(runs(u128::MAX), vec![0..128]);
        assert_eq!(pages(1, &(0..CHUNK_BYTES)), 0);
    }
}
