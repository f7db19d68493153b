//! Content through both handles, on buckets, snapshots and clones, compared with vectors of bytes.

use std::collections::{BTreeMap, HashMap};

use super::random::Choices;
use super::test_store::{TestStore, find, md5, name, read_file};
use crate::name::BucketName;
use crate::store::Source;
use crate::volume::{Allocate, SetAttr, Volume};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
/// The largest size of a file.
const SIZE_MAX: usize = 7 * MIB;

type Files = BTreeMap<String, Vec<u8>>;

struct World {
    test: Option<TestStore>,
    buckets: Vec<(BucketName, Files)>,
    snapshots: Vec<(BucketName, Files)>,
    /// The content seen under each entity tag of each key.
    tags: HashMap<(String, String, String), String>,
    choices: Choices,
    named: usize,
}

impl World {
    fn new(choices: Choices) -> Self {
        let test = TestStore::in_memory();
        let bucket = test.bucket("content");
        let buckets = vec![(bucket, Files::new())];
        let mut world =
            Self { test: Some(test), buckets, snapshots: Vec::new(), tags: HashMap::new(), choices, named: 0 };
        for (key, size) in [
            ("empty", 0),
            ("inline", 1000),
            ("full", 4 * KIB),
            ("packed", 64 * KIB),
            ("file", 300 * KIB),
            ("large", 3 * MIB),
        ] {
            let data = world.choices.bytes(size);
            world.put(0, key, data);
        }
        world.upload("parts");
        for key in ["empty", "inline", "packed", "file", "large", "parts"] {
            world.copy((0, key), (0, &format!("{key}-copy")));
        }
        world
    }

    fn test(&self) -> &TestStore {
        self.test.as_ref().unwrap()
    }

    fn put(&mut self, at: usize, key: &str, data: Vec<u8>) {
        self.test().put(&self.buckets[at].0, key, &data).unwrap();
        self.buckets[at].1.insert(key.to_owned(), data);
    }

    fn upload(&mut self, key: &str) {
        let parts = [self.choices.bytes(5 * MIB), self.choices.bytes(70 * KIB)];
        let upload = self.test().begin_upload(&self.buckets[0].0, key);
        let first = self.test().put_part(&upload, 1, &parts[0]).unwrap();
        let second = self.test().put_part(&upload, 7, &parts[1]).unwrap();
        self.test().complete(&upload, &[&first, &second]).unwrap();
        self.buckets[0].1.insert(key.to_owned(), parts.concat());
    }

    fn copy(&mut self, from: (usize, &str), to: (usize, &str)) {
        let data = self.buckets[from.0].1[from.1].clone();
        self.test().copy((&self.buckets[from.0].0, from.1), (&self.buckets[to.0].0, to.1)).unwrap();
        self.buckets[to.0].1.insert(to.1.to_owned(), data);
    }

    fn some_file(&mut self) -> (usize, String) {
        let bucket = self.choices.below(self.buckets.len());
        let keys: Vec<String> = self.buckets[bucket].1.keys().cloned().collect();
        (bucket, self.choices.of(&keys).clone())
    }

    fn mounted(&self, at: usize, key: &str) -> (Volume, u64) {
        let volume = self.test().mount(&self.buckets[at].0);
        let ino = find(&volume, key).unwrap();
        (volume, ino)
    }

    /// An offset in a file: near its ends, at a block boundary, or anywhere.
    fn some_offset(&mut self, size: usize) -> usize {
        let around = [0, 4 * KIB, 64 * KIB, size / 2, size, size + 5 * KIB];
        let offset = *self.choices.of(&around) + self.choices.below(3);
        if self.choices.once_in(2) { self.choices.below(size + 2) } else { offset.min(SIZE_MAX) }
    }

    fn some_len(&mut self) -> usize {
        let most = *self.choices.of(&[2, 100, 5 * KIB, 200 * KIB]);
        1 + self.choices.below(most)
    }

