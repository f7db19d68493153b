//! Programs on a mount whose server is killed: a write(2) that returned is in the store.
//!
//! - Each program has its own folder and one call in progress; after a kill that call may have happened or not.
//! - The kernel keeps written, unsynced data, so nothing here calls fsync.

use std::fs::{File, OpenOptions};
use std::io::{Result, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::support::cli::check_store;
use crate::support::*;

const BLOCK: usize = 4096;
const BLOCKS: usize = 64;
const NAMES: usize = 8;

/// Appends records to a file.
#[derive(Default)]
struct Log {
    acknowledged: Vec<u8>,
    pending: Vec<u8>,
}

/// Overwrites blocks of a file in place. All bytes of a block are equal, and at most one block is unacknowledged.
struct Blocks {
    acknowledged: Vec<u8>,
    pending: Option<(usize, u8)>,
}

/// Creates, replaces by rename and deletes small files.
#[derive(Default)]
struct Names {
    acknowledged: [Option<Vec<u8>>; NAMES],
    pending: Option<(usize, Option<Vec<u8>>)>,
}

/// A program that works in its folder until a call fails, and then compares.
trait Program: Send {
    /// Prepares the folder.
    fn begin(&mut self, dir: &Path) -> Result<()>;
    /// Makes one acknowledged change after another, until the first error.
    fn work(&mut self, dir: &Path, rng: &mut Rng) -> Result<()>;
    /// Compares the folder with what was acknowledged, and continues from there.
    fn compare(&mut self, dir: &Path, cycle: usize);
}

#[test]
fn acknowledged_writes_survive_kills() {
    need!(root_and_fuse());
    let mut rng = Rng::new("kill::mount");
    let mut server = Server::start();
    make_bucket(&server, "load", &[]);
    let blocks = Blocks { acknowledged: vec![0; BLOCKS], pending: None };
    let mut programs: [(&str, Box<dyn Program>); 3] =
        [("log", Box::<Log>::default()), ("blocks", Box::new(blocks)), ("names", Box::<Names>::default())];
    let mut mount = Mounted::new(&server, "load", "m");
    for (name, program) in &mut programs {
        let dir = mount.path().join(*name);
        std::fs::create_dir(&dir).and_then(|()| program.begin(&dir)).expect("a folder for a program");
    }
    let cycles = amount(20, 300);
    for cycle in 0..cycles {
        let root = mount.path().to_owned();
        drop(mount);
        let pause = Duration::from_millis(100 + rng.below(400) as u64);
        run_until_kill(&mut server, &mut programs, &root, &rng.fork(cycle as u64 + 1), pause);
        if cycle % 5 == 4 {
            check_store(&server);
        }
        server.restart();
        mount = Mounted::new(&server, "load", "m");
        for (name, program) in &mut programs {
            program.compare(&mount.path().join(*name), cycle);
        }
        progress("kill -9 under programs on a mount", cycle + 1, cycles);
    }
    drop(mount);
    assert_eq!(server.terminate().code(), Some(0));
    check_store(&server);
}

fn run_until_kill(
    server: &mut Server,
    programs: &mut [(&str, Box<dyn Program>); 3],
    root: &Path,
    rng: &Rng,
    pause: Duration,
) {
    std::thread::scope(|threads| {
        let running: Vec<_> = (1..)
            .zip(programs.iter_mut())
            .map(|(number, (name, program))| {
                let (dir, mut rng) = (root.join(*name), rng.fork(number));
                threads.spawn(move || program.work(&dir, &mut rng).expect_err("it ends with the server"))
            })
            .collect();
        std::thread::sleep(pause);
        for program in &running {
            assert!(!program.is_finished(), "a program failed while the server was there");
        }
        server.kill9();
        for program in running {
            program.join().expect("a program ends because a call failed");
        }
    });
}

impl Program for Log {
    fn begin(&mut self, dir: &Path) -> Result<()> {
        File::create(dir.join("log")).map(drop)
    }

    fn work(&mut self, dir: &Path, rng: &mut Rng) -> Result<()> {
        let mut file = OpenOptions::new().append(true).open(dir.join("log"))?;
        loop {
            let len = 1 + rng.below(3_000);
            self.pending = rng.bytes(len);
            while !self.pending.is_empty() {
                // The kernel sends a write that begins within a page in two requests; the kill may come after the
                // first.
                let written = file.write(&self.pending)?;
                self.acknowledged.extend(self.pending.drain(..written));
            }
        }
    }

    fn compare(&mut self, dir: &Path, cycle: usize) {
        let seen = std::fs::read(dir.join("log")).expect("the log is read");
        let rest = seen.strip_prefix(self.acknowledged.as_slice());
        let rest = rest.unwrap_or_else(|| panic!("cycle {cycle}: {} bytes, not the acknowledged", seen.len()));
        assert!(
            self.pending.starts_with(rest),
            "cycle {cycle}: the bytes after the acknowledged ones were never written"
        );
        (self.acknowledged, self.pending) = (seen, Vec::new());
    }
}

impl Program for Blocks {
    fn begin(&mut self, dir: &Path) -> Result<()> {
        std::fs::write(dir.join("blocks"), vec![0; BLOCK * BLOCKS])
    }

    fn work(&mut self, dir: &Path, rng: &mut Rng) -> Result<()> {
        let file = OpenOptions::new().write(true).open(dir.join("blocks"))?;
        loop {
            let (at, byte) = (rng.below(BLOCKS), rng.roll().to_le_bytes()[0]);
            self.pending = Some((at, byte));
            file.write_all_at(&[byte; BLOCK], (at * BLOCK) as u64)?;
            self.acknowledged[at] = byte;
            self.pending = None;
        }
    }

    fn compare(&mut self, dir: &Path, cycle: usize) {
        let seen = std::fs::read(dir.join("blocks")).expect("the blocks are read");
        assert_eq!(seen.len(), BLOCK * BLOCKS, "cycle {cycle}");
        for (at, block) in seen.chunks(BLOCK).enumerate() {
            let is = |byte: u8| block.iter().all(|seen| *seen == byte);
            match self.pending {
                Some((pending, byte)) if pending == at && is(byte) => self.acknowledged[at] = byte,
                _ => assert!(is(self.acknowledged[at]), "cycle {cycle}: block {at} is not what was written last"),
            }
        }
        self.pending = None;
    }
}

impl Names {
    fn path(dir: &Path, at: usize) -> PathBuf {
        dir.join(format!("name-{at}"))
    }

    fn change(dir: &Path, at: usize, content: Option<&Vec<u8>>) -> Result<()> {
        match content {
            Some(content) => {
                std::fs::write(dir.join("new"), content)?;
                // Clippy permits std::fs::rename only in objstore::disk.
                Ok(rustix::fs::rename(dir.join("new"), Self::path(dir, at))?)
            }
            None => std::fs::remove_file(Self::path(dir, at)),
        }
    }
}

impl Program for Names {
    fn begin(&mut self, _: &Path) -> Result<()> {
        Ok(())
    }

    fn work(&mut self, dir: &Path, rng: &mut Rng) -> Result<()> {
        loop {
            let at = rng.below(NAMES);
            let content = (self.acknowledged[at].is_none() || rng.chance(60)).then(|| {
                // Lengths below and above the limit of inline content.
                let len = rng.below(12_000);
                rng.bytes(len)
            });
            self.pending = Some((at, content));
            let content = self.pending.as_ref().and_then(|(_, content)| content.as_ref());
            Self::change(dir, at, content)?;
            self.acknowledged[at] = self.pending.take().and_then(|(_, content)| content);
        }
    }

    fn compare(&mut self, dir: &Path, cycle: usize) {
        for at in 0..NAMES {
            let seen = std::fs::read(Self::path(dir, at)).ok();
            match self.pending.take_if(|(pending, content)| *pending == at && *content == seen) {
                Some((_, content)) => self.acknowledged[at] = content,
                None => assert!(seen == self.acknowledged[at], "cycle {cycle}: name {at} is not what was made last"),
            }
        }
        self.pending = None;
    }
}
