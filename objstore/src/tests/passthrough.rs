//! Passthrough files on buckets, snapshots and clones, compared with vectors of bytes: the blob that a kernel has is
//! the file's content at every moment, and no other view's.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use super::random::Choices;
use super::test_store::{TestStore, find, make_file, name, read_file};
use crate::content::Reader;
use crate::name::BucketName;
use crate::store::Source;
use crate::volume::{Allocate, Backing, Released, SetAttr, Volume};

const KIB: usize = 1 << 10;
const LEAST: u64 = 64 << 10;
/// The names of all files and copies.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// The expected state of a bucket, and what the kernel behind its mount has open.
struct View {
    bucket: BucketName,
    volume: Volume,
    files: BTreeMap<&'static str, Vec<u8>>,
    /// For each inode: the blob file as the kernel opened it, and the content it must keep after its name leads
    /// elsewhere.
    open: BTreeMap<u64, (&'static str, File, Option<Vec<u8>>)>,
}

/// An S3 read that began earlier.
struct Begun {
    reader: Reader,
    content: Vec<u8>,
    whose: usize,
    key: &'static str,
}

struct World {
    test: TestStore,
    views: Vec<View>,
    snapshots: Vec<(BucketName, BTreeMap<&'static str, Vec<u8>>)>,
    begun: Vec<Begun>,
    choices: Choices,
    named: usize,
}

fn view(test: &TestStore, bucket: &BucketName, files: BTreeMap<&'static str, Vec<u8>>) -> View {
    View { bucket: bucket.clone(), volume: test.mount(bucket), files, open: BTreeMap::new() }
}

fn shown(file: &File) -> Vec<u8> {
    let mut held = vec![0; usize::try_from(file.metadata().unwrap().len()).unwrap()];
    file.read_exact_at(&mut held, 0).unwrap();
    held
}

impl World {
    fn new(seed: u64) -> Self {
        let test = TestStore::in_memory();
        let views = vec![view(&test, &test.bucket("backed"), BTreeMap::new())];
        Self { test, views, snapshots: Vec::new(), begun: Vec::new(), choices: Choices::with(seed), named: 0 }
    }

    fn step(&mut self) {
        let at = self.choices.below(self.views.len());
        let key = *self.choices.of(&NAMES);
        match self.choices.below(24) {
            0..6 => self.open(at, key),
            6..8 => self.close(at),
            8..14 => self.write(at, key),
            14..16 => self.resize(at, key),
            16 => self.punch(at, key),
            17 => self.put(at, key),
            18 => self.copy(at, key),
            19 => self.read_slowly(at, key),
            20 => self.snapshot(at),
            21 => self.clone_of(at),
            22 => self.touch(at, key),
            _ => self.test.collect(),
        }
        self.compare();
    }

    fn ino(&self, at: usize, key: &str) -> Option<u64> {
        let view = &self.views[at];
        view.files.contains_key(key).then(|| find(&view.volume, key).unwrap())
    }

    fn open(&mut self, at: usize, key: &'static str) {
        let Some(ino) = self.ino(at, key) else { return };
        let view = &mut self.views[at];
        if view.open.contains_key(&ino) {
            return;
        }
        if let Ok(backing) = view.volume.back(ino, LEAST).unwrap() {
            let file = File::from(backing.descriptor().unwrap().try_clone_to_owned().unwrap());
            view.volume.pin(ino).unwrap();
            view.open.insert(ino, (key, file, None));
        }
    }

    fn close(&mut self, at: usize) {
        let view = &mut self.views[at];
        if let Some((ino, _)) = view.open.pop_first() {
            // Cloning the descriptor does not count as another opening of the file.
            assert_eq!(view.volume.release_backing(ino), Released::Done);
            view.volume.forget(ino, 1);
        }
    }

    fn change(&mut self, at: usize, key: &'static str) {
        let stale = |begun: &Begun| begun.whose == at && begun.key == key;
        self.begun.retain(|begun| !stale(begun));
    }

    fn write(&mut self, at: usize, key: &'static str) {
        let ino = self.ino(at, key).unwrap_or_else(|| {
            let volume = &self.views[at].volume;
            make_file(volume, volume.root(), key).unwrap()
        });
        let held = self.views[at].files.get(key).map_or(0, Vec::len);
        let offset = self.choices.below(held + 20 * KIB);
        let len = *self.choices.of(&[10, 5 * KIB, 200 * KIB]);
        let data = self.choices.bytes(len);
        let view = &mut self.views[at];
        view.volume.write(ino, offset as u64, &data, false).unwrap();
        let model = view.files.entry(key).or_default();
        model.resize(model.len().max(offset + data.len()), 0);
        model[offset..offset + data.len()].copy_from_slice(&data);
        self.change(at, key);
    }

