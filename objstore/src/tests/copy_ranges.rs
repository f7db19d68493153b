//! Copies between files through a mount.

use super::test_store::{TestStore, bucket_request, make, make_file, name, read_file};
use crate::error::{Error, Posix, Result};
use crate::record::key::tag;
use crate::store::{CreateBucket, all};
use crate::volume::{Make, SetAttr, Spot, Volume};

const LARGE: usize = 3 << 20;

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at as u8).wrapping_mul(31).wrapping_add((at >> 8) as u8)).collect()
}

fn made(volume: &Volume, called: &str, content: &[u8]) -> u64 {
    let ino = make_file(volume, volume.root(), called).unwrap();
    volume.write(ino, 0, content, false).unwrap();
    ino
}

fn copy(volume: &Volume, from: (u64, u64), to: (u64, u64), len: u64) -> Result<u64> {
    let spot = |(ino, offset)| Spot { ino, offset };
    volume.copy_range(spot(from), spot(to), len)
}

/// How many blobs there are.
fn blobs(test: &TestStore) -> usize {
    all(&*test.store.core.meta.snapshot(), &[tag::BLOB]).unwrap().len()
}

#[test]
fn a_whole_file_is_copied_by_reference_and_both_go_on_alone() {
    let test = TestStore::in_memory();
    let volume = test.mount(&test.bucket("bucket"));
    let mut model = pattern(LARGE);
    let source = made(&volume, "source", &model);
    let target = made(&volume, "target", b"");
    assert_eq!(copy(&volume, (source, 0), (target, 0), u64::MAX >> 1).unwrap(), LARGE as u64);
    assert_eq!(blobs(&test), 1);
    assert!(read_file(&volume, target) == model);
    test.audit();
    volume.write(source, 5, b"changed", false).unwrap();
    assert!(read_file(&volume, target) == model);
    volume.write(target, 9, b"else", false).unwrap();
    model[9..13].copy_from_slice(b"else");
    assert!(read_file(&volume, target) == model);
    assert_eq!(&volume.read(source, 5, 7).unwrap()[..], b"changed");
    test.audit_collected();
}

#[test]
fn a_small_file_that_ends_in_a_hole_is_copied_to_its_end() {
    let test = TestStore::in_memory();
    let volume = test.mount(&test.bucket("bucket"));
    let (source, target) = (made(&volume, "source", b"ten bytes."), made(&volume, "target", b""));
    volume.set_attr(source, SetAttr { size: Some(7_522), ..SetAttr::default() }).unwrap();
    assert_eq!(volume.seek(source, 10, true).unwrap(), None, "there is no data past the bytes");
    assert_eq!(copy(&volume, (source, 0), (target, 0), 1_000).unwrap(), 1_000);
    let mut expected = vec![0; 1_000];
    expected[..10].copy_from_slice(b"ten bytes.");
    assert!(read_file(&volume, target) == expected);
    test.audit_collected();
}

#[test]
fn what_is_open_for_writing_small_or_not_whole_is_copied() {
    let test = TestStore::in_memory();
    let volume = test.mount(&test.bucket("bucket"));
    let model = pattern(LARGE);
    let (source, small) = (made(&volume, "source", &model), made(&volume, "small", &model[..5000]));
    let target = |called| made(&volume, called, b"");
    let (a, b, c) = (target("a"), target("b"), target("c"));
    volume.open_writer(source).unwrap();
    assert_eq!(copy(&volume, (source, 0), (a, 0), LARGE as u64).unwrap(), LARGE as u64);
    volume.close_writer(source).unwrap();
    assert_eq!(copy(&volume, (small, 0), (b, 0), 1 << 40).unwrap(), 5000);
    assert_eq!(copy(&volume, (source, 100), (c, 0), LARGE as u64).unwrap(), LARGE as u64 - 100);
    assert!(read_file(&volume, a) == model && read_file(&volume, c) == model[100..]);
    assert_eq!(read_file(&volume, b), model[..5000]);
    assert_eq!(blobs(&test), 5);
    assert_eq!(copy(&volume, (source, LARGE as u64), (a, 0), 10).unwrap(), 0, "at the end there is nothing");
    test.audit_collected();
}

