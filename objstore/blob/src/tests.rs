//! Blobs in separate files, and guarantees of all blobs.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use objstore_base::error::Error;
use objstore_disk::is_full;
use objstore_testing::faulty::{Faults, FaultyDisk};
use proptest::prelude::*;
use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
use tempfile::TempDir;

use super::*;

/// An open blob store on a disk that fails on demand.
pub(super) struct Bench {
    pub(super) blobs: Blobs,
    pub(super) faults: Arc<Faults>,
    pub(super) dir: TempDir,
}

pub(super) fn bench(options: Options) -> Bench {
    let dir = tempfile::tempdir().unwrap();
    let (blobs, faults) = open(&dir, 1, options);
    Bench { blobs, faults, dir }
}

pub(super) fn open(dir: &TempDir, epoch: u32, options: Options) -> (Blobs, Arc<Faults>) {
    let disk = FaultyDisk::default();
    let faults = disk.faults.clone();
    (Blobs::open(Arc::new(disk), dir.path(), epoch, Poison::default(), options).unwrap(), faults)
}

/// Bytes that differ from place to place.
pub(super) fn content(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
}

fn write(blobs: &Blobs, data: &[u8]) -> Finished {
    let mut writer = blobs.writer().unwrap();
    data.chunks(100_000).for_each(|piece| writer.write(piece).unwrap());
    writer.finish().unwrap()
}

fn path(bench: &Bench, id: BlobId) -> std::path::PathBuf {
    bench.dir.path().join(format!("blobs/{:02x}/{id}", id.0 & 0xff))
}

#[test]
fn a_writer_keeps_pieces_of_any_size_and_sums_them() {
    let bench = bench(Options::default());
    let data = content(9 * 1024 * 1024 + 17);
    for sizes in [&[1usize, 70_000, 2_500_000][..], &[1 << 20], &[usize::MAX], &[999_999, 5], &[4096, 131_072]] {
        let mut writer = bench.blobs.writer().unwrap();
        let (mut rest, mut sizes) = (&data[..], sizes.iter().cycle());
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(rest.len().min(*sizes.next().unwrap()));
            writer.write(piece).unwrap();
            rest = behind;
        }
        let id = writer.id();
        let finished = writer.finish().unwrap();
        assert_eq!(finished, Finished { id, length: data.len() as u64, sums: sums(&data) });
        assert_eq!(bench.blobs.read_file(id, 0, data.len()).unwrap(), data);
    }
}

#[test]
fn a_finished_blob_is_synced_with_its_name() {
    let bench = bench(Options::default());
    let before = bench.faults.dir_syncs.load(Ordering::Relaxed);
    write(&bench.blobs, b"small");
    assert_eq!(bench.faults.file_syncs.load(Ordering::Relaxed), 1);
    assert_eq!(bench.faults.dir_syncs.load(Ordering::Relaxed), before + 1);
    bench.blobs.sync_dirty().unwrap();
    assert_eq!(bench.faults.all_syncs.load(Ordering::Relaxed), 1, "only the one of the opening");
}

#[test]
fn parallel_writers_all_finish() {
    let bench = bench(Options::default());
    let data = content(2_000_000);
    let ids: BTreeSet<BlobId> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..16).map(|_| scope.spawn(|| write(&bench.blobs, &data).id)).collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    assert_eq!(ids.len(), 16);
    assert_eq!(bench.blobs.file_ids().unwrap().into_iter().collect::<BTreeSet<_>>(), ids);
    for id in ids {
        assert_eq!(bench.blobs.read_file(id, 0, data.len()).unwrap(), data);
    }
}

#[test]
fn an_unfinished_blob_leaves_no_file() {
    let bench = bench(Options::default());
    let mut writer = bench.blobs.writer().unwrap();
    writer.write(&content(2_000_000)).unwrap();
    assert_eq!(bench.blobs.file_ids().unwrap(), [writer.id()]);
    drop(writer);
    assert!(bench.blobs.file_ids().unwrap().is_empty());
}

#[test]
fn a_full_disk_is_reported_as_such_and_leaves_no_file() {
    let bench = bench(Options::default());
    let mut writer = bench.blobs.writer().unwrap();
    bench.faults.fail_writes.store(true, Ordering::Relaxed);
    let error = writer.write(&content(2_000_000)).unwrap_err();
    assert!(is_full(&error), "{error}");
    bench.faults.fail_writes.store(false, Ordering::Relaxed);
    assert!(writer.write(b"more").is_err(), "the blob has a gap");
    assert!(writer.finish().is_err());
    assert!(bench.blobs.file_ids().unwrap().is_empty());
    assert_eq!(bench.blobs.poisoned(), None);
    write(&bench.blobs, b"room again");
}

