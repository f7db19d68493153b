//! Backups: a restore returns what was there, the next backup transfers only changes, and an interrupted one leaves
//! nothing.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tempfile::TempDir;

use super::test_store::*;
use crate::backup::{Backup, Folder, Progress, ProgressSink, create, list, newest, prune, restore, verify};
use crate::content::{blob_record, verified_blob};
use crate::error::{Error, Result};
use crate::name::BucketName;
use crate::record::decode;
use crate::record::inode::{Content, Extent, Inode};
use crate::record::key::{self, tag};
use crate::store::*;
use crate::volume::{Kind, Make, ROOT_INO, SetAttr, XattrMode};

const TREE: [u8; 5] = [tag::INODE, tag::DIRENT, tag::EXTENT, tag::VERSION, tag::OBJECT_PARTS];
const MIB: usize = 1 << 20;

fn bytes(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|at| (at * 31 % 251) as u8 ^ seed).collect()
}

fn quiet() -> ProgressSink {
    Arc::new(|_: Progress| Ok(()))
}

fn back_up(test: &TestStore, bucket: &str, dir: &Path) -> Result<Backup> {
    back_up_told(test, bucket, dir, &quiet())
}

fn back_up_told(test: &TestStore, bucket: &str, dir: &Path, told: &ProgressSink) -> Result<Backup> {
    let folder = Arc::new(Folder::for_writing(dir)?);
    test.run(create(&test.store, &name(bucket), &folder, told))
}

fn bring_back(test: &TestStore, dir: &Path, bucket: &str, to: &str) -> Result<Backup> {
    bring_back_told(test, dir, bucket, to, &quiet())
}

fn bring_back_told(test: &TestStore, dir: &Path, bucket: &str, to: &str, told: &ProgressSink) -> Result<Backup> {
    let folder = Arc::new(Folder::for_reading(dir)?);
    let id = newest(&folder, bucket)?;
    test.run(restore(&test.store, &folder, (bucket, &id), &name(to), told))
}

/// All records of a bucket or snapshot, with the bytes of blobs in place of their ids.
fn records(test: &TestStore, bucket: &str) -> BTreeMap<Vec<u8>, String> {
    let core = &test.store.core;
    let read = core.meta.snapshot();
    let line = core.readable(&*read, &name(bucket)).unwrap();
    let content = |id: u64, from: u64, length: u64| {
        let record = blob_record(&*read, id).unwrap();
        md5(&verified_blob(&core.blobs, &*read, id, &record, from, length).unwrap())
    };
    let mut all = BTreeMap::new();
    for kind in TREE {
        let prefix = key::by_id(kind, line.clone_group);
        for seen in line.scan(&*read, &prefix, &key::after_prefix(&prefix), usize::MAX).unwrap() {
            let at = [&[kind], &seen.base[9..]].concat();
            let shown = match kind {
                tag::INODE => {
                    let mut inode: Inode = decode("an inode", &seen.value).unwrap();
                    if inode.nlink == 0 {
                        continue;
                    }
                    let held = match inode.content.take() {
                        Some(Content::Blob(blob)) => content(blob.id, 0, inode.size),
                        Some(Content::Extents(_)) => "in extents".into(),
                        other => format!("{other:?}"),
                    };
                    format!("{inode:?} {held}")
                }
                tag::EXTENT => {
                    let extent: Extent = decode("an extent", &seen.value).unwrap();
                    format!("{} {}", extent.length, content(extent.blob, extent.blob_offset, extent.length))
                }
                _ => hex_simd::encode_to_string(&seen.value, hex_simd::AsciiCase::Lower),
            };
            all.insert(at, shown);
        }
    }
    all
}

/// The snapshot that the last backup of a bucket was made from.
fn taken(test: &TestStore) -> String {
    let all = test.store.snapshots(None, None, usize::MAX).unwrap();
    let mut taken = all.into_iter().map(|snapshot| snapshot.name).filter(|name| name.starts_with("backup-"));
    let name = taken.next().unwrap();
    assert_eq!(taken.next(), None, "one stays");
    name
}

