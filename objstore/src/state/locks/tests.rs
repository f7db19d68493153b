//! Locks across sessions, and over restarts of the store.

use std::path::Path;
use std::sync::Arc;

use LockMode::{Exclusive, Shared};

use super::*;
use crate::disk::RealDisk;
use crate::feed::{Feed, FeedOwner};
use crate::session_id::SessionId as OwnId;

const BUCKET: u64 = 7;

/// The locks of an opening of a store, and its sessions.
struct Opening {
    locks: FileLocks,
    feeds: Feeds,
}

fn by(owner: u64, handle: u64) -> LockOwner {
    LockOwner { owner, handle, pid: 4 }
}

fn bytes(first: u64, last: u64, mode: LockMode) -> Lock {
    Lock { kind: LockKind::Ranges, mode, range: LockRange::new(first, last).unwrap() }
}

fn whole(mode: LockMode) -> Lock {
    Lock { kind: LockKind::Whole, mode, range: LockRange::ALL }
}

fn own(number: u64) -> OwnId {
    OwnId::new(number).unwrap()
}

impl Opening {
    fn new() -> Self {
        Self { locks: FileLocks::default(), feeds: Feeds::default() }
    }

    /// A mount that ends with the process, and its feed.
    fn mount(&self, mount: u64) -> (LockSession, Feed) {
        (LockSession::of_process(mount), self.feeds.open(BUCKET, mount, FeedOwner::Process).0)
    }

    /// A session that outlives the process, as it is found when the store opens.
    fn session(&self, dir: &Path, number: u64) -> LockSession {
        let log = LockLog::new(Arc::new(RealDisk::new()), dir, own(number), true);
        let Left::Changes(cells) = log.recover().unwrap() else { panic!("no power was lost") };
        let session = LockSession::persistent(own(number), number, log);
        self.locks.restore(&session, BUCKET, cells);
        session
    }

    fn set(&self, session: &LockSession, ino: u64, by: LockOwner, lock: Lock, number: u64) -> Locked {
        self.locks.set(&self.feeds, session, ((BUCKET, ino), by, lock), number).unwrap()
    }

    fn release(&self, session: &LockSession, ino: u64, closed: LockRelease) -> bool {
        self.locks.release(&self.feeds, session, (BUCKET, ino), closed)
    }

    fn unset(&self, session: &LockSession, ino: u64, owner: u64, lock: Lock) -> bool {
        self.locks.unset(&self.feeds, session, ((BUCKET, ino), owner), lock)
    }
}

#[test]
fn two_mounts_exclude_each_other_and_the_one_that_waits_is_told() {
    let opening = Opening::new();
    let ((one, _one), (two, mut told)) = (opening.mount(1), opening.mount(2));
    assert_eq!(opening.set(&one, 5, by(1, 1), bytes(0, 9, Exclusive), 0), Locked::Granted);
    assert_eq!(opening.set(&two, 5, by(1, 1), bytes(9, 9, Shared), 0), Locked::Refused, "another mount's owner 1");
    assert_eq!(opening.set(&two, 6, by(1, 1), bytes(9, 9, Shared), 0), Locked::Granted, "another file");
    let held = |session: &LockSession| opening.locks.test(session, (BUCKET, 5), 2, bytes(0, 0, Shared));
    let expected = HeldLock { mode: Exclusive, range: LockRange::new(0, 9).unwrap(), pid: 4 };
    assert_eq!((held(&one), held(&two)), (Some(expected), Some(HeldLock { pid: 0, ..expected })));
    assert_eq!(opening.set(&two, 5, by(1, 1), bytes(9, 9, Shared), 30), Locked::Waits);
    assert_eq!(opening.set(&two, 5, by(1, 1), bytes(9, 9, Shared), 30), Locked::Waits, "the same request again");
    assert!(opening.unset(&one, 5, 1, bytes(0, 8, Exclusive)), "a byte is left");
    assert_eq!(told.gathered(), []);
    assert!(!opening.unset(&one, 5, 1, bytes(9, 9, Exclusive)));
    assert_eq!(told.gathered(), [Change::LockGranted { ticket: 30 }]);
    assert_eq!(opening.set(&one, 5, by(1, 1), bytes(9, 9, Exclusive), 0), Locked::Refused);
    assert!(!opening.locks.cancel(&opening.feeds, &two, 30), "it was granted");
}

