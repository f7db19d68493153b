//! Damage of each kind: found by a check, and repaired or quarantined, with everything else unchanged.

use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use prost::Message;
use tempfile::TempDir;

use super::test_store::*;
use crate::check::{Options, Report, run};
use crate::error::Error;
use crate::meta::{Durability, Meta, Txn, fjall_engine};
use crate::name::BucketName;
use crate::record::blob::{Blob, Segment};
use crate::record::bucket::{Bucket, CloneGroup, Usage};
use crate::record::decode;
use crate::record::inode::{Content, Inode};
use crate::record::key::{self, tag};
use crate::record::listed::ListedDirent;
use crate::store::*;

/// A size that is too large for a segment, in bytes.
pub(super) const LARGE: usize = 300 << 10;

pub(super) fn bytes(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 % 251) as u8).collect()
}

/// A closed data folder of a store with an object in each kind of place.
pub(super) fn filled(with: impl FnOnce(&TestStore, &BucketName)) -> Arc<TempDir> {
    let test = TestStore::on_disk();
    let bucket = test.bucket("jar");
    test.put(&bucket, "dir/inline", b"small").unwrap();
    test.put(&bucket, "dir/packed", &bytes(20_000)).unwrap();
    test.put(&bucket, "dir/other", &bytes(30_000)).unwrap();
    test.put(&bucket, "large", &bytes(LARGE)).unwrap();
    with(&test, &bucket);
    closed(test)
}

pub(super) fn closed(test: TestStore) -> Arc<TempDir> {
    let dir = test.dir.clone();
    test.store.close();
    drop(test);
    dir
}

/// Changes records directly in the metadata, bypassing the store.
pub(super) fn write<T: Send + 'static>(dir: &Path, f: impl FnOnce(&mut dyn Txn) -> T + Send + 'static) -> T {
    let meta = Meta::new(fjall_engine::open(&dir.join("meta"), fjall_engine::Options::default()).unwrap());
    let value = meta.write(Durability::Synced, move |txn| Ok(f(txn))).wait().unwrap();
    meta.close();
    value
}

pub(super) fn record(txn: &dyn Txn) -> Bucket {
    decode("a bucket", &txn.get(&key::by_name(tag::BUCKET, "jar")).unwrap().unwrap()).unwrap()
}

/// The key and the value of a file's inode record.
pub(super) fn inode(txn: &dyn Txn, name: &str) -> (Vec<u8>, Inode, u64) {
    for pair in all(txn, &[tag::DIRENT]).unwrap() {
        if key::text_at(&pair.key, key::DIRENT_NAME_AT) == Some(name) {
            let ino = decode::<ListedDirent>("a name", &pair.value).unwrap().ino;
            let bucket = record(txn);
            let at = key::branched(&key::inode(bucket.clone_group, ino), bucket.branch);
            let inode = decode("an inode", &txn.get(&at).unwrap().unwrap()).unwrap();
            return (at, inode, ino);
        }
    }
    panic!("{name} is not there")
}

pub(super) fn blob(txn: &dyn Txn, name: &str) -> (u64, Blob) {
    let Some(Content::Blob(content)) = inode(txn, name).1.content else { panic!("{name} lies in no blob") };
    (content.id, crate::content::blob_record(txn, content.id).unwrap())
}

pub(super) fn repair(dir: &Path) -> Report {
    run(dir, &Options { repair: true, ..Options::default() }).unwrap()
}

/// Asserts that a check finds these words, that a repair fixes it, and that a second repair finds nothing.
pub(super) fn repaired(dir: &Path, words: &str) -> Report {
    let found = run(dir, &Options::default()).unwrap();
    assert!(found.problems.iter().any(|problem| problem.contains(words)), "{words}: {found:#?}");
    let report = repair(dir);
    assert_eq!(report.problems, Vec::<String>::new());
    assert!(!report.repaired.is_empty());
    assert_eq!(repair(dir).repaired, Vec::<String>::new(), "a second repair finds nothing to do");
    let after = run(dir, &Options::default()).unwrap();
    assert!(after.clean(), "{after:#?}");
    assert_eq!(after.quarantined, report.quarantined);
    report
}

