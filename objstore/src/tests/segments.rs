//! Packed objects: compaction of segments.

use super::rig::{Rig, key, name};
use crate::store::Source;

const SIZE: usize = 16 << 10;

fn content(index: usize) -> Vec<u8> {
    let mut data = vec![u8::try_from(index % 251).unwrap(); SIZE];
    data[..8].copy_from_slice(&(index as u64).to_le_bytes());
    data
}

fn filled(count: usize) -> Rig {
    let rig = Rig::with_segments(512 << 10);
    let bucket = rig.bucket("packed");
    for index in 0..count {
        rig.put(&bucket, &index.to_string(), &content(index)).unwrap();
    }
    rig
}

fn closed_segments(rig: &Rig) -> Vec<u64> {
    let segments = rig.store.core.blobs.segments().unwrap();
    segments.iter().filter(|segment| !segment.active).map(|segment| segment.id).collect()
}

#[test]
fn what_is_left_of_a_segment_moves_and_the_segment_goes() {
    let rig = filled(200);
    let bucket = name("packed");
    let before = closed_segments(&rig);
    assert!(before.len() >= 5, "{before:?}");
    rig.collect();
    assert_eq!(closed_segments(&rig), before, "full segments stay");
    let (_, reader) = rig.store.open_object(&bucket, &key("8"), None).unwrap();
    for index in (0..200).filter(|index| index % 8 != 0) {
        rig.delete(&bucket, &index.to_string()).unwrap();
    }
    rig.collect();
    assert_eq!(closed_segments(&rig)[..before.len()], before, "a reader may need them");
    assert_eq!(reader.read(0, SIZE).unwrap(), content(8));
    drop(reader);
    rig.audit_collected();
    assert!(closed_segments(&rig).iter().all(|segment| !before.contains(segment)));
    for index in (0..200).step_by(8) {
        assert_eq!(rig.get(&bucket, &index.to_string()).unwrap(), content(index));
    }
    let rig = rig.reopen();
    for index in (0..200).step_by(8) {
        assert_eq!(rig.get(&bucket, &index.to_string()).unwrap(), content(index));
        rig.delete(&bucket, &index.to_string()).unwrap();
    }
    rig.audit_collected();
    assert_eq!(closed_segments(&rig), []);
}

#[test]
fn readers_that_overlap_without_end_do_not_keep_the_trash() {
    let rig = filled(40);
    let bucket = name("packed");
    rig.put(&bucket, "file", &vec![1; 200 << 10]).unwrap();
    let mut reader = rig.store.open_object(&bucket, &key("0"), None).unwrap();
    rig.delete(&bucket, "file").unwrap();
    for _ in 0..4 {
        rig.collect();
        let next = rig.store.open_object(&bucket, &key("0"), None).unwrap();
        drop(std::mem::replace(&mut reader, next));
    }
    assert_eq!(rig.store.core.blobs.file_ids().unwrap(), []);
}

#[test]
fn shared_content_moves_once_for_all_who_refer_to_it() {
    let rig = filled(64);
    let bucket = name("packed");
    rig.snapshot(&bucket, "taken");
    let cloned = rig.clone_of(Source::Snapshot("taken".into()), "cloned");
    rig.copy((&bucket, "1"), (&bucket, "copy")).unwrap();
    for index in 0..64 {
        rig.delete(&bucket, &index.to_string()).unwrap();
    }
    rig.run(rig.store.delete_snapshot("taken")).unwrap();
    for index in (0..64).filter(|index| index % 10 != 1) {
        rig.delete(&cloned, &index.to_string()).unwrap();
    }
    rig.audit_collected();
    for index in (1..64).step_by(10) {
        assert_eq!(rig.get(&cloned, &index.to_string()).unwrap(), content(index));
    }
    assert_eq!(rig.get(&bucket, "copy").unwrap(), content(1));
}
