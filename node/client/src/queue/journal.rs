//! The journal: changes that were answered, in a file that outlives the process.
//!
//! - A change is in the file before it is answered, so the death of the process at any moment loses none. The file is not
//!   synced: the death of the machine ends the mount, and loses what no program has synced, as on a local disk.
//! - What the store has made is marked before anything relies on it: a next process sends only what is not marked.
//! - The file begins from its start again once everything in it is made and the kernel has every answer. The entries of before have another
//!   generation then, and are not read.
//! - It has a bound. A change that does not fit is not answered here.
//!
//! ```text
//! 0  magic | generation | number of the last change that is made     each 8 bytes, little-endian
//! 4096  entries, each: length of head, of reply, of data (u32) | hash (u64) | head | reply | data
//! ```
//!
//! The hash covers generation, lengths and bytes. The first entry whose hash is another ends the file: it is of an earlier
//! generation, or the process died while it was written, before it was answered.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use xxhash_rust::xxh3::Xxh3;

const MAGIC: u64 = 0x3130_6c6e_6a70_6d61;
const ENTRIES_AT: u64 = 4096;
/// The largest file.
const BYTES_MAX: u64 = 64 << 20;
/// Beyond this length it begins again when it can.
const BYTES_USUAL: u64 = 4 << 20;
const LENGTHS: usize = 12;
const PREFIX: usize = LENGTHS + 8;
const MADE_AT: u64 = 16;

/// A change in the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Its number, its time and its call.
    pub head: Bytes,
    /// What the kernel was answered.
    pub reply: Bytes,
    /// The bytes that it writes.
    pub data: Bytes,
}

/// The journal of one session.
pub(super) struct Journal {
    file: File,
    path: PathBuf,
    generation: u64,
    /// Where the next entry begins.
    end: u64,
}

/// What a process finds.
#[derive(Debug, Default)]
pub(super) struct Left {
    /// The number of the last change that is made.
    pub made: u64,
    /// All changes of the file, also those that are made: the kernel may lack their answers.
    pub entries: Vec<Entry>,
}

impl Journal {
    /// Opens the journal at `path`, or begins it.
    pub(super) fn open(path: &Path) -> io::Result<(Self, Left)> {
        if let Some(folder) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        let mut journal = Self { file, path: path.to_owned(), generation: 1, end: ENTRIES_AT };
        let mut header = [0; 24];
        let is_known = journal.file.read_exact_at(&mut header, 0).is_ok() && number(&header, 0) == MAGIC;
        if !is_known {
            journal.begin(0)?;
            return Ok((journal, Left::default()));
        }
        journal.generation = number(&header, 8);
        let mut left = Left { made: number(&header, 16), entries: Vec::new() };
        while let Some(entry) = journal.read()? {
            left.entries.push(entry);
        }
        Ok((journal, left))
    }

    /// Adds a change; whether there was room.
    pub(super) fn add(&mut self, entry: &Entry) -> io::Result<bool> {
        let bytes = entry.encode(self.generation)?;
        if self.end + bytes.len() as u64 > BYTES_MAX {
            return Ok(false);
        }
        self.file.write_all_at(&bytes, self.end)?;
        self.end += bytes.len() as u64;
        Ok(true)
    }

    /// The store has made all changes up to this number.
    pub(super) fn made(&self, number: u64) -> io::Result<()> {
        self.file.write_all_at(&number.to_le_bytes(), MADE_AT)
    }

    /// Whether the file is so long that it is to begin again.
    pub(super) fn is_long(&self) -> bool {
        self.end > BYTES_USUAL
    }

    /// Begins the file again: everything in it is made, up to this number, and answered.
    pub(super) fn begin(&mut self, made: u64) -> io::Result<()> {
        self.generation += 1;
        let header: Vec<u8> = [MAGIC, self.generation, made].iter().flat_map(|value| value.to_le_bytes()).collect();
        self.file.write_all_at(&header, 0)?;
        self.end = ENTRIES_AT;
        Ok(())
    }

