//! Random calls on one file of a mount that move bytes: through the page cache, with O_DIRECT, through a mapping, and
//! by copy_file_range(2) from itself and another file; compared with a copy in memory, and with S3.
//!
//! - One thread and one file: the result of each call is known exactly.
//! - Two descriptors of the file are open, one with O_DIRECT, and each has to see the other's changes.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, OFlags, SeekFrom, copy_file_range, fallocate, fdatasync, fsync, ftruncate, seek};
use rustix::io::Errno;

use super::{BUCKET, mounted};
use crate::support::access::{read, root_client};
use crate::support::mapping::Mapping;
use crate::support::*;

const LARGEST: usize = 1 << 20;
const LONGEST: usize = 96 << 10;
/// The alignment of offsets, lengths and memory for O_DIRECT.
const ALIGN: usize = 4096;
/// The number of operations after which the content is compared through S3.
const ASKED_EVERY: usize = 1_000;

here_and_elsewhere! {
    fn every_way_to_read_and_write_is_exact() {
        need!(root_and_fuse());
        let (seeds, operations) = amount((4, 5_000), (20, 20_000));
        let rng = Rng::new("workloads::exerciser");
        let (mount, server) = mounted();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let client = root_client(&server);
        for seed in 0..seeds {
            let key = format!("file-{seed}");
            let mut run = Exerciser::new(mount.path().join(&key), rng.fork(seed));
            for number in 1..=operations {
                run.step(number);
                if number % ASKED_EVERY == 0 {
                    fsync(&run.file).expect("synced");
                    let seen = runtime.block_on(read(&client, BUCKET, &key));
                    run.expect(&seen, 0, "S3");
                }
            }
        }
    }
}

struct Exerciser {
    path: PathBuf,
    file: File,
    direct: File,
    other: File,
    model: Vec<u8>,
    other_model: Vec<u8>,
    rng: Rng,
    /// The latest operations, shown when one goes wrong.
    recent_steps: Vec<String>,
}

impl Exerciser {
    fn new(path: PathBuf, rng: Rng) -> Self {
        let other = open(&path.with_extension("other"), OFlags::empty());
        let (file, direct) = (open(&path, OFlags::empty()), open(&path, OFlags::DIRECT));
        Self { path, file, direct, other, model: vec![], other_model: vec![], rng, recent_steps: vec![] }
    }

    fn step(&mut self, number: usize) {
        match self.rng.below(100) {
            0..18 => self.write(number),
            18..36 => self.read(number),
            36..46 => self.write_direct(number),
            46..56 => self.read_direct(number),
            56..64 => self.write_mapped(number),
            64..70 => self.read_mapped(number),
            70..75 => self.truncate(number),
            75..81 => self.punch(number),
            81..84 => self.reserve(number),
            84..92 => self.copy(number),
            92..95 => self.look_for_holes(number),
            95..97 => self.reopen(number),
            _ => self.run_step(number, "sync", 0, 0, |it| Ok(fdatasync(&it.file)?)),
        }
        let size = self.file.metadata().expect("attributes").len();
        assert_eq!(size, self.model.len() as u64, "the size after {}", self.history());
    }

    fn write(&mut self, number: usize) {
        let (at, len) = self.range(LARGEST, 1);
        let bytes = self.put(at, len);
        self.run_step(number, "write", at, len, |it| it.file.write_all_at(&bytes, at as u64));
    }

    fn read(&mut self, number: usize) {
        let (at, len) = self.range(self.model.len(), 1);
        let mut seen = vec![0; len];
        self.run_step(number, "read", at, len, |it| it.file.read_exact_at(&mut seen, at as u64));
        self.expect(&seen, at, "read");
    }

    fn write_direct(&mut self, number: usize) {
        let (at, len) = self.range(LARGEST, ALIGN);
        let bytes = self.put(at, len);
        let mut memory = vec![0; len + ALIGN];
        let begin = memory.as_ptr().align_offset(ALIGN);
        memory[begin..begin + len].copy_from_slice(&bytes);
        self.run_step(number, "direct write", at, len, |it| {
            it.direct.write_all_at(&memory[begin..begin + len], at as u64)
        });
    }

    fn read_direct(&mut self, number: usize) {
        let (at, len) = self.range(LARGEST, ALIGN);
        let mut memory = vec![0; len + ALIGN];
        let begin = memory.as_ptr().align_offset(ALIGN);
        let count = self.run_step(number, "direct read", at, len, |it| {
            it.direct.read_at(&mut memory[begin..begin + len], at as u64)
        });
        let left = self.model.len().saturating_sub(at).min(len);
        assert_eq!(count, left, "the bytes of {}", self.history());
        self.expect(&memory[begin..begin + count], at, "direct read");
    }

    fn write_mapped(&mut self, number: usize) {
        let (at, len) = self.range(self.model.len(), 1);
        if len == 0 {
            return;
        }
        let bytes = self.put(at, len);
        let sync = self.rng.chance(50);
        self.run_step(number, "mapped write", at, len, |it| {
            let begin = at / ALIGN * ALIGN;
            let mut mapping = Mapping::new(&it.file, begin as u64, at - begin + len)?;
            mapping.write(at - begin, &bytes);
            if sync { mapping.sync() } else { Ok(()) }
        });
    }

    fn read_mapped(&mut self, number: usize) {
        let (at, len) = self.range(self.model.len(), 1);
        if len == 0 {
            return;
        }
        let begin = at / ALIGN * ALIGN;
        let seen = self.run_step(number, "mapped read", at, len, |it| {
            Ok(Mapping::new(&it.file, begin as u64, at - begin + len)?.read(at - begin, len))
        });
        self.expect(&seen, at, "mapped read");
    }

