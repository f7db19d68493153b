//! Content in a bucket: what was synced is there when the data folder is gone, the server was killed, or requests failed.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use bytes::Bytes;
use objstore_base::error::Error;
use objstore_bucket::{Keys, Location, Options as BucketOptions, Patience};
use objstore_disk::{File, Poison, RealDisk};
use objstore_testing::faulty::FaultyDisk;
use objstore_testing::random::Choices;
use objstore_testing::s3::{BUCKET, FakeS3, Fault};
use std::time::Duration;

use super::*;
use crate::{BlobId, Blobs, Helpers, Options};

/// The records in memory.
#[derive(Default)]
struct Records {
    files: Mutex<HashMap<BlobId, Recorded>>,
    fails: AtomicBool,
}

#[derive(Default, Clone)]
struct Recorded {
    head: FileHead,
    chunks: BTreeMap<u32, ChunkAt>,
    patches: BTreeMap<(u32, u32), Patch>,
}

impl Places for Records {
    fn load(&self, blob: BlobId) -> Result<Option<Saved>> {
        let saved = |file: &Recorded| Saved {
            head: file.head,
            chunks: file.chunks.iter().map(|(index, at)| (*index, *at)).collect(),
            patches: file
                .patches
                .iter()
                .map(|((chunk, number), patch)| (*chunk, *number, patch.bytes.len() as u32))
                .collect(),
        };
        Ok(self.files.lock().get(&blob).map(saved))
    }

    fn patches(&self, blob: BlobId, chunk: u32) -> Result<Vec<Patch>> {
        let files = self.files.lock();
        Ok(files
            .get(&blob)
            .into_iter()
            .flat_map(|file| file.patches.range((chunk, 0)..=(chunk, u32::MAX)))
            .map(|(_, patch)| patch.clone())
            .collect())
    }

    fn save(&self, changes: Vec<Change>) -> Result<()> {
        if self.fails.load(Relaxed) {
            return Err(Error::Poisoned { why: "the log belongs to another owner".into() });
        }
        let mut files = self.files.lock();
        for change in changes {
            let file = files.entry(change.blob).or_default();
            file.head = change.head;
            if let Some(cut) = change.cut {
                file.chunks.retain(|index, _| *index < cut);
                file.patches.retain(|(index, _), _| *index < cut);
            }
            for (index, at) in change.chunks {
                file.patches.retain(|(chunk, _), _| *chunk != index);
                file.chunks.insert(index, at);
            }
            for patch in change.patches {
                file.patches.insert((patch.chunk, patch.number), patch);
            }
        }
        Ok(())
    }

    fn forget(&self, blob: BlobId) {
        self.files.lock().remove(&blob);
    }

    fn ids(&self) -> Result<Vec<BlobId>> {
        Ok(self.files.lock().keys().copied().collect())
    }

    fn objects(&self) -> Result<HashSet<u64>> {
        Ok(self.files.lock().values().flat_map(|file| file.chunks.values().map(|at| at.object)).collect())
    }
}

struct Scene {
    server: FakeS3,
    records: Arc<Records>,
    poison: Poison,
}

impl Scene {
    fn new() -> Self {
        Self { server: FakeS3::start(), records: Arc::default(), poison: Poison::default() }
    }

    fn try_open(&self, dir: &Path, epoch: u32, cache_bytes: u64) -> Result<Blobs> {
        self.try_open_as(dir, (epoch, cache_bytes), epoch - 1, epoch)
    }

    /// Opens it under the name `opening`, where the metadata knows the opening `last`.
    fn try_open_as(&self, dir: &Path, sizes: (u32, u64), last: u32, opening: u32) -> Result<Blobs> {
        self.try_open_on(Arc::new(RealDisk::new()), dir, sizes, (last, opening))
    }