    fn resize(&mut self, at: usize, key: &'static str) {
        let Some(ino) = self.ino(at, key) else { return };
        let size = *self.choices.of(&[0, 100, 70 * KIB, 300 * KIB, 1500 * KIB]);
        let view = &mut self.views[at];
        view.volume.set_attr(ino, SetAttr { size: Some(size as u64), ..SetAttr::default() }).unwrap();
        view.files.get_mut(key).unwrap().resize(size, 0);
        self.change(at, key);
    }

    fn punch(&mut self, at: usize, key: &'static str) {
        let Some(ino) = self.ino(at, key) else { return };
        let view = &mut self.views[at];
        view.volume.allocate(ino, Allocate::PunchHole, 5_000, 60_000).unwrap();
        let model = view.files.get_mut(key).unwrap();
        let held = model.len();
        model[5_000.min(held)..65_000.min(held)].fill(0);
        self.change(at, key);
    }

    /// Makes the name lead to another inode; what is open keeps the old one.
    fn replace(&mut self, at: usize, key: &'static str, content: Vec<u8>) {
        let view = &mut self.views[at];
        let before = view.files.insert(key, content);
        for (_, _, kept) in view.open.values_mut().filter(|(of, _, kept)| *of == key && kept.is_none()) {
            kept.clone_from(&before);
        }
        self.change(at, key);
    }

    fn put(&mut self, at: usize, key: &'static str) {
        let len = *self.choices.of(&[10, 100 * KIB, 300 * KIB, 1500 * KIB]);
        let content = self.choices.bytes(len);
        self.test.put(&self.views[at].bucket, key, &content).unwrap();
        self.replace(at, key, content);
    }

    fn copy(&mut self, at: usize, key: &'static str) {
        let to = self.choices.below(self.views.len());
        let target = *self.choices.of(&NAMES);
        let Some(content) = self.views[at].files.get(key).cloned() else { return };
        if (at, key) == (to, target) {
            return;
        }
        self.test.copy((&self.views[at].bucket, key), (&self.views[to].bucket, target)).unwrap();
        self.replace(to, target, content);
    }

    fn read_slowly(&mut self, at: usize, key: &'static str) {
        if let Some(content) = self.views[at].files.get(key).cloned() {
            let bucket = &self.views[at].bucket;
            let (_, reader) = self.test.store.open_object(bucket, &key.parse().unwrap(), None).unwrap();
            self.begun.push(Begun { reader, content, whose: at, key });
        }
        if self.begun.len() > 3 {
            self.begun.remove(0);
        }
    }

    fn next_name(&mut self, what: &str) -> String {
        self.named += 1;
        format!("{what}-{}", self.named)
    }

    fn snapshot(&mut self, at: usize) {
        if self.snapshots.len() < 4 {
            let taken = self.next_name("snap");
            let frozen = self.test.snapshot(&self.views[at].bucket, &taken);
            self.snapshots.push((frozen, self.views[at].files.clone()));
        } else {
            let (gone, _) = self.snapshots.remove(0);
            self.test.run(self.test.store.delete_snapshot(gone.as_str())).unwrap();
        }
    }

    fn clone_of(&mut self, at: usize) {
        if self.views.len() < 4 {
            let cloned = self.next_name("clone");
            let bucket = self.test.clone_of(Source::Bucket(self.views[at].bucket.clone()), &cloned);
            let files = self.views[at].files.clone();
            self.views.push(view(&self.test, &bucket, files));
        }
    }

    /// Makes the branch write its own version of the file, with the same content.
    fn touch(&mut self, at: usize, key: &'static str) {
        if let Some(ino) = self.ino(at, key) {
            self.views[at].volume.set_attr(ino, SetAttr { mode: Some(0o600), ..SetAttr::default() }).unwrap();
        }
    }

