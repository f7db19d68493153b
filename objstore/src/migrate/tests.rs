//! Moves there and back, with a log in memory and a bucket in memory.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use objstore_testing::s3::{BUCKET, FakeS3, Fault};
use tempfile::TempDir;

use super::{Options, Report, move_in, move_out};
use crate::bucket::{Keys, Location, Patience};
use crate::check::{self, Depth, Elsewhere};
use crate::clock::SystemRandom;
use crate::error::{Error, Result};
use crate::meta::log::Log;
use crate::meta::log::memory::Memory;
use crate::remote::ContentBucket;
use crate::standby::{Ownership, Standby};
use crate::store::{Source, Store};
use crate::tests::test_store::{TestStore, find, make_file, name, read_file};
use crate::volume::{SetAttr, VolumeOptions};

/// Where a store is moved to.
struct There {
    s3: FakeS3,
    log: Arc<dyn Log>,
    scratch: TempDir,
}

impl There {
    fn new() -> Self {
        Self { s3: FakeS3::start(), log: Arc::new(Memory::new()), scratch: tempfile::tempdir().unwrap() }
    }

    fn content(&self) -> ContentBucket {
        let location = Location::parse(&format!("s3://{BUCKET}/store")).unwrap();
        let keys = Some(Keys { id: "id".into(), secret: "secret".into() });
        let mut bucket = crate::bucket::Options { keys, ..crate::bucket::Options::new(location) };
        bucket.endpoint = Some(self.s3.endpoint());
        bucket.patience = Patience { call: Duration::from_secs(5), attempts: 3, ..Patience::default() };
        ContentBucket { bucket, cache_bytes: 1 << 20 }
    }

    fn options<'a>(&self, dir: &Path, scratch: &Path) -> Options<'a> {
        Options {
            dir: dir.to_owned(),
            log: self.log.clone(),
            content: self.content(),
            scratch: scratch.to_owned(),
            master_key: None,
            host: "here".into(),
            random: Arc::new(SystemRandom),
            progress: &|_| {},
        }
    }

    fn out(&self, dir: &Path) -> Result<Report> {
        let scratch = tempfile::tempdir_in(self.scratch.path()).unwrap();
        move_out(&self.options(dir, scratch.path()))
    }

    fn back(&self, dir: &Path) -> Result<Report> {
        move_in(&self.options(dir, Path::new("")))
    }

    /// Opens the store as a server does, with a new data folder.
    fn serve(&self, dir: &Path) -> Result<Store> {
        let options = || {
            let mut options = crate::Options::new(dir);
            options.bucket = Some(self.content());
            options.master_key_in_bucket = true;
            options
        };
        let ownership = Ownership {
            log: self.log.clone(),
            host: "server".into(),
            lease: Duration::from_secs(6),
            lost: Arc::new(|_: &str| {}),
            withheld: Duration::ZERO,
            checkpoints: None,
        };
        let mut standby = Standby::open(&options(), ownership)?;
        standby.claim()?;
        standby.into_store(options())
    }

    fn check(&self) -> check::Report {
        let scratch = tempfile::tempdir().unwrap();
        let place = Elsewhere { log: self.log.clone(), content: self.content() };
        check::run_elsewhere(&place, scratch.path(), Depth::Checksums, &check::Options::default()).unwrap()
    }
}

/// Bytes that look random and are not zeros.
fn bytes(seed: u32, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at as u32).wrapping_mul(2_654_435_761).wrapping_add(seed).to_be_bytes()[1] | 1).collect()
}

const LARGE: usize = 17 << 20;
const KEPT: usize = 600_000;
const FILE: u64 = 3 << 20;

/// Fills a store, and closes it.
fn filled() -> Arc<TempDir> {
    let test = TestStore::on_disk();
    let bucket = test.bucket("one");
    let objects = [("empty", 0), ("inline", 100), ("packed", 30_000), ("packed-2", 60_000), ("kept", KEPT)];
    for (at, len) in objects.into_iter().chain([("large", LARGE)]) {
        test.put(&bucket, at, &bytes(len as u32, len)).unwrap();
    }
    let upload = test.begin_upload(&bucket, "unfinished");
    test.put_part(&upload, 1, &bytes(9, 6 << 20)).unwrap();
    let volume = test.mount(&bucket);
    let sparse = make_file(&volume, volume.root(), "sparse").unwrap();
    volume.write(sparse, 0, &bytes(1, 5000), false).unwrap();
    volume.write(sparse, 2 << 20, &bytes(2, 700_000), false).unwrap();
    volume.set_attr(sparse, SetAttr { size: Some(FILE), ..SetAttr::default() }).unwrap();
    volume.sync(sparse).unwrap();
    let changed = find(&volume, "large").unwrap();
    volume.write(changed, 1 << 20, b"changed through a mount", false).unwrap();
    drop(volume);
    test.clone_of(Source::Bucket(bucket.clone()), "two");
    test.put(&name("two"), "packed", &bytes(77, 20_000)).unwrap();
    test.snapshot(&bucket, "snap");
    test.store.close();
    test.dir.clone()
}

