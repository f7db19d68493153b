//! Writers of files, and the versions that mounts are writing.
//!
//! - A version that a mount's change began stays open until the last writer closes the file: further changes belong to
//!   it. truncate(2) by path is a writer of its own. A file that is created open has an open version from the start. A
//!   writer that comes after a close finds the version closed, though the kernel may report the close later
//!   (`closing`).
//! - A version has the bucket's default retention from its first change on. While it is open, the retention does not
//!   restrict its writers, and it starts again at the last close. So an open version has only this lock: another lock
//!   that is set meanwhile, or ceasing to be current, closes it, and the next change is decided again.
//! - All of it is in memory. The death of a process or session closes every open version with its current retention:
//!   the next change begins another version, or is refused. Handles that outlive it are not counted; a write through
//!   one opens a version, and closing the handle closes the version, unless a counted writer has the file open.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::closing::Closings;
use super::flags::Touching;
use super::replay::Outcome;
use super::session::{Session, Volume};
use crate::content::Prepared;
use crate::core::Core;
use crate::error::{Error, Posix, Result};
use crate::record::bucket::VersioningState;
use crate::record::inode::{Inode, InodeKind, Retention};
use crate::tree::{Tx, protection};

/// How often an operation is repeated because S3 replaced the file meanwhile.
const TRIES_MAX: usize = 8;

/// All writers, by bucket and inode.
#[derive(Default)]
pub(crate) struct Writers {
    table: Mutex<HashMap<(u64, u64), Writer>>,
    pub(super) closings: Closings,
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
struct Begun {
    retention: Option<Retention>,
}

impl Begun {
    fn of(inode: &Inode) -> Self {
        Self { retention: inode.object.as_ref().and_then(|object| object.retention) }
    }
}

/// A file at the version that a request began: the same request, sent again, continues it and begins no other.
struct Beginning(u64, Inode);

impl Outcome for Beginning {
    fn ino(&self) -> u64 {
        self.0
    }

    fn again(tx: &Tx<'_>, ino: u64) -> Result<Option<Self>> {
        let tree = tx.tree();
        match tree.inode(ino)? {
            Some((_, inode)) if tree.is_current(ino, &inode)? => Ok(Some(Self(ino, inode))),
            _ => Ok(None),
        }
    }
}

impl Writers {
    fn opened(&self, bucket: u64, ino: u64) {
        self.table.lock().entry((bucket, ino)).or_default().handles += 1;
    }

    /// Counts one handle less. Returns whether that ended a version.
    fn closed(&self, bucket: u64, ino: u64) -> bool {
        let mut writers = self.table.lock();
        let Some(writer) = writers.get_mut(&(bucket, ino)) else { return false };
        writer.handles = writer.handles.saturating_sub(1);
        writer.handles == 0 && writers.remove(&(bucket, ino)).is_some_and(|writer| writer.open.is_some())
    }

    /// Handles the close of an uncounted handle. Returns whether that ended a version, since no other writer has the
    /// file open.
    fn closed_uncounted(&self, bucket: u64, ino: u64) -> bool {
        let mut writers = self.table.lock();
        let unused = writers.get(&(bucket, ino)).is_some_and(|writer| writer.handles == 0);
        unused && writers.remove(&(bucket, ino)).is_some_and(|writer| writer.open.is_some())
    }

    /// Whether a counted writer has the file open.
    pub fn has_handles(&self, bucket: u64, ino: u64) -> bool {
        self.table.lock().get(&(bucket, ino)).is_some_and(|writer| writer.handles > 0)
    }

