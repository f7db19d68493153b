//! Packed objects: compaction of segments.

use super::test_store::{TestStore, key, name};
use crate::store::Source;

const SIZE: usize = 16 << 10;

fn content(index: usize) -> Vec<u8> {
    let mut data = vec![u8::try_from(index % 251).unwrap(); SIZE];
    data[..8].copy_from_slice(&(index as u64).to_le_bytes());
    data
}

fn filled(count: usize) -> TestStore {
    let test = TestStore::with_segments(512 << 10);
    let bucket = test.bucket("packed");
    for index in 0..count {
        test.put(&bucket, &index.to_string(), &content(index)).unwrap();
    }
    test
}

fn closed_segments(test: &TestStore) -> Vec<u64> {
    let segments = test.store.core.blobs.segments().unwrap();
    segments.iter().filter(|segment| !segment.active).map(|segment| segment.id).collect()
}

#[test]
fn what_is_left_of_a_segment_moves_and_the_segment_goes() {
    let test = filled(200);
    let bucket = name("packed");
    let before = closed_segments(&test);
    assert!(before.len() >= 5, "{before:?}");
    test.collect();
    assert_eq!(closed_segments(&test), before, "full segments stay");
    let (_, reader) = test.store.open_object(&bucket, &key("8"), None).unwrap();
    for index in (0..200).filter(|index| index % 8 != 0) {
        test.delete(&bucket, &index.to_string()).unwrap();
    }
    test.collect();
    assert_eq!(closed_segments(&test)[..before.len()], before, "a reader may need them");
    assert_eq!(reader.read(0, SIZE).unwrap(), content(8));
    drop(reader);
    test.audit_collected();
    assert!(closed_segments(&test).iter().all(|segment| !before.contains(segment)));
    for index in (0..200).step_by(8) {
        assert_eq!(test.get(&bucket, &index.to_string()).unwrap(), content(index));
    }
    let test = test.reopen();
    for index in (0..200).step_by(8) {
        assert_eq!(test.get(&bucket, &index.to_string()).unwrap(), content(index));
        test.delete(&bucket, &index.to_string()).unwrap();
    }
    test.audit_collected();
    assert_eq!(closed_segments(&test), []);
}

#[test]
fn readers_that_overlap_without_end_do_not_keep_the_trash() {
    let test = filled(40);
    let bucket = name("packed");
    test.put(&bucket, "file", &vec![1; 200 << 10]).unwrap();
    let mut reader = test.store.open_object(&bucket, &key("0"), None).unwrap();
    test.delete(&bucket, "file").unwrap();
    for _ in 0..4 {
        test.collect();
        let next = test.store.open_object(&bucket, &key("0"), None).unwrap();
        drop(std::mem::replace(&mut reader, next));
    }
    assert_eq!(test.store.core.blobs.file_ids().unwrap(), []);
}

#[test]
fn shared_content_moves_once_for_all_who_refer_to_it() {
    let test = filled(64);
    let bucket = name("packed");
    test.snapshot(&bucket, "taken");
    let cloned = test.clone_of(Source::Snapshot("taken".into()), "cloned");
    test.copy((&bucket, "1"), (&bucket, "copy")).unwrap();
    for index in 0..64 {
        test.delete(&bucket, &index.to_string()).unwrap();
    }
    test.run(test.store.delete_snapshot("taken")).unwrap();
    for index in (0..64).filter(|index| index % 10 != 1) {
        test.delete(&cloned, &index.to_string()).unwrap();
    }
    test.audit_collected();
    for index in (1..64).step_by(10) {
        assert_eq!(test.get(&cloned, &index.to_string()).unwrap(), content(index));
    }
    assert_eq!(test.get(&bucket, "copy").unwrap(), content(1));
}