/// Asserts that all objects except these are intact, and that the counts are consistent in an open store.
pub(super) fn intact(dir: Arc<TempDir>, but: &[&str]) -> TestStore {
    let test = TestStore::at(dir).unwrap();
    let all = [
        ("dir/inline", b"small".to_vec()),
        ("dir/packed", bytes(20_000)),
        ("dir/other", bytes(30_000)),
        ("large", bytes(LARGE)),
    ];
    for (at, data) in all.into_iter().filter(|(at, _)| !but.contains(at)) {
        assert!(test.get(&name("jar"), at).unwrap() == data, "{at}");
    }
    assert_eq!(crate::check::records_of(&test.store.core).unwrap().problems, Vec::<String>::new());
    test
}

pub(super) fn is_damaged<T>(result: crate::error::Result<T>) {
    match result {
        Err(Error::Corrupt { .. }) => {}
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it reads well"),
    }
}

/// Asserts that reading the object is an error until it is deleted or uploaded again, and that nothing of the damage
/// remains then.
fn is_quarantined(test: TestStore, at: &str, how: fn(&TestStore, &str)) {
    is_damaged(test.get(&name("jar"), at));
    let listed = crate::scrub::damage(&test.store).unwrap();
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert!(listed[0].who[0].contains(&format!("bucket \"jar\" key \"{at}\"")), "{listed:?}");
    how(&test, at);
    assert_eq!(crate::scrub::damage(&test.store).unwrap(), []);
    let report = run(closed(test).path(), &Options::default()).unwrap();
    assert!(report.clean() && report.quarantined.is_empty(), "{report:#?}");
}

pub(super) fn delete(test: &TestStore, at: &str) {
    test.delete(&name("jar"), at).unwrap();
}

fn put_anew(test: &TestStore, at: &str) {
    test.put(&name("jar"), at, b"new").unwrap();
    assert_eq!(test.get(&name("jar"), at).unwrap(), b"new");
}

#[test]
fn a_whole_store_is_clean_and_a_repair_leaves_it_alone() {
    let dir = filled(|test, bucket| {
        test.snapshot(bucket, "then");
        test.put(bucket, "large", &bytes(LARGE)).unwrap();
        let upload = test.begin_upload(bucket, "parts");
        test.put_part(&upload, 1, &bytes(70_000)).unwrap();
        test.run(test.store.create_account("anna", false)).unwrap();
        test.run(test.store.create_key("anna")).unwrap();
    });
    let report = run(dir.path(), &Options::default()).unwrap();
    assert!(report.clean(), "{report:#?}");
    assert_eq!((report.accounts, report.buckets, report.snapshots, report.uploads), (2, 1, 1, 1));
    assert_eq!(report.verified_bytes, report.content_bytes);
    let quick = run(dir.path(), &Options { content: false, ..Options::default() }).unwrap();
    assert_eq!((quick.problems.len(), quick.verified_bytes), (0, 0));
    assert_eq!(repair(dir.path()).repaired, Vec::<String>::new());
    intact(dir, &[]);
}

#[test]
fn counts_are_made_anew() {
    let dir = filled(|_, _| {});
    write(dir.path(), |txn| {
        let bucket = record(txn);
        let usage = Usage { bytes: 1, inodes: 99, upload_bytes: 7, objects: 5, hidden: 4, counted: true };
        txn.put(key::of_branch(tag::USAGE, bucket.clone_group, bucket.branch), usage.encode_to_vec());
        let (id, blob) = blob(txn, "large");
        txn.put(key::by_id(tag::BLOB, id), Blob { refs: 5, ..blob }.encode_to_vec());
        let (at, mut dir, _) = inode(txn, "dir/");
        (dir.entries, dir.keys) = (9, 9);
        txn.put(at, dir.encode_to_vec());
        let (at, mut file, _) = inode(txn, "packed");
        file.nlink = 3;
        txn.put(at, file.encode_to_vec());
        for pair in all(txn, &[tag::SEGMENT]).unwrap() {
            let segment: Segment = decode("a segment", &pair.value).unwrap();
            txn.put(pair.key.to_vec(), Segment { live_bytes: 3, ..segment }.encode_to_vec());
        }
        let clone_group = CloneGroup { next_ino: 2, next_branch: u32::MAX, next_version: u64::MAX };
        txn.put(key::by_id(tag::CLONE_GROUP, bucket.clone_group), clone_group.encode_to_vec());
    });
    let report = repaired(dir.path(), "usage says 1 bytes");
    assert!(report.quarantined.is_empty());
    intact(dir, &[]);
}

