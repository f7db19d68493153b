//! A batch whose pieces did not all reach the disk before a power cut, though those behind them did.
//!
//! - fjall writes its journal where zeros were, and a disk writes what nobody waited for in any order. So what is missing
//!   reads as zeros up to the end of a sector. Where an entry should begin fjall takes zeros for the end, and cuts off what
//!   follows; within a value it finds another checksum, as after damage, and would not open.
//! - Such a batch is cut off here, with what follows. It was not on disk, or the mark ([`tail`](super::tail)) would say so,
//!   but for its last second; and then neither was what came after it.
//! - A batch that has another checksum without such zeros, or before the mark, is damage: it stays, and opening fails.
//!
//! A crash leaves the file as it was, or cut.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::batches::{Scan, is_whole};
use super::journal;
use crate::disk::{Disk, RealDisk};
use crate::error::{Error, Result};

/// What a disk writes whole, or not at all.
const SECTOR: u64 = 512;

/// So many zeros before the end of a sector were never written; fewer may be a number.
const HOLE: [u8; 16] = [0; 16];

/// Cuts the newest file before a torn batch. Every batch numbered below `synced`, by fjall's number, was on disk.
pub(super) fn cut(folder: &Path, synced: u64) -> Result<()> {
    // Those before the newest were synced when it was begun.
    let disk = RealDisk::new();
    let Some(number) = journal::numbers(&disk, folder)?.into_iter().max() else { return Ok(()) };
    let path = journal::path(folder, number);
    let torn = File::open(&path).and_then(|file| torn(&file, synced));
    if let Some(end) = torn.map_err(|error| Error::io(format!("reading {}", path.display()), error))? {
        tracing::info!(path = %path.display(), end, "cutting off what a power cut left of the last metadata");
        let file = disk.open(&path)?;
        file.set_len(end)?;
        file.sync()?;
    }
    Ok(())
}

/// Where a torn batch begins.
fn torn(file: &File, synced: u64) -> io::Result<Option<u64>> {
    let mut scan = Scan::new(file);
    loop {
        let begin = scan.at();
        let Some(number) = scan.batch()? else { return Ok(None) };
        if number < synced {
            continue;
        }
        let mut batch = vec![0; usize::try_from(scan.at() - begin).unwrap_or(usize::MAX)];
        file.read_exact_at(&mut batch, begin)?;
        if !is_whole(&batch) {
            return Ok(has_hole(&batch, begin).then_some(begin));
        }
    }
}

/// Whether bytes that lie at `begin` have zeros before the end of a sector.
fn has_hole(bytes: &[u8], begin: u64) -> bool {
    let first = begin.next_multiple_of(SECTOR) - begin;
    (first..=bytes.len() as u64).step_by(SECTOR as usize).any(|end| bytes[..end as usize].ends_with(&HOLE))
}
