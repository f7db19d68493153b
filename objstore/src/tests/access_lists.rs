//! Access control lists and owners of objects: which operations keep them, drop them, and restore them.

use std::path::Path;
use std::sync::Arc;

use super::test_store::{TestStore, find, key, name};
use crate::backup::{Folder, Progress, create, newest, restore};
use crate::name::BucketName;
use crate::store::{
    AccessGrant, AccessList, Grantee, ObjectAccess, Ownership, Permission, SetBucket, Settings, Source, Versioning,
};

/// What an object has that account `owner` wrote and account `reader` may read, as everybody may.
fn access(owner: u64, reader: u64) -> ObjectAccess {
    let grants = [
        AccessGrant::new(Grantee::Owner, Permission::FullControl),
        AccessGrant::new(Grantee::Account(reader), Permission::Read),
        AccessGrant::new(Grantee::AllUsers, Permission::Read),
    ];
    ObjectAccess { owner, acl: Some(AccessList { grants: grants.into() }) }
}

fn set(test: &TestStore, bucket: &BucketName, at: &str, wanted: &ObjectAccess) {
    let acl = wanted.acl.clone();
    test.run(test.store.change_acl(bucket, &key(at), None, move |access| {
        access.acl = acl;
        Ok(())
    }))
    .unwrap();
}

fn of(test: &TestStore, bucket: &BucketName, at: &str, version: Option<&str>) -> ObjectAccess {
    test.store.head_object(bucket, &key(at), version).unwrap().access
}

fn account(test: &TestStore, name: &str) -> u64 {
    test.run(test.store.create_account(name, false)).unwrap().0.id
}

#[test]
fn a_list_is_of_one_version_and_goes_with_snapshots_and_clones() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("jar");
    let bob = account(&test, "bob");
    let versioned = SetBucket { versioning: Some(Versioning::Enabled), ..SetBucket::default() };
    test.run(test.store.set_bucket(&bucket, versioned)).unwrap();
    let open = access(0, bob);
    let first = test.put(&bucket, "k", b"1").unwrap().version.unwrap();
    set(&test, &bucket, "k", &open);
    test.put(&bucket, "k", b"2").unwrap();
    assert_eq!(of(&test, &bucket, "k", None), ObjectAccess::default(), "a new version begins private");
    assert_eq!(of(&test, &bucket, "k", Some(&first)), open);
    set(&test, &bucket, "k", &open);
    let then = test.snapshot(&bucket, "then");
    let cloned = test.clone_of(Source::Bucket(bucket.clone()), "cloned");
    set(&test, &bucket, "k", &ObjectAccess::default());
    for (bucket, expected) in [(&bucket, ObjectAccess::default()), (&then, open.clone()), (&cloned, open.clone())] {
        assert_eq!(of(&test, bucket, "k", None), expected, "{bucket}");
        assert_eq!(of(&test, bucket, "k", Some(&first)), open, "{bucket}");
    }
    test.audit_collected();
}

#[test]
fn copies_and_what_a_mount_writes_are_private_and_the_bucket_owners() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("jar");
    let bob = account(&test, "bob");
    for at in ["k", "l"] {
        test.put(&bucket, at, b"1").unwrap();
        set(&test, &bucket, at, &access(0, bob));
    }
    test.copy((&bucket, "k"), (&bucket, "copy")).unwrap();
    assert_eq!(of(&test, &bucket, "copy", None), ObjectAccess::default());
    let volume = test.mount(&bucket);
    let ino = find(&volume, "k").unwrap();
    volume.write(ino, 0, b"2", false).unwrap();
    volume.forget(ino, 1);
    assert_eq!(of(&test, &bucket, "k", None), ObjectAccess::default(), "other content is not let out");
    let ino = find(&volume, "l").unwrap();
    volume.forget(ino, 1);
    drop(volume);
    assert_eq!(of(&test, &bucket, "l", None), access(0, bob), "a look changes nothing");
    test.put(&bucket, "l", b"2").unwrap();
    assert_eq!(of(&test, &bucket, "l", None), ObjectAccess::default());
}

#[test]
fn a_change_that_is_refused_changes_nothing() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("jar");
    test.put(&bucket, "k", b"1").unwrap();
    let refused = test.run(test.store.change_acl(&bucket, &key("k"), None, |access| {
        access.acl = Some(AccessList::default());
        Err(crate::Error::Denied { why: "no".into() })
    }));
    assert!(refused.is_err());
    assert_eq!(of(&test, &bucket, "k", None), ObjectAccess::default());
}

fn back_up(test: &TestStore, dir: &Path) {
    let folder = Arc::new(Folder::for_writing(dir).unwrap());
    test.run(create(&test.store, &name("jar"), &folder, &(Arc::new(|_: Progress| Ok(())) as _))).unwrap();
}

fn bring_back(test: &TestStore, dir: &Path) {
    let folder = Arc::new(Folder::for_reading(dir).unwrap());
    let id = newest(&folder, "jar").unwrap();
    let told = Arc::new(|_: Progress| Ok(())) as _;
    test.run(restore(&test.store, &folder, ("jar", &id), &name("pot"), &told)).unwrap();
}

#[test]
fn lists_are_about_the_same_accounts_wherever_a_backup_is_restored() {
    let (test, other, empty) = (TestStore::in_memory(), TestStore::in_memory(), TestStore::in_memory());
    let dir = tempfile::tempdir().unwrap();
    let bucket = test.bucket("jar");
    let (anna, bob, carl) = (account(&test, "anna"), account(&test, "bob"), account(&test, "carl"));
    let content = vec![7; 200 << 10];
    for (at, data) in [("inline", &b"1"[..]), ("blob", &content)] {
        test.put_as(&bucket, at, data, access(anna, bob)).unwrap();
    }
    test.put_as(&bucket, "gone", b"1", access(carl, carl)).unwrap();
    test.put(&bucket, "plain", b"1").unwrap();
    let change = move |settings: &mut Settings| {
        settings.ownership = Some(Ownership { rule: "ObjectWriter".into(), deleted: false });
        settings.acl = access(0, bob).acl;
        Ok(())
    };
    test.run(test.store.change_settings(&bucket, change)).unwrap();
    test.run(test.store.delete_account("carl")).unwrap();
    back_up(&test, dir.path());
    // Here ids are others, and those of the backup are other accounts'.
    for taken in ["zoe", "yan", "xena", "bob"] {
        account(&other, taken);
    }
    for test in [&test, &other, &empty] {
        bring_back(test, dir.path());
        let [anna, bob] = ["anna", "bob"].map(|name| test.store.account(name).unwrap().id);
        for at in ["inline", "blob"] {
            assert_eq!(of(test, &name("pot"), at, None), access(anna, bob), "{at}");
        }
        assert_eq!(of(test, &name("pot"), "gone", None), access(0, 0), "nobody has what a deleted account had");
        assert_eq!(of(test, &name("pot"), "plain", None), ObjectAccess::default());
        assert_eq!(test.store.settings(&name("pot")).unwrap().settings.acl, access(0, bob).acl);
        assert!(test.store.account("carl").is_err());
        assert_eq!(crate::tests::audit::faults(&test.store), Vec::<String>::new());
    }
}