    fn step(&mut self) {
        match self.choices.below(100) {
            0..34 => self.write(),
            34..42 => self.append(),
            42..52 => self.truncate(),
            52..62 => self.clear(),
            62..74 => self.observe(),
            74..78 => self.sync(),
            78..82 => self.replace(),
            82..87 => self.copy_some(),
            87..91 => self.snapshot(),
            91..94 => self.clone_some(),
            94..96 => self.delete_snapshot(),
            96..98 => self.test().collect(),
            _ => self.reopen(),
        }
    }

    fn write(&mut self) {
        let (at, key) = self.some_file();
        let size = self.buckets[at].1[&key].len();
        let (offset, len) = (self.some_offset(size), self.some_len());
        let data = self.choices.bytes(len);
        let (volume, ino) = self.mounted(at, &key);
        volume.write(ino, offset as u64, &data, self.choices.once_in(4)).unwrap();
        let held = self.buckets[at].1.get_mut(&key).unwrap();
        held.resize(size.max(offset + len), 0);
        held[offset..offset + len].copy_from_slice(&data);
        self.read_some(at, &key, &volume, ino);
    }

    fn append(&mut self) {
        let (at, key) = self.some_file();
        let len = self.some_len();
        let data = self.choices.bytes(len);
        let (volume, ino) = self.mounted(at, &key);
        volume.append(ino, &data).unwrap();
        self.buckets[at].1.get_mut(&key).unwrap().extend(data);
        self.read_some(at, &key, &volume, ino);
    }

    fn truncate(&mut self) {
        let (at, key) = self.some_file();
        let size = self.buckets[at].1[&key].len();
        let new = self.some_offset(size);
        let (volume, ino) = self.mounted(at, &key);
        let set = SetAttr { size: Some(new as u64), ..SetAttr::default() };
        assert_eq!(volume.set_attr(ino, set).unwrap().size, new as u64);
        self.buckets[at].1.get_mut(&key).unwrap().resize(new, 0);
        self.read_some(at, &key, &volume, ino);
    }

    fn clear(&mut self) {
        let (at, key) = self.some_file();
        let size = self.buckets[at].1[&key].len();
        let (offset, len) = (self.some_offset(size), self.some_len());
        let how = *self.choices.of(&[
            Allocate::Extend,
            Allocate::KeepSize,
            Allocate::PunchHole,
            Allocate::ZeroRange,
            Allocate::ZeroRangeKeepSize,
        ]);
        let (volume, ino) = self.mounted(at, &key);
        volume.allocate(ino, how, offset as u64, len as u64).unwrap();
        let held = self.buckets[at].1.get_mut(&key).unwrap();
        if matches!(how, Allocate::Extend | Allocate::ZeroRange) {
            held.resize(size.max(offset + len), 0);
        }
        if !matches!(how, Allocate::Extend | Allocate::KeepSize) {
            let end = held.len();
            held[offset.min(end)..(offset + len).min(end)].fill(0);
        }
        self.read_some(at, &key, &volume, ino);
    }

    /// Reads at a random place and compares.
    fn read_some(&mut self, at: usize, key: &str, volume: &Volume, ino: u64) {
        let size = self.buckets[at].1[key].len();
        let (offset, len) = (self.some_offset(size), self.some_len());
        let held = &self.buckets[at].1[key];
        let expected = &held[offset.min(size)..(offset + len).min(size)];
        let found = volume.read(ino, offset as u64, len).unwrap();
        assert!(found == expected, "{key} of {size} bytes at {offset}+{len}");
        assert_eq!(volume.attr(ino).unwrap().size, size as u64);
    }

    /// Reads through S3: the same entity tag always has the same content.
    fn observe(&mut self) {
        let (at, key) = self.some_file();
        self.observe_file(at, &key);
    }

    fn observe_file(&mut self, at: usize, key: &str) {
        let bucket = self.buckets[at].0.clone();
        let (tag, data) = self.test().get_with_tag(&bucket, key).unwrap();
        assert!(data == self.buckets[at].1[key], "{key}");
        let sum = md5(&data);
        let before = self.tags.entry((bucket.to_string(), key.to_owned(), tag.clone())).or_insert_with(|| sum.clone());
        assert_eq!(*before, sum, "{key} changed and kept the tag {tag}");
        let listed = self.test().store.head_object(&bucket, &super::test_store::key(key), None).unwrap();
        assert_eq!(listed.etag, tag);
    }

