//! Every bit of small files, flipped: opening or reading refuses, or finds exactly what was written.

use std::path::Path;

use objstore_base::error::{Error, Result};

use super::batches::Scan;
use super::{Options, open, start};
use crate::Durability::{Buffered, Synced};
use crate::{Meta, Pair};

const BATCHES: u8 = 6;
/// The length of a batch's head, which contains fjall's number.
const HEAD: usize = 13;

/// A closed store and its expected content.
struct Kept {
    folder: tempfile::TempDir,
    batches: Vec<Vec<u8>>,
    content: Vec<Pair>,
}

fn read(folder: &Path) -> Result<Vec<Pair>> {
    let meta = Meta::new(open(folder, Options::default())?);
    meta.snapshot().scan(b"", b"\xff", usize::MAX)
}

impl Kept {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let meta = Meta::new(open(folder.path(), Options::default()).unwrap());
        for number in 0..BATCHES {
            let write = meta.write(if number % 2 == 0 { Buffered } else { Synced }, move |txn| {
                txn.put(vec![b'k', number], vec![number + 1; 20]);
                txn.put(b"same".to_vec(), vec![number + 1; 3]);
                if number > 0 {
                    txn.delete(vec![b'k', number - 1]);
                }
                Ok(())
            });
            write.wait().unwrap();
        }
        drop(meta);
        let content = read(folder.path()).unwrap();
        let journal = std::fs::read(folder.path().join("0.jnl")).unwrap();
        let (mut scan, mut begin, mut batches) = (Scan::new(&journal[..]), 0, Vec::new());
        while scan.batch().unwrap().is_some() {
            batches.push(journal[begin..scan.at() as usize].to_vec());
            begin = scan.at() as usize;
        }
        assert_eq!(batches.len(), usize::from(BATCHES));
        Self { folder, batches, content }
    }

    /// Replaces the journal by these batches, `in_file` of them in each file, without a watermark, as after a power
    /// cut.
    fn put(&self, folder: &Path, batches: &[Vec<u8>], in_file: usize) {
        for (number, batches) in batches.chunks(in_file).enumerate() {
            std::fs::write(folder.join(format!("{number}.jnl")), batches.concat()).unwrap();
        }
        drop(std::fs::remove_file(folder.join("synced")));
    }

    /// Flips bits, each in its own copy of a store with these batches; returns how many copies were refused, and how
    /// many read correctly.
    fn flip(&self, batches: &[Vec<u8>], in_file: usize, flips: impl Fn(usize, usize) -> bool) -> (usize, usize) {
        let (mut refused, mut same, mut wrong) = (0, 0, Vec::new());
        for (at, batch) in batches.iter().enumerate() {
            for bit in (0..batch.len() * 8).filter(|bit| flips(at, *bit)) {
                let folder = tempfile::tempdir().unwrap();
                copy(self.folder.path(), folder.path());
                let mut batches = batches.to_vec();
                batches[at][bit / 8] ^= 1 << (bit % 8);
                self.put(folder.path(), &batches, in_file);
                match read(folder.path()) {
                    Err(Error::Corrupt { .. }) => refused += 1,
                    Ok(found) if found == self.content => same += 1,
                    found => wrong.push(format!("bit {bit} of batch {at}: {found:?}")),
                }
            }
        }
        assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
        (refused, same)
    }
}

/// Makes tables of everything in the store.
fn flush(folder: &Path) {
    let (_database, keyspace) = start(folder, Options::default(), None).unwrap();
    keyspace.rotate_memtable_and_wait().unwrap();
}

