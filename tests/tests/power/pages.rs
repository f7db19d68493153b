//! Overwrites pages of a file in place, as databases do.

use std::fs::OpenOptions;
use std::io::Result;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{OFlags, fdatasync};

use super::{Program, Promises, sync_path};
use crate::support::Rng;

const PAGE: usize = 4096;
/// Enough pages that the kernel reads the file by passthrough.
const PAGES: usize = 64;

/// For each page the promised byte, and those written since.
pub struct Pages(Vec<(u8, Vec<u8>)>);

impl Pages {
    pub fn new() -> Self {
        Self(vec![(0, Vec::new()); PAGES])
    }
}

impl Program for Pages {
    fn name(&self) -> &'static str {
        "pages"
    }

    fn begin(&mut self, dir: &Path) -> Result<()> {
        std::fs::write(dir.join("pages"), vec![0; PAGE * PAGES])?;
        sync_path(&dir.join("pages"))
    }

    fn work(&mut self, dir: &Path, rng: &mut Rng, promises: &mut Promises) -> Result<()> {
        let each = rng.chance(50);
        let flags = if each { OFlags::DSYNC } else { OFlags::empty() };
        let flags_raw = i32::try_from(flags.bits()).expect("flags of open(2)");
        let file = OpenOptions::new().write(true).custom_flags(flags_raw).open(dir.join("pages"))?;
        loop {
            let (at, byte) = (rng.below(PAGES), rng.roll().to_le_bytes()[0]);
            self.0[at].1.push(byte);
            file.write_all_at(&[byte; PAGE], (at * PAGE) as u64)?;
            if each {
                promises.count()?;
                self.0[at] = (byte, Vec::new());
            } else if rng.chance(20) {
                fdatasync(&file)?;
                promises.count()?;
                for (page, since) in &mut self.0 {
                    *page = since.last().copied().unwrap_or(*page);
                    since.clear();
                }
            }
        }
    }

    fn compare(&mut self, dir: &Path, cycle: usize) {
        let seen = std::fs::read(dir.join("pages")).expect("the pages are read");
        assert_eq!(seen.len(), PAGE * PAGES, "cycle {cycle}");
        for (at, (page, (byte, since))) in seen.chunks(PAGE).zip(&mut self.0).enumerate() {
            let now = page[0];
            assert!(page.iter().all(|byte| *byte == now), "cycle {cycle}: page {at} is a mixture");
            assert!(
                now == *byte || since.contains(&now),
                "cycle {cycle}: page {at} holds {now}, {byte} was promised and {since:?} written since"
            );
            since.clear();
            *byte = now;
        }
        // The content found now is on disk, so it counts as promised.
        sync_path(&dir.join("pages")).expect("synced");
    }
}