    fn try_open_on(
        &self,
        disk: Arc<dyn Disk>,
        dir: &Path,
        (epoch, cache_bytes): (u32, u64),
        (last, opening): (u32, u32),
    ) -> Result<Blobs> {
        let location = Location::parse(&format!("s3://{BUCKET}/store")).unwrap();
        let second = Duration::from_secs(1);
        let patience = Patience { connect: second, attempt: second, call: 3 * second, attempts: 2 };
        let keys = Some(Keys { id: "A".into(), secret: "S".into() });
        let bucket = Bucket::open(BucketOptions {
            endpoint: Some(self.server.endpoint()),
            keys,
            patience,
            ..BucketOptions::new(location)
        });
        let name = |number: u32| Opening::from(u128::from(number).to_be_bytes());
        let (last_epoch, last_opening, opening) = (epoch - 1, Some(name(last)), Some(name(opening)));
        let (bucket, places) = (bucket.unwrap(), self.records.clone());
        let remote = Remote { bucket, places, cache_bytes, last_epoch, last_opening, opening };
        let options = Options { helpers: Helpers::Callers, ..Options::default() };
        Blobs::open_remote(disk, dir, epoch, self.poison.clone(), options, remote)
    }

    fn open(&self, dir: &Path, epoch: u32) -> Blobs {
        self.try_open(dir, epoch, 1 << 30).unwrap()
    }
}

fn bytes(len: usize, seed: u8) -> Bytes {
    (0..len).map(|at| (at * 31 % 251) as u8 ^ seed).collect::<Vec<_>>().into()
}

fn read(file: &dyn File) -> Vec<u8> {
    let mut all = vec![0xee; file.len().unwrap() as usize + 10];
    let count = file.read_at(&mut all, 0).unwrap();
    all.truncate(count);
    all
}

#[test]
fn large_and_small_content_outlives_the_data_folder() {
    let scene = Scene::new();
    let dir = tempfile::tempdir().unwrap();
    let blobs = scene.open(dir.path(), 1);
    let content = bytes(3 << 20, 7);
    let mut writer = blobs.writer().unwrap();
    content.chunks(100_000).for_each(|piece| writer.write(piece).unwrap());
    let large = writer.finish().unwrap();
    let small = blobs.next_id();
    let packed = blobs.append(small, bytes(5000, 1)).wait().unwrap();
    let other = blobs.append(blobs.next_id(), bytes(9000, 2)).wait().unwrap();
    assert_ne!(packed.segment, other.segment, "an object does not grow");
    drop(blobs);
    let fresh = tempfile::tempdir().unwrap();
    let blobs = scene.open(fresh.path(), 2);
    let sums = |range: std::ops::Range<usize>| Ok(large.sums[range].to_vec());
    assert_eq!(
        blobs.read_verified(large.id, 1_000_000, 700_000, large.length, &sums).unwrap(),
        content.slice(1_000_000..1_700_000)
    );
    assert_eq!(blobs.read_packed(small, packed.segment, packed.offset, packed.length).unwrap(), bytes(5000, 1));
    assert_eq!(blobs.segments().unwrap().len(), 2);
    assert_eq!(blobs.scan_segment(packed.segment).unwrap()[0].id, small);
    blobs.remove_file(large.id).unwrap();
    blobs.remove_segment(other.segment).unwrap();
    blobs.tend().unwrap();
    assert_eq!(scene.server.objects().len(), 1);
}

#[test]
fn synced_writes_in_place_outlive_the_data_folder_and_others_the_process() {
    let scene = Scene::new();
    let dir = tempfile::tempdir().unwrap();
    let blobs = scene.open(dir.path(), 1);
    let (id, file) = blobs.new_in_place().unwrap();
    file.write_at(&bytes(2_000_000, 3), 0).unwrap();
    blobs.mark_dirty(id);
    blobs.sync_file(id).unwrap();
    let objects = scene.server.objects().len();
    assert_eq!(objects, 4, "one object for each chunk");
    file.write_at(&[9; 8192], 700_000).unwrap();
    blobs.mark_dirty(id);
    blobs.sync_file(id).unwrap();
    assert_eq!(scene.server.objects().len(), objects, "a few bytes go into the metadata");
    let mut expected = bytes(2_000_000, 3).to_vec();
    expected[700_000..708_192].fill(9);
    file.write_at(&[5; 100], 2_000_000).unwrap();
    let unsynced = [&expected[..], &[5; 100]].concat();
    drop((file, blobs));
    let reopened = scene.open(dir.path(), 2);
    assert_eq!(read(&*reopened.file(id).unwrap()), unsynced, "the machine lives, and nobody else had the store");
    drop(reopened);
    let elsewhere = tempfile::tempdir().unwrap();
    let taken_over = scene.open(elsewhere.path(), 3);
    assert_eq!(read(&*taken_over.file(id).unwrap()), expected);
    drop(taken_over);
    let back = scene.open(dir.path(), 4);
    assert_eq!(read(&*back.file(id).unwrap()), expected, "another owner had the store meanwhile");
}

