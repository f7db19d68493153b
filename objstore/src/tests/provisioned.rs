//! Creators of accounts and snapshots, and what a Kubernetes driver may delete.

use prost::Message;

use super::test_store::{TestStore, name};
use crate::error::{Error, Noun};
use crate::meta::Durability;
use crate::name::BucketName;
use crate::record::account::Account as Record;
use crate::record::key::{self, tag};
use crate::store::*;

#[test]
fn the_creator_of_accounts_and_snapshots_is_kept() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("watched");
    let (by_hand, _) = test.run(test.store.create_account("by-hand", false)).unwrap();
    let (by_cosi, _) = test.run(test.store.create_account_as("by-cosi", false, Creator::Cosi)).unwrap();
    assert_eq!((by_hand.creator, by_cosi.creator), (Creator::Administrator, Creator::Cosi));
    let (found, outcome) = test.run(test.store.create_account_as("by-hand", false, Creator::Cosi)).unwrap();
    assert_eq!((found.creator, outcome), (Creator::Administrator, Outcome::Found), "finding does not take over");
    let (taken, _) = test.run(test.store.create_snapshot_as(&bucket, &name("by-csi"), Creator::Csi)).unwrap();
    let (found, outcome) = test.run(test.store.create_snapshot(&bucket, &name("by-csi"))).unwrap();
    assert_eq!((taken.creator, found.creator, outcome), (Creator::Csi, Creator::Csi, Outcome::Found));
    let test = test.reopen();
    assert_eq!(test.store.account("by-cosi").unwrap().creator, Creator::Cosi);
    assert_eq!(test.store.snapshot("by-csi").unwrap().creator, Creator::Csi);
}

#[test]
fn an_account_of_an_older_build_has_no_recorded_creator() {
    let test = TestStore::in_memory();
    let (made, _) = test.run(test.store.create_account("old", false)).unwrap();
    // Older builds wrote the fields 1 to 4.
    let record = Record { id: made.id, created: made.created.0, ..Record::default() };
    let write = move |txn: &mut dyn crate::meta::Txn| {
        txn.put(key::by_name(tag::ACCOUNT, "old"), record.encode_to_vec());
        Ok(())
    };
    test.store.core.meta.transact(Durability::Synced, write).unwrap();
    assert_eq!(test.store.account("old").unwrap().creator, Creator::Unrecorded);
}

#[test]
fn a_bucket_goes_with_its_accounts_or_neither_goes() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("claimed");
    let id = test.store.bucket(&bucket).unwrap().id;
    let accounts = ["one", "two"].map(|account| {
        test.run(test.store.create_account_as(account, false, Creator::Cosi)).unwrap();
        test.run(test.store.add_grant(&bucket, account, Mode::ReadWrite)).unwrap();
        account.to_owned()
    });
    let delete = |id| test.run(test.store.delete_unused_bucket(&bucket, id, accounts.to_vec()));
    let all_there = || accounts.iter().all(|account| test.store.account(account).is_ok());

    let mount = test.mount(&bucket);
    let refused = delete(id).unwrap_err();
    assert!(matches!(&refused, Error::InUse { noun: Noun::Bucket, .. }), "{refused}");
    drop(mount);
    let (persistent, session) = test.mount_persistent(&bucket);
    drop(persistent);
    assert!(matches!(delete(id), Err(Error::InUse { .. })), "a mount that waits for the next server is one");
    test.store.end_session(session).unwrap();
    let attached = Publication {
        bucket: bucket.clone(),
        node: "n1".into(),
        read_only: false,
        capability: "mount".into(),
        ticket_suffices: true,
        fenced_by: None,
    };
    test.run(test.store.publish(attached)).unwrap();
    let refused = delete(id).unwrap_err().to_string();
    assert!(refused.contains("claimed") && refused.contains("n1"), "{refused}");
    test.run(test.store.unpublish(&bucket, None)).unwrap();
    assert!(matches!(delete(id + 1), Err(Error::NotFound { noun: Noun::Bucket, .. })), "another took the name");
    assert!(test.store.bucket(&bucket).is_ok() && all_there(), "a refusal takes nothing");

    test.run(test.store.delete_account("two")).unwrap();
    delete(id).unwrap();
    assert!(test.store.bucket(&bucket).is_err() && test.store.account("one").is_err());
}