fn same(test: &TestStore, a: &str, b: &str) {
    let (a, b) = (records(test, a), records(test, b));
    for (key, value) in &a {
        assert_eq!(b.get(key), Some(value), "{key:?}");
    }
    assert_eq!(a.len(), b.len());
}

/// A bucket that contains every kind of record.
fn full(test: &TestStore) -> BucketName {
    let request = CreateBucket { versioning: Versioning::Enabled, quota_bytes: Some(1 << 40), ..bucket_request("jar") };
    let settings = Settings {
        tags: [("team".to_owned(), "a".to_owned())].into(),
        logging: Some(Logging { target: "jar".into(), prefix: "log/".into(), key_format: LogKeyFormat::Simple.into() }),
        website: Some(Website { index: Some("index.html".into()), ..Website::default() }),
        ..Settings::default()
    };
    test.run(test.store.create_bucket_with(request, settings)).unwrap();
    let bucket = name("jar");
    for (at, length) in [("empty", 0), ("inline", 100), ("a/packed", 20_000), ("a/b/large", 3 * MIB), ("a/b/", 0)] {
        test.put(&bucket, at, &bytes(length, 1)).unwrap();
    }
    // Versions, a delete marker, and copies that share a blob.
    test.put(&bucket, "a/packed", &bytes(30_000, 2)).unwrap();
    test.put(&bucket, "gone", &bytes(5_000, 3)).unwrap();
    test.delete(&bucket, "gone").unwrap();
    test.copy((&bucket, "a/b/large"), (&bucket, "copy")).unwrap();
    let upload = test.begin_upload(&bucket, "parts");
    let parts = [test.put_part(&upload, 1, &bytes(5 * MIB, 4)).unwrap(), test.put_part(&upload, 2, b"end").unwrap()];
    test.complete(&upload, &[&parts[0], &parts[1]]).unwrap();
    let under_way = test.begin_upload(&bucket, "under way");
    test.put_part(&under_way, 1, &bytes(100_000, 5)).unwrap();
    on_a_mount(test, &bucket);
    test.run(test.store.create_account("anna", false)).unwrap();
    test.run(test.store.add_grant(&bucket, "anna", Mode::Read)).unwrap();
    bucket
}

fn on_a_mount(test: &TestStore, bucket: &BucketName) {
    let volume = test.mount(bucket);
    let dir = volume.make(ROOT_INO, "mounted", Make::Directory, by_root(0o750)).unwrap().ino;
    let in_place = volume.create(dir, "sparse", by_root(0o640)).unwrap().ino;
    volume.write(in_place, 40 * MIB as u64, &bytes(10_000, 6), false).unwrap();
    volume.write(in_place, 0, &bytes(10_000, 7), false).unwrap();
    volume.set_attr(in_place, SetAttr { uid: Some(7), gid: Some(8), ..SetAttr::default() }).unwrap();
    volume.set_xattr(in_place, "user.a", b"value", XattrMode::Any).unwrap();
    volume.make(dir, "link", Make::Symlink("sparse".into()), by_root(0o777)).unwrap();
    volume.make(dir, "pipe", Make::Special(Kind::Fifo, 0), by_root(0o600)).unwrap();
    // A file shared with a snapshot and then changed, so that its content is in extents.
    let shared = volume.create(dir, "shared", by_root(0o600)).unwrap().ino;
    volume.write(shared, 0, &bytes(3 * MIB, 8), false).unwrap();
    test.snapshot(bucket, "earlier");
    volume.write(shared, MIB as u64, &bytes(70_000, 9), false).unwrap();
}