#[test]
fn a_start_that_is_killed_anywhere_loses_nothing_of_the_folder_and_believes_no_older_one() {
    let scene = Scene::new();
    let dir = tempfile::tempdir().unwrap();
    let open = |dir: &Path, epoch, last, opening| scene.try_open_as(dir, (epoch, 1 << 30), last, opening).unwrap();
    let blobs = open(dir.path(), 1, 100, 101);
    let (id, file) = blobs.new_in_place().unwrap();
    file.write_at(&bytes(1000, 1), 0).unwrap();
    blobs.mark_dirty(id);
    blobs.sync_file(id).unwrap();
    file.write_at(&bytes(1000, 2), 0).unwrap();
    blobs.mark_dirty(id);
    drop((blobs, file));
    // Two starts are killed before the metadata knows them, and two after it does.
    for (last, opening) in [(101, 102), (101, 103), (101, 104), (104, 105), (105, 106)] {
        let blobs = open(dir.path(), 2, last, opening);
        assert_eq!(read(&*blobs.file(id).unwrap()), bytes(1000, 2), "opening {opening}");
    }
    // Another server opens the store: what this folder did not save is older than what that one may have written.
    drop(open(tempfile::tempdir().unwrap().path(), 2, 106, 107));
    let blobs = open(dir.path(), 3, 107, 108);
    assert_eq!(read(&*blobs.file(id).unwrap()), bytes(1000, 1));
}

#[test]
fn an_object_that_becomes_a_file_keeps_what_is_not_overwritten() {
    let scene = Scene::new();
    let dir = tempfile::tempdir().unwrap();
    let blobs = scene.open(dir.path(), 1);
    let mut expected = bytes(1_500_000, 4).to_vec();
    let mut writer = blobs.writer().unwrap();
    writer.write(&expected).unwrap();
    let id = writer.finish().unwrap().id;
    drop(blobs);
    let fresh = tempfile::tempdir().unwrap();
    let blobs = scene.open(fresh.path(), 2);
    let file = blobs.file(id).unwrap();
    file.write_at(&[1; 10], 600_000).unwrap();
    expected[600_000..600_010].fill(1);
    file.set_len(1_200_000).unwrap();
    file.set_len(1_400_000).unwrap();
    expected.truncate(1_200_000);
    expected.resize(1_400_000, 0);
    assert_eq!(read(&*file), expected);
    blobs.mark_dirty(id);
    blobs.sync_dirty().unwrap();
    drop((file, blobs));
    let third = tempfile::tempdir().unwrap();
    let blobs = scene.open(third.path(), 3);
    assert_eq!(read(&*blobs.file(id).unwrap()), expected);
    blobs.remove_file(id).unwrap();
    blobs.tend().unwrap();
    assert!(scene.server.objects().is_empty() && scene.records.ids().unwrap().is_empty());
}