    fn truncate(&mut self, number: usize) {
        let size = self.rng.below(LARGEST);
        self.model.resize(size, 0);
        self.run_step(number, "truncate", size, 0, |it| Ok(ftruncate(&it.file, size as u64)?));
    }

    fn punch(&mut self, number: usize) {
        let (at, len) = self.range(LARGEST, 1);
        if len == 0 {
            return;
        }
        let end = (at + len).min(self.model.len());
        if at < end {
            self.model[at..end].fill(0);
        }
        let (name, flags) = if self.rng.chance(50) {
            ("punch", FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE)
        } else {
            ("zero", FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE)
        };
        self.run_step(number, name, at, len, |it| Ok(fallocate(&it.file, flags, at as u64, len as u64)?));
    }

    fn reserve(&mut self, number: usize) {
        let (at, len) = self.range(LARGEST, 1);
        if len == 0 {
            return;
        }
        let keep = self.rng.chance(50);
        if !keep && at + len > self.model.len() {
            self.model.resize(at + len, 0);
        }
        let flags = if keep { FallocateFlags::KEEP_SIZE } else { FallocateFlags::empty() };
        self.run_step(number, "fallocate", at, len, |it| Ok(fallocate(&it.file, flags, at as u64, len as u64)?));
    }

    /// Copies a range from the file to the other one, and back to another place.
    fn copy(&mut self, number: usize) {
        let (at, len) = self.range(self.model.len(), 1);
        if len == 0 {
            return;
        }
        let (there, back) = (self.rng.below(LARGEST - len), self.rng.below(LARGEST - len));
        self.run_step(number, "copy out", at, len, |it| copy_all(&it.file, at, &it.other, there, len));
        put(&mut self.other_model, there, &self.model[at..at + len]);
        self.run_step(number, "copy in", back, len, |it| copy_all(&it.other, there, &it.file, back, len));
        put(&mut self.model, back, &self.other_model[there..there + len]);
    }

    /// Asserts that holes are zeros. The file system is free to choose where a hole begins.
    fn look_for_holes(&mut self, number: usize) {
        let size = self.model.len();
        let mut at = self.rng.below(size + 1);
        while at < size {
            let data =
                self.run_step(number, "seek data", at, 0, |it| match seek(&it.file, SeekFrom::Data(at as u64)) {
                    Ok(data) => Ok(usize::try_from(data).expect("small")),
                    Err(Errno::NXIO) => Ok(size),
                    Err(error) => Err(error.into()),
                });
            assert!(self.model[at..data].iter().all(|byte| *byte == 0), "data in a hole: {}", self.history());
            if data == size {
                return;
            }
            let hole =
                self.run_step(number, "seek hole", data, 0, |it| Ok(seek(&it.file, SeekFrom::Hole(data as u64))?));
            at = usize::try_from(hole).expect("small");
            assert!(at > data && at <= size, "data from {data} to {at} of {size}: {}", self.history());
        }
    }

    fn reopen(&mut self, number: usize) {
        self.run_step(number, "reopen", 0, 0, |it| {
            it.direct = open(&it.path, OFlags::DIRECT);
            it.file = open(&it.path, OFlags::empty());
            Ok(())
        });
    }

    /// A random range within `end`, cut off at `end`.
    fn range(&mut self, end: usize, align: usize) -> (usize, usize) {
        let at = self.rng.below(end.max(1)) / align * align;
        let len = self.rng.below(LONGEST).min(end.saturating_sub(at)) / align * align;
        (at, len)
    }

    /// Random bytes, which are put into the model.
    fn put(&mut self, at: usize, len: usize) -> Vec<u8> {
        let bytes = self.rng.bytes(len);
        put(&mut self.model, at, &bytes);
        bytes
    }

    fn run_step<T>(
        &mut self,
        number: usize,
        what: &str,
        at: usize,
        len: usize,
        call: impl FnOnce(&mut Self) -> std::io::Result<T>,
    ) -> T {
        if self.recent_steps.len() == 40 {
            self.recent_steps.remove(0);
        }
        self.recent_steps.push(format!("{number}: {what} {len} at {at}"));
        call(self).unwrap_or_else(|error| panic!("{error}: {}", self.history()))
    }

    fn expect(&self, seen: &[u8], at: usize, what: &str) {
        if seen.is_empty() && what != "S3" {
            return;
        }
        let expected = if what == "S3" { &self.model[..] } else { &self.model[at..at + seen.len()] };
        if seen != expected {
            let first = seen.iter().zip(expected).position(|(one, two)| one != two).unwrap_or_default();
            let (len, wanted) = (seen.len(), expected.len());
            panic!("{what}: {len} bytes at {at}, {wanted} expected, differ at {}: {}", at + first, self.history());
        }
    }

    fn history(&self) -> String {
        let mut text = self.path.display().to_string();
        for line in &self.recent_steps {
            write!(text, "\n  {line}").expect("to a string");
        }
        text
    }
}

fn put(model: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    let end = at + bytes.len();
    if !bytes.is_empty() && model.len() < end {
        model.resize(end, 0);
    }
    if !bytes.is_empty() {
        model[at..end].copy_from_slice(bytes);
    }
}

fn copy_all(from: &File, from_at: usize, to: &File, to_at: usize, len: usize) -> std::io::Result<()> {
    let mut done = 0;
    while done < len {
        let (mut source, mut target) = ((from_at + done) as u64, (to_at + done) as u64);
        let count = copy_file_range(from, Some(&mut source), to, Some(&mut target), len - done)?;
        if count == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        done += count;
    }
    Ok(())
}

fn open(path: &Path, flags: OFlags) -> File {
    let flags = i32::try_from(flags.bits()).expect("a flag of open(2)");
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).custom_flags(flags).open(path);
    file.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
