//! Accounts created again under an old name, and mounts under a bucket policy.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::rig::{Rig, find, make_file, read_file};
use crate::error::Error;
use crate::name::BucketName;
use crate::store::*;
use crate::volume::{Volume, VolumeOptions};

/// Test policies that say what an account loses, one rule in a line: `NAME loses writing` or `NAME loses all`.
struct Lines;

impl MountPolicies for Lines {
    fn leaves(&self, policy: &str, _: &BucketName, account: &Account, namesake: bool) -> MountRights {
        let loses = |what: &str| policy.lines().any(|line| line == format!("{} loses {what}", account.name));
        if namesake || loses("all") {
            return MountRights::NONE;
        }
        MountRights { reads: true, writes: !loses("writing") }
    }
}

fn put_policy(rig: &Rig, bucket: &BucketName, text: &str) {
    rig.run(rig.store.put_policy(bucket, text.into(), BTreeMap::new(), |_| Ok(()))).unwrap();
}

fn drop_policy(rig: &Rig, bucket: &BucketName) {
    let change = |settings: &mut Settings| {
        settings.policy = None;
        Ok(())
    };
    rig.run(rig.store.change_settings(bucket, change)).unwrap();
}

fn account(rig: &Rig, bucket: &BucketName, account: &str, mode: Mode) -> Account {
    let (made, _) = rig.run(rig.store.create_account(account, false)).unwrap();
    rig.run(rig.store.add_grant(bucket, account, mode)).unwrap();
    made
}

fn opened_by(rig: &Rig, bucket: &BucketName, account: &str) -> crate::Result<Volume> {
    rig.store.open_volume(bucket, VolumeOptions { account: Some(account.into()), ..VolumeOptions::default() })
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
    let rig = Rig::in_memory();
    rig.store.set_mount_policies(Arc::new(Lines));
    let bucket = rig.bucket("governed");
    rig.put(&bucket, "k", b"1").unwrap();
    let snapshot = rig.snapshot(&bucket, "frozen");
    let (bob, carl) = (account(&rig, &bucket, "bob", Mode::ReadWrite), account(&rig, &bucket, "carl", Mode::ReadWrite));
    let (of_bob, of_carl) = (opened_by(&rig, &bucket, "bob").unwrap(), opened_by(&rig, &bucket, "carl").unwrap());
    let (of_snapshot, ours) = (
        rig.store
            .open_volume(
                &snapshot,
                VolumeOptions { account: Some("bob".into()), read_only: true, ..VolumeOptions::default() },
            )
            .unwrap(),
        rig.mount(&bucket),
    );
    let mode = |account: &Account| rig.store.mount_access(account, &bucket);
    assert_eq!((does(&of_bob, "a"), mode(&bob).unwrap()), ((true, true), Some(Mode::ReadWrite)));

    put_policy(&rig, &bucket, "bob loses writing");
    assert_eq!((does(&of_bob, "b"), mode(&bob).unwrap()), ((true, false), Some(Mode::Read)));
    assert_eq!((does(&of_carl, "b"), mode(&carl).unwrap()), ((true, true), Some(Mode::ReadWrite)));
    assert!(denied(&opened_by(&rig, &bucket, "bob")), "as wide as the grant");

    put_policy(&rig, &bucket, "bob loses all");
    assert_eq!(does(&of_bob, "c"), (false, false));
    assert!(denied(&mode(&bob)) && denied(&opened_by(&rig, &bucket, "bob")));
    assert!(denied(&find(&of_snapshot, "k")), "a snapshot is under the policy of its bucket");
    assert_eq!((does(&of_carl, "c"), does(&ours, "d")), ((true, true), (true, true)));

    drop_policy(&rig, &bucket);
    assert_eq!((does(&of_bob, "e"), mode(&bob).unwrap()), ((true, true), Some(Mode::ReadWrite)));
    find(&of_snapshot, "k").unwrap();
}

#[test]
fn without_anybody_who_reads_policies_one_closes_all_mounts_of_accounts() {
    let rig = Rig::in_memory();
    let bucket = rig.bucket("governed");
    rig.put(&bucket, "k", b"1").unwrap();
    account(&rig, &bucket, "bob", Mode::ReadWrite);
    let (of_bob, ours) = (opened_by(&rig, &bucket, "bob").unwrap(), rig.mount(&bucket));
    assert_eq!(does(&of_bob, "a"), (true, true));
    put_policy(&rig, &bucket, "about nobody");
    assert_eq!((does(&of_bob, "b"), does(&ours, "b")), ((false, false), (true, true)));
}

#[test]
fn a_mount_is_of_the_account_that_opened_it_and_of_none_that_takes_its_name() {
    let rig = Rig::in_memory();
    let bucket = rig.bucket("named");
    rig.put(&bucket, "k", b"1").unwrap();
    account(&rig, &bucket, "bob", Mode::ReadWrite);
    let volume = opened_by(&rig, &bucket, "bob").unwrap();
    let session = rig.store.new_session();
    let options = VolumeOptions { account: Some("bob".into()), session: Some(session), ..VolumeOptions::default() };
    let lasting = rig.store.open_volume(&bucket, options.clone()).unwrap();
    rig.run(rig.store.delete_account("bob")).unwrap();
    account(&rig, &bucket, "bob", Mode::ReadWrite);
    assert_eq!((does(&volume, "a"), does(&lasting, "b")), ((false, false), (false, false)));
    assert_eq!(does(&opened_by(&rig, &bucket, "bob").unwrap(), "c"), (true, true));
    drop((volume, lasting));
    let rig = rig.killed(&[session]);
    let again = rig.store.open_volume(&bucket, VolumeOptions { inherited: true, ..options });
    assert!(again.as_ref().map_or_else(|error| matches!(error, Error::Denied { .. }), |volume| !does(volume, "d").0));
}

#[test]
fn an_account_made_again_is_a_namesake_to_policies_from_before_alone() {
    let rig = Rig::in_memory();
    let (old, new) = (rig.bucket("old"), rig.bucket("new"));
    let is_namesake = |bucket: &BucketName, name: &str| {
        let account = rig.store.account(name).unwrap();
        rig.store.is_namesake(&rig.store.settings(bucket).unwrap().settings, &account).unwrap()
    };
    let make = |name: &str| drop(rig.run(rig.store.create_account(name, false)).unwrap());
    make("bob");
    put_policy(&rig, &old, "about bob");
    assert!(!is_namesake(&old, "bob"));
    rig.run(rig.store.delete_account("bob")).unwrap();
    make("bob");
    make("later");
    put_policy(&rig, &new, "about bob");
    assert!(is_namesake(&old, "bob") && !is_namesake(&new, "bob"));
    assert!(!is_namesake(&old, "later"), "nobody had this name before");
    drop_policy(&rig, &old);
    assert!(!is_namesake(&old, "bob"), "without a policy there is nobody to be taken for");
    put_policy(&rig, &old, "about bob");
    assert!(!is_namesake(&old, "bob"));
}