#[test]
fn a_bucket_that_fails_loses_nothing_and_poisons_nothing() {
    let scene = Scene::new();
    let dir = tempfile::tempdir().unwrap();
    let blobs = scene.open(dir.path(), 1);
    let (id, file) = blobs.new_in_place().unwrap();
    file.write_at(&bytes(1_000_000, 3), 0).unwrap();
    blobs.mark_dirty(id);
    scene.server.fail(|_| Some(Fault::Status(503)));
    let error = blobs.sync_file(id).unwrap_err();
    assert!(objstore_base::error::with_source(&error).contains("SlowDown"), "{error:?}");
    blobs.sync_dirty().unwrap_err();
    blobs.append(blobs.next_id(), bytes(5000, 1)).wait().unwrap_err();
    let mut writer = blobs.writer().unwrap();
    writer.write(&bytes(300_000, 1)).unwrap();
    writer.finish().unwrap_err();
    assert_eq!((blobs.poisoned(), read(&*file).len()), (None, 1_000_000));
    scene.server.heal();
    scene.records.fails.store(true, Relaxed);
    blobs.sync_file(id).unwrap_err();
    scene.records.fails.store(false, Relaxed);
    blobs.sync_file(id).unwrap();
    assert_eq!(blobs.remote_stats().unwrap().behind_bytes, 0);
    let fresh = tempfile::tempdir().unwrap();
    drop((file, blobs));
    assert_eq!(read(&*scene.open(fresh.path(), 2).file(id).unwrap()), bytes(1_000_000, 3));
}

#[test]
fn a_full_local_disk_is_enospc_and_costs_nothing_that_the_bucket_has() {
    let scene = Scene::new();
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(FaultyDisk::default());
    let open = |epoch| scene.try_open_on(disk.clone(), dir.path(), (epoch, 1 << 30), (epoch - 1, epoch)).unwrap();
    let blobs = open(1);
    let (id, file) = blobs.new_in_place().unwrap();
    let mut expected = bytes(2_000_000, 6).to_vec();
    file.write_at(&expected, 0).unwrap();
    blobs.mark_dirty(id);
    blobs.sync_file(id).unwrap();
    blobs.forget_cached(id, 0, u64::MAX).unwrap();
    file.write_at(&[1; 10], 1_900_000).unwrap();
    expected[1_900_000..1_900_010].fill(1);
    let full = |is_full| disk.faults.fail_writes.store(is_full, Relaxed);
    full(true);
    for (len, offset) in [(CHUNK_BYTES as usize, 0), (10, CHUNK_BYTES + 5)] {
        let Err(Error::Io { source, .. }) = file.write_at(&vec![2; len], offset) else { panic!("{len} bytes") };
        assert_eq!(source.raw_os_error(), Some(rustix::io::Errno::NOSPC.raw_os_error()), "{len} bytes");
    }
    assert!(read(&*file) == expected, "it can be read");
    full(false);
    assert!(read(&*file) == expected);
    drop((file, blobs));
    assert!(read(&*open(2).file(id).unwrap()) == expected, "after a kill");
}

#[test]
fn wrong_answers_are_never_content() {
    let scene = Scene::new();
    let dir = tempfile::tempdir().unwrap();
    let blobs = scene.open(dir.path(), 1);
    let mut writer = blobs.writer().unwrap();
    writer.write(&bytes(600_000, 5)).unwrap();
    let large = writer.finish().unwrap();
    drop(blobs);
    let fresh = tempfile::tempdir().unwrap();
    let blobs = scene.open(fresh.path(), 2);
    let sums = |range: std::ops::Range<usize>| Ok(large.sums[range].to_vec());
    let get = || blobs.read_verified(large.id, 0, 600_000, large.length, &sums);
    for fault in [Fault::ChangeByte, Fault::Shorten, Fault::CutBody] {
        scene.server.fail(move |seen| (seen.method == "GET").then_some(fault));
        get().unwrap_err();
        scene.server.heal();
        blobs.forget_cached(large.id, 0, 600_000).unwrap();
    }
    assert_eq!(get().unwrap(), bytes(600_000, 5));
}

