//! Blobs packed in segments.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use objstore_disk::is_full;

use super::*;
use crate::tests::{Bench, bench, content, open};
use crate::{Blobs, Options};

fn append(blobs: &Blobs, data: &[u8]) -> (BlobId, Packed) {
    let id = blobs.next_id();
    (id, blobs.append(id, Bytes::copy_from_slice(data)).wait().unwrap())
}

fn read(blobs: &Blobs, id: BlobId, at: Packed) -> Result<Bytes> {
    blobs.read_packed(id, at.segment, at.offset, at.length)
}

fn record(id: BlobId, at: Packed) -> Record {
    Record { id, offset: at.offset, length: at.length }
}

/// A closed store with three groups, of one record each, in one segment.
fn three_groups() -> (Bench, Vec<(BlobId, Packed)>) {
    let Bench { blobs, faults, dir } = bench(Options::default());
    let groups: Vec<_> = [1000, 5, 70_000].iter().map(|len| append(&blobs, &content(*len))).collect();
    drop((blobs, faults));
    let (blobs, faults) = open(&dir, 2, Options::default());
    (Bench { blobs, faults, dir }, groups)
}

fn file_of(bench: &Bench, segment: u64) -> PathBuf {
    segment_path(&bench.dir.path().join("segments"), segment)
}

