//! Opening a store: what survives, and what is refused.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use prost::Message;

use super::rig::{Rig, find, name, read_file};
use crate::error::Error;
use crate::meta::{Durability, Meta, fjall_engine};
use crate::record::{Header, decode, key};

const SIZES: [(&str, usize); 4] = [("inline", 100), ("packed", 30 << 10), ("file", 200 << 10), ("empty", 0)];

fn filled() -> Rig {
    let rig = Rig::on_disk();
    let bucket = rig.bucket("kept");
    for (at, size) in SIZES {
        rig.put(&bucket, at, &vec![7; size]).unwrap();
    }
    rig
}

fn assert_filled(rig: &Rig) {
    for (at, size) in SIZES {
        assert_eq!(rig.get(&name("kept"), at).unwrap(), vec![7; size], "{at}");
    }
    rig.audit_collected();
}

/// The reason why a folder cannot be opened.
fn refusal(dir: Arc<tempfile::TempDir>) -> String {
    match Rig::at(dir) {
        Err(Error::Unusable { why }) => why,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it opened"),
    }
}

#[test]
fn an_acknowledged_put_survives_the_death_of_the_process() {
    let rig = filled();
    let volume = rig.mount(&name("kept"));
    let ino = find(&volume, "file").unwrap();
    volume.write(ino, 0, b"mounted", false).unwrap();
    volume.write(ino, 1, b"M", false).unwrap();
    let copy = rig.folder_copy();
    let opened = Rig::at(copy).unwrap();
    let volume = opened.mount(&name("kept"));
    assert_eq!(&read_file(&volume, find(&volume, "file").unwrap())[..7], b"mMunted");
    opened.put(&name("kept"), "file", &vec![7; 200 << 10]).unwrap();
    assert_filled(&opened);
}

#[test]
fn a_closed_store_opens_again_and_again() {
    let mut rig = filled();
    for _ in 0..3 {
        rig.store.close();
        assert!(rig.put(&name("kept"), "late", b"x").is_err());
        rig = rig.reopen();
        assert_filled(&rig);
    }
}

#[test]
fn files_and_packed_bytes_that_no_record_names_are_collected() {
    let rig = filled();
    let staged = rig.run(rig.store.stage(vec![1; 300 << 10].into())).unwrap();
    let packed = rig.run(rig.store.stage(vec![1; 30 << 10].into())).unwrap();
    let opened = Rig::at(rig.folder_copy()).unwrap();
    assert_eq!(opened.store.core.blobs.file_ids().unwrap().len(), 1);
    assert_filled(&opened);
    drop((staged, packed));
    assert_eq!(rig.store.core.blobs.file_ids().unwrap().len(), 1, "what is not taken is removed at once");
}

#[test]
fn a_second_server_is_refused() {
    let rig = filled();
    let why = refusal(rig.dir.clone());
    assert!(!why.is_empty());
    assert_filled(&rig);
}

#[test]
fn a_store_of_another_format_is_refused_and_not_touched() {
    let rig = filled();
    rig.store.close();
    let dir = rig.dir.clone();
    drop(rig);
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
    let lock = crate::disk::Disk::lock(&*super::rig::real_disk(), &dir.path().join("lock")).unwrap();
    let options = crate::Options::new(dir.path());
    let opened = crate::Store::open_on(meta.clone(), lock, options, crate::blob::Options::default());
    assert!(matches!(opened, Err(Error::Unusable { why }) if why.contains("77")));
    assert_eq!(read(), before);
    write(header);
    meta.close();
    drop(meta);
    assert_filled(&Rig::at(dir).unwrap());
}

#[test]
fn a_missing_master_key_is_refused() {
    let rig = filled();
    let dir = rig.dir.clone();
    let root = rig.store.root_key().unwrap();
    drop(rig);
    let (path, aside) = (dir.path().join("master.key"), dir.path().join("aside"));
    std::fs::copy(&path, &aside).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(refusal(dir.clone()).contains("master.key"));
    assert!(!path.exists(), "no other key is made in its place");
    // A copy with the same permissions.
    std::fs::copy(&aside, &path).unwrap();
    std::fs::write(&path, b"short").unwrap();
    assert!(refusal(dir.clone()).contains("5 bytes"));
    std::fs::copy(&aside, &path).unwrap();
    let rig = Rig::at(dir).unwrap();
    let again = rig.store.root_key().unwrap();
    assert_eq!((again.id, again.secret), (root.id, root.secret));
}

#[test]
fn a_metadata_log_that_lost_its_end_is_refused_every_time() {
    let rig = filled();
    rig.store.core.meta.sync().wait().unwrap();
    let older = rig.folder_copy();
    for round in 0..4 {
        rig.put(&name("kept"), &format!("later-{round}"), &vec![1; 30 << 10]).unwrap();
    }
    let newer = rig.folder_copy();
    let (path, aside) = (newer.path().join("content"), older.path().join("content"));
    std::fs::remove_dir_all(&aside).unwrap();
    super::rig::copy_tree(&path, &aside);
    for _ in 0..8 {
        assert!(refusal(older.clone()).contains("lost"));
    }
}

#[test]
fn after_a_failed_sync_writes_are_refused_and_reads_go_on() {
    let rig = Rig::on_disk();
    let bucket = rig.bucket("poisoned");
    rig.put(&bucket, "k", &vec![7; 200 << 10]).unwrap();
    rig.faults.fail_syncs.store(true, Ordering::Relaxed);
    assert!(rig.put(&bucket, "file", &vec![1; 200 << 10]).is_err());
    rig.faults.fail_syncs.store(false, Ordering::Relaxed);
    assert!(matches!(rig.put(&bucket, "file", &vec![1; 200 << 10]), Err(Error::Poisoned { .. })));
    assert!(matches!(rig.put(&bucket, "packed", &vec![1; 20 << 10]), Err(Error::Poisoned { .. })));
    assert!(matches!(rig.put(&bucket, "inline", b"1"), Err(Error::Poisoned { .. })));
    let volume = rig.mount(&bucket);
    let ino = find(&volume, "k").unwrap();
    assert!(matches!(volume.write(ino, 0, b"x", false), Err(Error::Poisoned { .. })));
    assert!(rig.store.stats().poisoned.is_some());
    assert_eq!(rig.get(&bucket, "k").unwrap(), vec![7; 200 << 10]);
    drop(volume);
    let rig = rig.reopen();
    rig.put(&bucket, "file", &vec![1; 200 << 10]).unwrap();
    rig.audit_collected();
}

#[test]
fn a_full_disk_refuses_a_write_and_keeps_the_rest() {
    let rig = Rig::in_memory();
    let bucket = rig.bucket("full");
    rig.put(&bucket, "k", &vec![7; 200 << 10]).unwrap();
    rig.faults.fail_writes.store(true, Ordering::Relaxed);
    assert!(rig.put(&bucket, "file", &vec![1; 200 << 10]).is_err());
    rig.faults.fail_writes.store(false, Ordering::Relaxed);
    assert_eq!(rig.get(&bucket, "k").unwrap(), vec![7; 200 << 10]);
    rig.put(&bucket, "file", &vec![1; 200 << 10]).unwrap();
    rig.audit_collected();
}