#[test]
fn what_no_record_names_is_removed_and_nothing_else() {
    let scene = Scene::new();
    let dir = tempfile::tempdir().unwrap();
    let blobs = scene.open(dir.path(), 1);
    let large = |seed| {
        let mut writer = blobs.writer().unwrap();
        writer.write(&bytes(300_000, seed)).unwrap();
        writer.finish().unwrap().id
    };
    let (named, unnamed) = (large(1), large(2));
    let (id, file) = blobs.new_in_place().unwrap();
    file.write_at(&bytes(600_000, 1), 0).unwrap();
    blobs.mark_dirty(id);
    blobs.sync_file(id).unwrap();
    file.write_at(&bytes(600_000, 2), 0).unwrap();
    blobs.mark_dirty(id);
    // The objects of this save are there, and the records are refused.
    scene.records.fails.store(true, Relaxed);
    blobs.sync_file(id).unwrap_err();
    scene.records.fails.store(false, Relaxed);
    drop((file, blobs));
    let fresh = tempfile::tempdir().unwrap();
    let blobs = scene.open(fresh.path(), 2);
    let mut writer = blobs.writer().unwrap();
    writer.write(&bytes(300_000, 3)).unwrap();
    let own = writer.finish().unwrap().id;
    scene.server.keep_listing(true);
    assert_eq!(scene.server.objects().len(), 3 + 4);
    assert_eq!(blobs.collect_unnamed(&|id| Ok(id == named)).unwrap(), 3, "the unnamed blob and two chunks");
    assert_eq!(blobs.collect_unnamed(&|id| Ok(id == named)).unwrap(), 3, "an old listing does no harm");
    let keys: Vec<String> = scene.server.objects().into_keys().collect();
    assert!(keys.contains(&format!("store/blobs/{named}")) && keys.contains(&format!("store/blobs/{own}")), "{keys:?}");
    assert!(!keys.contains(&format!("store/blobs/{unnamed}")));
    assert_eq!(read(&*blobs.file(id).unwrap()), bytes(600_000, 1));
}

#[test]
fn metadata_that_is_older_than_the_content_is_refused() {
    let scene = Scene::new();
    let dir = tempfile::tempdir().unwrap();
    scene.open(dir.path(), 5).append(BlobId(5 << 32 | 9), bytes(5000, 1)).wait().unwrap();
    let older = scene.try_open(dir.path(), 4, 1 << 30).err().unwrap();
    assert!(older.to_string().contains("later opening"), "{older}");
    scene.open(dir.path(), 6);
}

#[test]
fn the_cache_is_bounded_and_what_was_dropped_is_got_again() {
    let scene = Scene::new();
    let dir = tempfile::tempdir().unwrap();
    let blobs = scene.try_open(dir.path(), 1, 4 << 20).unwrap();
    let ids: Vec<BlobId> = (0..6)
        .map(|seed| {
            let (id, file) = blobs.new_in_place().unwrap();
            file.write_at(&bytes(2 << 20, seed), 0).unwrap();
            blobs.mark_dirty(id);
            blobs.sync_file(id).unwrap();
            blobs.tend().unwrap();
            id
        })
        .collect();
    let cached = blobs.remote_stats().unwrap().cached_bytes;
    assert!(cached <= 4 << 20, "{cached}");
    for (id, seed) in ids.iter().zip(0..) {
        assert!(read(&*blobs.file(*id).unwrap()) == bytes(2 << 20, seed), "{id}");
    }
    assert!(blobs.remote_stats().unwrap().misses > 0);
}

