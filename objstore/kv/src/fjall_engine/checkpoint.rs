//! A physical checkpoint of fjall, tried out: hard links of the tables of one version, made while others commit. No
//! product code makes checkpoints yet; decision 0115 says what they are to be.
//!
//! - fjall removes a table's file when the last version that has it is dropped, so a version that is held keeps its files.
//! - fjall writes and syncs the list of a version before anyone sees the version, and may remove the list of an older
//!   one: then the next version is tried.

#![expect(clippy::print_stdout, reason = "the figures are for the decision")]

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use fjall::{AbstractTree as _, Keyspace};
use xxhash_rust::xxh3::xxh3_128;

use super::store::Store;
use super::tail::Mark;
use super::{Options, open, start};
use crate::backend::{BATCH_KEY, Backend as _, decode_batch, encode_batch};
use crate::engine::Durability;

/// Links the tables of the present version, and writes what else a folder needs; returns how many tables it has.
fn link(folder: &Path, keyspace: &Keyspace, target: &Path) -> usize {
    let tree = Path::new("keyspaces").join(keyspace.id().to_string());
    std::fs::create_dir_all(target.join(&tree).join("tables")).unwrap();
    let (version, list) = loop {
        let version = keyspace.tree.current_version();
        if let Ok(list) = std::fs::read(folder.join(&tree).join(format!("v{}", version.id()))) {
            break (version, list);
        }
    };
    for table in version.iter_tables() {
        let name = tree.join("tables").join(table.id().to_string());
        std::fs::hard_link(folder.join(&name), target.join(&name)).unwrap();
    }
    let current = [&version.id().to_le_bytes()[..], &xxh3_128(&list).to_le_bytes(), &[0]].concat();
    std::fs::write(target.join(&tree).join(format!("v{}", version.id())), list).unwrap();
    std::fs::write(target.join(&tree).join("current"), current).unwrap();
    // The keyspace of names does not change after the first start.
    let names = Path::new("keyspaces/0");
    std::fs::create_dir_all(target.join(names).join("tables")).unwrap();
    for part in [names.to_owned(), names.join("tables"), tree] {
        for entry in std::fs::read_dir(folder.join(&part)).unwrap().map(Result::unwrap) {
            let (name, to) = (entry.file_name(), target.join(&part).join(entry.file_name()));
            let is_list = name.to_string_lossy().starts_with('v') && part != names;
            if entry.file_type().unwrap().is_file() && !is_list && !to.exists() {
                std::fs::copy(entry.path(), to).unwrap();
            }
        }
    }
    std::fs::copy(folder.join("version"), target.join("version")).unwrap();
    version.iter_tables().count()
}

#[test]
fn linked_tables_open_as_the_store_at_one_of_its_batches() {
    let folder = tempfile::tempdir().unwrap();
    let opened = start(folder.path(), Options::default(), None).unwrap();
    let keyspace = opened.1.clone();
    let store = Store::open(opened, folder.path(), (Mark::default(), None), None).unwrap();
    let (enough, slowest) = (AtomicBool::new(false), std::sync::Mutex::new(Duration::ZERO));
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for number in 1_u64.. {
                let begun = Instant::now();
                let own = (Bytes::from_static(BATCH_KEY), Some(encode_batch(number)));
                // Keys in scattered order, so that tables overlap and are compacted.
                let key = number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
                let key = Bytes::from([&b"k"[..], &key].concat());
                store.commit([own, (key, Some(Bytes::from(vec![7; 4000])))].into(), Durability::Buffered).unwrap();
                let mut slowest = slowest.lock().unwrap();
                *slowest = begun.elapsed().max(*slowest);
                if enough.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let mut reached = 0;
        for round in 0..4 {
            while decode_batch(store.snapshot().get(BATCH_KEY).unwrap().as_deref()).unwrap() < reached + 8000 {
                std::thread::sleep(Duration::from_millis(5));
            }
            let target = tempfile::tempdir_in(folder.path().parent().unwrap()).unwrap();
            *slowest.lock().unwrap() = Duration::ZERO;
            let begun = Instant::now();
            let tables = link(folder.path(), &keyspace, target.path());
            let (took, slow) = (begun.elapsed(), *slowest.lock().unwrap());
            let copy = open(target.path(), Options::default()).unwrap();
            let number = decode_batch(copy.snapshot().get(BATCH_KEY).unwrap().as_deref()).unwrap();
            let pairs = copy.snapshot().scan(b"k", b"l", usize::MAX).unwrap().len();
            println!(
                "{round}: {tables} tables up to batch {number} linked in {took:?}; slowest commit meanwhile {slow:?}"
            );
            assert!(number > reached && pairs as u64 == number, "{pairs} records of {number} batches");
            reached = number;
        }
        enough.store(true, Ordering::Relaxed);
    });
}
