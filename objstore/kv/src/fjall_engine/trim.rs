//! Trimming of journal files: cuts off batches at the head that are in tables, so that opening need not read them.
//!
//! - fjall reads each file completely when it opens, at 6 ms per MB, and begins a new one only after 64 MB. Only a few
//!   MB of that are not in tables yet. The rest is cut off before fjall opens the file, since the watermark
//!   ([`tail`](super::tail)) records up to which batch tables contain it.
//! - It is cut between batches; the remaining bytes are unchanged, and another module validates them.
//! - A new file is written beside the old one, synced and renamed. A failure only costs time.
//!
//! A crash leaves the old file or the new one, and possibly `*.jnl.tmp`, which the next trim overwrites.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use objstore_base::error::{Error, Result};
use objstore_disk::{Disk, RealDisk};

use super::batches::{CHUNK, Scan};
use super::journal;

/// The smallest number of bytes for which a new file is worth writing.
const LEAST: u64 = 4 << 20;

/// Cuts off the batches up to the number `tables`, which are in tables.
pub(super) fn trim(folder: &Path, tables: u64) -> Result<()> {
    if tables == 0 {
        return Ok(());
    }
    let disk = RealDisk::new();
    let numbers = journal::numbers(&disk, folder)?;
    numbers.iter().try_for_each(|number| trim_file(&disk, &journal::path(folder, *number), tables, LEAST))
}

fn trim_file(disk: &RealDisk, path: &Path, tables: u64, least: u64) -> Result<()> {
    let failed = |error| Error::io(format!("reading {}", path.display()), error);
    let file = File::open(path).map_err(failed)?;
    let Some(rest) = rest(&file, tables, least).map_err(failed)? else { return Ok(()) };
    disk.write_atomic(path, &rest, 0o600).inspect_err(|_| {
        // A leftover file would take space that is already short.
        drop(disk.remove(&path.with_extension("jnl.tmp")));
    })?;
    // The last close of the old file frees its space, which takes as long as reading it: so a thread does it, or this
    // one if no thread can be started.
    drop(std::thread::Builder::new().name("meta-trim".into()).spawn(move || drop(file)));
    Ok(())
}

/// The part of `file` to keep; `None` if that is nearly everything.
fn rest(mut file: &File, tables: u64, least: u64) -> io::Result<Option<Vec<u8>>> {
    if file.metadata()?.len() < least {
        return Ok(None);
    }
    let head = head(file, tables)?;
    if head < least {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(head))?;
    without_end(file).map(Some)
}

/// The length in bytes of all leading batches numbered up to `tables`.
fn head(file: impl Read, tables: u64) -> io::Result<u64> {
    let mut scan = Scan::new(file);
    loop {
        let begin = scan.at();
        if scan.batch()?.is_none_or(|batch| batch.ours > tables) {
            return Ok(begin);
        }
    }
}

/// Reads all of `reader`, without the zeros that fjall preallocates.
fn without_end(mut reader: impl Read) -> io::Result<Vec<u8>> {
    let (mut bytes, mut zeros, mut chunk) = (Vec::new(), 0, vec![0; CHUNK]);
    loop {
        match reader.read(&mut chunk)? {
            0 => return Ok(bytes),
            read if chunk[..read].iter().all(|byte| *byte == 0) => zeros += read,
            read => {
                bytes.resize(bytes.len() + std::mem::take(&mut zeros), 0);
                bytes.extend_from_slice(&chunk[..read]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fjall_engine::batches::{Batch, batch};

    fn numbered(ours: u64, values: &[usize]) -> Vec<u8> {
        // fjall's number is not used here, since it may be damaged.
        batch(Batch { ours, fjalls: 0 }, values)
    }

    fn head(bytes: &[u8], tables: u64) -> u64 {
        super::head(std::io::Cursor::new(bytes), tables).unwrap()
    }

    #[test]
    fn what_is_in_tables_is_cut_between_batches() {
        let batches = [numbered(3, &[0, 5]), numbered(4, &[4096]), numbered(9, &[])];
        let whole = [&batches.concat()[..], &[0; 4096]].concat();
        let ends: Vec<_> = [0, 1, 2, 3].map(|count| batches[..count].concat().len() as u64).into();
        for (tables, count) in [(2, 0), (3, 1), (4, 2), (8, 2), (9, 3), (99, 3)] {
            assert_eq!(head(&whole, tables), ends[count], "up to {tables}");
        }
        for len in 0..whole.len() {
            let expected = ends.iter().rfind(|end| **end <= len as u64).unwrap();
            assert_eq!(head(&whole[..len], 99), *expected, "of {len} bytes");
        }
        for at in [0, 13, 15] {
            let mut damaged = whole.clone();
            damaged[ends[1] as usize + at] ^= 8;
            assert_eq!(head(&damaged, 99), ends[1], "damaged at {at}");
        }
    }

    #[test]
    fn what_stays_is_what_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0.jnl");
        let (first, second) = (numbered(1, &[300_000]), numbered(2, &[3000]));
        let rest = [&second[..], &vec![0; 3 * CHUNK], &second].concat();
        let whole = [&first[..], &rest, &vec![0; 4 * CHUNK]].concat();
        std::fs::write(&path, &whole).unwrap();
        let trim = |least| trim_file(&RealDisk::new(), &path, 1, least).unwrap();
        trim(first.len() as u64 + 1);
        assert!(std::fs::read(&path).unwrap() == whole, "too little to cut off");
        trim(1);
        let left = std::fs::read(&path).unwrap();
        let (left, zeros) = left.split_at(rest.len());
        assert!(left == rest && zeros.len() < CHUNK && zeros.iter().all(|byte| *byte == 0));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