/// Random writes, cuts, holes, syncs, evictions, kills with and without the folder, and failing requests, against bytes in
/// memory.
fn random_run(seed: u64) {
    let mut random = Choices::with(seed);
    let scene = Scene::new();
    let mut dir = tempfile::tempdir().unwrap();
    let mut epoch = 1;
    let mut blobs = scene.try_open(dir.path(), epoch, 1 << 20).unwrap();
    let (id, mut file) = blobs.new_in_place().unwrap();
    blobs.mark_dirty(id);
    blobs.sync_file(id).unwrap();
    let (mut now, mut synced): (Vec<u8>, Vec<u8>) = (Vec::new(), Vec::new());
    let most = 1_800_000;
    for step in 0..60 {
        match random.below(12) {
            0..=4 => {
                let longest = if random.below(4) == 0 { 900_000 } else { 9000 };
                let (at, len) = (random.below(most), 1 + random.below(longest));
                let data = bytes(len, random.below(256) as u8);
                file.write_at(&data, at as u64).unwrap();
                now.resize(now.len().max(at + len), 0);
                now[at..at + len].copy_from_slice(&data);
                blobs.mark_dirty(id);
            }
            5 => {
                let len = random.below(most);
                file.set_len(len as u64).unwrap();
                now.resize(len, 0);
                blobs.mark_dirty(id);
            }
            6 => {
                let (at, len) = (random.below(most), random.below(700_000));
                file.punch(at as u64, len as u64).unwrap();
                let end = (at + len).min(now.len());
                if at < end {
                    now[at..end].fill(0);
                }
                blobs.mark_dirty(id);
            }
            7 | 8 => {
                if random.below(3) == 0 {
                    blobs.sync_dirty().unwrap();
                } else {
                    blobs.sync_file(id).unwrap();
                }
                synced.clone_from(&now);
            }
            9 => {
                let (count, fault) =
                    if random.below(2) == 0 { (6, Fault::Status(503)) } else { (1, Fault::LoseAnswer) };
                scene.server.fail_first(count, fault, |seen| seen.method == "PUT");
                if blobs.sync_file(id).is_ok() {
                    synced.clone_from(&now);
                }
                scene.server.heal();
                blobs.tend().unwrap();
                file.forget_cached(0, most as u64);
            }
            10 => {
                drop((file, blobs));
                epoch += 1;
                blobs = scene.try_open(dir.path(), epoch, 1 << 20).unwrap();
                file = blobs.file(id).unwrap();
            }
            _ => {
                drop((file, blobs));
                epoch += 1;
                dir = tempfile::tempdir().unwrap();
                blobs = scene.try_open(dir.path(), epoch, 1 << 20).unwrap();
                file = blobs.file(id).unwrap();
                now.clone_from(&synced);
            }
        }
        let found = read(&*file);
        assert!(found == now, "seed {seed}, step {step}: {} bytes, expected {}", found.len(), now.len());
    }
}

#[test]
fn random_writes_kills_and_failures_agree_with_memory() {
    for seed in 0..8 {
        random_run(seed);
    }
}

#[test]
fn writes_syncs_and_evictions_at_the_same_time_lose_nothing() {
    const REGION: usize = 700_000;
    let scene = Scene::new();
    let dir = tempfile::tempdir().unwrap();
    let blobs = scene.try_open(dir.path(), 1, 1 << 20).unwrap();
    let (id, file) = blobs.new_in_place().unwrap();
    file.set_len(3 * REGION as u64).unwrap();
    let done = AtomicBool::default();
    let regions = std::thread::scope(|scope| {
        let (blobs, file, done) = (&blobs, &file, &done);
        let writers: Vec<_> = (0..3)
            .map(|region| {
                scope.spawn(move || {
                    let (mut random, mut mine) = (Choices::with(region as u64), vec![0; REGION]);
                    for _ in 0..40 {
                        let at = random.below(REGION - 1);
                        let len = 1 + random.below((REGION - at).min(40_000));
                        let data = bytes(len, random.below(256) as u8);
                        file.write_at(&data, (region * REGION + at) as u64).unwrap();
                        mine[at..at + len].copy_from_slice(&data);
                        blobs.mark_dirty(id);
                        if random.below(4) == 0 {
                            blobs.sync_file(id).unwrap();
                        }
                        let mut seen = vec![0; len];
                        file.read_at(&mut seen, (region * REGION + at) as u64).unwrap();
                        assert!(seen == data, "a write is not seen");
                    }
                    mine
                })
            })
            .collect();
        scope.spawn(move || {
            while !done.load(Relaxed) {
                file.forget_cached(0, u64::MAX);
                blobs.tend().unwrap();
                std::thread::yield_now();
            }
        });
        let joined: Vec<_> = writers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        done.store(true, Relaxed);
        joined.into_iter().map(|region| region.unwrap()).collect::<Vec<Vec<u8>>>()
    });
    blobs.mark_dirty(id);
    blobs.sync_dirty().unwrap();
    drop((file, blobs));
    let fresh = tempfile::tempdir().unwrap();
    assert!(read(&*scene.open(fresh.path(), 2).file(id).unwrap()) == regions.concat());
}
