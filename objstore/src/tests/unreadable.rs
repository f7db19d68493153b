//! Unreadable records of each kind: found by a check, and repaired or quarantined, with everything else unchanged and
//! no additional access.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;

use super::repair::{bytes, closed, is_damaged, record, repair, write};
use super::test_store::*;
use crate::check::{Options, run};
use crate::error::{Error, Noun};
use crate::meta::Txn;
use crate::name::BucketName;
use crate::record::key::{self, tag};
use crate::store::*;
use crate::volume::ROOT_INO;

/// Objects by bucket and key, each with its content.
pub(super) type Objects = BTreeMap<(&'static str, String), Vec<u8>>;

fn add(objects: &mut Objects, test: &TestStore, bucket: &'static str, at: &str, data: Vec<u8>) {
    test.put(&name(bucket), at, &data).unwrap();
    objects.insert((bucket, at.to_owned()), data);
}

/// A closed store with a record of nearly every kind, and what its objects hold.
pub(super) fn varied() -> (Arc<TempDir>, Objects) {
    let test = TestStore::on_disk();
    let mut objects = Objects::new();
    test.bucket("jar");
    test.run(test.store.create_bucket(CreateBucket { versioning: Versioning::Enabled, ..bucket_request("kept") }))
        .unwrap();
    add(&mut objects, &test, "jar", "dir/inline", b"small".to_vec());
    add(&mut objects, &test, "jar", "dir/packed", bytes(20_000));
    add(&mut objects, &test, "jar", "large", bytes(300 << 10));
    for data in [b"old".to_vec(), bytes(9_000)] {
        add(&mut objects, &test, "kept", "a/again", data);
    }
    add(&mut objects, &test, "kept", "gone", b"gone".to_vec());
    test.delete(&name("kept"), "gone").unwrap();
    objects.remove(&("kept", "gone".into()));
    test.snapshot(&name("jar"), "then");
    let held: Vec<_> = objects
        .iter()
        .filter(|((bucket, _), _)| *bucket == "jar")
        .map(|(at, data)| (at.1.clone(), data.clone()))
        .collect();
    objects.extend(held.into_iter().map(|(at, data)| (("then", at), data)));
    with_extents(&test, &mut objects);
    let upload = test.begin_upload(&name("jar"), "parts");
    test.put_part(&upload, 1, &bytes(70_000)).unwrap();
    let done = test.begin_upload(&name("jar"), "whole");
    let part = test.put_part(&done, 1, &bytes(80_000)).unwrap();
    test.complete(&done, &[&part]).unwrap();
    objects.insert(("jar", "whole".into()), bytes(80_000));
    with_access(&test);
    test.bucket("zzz");
    let members = vec![GroupMember { bucket: name("zzz"), snapshot: name("zzz-then") }];
    test.run(test.store.create_group_snapshot(&name("group"), members, Creator::Csi)).unwrap();
    (closed(test), objects)
}

/// A file of which a snapshot shares a part.
fn with_extents(test: &TestStore, objects: &mut Objects) {
    let volume = test.mount(&name("jar"));
    let ino = volume.lookup(ROOT_INO, "large").unwrap().ino;
    volume.write(ino, 100_000, b"in between", false).unwrap();
    volume.forget(ino, 1);
    let held = objects.get_mut(&("jar", "large".into())).unwrap();
    held[100_000..100_010].copy_from_slice(b"in between");
}

fn with_access(test: &TestStore) {
    test.run(test.store.create_account("anna", true)).unwrap();
    test.run(test.store.create_key("anna")).unwrap();
    test.run(test.store.add_grant(&name("jar"), "anna", Mode::Read)).unwrap();
    let trusted = TrustedIdentity { issuer: "https://i".into(), subject: "s".into(), audience: None };
    let role = NewRole {
        account: "anna".into(),
        name: "web".into(),
        creator: Creator::Administrator,
        identities: vec![trusted],
        accounts: Vec::new(),
    };
    test.run(test.store.create_role(role)).unwrap();
    let (node, capability) = ("node-1".into(), "rw".into());
    let publication =
        Publication { bucket: name("jar"), node, read_only: false, capability, ticket_suffices: true, fenced_by: None };
    test.run(test.store.publish(publication)).unwrap();
    let tell = |settings: &mut Settings| {
        settings.policy = Some("{}".into());
        Ok(())
    };
    test.run(test.store.change_settings(&name("jar"), tell)).unwrap();
}

/// Makes a record unreadable, behind the store's back.
pub(super) fn garble(dir: &Path, at: Vec<u8>) {
    write(dir, move |txn| txn.put(at, vec![0xff; 20]));
}

/// One repair fixes everything that a check finds; then the store is intact except for quarantined content.
fn repaired(dir: &Path) -> Vec<String> {
    let found = run(dir, &Options::default()).unwrap();
    assert!(!found.clean(), "it finds nothing");
    let report = repair(dir);
    assert_eq!(report.problems, Vec::<String>::new(), "after {:#?}", report.repaired);
    assert_eq!(repair(dir).repaired, Vec::<String>::new(), "a second repair finds nothing to do");
    assert_eq!(run(dir, &Options::default()).unwrap().problems, Vec::<String>::new());
    report.repaired
}

/// Each object is whole or an error, and none is said to be absent; those that are errors.
fn damaged(test: &TestStore, objects: &Objects) -> Vec<String> {
    let mut damaged = Vec::new();
    for ((bucket, at), data) in objects {
        match test.get(&name(bucket), at) {
            Ok(found) => assert!(found == *data, "{bucket}/{at} is not what was put"),
            Err(Error::Corrupt { .. }) => damaged.push(format!("{bucket}/{at}")),
            Err(error) => panic!("{bucket}/{at}: {error}"),
        }
    }
    damaged
}

fn first(dir: &Path, tag: u8) -> Option<Vec<u8>> {
    write(dir, move |txn| {
        let pairs = all(txn, &[tag]).unwrap();
        pairs.into_iter().find(|pair| !pair.value.is_empty()).map(|pair| pair.key.to_vec())
    })
}

/// Kinds of records that are messages, and what at most may be lost with one.
const KINDS: [(u8, usize); 25] = [
    (tag::BUCKET, 0),
    (tag::BUCKET_ID, 0),
    (tag::CLONE_GROUP, 0),
    (tag::BRANCH, 0),
    (tag::USAGE, 0),
    (tag::SNAPSHOT, 0),
    (tag::SETTINGS, 0),
    (tag::GROUP_SNAPSHOT, 0),
    (tag::INODE, 1),
    (tag::DIRENT, 0),
    (tag::EXTENT, 1),
    (tag::VERSION, 0),
    (tag::OBJECT_PARTS, 0),
    (tag::BLOB, 0),
    (tag::SUMS, 2),
    (tag::SEGMENT, 0),
    (tag::ACCOUNT, 0),
    (tag::ACCOUNT_ID, 0),
    (tag::KEY, 0),
    (tag::GRANT, 0),
    (tag::ROLE, 0),
    (tag::PUBLICATION, 0),
    (tag::UPLOAD, 0),
    (tag::PART, 0),
    (tag::COMPLETED, 0),
];

#[test]
fn a_record_of_any_kind_that_cannot_be_read_costs_no_other() {
    let (whole, objects) = varied();
    for (kind, most) in KINDS {
        let dir = copy_of(&whole);
        let at = first(dir.path(), kind).unwrap_or_else(|| panic!("no record of the kind {kind:02x}"));
        garble(dir.path(), at);
        let repaired = repaired(dir.path());
        let test = TestStore::at(dir).unwrap_or_else(|error| panic!("{kind:02x}: {error}: {repaired:#?}"));
        let damaged = damaged(&test, &objects);
        assert!(damaged.len() <= most, "{kind:02x}: {damaged:?}: {repaired:#?}");
        test.put(&name("jar"), "new", b"new").unwrap();
        assert_eq!(crate::check::records_of(&test.store.core).unwrap().problems, Vec::<String>::new(), "{kind:02x}");
    }
}

#[test]
fn a_blob_that_lost_its_record_and_some_checksums_is_an_error_and_not_served_unverified() {
    let (dir, objects) = varied();
    let sums = first(dir.path(), tag::SUMS).unwrap();
    garble(dir.path(), key::by_id(tag::BLOB, key::u64_at(&sums, 1).unwrap()));
    garble(dir.path(), sums);
    repaired(dir.path());
    assert_eq!(damaged(&TestStore::at(dir).unwrap(), &objects), ["then/large"]);
}

#[test]
fn a_store_without_a_header_is_refused_and_left_as_it_is() {
    let (dir, _) = varied();
    garble(dir.path(), key::header());
    assert!(matches!(run(dir.path(), &Options::default()), Err(Error::Corrupt { .. })));
    assert!(matches!(TestStore::at(dir).map(drop), Err(Error::Corrupt { .. })));
}

#[test]
fn settings_that_cannot_be_read_let_in_nobody_until_they_are_put_anew() {
    for gone in [false, true] {
        let test = TestStore::on_disk();
        let request = CreateBucket { versioning: Versioning::Enabled, ..bucket_request("jar") };
        let locked =
            Settings { object_lock: Some(ObjectLock::default()), policy: Some("{}".into()), ..Settings::default() };
        test.run(test.store.create_bucket_with(request, locked)).unwrap();
        test.put(&name("jar"), "held", b"held").unwrap();
        test.run(test.store.set_legal_hold(&name("jar"), &key("held"), None, true)).unwrap();
        let dir = closed(test);
        write(dir.path(), move |txn| {
            let at = key::by_id(tag::SETTINGS, record(txn).id);
            if gone { txn.delete(at) } else { txn.put(at, vec![0xff; 20]) }
        });
        // Until the repair, no caller is admitted as if there were no policy.
        let test = TestStore::at(dir).unwrap();
        is_damaged(test.store.settings(&name("jar")));
        let dir = closed(test);
        repaired(dir.path());
        // What is no JSON is no policy, and S3 denies everything then.
        let settings = TestStore::at(dir).unwrap().store.settings(&name("jar")).unwrap().settings;
        assert!(settings.policy.as_deref().is_some_and(|policy| !policy.starts_with('{')), "{settings:?}");
        assert!(settings.public_access.is_some_and(|block| block.restrict_buckets && block.block_policy));
        assert!(settings.object_lock.is_some(), "something in it is locked");
    }
}

#[test]
fn an_account_that_cannot_be_read_keeps_its_name_keys_and_grants_and_may_make_no_buckets() {
    let (dir, _) = varied();
    garble(dir.path(), key::by_name(tag::ACCOUNT, "anna"));
    repaired(dir.path());
    let test = TestStore::at(dir).unwrap();
    assert!(!test.store.account("anna").unwrap().may_create_buckets);
    assert_eq!(test.store.grants(Some(&name("jar")), None).unwrap().len(), 1);
    let keys = test.store.keys(Some("anna")).unwrap();
    assert!(test.store.identify(&keys[0].id).unwrap().is_some());
}

#[test]
fn a_key_that_cannot_be_read_is_refused_and_root_gets_another() {
    let (dir, _) = varied();
    let root = TestStore::at(dir.clone()).unwrap();
    let before = root.store.root_key().unwrap().id;
    let dir = closed(root);
    garble(dir.path(), key::by_name(tag::KEY, &before));
    repaired(dir.path());
    let test = TestStore::at(dir).unwrap();
    assert!(test.store.identify(&before).unwrap().is_none());
    let now = test.store.root_key().unwrap().id;
    assert!(now != before && test.store.identify(&now).unwrap().unwrap().account.root);
    let kept = std::fs::read_dir(test.dir.path().join("quarantine")).unwrap().count();
    assert_eq!(kept, 1, "the record is kept as it was");
}

#[test]
fn two_buckets_that_cannot_be_read_come_back_under_names_of_their_own() {
    let (dir, objects) = varied();
    for bucket in ["jar", "kept"] {
        garble(dir.path(), key::by_name(tag::BUCKET, bucket));
    }
    repaired(dir.path());
    let test = TestStore::at(dir).unwrap();
    let found: Vec<BucketName> = test.store.buckets(None, 100).unwrap().into_iter().map(|bucket| bucket.name).collect();
    let lost: Vec<&BucketName> = found.iter().filter(|name| name.as_str().starts_with("lost-")).collect();
    assert_eq!(lost.len(), 2, "{found:?}");
    for ((_, at), data) in objects.iter().filter(|((bucket, _), _)| *bucket != "then") {
        assert!(lost.iter().any(|bucket| test.get(bucket, at).is_ok_and(|found| found == *data)), "{at}");
    }
    let missing = test.get(&name("jar"), "large");
    assert!(matches!(missing, Err(Error::NotFound { noun: Noun::Bucket, .. })), "{missing:?}");
}

#[test]
fn a_second_name_that_cannot_be_read_is_quarantined_and_the_first_still_leads_there() {
    let test = TestStore::on_disk();
    let bucket = test.bucket("jar");
    test.put(&bucket, "first", &bytes(9_000)).unwrap();
    let volume = test.mount(&bucket);
    let ino = volume.lookup(ROOT_INO, "first").unwrap().ino;
    volume.link(ino, ROOT_INO, "second").unwrap();
    drop(volume);
    let dir = closed(test);
    // The inode remembers one of its names: that one comes back, and the other is not known.
    for (at, other) in [("first", "second"), ("second", "first")] {
        let dir = copy_of(&dir);
        write(dir.path(), move |txn| {
            let name = key::dirent(record(txn).clone_group, ROOT_INO, at);
            txn.put(key::branched(&name, record(txn).branch), vec![0xff; 20]);
        });
        repaired(dir.path());
        let test = TestStore::at(dir).unwrap();
        assert!(test.get(&name("jar"), other).unwrap() == bytes(9_000));
        match test.get(&name("jar"), at) {
            Ok(found) => assert!(found == bytes(9_000)),
            Err(error) => {
                assert!(matches!(error, Error::Corrupt { .. }), "{error}");
                test.delete(&name("jar"), at).unwrap();
            }
        }
    }
}

#[test]
fn versions_and_markers_that_cannot_be_read_follow_from_the_inodes() {
    let (dir, _) = varied();
    let versions = |test: &TestStore| {
        let all = ListVersions { list: List { limit: usize::MAX, ..List::default() }, ..ListVersions::default() };
        let listed = test.store.list_versions(&name("kept"), &all).unwrap().versions;
        let shown = |version: VersionInfo| (version.object.key, version.object.version, version.marker, version.latest);
        listed.into_iter().map(shown).collect::<Vec<_>>()
    };
    let test = TestStore::at(dir).unwrap();
    let before = versions(&test);
    let dir = closed(test);
    let all_versions = write(dir.path(), |txn: &mut dyn Txn| all(txn, &[tag::VERSION]).unwrap());
    assert_eq!(all_versions.len(), 3, "an old one, a marker, and what it hides");
    for pair in all_versions {
        let dir = copy_of(&dir);
        garble(dir.path(), pair.key.to_vec());
        repaired(dir.path());
        assert_eq!(versions(&TestStore::at(dir).unwrap()), before);
    }
}
