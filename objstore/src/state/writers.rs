//! The files that are open for writing, and those whose current version mounts are still writing (see
//! `volume/writers.rs`).

use std::collections::HashMap;

use parking_lot::Mutex;

use super::closings::Closings;
use super::gate::Gates;
use crate::record::inode::{Inode, Retention};

/// All writers, by bucket and inode.
#[derive(Default)]
pub(crate) struct Writers {
    table: Mutex<HashMap<(u64, u64), Writer>>,
    pub closings: Closings,
    /// Files with writes in place that may still be running, though the file ceased to be current or was locked.
    ending: Mutex<Ending>,
}

#[derive(Default)]
struct Ending {
    files: Vec<EndingFile>,
    last: u64,
}

#[derive(Clone, Copy)]
struct EndingFile {
    bucket: u64,
    ino: u64,
    /// Distinguishes it from the same file at another time.
    number: u64,
}

#[derive(Default)]
struct Writer {
    handles: u64,
    /// The open version, if a change through a mount began it.
    open: Option<Begun>,
}

/// A version in the state in which it was begun.
#[derive(Clone, Copy)]
pub(crate) struct Begun {
    retention: Option<Retention>,
}

impl Begun {
    /// The version that an inode is.
    pub fn of(inode: &Inode) -> Self {
        Self { retention: inode.object.as_ref().and_then(|object| object.retention) }
    }
}

impl Writers {
    /// A handle more.
    pub fn opened(&self, bucket: u64, ino: u64) {
        self.table.lock().entry((bucket, ino)).or_default().handles += 1;
    }

    /// Counts one handle less. Returns whether that ended a version.
    pub fn closed(&self, bucket: u64, ino: u64) -> bool {
        let mut writers = self.table.lock();
        let Some(writer) = writers.get_mut(&(bucket, ino)) else { return false };
        writer.handles = writer.handles.saturating_sub(1);
        writer.handles == 0 && writers.remove(&(bucket, ino)).is_some_and(|writer| writer.open.is_some())
    }

    /// Handles the close of an uncounted handle. Returns whether that ended a version, since no other writer has the
    /// file open.
    pub fn closed_uncounted(&self, bucket: u64, ino: u64) -> bool {
        let mut writers = self.table.lock();
        let unused = writers.get(&(bucket, ino)).is_some_and(|writer| writer.handles == 0);
        unused && writers.remove(&(bucket, ino)).is_some_and(|writer| writer.open.is_some())
    }

    /// Whether a counted writer has the file open.
    pub fn has_handles(&self, bucket: u64, ino: u64) -> bool {
        self.table.lock().get(&(bucket, ino)).is_some_and(|writer| writer.handles > 0)
    }

    /// Whether mounts are writing a version of the file.
    pub fn is_begun(&self, bucket: u64, ino: u64) -> bool {
        self.begun(bucket, ino).is_some()
    }

    fn begun(&self, bucket: u64, ino: u64) -> Option<Begun> {
        self.table.lock().get(&(bucket, ino)).and_then(|writer| writer.open)
    }

    /// Whether mounts are writing a version of the file that has no lock but its first one. The lock is compared,
    /// because [`Writers::end`] comes too late for changes in the same commit as a lock.
    pub fn is_at(&self, bucket: u64, ino: u64, inode: &Inode) -> bool {
        let held = inode.object.as_ref().is_some_and(|object| object.legal_hold);
        let same = |begun: Begun| begun.retention == Begun::of(inode).retention;
        !held && self.begun(bucket, ino).is_some_and(same)
    }

    /// A change through a mount began a version.
    pub fn begin(&self, bucket: u64, ino: u64, begun: Begun) {
        self.table.lock().entry((bucket, ino)).or_default().open = Some(begun);
    }

    /// Makes the open version that of the current inode, after the file got a name.
    pub fn go_on(&self, bucket: u64, ino: u64, inode: &Inode) {
        if let Some(writer) = self.table.lock().get_mut(&(bucket, ino))
            && writer.open.is_some()
        {
            writer.open = Some(Begun::of(inode));
        }
    }

    /// From the commit in progress on, changes of a file no longer belong to the open version.
    pub fn end(&self, bucket: u64, ino: u64) {
        let mut writers = self.table.lock();
        if let Some(writer) = writers.get_mut(&(bucket, ino)) {
            writer.open = None;
            if writer.handles == 0 {
                writers.remove(&(bucket, ino));
            }
        }
    }

    /// Records that the commit in progress flushes a file and ends its dirty state, after which each write is decided
    /// again.
    pub fn note_ending(&self, bucket: u64, ino: u64) {
        let mut ending = self.ending.lock();
        ending.last += 1;
        let number = ending.last;
        ending.files.push(EndingFile { bucket, ino, number });
    }

    /// Waits for the writes in place that were running when [`Writers::note_ending`] was called: committed content does
    /// not change after this. None of them is answered; each is repeated. Not to be called on the writer thread, for
    /// which those writes may wait.
    pub fn wait_for_writes(&self, gates: &Gates, bucket: u64) {
        let waited: Vec<EndingFile> =
            self.ending.lock().files.iter().filter(|file| file.bucket == bucket).copied().collect();
        for file in &waited {
            drop(gates.reshape(bucket, file.ino));
        }
        if !waited.is_empty() {
            let done = |file: &EndingFile| waited.iter().any(|one| one.number == file.number);
            self.ending.lock().files.retain(|file| !done(file));
        }
    }

    /// Whether there is anything to wait for.
    pub fn has_writes_to_wait_for(&self, bucket: u64) -> bool {
        self.ending.lock().files.iter().any(|file| file.bucket == bucket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Timestamp;
    use crate::record::inode::{InodeKind, Object, RetentionMode};

    const UNLOCKED: Begun = Begun { retention: None };

    #[test]
    fn a_version_that_is_written_has_no_lock_but_the_one_it_began_with() {
        let until = |until| Some(Retention { mode: RetentionMode::Governance as i32, until });
        let locked = |retention, legal_hold| {
            let object = Some(Object { retention, legal_hold, ..Object::default() });
            Inode { object, ..Inode::new(InodeKind::File, Timestamp(0)) }
        };
        let writers = Writers::default();
        assert!(!writers.is_at(1, 2, &locked(until(5), false)));
        writers.begin(1, 2, Begun::of(&locked(until(5), false)));
        assert!(writers.is_at(1, 2, &locked(until(5), false)));
        assert!(!writers.is_at(1, 2, &locked(until(6), false)) && !writers.is_at(1, 2, &locked(until(5), true)));
        writers.end(1, 2);
        assert!(!writers.is_at(1, 2, &locked(until(5), false)));
    }

    #[test]
    fn the_last_handle_ends_a_version() {
        let writers = Writers::default();
        writers.opened(1, 2);
        writers.opened(1, 2);
        writers.begin(1, 2, UNLOCKED);
        assert!(writers.begun(1, 2).is_some() && writers.begun(2, 2).is_none());
        assert!(!writers.closed(1, 2) && writers.begun(1, 2).is_some());
        assert!(writers.closed(1, 2) && writers.begun(1, 2).is_none());
    }

    #[test]
    fn a_handle_that_nobody_counted_ends_the_version_it_wrote() {
        let writers = Writers::default();
        writers.begin(1, 2, UNLOCKED);
        assert!(writers.closed(1, 2));
        assert!(!writers.closed(1, 2) && writers.table.lock().is_empty());
        writers.begin(1, 2, UNLOCKED);
        writers.end(1, 2);
        assert!(writers.table.lock().is_empty());
    }
}
