//! Many names looked up at once, compared with looking them up one by one.

use std::cell::Cell;

use super::random::Choices;
use super::test_store::{self, TestStore};
use crate::error::{Error, Posix, Result};
use crate::meta::{Pair, Read, Value};
use crate::tree::Tree;
use crate::volume::{Attr, Kind, Make, Volume};

fn compare(volume: &Volume, names: &[&str]) {
    let one = |name: &&str| volume.lookup(volume.root(), name);
    let by_one: Vec<_> = names.iter().map(one).collect();
    let together = volume.lookup_all(volume.root(), names);
    assert_eq!(together.len(), names.len());
    for ((name, one), all) in names.iter().zip(by_one).zip(together) {
        match (one, all) {
            (Ok(one), Ok(all)) => {
                assert_eq!(one, all, "{name:?}");
                volume.forget(one.ino, 2);
            }
            (Err(Error::Posix(Posix::NotFound)), Err(Error::Posix(Posix::NotFound))) => {}
            (one, all) => panic!("{name:?}: {:?} {:?}", one.map(|attr: Attr| attr.ino), all.map(|attr| attr.ino)),
        }
    }
}

/// Compares lookups of many names with the entries of a listing.
fn compare_listed(volume: &Volume) {
    let entries = volume.read_dir(volume.root()).unwrap();
    for (entry, looked) in entries.iter().zip(volume.lookup_listed(volume.root(), &entries)) {
        let (one, looked) = (volume.lookup(volume.root(), &entry.name).unwrap(), looked.unwrap());
        assert_eq!(one, looked, "{:?}", entry.name);
        volume.forget(one.ino, 2);
    }
}

#[test]
fn a_name_that_was_replaced_since_it_was_listed_is_looked_for_again() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("replaced");
    let volume = test.mount(&bucket);
    let names = ["gone", "kept", "replaced"];
    names.iter().for_each(|name| drop(test.put(&bucket, name, b"first")));
    let entries = volume.read_dir(volume.root()).unwrap();
    test.delete(&bucket, "gone").unwrap();
    test.put(&bucket, "replaced", b"another").unwrap();
    test.collect();
    let looked = volume.lookup_listed(volume.root(), &entries);
    assert!(matches!(looked[0], Err(Error::Posix(Posix::NotFound))));
    let sizes: Vec<u64> = looked.iter().skip(1).map(|looked| looked.as_ref().unwrap().size).collect();
    assert_eq!(sizes, [5, 7]);
    looked.into_iter().flatten().for_each(|attr| volume.forget(attr.ino, 1));
    drop(volume);
    test.audit_collected();
}

#[test]
fn names_looked_up_together_are_what_they_are_one_by_one() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("many");
    let volume = test.mount(&bucket);
    let mut choices = Choices::new();
    let names: Vec<String> = (0..120).map(|at| format!("{}{at:03}", ["n", "n.", "n/", "n0"][at % 4])).collect();
    let names: Vec<String> = names.into_iter().map(|name| name.replace('/', "-")).collect();
    for round in 0..30 {
        for _ in 0..20 {
            let name = choices.of(&names).clone();
            let root = volume.root();
            match choices.below(7) {
                0 => drop(test.put(&bucket, &name, &[1; 100])),
                1 => drop(test.put(&bucket, &format!("{name}/below"), b"x")),
                2 => drop(test_store::make(&volume, root, &name, Make::Directory)),
                3 => drop(test_store::make_file(&volume, root, &name)),
                4 => drop(test.delete(&bucket, &name)),
                5 => {
                    if let Ok(ino) = test_store::find(&volume, &name) {
                        let _ = volume.write(ino, 0, &[2; 9000], false);
                    }
                }
                _ => {
                    if let (Ok(ino), other) = (test_store::find(&volume, &name), choices.of(&names).clone())
                        && let Ok(linked) = volume.link(ino, root, &other)
                    {
                        volume.forget(linked.ino, 1);
                    }
                }
            }
        }
        let listed = volume.read_dir(volume.root()).unwrap();
        let listed: Vec<&str> = listed.iter().map(|entry| entry.name.as_str()).collect();
        compare(&volume, &listed);
        compare_listed(&volume);
        // Names of before: of some nothing is left.
        let mut some: Vec<&str> = names.iter().map(String::as_str).filter(|_| choices.once_in(3)).collect();
        some.sort_unstable();
        compare(&volume, &some);
        compare(&volume, &some[..some.len().min(1 + round % 5)]);
    }
    compare(&volume, &[]);
    drop(volume);
    test.audit_collected();
}

/// Counts the records that are read.
struct Counting<'a>(&'a dyn Read, Cell<usize>);

impl Counting<'_> {
    fn count<T>(&self, found: Result<T>, records: impl Fn(&T) -> usize) -> Result<T> {
        found.inspect(|found| self.1.set(self.1.get() + records(found)))
    }
}

impl Read for Counting<'_> {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.count(self.0.get(key), |_| 1)
    }

    fn scan(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Pair>> {
        self.count(self.0.scan(from, to, limit), Vec::len)
    }

    fn scan_back(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Pair>> {
        self.count(self.0.scan_back(from, to, limit), Vec::len)
    }
}

#[test]
fn names_far_apart_are_found_without_reading_all_between() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("far");
    let volume = test.mount(&bucket);
    for number in 0..3000 {
        test_store::make_file(&volume, volume.root(), &format!("{number:04}")).unwrap();
    }
    // A directory sorts behind the file of its name; here both are there, and the mount shows the directory.
    test.put(&bucket, "2999/below", b"x").unwrap();
    let names = ["0000", "1500", "2500x", "2999"];
    compare(&volume, &names);
    let snapshot = test.store.core.meta.snapshot();
    let ancestry = test.store.core.readable(&*snapshot, &bucket).unwrap();
    let counting = Counting(&*snapshot, Cell::new(0));
    let found = Tree { read: &counting, ancestry: &ancestry }.entries_of(volume.root(), &names).unwrap();
    assert_eq!(found.iter().map(Option::is_some).collect::<Vec<_>>(), [true, true, false, true]);
    assert!(counting.1.get() < 200, "{} records for {} names", counting.1.get(), names.len());
}

#[test]
fn names_of_what_is_no_directory_are_refused_each() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("none");
    let volume = test.mount(&bucket);
    let file = test_store::make_file(&volume, volume.root(), "file").unwrap();
    let looked = volume.lookup_all(file, &["a", "b"]);
    assert!(looked.iter().all(|looked| matches!(looked, Err(Error::Posix(Posix::NotDirectory)))) && looked.len() == 2);
    assert_eq!(volume.lookup(volume.root(), "file").unwrap().kind, Kind::File);
    volume.forget(file, 1);
}