#[test]
fn a_blob_that_nobody_refers_to_goes_and_a_record_that_is_missing_comes_back() {
    let dir = filled(|_, _| {});
    write(dir.path(), |txn| {
        txn.put(key::by_id(tag::BLOB, 77), Blob { refs: 1, length: 0, packed: None, sums: false }.encode_to_vec());
        for name in ["large", "packed"] {
            let (id, _) = blob(txn, name);
            txn.delete(key::by_id(tag::BLOB, id));
        }
    });
    let report = repaired(dir.path(), "but it has no record");
    assert!(report.quarantined.is_empty(), "{report:#?}");
    intact(dir, &[]);
}

#[test]
fn content_that_is_gone_is_quarantined_and_says_so() {
    let dir = filled(|_, _| {});
    let id = write(dir.path(), |txn| {
        let (id, _) = blob(txn, "large");
        txn.delete(key::by_id(tag::BLOB, id));
        all(txn, &key::sums_of(id)).unwrap().into_iter().for_each(|pair| txn.delete(pair.key.to_vec()));
        id
    });
    let file = dir.path().join(format!("content/blobs/{:02x}/{id:016x}", id & 255));
    std::fs::remove_file(file).unwrap();
    let report = repaired(dir.path(), "but it has no record");
    assert!(report.quarantined[0].contains("bucket \"jar\" key \"large\""), "{report:#?}");
    is_quarantined(intact(dir, &["large"]), "large", delete);
}

#[test]
fn a_flipped_bit_in_a_file_is_quarantined_until_the_object_is_put_anew() {
    let dir = filled(|_, _| {});
    let id = write(dir.path(), |txn| blob(txn, "large").0);
    flip(&dir.path().join(format!("content/blobs/{:02x}/{id:016x}", id & 255)), 200_000);
    let found = run(dir.path(), &Options::default()).unwrap();
    assert!(found.problems[0].contains("bucket \"jar\" key \"large\""), "{found:#?}");
    let report = repaired(dir.path(), "checksum");
    assert_eq!(report.quarantined.len(), 1);
    is_quarantined(intact(dir, &["large"]), "large", put_anew);
}

#[test]
fn a_flipped_bit_in_a_segment_costs_one_object_and_the_store_opens() {
    let dir = filled(|_, _| {});
    let at = write(dir.path(), |txn| blob(txn, "packed").1.packed.unwrap());
    // With a damaged record header the segment cannot be scanned beyond it.
    flip(&dir.path().join(format!("content/segments/{:016x}.seg", at.segment)), at.offset + 9);
    let report = repaired(dir.path(), "segment");
    assert_eq!(report.quarantined.len(), 1, "{report:#?}");
    assert!(dir.path().join(format!("quarantine/{:016x}.seg", at.segment)).exists());
    is_quarantined(intact(dir, &["dir/packed"]), "dir/packed", delete);
}

#[test]
fn a_flipped_bit_in_packed_content_costs_one_object() {
    let dir = filled(|_, _| {});
    let at = write(dir.path(), |txn| blob(txn, "packed").1.packed.unwrap());
    flip(&dir.path().join(format!("content/segments/{:016x}.seg", at.segment)), at.offset + 1_000);
    assert_eq!(repaired(dir.path(), "checksum").quarantined.len(), 1);
    is_quarantined(intact(dir, &["dir/packed"]), "dir/packed", put_anew);
}

#[test]
fn an_inode_that_cannot_be_read_keeps_its_name_and_what_it_was() {
    for how in [delete, put_anew] {
        let dir = filled(|_, _| {});
        write(dir.path(), |txn| {
            let (at, _, _) = inode(txn, "large");
            txn.put(at, vec![0xff; 20]);
        });
        let report = repaired(dir.path(), "inode");
        assert_eq!(report.kept_blobs, 1, "what it referred to is not known, so nothing is freed");
        let test = intact(dir, &["large"]);
        let size = test.store.head_object(&name("jar"), &key("large"), None).unwrap().size;
        assert_eq!(size, LARGE as u64, "listings still knew");
        is_damaged(test.get(&name("jar"), "large"));
        how(&test, "large");
        let dir = closed(test);
        let report = repair(dir.path());
        assert!(report.clean() && report.kept_blobs == 0 && report.quarantined.is_empty(), "{report:#?}");
        drop(intact(dir, &["large"]));
    }
}

#[test]
fn a_directory_that_cannot_be_read_keeps_what_lies_in_it() {
    let dir = filled(|_, _| {});
    write(dir.path(), |txn| {
        let (at, _, _) = inode(txn, "dir/");
        txn.put(at, vec![0xff; 20]);
    });
    let report = repaired(dir.path(), "inode");
    assert!(report.quarantined.is_empty(), "{report:#?}");
    drop(intact(dir, &[]));
}

