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

use objstore_files::Reply;

use super::flags::Touching;
use super::replay::Outcome;
use super::session::{Session, Volume};
use crate::error::{Error, Posix, Result};
use crate::record::bucket::VersioningState;
use crate::record::inode::{Inode, InodeKind};
use crate::state::Begun;
use crate::tree::{Tx, protection};

/// How often an operation is repeated because S3 replaced the file meanwhile.
const TRIES_MAX: usize = 8;

/// A file at the version that a request began: the same request, sent again, continues it and begins no other.
struct Beginning(u64, Inode);

impl Outcome for Beginning {
    fn ino(&self) -> u64 {
        self.0
    }

    fn reply(&self) -> Option<Reply> {
        None
    }

    fn again(tx: &Tx<'_>, ino: u64) -> Result<Option<Self>> {
        let tree = tx.tree();
        match tree.inode(ino)? {
            Some((_, inode)) if tree.is_current(ino, &inode)? => Ok(Some(Self(ino, inode))),
            _ => Ok(None),
        }
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
            let (_, inode) = tree.dirty_inode(ino)?;
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
        self.flush(ino)?;
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
        let settings = self.0.core.settings.of(&*snapshot, &record)?;
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
        let _copies = self.reading(|tree| {
            let (_, inode) = tree.dirty_inode(ino)?;
            core.passthrough.prepare(|| tree.blobs_of(ino, &inode))
        })?;
        let begin = move |tx: &mut Tx<'_>| {
            tx.flush_final(ino)?;
            tx.begin_version(ino)?;
            let (_, inode) = tx.tree().dirty_inode(ino)?;
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
            if self.keeps_versions()? && self.reading(|tree| tree.is_noncurrent(ino))? {
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
        if let Some(dirty) = session.core.dirty.get(session.bucket, ino).filter(|_| ended) {
            // The next write begins another version. The file is flushed later with other closed files.
            dirty.retire();
        }
    }
}
