//! Access control lists and owners of objects: what keeps them, what leaves them behind, and where they come back.

use std::path::Path;
use std::sync::Arc;

use super::rig::{Rig, find, key, name};
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

fn set(rig: &Rig, bucket: &BucketName, at: &str, wanted: &ObjectAccess) {
    let acl = wanted.acl.clone();
    rig.run(rig.store.change_acl(bucket, &key(at), None, move |access| {
        access.acl = acl;
        Ok(())
    }))
    .unwrap();
}

fn of(rig: &Rig, bucket: &BucketName, at: &str, version: Option<&str>) -> ObjectAccess {
    rig.store.head_object(bucket, &key(at), version).unwrap().access
}

fn account(rig: &Rig, name: &str) -> u64 {
    rig.run(rig.store.create_account(name, false)).unwrap().0.id
}

#[test]
fn a_list_is_of_one_version_and_goes_with_snapshots_and_clones() {
    let rig = Rig::in_memory();
    let bucket = rig.bucket("jar");
    let bob = account(&rig, "bob");
    let versioned = SetBucket { versioning: Some(Versioning::Enabled), ..SetBucket::default() };
    rig.run(rig.store.set_bucket(&bucket, versioned)).unwrap();
    let open = access(0, bob);
    let first = rig.put(&bucket, "k", b"1").unwrap().version.unwrap();
    set(&rig, &bucket, "k", &open);
    rig.put(&bucket, "k", b"2").unwrap();
    assert_eq!(of(&rig, &bucket, "k", None), ObjectAccess::default(), "a new version begins private");
    assert_eq!(of(&rig, &bucket, "k", Some(&first)), open);
    set(&rig, &bucket, "k", &open);
    let then = rig.snapshot(&bucket, "then");
    let cloned = rig.clone_of(Source::Bucket(bucket.clone()), "cloned");
    set(&rig, &bucket, "k", &ObjectAccess::default());
    for (bucket, expected) in [(&bucket, ObjectAccess::default()), (&then, open.clone()), (&cloned, open.clone())] {
        assert_eq!(of(&rig, bucket, "k", None), expected, "{bucket}");
        assert_eq!(of(&rig, bucket, "k", Some(&first)), open, "{bucket}");
    }
    rig.audit_collected();
}

#[test]
fn copies_and_what_a_mount_writes_are_private_and_the_bucket_owners() {
    let rig = Rig::in_memory();
    let bucket = rig.bucket("jar");
    let bob = account(&rig, "bob");
    for at in ["k", "l"] {
        rig.put(&bucket, at, b"1").unwrap();
        set(&rig, &bucket, at, &access(0, bob));
    }
    rig.copy((&bucket, "k"), (&bucket, "copy")).unwrap();
    assert_eq!(of(&rig, &bucket, "copy", None), ObjectAccess::default());
    let volume = rig.mount(&bucket);
    let ino = find(&volume, "k").unwrap();
    volume.write(ino, 0, b"2", false).unwrap();
    volume.forget(ino, 1);
    assert_eq!(of(&rig, &bucket, "k", None), ObjectAccess::default(), "other content is not let out");
    let ino = find(&volume, "l").unwrap();
    volume.forget(ino, 1);
    drop(volume);
    assert_eq!(of(&rig, &bucket, "l", None), access(0, bob), "a look changes nothing");
    rig.put(&bucket, "l", b"2").unwrap();
    assert_eq!(of(&rig, &bucket, "l", None), ObjectAccess::default());
}

#[test]
fn a_change_that_is_refused_changes_nothing() {
    let rig = Rig::in_memory();
    let bucket = rig.bucket("jar");
    rig.put(&bucket, "k", b"1").unwrap();
    let refused = rig.run(rig.store.change_acl(&bucket, &key("k"), None, |access| {
        access.acl = Some(AccessList::default());
        Err(crate::Error::Denied { why: "no".into() })
    }));
    assert!(refused.is_err());
    assert_eq!(of(&rig, &bucket, "k", None), ObjectAccess::default());
}

fn back_up(rig: &Rig, dir: &Path) {
    let folder = Arc::new(Folder::for_writing(dir).unwrap());
    rig.run(create(&rig.store, &name("jar"), &folder, &(Arc::new(|_: Progress| Ok(())) as _))).unwrap();
}

fn bring_back(rig: &Rig, dir: &Path) {
    let folder = Arc::new(Folder::for_reading(dir).unwrap());
    let id = newest(&folder, "jar").unwrap();
    let told = Arc::new(|_: Progress| Ok(())) as _;
    rig.run(restore(&rig.store, &folder, ("jar", &id), &name("pot"), &told)).unwrap();
}

#[test]
fn lists_are_about_the_same_accounts_wherever_a_backup_is_restored() {
    let (rig, other, empty) = (Rig::in_memory(), Rig::in_memory(), Rig::in_memory());
    let dir = tempfile::tempdir().unwrap();
    let bucket = rig.bucket("jar");
    let (anna, bob, carl) = (account(&rig, "anna"), account(&rig, "bob"), account(&rig, "carl"));
    let content = vec![7; 200 << 10];
    for (at, data) in [("inline", &b"1"[..]), ("blob", &content)] {
        rig.put_as(&bucket, at, data, access(anna, bob)).unwrap();
    }
    rig.put_as(&bucket, "gone", b"1", access(carl, carl)).unwrap();
    rig.put(&bucket, "plain", b"1").unwrap();
    let change = move |settings: &mut Settings| {
        settings.ownership = Some(Ownership { rule: "ObjectWriter".into(), deleted: false });
        settings.acl = access(0, bob).acl;
        Ok(())
    };
    rig.run(rig.store.change_settings(&bucket, change)).unwrap();
    rig.run(rig.store.delete_account("carl")).unwrap();
    back_up(&rig, dir.path());
    // Here ids are others, and those of the backup are other accounts'.
    for taken in ["zoe", "yan", "xena", "bob"] {
        account(&other, taken);
    }
    for rig in [&rig, &other, &empty] {
        bring_back(rig, dir.path());
        let [anna, bob] = ["anna", "bob"].map(|name| rig.store.account(name).unwrap().id);
        for at in ["inline", "blob"] {
            assert_eq!(of(rig, &name("pot"), at, None), access(anna, bob), "{at}");
        }
        assert_eq!(of(rig, &name("pot"), "gone", None), access(0, 0), "nobody has what a deleted account had");
        assert_eq!(of(rig, &name("pot"), "plain", None), ObjectAccess::default());
        assert_eq!(rig.store.settings(&name("pot")).unwrap().settings.acl, access(0, bob).acl);
        assert!(rig.store.account("carl").is_err());
        assert_eq!(crate::tests::audit::faults(&rig.store), Vec::<String>::new());
    }
}
