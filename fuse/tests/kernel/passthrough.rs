//! Files read by passthrough: all readers see the same bytes, regardless of what else happens to the files.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fuse::Mount;
use objstore::name::BucketName;
use objstore::store::{CopyObject, CreateBucket, Directive, RootAttributes, Source, Versioning};
use objstore::volume::VolumeOptions;
use rustix::fs::{Advice, FallocateFlags, fallocate};
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};

use crate::folder_pair::tick;
use crate::test_store::{Rng, TestStore, errno, pattern, run};

const LARGE: usize = 300_000;

/// Memory mapped from a file, with the length that the file had then.
pub struct Mapping {
    at: *mut u8,
    len: usize,
}

// SAFETY: a mapping may be used and unmapped by any thread.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(file: &File, len: usize, protection: ProtFlags, flags: MapFlags) -> Self {
        // SAFETY: a new mapping at an address that the kernel chooses replaces no memory in use.
        let at = unsafe { rustix::mm::mmap(std::ptr::null_mut(), len, protection, flags, file, 0) }.unwrap();
        Self { at: at.cast(), len }
    }

    pub fn shared(file: &File, len: usize) -> Self {
        Self::new(file, len, ProtFlags::READ, MapFlags::SHARED)
    }

    fn writable(file: &File, len: usize) -> Self {
        Self::new(file, len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED)
    }

    /// The bytes of a range, as far as the file still has them.
    pub fn get(&self, offset: usize, len: usize) -> Vec<u8> {
        assert!(offset + len <= self.len);
        // SAFETY: the range is in the mapping; the reads are volatile, since others change the memory.
        (offset..offset + len).map(|at| unsafe { self.at.add(at).read_volatile() }).collect()
    }

    fn put(&self, offset: usize, data: &[u8]) {
        assert!(offset + data.len() <= self.len);
        for (at, byte) in data.iter().enumerate() {
            // SAFETY: the range is in the mapping, which is writable.
            unsafe { self.at.add(offset + at).write_volatile(*byte) };
        }
    }

    fn sync(&self) {
        // SAFETY: the range is the mapping.
        unsafe { rustix::mm::msync(self.at.cast(), self.len, MsyncFlags::SYNC) }.unwrap();
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: nothing borrows from the mapping.
        let _ = unsafe { rustix::mm::munmap(self.at.cast(), self.len) };
    }
}

/// The number of reads that the server received.
fn reads(mount: &Mount) -> u64 {
    mount.stats().operations.iter().find(|operation| operation.name == "read").unwrap().count
}

fn read_all(file: &File) -> Vec<u8> {
    let mut held = vec![0; LARGE * 4];
    let mut len = 0;
    loop {
        match file.read_at(&mut held[len..], len as u64).unwrap() {
            0 => break,
            count => len += count,
        }
    }
    held.truncate(len);
    held
}

fn writer(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(path).unwrap()
}

fn truncate(path: &Path, len: u64) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(len).unwrap();
}

fn large(mount: &Mount, name: &str, seed: u8) -> (PathBuf, Vec<u8>) {
    let (path, content) = (mount.path().join(name), pattern(LARGE, seed));
    fs::write(&path, &content).unwrap();
    (path, content)
}

/// A reader by passthrough; `None` if the kernel is older than Linux 6.9 or does not accept the disk's files.
#[expect(clippy::print_stdout, reason = "a skipped test says why")]
fn reader(mount: &Mount, path: &Path) -> Option<File> {
    let file = past(mount, path);
    if file.is_none() {
        println!("skipped: this kernel reads no file of this disk by passthrough");
    }
    file
}

/// Opens the file; `None` if it was not opened for passthrough.
fn past(mount: &Mount, path: &Path) -> Option<File> {
    let file = File::open(path).unwrap();
    // Drops the mount's own pages: there are none of a file that is read by passthrough.
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    let before = reads(mount);
    read_all(&file);
    (reads(mount) == before).then_some(file)
}

fn snapshot(test: &TestStore, name: &str) -> BucketName {
    let name: BucketName = name.parse().unwrap();
    test.wait(test.store().create_snapshot(test.bucket(), &name)).unwrap();
    name
}

fn get_of(test: &TestStore, bucket: &BucketName, key: &str) -> Vec<u8> {
    let (object, reader) = test.store().open_object(bucket, &key.parse().unwrap(), None).unwrap();
    reader.read(0, object.size as usize).unwrap().to_vec()
}

