//! Appends to a log, synced in each of the possible ways.

use std::fs::{File, OpenOptions};
use std::io::{Result, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{OFlags, fdatasync, fsync};

use super::{Program, Promises, sync_path};
use crate::support::Rng;

/// The length at which a program begins a new log.
const LONGEST: usize = 2 << 20;

/// A log, and the length of its synced part.
#[derive(Default)]
pub struct Log {
    written: Vec<u8>,
    promised: usize,
}

impl Program for Log {
    fn name(&self) -> &'static str {
        "log"
    }

    fn begin(&mut self, dir: &Path) -> Result<()> {
        fsync(File::create(dir.join("log"))?)?;
        Ok(())
    }

    fn work(&mut self, dir: &Path, rng: &mut Rng, promises: &mut Promises) -> Result<()> {
        // O_SYNC includes O_DSYNC; with either each write is on disk when it returns.
        let flags = *rng.pick(&[OFlags::empty(), OFlags::DSYNC, OFlags::SYNC]);
        let flags_raw = i32::try_from(flags.bits()).expect("flags of open(2)");
        let mut file = OpenOptions::new().append(true).custom_flags(flags_raw).open(dir.join("log"))?;
        loop {
            let longest = if rng.chance(10) { 60_000 } else { 3_000 };
            let len = 1 + rng.below(longest);
            let mut record = rng.bytes(len);
            // Zeros are in the place of content that did not reach the disk.
            record.iter_mut().for_each(|byte| *byte = (*byte).max(1));
            self.written.extend(&record);
            file.write_all(&record)?;
            match rng.below(3) {
                _ if !flags.is_empty() => {}
                0 => fsync(&file)?,
                1 => fdatasync(&file)?,
                _ => continue,
            }
            promises.count()?;
            self.promised = self.written.len();
        }
    }

    fn compare(&mut self, dir: &Path, cycle: usize) {
        let seen = std::fs::read(dir.join("log")).expect("the log is read");
        let promised = self.promised;
        assert!(
            seen.len() >= promised && seen.len() <= self.written.len(),
            "cycle {cycle}: {} bytes; {promised} were synced and {} written",
            seen.len(),
            self.written.len()
        );
        let wrong = seen.iter().zip(&self.written).position(|(seen, written)| seen != written);
        let zeros = |from: usize| {
            seen[from..].iter().zip(&self.written[from..]).all(|(seen, written)| [0, *written].contains(seen))
        };
        assert!(
            wrong.is_none_or(|at| at >= promised && zeros(at)),
            "cycle {cycle}: byte {wrong:?} of {} is wrong; {promised} were synced",
            seen.len()
        );
        let kept = if promised > LONGEST { 0 } else { promised };
        let cut = File::options().write(true).open(dir.join("log")).and_then(|file| file.set_len(kept as u64));
        cut.and_then(|()| sync_path(&dir.join("log"))).expect("the part that was not synced is cut off");
        self.written.truncate(kept);
        self.promised = kept;
    }
}
