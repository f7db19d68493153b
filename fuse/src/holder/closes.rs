//! Closes while no server runs: the fd holder answers those that change nothing.
//!
//! - A kernel whose store keeps file locks asks at each close(2), since the byte ranges of the process end with it. So while a
//!   server is away, closes would wait, and with them exec(2) and the end of programs that inherited a descriptor.
//! - The mount's shared memory says who may have such locks (`locks::places`). A close by anybody else is answered with
//!   success, unless the store waits for the close of a writer. All other requests are left to the next server.
//! - Each time it reads a device, it claims the mount (`claim`). Where a server has the claim, it lets the mount alone.
//! - A program may be killed while it waits, but not in the moment in which its request is read here. So requests that were
//!   given back are looked at again only when there is a new one, and after a pause that is long beside the look. A program
//!   that was killed in that moment is let go at the next look, if it only asked for something.
//! - What the kernel forgets meanwhile is counted in the table of known nodes, if the mount has one. Without one, the
//!   references were counted by the process that has ended.
//!
//! A crash of the holder in between leaves all requests with the kernel, for the next server.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use fuse_holder::Attendant;
use rustix::event::{Timespec, epoll};

use super::{Deposit, Record};
use crate::adapter::{Agreement, Feature, Left, Session, StandIn};
use crate::claim::Claim;
use crate::handles::OpenFile;
use crate::known;
use crate::shared_memory::SharedMemory;

/// The shortest and the longest pause before requests that were given back are looked at again.
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));
/// How much longer than the look a pause is.
const PAUSE_FACTOR: u32 = 100;
/// When requests are looked at again without a sign of a new one. A sign may coincide with that of requests given back.
const IDLE: Duration = Duration::from_secs(5);
/// The largest buffer that a record can ask for; one of this program is half as large.
const BUFFER_BYTES_MAX: usize = 2 << 20;
/// How many signs are taken at a time.
const SIGNS: usize = 64;

/// Answers closes of mounts without a server.
#[derive(Default)]
pub struct Closes {
    unserved: BTreeMap<u64, Unserved>,
    /// The devices of these mounts, by their ids. It tells of new requests: a device whose requests were given back can be
    /// read all the time.
    signs: Option<OwnedFd>,
    /// Room for the largest request, while there is such a mount.
    buffer: Vec<u8>,
}

/// A mount without a server.
struct Unserved {
    session: Session,
    memory: SharedMemory,
    /// When its requests are looked at next.
    due: Instant,
    /// Until when they are not looked at in any case.
    rests_until: Instant,
}

impl Attendant for Closes {
    fn look(&mut self, deposits: &mut dyn Iterator<Item = &Deposit>) {
        let mut ids = BTreeSet::new();
        for deposit in deposits {
            ids.insert(deposit.id);
            if !self.unserved.contains_key(&deposit.id)
                && let Some(unserved) = Unserved::of(deposit)
            {
                self.add(deposit.id, unserved);
            }
        }
        let over: Vec<_> = self.unserved.keys().copied().filter(|id| !ids.contains(id)).collect();
        over.into_iter().for_each(|id| self.remove(id));
    }

    fn wakes(&self) -> Vec<BorrowedFd<'_>> {
        self.signs.iter().map(AsFd::as_fd).collect()
    }

    fn due(&self) -> Option<Instant> {
        self.unserved.values().map(|mount| mount.due).min()
    }

    fn attend(&mut self) {
        self.take_signs(None);
        let now = Instant::now();
        let due: Vec<_> = self.unserved.iter().filter(|(_, mount)| mount.due <= now).map(|(id, _)| *id).collect();
        for id in due {
            match self.unserved.get_mut(&id).and_then(|mount| mount.stand_in(&mut self.buffer)) {
                None => self.remove(id),
                // That requests were given back is a sign, too.
                Some(GaveBack::Some) => self.take_signs(Some(id)),
                Some(GaveBack::Nothing) => {}
            }
        }
    }
}

impl Closes {
    fn add(&mut self, id: u64, mount: Unserved) {
        if self.signs.is_none() {
            self.signs = epoll::create(epoll::CreateFlags::CLOEXEC).ok();
        }
        let Some(signs) = &self.signs else { return };
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        if epoll::add(signs, mount.session.device(), epoll::EventData::new_u64(id), flags).is_ok() {
            self.unserved.insert(id, mount);
        }
    }

    /// Lets a mount alone. The device stays registered otherwise, since others have it open, too.
    fn remove(&mut self, id: u64) {
        if let (Some(mount), Some(signs)) = (self.unserved.remove(&id), &self.signs) {
            // It fails only if it is not registered.
            let _ = epoll::delete(signs, mount.session.device());
        }
        if self.unserved.is_empty() {
            (self.signs, self.buffer) = (None, Vec::new());
        }
    }

