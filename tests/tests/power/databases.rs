//! A small database with a write-ahead log: a transaction is logged and synced before its pages are written.
//!
//! - Each transaction sets some pages to its number. It is acknowledged once the log is synced.

use std::fs::{File, OpenOptions};
use std::io::Result;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::fdatasync;

use super::{Program, Promises, sync_path};
use crate::support::Rng;

const PAGE: usize = 4096;
const PAGES: usize = 32;
/// The length of a log record: number, three pages and a checksum, of 8 bytes each.
const RECORD: usize = 40;
/// The number of records after which the pages are synced and the log starts again.
const CHECKPOINT: usize = 12;

/// The last value of each page.
#[derive(Default, Clone)]
pub struct Database {
    acknowledged: [u64; PAGES],
    pending: Option<[u64; PAGES]>,
    last: u64,
}

impl Database {
    fn transact(
        &mut self,
        open: (&File, &File),
        records: &mut usize,
        rng: &mut Rng,
        promises: &mut Promises,
    ) -> Result<()> {
        let (log, data) = open;
        self.last += 1;
        let pages = [0; 3].map(|_: usize| rng.below(PAGES));
        let mut next = self.acknowledged;
        pages.iter().for_each(|page| next[*page] = self.last);
        self.pending = Some(next);
        log.write_all_at(&record(self.last, pages), (*records * RECORD) as u64)?;
        fdatasync(log)?;
        promises.count()?;
        self.acknowledged = next;
        self.pending = None;
        *records += 1;
        for page in pages {
            data.write_all_at(&page_of(self.last), (page * PAGE) as u64)?;
        }
        if *records == CHECKPOINT {
            fdatasync(data)?;
            log.set_len(0)?;
            fdatasync(log)?;
            *records = 0;
        }
        Ok(())
    }

    /// The state that a start after a crash makes of pages and log.
    fn recover(dir: &Path) -> [u64; PAGES] {
        let data = std::fs::read(dir.join("data")).expect("the pages are read");
        let mut pages = [0; PAGES];
        for (number, page) in pages.iter_mut().zip(data.chunks(PAGE)) {
            *number = word(page, 0);
        }
        let log = std::fs::read(dir.join("log")).expect("the log is read");
        for found in log.chunks(RECORD).take_while(|found| is_whole(found)) {
            (1..4).for_each(|at| pages[usize::try_from(word(found, at)).expect("a page")] = word(found, 0));
        }
        pages
    }
}

impl Program for Database {
    fn name(&self) -> &'static str {
        "database"
    }

    fn begin(&mut self, dir: &Path) -> Result<()> {
        std::fs::write(dir.join("data"), vec![0; PAGE * PAGES])?;
        std::fs::write(dir.join("log"), [])?;
        sync_path(&dir.join("data"))?;
        sync_path(&dir.join("log"))
    }

    fn work(&mut self, dir: &Path, rng: &mut Rng, promises: &mut Promises) -> Result<()> {
        let open = |name| OpenOptions::new().read(true).write(true).open(dir.join(name));
        let (log, data) = (open("log")?, open("data")?);
        let mut records = 0;
        loop {
            self.transact((&log, &data), &mut records, rng, promises)?;
        }
    }

    fn compare(&mut self, dir: &Path, cycle: usize) {
        let seen = Self::recover(dir);
        assert!(
            seen == self.acknowledged || Some(seen) == self.pending,
            "cycle {cycle}: the pages are of {seen:?}, not {:?}, nor {:?}",
            self.acknowledged,
            self.pending
        );
        (self.acknowledged, self.pending) = (seen, None);
        let data: Vec<_> = seen.iter().flat_map(|number| page_of(*number)).collect();
        std::fs::write(dir.join("data"), data).and_then(|()| sync_path(&dir.join("data"))).expect("a checkpoint");
        std::fs::write(dir.join("log"), []).and_then(|()| sync_path(&dir.join("log"))).expect("a new log");
    }
}

fn page_of(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(PAGE / 8)
}

fn record(number: u64, pages: [usize; 3]) -> Vec<u8> {
    let fields = [number, pages[0] as u64, pages[1] as u64, pages[2] as u64];
    fields.iter().chain([&sum(&fields)]).flat_map(|field| field.to_le_bytes()).collect()
}

fn is_whole(record: &[u8]) -> bool {
    record.len() == RECORD && sum(&[0, 1, 2, 3].map(|at| word(record, at))) == word(record, 4)
}

fn sum(fields: &[u64]) -> u64 {
    fields.iter().fold(1, |sum: u64, field| (sum ^ field).wrapping_mul(0x0100_0000_01B3))
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at * 8..at * 8 + 8].try_into().expect("8 bytes"))
}
