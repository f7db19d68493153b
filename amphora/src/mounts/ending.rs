//! Unmounting: of one mount on request, or of all when the process ends.

use std::path::Path;
use std::time::Duration;

use fuse::{Ended, Mount, Mountinfo};
use objstore::disk::{Disk as _, RealDisk};
use objstore_files::SessionStanding;

use super::directory::{clear_lost, mounted};
use super::records::quoted;
use super::{Entry, Error, Origin, Slot, Table};

/// The time limit for requests in progress when mounts are left to the next process.
const LEAVE_LIMIT: Duration = Duration::from_secs(5);

/// What to do with a mount that programs use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmounting {
    /// Refuse to unmount it, and name the programs.
    IfIdle,
    /// Detach it; programs keep their open files.
    Lazily,
}

/// Why this process ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Another program replaces it at once.
    Upgrade,
    /// It was asked to stop.
    Stop {
        /// Unmount the administrator's mounts, even those that a holder could keep.
        unmount: bool,
        /// The command that ends a mount, without the directory.
        command: String,
    },
}

impl Table {
    /// Unmounts, also a mount that no server serves: one whose server died, or one that a holder keeps in vain.
    /// Programs in such a mount get errors. Blocking.
    ///
    /// # Errors
    /// If the directory is not a mount of this server, programs use it, or the system refuses.
    pub fn unmount(&self, dir: &Path, how: Unmounting) -> Result<(), Error> {
        let dir = &mounted(dir)?;
        let (slot, entry) = match self.take(dir) {
            Err(Error::NotMounted { .. }) => return self.forget(dir, how),
            taken => taken?,
        };
        let unmounted = match how {
            Unmounting::IfIdle => entry.mount.unmount_idle(),
            Unmounting::Lazily => entry.mount.unmount(),
        };
        if matches!(unmounted, Ok(_) | Err(fuse::Error::Unsynced { .. })) {
            let busy = unmounted.as_ref().is_ok_and(|ended| *ended == Ended::Busy);
            tracing::info!(bucket = %entry.request.bucket, dir = %dir.display(), busy, "unmounted");
            self.records.remove(dir);
            let mut state = self.state();
            state.ended.add(&entry.mount);
            if busy {
                state.linger(entry.mount);
            }
        } else {
            slot.fill(entry);
        }
        Ok(unmounted.map(drop)?)
    }

    /// Ends an unserved mount at a directory, and removes its record.
    fn forget(&self, dir: &Path, how: Unmounting) -> Result<(), Error> {
        let cleared = clear_lost(dir, how)?;
        let known = self.records.at(dir).is_some();
        self.records.remove(dir);
        self.state().lost.remove(dir);
        if cleared || known { Ok(()) } else { Err(Error::NotMounted { dir: dir.to_owned() }) }
    }

    /// Detaches all mounts from this process, which is about to end. Changes made through mapped memory reach the store
    /// first, but for mounts of other stores that a holder keeps. What a holder keeps is left to the next process; the others end. Of those, CSI's mounts stay
    /// attached where pods see them, dead until the next process rebuilds them, since detaching them would only wait
    /// for the pods. Returns whether a holder keeps any for the next process. Blocking.
    pub fn end_all(&self, ending: &Ending) -> bool {
        self.sweep(&Mountinfo::read());
        let state = std::mem::take(&mut *self.state());
        let entries: Vec<_> = state.slots.into_values().filter_map(Slot::into_entry).collect();
        let is_held = self.is_held();
        let stays = |entry: &Entry| is_held && entry.mount.is_kept() && !ending.ends(entry);
        // All are still served at this point: one may lie in another, and each takes its time.
        std::thread::scope(|threads| {
            for entry in entries.iter().filter(|entry| entry.may_sync(stays(entry))) {
                threads.spawn(|| entry.sync());
            }
        });
        let (kept, over): (Vec<_>, Vec<_>) = entries.into_iter().partition(|entry| stays(entry));
        std::thread::scope(|threads| {
            // Innermost first.
            for entry in over.into_iter().rev() {
                threads.spawn(move || self.end_with_process(*entry));
            }
        });
        let leaves = !kept.is_empty() || (is_held && !(state.lingering.is_empty() && state.unserved.is_empty()));
        let lines: Vec<_> = kept.iter().filter_map(|entry| ending.advice(entry)).collect();
        std::thread::scope(|threads| {
            for mount in kept.into_iter().map(|entry| entry.mount).chain(state.lingering) {
                threads.spawn(move || leave(mount));
            }
        });
        // Logged last, where a user who pressed Ctrl-C sees it.
        lines.iter().for_each(|line| tracing::warn!("{line}"));
        // Their threads end with the process, and the holder keeps the mounts.
        state.unserved.into_iter().for_each(std::mem::forget);
        leaves
    }