#[test]
fn blocks_of_memory_are_written_as_they_are() {
    let bench = bench(Options::default());
    let data = content(2 * BLOCK_BYTES + 12_345);
    let mut writer = bench.blobs.writer().unwrap();
    for piece in data.chunks(BLOCK_BYTES) {
        let mut block = bench.blobs.block();
        assert_eq!(block.fill(piece), piece.len());
        writer.write(&block.freeze()).unwrap();
    }
    let id = writer.id();
    assert_eq!(writer.finish().unwrap(), Finished { id, length: data.len() as u64, sums: sums(&data) });
    assert_eq!(bench.blobs.read_file(id, 0, data.len()).unwrap(), data);
}

/// A writer of `blobs` that has written 64 MiB, so that the next bytes bypass the page cache; and its content.
fn far_writer(blobs: &Blobs) -> (FileWriter, Vec<u8>) {
    let mut writer = blobs.writer().unwrap();
    let data = content(64 * 1024 * 1024);
    data.chunks(BLOCK_BYTES).for_each(|piece| writer.write(piece).unwrap());
    (writer, data)
}

#[test]
fn what_is_far_into_a_blob_bypasses_the_cache_and_is_synced_all_the_same() {
    let bench = bench(Options::default());
    let (mut writer, mut data) = far_writer(&bench.blobs);
    assert_eq!(bench.faults.direct_writes.load(Ordering::Relaxed), 0);
    let rest = content(3 * BLOCK_BYTES + 4096 + 77);
    rest.chunks(150_001).for_each(|piece| writer.write(piece).unwrap());
    data.extend_from_slice(&rest);
    let id = writer.id();
    assert!(writer.finish().unwrap() == Finished { id, length: data.len() as u64, sums: sums(&data) });
    assert_eq!(bench.faults.direct_writes.load(Ordering::Relaxed), 4);
    assert_eq!(bench.faults.file_syncs.load(Ordering::Relaxed), 1, "a direct write is not yet on disk");
    assert!(bench.blobs.read_file(id, 0, data.len()).unwrap() == data);
}

#[test]
fn a_disk_that_fills_up_far_into_a_blob_leaves_no_file() {
    let bench = bench(Options::default());
    let (mut writer, _) = far_writer(&bench.blobs);
    bench.faults.fail_writes.store(true, Ordering::Relaxed);
    let error = writer.write(&content(BLOCK_BYTES)).unwrap_err();
    assert!(is_full(&error), "{error}");
    drop(writer);
    assert!(bench.blobs.file_ids().unwrap().is_empty());
    assert_eq!((bench.blobs.poisoned(), bench.faults.direct_writes.load(Ordering::Relaxed)), (None, 1));
}

#[test]
fn a_disk_that_loses_a_write_is_not_written_again() {
    let bench = bench(Options::default());
    let kept = write(&bench.blobs, b"kept").id;
    let (mut writer, _) = far_writer(&bench.blobs);
    bench.faults.break_writes.store(true, Ordering::Relaxed);
    let error = writer.write(&content(BLOCK_BYTES)).unwrap_err();
    assert!(error.to_string().contains("writing"), "{error}");
    bench.faults.break_writes.store(false, Ordering::Relaxed);
    assert!(writer.finish().is_err());
    assert!(bench.blobs.poisoned().unwrap().contains("os error 5"));
    assert!(matches!(bench.blobs.writer().map(drop), Err(Error::Poisoned { .. })));
    assert_eq!(bench.blobs.read_file(kept, 0, 4).unwrap(), "kept");
}

#[test]
fn a_failed_sync_refuses_every_later_write_and_no_read() {
    let bench = bench(Options::default());
    let kept = write(&bench.blobs, b"kept").id;
    let id = bench.blobs.next_id();
    bench.blobs.create_file(id).unwrap();
    bench.faults.fail_syncs.store(true, Ordering::Relaxed);
    assert!(matches!(bench.blobs.sync_file(id), Err(Error::Io { .. })));
    bench.faults.fail_syncs.store(false, Ordering::Relaxed);

    assert!(bench.blobs.poisoned().unwrap().contains("os error 5"));
    let poisoned = |result: Result<()>| assert!(matches!(result, Err(Error::Poisoned { .. })), "{result:?}");
    poisoned(bench.blobs.sync_file(id));
    poisoned(bench.blobs.sync_dirty());
    poisoned(bench.blobs.remove_file(kept));
    poisoned(bench.blobs.create_file(bench.blobs.next_id()).map(drop));
    poisoned(bench.blobs.writer().map(drop));
    poisoned(bench.blobs.append(id, Bytes::from_static(b"x")).wait().map(drop));
    assert_eq!(bench.blobs.read_file(kept, 0, 4).unwrap(), "kept");
}

