//! Opening a store: what survives, and what is refused.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use prost::Message;

use super::test_store::{TestStore, find, name, read_file};
use crate::error::Error;
use crate::meta::{Durability, Meta, fjall_engine};
use crate::record::{Header, decode, key};

const SIZES: [(&str, usize); 4] = [("inline", 100), ("packed", 30 << 10), ("file", 200 << 10), ("empty", 0)];

fn filled() -> TestStore {
    let test = TestStore::on_disk();
    let bucket = test.bucket("kept");
    for (at, size) in SIZES {
        test.put(&bucket, at, &vec![7; size]).unwrap();
    }
    test
}

fn assert_filled(test: &TestStore) {
    for (at, size) in SIZES {
        assert_eq!(test.get(&name("kept"), at).unwrap(), vec![7; size], "{at}");
    }
    test.audit_collected();
}

/// The reason why a folder cannot be opened.
fn refusal(dir: Arc<tempfile::TempDir>) -> String {
    match TestStore::at(dir) {
        Err(Error::Unusable { why }) => why,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it opened"),
    }
}

#[test]
fn an_acknowledged_put_survives_the_death_of_the_process() {
    let test = filled();
    let volume = test.mount(&name("kept"));
    let ino = find(&volume, "file").unwrap();
    volume.write(ino, 0, b"mounted", false).unwrap();
    volume.write(ino, 1, b"M", false).unwrap();
    let copy = test.folder_copy();
    let opened = TestStore::at(copy).unwrap();
    let volume = opened.mount(&name("kept"));
    assert_eq!(&read_file(&volume, find(&volume, "file").unwrap())[..7], b"mMunted");
    opened.put(&name("kept"), "file", &vec![7; 200 << 10]).unwrap();
    assert_filled(&opened);
}

#[test]
fn a_closed_store_opens_again_and_again() {
    let mut test = filled();
    for _ in 0..3 {
        test.store.close();
        assert!(test.put(&name("kept"), "late", b"x").is_err());
        test = test.reopen();
        assert_filled(&test);
    }
}

#[test]
fn files_and_packed_bytes_that_no_record_names_are_collected() {
    let test = filled();
    let staged = test.run(test.store.stage(vec![1; 300 << 10].into())).unwrap();
    let packed = test.run(test.store.stage(vec![1; 30 << 10].into())).unwrap();
    let opened = TestStore::at(test.folder_copy()).unwrap();
    assert_eq!(opened.store.core.blobs.file_ids().unwrap().len(), 1);
    assert_filled(&opened);
    drop((staged, packed));
    assert_eq!(test.store.core.blobs.file_ids().unwrap().len(), 1, "what is not taken is removed at once");
}

#[test]
fn a_second_server_is_refused() {
    let test = filled();
    let why = refusal(test.dir.clone());
    assert!(!why.is_empty());
    assert_filled(&test);
}

#[test]
fn a_store_of_another_format_is_refused_and_not_touched() {
    let test = filled();
    test.store.close();
    let dir = test.dir.clone();
    drop(test);
    let meta = Meta::new(fjall_engine::open(&dir.path().join("meta"), fjall_engine::Options::default()).unwrap());
    let header: Header = decode("the store", &meta.snapshot().get(&key::header()).unwrap().unwrap()).unwrap();
    let write = |header: Header| {
        let written = meta.write(Durability::Synced, move |txn| {
            txn.put(key::header(), header.encode_to_vec());
            Ok(())
        });
        written.wait().unwrap();
    };
    write(Header { format: 77, ..header.clone() });
    let read = || meta.snapshot().get(&key::header()).unwrap().unwrap();
    let before = read();
    let lock = crate::disk::Disk::lock(&*super::test_store::real_disk(), &dir.path().join("lock")).unwrap();
    let options = crate::Options::new(dir.path());
    let opened = crate::open::open_on(meta.clone(), lock, options, crate::blob::Options::default());
    assert!(matches!(opened, Err(Error::Unusable { why }) if why.contains("77")));
    assert_eq!(read(), before);
    write(header);
    meta.close();
    drop(meta);
    assert_filled(&TestStore::at(dir).unwrap());
}

#[test]
fn a_missing_master_key_is_refused() {
    let test = filled();
    let dir = test.dir.clone();
    let root = test.store.root_key().unwrap();
    drop(test);
    let (path, quarantine) = (dir.path().join("master.key"), dir.path().join("aside"));
    std::fs::copy(&path, &quarantine).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(refusal(dir.clone()).contains("master.key"));
    assert!(!path.exists(), "no other key is made in its place");
    // A copy with the same permissions.
    std::fs::copy(&quarantine, &path).unwrap();
    std::fs::write(&path, b"short").unwrap();
    assert!(refusal(dir.clone()).contains("5 bytes"));
    std::fs::copy(&quarantine, &path).unwrap();
    let test = TestStore::at(dir).unwrap();
    let again = test.store.root_key().unwrap();
    assert_eq!((again.id, again.secret), (root.id, root.secret));
}

#[test]
fn a_metadata_log_that_lost_its_end_is_refused_every_time() {
    let test = filled();
    test.store.core.meta.sync().wait().unwrap();
    let older = test.folder_copy();
    for round in 0..4 {
        test.put(&name("kept"), &format!("later-{round}"), &vec![1; 30 << 10]).unwrap();
    }
    let newer = test.folder_copy();
    let (path, quarantine) = (newer.path().join("content"), older.path().join("content"));
    std::fs::remove_dir_all(&quarantine).unwrap();
    super::test_store::copy_tree(&path, &quarantine);
    for _ in 0..8 {
        assert!(refusal(older.clone()).contains("lost"));
    }
}

#[test]
fn after_a_failed_sync_writes_are_refused_and_reads_go_on() {
    let test = TestStore::on_disk();
    let bucket = test.bucket("poisoned");
    test.put(&bucket, "k", &vec![7; 200 << 10]).unwrap();
    test.faults.fail_syncs.store(true, Ordering::Relaxed);
    assert!(test.put(&bucket, "file", &vec![1; 200 << 10]).is_err());
    test.faults.fail_syncs.store(false, Ordering::Relaxed);
    assert!(matches!(test.put(&bucket, "file", &vec![1; 200 << 10]), Err(Error::Poisoned { .. })));
    assert!(matches!(test.put(&bucket, "packed", &vec![1; 20 << 10]), Err(Error::Poisoned { .. })));
    assert!(matches!(test.put(&bucket, "inline", b"1"), Err(Error::Poisoned { .. })));
    let volume = test.mount(&bucket);
    let ino = find(&volume, "k").unwrap();
    assert!(matches!(volume.write(ino, 0, b"x", false), Err(Error::Poisoned { .. })));
    assert!(test.store.stats().poisoned.is_some());
    assert_eq!(test.get(&bucket, "k").unwrap(), vec![7; 200 << 10]);
    drop(volume);
    let test = test.reopen();
    test.put(&bucket, "file", &vec![1; 200 << 10]).unwrap();
    test.audit_collected();
}

#[test]
fn a_full_disk_refuses_a_write_and_keeps_the_rest() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("full");
    test.put(&bucket, "k", &vec![7; 200 << 10]).unwrap();
    test.faults.fail_writes.store(true, Ordering::Relaxed);
    assert!(test.put(&bucket, "file", &vec![1; 200 << 10]).is_err());
    test.faults.fail_writes.store(false, Ordering::Relaxed);
    assert_eq!(test.get(&bucket, "k").unwrap(), vec![7; 200 << 10]);
    test.put(&bucket, "file", &vec![1; 200 << 10]).unwrap();
    test.audit_collected();
}