#[test]
fn large_files_are_read_past_the_server_and_small_ones_are_not() {
    run(|test| {
        let mount = test.mount("m");
        let (path, content) = large(&mount, "large", 1);
        let Some(file) = reader(&mount, &path) else { return };
        assert!(read_all(&file) == content);
        let before = reads(&mount);
        fs::write(mount.path().join("small"), pattern(5_000, 2)).unwrap();
        assert!(
            past(&mount, &mount.path().join("small")).is_none() && reads(&mount) > before,
            "the server reads a small file"
        );
    });
}

#[test]
fn readers_see_every_kind_of_change() {
    run(|test| {
        let mount = test.mount("m");
        let (path, mut model) = large(&mount, "f", 1);
        let Some(file) = reader(&mount, &path) else { return };
        let mapped = Mapping::shared(&file, LARGE);
        let private = Mapping::new(&file, LARGE, ProtFlags::READ, MapFlags::PRIVATE);
        let direct = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(&path).unwrap();
        let check = |model: &[u8], what: &str| {
            assert!(read_all(&file) == model, "{what}");
            assert!(test.get("f").as_deref() == Some(model), "S3, {what}");
            assert_eq!(path.metadata().unwrap().len(), model.len() as u64, "{what}");
            let held = model.len().min(LARGE);
            assert!(mapped.get(0, held) == model[..held] && private.get(0, held) == model[..held], "mapped, {what}");
            let page = Mapping::new(
                &File::open("/dev/zero").unwrap(),
                4096,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            );
            // SAFETY: the page is writable memory of this length, and no one else uses it.
            let room = unsafe { std::slice::from_raw_parts_mut(page.at, 4096) };
            let count = direct.read_at(room, 4096).unwrap();
            assert!(room[..count] == model[4096.min(held)..8192.min(held)], "O_DIRECT, {what}");
        };
        check(&model, "at first");
        let write_only = OpenOptions::new().write(true).open(&path).unwrap();
        write_only.write_all_at(&pattern(9_000, 2), 100_000).unwrap();
        model[100_000..109_000].copy_from_slice(&pattern(9_000, 2));
        check(&model, "a write in place");
        let append = OpenOptions::new().append(true).open(&path).unwrap();
        std::io::Write::write_all(&mut &append, &pattern(5_000, 3)).unwrap();
        model.extend(pattern(5_000, 3));
        check(&model, "an append");
        write_only.write_all_at(b"far", 400_000).unwrap();
        model.resize(400_000, 0);
        model.extend(b"far");
        check(&model, "a write past the end");
        let both = writer(&path);
        both.write_all_at(b"both", 7).unwrap();
        model[7..11].copy_from_slice(b"both");
        let mut seen = [0; 4];
        both.read_exact_at(&mut seen, 7).unwrap();
        assert_eq!(&seen, b"both");
        check(&model, "a write by a program that also reads");
        both.set_len(350_000).unwrap();
        model.truncate(350_000);
        check(&model, "a cut");
        truncate(&path, 500_000);
        model.resize(500_000, 0);
        check(&model, "an extension");
        fallocate(&both, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 8_192, 20_000).unwrap();
        model[8_192..28_192].fill(0);
        check(&model, "a hole");
        drop(OpenOptions::new().write(true).truncate(true).open(&path).unwrap());
        assert!(read_all(&file).is_empty() && test.get("f") == Some(Vec::new()), "O_TRUNC");
        write_only.write_all_at(&pattern(LARGE, 9), 0).unwrap();
        check(&pattern(LARGE, 9), "the content written after O_TRUNC");
    });
}

#[test]
#[expect(clippy::disallowed_methods, reason = "renames on the mount, as programs do")]
fn an_open_file_stays_itself_whatever_becomes_of_its_name() {
    run(|test| {
        let mount = test.mount("m");
        let (path, old) = large(&mount, "f", 1);
        let Some(file) = reader(&mount, &path) else { return };
        test.put("f", &pattern(LARGE, 2));
        assert!(read_all(&file) == old && fs::read(&path).unwrap() == pattern(LARGE, 2), "PUT");
        let (other, third) = large(&mount, "other", 3);
        let put = File::open(&path).unwrap();
        fs::rename(&other, &path).unwrap();
        assert!(read_all(&put) == pattern(LARGE, 2) && fs::read(&path).unwrap() == third, "rename over");
        let renamed = File::open(&path).unwrap();
        let mapped = Mapping::shared(&renamed, LARGE);
        fs::remove_file(&path).unwrap();
        assert!(read_all(&renamed) == third && mapped.get(0, LARGE) == third, "unlink");
        drop(renamed);
        assert!(mapped.get(0, LARGE) == third, "unlinked, closed and mapped");
    });
}