#[test]
fn all_of_a_bucket_comes_back() {
    let (test, dir) = (TestStore::on_disk(), tempfile::tempdir().unwrap());
    let bucket = full(&test);
    let made = back_up(&test, "jar", &dir.path().join("b")).unwrap();
    assert_eq!(made.damaged, Vec::<String>::new());
    let snapshot = taken(&test);
    test.put(&bucket, "later", b"not in it").unwrap();
    bring_back(&test, &dir.path().join("b"), "jar", "again").unwrap();
    same(&test, &snapshot, "again");
    let (was, is) = (test.store.bucket(&bucket).unwrap(), test.store.bucket(&name("again")).unwrap());
    assert_eq!(
        (is.quota_bytes, is.versioning, is.created, is.owner),
        (was.quota_bytes, was.versioning, was.created, was.owner)
    );
    let settings = |bucket| test.store.settings(&bucket).unwrap().settings;
    let (was, is) = (settings(bucket.clone()), settings(name("again")));
    assert_eq!((&is.tags, &is.website), (&was.tags, &was.website));
    assert_eq!(is.logging.as_ref().unwrap().target, "again", "a bucket that is its own target stays so");
    assert_eq!(test.store.grants(Some(&name("again")), None).unwrap()[0].account, "anna");
    assert_eq!(crate::tests::audit::faults(&test.store), Vec::<String>::new());
    // The restored bucket works like any other.
    let volume = test.mount(&name("again"));
    let ino = find(&volume, "mounted/sparse").unwrap();
    volume.write(ino, 5, b"changed", false).unwrap();
    assert_eq!(&read_file(&volume, ino)[..12], &[&bytes(5, 7)[..], b"changed"].concat());
    assert_eq!(volume.attr(ino).unwrap().size, 40 * MIB as u64 + 10_000);
    volume.forget(ino, 1);
    drop(volume);
    test.put(&name("again"), "a/b/large", b"new").unwrap();
    let dir = test.dir.clone();
    test.store.close();
    drop(test);
    let report = crate::check::run(dir.path(), &Default::default()).unwrap();
    assert!(report.clean() && report.quarantined.is_empty(), "{report:#?}");
}

#[test]
fn a_backup_comes_back_in_another_store_with_accounts_but_no_keys() {
    let (test, other, dir) = (TestStore::in_memory(), TestStore::in_memory(), tempfile::tempdir().unwrap());
    full(&test);
    back_up(&test, "jar", dir.path()).unwrap();
    bring_back(&other, dir.path(), "jar", "jar").unwrap();
    let snapshot = taken(&test);
    let (a, b) = (records(&test, &snapshot), records(&other, "jar"));
    assert_eq!(a, b);
    assert_eq!(other.store.keys(Some("anna")).unwrap().len(), 0);
    let again = bring_back(&other, dir.path(), "jar", "jar");
    assert!(matches!(again, Err(Error::Exists { .. })), "{again:?}");
    assert_eq!(crate::tests::audit::faults(&other.store), Vec::<String>::new());
}

#[test]
fn the_next_backup_sends_what_changed() {
    let (test, dir) = (TestStore::in_memory(), tempfile::tempdir().unwrap());
    let bucket = test.bucket("jar");
    for at in 0..40 {
        test.put(&bucket, &format!("large-{at}"), &bytes(MIB, at)).unwrap();
        test.put(&bucket, &format!("packed-{at}"), &bytes(50_000, at)).unwrap();
    }
    let first = back_up(&test, "jar", dir.path()).unwrap();
    assert!(first.sent_bytes > 40 * MIB as u64, "{first:?}");
    let same = back_up(&test, "jar", dir.path()).unwrap();
    assert!(same.sent_bytes < 1000, "{same:?}");
    test.put(&bucket, "large-7", &bytes(MIB, 99)).unwrap();
    let volume = test.mount(&bucket);
    let ino = find(&volume, "packed-3").unwrap();
    volume.write(ino, 10, b"in place", false).unwrap();
    drop(volume);
    let third = back_up(&test, "jar", dir.path()).unwrap();
    assert!((MIB as u64..MIB as u64 + 300_000).contains(&third.sent_bytes), "{third:?}");
    bring_back(&test, dir.path(), "jar", "again").unwrap();
    super::backup::same(&test, &taken(&test), "again");
    // Without the snapshot everything is read, but only what is new is written.
    test.run(test.store.delete_snapshot(&taken(&test))).unwrap();
    let full = back_up(&test, "jar", dir.path()).unwrap();
    assert!(full.sent_bytes < 5 * MIB as u64, "{full:?}");
}