#[test]
fn a_writer_whose_sync_fails_is_not_finished() {
    let bench = bench(Options::default());
    let mut writer = bench.blobs.writer().unwrap();
    writer.write(b"lost").unwrap();
    bench.faults.fail_syncs.store(true, Ordering::Relaxed);
    assert!(writer.finish().is_err());
    assert!(bench.blobs.poisoned().is_some());
}

/// Only ext4 has the attribute: on other file systems there is nothing to check.
#[test]
fn the_folders_of_files_are_placed_apart_where_the_file_system_can() {
    let bench = bench(Options::default());
    let folder = |name: &str| std::fs::File::open(bench.dir.path().join(name)).unwrap();
    let other = folder("segments");
    let marked = ioctl_getflags(&other).and_then(|flags| ioctl_setflags(&other, flags | IFlags::TOPDIR));
    if marked.is_ok() {
        assert!(ioctl_getflags(folder("blobs")).unwrap().contains(IFlags::TOPDIR));
    }
}

#[test]
fn a_name_is_synced_once() {
    let bench = bench(Options::default());
    let id = bench.blobs.next_id();
    bench.blobs.create_file(id).unwrap().write_at(b"a", 0).unwrap();
    let before = bench.faults.dir_syncs.load(Ordering::Relaxed);
    bench.blobs.sync_file(id).unwrap();
    bench.blobs.mark_dirty(id);
    bench.blobs.sync_file(id).unwrap();
    bench.blobs.sync_file(id).unwrap();
    assert_eq!(bench.faults.dir_syncs.load(Ordering::Relaxed), before + 1);
    assert_eq!(bench.faults.file_syncs.load(Ordering::Relaxed), 2);
}

#[test]
fn sync_dirty_syncs_everything_once_and_nothing_when_all_is_clean() {
    let bench = bench(Options::default());
    let syncs = || bench.faults.all_syncs.load(Ordering::Relaxed);
    let before = syncs();
    let ids: Vec<BlobId> = (0..5).map(|_| bench.blobs.next_id()).collect();
    ids.iter().for_each(|id| drop(bench.blobs.create_file(*id).unwrap()));
    bench.blobs.sync_dirty().unwrap();
    bench.blobs.sync_dirty().unwrap();
    assert_eq!(syncs(), before + 1);
    bench.blobs.mark_dirty(ids[0]);
    bench.blobs.sync_file_and_times(ids[0]).unwrap();
    bench.blobs.sync_dirty().unwrap();
    assert_eq!(syncs(), before + 1, "synced already");
    bench.blobs.mark_dirty(ids[1]);
    bench.blobs.sync_dirty().unwrap();
    assert_eq!(syncs(), before + 2);
}

#[test]
fn open_files_stay_within_their_bound() {
    let bench = bench(Options { open_files: 4, ..Options::default() });
    let ids: Vec<BlobId> = (0..20).map(|_| write(&bench.blobs, b"x").id).collect();
    for id in ids.iter().chain(&ids) {
        bench.blobs.file(*id).unwrap();
        assert!(bench.faults.open_files.load(Ordering::Relaxed) <= 4);
    }
    bench.blobs.remove_file(ids[19]).unwrap();
    assert_eq!(bench.faults.open_files.load(Ordering::Relaxed), 3, "a removed file is closed");
}

#[test]
fn a_removed_file_is_gone_and_may_be_removed_again() {
    let bench = bench(Options::default());
    let id = write(&bench.blobs, b"x").id;
    bench.blobs.file(id).unwrap();
    bench.blobs.remove_file(id).unwrap();
    bench.blobs.remove_file(id).unwrap();
    assert!(bench.blobs.file_ids().unwrap().is_empty());
    assert!(matches!(bench.blobs.file(id), Err(Error::Corrupt { .. })));
}

#[test]
fn foreign_files_are_not_taken_for_blobs() {
    let bench = bench(Options::default());
    let id = write(&bench.blobs, b"x").id;
    std::fs::write(bench.dir.path().join("blobs/00/README"), "").unwrap();
    std::fs::write(bench.dir.path().join("blobs/00/00000000000000ff"), "").unwrap();
    assert_eq!(bench.blobs.file_ids().unwrap(), [id]);
}

