//! Replaces files by writing new ones, syncing and renaming them; and deletes them.

use std::fs::File;
use std::io::{Result, Write};
use std::path::{Path, PathBuf};

use rustix::fs::fsync;

use super::{Program, Promises, sync_path};
use crate::support::Rng;

const NAMES: usize = 8;

type Held = Option<Vec<u8>>;

/// For each name the promised state, and its changes since.
#[derive(Default)]
pub struct Names([(Held, Vec<Held>); NAMES]);

impl Names {
    fn path(dir: &Path, at: usize) -> PathBuf {
        dir.join(format!("name-{at}"))
    }

    /// Records a sync: one of any file or folder also promises all earlier changes of names.
    fn promise(&mut self) {
        for (held, since) in &mut self.0 {
            if let Some(last) = since.pop() {
                *held = last;
                since.clear();
            }
        }
    }

    fn replace(&mut self, dir: &Path, at: usize, content: Vec<u8>, promises: &mut Promises) -> Result<()> {
        let new = dir.join("new");
        let mut file = File::create(&new)?;
        file.write_all(&content)?;
        fsync(&file)?;
        promises.count()?;
        self.promise();
        self.0[at].1.push(Some(content));
        // Clippy permits std::fs::rename only in objstore::disk.
        Ok(rustix::fs::rename(&new, Self::path(dir, at))?)
    }
}

impl Program for Names {
    fn name(&self) -> &'static str {
        "names"
    }

    fn begin(&mut self, dir: &Path) -> Result<()> {
        sync_path(dir)
    }

    fn work(&mut self, dir: &Path, rng: &mut Rng, promises: &mut Promises) -> Result<()> {
        loop {
            let at = rng.below(NAMES);
            let (held, since) = &self.0[at];
            let is_there = since.last().unwrap_or(held).is_some();
            if is_there && rng.chance(30) {
                self.0[at].1.push(None);
                std::fs::remove_file(Self::path(dir, at))?;
            } else {
                let longest = *rng.pick(&[4_000, 12_000, 200_000]);
                let len = 1 + rng.below(longest);
                self.replace(dir, at, rng.bytes(len), promises)?;
            }
            if rng.chance(60) {
                sync_path(dir)?;
                promises.count()?;
                self.promise();
            }
        }
    }

    fn compare(&mut self, dir: &Path, cycle: usize) {
        for (at, (held, since)) in self.0.iter_mut().enumerate() {
            let seen = std::fs::read(Self::path(dir, at)).ok();
            let len = |held: &Held| held.as_ref().map(Vec::len);
            assert!(
                seen == *held || since.contains(&seen),
                "cycle {cycle}: name {at} has {:?} bytes; {:?} were promised, and since it had {:?}",
                len(&seen),
                len(held),
                since.iter().map(len).collect::<Vec<_>>()
            );
            (*held, *since) = (seen, Vec::new());
        }
        sync_path(dir).expect("synced");
    }
}