#[test]
fn snapshots_and_clones_keep_what_they_have_while_readers_see_the_writes() {
    run(|test| {
        let mount = test.mount("m");
        let (path, before) = large(&mount, "f", 1);
        let Some(file) = reader(&mount, &path) else { return };
        let mapped = Mapping::shared(&file, LARGE);
        let one = snapshot(test, "one-1");
        let create = CreateBucket {
            name: "clone".parse().unwrap(),
            owner: "root".into(),
            quota_bytes: None,
            versioning: Versioning::Disabled,
            source: Some(Source::Bucket(test.bucket().clone())),
            attributes: Default::default(),
            root: RootAttributes { uid: 0, gid: 0, mode: 0o755 },
        };
        test.wait(test.store().create_bucket(create)).unwrap();
        let clone: BucketName = "clone".parse().unwrap();
        let (object, opened_before) = test.store().open_object(&one, &"f".parse().unwrap(), None).unwrap();
        let mut model = before.clone();
        for (round, at) in [10usize, 100_000, LARGE - 4].into_iter().enumerate() {
            OpenOptions::new().write(true).open(&path).unwrap().write_all_at(b"live", at as u64).unwrap();
            model[at..at + 4].copy_from_slice(b"live");
            assert!(read_all(&file) == model && mapped.get(0, LARGE) == model, "round {round}");
            assert!(get_of(test, &one, "f") == before && get_of(test, &clone, "f") == before, "round {round}");
        }
        assert!(opened_before.read(0, object.size as usize).unwrap() == before, "a reader from before");
        let two = snapshot(test, "two-2");
        truncate(&path, 1_000);
        assert!(read_all(&file) == model[..1_000] && get_of(test, &two, "f") == model);
        assert!(test.get("f").as_deref() == Some(&model[..1_000]));
        let volume = test.store().open_volume(&clone, VolumeOptions::default()).unwrap();
        let cloned = fuse::mount(volume.into(), &test.folder("c"), fuse::Options::default()).unwrap();
        let in_clone = cloned.path().join("f");
        assert!(fs::read(&in_clone).unwrap() == before);
        writer(&in_clone).write_all_at(b"clone", 0).unwrap();
        assert!(get_of(test, &one, "f") == before && read_all(&file) == model[..1_000]);
    });
}

#[test]
fn a_snapshot_keeps_still_while_a_mapping_writes() {
    run(|test| {
        let mount = test.mount("m");
        let (path, mut model) = large(&mount, "f", 1);
        let Some(file) = reader(&mount, &path) else { return };
        let both = writer(&path);
        let mapped = Mapping::writable(&both, LARGE);
        mapped.put(5, b"first");
        model[5..10].copy_from_slice(b"first");
        assert!(read_all(&file) == model && test.get("f").as_ref() == Some(&model));
        let open = snapshot(test, "open-1");
        mapped.put(5, b"later");
        assert!(get_of(test, &open, "f") == model, "with the handle open");
        model[5..10].copy_from_slice(b"later");
        drop((both, file));
        mapped.put(50_000, b"closed");
        model[50_000..50_006].copy_from_slice(b"closed");
        assert!(test.get("f").as_ref() == Some(&model), "what is written after the close is there");
        let closed = snapshot(test, "closed-1");
        mapped.put(5, b"third");
        mapped.sync();
        assert!(get_of(test, &closed, "f") == model, "with the handle closed");
        model[5..10].copy_from_slice(b"third");
        assert!(fs::read(&path).unwrap() == model && test.get("f").as_ref() == Some(&model));
        OpenOptions::new().write(true).open(&path).unwrap().write_all_at(b"server", 100).unwrap();
        assert_eq!(mapped.get(100, 6), b"server");
        drop(mapped);
        model[100..106].copy_from_slice(b"server");
        assert!(fs::read(&path).unwrap() == model);
    });
}

#[test]
fn what_a_mapping_writes_is_another_object() {
    run(|test| {
        let mount = test.mount("m");
        let (path, _) = large(&mount, "f", 1);
        let Some(_file) = reader(&mount, &path) else { return };
        let mapped = Mapping::writable(&writer(&path), LARGE);
        let tag = || test.store().head_object(test.bucket(), &"f".parse().unwrap(), None).unwrap();
        let mut tags = vec![tag().etag];
        for round in 0..5u8 {
            tick();
            mapped.put(7, &[round]);
            let now = tag();
            assert!(!tags.contains(&now.etag), "round {round}");
            assert_eq!(tag().etag, now.etag, "reading changes no tag");
            tags.push(now.etag);
        }
    });
}