#[test]
fn ranges_of_one_file_are_copied_unless_they_overlap() {
    let test = TestStore::in_memory();
    let volume = test.mount(&test.bucket("bucket"));
    let mut model = pattern(100_000);
    let file = made(&volume, "f", &model);
    let invalid = |result| matches!(result, Err(Error::Posix(Posix::Invalid)));
    assert!(invalid(copy(&volume, (file, 0), (file, 500), 1000)));
    assert!(invalid(copy(&volume, (file, 500), (file, 0), 1000)));
    assert_eq!(copy(&volume, (file, 500), (file, 50_000), 20_000).unwrap(), 20_000);
    model.copy_within(500..20_500, 50_000);
    assert!(read_file(&volume, file) == model);
    assert_eq!(copy(&volume, (file, 90_000), (file, 100_000), 20_000).unwrap(), 10_000);
    model.extend_from_within(90_000..);
    assert!(read_file(&volume, file) == model);
    let dir = make(&volume, volume.root(), "d", Make::Directory).unwrap();
    assert!(matches!(copy(&volume, (dir, 0), (file, 0), 1), Err(Error::Posix(Posix::IsDirectory))));
}

#[test]
fn holes_stay_holes() {
    let test = TestStore::in_memory();
    let volume = test.mount(&test.bucket("bucket"));
    let source = made(&volume, "source", &pattern(20_000));
    volume.write(source, 30 << 20, b"far", false).unwrap();
    volume.set_attr(source, SetAttr { size: Some(40 << 20), ..SetAttr::default() }).unwrap();
    let target = made(&volume, "target", b"x");
    assert_eq!(copy(&volume, (source, 1), (target, 1), u64::MAX >> 1).unwrap(), (40 << 20) - 1);
    assert_eq!(volume.attr(target).unwrap().size, 40 << 20);
    assert_eq!(&volume.read(target, 30 << 20, 4).unwrap()[..], b"far\0");
    let data = volume.seek(target, 1 << 20, true).unwrap().unwrap();
    assert!(data > 29 << 20, "{data}");
    test.audit_collected();
}

#[test]
fn a_copy_past_the_quota_is_refused() {
    let test = TestStore::in_memory();
    let request = CreateBucket { quota_bytes: Some(5 << 20), ..bucket_request("bucket") };
    test.run(test.store.create_bucket(request)).unwrap();
    let volume = test.mount(&name("bucket"));
    let (source, small) = (made(&volume, "source", &pattern(LARGE)), made(&volume, "small", b"x"));
    let target = made(&volume, "target", b"");
    assert!(matches!(copy(&volume, (source, 0), (target, 0), 1 << 30), Err(Error::QuotaExceeded { .. })));
    assert_eq!(volume.attr(target).unwrap().size, 0);
    let copied = copy(&volume, (source, 0), (small, 1), 1 << 30).unwrap();
    assert!((1 << 20..LARGE as u64).contains(&copied), "as much as fits");
    test.audit_collected();
}

#[test]
fn a_copy_keeps_what_a_crash_leaves_of_its_source() {
    let test = TestStore::on_disk();
    let bucket = test.bucket("bucket");
    let volume = test.mount(&bucket);
    let model = pattern(LARGE);
    let (source, target) = (made(&volume, "source", &model), made(&volume, "target", b""));
    assert_eq!(copy(&volume, (source, 0), (target, 0), 1 << 30).unwrap(), LARGE as u64);
    volume.unlink(volume.root(), "source").unwrap();
    volume.sync(target).unwrap();
    let test = TestStore::at(test.folder_copy()).unwrap();
    assert!(test.get(&bucket, "target").unwrap() == model);
    test.audit_collected();
}