#[test]
fn old_backups_can_go_and_the_others_stay_whole() {
    let (test, dir) = (TestStore::in_memory(), tempfile::tempdir().unwrap());
    let bucket = test.bucket("jar");
    for round in 0..4 {
        test.put(&bucket, "same", &bytes(2 * MIB, 1)).unwrap();
        test.put(&bucket, "other", &bytes(2 * MIB, 10 + round)).unwrap();
        back_up(&test, "jar", dir.path()).unwrap();
    }
    let folder = Folder::for_writing(dir.path()).unwrap();
    assert_eq!(list(&folder).unwrap().len(), 4);
    let pruned = prune(&folder, 2).unwrap();
    assert_eq!(pruned.backups, 2);
    assert!(pruned.bytes > 4 * MIB as u64, "{pruned:?}");
    assert_eq!(verify(&folder, &|_| {}).unwrap().0, Vec::<String>::new());
    assert_eq!(prune(&folder, 2).unwrap().files, 0);
    drop(folder);
    bring_back(&test, dir.path(), "jar", "again").unwrap();
    assert_eq!(test.get(&name("again"), "other").unwrap(), bytes(2 * MIB, 13));
    test.put(&bucket, "more", b"x").unwrap();
    assert!(back_up(&test, "jar", dir.path()).unwrap().sent_bytes < 10_000, "the next one goes on");
}

#[test]
fn a_clock_that_is_set_back_changes_no_order_of_backups() {
    let clock = Arc::new(Later::default());
    let (test, dir) = (TestStore::with_clock(clock.clone()), tempfile::tempdir().unwrap());
    let bucket = test.bucket("jar");
    test.put(&bucket, "large", &bytes(2 * MIB, 1)).unwrap();
    for round in 0..4 {
        test.put(&bucket, "small", &bytes(5000, round)).unwrap();
        let made = back_up(&test, "jar", dir.path()).unwrap();
        assert!(round == 0 || made.sent_bytes < 10_000, "{made:?}");
        let folder = Folder::for_reading(dir.path()).unwrap();
        assert_eq!(newest(&folder, "jar").unwrap(), made.id, "round {round}");
        bring_back(&test, dir.path(), "jar", &format!("again-{round}")).unwrap();
        assert_eq!(test.get(&name(&format!("again-{round}")), "small").unwrap(), bytes(5000, round));
        clock.set_back(std::time::Duration::from_secs(86_400));
    }
    let folder = Folder::for_writing(dir.path()).unwrap();
    let made: Vec<_> = list(&folder).unwrap().into_iter().map(|backup| backup.unwrap().created).collect();
    assert!(made.is_sorted_by(|a, b| a > b), "they tell what the clock said: {made:?}");
    assert_eq!(prune(&folder, 1).unwrap().backups, 3);
    bring_back(&test, dir.path(), "jar", "kept").unwrap();
    assert_eq!(test.get(&name("kept"), "small").unwrap(), bytes(5000, 3));
}

#[test]
fn a_damaged_or_incomplete_backup_is_refused_and_nothing_is_left() {
    let (test, dir) = (TestStore::in_memory(), tempfile::tempdir().unwrap());
    let bucket = test.bucket("jar");
    test.put(&bucket, "large", &bytes(9 * MIB, 1)).unwrap();
    test.put(&bucket, "small", &bytes(9_000, 1)).unwrap();
    back_up(&test, "jar", dir.path()).unwrap();
    let mut files = Vec::new();
    walk(dir.path(), &mut files);
    files.retain(|path| path.components().any(|part| matches!(part.as_os_str().to_str(), Some("data" | "backups"))));
    assert!(files.len() >= 5, "{files:?}");
    let blobs = test.store.core.blobs.file_ids().unwrap().len();
    for file in files {
        let was = std::fs::read(&file).unwrap();
        let mut damaged = was.clone();
        damaged[was.len() / 2] ^= 1;
        for content in [Some(damaged), Some(was[..was.len() / 2].to_vec()), None] {
            match content {
                Some(content) => std::fs::write(&file, content).unwrap(),
                None => std::fs::remove_file(&file).unwrap(),
            }
            let refused = bring_back(&test, dir.path(), "jar", "again");
            assert!(matches!(refused, Err(Error::Corrupt { .. } | Error::Unusable { .. })), "{refused:?}");
            assert!(test.store.bucket(&name("again")).is_err());
            let folder = Folder::for_reading(dir.path()).unwrap();
            let is_manifest = file.extension().is_some();
            assert!((is_manifest && !file.exists()) || !verify(&folder, &|_| {}).unwrap().0.is_empty());
        }
        std::fs::write(&file, was).unwrap();
    }
    for _ in 0..3 {
        test.store.background.collect_now().unwrap();
    }
    assert_eq!(test.store.core.blobs.file_ids().unwrap().len(), blobs, "nothing is left of them");
    bring_back(&test, dir.path(), "jar", "again").unwrap();
}

