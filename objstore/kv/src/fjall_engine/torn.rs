//! Torn batches: those of which not all pieces reached the disk before a crash.
//!
//! - A killed process leaves the beginning of what it wrote, followed by zeros or the file's end.
//! - A power cut leaves any subset of the unsynced sectors, since the disk writes in any order. The journal is written
//!   over zeros, so a missing part reads as zeros up to the end of a sector.
//! - fjall takes zeros at an entry's start as the end, but zeros within a value as damage, and would not open. So a
//!   torn batch is cut off before, with everything after it: nothing later was certainly on disk.
//! - A batch that is complete to its end, and has no such zeros where it cannot be read, is damaged
//!   ([`validate`](super::validate)).
//!
//! A crash leaves the file as it was, or cut.

use std::path::Path;

use objstore_base::error::Result;
use objstore_disk::File;

use super::batches::TRAILER;

/// The size in bytes that a disk writes completely or not at all.
const SECTOR: u64 = 512;

/// This many zeros at the end of a sector were never written; fewer may be part of a number.
const HOLE: [u8; 16] = [0; 16];

/// The content of a file from `from` on, without the zeros at its end.
pub(super) fn rest(file: &dyn File, from: u64) -> Result<Vec<u8>> {
    let (mut rest, mut at) = (Vec::new(), from);
    while let Some(data) = file.seek_data(at)? {
        let end = file.seek_hole(data)?.unwrap_or(data);
        rest.resize((data - from) as usize, 0);
        rest.resize((end - from) as usize, 0);
        file.read_at(&mut rest[(data - from) as usize..], data)?;
        at = end;
    }
    rest.truncate(rest.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
    Ok(rest)
}

/// Whether a crash tore the batch that begins at `begin` and was read up to `read`; `rest` is the content of the file
/// from there.
pub(super) fn is_torn(rest: &[u8], begin: u64, read: u64) -> bool {
    !is_ended(rest) || has_hole(rest, begin, read)
}

/// Whether the last batch was written to its end. A flipped bit does not make it a torn batch.
fn is_ended(rest: &[u8]) -> bool {
    let last = rest.last_chunk().map_or(0, |last| u32::from_be_bytes(*last));
    (last ^ u32::from_be_bytes(TRAILER)).count_ones() <= 1
}

/// Whether there are zeros at the end of a sector, up to the one in which reading ended.
fn has_hole(rest: &[u8], begin: u64, read: u64) -> bool {
    let first = (begin.next_multiple_of(SECTOR) - begin) as usize;
    let read = usize::try_from(read.next_multiple_of(SECTOR) - begin).unwrap_or(usize::MAX);
    let is_hole =
        |end: usize| rest[..end].ends_with(&HOLE) || end == first && rest[..end].iter().all(|byte| *byte == 0);
    (first..=rest.len().min(read)).step_by(SECTOR as usize).any(|end| end > 0 && is_hole(end))
}

/// Truncates the file at the torn batch.
pub(super) fn cut(file: &dyn File, path: &Path, begin: u64) -> Result<()> {
    tracing::info!(path = %path.display(), begin, "truncating an incomplete batch that a crash left at the end of the metadata journal");
    file.set_len(begin)?;
    file.sync()
}