    fn end_with_process(&self, entry: Entry) {
        let dir = entry.dir.display();
        if entry.request.origin == Origin::Csi {
            tracing::info!(bucket = %entry.request.bucket, %dir, "the mount stays for the next start");
            // Dropping it would unmount.
            return std::mem::forget(entry);
        }
        match entry.mount.unmount() {
            Ok(ended) => {
                let busy = ended == Ended::Busy;
                tracing::info!(bucket = %entry.request.bucket, %dir, busy, "unmounted");
                if !entry.request.keep {
                    self.records.remove(&entry.dir);
                }
                if busy {
                    if let Some((holding, session)) = self.holding.as_ref().zip(entry.mount.session()) {
                        // Otherwise its programs would wait for the next server.
                        let _ = holding.withdraw(session.get());
                    }
                    // Dropping it would wait for its programs again; its threads end with the process.
                    std::mem::forget(entry);
                }
            }
            Err(error) => {
                let error = crate::failure::with_causes(&error);
                tracing::error!(%dir, error, "cannot unmount cleanly");
            }
        }
    }
}

impl Ending {
    /// Whether a mount ends that a holder could keep.
    fn ends(&self, entry: &Entry) -> bool {
        matches!(self, Self::Stop { unmount: true, .. }) && entry.request.origin == Origin::Admin
    }

    /// The advice to log about a mount that stays.
    fn advice(&self, entry: &Entry) -> Option<String> {
        let Self::Stop { command, .. } = self else { return None };
        let (bucket, dir) = (&entry.request.bucket, entry.dir.display());
        let waits = format!("\"{bucket}\" stays mounted at {dir}, and programs in it wait for the next server");
        Some(match entry.request.origin {
            Origin::Admin => format!("{waits}; to end the mount: {command} {}", quoted(&entry.dir)),
            Origin::Csi => format!("{waits}; Kubernetes ends it with its pods"),
        })
    }
}

impl Entry {
    /// Whether this process may wait for its own mount. A thread in a call of the kernel that a store elsewhere does not answer
    /// is ended by no signal, and with it this process would never end: no next one would take the mounts over.
    fn may_sync(&self, stays: bool) -> bool {
        let is_served = || self.mount.files().standing() == SessionStanding::Served;
        // The dirty pages of a mount that stays are written when the next process serves it.
        self.request.remote.is_none() || !stays && is_served()
    }

    /// Has the kernel write back dirty pages of the mount: memory that programs mapped and changed.
    fn sync(&self) {
        if !self.mount.is_alive() {
            return;
        }
        if let Err(error) = RealDisk::new().sync_everything(&self.dir) {
            let dir = self.dir.display();
            tracing::error!(%dir, %error, "cannot sync a mount; changes made through mapped memory may be lost");
        }
    }
}

/// Leaves a mount to the next process.
fn leave(mount: Mount) {
    let dir = mount.path().display().to_string();
    let answered = mount.leave(LEAVE_LIMIT);
    tracing::info!(dir, answered, "the mount was detached for the next server");
}