#[test]
fn ids_are_not_used_again_after_a_reopen() {
    let Bench { blobs, dir, .. } = bench(Options::default());
    let before = write(&blobs, b"x").id;
    drop(blobs);
    let (blobs, _) = open(&dir, 2, Options::default());
    assert!(blobs.next_id() > before);
    assert_eq!(blobs.file_ids().unwrap(), [before]);
}

#[test]
fn reads_past_the_end_of_a_sparse_file_are_zeros() {
    let bench = bench(Options::default());
    let id = write(&bench.blobs, b"abc").id;
    assert_eq!(bench.blobs.read_file(id, 1, 5).unwrap(), &b"bc\0\0\0"[..]);
    assert_eq!(bench.blobs.read_file(id, 100, 2).unwrap(), &b"\0\0"[..]);
}

#[test]
fn damaged_or_short_content_is_an_error_and_never_data() {
    let bench = bench(Options::default());
    let mut data = content(3 * SUM_BLOCK + 100);
    let Finished { id, length, sums } = write(&bench.blobs, &data);
    let read = |offset, len| bench.blobs.read_verified(id, offset, len, length, &|range| Ok(sums[range].to_vec()));
    data[2 * SUM_BLOCK + 5] ^= 1;
    std::fs::write(path(&bench, id), &data).unwrap();
    assert!(matches!(read(2 * SUM_BLOCK as u64 + 900, 1), Err(Error::Corrupt { .. })));
    assert_eq!(read(100, SUM_BLOCK).unwrap(), &data[100..100 + SUM_BLOCK], "other blocks are whole");
    std::fs::write(path(&bench, id), &data[..SUM_BLOCK]).unwrap();
    assert!(matches!(read(SUM_BLOCK as u64 - 1, 2), Err(Error::Corrupt { .. })));
    assert!(matches!(read(length, 1), Err(Error::Invalid { .. })));
    assert!(matches!(read(u64::MAX, 1), Err(Error::Invalid { .. })));
}

#[test]
fn verified_reads_give_exactly_the_range_asked() {
    let bench = bench(Options::default());
    let cases = ProptestConfig::with_cases(64);
    proptest!(cases, |(len in 0..3 * SUM_BLOCK, from in 0.0..=1.0f64, part in 0.0..=1.0f64)| {
        let data = content(len);
        let Finished { id, length, sums } = write(&bench.blobs, &data);
        let from = (from * len as f64) as usize;
        let part = (part * (len - from) as f64) as usize;
        let sums = |range: std::ops::Range<usize>| Ok(sums[range].to_vec());
        let read = bench.blobs.read_verified(id, from as u64, part, length, &sums).unwrap();
        prop_assert_eq!(&read[..], &data[from..from + part]);
    });
}

#[test]
fn a_run_reads_what_it_holds_and_gives_damage_to_nobody() {
    let bench = bench(Options::default());
    let mut data = content(5 * SUM_BLOCK + 100);
    let Finished { id, length, sums } = write(&bench.blobs, &data);
    let block = SUM_BLOCK as u64;
    let run = bench.blobs.run(id, length, 2, sums[2..].to_vec()).unwrap();
    for (offset, len) in [(2 * block, 1), (2 * block + 7, 2 * SUM_BLOCK), (5 * block, 100), (3 * block - 1, 2)] {
        let expected = &data[offset as usize..offset as usize + len];
        assert_eq!(run.read(offset, len).unwrap(), expected);
        // What was just read is in the page cache, where the system can tell.
        assert!(run.read_cached(offset, len).is_none_or(|read| read == expected));
    }
    for (offset, len) in [(0, 1), (2 * block - 1, 2), (length, 1), (5 * block, 101), (u64::MAX, 2)] {
        assert!(!run.holds(offset, len) && run.read_cached(offset, len).is_none());
        assert!(matches!(run.read(offset, len), Err(Error::Invalid { .. })), "{len} at {offset}");
    }
    data[3 * SUM_BLOCK + 9] ^= 1;
    std::fs::write(path(&bench, id), &data).unwrap();
    assert!(matches!(run.read(3 * block, 1), Err(Error::Corrupt { .. })));
    assert!(run.read_cached(3 * block, 1).is_none());
    assert_eq!(run.read(4 * block, 9).unwrap(), &data[4 * SUM_BLOCK..4 * SUM_BLOCK + 9]);
}
