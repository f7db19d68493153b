//! Validation of the journal before fjall opens it, because fjall trusts more than it verifies.
//!
//! - fjall checksums a batch's items but not its number, by which it knows what tables contain already and which value
//!   is the newest. Where it cannot read an entry it takes a file to have ended, even if another file follows, and
//!   truncates it.
//! - Our numbers are covered by the checksum, and each is one more than the one before, over all files: so no batch is
//!   missing. fjall's numbers rise. No number follows the last batch's, so a wrong higher number there is harmless: it
//!   is still the last.
//! - Everything before the first batch, and before a gap in the numbers, is in tables: those numbers are compared when
//!   the tables are open ([`Log::joins`]). A power cut causes a gap if it left tables ahead of the journal, since fjall
//!   also flushes batches that were committed during its sync. [`trim`](super::trim) causes a gap if it cut the head of
//!   a large file, but not a small file before it.
//! - Only the newest non-empty file may end in an incomplete batch, and only if that was not on disk
//!   ([`torn`](super::torn)). An empty file may follow: fjall may create it after a failed write, and writes
//!   nothing more.
//! - The files are synced after they were read. After a failed write, the page cache may hold data that the disk never
//!   received, and drop it later: the next sync would succeed, and later batches would lack their predecessors.
//!
//! A crash leaves the files as they were, or the newest one without its torn end.

use std::path::Path;

use objstore_base::error::{Error, Result};
use objstore_disk::{Disk, File, RealDisk};

use super::batches::{self, Batch, Scan};
use super::tail::Mark;
use super::{journal, torn};

/// The highest number of fjall's that is accepted; fjall's numbers end at twice this, and no store gets that far.
const HIGHEST: u64 = 1 << 62;

/// What all files together hold, if they hold a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Log {
    /// The last batch that has a gap in the numbers before it.
    joint: Batch,
    last: Batch,
    pub files: usize,
}

/// Reads all files and cuts off a torn batch.
///
/// # Errors
/// [`Error::Corrupt`]: a batch is incomplete, or differs from what was written.
pub(super) fn check(folder: &Path, mark: Mark) -> Result<Option<Log>> {
    let disk = RealDisk::new();
    let (mut files, mut newest) = (Vec::new(), 0);
    for (at, number) in journal::numbers(&disk, folder)?.into_iter().enumerate() {
        let path = journal::path(folder, number);
        let file = disk.open(&path)?;
        if file.seek_data(0)?.is_some() {
            newest = at;
        }
        files.push((file, path));
    }
    let mut seen = Seen::default();
    for (at, (file, path)) in files.iter().enumerate() {
        let (end, read) = seen.pass(&**file, path)?;
        let rest = torn::rest(&**file, end)?;
        if rest.is_empty() {
            continue;
        }
        let there = seen.last.map(|last| last.ours).max((mark.tables > 0).then_some(mark.tables));
        let next = there.map_or_else(|| batches::number(&rest), |there| Some(there + 1));
        let may_be_torn = at == newest && next.is_none_or(|next| next > mark.batch);
        if !may_be_torn || !torn::is_torn(&rest, end, read) {
            return Err(seen.damage(path, end));
        }
        torn::cut(&**file, path, end)?;
    }
    Ok(seen.joint.zip(seen.last).map(|(joint, last)| Log { joint, last, files: files.len() }))
}

/// The state of reading the files.
#[derive(Default)]
struct Seen {
    joint: Option<Batch>,
    last: Option<Batch>,
}

impl Seen {
    /// Reads the batches of a file; returns where the last one ends, and how far the next was read.
    fn pass(&mut self, file: &dyn File, path: &Path) -> Result<(u64, u64)> {
        file.sync()?;
        file.forget_cached(0, file.len()?);
        let failed = |error| Error::io(format!("reading {}", path.display()), error);
        let mut scan = Scan::new(std::fs::File::open(path).map_err(failed)?);
        let mut end = 0;
        while let Some(batch) = scan.batch().map_err(failed)? {
            let rises = |last: Batch| batch.ours > last.ours && batch.fjalls > last.fjalls;
            if batch.fjalls >= HIGHEST || !self.last.is_none_or(rises) {
                return Err(self.damage(path, end));
            }
            if !self.last.is_some_and(|last| is_next(batch, last)) {
                self.joint = Some(batch);
            }
            self.last = Some(batch);
            end = scan.at();
        }
        Ok((end, scan.at()))
    }

    fn damage(&self, path: &Path, at: u64) -> Error {
        let what = format!("the metadata journal {}", path.display());
        let expected = self.last.map_or("a batch".to_owned(), |last| format!("the batch after {}", last.ours));
        Error::corrupt(what, expected, format!("other bytes at {at}"))
    }
}

fn is_next(batch: Batch, last: Batch) -> bool {
    batch.ours == last.ours + 1 && batch.fjalls > last.fjalls
}

impl Log {
    /// Refuses a journal that does not continue where the tables end, and a store that then ends before `end`.
    pub fn joins(self, folder: &Path, tables: Option<Batch>, end: u64) -> Result<()> {
        let Self { joint, last, .. } = self;
        let what = || format!("the metadata journal in {}", folder.display());
        let joined = match tables {
            Some(tables) => joint.ours <= tables.ours || is_next(joint, tables),
            None => joint.ours == 1,
        };
        if !joined {
            let expected = format!("the batch after {}, which tables have", tables.map_or(0, |tables| tables.ours));
            return Err(Error::corrupt(what(), expected, format!("{} as fjall's {}", joint.ours, joint.fjalls)));
        }
        if end < last.ours {
            return Err(Error::corrupt(
                what(),
                format!("a keyspace for batch {}", last.ours),
                format!("one up to {end}"),
            ));
        }
        Ok(())
    }
}