#[test]
fn a_name_that_leads_nowhere_is_quarantined() {
    let dir = filled(|_, _| {});
    write(dir.path(), |txn| {
        let (at, _, _) = inode(txn, "inline");
        txn.delete(at);
    });
    repaired(dir.path(), "which is not there");
    is_quarantined(intact(dir, &["dir/inline"]), "dir/inline", delete);
}

#[test]
fn what_lost_its_name_is_found_again() {
    let dir = filled(|test, bucket| drop(test.snapshot(bucket, "then")));
    write(dir.path(), |txn| {
        for pair in all(txn, &[tag::DIRENT]).unwrap() {
            let name = key::text_at(&pair.key, key::DIRENT_NAME_AT);
            if name == Some("packed") || name == Some("large") {
                txn.delete(pair.key.to_vec());
            }
        }
    });
    repaired(dir.path(), "names expected, 0 found");
    let test = intact(dir, &["dir/packed", "large"]);
    for bucket in [name("jar"), name("then")] {
        let found = test.keys(&bucket).into_iter().filter(|key| key.starts_with("lost+found/") && !key.ends_with('/'));
        let found: Vec<Vec<u8>> = found.map(|key| test.get(&bucket, &key).unwrap()).collect();
        assert!(found.contains(&bytes(20_000)) && found.contains(&bytes(LARGE)), "{bucket}: {}", found.len());
    }
}

#[test]
fn a_locked_bucket_keeps_what_cannot_be_read_under_legal_hold() {
    let test = TestStore::on_disk();
    let request = CreateBucket { versioning: Versioning::Enabled, ..bucket_request("jar") };
    let settings = Settings { object_lock: Some(ObjectLock::default()), ..Settings::default() };
    test.run(test.store.create_bucket_with(request, settings)).unwrap();
    test.put(&name("jar"), "kept", &bytes(LARGE)).unwrap();
    let dir = closed(test);
    write(dir.path(), |txn| {
        let (at, _, _) = inode(txn, "kept");
        txn.put(at, vec![0xff; 20]);
    });
    repaired(dir.path(), "inode");
    let test = TestStore::at(dir).unwrap();
    let version = test.store.head_object(&name("jar"), &key("kept"), None).unwrap().version;
    let delete = DeleteObject { version, ..DeleteObject::new(key("kept")) };
    let refused = test.run(test.store.delete_object(&name("jar"), delete));
    assert!(matches!(refused, Err(Error::Denied { .. })), "{refused:?}");
}

#[test]
fn damaged_content_is_not_taken_over_by_a_mount() {
    let dir = filled(|_, _| {});
    let id = write(dir.path(), |txn| blob(txn, "large").0);
    flip(&dir.path().join(format!("content/blobs/{:02x}/{id:016x}", id & 255)), 200_000);
    repair(dir.path());
    let test = TestStore::at(dir).unwrap();
    let volume = test.mount(&name("jar"));
    let ino = volume.lookup(crate::volume::ROOT_INO, "large").unwrap().ino;
    is_damaged(volume.write(ino, 5, b"x", false));
    is_damaged(test.get(&name("jar"), "large"));
}

/// A killed repair is run again, after each prefix of its steps.
#[test]
fn a_repair_may_end_after_any_step() {
    for steps in 0..12 {
        let dir = filled(|_, _| {});
        write(dir.path(), |txn| {
            let (at, _, _) = inode(txn, "large");
            txn.put(at, vec![0xff; 20]);
            let (at, _, _) = inode(txn, "inline");
            txn.delete(at);
            let (id, blob) = blob(txn, "other");
            txn.put(key::by_id(tag::BLOB, id), Blob { refs: 5, ..blob }.encode_to_vec());
        });
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let told = std::cell::Cell::new(0);
            let progress = |at: crate::check::Progress| {
                if at.phase == crate::check::Phase::Repair {
                    told.set(told.get() + 1);
                    assert!(told.get() <= steps, "the repair ends here");
                }
            };
            run(dir.path(), &Options { repair: true, progress: &progress, ..Options::default() }).unwrap()
        }));
        let report = repair(dir.path());
        assert_eq!(report.problems, Vec::<String>::new(), "after {steps} steps");
        drop(intact(dir, &["large", "dir/inline"]));
        if ended.is_ok() {
            return;
        }
    }
    panic!("it takes more than 12 steps");
}

pub(super) fn flip(path: &Path, at: u64) {
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
}
