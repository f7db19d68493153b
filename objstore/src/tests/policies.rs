//! Accounts created again under an old name, and mounts under a bucket policy.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::test_store::{TestStore, find, make_file, read_file};
use crate::error::Error;
use crate::name::BucketName;
use crate::store::*;
use crate::volume::{Volume, VolumeOptions};

/// Test policies that say what an account loses, one rule in a line: `NAME loses writing` or `NAME loses all`.
struct Ancestries;

impl MountPolicies for Ancestries {
    fn leaves(&self, policy: &str, _: &BucketName, account: &Account, namesake: bool) -> MountRights {
        let loses = |what: &str| policy.lines().any(|line| line == format!("{} loses {what}", account.name));
        if namesake || loses("all") {
            return MountRights::NONE;
        }
        MountRights { reads: true, writes: !loses("writing") }
    }
}

fn put_policy(test: &TestStore, bucket: &BucketName, text: &str) {
    test.run(test.store.put_policy(bucket, text.into(), BTreeMap::new(), |_| Ok(()))).unwrap();
}

fn drop_policy(test: &TestStore, bucket: &BucketName) {
    let change = |settings: &mut Settings| {
        settings.policy = None;
        Ok(())
    };
    test.run(test.store.change_settings(bucket, change)).unwrap();
}

fn account(test: &TestStore, bucket: &BucketName, account: &str, mode: Mode) -> Account {
    let (made, _) = test.run(test.store.create_account(account, false)).unwrap();
    test.run(test.store.add_grant(bucket, account, mode)).unwrap();
    made
}

fn opened_by(test: &TestStore, bucket: &BucketName, account: &str) -> crate::Result<Volume> {
    test.store.open_volume(bucket, VolumeOptions { account: Some(account.into()), ..VolumeOptions::default() })
}

fn denied<T>(result: &crate::Result<T>) -> bool {
    matches!(result, Err(Error::Denied { .. }))
}

/// Whether a mount can read and write.
fn does(volume: &Volume, name: &str) -> (bool, bool) {
    let written = make_file(volume, volume.root(), name);
    let read = find(volume, "k").map(|ino| read_file(volume, ino));
    assert!(denied(&written) || written.is_ok());
    assert!(denied(&read) || read.is_ok());
    (read.is_ok(), written.is_ok())
}

#[test]
fn a_policy_that_may_deny_narrows_or_closes_mounts_at_once() {
    let test = TestStore::in_memory();
    test.store.set_mount_policies(Arc::new(Ancestries));
    let bucket = test.bucket("governed");
    test.put(&bucket, "k", b"1").unwrap();
    let snapshot = test.snapshot(&bucket, "frozen");
    let (bob, carl) =
        (account(&test, &bucket, "bob", Mode::ReadWrite), account(&test, &bucket, "carl", Mode::ReadWrite));
    let (of_bob, of_carl) = (opened_by(&test, &bucket, "bob").unwrap(), opened_by(&test, &bucket, "carl").unwrap());
    let (of_snapshot, ours) = (
        test.store
            .open_volume(
                &snapshot,
                VolumeOptions { account: Some("bob".into()), read_only: true, ..VolumeOptions::default() },
            )
            .unwrap(),
        test.mount(&bucket),
    );
    let mode = |account: &Account| test.store.mount_access(account, &bucket);
    assert_eq!((does(&of_bob, "a"), mode(&bob).unwrap()), ((true, true), Some(Mode::ReadWrite)));

    put_policy(&test, &bucket, "bob loses writing");
    assert_eq!((does(&of_bob, "b"), mode(&bob).unwrap()), ((true, false), Some(Mode::Read)));
    assert_eq!((does(&of_carl, "b"), mode(&carl).unwrap()), ((true, true), Some(Mode::ReadWrite)));
    assert!(denied(&opened_by(&test, &bucket, "bob")), "as wide as the grant");

    put_policy(&test, &bucket, "bob loses all");
    assert_eq!(does(&of_bob, "c"), (false, false));
    assert!(denied(&mode(&bob)) && denied(&opened_by(&test, &bucket, "bob")));
    assert!(denied(&find(&of_snapshot, "k")), "a snapshot is under the policy of its bucket");
    assert_eq!((does(&of_carl, "c"), does(&ours, "d")), ((true, true), (true, true)));

    drop_policy(&test, &bucket);
    assert_eq!((does(&of_bob, "e"), mode(&bob).unwrap()), ((true, true), Some(Mode::ReadWrite)));
    find(&of_snapshot, "k").unwrap();
}

#[test]
fn without_anybody_who_reads_policies_one_closes_all_mounts_of_accounts() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("governed");
    test.put(&bucket, "k", b"1").unwrap();
    account(&test, &bucket, "bob", Mode::ReadWrite);
    let (of_bob, ours) = (opened_by(&test, &bucket, "bob").unwrap(), test.mount(&bucket));
    assert_eq!(does(&of_bob, "a"), (true, true));
    put_policy(&test, &bucket, "about nobody");
    assert_eq!((does(&of_bob, "b"), does(&ours, "b")), ((false, false), (true, true)));
}

#[test]
fn a_mount_is_of_the_account_that_opened_it_and_of_none_that_takes_its_name() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("named");
    test.put(&bucket, "k", b"1").unwrap();
    account(&test, &bucket, "bob", Mode::ReadWrite);
    let volume = opened_by(&test, &bucket, "bob").unwrap();
    let session = test.store.new_session();
    let options = VolumeOptions { account: Some("bob".into()), session: Some(session), ..VolumeOptions::default() };
    let persistent = test.store.open_volume(&bucket, options.clone()).unwrap();
    test.run(test.store.delete_account("bob")).unwrap();
    account(&test, &bucket, "bob", Mode::ReadWrite);
    assert_eq!((does(&volume, "a"), does(&persistent, "b")), ((false, false), (false, false)));
    assert_eq!(does(&opened_by(&test, &bucket, "bob").unwrap(), "c"), (true, true));
    drop((volume, persistent));
    let test = test.killed(&[session]);
    let again = test.store.open_volume(&bucket, VolumeOptions { inherited: true, ..options });
    assert!(again.as_ref().map_or_else(|error| matches!(error, Error::Denied { .. }), |volume| !does(volume, "d").0));
}

#[test]
fn an_account_made_again_is_a_namesake_to_policies_from_before_alone() {
    let test = TestStore::in_memory();
    let (old, new) = (test.bucket("old"), test.bucket("new"));
    let is_namesake = |bucket: &BucketName, name: &str| {
        let account = test.store.account(name).unwrap();
        test.store.is_namesake(&test.store.settings(bucket).unwrap().settings, &account).unwrap()
    };
    let make = |name: &str| drop(test.run(test.store.create_account(name, false)).unwrap());
    make("bob");
    put_policy(&test, &old, "about bob");
    assert!(!is_namesake(&old, "bob"));
    test.run(test.store.delete_account("bob")).unwrap();
    make("bob");
    make("later");
    put_policy(&test, &new, "about bob");
    assert!(is_namesake(&old, "bob") && !is_namesake(&new, "bob"));
    assert!(!is_namesake(&old, "later"), "nobody had this name before");
    drop_policy(&test, &old);
    assert!(!is_namesake(&old, "bob"), "without a policy there is nobody to be taken for");
    put_policy(&test, &old, "about bob");
    assert!(!is_namesake(&old, "bob"));
}