/// All files of some buckets, as mounts see them.
fn content(store: &Store) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    for bucket in ["one", "two", "snap"] {
        let volume = store.open_volume(&name(bucket), VolumeOptions { read_only: true, ..VolumeOptions::default() });
        let volume = volume.unwrap();
        for file in ["empty", "inline", "packed", "packed-2", "kept", "large", "sparse"] {
            all.insert(format!("{bucket}/{file}"), read_file(&volume, find(&volume, file).unwrap()));
        }
        assert!(volume.seek(find(&volume, "sparse").unwrap(), 5000, false).unwrap().unwrap() < 1 << 20, "a hole");
    }
    all
}

fn opened(dir: &Path) -> Store {
    crate::open(crate::Options::new(dir)).unwrap()
}

fn refused<T>(outcome: Result<T>, word: &str) {
    match outcome {
        Err(Error::Unusable { why }) => assert!(why.contains(word), "{word}: {why}"),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("not refused: {word}"),
    }
}

#[test]
fn a_store_moves_there_and_back_although_both_moves_are_interrupted() {
    let (dir, there, cache) = (filled(), There::new(), tempfile::tempdir().unwrap());
    let store = opened(dir.path());
    let before = content(&store);
    store.close();
    drop(store);

    // The bucket fails after some objects; what is there by then is found again.
    let puts = AtomicU64::new(0);
    there.s3.fail(move |seen| {
        let counts = seen.method == "PUT" && !seen.key.contains("amphora-store");
        (counts && puts.fetch_add(1, Ordering::Relaxed) >= 4).then_some(Fault::Status(403))
    });
    assert!(there.out(dir.path()).is_err());
    there.s3.heal();
    refused(there.serve(cache.path()), "amphora migrate");
    content(&opened(dir.path()));
    let moved = there.out(dir.path()).unwrap();
    assert!(moved.moved && moved.found > 0 && moved.copied_bytes > 0 && moved.problems.is_empty(), "{moved:?}");
    refused(crate::open(crate::Options::new(dir.path())), "was moved to s3://content/store");
    assert!(there.out(dir.path()).unwrap().moved, "it is repeated");

    let checked = there.check();
    assert!(checked.clean() && checked.uploads == 1, "{checked:?}");
    let served = tempfile::tempdir().unwrap();
    let store = there.serve(served.path()).unwrap();
    assert_eq!(content(&store), before);
    let volume = store.open_volume(&name("one"), VolumeOptions::default()).unwrap();
    let ino = find(&volume, "sparse").unwrap();
    volume.write(ino, 100, b"later", false).unwrap();
    volume.write(ino, 2 << 20, &bytes(3, 600_000), false).unwrap();
    volume.sync(ino).unwrap();
    make_file(&volume, volume.root(), "new").unwrap();
    drop(volume);
    let after = content(&store);
    store.close();
    drop(store);

    let home = tempfile::tempdir().unwrap();
    let target = home.path().join("data");
    let gets = AtomicU64::new(0);
    there.s3.fail(move |seen| {
        let counts = seen.method == "GET" && seen.key.contains("/chunks/");
        (counts && gets.fetch_add(1, Ordering::Relaxed) >= 3).then_some(Fault::Status(403))
    });
    assert!(there.back(&target).is_err());
    there.s3.heal();
    let moved = there.back(&target).unwrap();
    assert!(moved.moved && moved.found > 0 && moved.problems.is_empty(), "{moved:?}");
    refused(there.serve(served.path()), "was moved to");
    refused(there.back(&home.path().join("other")), "was moved to");
    refused(there.back(&target), "has a store already");
    let checked = check::run(&target, &check::Options::default()).unwrap();
    assert!(checked.clean() && checked.uploads == 1 && checked.unnamed_files == 0, "{checked:?}");
    let store = opened(&target);
    assert_eq!(content(&store), after);
    let volume = store.open_volume(&name("one"), VolumeOptions::default()).unwrap();
    find(&volume, "new").unwrap();
    drop(volume);
    store.close();
    drop(store);
    // A second opening compares the numbers in segments with the log.
    assert_eq!(content(&opened(&target)), after);
}