    /// Takes all signs of requests, which make their mounts due, but for one mount.
    fn take_signs(&mut self, but: Option<u64>) {
        let Some(signs) = &self.signs else { return };
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut room = Vec::with_capacity(SIGNS);
        let now = Instant::now();
        while let Ok(1..) = epoll::wait(signs, rustix::buffer::spare_capacity(&mut room), Some(&at_once)) {
            for event in room.drain(..) {
                let id = event.data.u64();
                if but != Some(id)
                    && let Some(mount) = self.unserved.get_mut(&id)
                {
                    mount.due = mount.due.min(mount.rests_until.max(now));
                }
            }
        }
    }
}

/// Whether requests were given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GaveBack {
    Nothing,
    Some,
}

impl Unserved {
    /// The mount of a deposit, if it has no server and its closes may be answered.
    fn of(deposit: &Deposit) -> Option<Self> {
        let [device, memory] = deposit.descriptors.as_slice() else { return None };
        if deposit.is_dead() {
            return None;
        }
        let _claim = Claim::now(memory.as_fd()).ok()??;
        let Record { init, answer, .. } = Record::decode(&deposit.record)?;
        let memory = SharedMemory::open(memory.try_clone().ok()?).ok().filter(SharedMemory::lets_close)?;
        let session = Session::resume(device.try_clone().ok()?, &Agreement { init, answer }).ok()?;
        let is_fit =
            session.has(Feature::HasResend) && session.keeps_locks() && session.buffer_bytes() <= BUFFER_BYTES_MAX;
        let now = Instant::now();
        is_fit.then_some(Self { session, memory, due: now, rests_until: now })
    }

    /// Looks at the requests that wait; `None` if the mount is gone or has a server.
    fn stand_in(&mut self, buffer: &mut Vec<u8>) -> Option<GaveBack> {
        let _claim = Claim::now(self.memory.memory()).ok()??;
        if !self.memory.lets_close() {
            return None;
        }
        if buffer.len() < self.session.buffer_bytes() {
            *buffer = self.session.buffer();
        }
        let (began, mut standing) = (Instant::now(), Standing { memory: &self.memory, forgotten: HashMap::new() });
        let left = self.session.stand_in(buffer, &mut standing);
        if !standing.forgotten.is_empty() {
            known::note_forgotten(&self.memory, standing.forgotten);
        }
        let Ok(Left::Requests { all, fresh }) = left else { return None };
        let (now, pause) = (Instant::now(), (began.elapsed() * PAUSE_FACTOR).clamp(PAUSE.0, PAUSE.1));
        self.rests_until = if all > 0 { now + pause } else { now };
        self.due = if fresh > 0 { self.rests_until } else { now + IDLE };
        Some(if all > 0 { GaveBack::Some } else { GaveBack::Nothing })
    }
}

/// What is known of a mount in the place of its server.
struct Standing<'a> {
    memory: &'a SharedMemory,
    forgotten: HashMap<u64, u64>,
}

impl StandIn for Standing<'_> {
    fn may_close(&mut self, node: u64, handle: u64, owner: u64) -> bool {
        !OpenFile::decode(handle).is_announced(true) && self.memory.may_close(node, owner)
    }

    fn is_ending(&self, thread: u32) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
        waits_for_death(&status)
    }

    fn forget(&mut self, node: u64, lookups: u64) {
        if self.memory.nodes().is_some() {
            let count = self.forgotten.entry(node).or_default();
            *count = count.saturating_add(lookups);
        }
    }
}

/// Whether SIGKILL is pending for a thread, from its /proc/ID/status.
fn waits_for_death(status: &str) -> bool {
    let pending = status.lines().find_map(|line| line.strip_prefix("SigPnd:"));
    let signals = pending.and_then(|signals| u64::from_str_radix(signals.trim(), 16).ok()).unwrap_or_default();
    signals & 1 << (libc::SIGKILL - 1) != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared_memory::Tables;

    #[test]
    fn a_thread_with_a_pending_kill_waits_for_its_death() {
        assert!(waits_for_death("Name:\tcat\nSigPnd:\t0000000000000100\nShdPnd:\t0000000000000000\n"));
        assert!(!waits_for_death("Name:\tcat\nSigPnd:\t0000000000004000\nShdPnd:\t0000000000000100\n"));
        assert!(!waits_for_death(""));
    }

    #[test]
    fn a_writer_whose_close_the_store_waits_for_and_an_owner_of_locks_are_left_to_the_server() {
        let memory = SharedMemory::create(Tables::Opens).unwrap();
        let mut standing = Standing { memory: &memory, forgotten: HashMap::new() };
        let reader = OpenFile { writable: false, number: 7, life: 1 };
        let writer = OpenFile { writable: true, number: OpenFile::WRITER_BIT | 7, life: 1 };
        assert!(standing.may_close(5, reader.encode(), 3) && !standing.may_close(5, writer.encode(), 3));
        memory.owners()[0].owner.store(3, std::sync::atomic::Ordering::Relaxed);
        memory.owners()[0].node.store(5, std::sync::atomic::Ordering::Relaxed);
        assert!(!standing.may_close(5, reader.encode(), 3) && standing.may_close(5, reader.encode(), 4));
        standing.forget(5, 2);
        assert!(standing.forgotten.is_empty(), "the process that counted has ended");
    }
}