#[test]
fn closing_ends_what_a_process_and_what_an_open_file_has_and_waits_for() {
    let opening = Opening::new();
    let ((one, mut told), (two, _two)) = (opening.mount(1), opening.mount(2));
    // Owner 1 is a process that uses two open files; owner 2 an open file description, with a flock(2) besides.
    for (first, handle) in [(0, 10), (1, 11)] {
        assert_eq!(opening.set(&one, 5, by(1, handle), bytes(first, first, Exclusive), 0), Locked::Granted);
    }
    assert_eq!(opening.set(&one, 5, by(2, 12), bytes(4, 4, Exclusive), 0), Locked::Granted);
    assert_eq!(opening.set(&one, 5, by(2, 12), whole(Exclusive), 0), Locked::Granted);
    assert_eq!(opening.locks.inodes(&one, BUCKET, 0), [5]);
    assert_eq!(opening.locks.inodes(&one, BUCKET, 5), [0; 0]);
    assert!(opening.release(&one, 5, LockRelease::Descriptor { owner: 1 }), "the other owner has some");
    assert_eq!(opening.set(&two, 5, by(1, 1), bytes(0, 3, Exclusive), 0), Locked::Granted);
    assert_eq!(opening.set(&one, 5, by(3, 12), bytes(0, 0, Exclusive), 50), Locked::Waits);
    assert!(!opening.release(&one, 5, LockRelease::Description { owner: 2, handle: 12 }));
    assert_eq!(opening.set(&two, 5, by(1, 1), bytes(0, 9, Exclusive), 0), Locked::Granted);
    assert_eq!(opening.set(&two, 5, by(1, 1), whole(Exclusive), 0), Locked::Granted);
    assert!(opening.release(&two, 5, LockRelease::Descriptor { owner: 1 }), "the whole file is locked");
    assert!(!opening.release(&two, 5, LockRelease::Description { owner: 1, handle: 1 }));
    assert_eq!(told.gathered(), [], "its request was taken back with the open file");
}

#[test]
fn the_end_of_a_session_passes_its_locks_on() {
    let opening = Opening::new();
    let ((one, _one), (two, mut told)) = (opening.mount(1), opening.mount(2));
    assert_eq!(opening.set(&one, 5, by(1, 1), whole(Exclusive), 0), Locked::Granted);
    assert_eq!(opening.set(&one, 6, by(1, 1), bytes(0, 0, Shared), 0), Locked::Granted);
    assert_eq!(opening.set(&two, 5, by(1, 1), whole(Shared), 2), Locked::Waits);
    assert_eq!(opening.set(&two, 6, by(1, 1), bytes(0, 0, Exclusive), 4), Locked::Waits);
    assert!(opening.locks.cancel(&opening.feeds, &two, 4));
    opening.locks.end(&opening.feeds, one.id());
    assert_eq!(told.gathered(), [Change::LockGranted { ticket: 2 }]);
    opening.locks.end(&opening.feeds, two.id());
    let state = opening.locks.0.lock();
    assert!(state.locks.is_empty() && state.known.is_empty() && state.waiting.is_empty());
}

#[test]
fn a_circle_of_processes_of_two_mounts_is_refused() {
    let opening = Opening::new();
    let ((one, _one), (two, _two)) = (opening.mount(1), opening.mount(2));
    assert_eq!(opening.set(&one, 5, by(1, 1), bytes(0, 0, Exclusive), 0), Locked::Granted);
    assert_eq!(opening.set(&two, 6, by(1, 1), bytes(0, 0, Exclusive), 0), Locked::Granted);
    assert_eq!(opening.set(&one, 6, by(1, 1), bytes(0, 0, Exclusive), 2), Locked::Waits);
    assert_eq!(opening.set(&two, 5, by(1, 1), bytes(0, 0, Shared), 2), Locked::Deadlock);
}

/// Random locks of two sessions over many openings of the store: after each, both hold what they held.
#[test]
fn locks_survive_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let mut opening = Opening::new();
    let mut seed = 0x9E37_79B9_u64;
    let mut below = |limit: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % limit
    };
    let held = |opening: &Opening| {
        let state = opening.locks.0.lock();
        let mut cells: Vec<_> = [1, 2].map(|number| (number, state.cells(SessionId(number)))).into();
        cells.iter_mut().for_each(|(_, cells)| cells.sort_by_key(|cell| format!("{cell:?}")));
        cells
    };
    for round in 0..200 {
        let sessions = [1, 2].map(|number| opening.session(dir.path(), number));
        for _ in 0..below(100) {
            let session = &sessions[below(2) as usize];
            let (ino, owner, first) = (5 + below(2), 1 + below(2), below(6));
            let mode = if below(2) == 0 { Shared } else { Exclusive };
            let lock = if below(5) == 0 { whole(mode) } else { bytes(first, first + below(4), mode) };
            match below(4) {
                0 | 1 => {
                    opening.set(session, ino, by(owner, owner), lock, below(2) * (1 + below(100)));
                }
                2 => {
                    opening.unset(session, ino, owner, lock);
                }
                _ => {
                    opening.release(session, ino, LockRelease::Description { owner, handle: owner });
                }
            }
        }
        let before = held(&opening);
        // The process dies, and its requests that waited with it.
        let after = Opening::new();
        [1, 2].iter().for_each(|number| drop(after.session(dir.path(), *number)));
        assert_eq!(held(&after), before, "round {round}");
        opening = Opening::new();
    }
}