    fn compare(&self) {
        for view in &self.views {
            for (ino, (key, file, kept)) in &view.open {
                let model = kept.as_ref().unwrap_or_else(|| &view.files[key]);
                assert!(shown(file) == *model, "the kernel's view of {ino}, {key} of {}", view.bucket);
                assert!(read_file(&view.volume, *ino) == *model, "{ino}, {key} of {}", view.bucket);
            }
            for (key, model) in &view.files {
                assert!(self.test.get(&view.bucket, key).unwrap() == *model, "{key} of {}", view.bucket);
            }
        }
        for (snapshot, files) in &self.snapshots {
            for (key, model) in files {
                assert!(self.test.get(snapshot, key).unwrap() == *model, "{key} of snapshot {snapshot}");
            }
        }
        for begun in &self.begun {
            let read = begun.reader.read(0, begun.content.len()).unwrap();
            assert!(read == begun.content, "a reader of {} from before", begun.key);
        }
    }
}

#[test]
fn what_a_kernel_has_open_is_the_file_on_every_branch() {
    let mut seeds = Choices::new();
    for _ in 0..6 {
        let mut world = World::new(seeds.below_u64(u64::MAX));
        for _ in 0..150 {
            world.step();
        }
        world.test.audit();
        for at in 0..world.views.len() {
            while !world.views[at].open.is_empty() {
                world.close(at);
            }
        }
        world.begun.clear();
        // A blob stays as long as the background verification reads it.
        while !world.test.store.core.passthrough.is_idle() {
            std::thread::sleep(Duration::from_millis(1));
        }
        world.test.audit_collected();
        world.compare();
    }
}

/// Fills a file and opens its blob for passthrough twice, the second time as for a memory mapping.
fn mapped(volume: &Volume, ino: u64) -> (Backing, File) {
    volume.write(ino, 0, &vec![1; 100 * KIB], false).unwrap();
    let backing = volume.back(ino, LEAST).unwrap().unwrap();
    volume.expose(ino).unwrap();
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&backing.descriptor().unwrap()));
    let mapping = File::options().read(true).write(true).open(path).unwrap();
    (backing, mapping)
}

#[test]
fn a_mapping_that_outlives_the_process_keeps_snapshots_apart() {
    let test = TestStore::on_disk();
    let bucket = test.bucket("mapped");
    let volume = test.mount(&bucket);
    let ino = make_file(&volume, volume.root(), "f").unwrap();
    let (backing, mapping) = mapped(&volume, ino);
    assert_eq!(volume.release_backing(ino), Released::Mapped);
    drop((backing, volume));
    let test = test.reopen();
    let tag = |test: &TestStore| test.get_with_tag(&bucket, "f").unwrap().0;
    mapping.write_all_at(b"past", 7).unwrap();
    let first = tag(&test);
    let snapshot = test.snapshot(&bucket, "snap");
    // File times may change only with the system's clock ticks.
    std::thread::sleep(Duration::from_millis(20));
    mapping.write_all_at(b"more", 7).unwrap();
    assert_eq!(&test.get(&snapshot, "f").unwrap()[7..11], b"past");
    assert_eq!(&test.get(&bucket, "f").unwrap()[7..11], b"more");
    assert_ne!(tag(&test), first);
    let volume = test.mount(&bucket);
    volume.write(find(&volume, "f").unwrap(), 7, b"both", false).unwrap();
    let mut seen = [0; 4];
    mapping.read_exact_at(&mut seen, 7).unwrap();
    assert_eq!(&seen, b"both", "the server writes what is mapped");
    drop(mapping);
    test.collect();
    let marks =
        crate::store::all(&*test.store.core.meta.snapshot(), &[crate::record::key::tag::MAPPED_WRITABLE]).unwrap();
    assert!(marks.is_empty() && !volume.is_passthrough(ino));
    drop(volume);
    test.audit_collected();
}

#[test]
fn a_file_that_is_gone_while_it_is_mapped_is_in_nobodys_way() {
    for killed in [false, true] {
        let mut test = TestStore::on_disk();
        let bucket = test.bucket("unlinked");
        test.put(&bucket, "other", b"stays").unwrap();
        let volume = test.mount(&bucket);
        let ino = make_file(&volume, volume.root(), "f").unwrap();
        let (backing, mapping) = mapped(&volume, ino);
        volume.unlink(volume.root(), "f").unwrap();
        assert_eq!(volume.release_backing(ino), Released::Mapped);
        drop((backing, volume));
        if killed {
            test = test.killed(&[]);
        }
        test.collect();
        mapping.write_all_at(b"past", 7).unwrap();
        assert_eq!(test.keys(&bucket), ["other"], "killed: {killed}");
        test.snapshot(&bucket, "snap");
        drop(mapping);
        test.collect();
        let marks =
            crate::store::all(&*test.store.core.meta.snapshot(), &[crate::record::key::tag::MAPPED_WRITABLE]).unwrap();
        assert!(marks.is_empty());
        test.audit_collected();
    }
}