#[test]
fn a_restore_that_is_killed_leaves_nothing_and_is_run_again() {
    let (test, dir) = (TestStore::on_disk(), tempfile::tempdir().unwrap());
    full(&test);
    back_up(&test, "jar", dir.path()).unwrap();
    let snapshot = taken(&test);
    let expected = records(&test, &snapshot);
    // The background work would change the folder while it is copied.
    test.store.background.stop();
    for step in 0.. {
        let (at, left) = (Arc::new(AtomicU64::new(0)), Arc::new(parking_lot::Mutex::new(None)));
        let (counted, copied, store) = (at.clone(), left.clone(), test.dir.clone());
        let told: ProgressSink = Arc::new(move |_| {
            if counted.fetch_add(1, Ordering::Relaxed) == step {
                *copied.lock() = Some(copy_of(&store));
            }
            Ok(())
        });
        let to = format!("again-{step}");
        bring_back_told(&test, dir.path(), "jar", &to, &told).unwrap();
        let Some(left): Option<Arc<TempDir>> = left.lock().take() else { break };
        let other = TestStore::at(left.clone()).unwrap();
        assert!(other.store.bucket(&name(&to)).is_err(), "step {step}");
        bring_back(&other, dir.path(), "jar", &to).unwrap();
        assert_eq!(records(&other, &to), expected);
        for _ in 0..3 {
            other.store.background.collect_now().unwrap();
        }
        assert_eq!(crate::tests::audit::faults(&other.store), Vec::<String>::new(), "step {step}");
        assert_eq!(crate::tests::audit::leftovers(&other.store), Vec::<String>::new(), "step {step}");
    }
}

#[test]
fn a_backup_that_is_killed_is_no_backup_and_the_next_one_is_whole() {
    let (test, dir) = (TestStore::in_memory(), tempfile::tempdir().unwrap());
    full(&test);
    for step in 0..6 {
        let at = AtomicU64::new(0);
        let told: ProgressSink = Arc::new(move |_| match at.fetch_add(1, Ordering::Relaxed) {
            now if now == step => Err(Error::Busy { what: "the test, which ends it here,".into() }),
            _ => Ok(()),
        });
        let ended = back_up_told(&test, "jar", dir.path(), &told);
        assert!(matches!(ended, Err(Error::Busy { .. })), "{ended:?}");
        let folder = Folder::for_reading(dir.path()).unwrap();
        assert_eq!(list(&folder).unwrap().len(), 0);
    }
    back_up(&test, "jar", dir.path()).unwrap();
    bring_back(&test, dir.path(), "jar", "again").unwrap();
    same(&test, &taken(&test), "again");
}

#[test]
fn what_is_damaged_in_the_store_is_told_and_stays_damaged() {
    let (test, dir) = (TestStore::on_disk(), tempfile::tempdir().unwrap());
    let bucket = test.bucket("jar");
    test.put(&bucket, "good", &bytes(300_000, 1)).unwrap();
    test.put(&bucket, "bad", &bytes(9 * MIB, 1)).unwrap();
    let files = test.store.core.blobs.file_ids().unwrap();
    let id = files.into_iter().max_by_key(|id| test.store.core.blobs.file(*id).unwrap().len().unwrap()).unwrap();
    super::repair::flip(&test.dir.path().join(format!("content/blobs/{:02x}/{id}", id.0 & 255)), 8 << 20);
    let made = back_up(&test, "jar", dir.path()).unwrap();
    assert_eq!(made.damaged.len(), 1);
    assert!(made.damaged[0].contains("key \"bad\""), "{made:?}");
    bring_back(&test, dir.path(), "jar", "again").unwrap();
    assert_eq!(test.get(&name("again"), "good").unwrap(), bytes(300_000, 1));
    assert!(matches!(test.get(&name("again"), "bad"), Err(Error::Corrupt { .. })));
    test.delete(&name("again"), "bad").unwrap();
}