#[test]
fn appends_of_many_threads_are_all_kept_and_share_syncs() {
    let bench = bench(Options::default());
    let per_thread = 20;
    let mut kept: Vec<(BlobId, Packed, Vec<u8>)> = thread::scope(|scope| {
        let work = |seed: usize| {
            let blobs = &bench.blobs;
            move || {
                let data = |n| content(seed * 37 + n * 501);
                // Made in advance, so that appends arrive close together even on a busy machine, and share syncs.
                let made: Vec<_> = (0..per_thread).map(|n| (blobs.next_id(), data(n))).collect();
                let tickets: Vec<_> = made
                    .into_iter()
                    .map(|(id, data)| (id, blobs.append(id, Bytes::from(data.clone())), data))
                    .collect();
                tickets.into_iter().map(|(id, ticket, data)| (id, ticket.wait().unwrap(), data)).collect::<Vec<_>>()
            }
        };
        let threads: Vec<_> = (0..64).map(|seed| scope.spawn(work(seed))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    for (id, packed, data) in &kept {
        assert_eq!(read(&bench.blobs, *id, *packed).unwrap(), data);
        assert_eq!(packed.crc, crc_fast::crc32_iscsi(data));
    }
    kept.sort_by_key(|(_, packed, _)| packed.offset);
    let segment = kept[0].1.segment;
    let expected: Vec<Record> = kept.iter().map(|(id, packed, _)| record(*id, *packed)).collect();
    assert_eq!(bench.blobs.scan_segment(segment).unwrap(), expected);
    assert!(bench.faults.file_syncs.load(Ordering::Relaxed) < 64 * per_thread / 4, "no sync was shared");
}

#[test]
fn a_full_segment_is_followed_by_another() {
    let bench = bench(Options { segment_bytes: 10_000, ..Options::default() });
    let kept: Vec<_> = (0..9).map(|_| append(&bench.blobs, &content(3000))).collect();
    let segments = bench.blobs.segments().unwrap();
    assert_eq!(segments.len(), 3);
    assert_eq!(segments.iter().map(|segment| segment.active).collect::<Vec<_>>(), [false, false, true]);
    for info in segments {
        assert_eq!(bench.blobs.scan_segment(info.id).unwrap().len(), if info.active { 1 } else { 4 });
        assert!(info.bytes < 13_000, "no zeros are left behind: {}", info.bytes);
    }
    kept.iter().for_each(|(id, packed)| drop(read(&bench.blobs, *id, *packed).unwrap()));
}

#[test]
fn an_opening_without_appends_makes_no_segment_and_one_with_them_a_new_one() {
    let (bench, groups) = three_groups();
    let old = groups[0].1.segment;
    assert_eq!(bench.blobs.segments().unwrap().len(), 1);
    let (_, packed) = append(&bench.blobs, b"new");
    assert!(packed.segment > old);
    assert_eq!(bench.blobs.scan_segment(old).unwrap().len(), 3);
}

#[test]
fn only_a_segment_that_does_not_grow_is_removed() {
    let (bench, groups) = three_groups();
    let (id, packed) = append(&bench.blobs, b"new");
    assert!(matches!(bench.blobs.remove_segment(packed.segment), Err(Error::Busy { .. })));
    assert_eq!(read(&bench.blobs, id, packed).unwrap(), "new");
    let (old, at) = groups[0];
    read(&bench.blobs, old, at).unwrap();
    bench.blobs.remove_segment(at.segment).unwrap();
    bench.blobs.remove_segment(at.segment).unwrap();
    assert!(matches!(read(&bench.blobs, old, at), Err(Error::Corrupt { .. })));
    assert_eq!(bench.blobs.segments().unwrap().len(), 1);
}

#[test]
fn a_torn_tail_ends_the_scan_after_the_whole_groups() {
    let (bench, groups) = three_groups();
    let (_, last) = groups[2];
    let file = file_of(&bench, last.segment);
    let whole = std::fs::read(&file).unwrap();
    let expected: Vec<_> = groups[..2].iter().map(|(id, packed)| record(*id, *packed)).collect();
    for kept in [0, 1, RECORD_HEADER - 1, RECORD_HEADER, RECORD_HEADER + 69_000] {
        let mut torn = whole[..last.offset as usize + kept].to_vec();
        std::fs::write(&file, &torn).unwrap();
        assert_eq!(bench.blobs.scan_segment(last.segment).unwrap(), expected, "{kept} bytes kept");
        if kept < RECORD_HEADER {
            // Like the zeros that a crash leaves behind the last group.
            torn.resize(torn.len() + 3 * 1024 * 1024 + 5, 0);
            std::fs::write(&file, &torn).unwrap();
            assert_eq!(bench.blobs.scan_segment(last.segment).unwrap(), expected, "{kept} bytes and zeros kept");
        }
    }
    for kept in [0, 7, header::FILE_HEADER, header::FILE_HEADER + 500] {
        std::fs::write(&file, &whole[..kept]).unwrap();
        assert_eq!(bench.blobs.scan_segment(last.segment).unwrap(), [], "{kept} bytes kept");
    }
}

#[test]
fn a_hole_in_the_last_group_is_a_torn_tail() {
    let bench = bench(Options::default());
    // The first sync delays the others, which then form one group.
    let tickets: Vec<_> = (0..200).map(|n| bench.blobs.append(BlobId(n), Bytes::from(content(2000)))).collect();
    let packed: Vec<_> = tickets.into_iter().map(|ticket| ticket.wait().unwrap()).collect();
    let file = file_of(&bench, packed[0].segment);
    let mut bytes = std::fs::read(&file).unwrap();
    let group_of = |packed: &Packed| RecordHeader::decode(&bytes[packed.offset as usize..]).unwrap().group;
    let last = group_of(&packed[199]);
    let first_of_last = packed.iter().position(|packed| group_of(packed) == last).unwrap();
    let hole = packed[first_of_last].offset as usize;
    bytes[hole..hole + 8].fill(0);
    std::fs::write(&file, &bytes).unwrap();
    assert_eq!(bench.blobs.scan_segment(packed[0].segment).unwrap().len(), first_of_last);
}

#[test]
fn damage_before_synced_groups_is_an_error_and_never_a_shorter_segment() {
    let (bench, groups) = three_groups();
    let file = file_of(&bench, groups[0].1.segment);
    let whole = std::fs::read(&file).unwrap();
    for at in [groups[0].1.offset, groups[1].1.offset] {
        for byte in 0..RECORD_HEADER {
            let mut damaged = whole.clone();
            damaged[at as usize + byte] ^= 0x10;
            std::fs::write(&file, &damaged).unwrap();
            let scanned = bench.blobs.scan_segment(groups[0].1.segment);
            assert!(matches!(scanned, Err(Error::Corrupt { .. })), "byte {byte} of {at}: {scanned:?}");
        }
    }
    let mut headless = whole;
    headless[3] ^= 1;
    std::fs::write(&file, &headless).unwrap();
    assert_eq!(bench.blobs.scan_segment(groups[0].1.segment).unwrap().len(), 3);
}

#[test]
fn a_segment_under_the_name_of_another_is_an_error() {
    let (bench, groups) = three_groups();
    let file = file_of(&bench, groups[0].1.segment);
    std::fs::copy(&file, file_of(&bench, 77)).unwrap();
    assert!(matches!(bench.blobs.scan_segment(77), Err(Error::Corrupt { .. })));
    let (id, packed) = groups[0];
    assert!(matches!(bench.blobs.read_packed(id, 77, packed.offset, packed.length), Err(Error::Corrupt { .. })));
}

#[test]
fn no_damaged_byte_of_a_record_is_returned_as_data() {
    let (bench, groups) = three_groups();
    let (id, packed) = groups[1];
    let file = file_of(&bench, packed.segment);
    let whole = std::fs::read(&file).unwrap();
    for byte in 0..RECORD_HEADER + packed.length as usize {
        let mut damaged = whole.clone();
        damaged[packed.offset as usize + byte] ^= 0x80;
        std::fs::write(&file, &damaged).unwrap();
        let result = read(&bench.blobs, id, packed);
        assert!(matches!(result, Err(Error::Corrupt { .. })), "byte {byte}: {result:?}");
    }
    std::fs::write(&file, &whole).unwrap();
    read(&bench.blobs, id, packed).unwrap();
    let wrong = |id, at: Packed| assert!(matches!(read(&bench.blobs, id, at), Err(Error::Corrupt { .. })));
    wrong(groups[0].0, packed);
    wrong(id, Packed { length: 4, ..packed });
    wrong(id, Packed { offset: packed.offset + 8, ..packed });
    wrong(id, Packed { offset: 1 << 40, ..packed });
    wrong(id, Packed { length: u64::MAX, ..packed });
}

#[test]
fn a_failed_sync_acknowledges_nothing_and_poisons() {
    let bench = bench(Options::default());
    let (id, packed) = append(&bench.blobs, b"kept");
    bench.faults.fail_syncs.store(true, Ordering::Relaxed);
    assert!(matches!(bench.blobs.append(id, Bytes::from_static(b"lost")).wait(), Err(Error::Io { .. })));
    bench.faults.fail_syncs.store(false, Ordering::Relaxed);
    assert!(matches!(bench.blobs.append(id, Bytes::from_static(b"late")).wait(), Err(Error::Poisoned { .. })));
    assert!(matches!(bench.blobs.writer().map(drop), Err(Error::Poisoned { .. })));
    assert!(bench.blobs.poisoned().is_some());
    assert_eq!(read(&bench.blobs, id, packed).unwrap(), "kept");
    assert_eq!(bench.blobs.scan_segment(packed.segment).unwrap(), [record(id, packed)]);
}

#[test]
fn a_full_disk_refuses_an_append_and_leaves_nothing_of_it() {
    let bench = bench(Options::default());
    let first = append(&bench.blobs, b"first");
    bench.faults.fail_writes.store(true, Ordering::Relaxed);
    let refused = bench.blobs.append(BlobId(1), Bytes::from(content(5000))).wait().unwrap_err();
    assert!(is_full(&refused), "{refused}");
    bench.faults.fail_writes.store(false, Ordering::Relaxed);
    assert_eq!(bench.blobs.poisoned(), None);
    let second = append(&bench.blobs, b"second");
    let expected = [record(first.0, first.1), record(second.0, second.1)];
    assert_eq!(bench.blobs.scan_segment(first.1.segment).unwrap(), expected);
}

#[test]
fn a_full_disk_at_a_segments_begin_leaves_no_segment() {
    let bench = bench(Options::default());
    bench.faults.fail_writes.store(true, Ordering::Relaxed);
    assert!(bench.blobs.append(BlobId(1), Bytes::from_static(b"x")).wait().is_err());
    assert_eq!(bench.blobs.segments().unwrap(), []);
    bench.faults.fail_writes.store(false, Ordering::Relaxed);
    append(&bench.blobs, b"x");
    assert_eq!(bench.blobs.segments().unwrap().len(), 1);
}

#[test]
fn the_highest_batch_survives_reopens_without_appends_and_torn_segments() {
    let Bench { blobs, dir, .. } = bench(Options::default());
    assert_eq!(blobs.highest_batch().unwrap(), 0);
    let batch = Arc::new(AtomicU64::new(41));
    blobs.set_synced_batch(batch.clone());
    append(&blobs, b"a");
    batch.store(42, Ordering::Release);
    append(&blobs, b"b");
    assert_eq!(blobs.highest_batch().unwrap(), 42);
    drop(blobs);
    std::fs::write(segment_path(&dir.path().join("segments"), 99 << 32), [0; 5000]).unwrap();
    let (blobs, _) = open(&dir, 2, Options::default());
    assert_eq!(blobs.highest_batch().unwrap(), 42);
}

#[test]
fn empty_blobs_are_kept_and_oversized_ones_refused() {
    let bench = bench(Options::default());
    let (id, packed) = append(&bench.blobs, b"");
    assert_eq!(read(&bench.blobs, id, packed).unwrap(), "");
    let longest = Bytes::from(vec![1; LONGEST]);
    let at = bench.blobs.append(BlobId(5), longest.clone()).wait().unwrap();
    assert_eq!(read(&bench.blobs, BlobId(5), at).unwrap(), longest);
    let refused = bench.blobs.append(BlobId(6), Bytes::from(vec![1; LONGEST + 1])).wait();
    assert!(matches!(refused, Err(Error::Invalid { .. })));
}

#[test]
fn closing_answers_what_was_queued() {
    let Bench { blobs, dir: _dir, .. } = bench(Options::default());
    let tickets: Vec<_> = (0..100).map(|n| blobs.append(BlobId(n), Bytes::from_static(b"x"))).collect();
    drop(blobs);
    for ticket in tickets {
        ticket.wait().unwrap();
    }
}