#[test]
fn versions_and_damaged_content_are_not_read_past_the_server() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("not");
    let volume = test.mount(&bucket);
    let backs = |key: &str| volume.back(find(&volume, key).unwrap(), LEAST).unwrap().is_ok();
    test.put(&bucket, "small", &[1; 60 * KIB]).unwrap();
    test.put(&bucket, "packed", &[2; 100 * KIB]).unwrap();
    test.put(&bucket, "sound", &vec![3; 300 * KIB]).unwrap();
    assert!(!backs("small") && !backs("packed") && !backs("sound"), "not before it is compared");
    let start = Instant::now();
    while !backs("sound") {
        assert!(start.elapsed().as_secs() < 20);
        std::thread::sleep(Duration::from_millis(5));
    }
    let versioned = name("versioned");
    let request = crate::store::CreateBucket {
        versioning: crate::store::Versioning::Enabled,
        ..super::test_store::bucket_request("versioned")
    };
    test.run(test.store.create_bucket(request)).unwrap();
    let volume = test.mount(&versioned);
    let ino = make_file(&volume, volume.root(), "f").unwrap();
    volume.write(ino, 0, &vec![1; 300 * KIB], false).unwrap();
    assert!(volume.back(ino, LEAST).unwrap().is_err());
}

#[test]
fn what_a_mapping_wrote_before_it_went_is_another_object() {
    for killed in [false, true] {
        let mut test = TestStore::on_disk();
        let bucket = test.bucket("went");
        let content = vec![1; 300 * KIB];
        test.put(&bucket, "f", &content).unwrap();
        let volume = test.mount(&bucket);
        let ino = find(&volume, "f").unwrap();
        let start = Instant::now();
        let backing = loop {
            if let Ok(backing) = volume.back(ino, LEAST).unwrap() {
                break backing;
            }
            assert!(start.elapsed().as_secs() < 20);
            std::thread::sleep(Duration::from_millis(5));
        };
        volume.expose(ino).unwrap();
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&backing.descriptor().unwrap()));
        let mapping = File::options().read(true).write(true).open(path).unwrap();
        volume.release_backing(ino);
        drop((backing, volume));
        std::thread::sleep(Duration::from_millis(20));
        mapping.write_all_at(b"past", 7).unwrap();
        drop(mapping);
        if killed {
            test = test.reopen();
        }
        test.collect();
        let (tag, data) = test.get_with_tag(&bucket, "f").unwrap();
        assert!(&data[7..11] == b"past" && tag != super::test_store::md5(&content), "killed: {killed}");
        let marks =
            crate::store::all(&*test.store.core.meta.snapshot(), &[crate::record::key::tag::MAPPED_WRITABLE]).unwrap();
        assert!(marks.is_empty());
        test.audit_collected();
    }
}

#[test]
fn a_file_that_shares_its_blob_is_written_though_somebody_has_the_blob_open() {
    let test = TestStore::on_disk();
    let bucket = test.bucket("shared");
    let content = vec![1; 300 * KIB];
    test.put(&bucket, "f", &content).unwrap();
    test.copy((&bucket, "f"), (&bucket, "g")).unwrap();
    let volume = test.mount(&bucket);
    let ino = find(&volume, "f").unwrap();
    // Opens every blob file, as a program that copies the data folder does.
    let folders = std::fs::read_dir(test.dir.path().join("content/blobs")).unwrap();
    let files = folders.flat_map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap());
    let _open: Vec<File> = files.map(|file| File::open(file.unwrap().path()).unwrap()).collect();
    let passthrough = &test.store.core.passthrough;
    for _ in 0..2 {
        assert!(volume.back(ino, LEAST).unwrap().is_err());
        while !passthrough.is_idle() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    volume.write(ino, 7, b"written", false).unwrap();
    assert_eq!(&test.get(&bucket, "f").unwrap()[7..14], b"written");
    assert_eq!(test.get(&bucket, "g").unwrap(), content);
}
