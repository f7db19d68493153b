//! The promises of [`Passthrough`], tested through its own methods: a store's metadata and blobs, no bucket and no
//! tree.

use std::fs::File as OsFile;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use objstore_files::Released;
use prost::Message;
use tempfile::TempDir;

use super::duplicate::Duplicate;
use super::*;
use crate::blob::{self, Blobs};
use crate::blob_records::put_blob;
use crate::clock::{SystemClock, SystemRandom};
use crate::disk::{Disk, RealDisk};
use crate::meta::{Durability, Meta, memory};
use crate::record::blob::{Blob, SUMS_PER_RECORD, Sums};
use crate::record::inode::{BlobContent, Content, Extent, Inode};
use crate::record::key::{self, tag};

const KIB: usize = 1 << 10;
const MINE: Owner = (7, 20);
const OTHER: Owner = (8, 20);
const MOUNT: u64 = 1;

/// The storage of a process, with passthrough on it.
struct Process {
    folder: TempDir,
    storage: Arc<Storage>,
    passthrough: Arc<Passthrough>,
}

fn storage(folder: &Path, meta: Meta, life: u32) -> Arc<Storage> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let options = blob::Options { helpers: blob::Helpers::Callers, ..blob::Options::default() };
    let blobs = Blobs::open(disk.clone(), &folder.join("content"), life, meta.poison(), options).unwrap();
    Arc::new(Storage {
        meta,
        blobs,
        watermark: Arc::default(),
        _lock: disk.lock(&folder.join("lock")).unwrap(),
        disk,
        dir: folder.to_owned(),
        clock: Arc::new(SystemClock),
        random: Arc::new(SystemRandom),
        life,
    })
}

