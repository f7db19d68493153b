//! The table of deposits in the fd holder: descriptors and a short record under an id. It is bounded from the start, so
//! that keeping a deposit cannot fail later.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::packet::DESCRIPTORS_MAX;

/// The most mounts of one machine. A holder with a lower limit of open files keeps fewer.
const COUNT_MAX: usize = 4096;
/// Descriptors that are not available for deposits: the holder's own, and those in packets being received.
const RESERVED: usize = 64;

/// A deposit: descriptors of a mount, and a record about it.
#[derive(Debug)]
pub struct Deposit {
    /// The id of the deposit.
    pub id: u64,
    /// The depositor's record about it.
    pub record: Vec<u8>,
    /// One to four descriptors.
    pub descriptors: Vec<OwnedFd>,
}

/// All deposits of a holder.
#[derive(Debug)]
pub(super) struct Deposits {
    held: BTreeMap<u64, Deposit>,
    count_max: usize,
}

impl Deposits {
    /// An empty table for a process that may have `open_files` files open.
    pub fn new(open_files: usize) -> Self {
        let room = open_files.saturating_sub(RESERVED) / DESCRIPTORS_MAX;
        Self { held: BTreeMap::new(), count_max: room.min(COUNT_MAX) }
    }

    /// Keeps a deposit, replacing the one with its id. Returns `false` if there is no room; the deposit is closed then.
    pub fn put(&mut self, deposit: Deposit) -> bool {
        let room = self.held.len() < self.count_max || self.held.contains_key(&deposit.id);
        if room {
            self.held.insert(deposit.id, deposit);
        }
        room
    }

    /// The deposit with the lowest id from `from` on.
    pub fn next(&self, from: u64) -> Option<&Deposit> {
        self.held.range(from..).next().map(|(_, deposit)| deposit)
    }

    /// All deposits.
    pub fn iter(&self) -> impl Iterator<Item = &Deposit> {
        self.held.values()
    }

    /// Closes a deposit. Returns whether it existed.
    pub fn remove(&mut self, id: u64) -> bool {
        self.held.remove(&id).is_some()
    }

    /// Closes deposits of mounts that are gone.
    pub fn remove_dead(&mut self) {
        self.held.retain(|_, deposit| !deposit.is_dead());
    }

    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}

impl Deposit {
    /// Whether one of its descriptors belongs to a mount that is gone.
    pub fn is_dead(&self) -> bool {
        self.descriptors.iter().any(is_dead)
    }
}

/// Polls a descriptor for an error, without reading or waiting. Call it only while no server is connected: polling a
/// device wakes this process at each of its requests.
fn is_dead(descriptor: &impl AsFd) -> bool {
    let mut asked = [PollFd::new(descriptor, PollFlags::empty())];
    let answered = poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    answered.is_ok() && asked[0].revents().intersects(PollFlags::ERR | PollFlags::NVAL)
}

/// Raises the limit of open files to its hard limit and returns it.
pub(super) fn raise_open_files() -> usize {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If it cannot be raised, the current limit is used.
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