    fn sync(&mut self) {
        let (at, key) = self.some_file();
        let (volume, ino) = self.mounted(at, &key);
        let synced = if self.choices.once_in(2) { volume.sync_without_time(ino) } else { volume.sync(ino) };
        synced.unwrap();
    }

    fn replace(&mut self) {
        let (at, key) = self.some_file();
        let size = *self.choices.of(&[0, 10, 4 * KIB, 20 * KIB, 300 * KIB]);
        let data = self.choices.bytes(size);
        self.put(at, &key, data);
    }

    fn copy_some(&mut self) {
        let (from, to) = (self.some_file(), self.some_file());
        self.copy((from.0, &from.1), (to.0, &to.1));
    }

    fn fresh_name(&mut self, what: &str) -> String {
        self.named += 1;
        format!("{what}-{}", self.named)
    }

    fn snapshot(&mut self) {
        if self.snapshots.len() > 5 {
            return self.delete_snapshot();
        }
        let at = self.choices.below(self.buckets.len());
        let taken = self.fresh_name("snapshot");
        let taken = self.test().snapshot(&self.buckets[at].0, &taken);
        self.snapshots.push((taken, self.buckets[at].1.clone()));
    }

    fn clone_some(&mut self) {
        if self.buckets.len() > 3 {
            let gone = 1 + self.choices.below(3);
            let (gone, _) = self.buckets.remove(gone);
            let test = self.test();
            test.run(test.store.delete_bucket(&gone, crate::store::Deletion::Force)).unwrap();
            return;
        }
        let made = self.fresh_name("clone");
        let from_snapshot = !self.snapshots.is_empty() && self.choices.once_in(2);
        let (source, files) = if from_snapshot {
            let (name, files) = self.choices.of(&self.snapshots).clone();
            (Source::Snapshot(name.to_string()), files)
        } else {
            let (name, files) = self.choices.of(&self.buckets).clone();
            (Source::Bucket(name), files)
        };
        let made = self.test().clone_of(source, &made);
        self.buckets.push((made, files));
    }

    fn delete_snapshot(&mut self) {
        if self.snapshots.is_empty() {
            return;
        }
        let (gone, files) = self.snapshots.remove(self.choices.below(self.snapshots.len()));
        assert_same(self.test(), &gone, &files);
        let test = self.test();
        test.run(test.store.delete_snapshot(gone.as_str())).unwrap();
    }

    fn reopen(&mut self) {
        self.test = self.test.take().map(TestStore::reopen);
    }

    fn compare_all(&mut self) {
        for at in 0..self.buckets.len() {
            for key in self.buckets[at].1.keys().cloned().collect::<Vec<_>>() {
                self.observe_file(at, &key);
            }
            assert_same(self.test(), &self.buckets[at].0, &self.buckets[at].1);
        }
        for (snapshot, files) in &self.snapshots {
            assert_same(self.test(), snapshot, files);
        }
        self.test().audit();
    }
}

/// Asserts that a mount of the bucket or snapshot shows these files.
fn assert_same(test: &TestStore, bucket: &BucketName, files: &Files) {
    let volume = test.mount(bucket);
    let shown = volume.read_dir(volume.root()).unwrap();
    assert_eq!(shown.iter().map(|entry| &entry.name).collect::<Vec<_>>(), files.keys().collect::<Vec<_>>());
    for entry in shown {
        assert!(read_file(&volume, entry.ino) == files[&entry.name], "{} in {bucket}", entry.name);
    }
}

#[test]
fn content_agrees_with_vectors_on_every_branch() {
    let mut choices = Choices::new();
    for _ in 0..3 {
        let mut world = World::new(Choices::with(choices.below_u64(u64::MAX)));
        for step in 0..300 {
            world.step();
            if step % 60 == 59 {
                world.compare_all();
            }
        }
        world.reopen();
        world.compare_all();
        world.test().audit_collected();
        world.compare_all();
    }
}