#[test]
fn copies_through_s3_are_copies() {
    run(|test| {
        let mount = test.mount("m");
        let (path, before) = large(&mount, "f", 1);
        let Some(file) = reader(&mount, &path) else { return };
        let copy = CopyObject {
            storage_class: None,
            website_redirect: None,
            source_bucket: test.bucket().clone(),
            source_key: "f".parse().unwrap(),
            source_version: None,
            source_condition: Default::default(),
            bucket: test.bucket().clone(),
            key: "copy".parse().unwrap(),
            metadata: Directive::Copy,
            tags: Directive::Copy,
            checksums: None,
            lock: Default::default(),
            access: Default::default(),
            condition: Default::default(),
        };
        test.wait(test.store().copy_object(copy)).unwrap();
        writer(&path).write_all_at(b"changed", 3).unwrap();
        let mut model = before.clone();
        model[3..10].copy_from_slice(b"changed");
        assert!(read_all(&file) == model && test.get("copy") == Some(before));
    });
}

#[test]
fn what_s3_wrote_is_compared_before_it_is_read_past_the_server() {
    run(|test| {
        let mount = test.mount("m");
        let (path, content) = large(&mount, "probe", 1);
        if reader(&mount, &path).is_none() {
            return;
        }
        test.put("sound", &content);
        let path = mount.path().join("sound");
        let start = Instant::now();
        while past(&mount, &path).is_none() {
            assert!(fs::read(&path).unwrap() == content && start.elapsed() < Duration::from_secs(20));
        }
        let content = pattern(LARGE, 2);
        test.put("damaged", &content);
        damage(&test.folder("data"), &content);
        for round in 0..20 {
            let file = File::open(mount.path().join("damaged")).unwrap();
            assert_eq!(errno(file.read_at(&mut [0; 4096], 0)), libc::EIO, "round {round}");
            std::thread::sleep(Duration::from_millis(10));
        }
    });
}

/// Changes a byte of the blob file that holds `content`.
fn damage(data: &Path, content: &[u8]) {
    let shards = fs::read_dir(data.join("content/blobs")).unwrap().flatten();
    let mut files = shards.flat_map(|shard| fs::read_dir(shard.path()).unwrap().flatten()).map(|entry| entry.path());
    let holds = |path: &PathBuf| fs::read(path).is_ok_and(|held| held == content);
    writer(&files.find(holds).unwrap()).write_all_at(&[content[100] ^ 1], 100).unwrap();
}

#[test]
fn no_open_ever_fails_for_its_mode() {
    run(|test| {
        let mount = test.mount("m");
        let paths: Vec<PathBuf> = (0..4).map(|number| large(&mount, &format!("f{number}"), number).0).collect();
        let end = Instant::now() + Duration::from_secs(10);
        std::thread::scope(|scope| {
            for thread in 0..8u64 {
                let paths = &paths;
                scope.spawn(move || open_and_close(paths, Rng(thread + 1), end));
            }
        });
        for path in &paths {
            assert!(fs::read(path).is_ok());
        }
    });
}

/// Opens files in random ways until `end`, and keeps some of them open for a while.
fn open_and_close(paths: &[PathBuf], mut rng: Rng, end: Instant) {
    let mut open: Vec<File> = Vec::new();
    while Instant::now() < end {
        let path = &paths[rng.below(paths.len())];
        let how = rng.below(8);
        let mut options = OpenOptions::new();
        match how {
            0..4 => options.read(true),
            4 => options.write(true),
            5 => options.read(true).write(true),
            6 => options.append(true),
            _ => options.read(true).custom_flags(libc::O_DIRECT),
        };
        let file = options.open(path).unwrap();
        match how {
            0..4 => drop(file.read_at(&mut [0; 100], rng.below(LARGE) as u64).unwrap()),
            4..6 => file.write_all_at(&pattern(5_000, how as u8), rng.below(LARGE) as u64).unwrap(),
            _ => {}
        }
        if rng.below(50) == 0 && how == 4 {
            file.set_len(rng.below(LARGE * 2) as u64).unwrap();
        }
        open.push(file);
        while open.len() > rng.below(6) {
            drop(open.swap_remove(rng.below(open.len())));
        }
    }
}
