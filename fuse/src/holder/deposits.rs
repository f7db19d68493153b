//! What a holder keeps: descriptors under an id, with a few bytes about them. Bounded, so that it cannot fail later.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::packet::DESCRIPTORS_MAX;

/// Mounts of one machine; a holder that may open fewer files keeps fewer.
const COUNT_MAX: usize = 4096;
/// Descriptors that deposits cannot have: the holder's own, and those in packets that are being taken.
const RESERVED: usize = 64;

/// Something to keep, or to give back.
#[derive(Debug)]
pub struct Deposit {
    /// Tells it from others.
    pub id: u64,
    /// What its depositor wrote down about it.
    pub record: Vec<u8>,
    /// One to four descriptors.
    pub descriptors: Vec<OwnedFd>,
}

/// The deposits of a holder.
#[derive(Debug)]
pub(super) struct Deposits {
    held: BTreeMap<u64, Deposit>,
    count_max: usize,
}

impl Deposits {
    /// For a process that may open so many files.
    pub fn new(open_files: usize) -> Self {
        let room = open_files.saturating_sub(RESERVED) / DESCRIPTORS_MAX;
        Self { held: BTreeMap::new(), count_max: room.min(COUNT_MAX) }
    }

    /// Keeps one, in place of what had its id; `false` if there is no room, and it is closed.
    pub fn put(&mut self, deposit: Deposit) -> bool {
        let room = self.held.len() < self.count_max || self.held.contains_key(&deposit.id);
        if room {
            self.held.insert(deposit.id, deposit);
        }
        room
    }

    /// The one with the lowest id from `from` on.
    pub fn next(&self, from: u64) -> Option<&Deposit> {
        self.held.range(from..).next().map(|(_, deposit)| deposit)
    }

    /// Closes one; whether it was there.
    pub fn remove(&mut self, id: u64) -> bool {
        self.held.remove(&id).is_some()
    }

    /// Closes those whose mounts are gone.
    pub fn remove_dead(&mut self) {
        self.held.retain(|_, deposit| !deposit.is_dead());
    }

    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}

impl Deposit {
    /// Whether the kernel is done with one of its descriptors: that of a mount that is gone.
    pub fn is_dead(&self) -> bool {
        self.descriptors.iter().any(is_dead)
    }
}

/// Asks without reading or waiting. Never done while a server is there: a process that polls a device is woken up
/// for each of its requests, if only for a moment.
fn is_dead(descriptor: &impl AsFd) -> bool {
    let mut asked = [PollFd::new(descriptor, PollFlags::empty())];
    let answered = poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    answered.is_ok() && asked[0].revents().intersects(PollFlags::ERR | PollFlags::NVAL)
}

/// How many files this process may open, after taking all it can get.
pub(super) fn raise_open_files() -> usize {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // What cannot be raised is used as it is.
    let _ = setrlimit(Resource::Nofile, limit);
    getrlimit(Resource::Nofile).current.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deposit(id: u64, record: &[u8]) -> Deposit {
        let file = std::fs::File::open("/dev/null").unwrap();
        Deposit { id, record: record.to_vec(), descriptors: vec![file.into()] }
    }

    #[test]
    fn a_full_table_takes_only_what_replaces() {
        let mut deposits = Deposits::new(RESERVED + 2 * DESCRIPTORS_MAX);
        assert!(deposits.put(deposit(9, b"a")) && deposits.put(deposit(3, b"b")));
        assert!(!deposits.put(deposit(4, b"c")));
        assert!(deposits.put(deposit(9, b"d")));
        assert_eq!(deposits.next(0).unwrap().id, 3);
        assert_eq!(deposits.next(4).unwrap().record, b"d");
        assert!(deposits.next(10).is_none());
        assert!(deposits.remove(9) && !deposits.remove(9) && !deposits.is_empty());
        assert!(deposits.put(deposit(4, b"c")));
    }

    #[test]
    fn what_the_kernel_is_done_with_is_dead() {
        let (read, write) = rustix::pipe::pipe().unwrap();
        let mut deposits = Deposits::new(1000);
        deposits.put(Deposit { id: 1, record: Vec::new(), descriptors: vec![write] });
        deposits.put(deposit(2, b""));
        deposits.remove_dead();
        assert!(deposits.next(1).is_some_and(|first| first.id == 1));
        drop(read);
        deposits.remove_dead();
        assert!(deposits.next(1).is_some_and(|first| first.id == 2));
    }
}