#[test]
fn holes_and_data_are_found_where_they_are() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("holes");
    test.put(&bucket, "k", &vec![7; 3 * MIB]).unwrap();
    test.copy((&bucket, "k"), (&bucket, "copy")).unwrap();
    let volume = test.mount(&bucket);
    let ino = find(&volume, "k").unwrap();
    volume.write(ino, 10, b"x", false).unwrap();
    volume.allocate(ino, Allocate::PunchHole, MIB as u64, MIB as u64).unwrap();
    assert_eq!(volume.seek(ino, 0, true).unwrap(), Some(0));
    assert_eq!(volume.seek(ino, 0, false).unwrap(), Some(MIB as u64));
    assert_eq!(volume.seek(ino, MIB as u64, true).unwrap(), Some(2 * MIB as u64));
    assert_eq!(volume.seek(ino, 2 * MIB as u64, false).unwrap(), Some(3 * MIB as u64));
    assert_eq!(volume.seek(ino, 3 * MIB as u64, true).unwrap(), None);
    test.audit_collected();
}

#[test]
fn damage_is_an_error_and_never_data() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("damage");
    for (key, size) in [("packed", 20 * KIB), ("file", 300 * KIB)] {
        test.put(&bucket, key, &vec![7; size]).unwrap();
    }
    let mut stack = vec![test.dir.path().join("content")];
    while let Some(dir) = stack.pop() {
        for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                stack.push(entry.path());
            } else {
                let mut bytes = std::fs::read(entry.path()).unwrap();
                bytes.get_mut(10_000).into_iter().for_each(|byte| *byte ^= 1);
                std::fs::write(entry.path(), bytes).unwrap();
            }
        }
    }
    for key in ["packed", "file"] {
        assert!(matches!(test.get(&bucket, key), Err(crate::Error::Corrupt { .. })), "{key}");
    }
}

#[test]
fn many_files_written_in_place_do_not_stay_open() {
    let test = TestStore::in_memory();
    // It settles them too, at times of its own.
    test.store.background.stop();
    let bucket = test.bucket("open");
    let volume = test.mount(&bucket);
    for index in 0..20 {
        let ino = super::test_store::make_file(&volume, volume.root(), &format!("f{index}")).unwrap();
        volume.write(ino, 0, &vec![1; 8 * KIB], false).unwrap();
        volume.write(ino, 0, &[2; 100], false).unwrap();
    }
    let id = test.store.bucket(&name("open")).unwrap().id;
    let dirty = || test.store.core.dirty.of_bucket(id);
    assert_eq!(dirty().len(), 20);
    test.collect();
    assert_eq!(dirty(), Vec::<u64>::new());
    let ino = find(&volume, "f0").unwrap();
    volume.write(ino, 0, b"again", false).unwrap();
    assert_eq!(dirty(), [ino]);
    test.delete(&bucket, "f0").unwrap();
    assert_eq!(dirty(), Vec::<u64>::new());
    for index in 0..1000 {
        let made = volume.create(volume.root(), &format!("g{index}"), super::test_store::by_root(0o644)).unwrap();
        volume.write(made.ino, 0, &[1; 5 * KIB], false).unwrap();
        volume.close_writer(made.ino).unwrap();
        assert!(dirty().len() < 300, "files that nobody writes are settled in batches");
    }
}

#[test]
fn a_crash_between_write_and_commit_shows_nothing_of_the_write() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("tail");
    let volume = test.mount(&bucket);
    let ino = super::test_store::make_file(&volume, volume.root(), "f").unwrap();
    volume.write(ino, 0, &vec![1; 8 * KIB], false).unwrap();
    test.collect();
    let [in_place] = test.store.core.blobs.file_ids().unwrap()[..] else { panic!("one file has one home") };
    let file = test.store.core.blobs.file(in_place).unwrap();
    file.write_at(&[9; 100], 9 * KIB as u64).unwrap();
    let set = SetAttr { size: Some(10 * KIB as u64), ..SetAttr::default() };
    volume.set_attr(ino, set).unwrap();
    assert_eq!(read_file(&volume, ino), [vec![1; 8 * KIB], vec![0; 2 * KIB]].concat());
}
