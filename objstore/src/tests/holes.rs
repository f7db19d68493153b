//! Holes: what is never written takes no space, wherever the content lies and however it moves.

use super::test_store::{TestStore, find, make_file, name};
use crate::store::Source;
use crate::volume::{Allocate, SetAttr, Spot, Volume};

const KIB: usize = 1 << 10;
const END: u64 = 900 << 10;

fn extend(volume: &Volume, ino: u64, size: u64) {
    volume.set_attr(ino, SetAttr { size: Some(size), ..SetAttr::default() }).unwrap();
}

/// Asserts that only the first `held` bytes and the last block of `size` are data and take space.
fn assert_sparse(what: &str, volume: &Volume, ino: u64, held: u64, size: u64) {
    let attr = volume.attr(ino).unwrap();
    assert_eq!(attr.size, size, "{what}");
    let hole = volume.seek(ino, 0, false).unwrap().unwrap();
    assert!(hole <= held.next_multiple_of(64 << 10), "{what}: the hole begins at {hole}");
    let data = volume.seek(ino, hole, true).unwrap().unwrap();
    assert!(data >= (size - 4096) / 4096 * 4096, "{what}: data is found again at {data}");
    let most = held.next_multiple_of(64 << 10) + 16 * 1024;
    assert!(attr.blocks * 512 <= most, "{what}: {} bytes are taken, not {most}", attr.blocks * 512);
}

/// A file of which only the first and the last bytes were written.
fn sparse(test: &TestStore, volume: &Volume, kind: &str, held: usize) -> u64 {
    let bucket = name("bucket");
    if kind.starts_with("s3") {
        test.put(&bucket, kind, &vec![7; held]).unwrap();
    } else {
        let ino = make_file(volume, volume.root(), kind).unwrap();
        volume.write(ino, 0, &vec![7; held], false).unwrap();
    }
    let ino = find(volume, kind).unwrap();
    extend(volume, ino, END);
    let before = volume.attr(ino).unwrap().blocks * 512;
    assert!(before <= held.next_multiple_of(64 << 10) as u64, "{kind}: {before} bytes are taken before a write");
    volume.write(ino, END - 5, b"bytes", false).unwrap();
    ino
}

const KINDS: [(&str, usize); 6] = [
    ("empty", 0),
    ("record", 10),
    ("home", 8 * KIB),
    ("s3-record", 10),
    ("s3-packed", 20 * KIB),
    ("s3-file", 200 * KIB),
];

#[test]
fn small_files_keep_their_holes_when_they_grow_and_are_written() {
    let test = TestStore::in_memory();
    let volume = test.mount(&test.bucket("bucket"));
    for (kind, held) in KINDS {
        let ino = sparse(&test, &volume, kind, held);
        assert_sparse(kind, &volume, ino, held as u64, END);
        volume.sync_volume().unwrap();
        assert_sparse(kind, &volume, ino, held as u64, END);
    }
    drop(volume);
    let volume = test.mount(&name("bucket"));
    for (kind, held) in KINDS {
        assert_sparse(kind, &volume, find(&volume, kind).unwrap(), held as u64, END);
    }
    test.audit_collected();
}

#[test]
fn a_clone_and_a_snapshot_keep_holes_and_so_do_writes_after_them() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("bucket");
    let volume = test.mount(&bucket);
    for (kind, held) in KINDS {
        sparse(&test, &volume, kind, held);
    }
    let clone = test.clone_of(Source::Bucket(bucket.clone()), "clone");
    let cloned = test.mount(&clone);
    for (kind, held) in KINDS {
        for (whose, volume) in [("source", &volume), ("clone", &cloned)] {
            let ino = find(volume, kind).unwrap();
            assert_sparse(&format!("{kind}, {whose}"), volume, ino, held as u64, END);
            volume.write(ino, END - 3, b"x", false).unwrap();
            assert_sparse(&format!("{kind}, {whose}, written"), volume, ino, held as u64, END);
        }
    }
    test.audit_collected();
}