#[test]
fn a_mounted_snapshot_is_in_use() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("seen");
    test.snapshot(&bucket, "then");
    let mount = test.mount(&name("then"));
    let refused = test.run(test.store.delete_unused_snapshot("then")).unwrap_err();
    assert!(matches!(refused, Error::InUse { noun: Noun::Snapshot, .. }), "{refused}");
    drop(mount);
    test.run(test.store.delete_unused_snapshot("then")).unwrap();
    let absent = test.run(test.store.delete_unused_snapshot("then"));
    assert!(matches!(absent, Err(Error::NotFound { noun: Noun::Snapshot, .. })));
}

#[test]
fn an_access_of_a_driver_is_made_whole_and_never_changed() {
    let test = TestStore::in_memory();
    let (one, two) = (test.bucket("one"), test.bucket("two"));
    let ask = |grants: &[(&BucketName, Mode)]| DriverAccess {
        account: "cosi-ba-1".into(),
        creator: Creator::Cosi,
        grants: grants.iter().map(|(bucket, mode)| ((*bucket).clone(), *mode)).collect(),
    };
    let absent = name("absent");
    let refused = test.run(test.store.make_driver_access(ask(&[(&one, Mode::Read), (&absent, Mode::Read)])));
    assert!(matches!(refused, Err(Error::NotFound { noun: Noun::Bucket, .. })), "{refused:?}");
    assert!(test.store.account("cosi-ba-1").is_err(), "a refused access leaves no account");

    let both = [(&one, Mode::Read), (&two, Mode::ReadWrite)];
    let key = test.run(test.store.make_driver_access(ask(&both))).unwrap();
    let again = test.run(test.store.make_driver_access(ask(&both))).unwrap();
    assert_eq!((&key.id, key.secret.reveal()), (&again.id, again.secret.reveal()));
    for other in [&both[..1], &[(&one, Mode::ReadWrite), (&two, Mode::ReadWrite)]] {
        let refused = test.run(test.store.make_driver_access(ask(other)));
        assert!(matches!(refused, Err(Error::Exists { noun: Noun::Account, .. })), "{refused:?}");
    }
    let account = test.store.account("cosi-ba-1").unwrap();
    let access = |bucket: &BucketName| test.store.access(&account, bucket).unwrap();
    assert_eq!((access(&one), access(&two)), (Some(Mode::Read), Some(Mode::ReadWrite)));

    test.run(test.store.revoke_driver_access("cosi-ba-1", vec![one.clone(), absent.clone()])).unwrap();
    assert_eq!((access(&one), access(&two)), (None, Some(Mode::ReadWrite)), "the other bucket stays open");
    test.run(test.store.revoke_driver_access("cosi-ba-1", vec![two.clone()])).unwrap();
    assert!(test.store.account("cosi-ba-1").is_err() && test.store.identify(&key.id).unwrap().is_none());
    test.run(test.store.revoke_driver_access("cosi-ba-1", vec![two])).unwrap();
}

#[test]
fn an_access_of_a_driver_completes_only_an_account_of_its_own_without_a_key() {
    let test = TestStore::in_memory();
    let (one, two) = (test.bucket("one"), test.bucket("two"));
    let ask = |account: &str| DriverAccess {
        account: account.into(),
        creator: Creator::Cosi,
        grants: [(one.clone(), Mode::Read)].into(),
    };
    for (name, creator) in [("cosi-mine", Creator::Administrator), ("cosi-left", Creator::Cosi)] {
        test.run(test.store.create_account_as(name, false, creator)).unwrap();
        test.run(test.store.add_grant(&two, name, Mode::Owner)).unwrap();
    }
    let refused = test.run(test.store.make_driver_access(ask("cosi-mine")));
    assert!(matches!(refused, Err(Error::Exists { noun: Noun::Account, .. })), "{refused:?}");
    assert!(test.store.keys(Some("cosi-mine")).unwrap().is_empty());
    test.run(test.store.make_driver_access(ask("cosi-left"))).unwrap();
    let left = test.store.account("cosi-left").unwrap();
    assert_eq!(test.store.access(&left, &one).unwrap(), Some(Mode::Read));
    assert_eq!(test.store.access(&left, &two).unwrap(), None, "what was granted before the key is not handed out");
}