impl Process {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self::on(storage(folder.path(), Meta::new(memory::open().unwrap()), 1), folder)
    }

    fn on(storage: Arc<Storage>, folder: TempDir) -> Self {
        let passthrough = Arc::new(Passthrough::new(storage.clone(), Arc::default()));
        Self { folder, storage, passthrough }
    }

    /// The next process on the same folder and metadata.
    fn next(self) -> Self {
        let Self { folder, storage: before, passthrough } = self;
        let (meta, life) = (before.meta.clone(), before.life + 1);
        drop((passthrough, before));
        Self::on(storage(folder.path(), meta, life), folder)
    }

    fn write<T: Send + 'static>(&self, change: impl FnOnce(&mut dyn crate::meta::Txn) -> T + Send + 'static) -> T {
        self.storage.meta.transact(Durability::Buffered, move |txn| Ok(change(txn))).unwrap()
    }

    /// A blob of these bytes with so many references, as a mount writes it.
    fn blob(&self, content: &[u8], refs: u32) -> BlobId {
        let id = self.storage.blobs.next_id();
        self.storage.blobs.create_file(id).unwrap().write_at(content, 0).unwrap();
        self.write(move |txn| put_blob(txn, id.0, &Blob { refs, length: 0, packed: None, sums: false }));
        id
    }

    /// A blob of these bytes with checksums, as S3 writes it.
    fn stored(&self, content: &[u8]) -> BlobId {
        let mut writer = self.storage.blobs.writer().unwrap();
        writer.write(content).unwrap();
        let blob::Finished { id, length, sums } = writer.finish().unwrap();
        self.write(move |txn| {
            put_blob(txn, id.0, &Blob { refs: 1, length, packed: None, sums: true });
            for (index, crc) in (0..).zip(sums.chunks(SUMS_PER_RECORD)) {
                txn.put(key::sums(id.0, index), Sums { crc: crc.to_vec() }.encode_to_vec());
            }
        });
        id
    }

    fn open(&self, owner: Owner, blob: BlobId, size: u64) -> Option<Arc<dyn File>> {
        self.passthrough.open(owner, MOUNT, &WholeBlob { blob, size, own: true }).unwrap()
    }

    fn file_ids(&self) -> Vec<BlobId> {
        let mut ids = self.storage.blobs.file_ids().unwrap();
        ids.sort_unstable_by_key(|id| id.0);
        ids
    }

    fn content(&self, blob: BlobId, len: usize) -> Vec<u8> {
        self.storage.blobs.read_file(blob, 0, len).unwrap().to_vec()
    }

    /// Waits until the comparisons under way have ended.
    fn compared(&self) {
        let begun = Instant::now();
        while !self.passthrough.is_idle() {
            assert!(begun.elapsed() < Duration::from_secs(30), "a comparison does not end");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Another opening of a blob's file, which keeps it in use as a mapping does.
fn mapping(file: &Arc<dyn File>) -> OsFile {
    let path = format!("/proc/self/fd/{}", file.raw().unwrap().as_raw_fd());
    OsFile::options().read(true).write(true).open(path).unwrap()
}

/// File times may change only with the system's clock ticks.
fn tick() {
    std::thread::sleep(Duration::from_millis(20));
}

#[test]
fn an_open_blob_is_exactly_as_long_as_its_file() {
    let process = Process::new();
    let blob = process.blob(&[1; 9 * KIB], 1);
    let longer = |own| WholeBlob { blob, size: 8 * KIB as u64, own };
    assert!(process.passthrough.open(MINE, MOUNT, &longer(false)).unwrap().is_none(), "another view may read it");
    assert_eq!(process.passthrough.open(MINE, MOUNT, &longer(true)).unwrap().unwrap().len().unwrap(), 8 * KIB as u64);
    let hole = process.blob(&[1; KIB], 1);
    assert_eq!(process.open(OTHER, hole, 3 * KIB as u64).unwrap().len().unwrap(), 3 * KIB as u64);
}

#[test]
fn a_blob_is_open_for_one_file_until_it_is_released() {
    let process = Process::new();
    let blob = process.blob(&[1; KIB], 1);
    assert!(process.open(MINE, blob, KIB as u64).is_some() && process.open(MINE, blob, KIB as u64).is_some());
    assert!(process.open(OTHER, blob, KIB as u64).is_none());
    let whole = WholeBlob { blob, size: KIB as u64, own: true };
    assert!(matches!(process.passthrough.reopen(OTHER, MOUNT, &whole), Err(Error::Busy { .. })));
    assert_eq!((process.passthrough.blob(MINE), process.passthrough.blob(OTHER)), (Some(blob), None));
    assert_eq!(process.passthrough.release(MINE, MOUNT), Released::Done);
    assert!(process.open(OTHER, blob, KIB as u64).is_some());
    process.passthrough.release_all(MOUNT);
    assert_eq!(process.passthrough.blob(OTHER), None);
}

#[test]
fn content_with_another_reference_is_not_opened() {
    let process = Process::new();
    let shared = process.blob(&[1; KIB], 2);
    assert!(process.open(MINE, shared, KIB as u64).is_none());
    assert_eq!(process.passthrough.blob(MINE), None, "the refused opening leaves nothing");
    let blob = process.blob(&[1; KIB], 1);
    let Reference::Own(sharing) = process.passthrough.refer(blob.0) else { panic!("no program has it") };
    assert!(process.open(MINE, blob, KIB as u64).is_none(), "it is about to get a reference");
    drop(sharing);
    assert!(process.open(MINE, blob, KIB as u64).is_some());
}

#[test]
fn a_reference_to_open_content_gets_a_copy_made_before() {
    let process = Process::new();
    let blob = process.blob(&[5; 70 * KIB], 1);
    let never = || -> Result<Vec<u64>> { panic!("no file is open") };
    drop(process.passthrough.prepare(never).unwrap());
    process.open(MINE, blob, 70 * KIB as u64).unwrap();
    assert!(matches!(process.passthrough.refer(blob.0), Reference::Missing));
    let files = process.file_ids();
    drop(process.passthrough.prepare(|| Ok(vec![blob.0])).unwrap());
    assert_eq!(process.file_ids(), files, "an unused copy is removed");
    let prepared = process.passthrough.prepare(|| Ok(vec![blob.0])).unwrap();
    let Reference::Copy(copy) = process.passthrough.refer(blob.0) else { panic!("a copy was prepared") };
    let copy = process.write(move |txn| copy.name(txn));
    drop(prepared);
    assert_ne!(copy, blob);
    assert_eq!(process.content(copy, 70 * KIB), [5; 70 * KIB]);
}

#[test]
fn a_mapping_keeps_a_file_registered_after_its_last_handle() {
    let process = Process::new();
    let blob = process.blob(&[1; KIB], 1);
    let file = process.open(MINE, blob, KIB as u64).unwrap();
    let mapped = mapping(&file);
    assert_eq!(process.passthrough.release(MINE, MOUNT), Released::Mapped);
    assert!(process.open(OTHER, blob, KIB as u64).is_none(), "the mapping shows the file");
    drop(mapped);
    assert_eq!(process.passthrough.blob(MINE), None);
}

#[test]
fn writes_through_a_mapping_are_reported_once() {
    let process = Process::new();
    let blob = process.blob(&[1; KIB], 1);
    let file = process.open(MINE, blob, KIB as u64).unwrap();
    assert!(process.passthrough.expose(MINE, file.modified().unwrap()));
    assert!(!process.passthrough.expose(MINE, file.modified().unwrap()), "it is exposed already");
    assert_eq!(process.passthrough.written(MINE).unwrap(), None);
    tick();
    mapping(&file).write_all_at(b"past", 3).unwrap();
    let written = process.passthrough.written(MINE).unwrap();
    assert_eq!(written, process.passthrough.modified(MINE).map(Into::into));
    assert!(written.is_some() && process.passthrough.written(MINE).unwrap().is_none());
    assert_eq!(process.passthrough.mapped_writable_of(MINE.0), [MINE.1]);
    assert_eq!(process.passthrough.mapped_writable_of(OTHER.0), Vec::<u64>::new());
    process.passthrough.forget(blob);
    assert!(!process.passthrough.is_mapped_writable(MINE), "its blob is gone");
}

#[test]
fn the_next_process_counts_what_a_mapping_wrote_and_removes_the_mark() {
    let process = Process::new();
    let blob = process.blob(&[1; KIB], 1);
    let file = process.open(MINE, blob, KIB as u64).unwrap();
    process.passthrough.expose(MINE, file.modified().unwrap());
    process.write(move |txn| mark_mapped_writable(txn, MINE, blob));
    let mapped = mapping(&file);
    drop(file);
    let process = process.next();
    process.passthrough.recover(|_| panic!("the mark is readable")).unwrap();
    assert_eq!(process.passthrough.blob(MINE), Some(blob));
    let counted = parking_lot::Mutex::new(Vec::new());
    let count = |owner| {
        counted.lock().push(process.passthrough.written(owner)?.is_some());
        Ok(())
    };
    process.passthrough.sweep(count).unwrap();
    assert!(counted.lock().is_empty() && process.passthrough.is_mapped_writable(MINE), "a program has it mapped");
    drop(mapped);
    process.passthrough.sweep(count).unwrap();
    assert_eq!(*counted.lock(), [true], "nothing tells that it was not written");
    assert!(!process.passthrough.is_mapped_writable(MINE));
    let marks = crate::scan::all(&*process.storage.meta.snapshot(), &[tag::MAPPED_WRITABLE]).unwrap();
    assert!(marks.is_empty());
}

#[test]
fn content_is_opened_once_it_was_compared_and_never_when_it_is_damaged() {
    let process = Process::new();
    let content = vec![3; 200 * KIB];
    let (sound, damaged) = (process.stored(&content), process.stored(&content));
    process.storage.blobs.file(damaged).unwrap().write_at(b"x", 100).unwrap();
    for blob in [sound, damaged] {
        assert!(!process.passthrough.is_verified(blob.0), "nothing waits for the comparison");
    }
    process.compared();
    assert!(process.passthrough.is_verified(sound.0) && !process.passthrough.is_verified(damaged.0));
}

/// Two branches that refer to a blob as a whole, and an older one by an extent.
fn viewed(process: &Process, blob: BlobId) -> View {
    let whole = Inode { content: Some(Content::Blob(BlobContent { id: blob.0, in_place: false })), ..Inode::default() };
    process.write(move |txn| {
        for branch in [3, 5] {
            txn.put(key::branched(&key::inode(1, 20), branch), whole.encode_to_vec());
        }
        let extent = Extent { blob: blob.0, blob_offset: 0, length: 10 };
        txn.put(key::branched(&key::extent(1, 20, 0), 8), extent.encode_to_vec());
    });
    View { clone_group: 1, ino: 20, branch: 3, has_own: true }
}

fn kept(process: &Process, view: View, blob: BlobId) -> Result<Option<BlobId>> {
    let (_, DetachedCopy { copy, .. }) = process.passthrough.copy_of(view.ino, blob).unwrap();
    process.storage.meta.transact(Durability::Buffered, move |txn| view.keep(txn, blob, copy))
}

#[test]
fn every_other_view_gets_the_copy_when_one_keeps_the_blob() {
    let process = Process::new();
    let blob = process.blob(&[4; KIB], 3);
    let view = viewed(&process, blob);
    let copy = kept(&process, view, blob).unwrap().expect("two others refer to it");
    let snapshot = process.storage.meta.snapshot();
    let refers = |base: Vec<u8>, branch| snapshot.get(&key::branched(&base, branch)).unwrap().unwrap();
    let inode = |branch| Inode::decode(refers(key::inode(1, 20), branch)).unwrap();
    assert!(is_content(&inode(3), blob) && is_content(&inode(5), copy));
    assert_eq!(Extent::decode(refers(key::extent(1, 20, 0), 8)).unwrap().blob, copy.0);
    let refs = |blob: BlobId| blob_record(&*snapshot, blob.0).unwrap().refs;
    assert_eq!((refs(blob), refs(copy)), (1, 2));
    assert_eq!(process.content(copy, KIB), [4; KIB]);
}

#[test]
fn a_blob_with_unknown_references_is_damage_and_stays() {
    let process = Process::new();
    let blob = process.blob(&[4; KIB], 4);
    let (view, files) = (viewed(&process, blob), process.file_ids());
    assert!(matches!(kept(&process, view, blob), Err(Error::Corrupt { .. })));
    assert_eq!(blob_record(&*process.storage.meta.snapshot(), blob.0).unwrap().refs, 4);
    assert_eq!(process.file_ids(), files, "the copy is removed");
}

#[test]
fn a_dropped_copy_leaves_no_file() {
    let process = Process::new();
    let blob = process.blob(&[4; KIB], 1);
    let files = process.file_ids();
    let file = process.storage.blobs.file(blob).unwrap();
    drop(Duplicate::of(&process.storage.blobs, &*file).unwrap());
    assert_eq!(process.file_ids(), files);
}
