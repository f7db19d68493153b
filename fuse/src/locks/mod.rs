//! File locks of a mount whose store keeps them: byte ranges (fcntl(2)) and whole files (flock(2)).
//!
//! - The store decides. Here are the requests that wait, without a thread each (`waiting`), and which files have locks
//!   (`touched`), so that closing another file asks nobody. While no server runs, the holder answers closes by owners without
//!   locks (`places`).
//! - A waiting request is answered once: when the store grants it, when its caller is interrupted, or when the session is
//!   lost.
//! - The mount of an earlier release has not agreed with the kernel on this: there the kernel keeps the locks.
//!
//! A crash leaves the locks with the store, and the waiting requests with the kernel, which sends them to the next process.

mod places;
mod touched;
mod waiting;

use std::sync::Arc;

use objstore_files::{Change, FileSession, HeldLock, Lock, LockKind, LockOwner, LockRange, LockRelease, Locked};
use parking_lot::Mutex;
use rustix::io::Errno;

use crate::errno::{self, Result};
use crate::shared_memory::SharedMemory;
use touched::Touched;
pub(crate) use waiting::{Answer, Wanted};
use waiting::{Then, Waits};

/// The file locks of a mount.
pub(crate) struct FileLocks {
    files: FileSession,
    /// Whether the kernel asks for locks and announces each close.
    kept: bool,
    touched: Touched,
    waits: Mutex<Waits>,
}

impl FileLocks {
    /// The locks of a mount; `kept` if INIT agreed that the store keeps them. Their owners are noted in the mount's `memory`.
    /// If an earlier process served it, the store is asked which files have locks.
    pub fn new(files: FileSession, kept: bool, memory: Arc<SharedMemory>) -> Arc<Self> {
        let touched = Touched::resume(memory);
        if kept && files.about().inherited {
            touched.load(&files);
        }
        Arc::new(Self { files, kept, touched, waits: Mutex::default() })
    }

    /// Whether the store keeps them.
    pub fn are_kept(&self) -> bool {
        self.kept
    }

    /// The lock that would keep an owner from getting this one.
    pub fn test(&self, ino: u64, owner: u64, lock: Lock) -> Result<Option<HeldLock>> {
        self.check()?;
        self.files.own().test_lock(ino, owner, lock).map_err(|error| errno::of(&error))
    }

    /// Locks, or fails at once.
    pub fn set(&self, ino: u64, by: LockOwner, lock: Lock) -> Result<()> {
        outcome(self.ask(ino, by, lock, 0))
    }

    /// Unlocks.
    pub fn unset(&self, ino: u64, owner: u64, kind: LockKind, range: LockRange) -> Result<()> {
        self.check()?;
        let moment = self.touched.moment(ino);
        let left = self.files.own().unlock(ino, owner, kind, range).map_err(|error| errno::of(&error))?;
        self.touched.left(ino, moment, left);
        Ok(())
    }

    /// Ends the locks of what is closed, if there may be any.
    pub fn release(&self, ino: u64, closed: LockRelease) {
        if !self.kept || !self.touched.has(ino) {
            return;
        }
        let moment = self.touched.moment(ino);
        match self.files.own().release_locks(ino, closed) {
            Ok(left) => {
                self.touched.closed(ino, moment, closed);
                self.touched.left(ino, moment, left);
                self.ask_for_those_of(ino, closed);
            }
            // They end with the session.
            Err(error) => tracing::debug!(ino, %error, "the locks of a closed file are not released"),
        }
    }

    /// Asks for a lock, and answers once it is granted.
    pub fn wait(self: &Arc<Self>, number: u64, wanted: Wanted, answer: Answer) {
        self.waits.lock().begin(number, wanted, answer);
        self.ask_for(number);
    }

    /// The caller of a request received a signal.
    pub fn interrupt(&self, number: u64) {
        // Outside of the lock: it asks the store.
        let moment = self.waits.lock().interrupt(number);
        if let Some(moment) = moment
            && self.cancel(number, moment)
        {
            self.ask_for(number);
        }
    }

    /// Takes what changes say of locks.
    pub fn told(self: &Arc<Self>, changes: &[Change]) {
        for change in changes {
            match change {
                Change::LockGranted { ticket } => {
                    let answer = self.waits.lock().granted(*ticket);
                    answer.into_iter().for_each(|answer| answer(Ok(())));
                }
                // The store may have been restarted, and does not know the requests that waited.
                Change::All => self.ask_again(),
                _ => {}
            }
        }
    }

