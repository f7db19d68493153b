//! Creators of accounts and snapshots, and what a Kubernetes driver may delete.

use prost::Message;

use super::rig::{Rig, name};
use crate::error::{Error, Noun};
use crate::meta::Durability;
use crate::record::account::Account as Record;
use crate::record::key::{self, tag};
use crate::store::*;

#[test]
fn the_creator_of_accounts_and_snapshots_is_kept() {
    let rig = Rig::in_memory();
    let bucket = rig.bucket("watched");
    let (by_hand, _) = rig.run(rig.store.create_account("by-hand", false)).unwrap();
    let (by_cosi, _) = rig.run(rig.store.create_account_as("by-cosi", false, Creator::Cosi)).unwrap();
    assert_eq!((by_hand.creator, by_cosi.creator), (Creator::Administrator, Creator::Cosi));
    let (found, outcome) = rig.run(rig.store.create_account_as("by-hand", false, Creator::Cosi)).unwrap();
    assert_eq!((found.creator, outcome), (Creator::Administrator, Outcome::Found), "finding does not take over");
    let (taken, _) = rig.run(rig.store.create_snapshot_as(&bucket, &name("by-csi"), Creator::Csi)).unwrap();
    let (found, outcome) = rig.run(rig.store.create_snapshot(&bucket, &name("by-csi"))).unwrap();
    assert_eq!((taken.creator, found.creator, outcome), (Creator::Csi, Creator::Csi, Outcome::Found));
    let rig = rig.reopen();
    assert_eq!(rig.store.account("by-cosi").unwrap().creator, Creator::Cosi);
    assert_eq!(rig.store.snapshot("by-csi").unwrap().creator, Creator::Csi);
}

#[test]
fn an_account_of_an_older_build_has_no_recorded_creator() {
    let rig = Rig::in_memory();
    let (made, _) = rig.run(rig.store.create_account("old", false)).unwrap();
    // Older builds wrote the fields 1 to 4.
    let record = Record { id: made.id, created: made.created.0, ..Record::default() };
    let write = move |txn: &mut dyn crate::meta::Txn| {
        txn.put(key::by_name(tag::ACCOUNT, "old"), record.encode_to_vec());
        Ok(())
    };
    rig.store.core.meta.transact(Durability::Synced, write).unwrap();
    assert_eq!(rig.store.account("old").unwrap().creator, Creator::Unrecorded);
}

#[test]
fn a_bucket_goes_with_its_accounts_or_neither_goes() {
    let rig = Rig::in_memory();
    let bucket = rig.bucket("claimed");
    let id = rig.store.bucket(&bucket).unwrap().id;
    let accounts = ["one", "two"].map(|account| {
        rig.run(rig.store.create_account_as(account, false, Creator::Cosi)).unwrap();
        rig.run(rig.store.add_grant(&bucket, account, Mode::ReadWrite)).unwrap();
        account.to_owned()
    });
    let delete = |id| rig.run(rig.store.delete_unused_bucket(&bucket, id, accounts.to_vec()));
    let all_there = || accounts.iter().all(|account| rig.store.account(account).is_ok());

    let mount = rig.mount(&bucket);
    let refused = delete(id).unwrap_err();
    assert!(matches!(&refused, Error::InUse { noun: Noun::Bucket, .. }), "{refused}");
    drop(mount);
    let (lasting, session) = rig.mount_lasting(&bucket);
    drop(lasting);
    assert!(matches!(delete(id), Err(Error::InUse { .. })), "a mount that waits for the next server is one");
    rig.store.end_session(session).unwrap();
    let attached =
        Publication { bucket: bucket.clone(), node: "n1".into(), read_only: false, capability: "mount".into() };
    rig.run(rig.store.publish(attached)).unwrap();
    let refused = delete(id).unwrap_err().to_string();
    assert!(refused.contains("claimed") && refused.contains("n1"), "{refused}");
    rig.run(rig.store.unpublish(&bucket, None)).unwrap();
    assert!(matches!(delete(id + 1), Err(Error::NotFound { noun: Noun::Bucket, .. })), "another took the name");
    assert!(rig.store.bucket(&bucket).is_ok() && all_there(), "a refusal takes nothing");

    rig.run(rig.store.delete_account("two")).unwrap();
    delete(id).unwrap();
    assert!(rig.store.bucket(&bucket).is_err() && rig.store.account("one").is_err());
}

#[test]
fn a_mounted_snapshot_is_in_use() {
    let rig = Rig::in_memory();
    let bucket = rig.bucket("seen");
    rig.snapshot(&bucket, "then");
    let mount = rig.mount(&name("then"));
    let refused = rig.run(rig.store.delete_unused_snapshot("then")).unwrap_err();
    assert!(matches!(refused, Error::InUse { noun: Noun::Snapshot, .. }), "{refused}");
    drop(mount);
    rig.run(rig.store.delete_unused_snapshot("then")).unwrap();
    let absent = rig.run(rig.store.delete_unused_snapshot("then"));
    assert!(matches!(absent, Err(Error::NotFound { noun: Noun::Snapshot, .. })));
}