/// Copies a folder without its journal.
fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let (entry, to) = (entry.as_ref().unwrap(), to.join(entry.as_ref().unwrap().file_name()));
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir(&to).unwrap();
            copy(&entry.path(), &to);
        } else if entry.path().extension().is_none_or(|extension| extension != "jnl") {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[test]
fn no_flipped_bit_of_a_journal_is_believed() {
    let kept = Kept::new();
    let flips = |at, bit: usize| at == 5 || at == 3 && (bit / 8 < HEAD || bit.is_multiple_of(9));
    let (refused, same) = kept.flip(&kept.batches, 99, flips);
    assert!(refused > 1000 && same < 80, "{refused} and {same}");
}

#[test]
fn no_flipped_bit_of_one_of_several_journal_files_is_believed() {
    let kept = Kept::new();
    let flips = |at, bit: usize| at < 4 && (bit / 8 < HEAD || bit.is_multiple_of(43));
    let (refused, same) = kept.flip(&kept.batches, 2, flips);
    assert!(refused > 400 && same < 40, "{refused} and {same}");
}

#[test]
fn the_journal_joins_what_tables_have() {
    let kept = Kept::new();
    let folder = kept.folder.path();
    let (tables, rest) = kept.batches.split_at(3);
    kept.put(folder, tables, 99);
    flush(folder);
    for from in 0..=3 {
        kept.put(folder, &kept.batches[from..], 99);
        assert_eq!(read(folder).unwrap(), kept.content, "the first of them may be in tables");
    }
    kept.put(folder, &rest[1..], 99);
    assert!(matches!(read(folder), Err(Error::Corrupt { .. })), "one is missing");
    let (refused, same) = kept.flip(rest, 99, |_, bit| bit / 8 < HEAD);
    assert!(refused > 200 && same < 70, "{refused} and {same}");
}

#[test]
fn a_journal_file_that_is_missing_is_missed_at_each_opening() {
    let kept = Kept::new();
    let folder = kept.folder.path();
    for missing in [0, 1] {
        kept.put(folder, &kept.batches, 2);
        std::fs::remove_file(folder.join(format!("{missing}.jnl"))).unwrap();
        for _ in 0..3 {
            assert!(matches!(read(folder), Err(Error::Corrupt { .. })), "{missing}");
        }
    }
    kept.put(folder, &kept.batches, 2);
    assert_eq!(read(folder).unwrap(), kept.content, "nothing was changed");
}

/// A write failed in part, and fjall began the next file nevertheless.
#[test]
fn a_torn_batch_may_have_an_empty_file_behind_it() {
    let kept = Kept::new();
    let folder = kept.folder.path();
    let (whole, last) = kept.batches.split_at(5);
    let torn = &last[0][..last[0].len() / 2];
    kept.put(folder, &[whole.concat(), torn.to_vec()], 2);
    std::fs::File::create(folder.join("1.jnl")).unwrap().set_len(64 << 20).unwrap();
    for _ in 0..2 {
        assert_eq!(read(folder).unwrap().len(), kept.content.len());
    }
    kept.put(folder, &[[whole.concat(), torn.to_vec()].concat(), last[0].clone()], 1);
    assert!(matches!(read(folder), Err(Error::Corrupt { .. })), "something follows");
}

/// After a power cut the journal may end before the tables do, and then continues after them.
#[test]
fn the_journal_goes_on_behind_tables_that_were_ahead_of_it() {
    let kept = Kept::new();
    let folder = kept.folder.path();
    flush(folder);
    kept.put(folder, &kept.batches[..3], 99);
    for number in 0..3 {
        let meta = Meta::new(open(folder, Options::default()).unwrap());
        assert_eq!(meta.snapshot().scan(b"k", b"l", usize::MAX).unwrap().len(), 1 + usize::from(number));
        let write = meta.write(Synced, move |txn| {
            txn.put(vec![b'k', BATCHES + number], vec![7; 20]);
            Ok(())
        });
        write.wait().unwrap();
        drop(meta);
        // The watermark is removed too, as after a power cut that it did not survive.
        drop(std::fs::remove_file(folder.join("synced")));
    }
    let journal = std::fs::read(folder.join("0.jnl")).unwrap();
    let torn = journal.iter().rposition(|byte| *byte != 0).unwrap();
    std::fs::write(folder.join("0.jnl"), &journal[..torn - 9]).unwrap();
    assert_eq!(read(folder).unwrap().len(), kept.content.len() + 2, "only the last batch is torn");
}

#[test]
fn no_flipped_bit_of_a_list_of_tables_is_believed() {
    let kept = Kept::new();
    let folder = kept.folder.path();
    flush(folder);
    kept.put(folder, &[], 1);
    let mut lists = Vec::new();
    for keyspace in ["keyspaces/0", "keyspaces/1"] {
        let current = folder.join(keyspace).join("current");
        let number = u64::from_le_bytes(std::fs::read(&current).unwrap()[..8].try_into().unwrap());
        lists.extend([current, folder.join(keyspace).join(format!("v{number}"))]);
    }
    for list in lists {
        let bytes = std::fs::read(&list).unwrap();
        for at in (0..bytes.len()).step_by(7).chain([0, bytes.len() - 1]) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            std::fs::write(&list, flipped).unwrap();
            assert!(matches!(read(folder), Err(Error::Corrupt { .. })), "byte {at} of {}", list.display());
        }
        std::fs::remove_file(&list).unwrap();
        assert!(matches!(read(folder), Err(Error::Corrupt { .. })), "without {}", list.display());
        std::fs::write(&list, bytes).unwrap();
    }
    assert_eq!(read(folder).unwrap(), kept.content, "no table was removed");
}
