//! Ranges of files: data in one snapshot, and differences between two.

use std::ops::Range;

use super::test_store::*;
use crate::name::BucketName;
use crate::store::{RANGE_BLOCK_BYTES, Reader};
use crate::volume::{SetAttr, Volume};

/// The largest file of the random test, in bytes.
const SIZE_MAX: u64 = 3 << 20;
/// Bytes per call.
const WINDOW: u64 = 700_001;

/// A generator of numbers; the same seed gives the same ones.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn reader(test: &TestStore, snapshot: &BucketName) -> Reader {
    test.store.open_object(snapshot, &key("disk"), None).unwrap().1
}

fn content(reader: &Reader) -> Vec<u8> {
    reader.read(0, usize::try_from(reader.size()).unwrap()).unwrap().to_vec()
}

/// The ranges of all windows, merged where they touch.
fn all(size: u64, window: impl Fn(u64, u64) -> Vec<Range<u64>>) -> Vec<Range<u64>> {
    let mut merged: Vec<Range<u64>> = Vec::new();
    let mut from = 0;
    while from < size {
        let to = (from + WINDOW).min(size);
        for range in window(from, to) {
            assert!(range.start < range.end && range.end <= size && range.end > from, "{range:?} of {from}..{to}");
            match merged.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => merged.push(range),
            }
        }
        from = to;
    }
    merged
}

/// The blocks in which two contents differ; what one lacks is zeros.
fn differing(old: &[u8], new: &[u8]) -> Vec<Range<u64>> {
    let at = |bytes: &[u8], offset: usize| bytes.get(offset).copied().unwrap_or(0);
    let block = usize::try_from(RANGE_BLOCK_BYTES).unwrap();
    let mut merged: Vec<Range<u64>> = Vec::new();
    for start in (0..new.len()).step_by(block) {
        let end = (start + block).min(new.len());
        if (start..end).all(|offset| at(old, offset) == at(new, offset)) {
            continue;
        }
        match merged.last_mut() {
            Some(last) if last.end == start as u64 => last.end = end as u64,
            _ => merged.push(start as u64..end as u64),
        }
    }
    merged
}

fn change(numbers: &mut Numbers, volume: &Volume, ino: u64) {
    match numbers.below(8) {
        0 => {
            let size = Some(numbers.below(SIZE_MAX));
            volume.set_attr(ino, SetAttr { size, ..SetAttr::default() }).unwrap();
        }
        // Also zeros where there was nothing, and bytes that are there already.
        kind => {
            let length = usize::try_from(1 + numbers.below(100_000)).unwrap();
            let byte = if kind == 1 { 0 } else { numbers.below(3) as u8 };
            volume.write(ino, numbers.below(SIZE_MAX - 100_000), &vec![byte; length], false).unwrap();
        }
    }
}

#[test]
fn ranges_of_data_hold_every_byte_that_is_not_zero_and_no_hole() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("live");
    let volume = test.mount(&bucket);
    let ino = make_file(&volume, volume.root(), "disk").unwrap();
    for offset in [100, 1 << 20, 5 << 20] {
        volume.write(ino, offset, &[7; 5000], false).unwrap();
    }
    let reader = reader(&test, &test.snapshot(&bucket, "then"));
    let found = all(reader.size(), |from, to| reader.data_ranges(from, to).unwrap());
    let content = content(&reader);
    let within = |offset: u64| found.iter().any(|range| range.contains(&offset));
    assert!((0..reader.size()).all(|offset| within(offset) || content[offset as usize] == 0), "{found:?}");
    let held: u64 = found.iter().map(|range| range.end - range.start).sum();
    assert!(held < 256 << 10, "{found:?}: holes are no data");
}

#[test]
fn differing_ranges_are_exactly_the_blocks_that_differ() {
    for seed in 1..=6 {
        let test = TestStore::in_memory();
        let (bucket, mut numbers) = (test.bucket("live"), Numbers(seed));
        let volume = test.mount(&bucket);
        let ino = make_file(&volume, volume.root(), "disk").unwrap();
        let snapshots: Vec<BucketName> = (0..5)
            .map(|round| {
                (0..1 + numbers.below(12)).for_each(|_| change(&mut numbers, &volume, ino));
                test.snapshot(&bucket, &format!("round-{round}"))
            })
            .collect();
        for (at, newer) in snapshots.iter().enumerate() {
            for older in &snapshots[..=at] {
                let (old, new) = (reader(&test, older), reader(&test, newer));
                let found = all(new.size(), |from, to| new.changed_ranges(&old, from, to).unwrap());
                assert_eq!(found, differing(&content(&old), &content(&new)), "seed {seed}, {older} to {newer}");
            }
        }
    }
}

#[test]
fn an_object_that_s3_replaced_differs_where_its_bytes_do() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("live");
    let mut data = vec![1; 300_000];
    test.put(&bucket, "disk", &data).unwrap();
    let old = reader(&test, &test.snapshot(&bucket, "old"));
    data[9000] = 2;
    test.put(&bucket, "disk", &data).unwrap();
    let new = reader(&test, &test.snapshot(&bucket, "new"));
    assert_eq!(new.changed_ranges(&old, 0, new.size()).unwrap(), [Range { start: 8192, end: 12_288 }]);
    assert_eq!(new.data_ranges(0, new.size()).unwrap(), [Range { start: 0, end: 300_000 }]);
}
