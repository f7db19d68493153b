//! File locks of mounts of this machine and of others: over a kill of the store, its orderly end, and a loss of power.

use objstore_files::{Change, Lock, LockKind, LockMode, LockOp, LockOwner, LockRange, LockRelease, Locked, Reply};

use super::remote::{ID, call, in_slot, is_stale, opening};
use super::test_store::TestStore;
use crate::error::{Error, Posix};
use crate::name::BucketName;
use crate::volume::{RemoteSession, Volume};

const BY: LockOwner = LockOwner { owner: 1, handle: 2, pid: 3 };
const INO: u64 = 50;

fn bytes(first: u64, last: u64) -> Lock {
    let range = LockRange::new(first, last).unwrap();
    Lock { kind: LockKind::Ranges, mode: LockMode::Exclusive, range }
}

fn whole() -> Lock {
    Lock { kind: LockKind::Whole, mode: LockMode::Exclusive, range: LockRange::ALL }
}

fn of_node(session: &RemoteSession, lock: Lock, ticket: u64) -> Locked {
    match call(session, Some(in_slot(1, 1)), LockOp::Set { ino: INO, by: BY, lock, ticket }, &[]).unwrap() {
        Reply::Locked(locked) => locked,
        other => panic!("{other:?}"),
    }
}

fn of_mount(volume: &Volume, lock: Lock, ticket: u64) -> Locked {
    volume.lock(INO, BY, lock, ticket).unwrap()
}

/// Byte 0 is locked by a mount of this machine, byte 1 and the whole file by one of another.
fn locked(test: &TestStore, bucket: &BucketName) -> (Volume, crate::volume::SessionId) {
    let (mount, id) = test.mount_persistent(bucket);
    let node = test.remote(bucket);
    assert_eq!(of_mount(&mount, bytes(0, 0), 0), Locked::Granted);
    assert_eq!(of_node(&node, bytes(0, 0), 0), Locked::Refused);
    assert_eq!(of_node(&node, bytes(1, 1), 0), Locked::Granted);
    assert_eq!(of_node(&node, whole(), 0), Locked::Granted);
    assert_eq!(of_mount(&mount, whole(), 9), Locked::Waits);
    (mount, id)
}

/// All of them are still held, by those that took them.
fn still_held(test: &TestStore, bucket: &BucketName, mount: &Volume, node: &RemoteSession) {
    let other = test.mount(bucket);
    for lock in [bytes(0, 0), bytes(1, 1), whole()] {
        assert_eq!(of_mount(&other, lock, 0), Locked::Refused, "{lock:?}");
    }
    assert_eq!(of_mount(mount, bytes(0, 0), 0), Locked::Granted);
    assert_eq!(of_node(node, bytes(1, 1), 0), Locked::Granted);
    let mut told = mount.feed();
    assert_eq!(of_mount(mount, whole(), 9), Locked::Waits, "asked for again");
    test.store.end_remote(ID).unwrap();
    assert!(told.gathered().contains(&Change::LockGranted { ticket: 9 }), "the end of the node passes its locks on");
    assert!(is_stale(&call(node, Some(in_slot(1, 1)), LockOp::Cancel { ticket: 1 }, &[])));
    assert_eq!(of_mount(&other, bytes(1, 1), 0), Locked::Granted);
    assert!(mount.release_locks(INO, LockRelease::Descriptor { owner: 1 }));
    assert_eq!(of_mount(&other, bytes(0, 0), 0), Locked::Granted);
    assert_eq!(mount.locked_inodes(0), [INO]);
    mount.end();
    assert_eq!(of_mount(&other, whole(), 0), Locked::Granted);
    assert!(matches!(mount.lock(INO, BY, whole(), 0), Err(Error::Posix(Posix::Stale))));
}

#[test]
fn locks_survive_a_killed_store_and_end_with_their_sessions() {
    let mut test = TestStore::on_disk();
    let bucket = test.bucket("bucket");
    let (mount, id) = locked(&test, &bucket);
    drop(mount);
    for _ in 0..2 {
        test = test.killed(&[id]);
    }
    let (mount, node) = (test.take_over(&bucket, id), test.remote_again());
    still_held(&test, &bucket, &mount, &node);
    drop((mount, node));
    let test = test.killed(&[]);
    let other = test.mount(&bucket);
    for lock in [bytes(0, 0), bytes(1, 1), whole()] {
        assert_eq!(of_mount(&other, lock, 0), Locked::Granted, "nothing is left of the sessions that ended");
    }
}

#[test]
fn locks_survive_the_orderly_end_of_a_store() {
    let test = TestStore::on_disk();
    let bucket = test.bucket("bucket");
    let (mount, id) = locked(&test, &bucket);
    drop(mount);
    test.store.close();
    let dir = test.dir.clone();
    drop(test);
    let test = TestStore::going_on(dir, &[id]).unwrap();
    let (mount, node) = (test.take_over(&bucket, id), test.remote_again());
    still_held(&test, &bucket, &mount, &node);
}

/// The files of locks are not synced. A node must not believe that it has a lock which the store has lost.
#[test]
fn a_node_that_had_locks_is_ended_when_the_store_lost_power() {
    let test = TestStore::on_disk();
    let bucket = test.bucket("bucket");
    let node = test.remote(&bucket);
    let without = test.folder_copy();
    assert_eq!(of_node(&node, bytes(1, 1), 0), Locked::Granted);
    let with = test.folder_copy();
    let folder = with.path().join("sessions");
    let files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    let file = files.iter().find(|path| path.extension().is_some_and(|extension| extension == "locks")).unwrap();
    let size = std::fs::metadata(file).unwrap().len();
    std::fs::write(file, vec![0; usize::try_from(size).unwrap()]).unwrap();
    let after = TestStore::going_on(with, &[]).unwrap();
    assert!(after.store.remote_session(ID).is_none());
    let ticket = after.publish(&bucket, "n1", false);
    assert!(is_stale(&after.store.open_remote(&opening(&bucket, Some(ticket))).map(drop)));
    assert_eq!(of_mount(&after.mount(&bucket), bytes(1, 1), 0), Locked::Granted);
    let after = TestStore::going_on(without, &[]).unwrap();
    assert!(after.store.remote_session(ID).is_some(), "one that had none goes on");
}

#[test]
fn who_may_not_write_locks_no_bytes_exclusively() {
    let test = TestStore::in_memory();
    let bucket = test.bucket("bucket");
    let ticket = test.publish(&bucket, "n1", true);
    let node = test.store.open_remote(&opening(&bucket, Some(ticket))).unwrap();
    let set = |lock| call(&node, Some(in_slot(1, 1)), LockOp::Set { ino: INO, by: BY, lock, ticket: 0 }, &[]);
    assert!(matches!(set(bytes(0, 0)), Err(Error::Posix(Posix::ReadOnly))));
    assert!(matches!(set(Lock { mode: LockMode::Shared, ..bytes(0, 0) }), Ok(Reply::Locked(Locked::Granted))));
    assert!(matches!(set(whole()), Ok(Reply::Locked(Locked::Granted))), "flock(2) asks for no right to write");
}