#[test]
fn large_files_in_extents_keep_their_holes() {
    const LARGE: u64 = 40 << 20;
    let test = TestStore::in_memory();
    let bucket = test.bucket("bucket");
    let volume = test.mount(&bucket);
    test.put(&bucket, "s3", &vec![7; 100 * KIB]).unwrap();
    let in_place = make_file(&volume, volume.root(), "home").unwrap();
    volume.write(in_place, 0, &vec![7; 100 * KIB], false).unwrap();
    for (name, held) in [("s3", 100u64 << 10), ("home", 100 << 10)] {
        let ino = find(&volume, name).unwrap();
        extend(&volume, ino, LARGE);
        volume.write(ino, LARGE - 5, b"bytes", false).unwrap();
        assert_sparse(name, &volume, ino, held, LARGE);
    }
    test.snapshot(&bucket, "snapshot");
    for name in ["s3", "home"] {
        let ino = find(&volume, name).unwrap();
        let taken = || volume.attr(ino).unwrap().blocks * 512;
        volume.write(ino, LARGE - 3, b"x", false).unwrap();
        // Beside data a write fills some of the hole around it, so that the next one finds its place.
        let data = volume.seek(ino, 1 << 20, true).unwrap().unwrap();
        assert!(data >= LARGE - (128 << 10), "{name}: {data}");
        assert!(taken() <= 384 << 10, "{name}: {}", taken());
        volume.write(ino, LARGE / 2 + 77, b"x", false).unwrap();
        let data = volume.seek(ino, 1 << 20, true).unwrap().unwrap();
        assert!((LARGE / 2..=LARGE / 2 + 77).contains(&data), "{name}: {data}, a lone write fills its block alone");
        let hole = volume.seek(ino, data, false).unwrap().unwrap();
        assert!(hole <= LARGE / 2 + 8192, "{name}: {hole}");
        let before = taken();
        volume.allocate(ino, Allocate::PunchHole, LARGE / 2, 8192).unwrap();
        assert_eq!(taken(), before - 4096, "{name}");
        assert!(volume.seek(ino, 1 << 20, true).unwrap().unwrap() > LARGE / 2 + 8192, "{name}");
        extend(&volume, ino, LARGE / 2);
        assert!(taken() <= 256 << 10, "{name}: {}", taken());
    }
    test.audit_collected();
}

#[test]
fn copied_ranges_and_punched_files_have_the_holes_of_the_source() {
    let test = TestStore::in_memory();
    let volume = test.mount(&test.bucket("bucket"));
    for (kind, held) in KINDS {
        let source = sparse(&test, &volume, kind, held);
        let target = make_file(&volume, volume.root(), &format!("copy-{kind}")).unwrap();
        let mut done = 0;
        while done < END {
            let spot = |ino| Spot { ino, offset: done };
            done += volume.copy_range(spot(source), spot(target), END - done).unwrap();
        }
        assert_sparse(&format!("copy of {kind}"), &volume, target, held as u64, END);
        volume.allocate(source, Allocate::PunchHole, 0, held.max(1).next_multiple_of(4096) as u64).unwrap();
        assert_sparse(&format!("{kind}, punched"), &volume, source, 0, END);
    }
    test.audit_collected();
}

#[test]
fn a_hole_behind_what_a_record_holds_takes_no_space() {
    let test = TestStore::in_memory();
    let volume = test.mount(&test.bucket("bucket"));
    let ino = make_file(&volume, volume.root(), "file").unwrap();
    volume.write(ino, 0, &[7; 1000], false).unwrap();
    extend(&volume, ino, 1 << 30);
    assert_eq!(volume.attr(ino).unwrap().blocks, 2);
    volume.allocate(ino, Allocate::PunchHole, 0, 4096).unwrap();
    assert_eq!((volume.attr(ino).unwrap().blocks, volume.seek(ino, 0, true).unwrap()), (0, None));
    test.audit_collected();
}