    /// The changes ended: nothing is granted any more.
    pub fn end(&self) {
        let left = self.waits.lock().end();
        left.into_iter().for_each(|answer| answer(Err(Errno::STALE)));
    }

    /// Asks the store for a lock that waits here, until the answer counts.
    fn ask_for(&self, number: u64) {
        loop {
            let Some((Wanted { ino, by, lock }, moment)) = self.waits.lock().wanted(number) else { return };
            let locked = self.ask(ino, by, lock, number);
            if locked != Ok(Locked::Waits) {
                return self.finish(number, outcome(locked));
            }
            let then = self.waits.lock().waits(number, moment);
            match then {
                Then::Nothing => return,
                Then::Ask => {}
                Then::Cancel(moment) => {
                    if !self.cancel(number, moment) {
                        return;
                    }
                }
                // A request that began to wait since is not wanted any more; nearly always there is none.
                Then::Granted => return self.give_up(number, Ok(())),
                Then::Over => return self.give_up(number, Err(Errno::STALE)),
            }
        }
    }

    /// Asks again for requests that the store took back with what was closed: another thread of the process waits on. The
    /// requests that it was to take back are of a process before this one, whose program is gone.
    fn ask_for_those_of(&self, ino: u64, closed: LockRelease) {
        let LockRelease::Descriptor { owner } = closed else { return };
        let is_meant = |wanted: &Wanted| wanted.ino == ino && wanted.by.owner == owner;
        let again = self.waits.lock().forgotten(is_meant);
        again.into_iter().for_each(|number| self.ask_for(number));
    }

    /// Answers a request, which must not wait at the store any longer.
    fn give_up(&self, number: u64, outcome: Result<()>) {
        if let Err(error) = self.files.own().cancel_lock(number) {
            tracing::debug!(%error, "a request for a lock may still wait at the store");
        }
        self.finish(number, outcome);
    }

    /// Takes a request back whose caller was interrupted; whether to ask for it again, because the store was restarted
    /// meanwhile. If it does not wait at the store otherwise, it was granted, which the changes tell.
    fn cancel(&self, number: u64, moment: u64) -> bool {
        match self.files.own().cancel_lock(number) {
            Ok(true) => self.finish(number, Err(Errno::INTR)),
            Ok(false) => return self.waits.lock().is_unknown(number, moment) == Then::Ask,
            Err(error) => self.finish(number, Err(errno::of(&error))),
        }
        false
    }

    /// Has the store asked again for all that waits, by a thread: the changes do not wait for it.
    fn ask_again(self: &Arc<Self>) {
        let numbers = self.waits.lock().forgotten(|_| true);
        if numbers.is_empty() {
            return;
        }
        let (asking, asked) = (Arc::clone(self), numbers.clone());
        let ask = move || asked.into_iter().for_each(|number| asking.ask_for(number));
        if let Err(error) = std::thread::Builder::new().name("fuse-locks".into()).spawn(ask) {
            tracing::warn!(%error, "there is no thread to ask for locks again: cache invalidations wait for it");
            numbers.into_iter().for_each(|number| self.ask_for(number));
        }
    }

    fn finish(&self, number: u64, outcome: Result<()>) {
        // Outside of the lock: the answer is a system call.
        let answer = self.waits.lock().finish(number);
        if let Some(answer) = answer {
            answer(outcome);
        }
    }

    fn ask(&self, ino: u64, by: LockOwner, lock: Lock, ticket: u64) -> Result<Locked> {
        self.check()?;
        let _under_way = self.touched.begin(ino, by, lock.kind);
        self.files.own().lock(ino, by, lock, ticket).map_err(|error| errno::of(&error))
    }

    /// Refuses with ENOLCK where the store went back to a release that keeps no locks.
    fn check(&self) -> Result<()> {
        if self.files.keeps_locks() { Ok(()) } else { Err(Errno::NOLCK) }
    }
}

/// The error number of an outcome.
fn outcome(locked: Result<Locked>) -> Result<()> {
    match locked? {
        Locked::Granted => Ok(()),
        Locked::Refused | Locked::Waits => Err(Errno::AGAIN),
        Locked::Deadlock => Err(Errno::DEADLK),
        Locked::TooMany => Err(Errno::NOLCK),
    }
}