#[test]
fn a_folder_with_something_else_in_it_is_refused_and_all_is_for_the_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let (test, dir) = (TestStore::in_memory(), tempfile::tempdir().unwrap());
    let bucket = test.bucket("jar");
    test.put(&bucket, "large", &bytes(MIB, 1)).unwrap();
    let other = dir.path().join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("file"), b"x").unwrap();
    assert!(matches!(back_up(&test, "jar", &other), Err(Error::Unusable { .. })));
    assert!(matches!(bring_back(&test, &other, "jar", "again"), Err(Error::Unusable { .. })));
    let folder = dir.path().join("b");
    back_up(&test, "jar", &folder).unwrap();
    let mut files = Vec::new();
    walk(&folder, &mut files);
    for path in files {
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "{path:?}");
        let above = std::fs::metadata(path.parent().unwrap()).unwrap().permissions().mode();
        assert_eq!(above & 0o777, 0o700, "{path:?}");
    }
    let held = Folder::for_writing(&folder).unwrap();
    assert!(matches!(back_up(&test, "jar", &folder), Err(Error::Unusable { .. })), "one writes at a time");
    drop(held);
    let secret = test.store.root_key().unwrap().secret;
    let mut files = Vec::new();
    walk(&folder, &mut files);
    for path in files {
        let content = std::fs::read(path).unwrap();
        assert!(!content.windows(20).any(|window| window == &secret.reveal().as_bytes()[..20]));
    }
}

fn walk(dir: &Path, files: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { walk(&path, files) } else { files.push(path) }
    }
}

#[test]
fn a_policy_is_about_the_same_accounts_and_its_own_bucket_wherever_it_is_restored() {
    let (test, other, dir) = (TestStore::in_memory(), TestStore::in_memory(), tempfile::tempdir().unwrap());
    let bucket = test.bucket("jar");
    let id_of = |test: &TestStore, account: &str| test.store.account(account).unwrap().id;
    test.run(test.store.create_account("anna", false)).unwrap();
    test.run(test.store.create_account("carl", false)).unwrap();
    let meant = ["anna", "carl"].map(|account| (account.to_owned(), id_of(&test, account)));
    let change = move |settings: &mut Settings| {
        settings.policy = Some(r#"{"Resource":"arn:aws:s3:::jar/*"}"#.into());
        settings.policy_accounts = meant.clone().into();
        Ok(())
    };
    test.run(test.store.change_settings(&bucket, change)).unwrap();
    // A new account with this name is not the one that the policy means.
    test.run(test.store.delete_account("carl")).unwrap();
    test.run(test.store.create_account("carl", false)).unwrap();
    back_up(&test, "jar", dir.path()).unwrap();
    for account in ["zoe", "anna", "carl"] {
        other.run(other.store.create_account(account, false)).unwrap();
    }
    let empty = TestStore::in_memory();
    for test in [&test, &other, &empty] {
        bring_back(test, dir.path(), "jar", "pot").unwrap();
        let settings = test.store.settings(&name("pot")).unwrap().settings.clone();
        assert_eq!(settings.policy.as_deref(), Some(r#"{"Resource":"arn:aws:s3:::pot/*"}"#));
        assert_eq!(settings.policy_accounts["anna"], id_of(test, "anna"));
        let carl = test.store.account("carl").map(|carl| carl.id).ok();
        assert_ne!(Some(settings.policy_accounts["carl"]), carl);
        assert_eq!(crate::tests::audit::faults(&test.store), Vec::<String>::new());
    }
    assert!(empty.store.account("carl").is_err(), "nobody is made for whom a policy does not mean");
}