#[test]
fn a_place_of_another_store_is_refused_and_nothing_is_written_there() {
    let (dir, other, there) = (filled(), TestStore::on_disk(), There::new());
    other.store.close();
    let folder = other.dir.clone();
    drop(other);
    refused(there.out(&folder.path().join("none")), "holds no store");
    assert!(there.out(folder.path()).unwrap().moved);
    let (objects, tail) = (there.s3.objects(), there.log.tail().unwrap());
    refused(there.out(dir.path()), "has a store already");
    assert_eq!((there.s3.objects(), there.log.tail().unwrap().next), (objects, tail.next));
    // A new database, with the bucket of the other store.
    let same_bucket = There { s3: there.s3, ..There::new() };
    refused(same_bucket.out(dir.path()), "belongs to another store");
    content(&opened(dir.path()));
}

#[test]
fn a_store_that_a_server_has_is_refused() {
    let there = There::new();
    let test = TestStore::on_disk();
    let dir = test.dir.clone();
    assert!(matches!(there.out(dir.path()), Err(Error::Unusable { .. })), "the folder is locked");
    test.store.close();
    drop(test);
    assert!(there.out(dir.path()).unwrap().moved);
    let served = tempfile::tempdir().unwrap();
    let store = there.serve(served.path()).unwrap();
    let home = tempfile::tempdir().unwrap();
    refused(there.back(&home.path().join("data")), "owns this store");
    store.close();
}

#[test]
fn damaged_content_is_named_and_the_store_stays_until_it_is_quarantined() {
    let (dir, there) = (filled(), There::new());
    let blobs: Vec<_> = walk(&dir.path().join("content/blobs"));
    let large = blobs.iter().max_by_key(|path| path.metadata().unwrap().len()).unwrap();
    let unfinished = blobs.iter().find(|path| path.metadata().unwrap().len() == 6 << 20).unwrap();
    assert_ne!(large, unfinished);
    let mut content = std::fs::read(unfinished).unwrap();
    content[5 << 20] ^= 1;
    std::fs::write(unfinished, content).unwrap();
    let stayed = there.out(dir.path()).unwrap();
    assert!(
        !stayed.moved && stayed.problems.len() == 1 && stayed.problems[0].contains("a part of upload"),
        "{stayed:?}"
    );
    let repair = check::Options { repair: true, ..check::Options::default() };
    check::run(dir.path(), &repair).unwrap();
    let moved = there.out(dir.path()).unwrap();
    assert!(moved.moved && moved.found > 0, "{moved:?}");
    assert_eq!(there.check().quarantined.len(), 1);
}

#[test]
fn a_damaged_object_keeps_the_store_in_the_bucket_and_a_busy_one_is_waited_for() {
    let (dir, there, home) = (filled(), There::new(), tempfile::tempdir().unwrap());
    there.s3.fail_first(2, Fault::Status(503), |_| true);
    assert!(there.out(dir.path()).unwrap().moved);
    let objects = there.s3.objects();
    let (key, good) = objects.iter().find(|(key, bytes)| key.contains("/blobs/") && bytes.len() == KEPT).unwrap();
    let mut damaged = good.to_vec();
    damaged[300_000] ^= 1;
    there.s3.set(key, Some(damaged.into()));
    let target = home.path().join("data");
    let stayed = there.back(&target).unwrap();
    assert!(!stayed.moved && stayed.problems.len() == 1 && stayed.problems[0].contains("kept"), "{stayed:?}");
    refused(crate::open(crate::Options::new(&target)), "--metadata-url");
    there.s3.set(key, None);
    assert!(!there.back(&target).unwrap().moved, "it is missing");
    there.s3.set(key, Some(good.clone()));
    assert!(there.back(&target).unwrap().moved);
    assert_eq!(content(&opened(&target)), content(&there_was(&dir)));
}

/// The old copy, taken up again as its note says.
fn there_was(dir: &TempDir) -> Store {
    std::fs::remove_file(dir.path().join("moved")).unwrap();
    opened(dir.path())
}

fn walk(dir: &Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() { files.extend(walk(&entry)) } else { files.push(entry) }
    }
    files
}