    /// The session has ended.
    pub(super) fn remove(&self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::debug!(%error, file = %self.path.display(), "the journal of an ended session stays");
        }
    }

    fn read(&mut self) -> io::Result<Option<Entry>> {
        let mut prefix = [0; PREFIX];
        if !is_whole(self.file.read_exact_at(&mut prefix, self.end))? {
            return Ok(None);
        }
        let lengths = [0, 4, 8].map(|at| length(&prefix, at));
        let total: u64 = lengths.iter().map(|length| *length as u64).sum();
        if self.end + PREFIX as u64 + total > BYTES_MAX {
            return Ok(None);
        }
        let mut bytes = vec![0; total as usize];
        if !is_whole(self.file.read_exact_at(&mut bytes, self.end + PREFIX as u64))? {
            return Ok(None);
        }
        if hash(self.generation, &prefix[..LENGTHS], &bytes) != number(&prefix, LENGTHS) {
            return Ok(None);
        }
        self.end += PREFIX as u64 + total;
        let mut bytes = Bytes::from(bytes);
        let (head, reply) = (bytes.split_to(lengths[0]), bytes.split_to(lengths[1]));
        Ok(Some(Entry { head, reply, data: bytes }))
    }
}

impl Entry {
    fn encode(&self, generation: u64) -> io::Result<Vec<u8>> {
        let parts = [&self.head, &self.reply, &self.data];
        let mut bytes = Vec::with_capacity(PREFIX + parts.iter().map(|part| part.len()).sum::<usize>());
        for part in parts {
            let length = u32::try_from(part.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
            bytes.extend_from_slice(&length.to_le_bytes());
        }
        bytes.extend_from_slice(&[0; 8]);
        parts.iter().for_each(|part| bytes.extend_from_slice(part));
        let hash = hash(generation, &bytes[..LENGTHS], &bytes[PREFIX..]);
        bytes[LENGTHS..PREFIX].copy_from_slice(&hash.to_le_bytes());
        Ok(bytes)
    }
}

fn hash(generation: u64, lengths: &[u8], bytes: &[u8]) -> u64 {
    let mut hash = Xxh3::new();
    hash.update(&generation.to_le_bytes());
    hash.update(lengths);
    hash.update(bytes);
    hash.digest()
}

fn number(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

fn length(bytes: &[u8], at: usize) -> usize {
    bytes[at..at + 4].iter().rev().fold(0, |value, byte| value << 8 | usize::from(*byte))
}

/// Whether a read was within the file.
fn is_whole(read: io::Result<()>) -> io::Result<bool> {
    match read {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: u8) -> Entry {
        Entry { head: vec![number; 9].into(), reply: vec![number; 2].into(), data: vec![number; 4000].into() }
    }

    #[test]
    fn the_next_process_finds_what_was_added_and_what_is_made() {
        let folder = std::env::temp_dir().join(format!("journal-{}-a", std::process::id()));
        let path = folder.join("session");
        let (mut journal, left) = Journal::open(&path).expect("a file");
        assert!(left.entries.is_empty());
        for number in 1..4 {
            assert!(journal.add(&entry(number)).expect("written"));
        }
        journal.made(2).expect("written");
        let (mut journal, left) = Journal::open(&path).expect("the file");
        assert_eq!((left.made, left.entries), (2, (1..4).map(entry).collect()));
        journal.begin(3).expect("begun");
        assert!(journal.add(&entry(9)).expect("written"));
        let (journal, left) = Journal::open(&path).expect("the file");
        assert_eq!((left.made, left.entries), (3, vec![entry(9)]), "nothing of before");
        journal.remove();
        let _ = std::fs::remove_dir(folder);
    }

    #[test]
    fn a_change_that_was_not_written_completely_is_none_and_the_file_has_a_bound() {
        let folder = std::env::temp_dir().join(format!("journal-{}-b", std::process::id()));
        let path = folder.join("session");
        let (mut journal, _) = Journal::open(&path).expect("a file");
        assert!(journal.add(&entry(1)).expect("written") && journal.add(&entry(2)).expect("written"));
        let length = std::fs::metadata(&path).expect("the file").len();
        for cut in [length - 1, length - 4000, length - 4020] {
            let file = OpenOptions::new().write(true).open(&path).expect("the file");
            file.set_len(cut).expect("cut");
            assert_eq!(Journal::open(&path).expect("the file").1.entries, [entry(1)]);
        }
        let file = OpenOptions::new().write(true).open(&path).expect("the file");
        file.write_all_at(b"x", ENTRIES_AT + 40).expect("damaged");
        assert!(Journal::open(&path).expect("the file").1.entries.is_empty());
        let large = Entry { data: vec![0; BYTES_MAX as usize].into(), ..entry(1) };
        assert!(!journal.add(&large).expect("no room") && !journal.is_long());
        journal.remove();
        let _ = std::fs::remove_dir(folder);
    }
}