    /// Whether mounts are writing a version of the file.
    pub(super) fn is_begun(&self, bucket: u64, ino: u64) -> bool {
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

    fn begin(&self, bucket: u64, ino: u64, begun: Begun) {
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
}

impl Core {
    /// Records that the commit in progress flushes a file and ends its dirty state, after which each write is decided
    /// again.
    pub fn note_ending(&self, bucket: u64, ino: u64) {
        let mut ending = self.writers.ending.lock();
        ending.last += 1;
        let number = ending.last;
        ending.files.push(EndingFile { bucket, ino, number });
    }

    /// Waits for the writes in place that were running when [`Core::note_ending`] was called: committed content does
    /// not change after this. None of them is answered; each is repeated. Not to be called on the writer thread, for
    /// which those writes may wait.
    pub fn wait_for_writes(&self, bucket: u64) {
        let waited: Vec<EndingFile> =
            self.writers.ending.lock().files.iter().filter(|file| file.bucket == bucket).copied().collect();
        for file in &waited {
            drop(self.gates.reshape(bucket, file.ino));
        }
        if !waited.is_empty() {
            let done = |file: &EndingFile| waited.iter().any(|one| one.number == file.number);
            self.writers.ending.lock().files.retain(|file| !done(file));
        }
    }

    /// Whether there is anything to wait for.
    pub fn has_writes_to_wait_for(&self, bucket: u64) -> bool {
        self.writers.ending.lock().files.iter().any(|file| file.bucket == bucket)
    }
}

impl Volume {
    /// Opens a file for writing: [`Volume::close_writer`] has to follow.
    ///
    /// # Errors
    /// EPERM for a version under object lock; in a bucket with versioning, ESTALE for a file whose recorded name is
    /// gone: look it up again.
    pub fn open_writer(&self, ino: u64) -> Result<()> {
        if !self.0.read_only && self.keeps_versions()? {
            self.wait_for_closing(ino);
            self.check_writable(ino)?;
        }
        self.0.core.writers.opened(self.0.bucket, ino);
        self.count_writer(ino);
        Ok(())
    }

    fn check_writable(&self, ino: u64) -> Result<()> {
        let core = &self.0.core;
        self.reading(|tree| {
            let (_, inode) = tree.live_inode(ino)?;
            if inode.kind() != InodeKind::File || core.writers.is_at(self.0.bucket, ino, &inode) {
                return Ok(());
            }
            if protection(&inode, core.clock.now()).is_some() {
                return Err(Posix::NotPermitted.into());
            }
            if tree.knows_its_key(ino, &inode)? { Ok(()) } else { Err(Posix::Stale.into()) }
        })
    }

    /// Opens a file for writing that this change creates, at its first version; [`Volume::count_writer`] follows.
    pub(super) fn open_made(tx: &mut Tx<'_>, ino: u64, made: &Inode) {
        let (core, bucket, begun) = (tx.core.clone(), tx.bucket.id, Begun::of(made));
        let versions = tx.bucket.versioning() != VersioningState::Disabled;
        tx.txn.after_commit(Box::new(move || {
            core.writers.opened(bucket, ino);
            if versions {
                core.writers.begin(bucket, ino, begun);
            }
        }));
    }

    /// Counts a writer among those that the end of the session closes.
    pub(super) fn count_writer(&self, ino: u64) {
        *self.0.writers.lock().entry(ino).or_default() += 1;
    }

    /// Closes a file that was open for writing. The last close ends the open version: the bucket's default retention is
    /// counted from now.
    pub fn close_writer(&self, ino: u64) -> Result<()> {
        let mut mine = self.0.writers.lock();
        if let Some(count) = mine.get_mut(&ino) {
            *count -= 1;
            if *count == 0 {
                mine.remove(&ino);
            }
        }
        drop(mine);
        self.end_writing(ino)
    }

    /// Closes a file that was opened when another process served the session (see [`Volume::life`]): its writer is not
    /// counted here.
    pub fn close_inherited_writer(&self, ino: u64) -> Result<()> {
        let ended = self.0.core.writers.closed_uncounted(self.0.bucket, ino);
        if ended { self.end_version(ino) } else { self.settle_unless_open(ino) }
    }

    fn end_writing(&self, ino: u64) -> Result<()> {
        let ended = self.0.core.writers.closed(self.0.bucket, ino);
        if ended { self.end_version(ino) } else { self.settle_unless_open(ino) }
    }

    fn settle_unless_open(&self, ino: u64) -> Result<()> {
        let Session { core, bucket, .. } = &*self.0;
        if core.writers.has_handles(*bucket, ino) { Ok(()) } else { core.settle_later(*bucket, ino) }
    }

    fn end_version(&self, ino: u64) -> Result<()> {
        // The next write begins another version.
        self.settle(ino)?;
        if !self.retains()? {
            return Ok(());
        }
        match self.change(move |tx| tx.retain_written(ino)) {
            // It was unlinked and deleted.
            Err(Error::Posix(Posix::Stale)) => Ok(()),
            answer => answer,
        }
    }

    /// Whether the bucket has versioning, or had it.
    pub fn keeps_versions(&self) -> Result<bool> {
        let record = self.0.core.bucket_known(&self.0.name)?;
        Ok(record.is_some_and(|bucket| bucket.versioning() != VersioningState::Disabled))
    }

    /// Whether the bucket has a default retention.
    fn retains(&self) -> Result<bool> {
        let snapshot = self.0.core.meta.snapshot();
        let Some(record) = self.0.core.bucket_record(&*snapshot, &self.0.name)? else { return Ok(false) };
        let settings = crate::store::settings::of(&*snapshot, &self.0.core, &record)?;
        Ok(settings.object_lock.is_some_and(|lock| lock.default.is_some()))
    }

    /// Begins a version before content changes, unless one is open; not if flags forbid the change. The caller holds
    /// the bucket's gate shared and the inode's lock exclusively.
    pub(super) fn begin_version(&self, ino: u64, what: Touching) -> Result<()> {
        let (core, bucket) = (&self.0.core, self.0.bucket);
        if core.writers.is_begun(bucket, ino) || !self.keeps_versions()? {
            return Ok(());
        }
        self.refuse_fixed(ino, what)?;
        let _copies = self.reading(|tree| Prepared::of(core, tree, ino, &tree.live_inode(ino)?.1))?;
        let begin = move |tx: &mut Tx<'_>| {
            tx.settle_for_good(ino)?;
            tx.begin_version(ino)?;
            let (_, inode) = tx.tree().live_inode(ino)?;
            Ok(Beginning(ino, inode))
        };
        let begun = self.once_and(begin, move |tx, Beginning(ino, inode)| {
            let (core, ino, begun) = (tx.core.clone(), *ino, Begun::of(inode));
            tx.txn.after_commit(Box::new(move || core.writers.begin(bucket, ino, begun)));
        });
        begun.map(drop)
    }

    /// Runs a change of content without a handle, as a writer of its own.
    pub(super) fn as_writer(&self, ino: u64, change: impl FnOnce() -> Result<()>) -> Result<()> {
        self.wait_for_closing(ino);
        self.0.core.writers.opened(self.0.bucket, ino);
        let changed = change();
        let ended = self.end_writing(ino);
        changed.and(ended)
    }

    /// Runs a change of attributes that S3 shows: time, headers and metadata. A noncurrent version stays unchanged: the
    /// change is then made to a file without a name, as a write is.
    pub(super) fn describing<T>(&self, ino: u64, change: impl Fn() -> Result<T>) -> Result<T> {
        self.changing(ino, || {
            if self.keeps_versions()? && self.reading(|tree| tree.is_retired(ino))? {
                self.as_writer(ino, || self.leave_version(ino))?;
            }
            change()
        })
    }

    fn leave_version(&self, ino: u64) -> Result<()> {
        let Session { core, bucket, .. } = &*self.0;
        let _gate = core.gates.write_in_place(*bucket);
        let _alone = core.gates.reshape(*bucket, ino);
        self.begin_version(ino, Touching::Changes)
    }

    /// Runs a change of content, and repeats it if S3 replaced the file between the begin of its version and the
    /// change.
    pub(super) fn changing<T>(&self, ino: u64, change: impl Fn() -> Result<T>) -> Result<T> {
        for _ in 1..TRIES_MAX {
            match change() {
                Err(Error::Busy { .. }) => self.0.core.writers.end(self.0.bucket, ino),
                answer => return answer,
            }
        }
        change()
    }
}

/// Closes the files that an ending session had open.
pub(super) fn give_back(session: &super::Session) {
    session.core.writers.closings.end_all(session.mount);
    for (ino, count) in std::mem::take(&mut *session.writers.lock()) {
        let ended = (0..count).any(|_| session.core.writers.closed(session.bucket, ino));
        if let Some(live) = session.core.live.get(session.bucket, ino).filter(|_| ended) {
            // The next write begins another version. The file is flushed later with other closed files.
            live.retire();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Timestamp;
    use crate::record::inode::{Object, RetentionMode};

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
