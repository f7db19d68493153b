//! Versions created by mounts in a bucket with versioning, and object lock for mounts.
//!
//! - Protection comes first: content under object lock is not changed, and its name is neither moved nor unlinked,
//!   whatever the inode is to its key. The one exception is a version that mounts of this process are writing, under
//!   the default retention that it got when it was begun or named (`volume/writers.rs`).
//! - A version gets the bucket's default retention with the change that begins it: its first write, the creation of a
//!   file, the arrival of one under a new name. So no version is ever without it, wherever a process dies.
//! - A file records the name that it is found under. Its inode is the current version as long as that name leads to it;
//!   if a mount holds it when it ceases to be current, it records its key. A noncurrent version is never changed: a
//!   write through a handle opened before first moves the version to a separate inode, and the handle continues with a
//!   file without a name.
//! - No name leads to the inode of a noncurrent version: if other names lead there, from a time before the bucket had
//!   versioning, the version gets a copy.
//! - At the first change after the last close, the previous content is kept as a version, by reference, and the inode
//!   gets the next order number. An empty file that was never written makes no version.
//! - Unlinking, and renaming over a file, keep it as a version; a key whose newest version would become visible again
//!   gets a delete marker.
//! - A file with several names keeps its versions under the recorded one. If that name is gone, it records the next one
//!   under which a mount looks it up; until then it cannot be written (ESTALE, after which the kernel looks it up
//!   again). The keys of its other names have no versions: none is created under them, and none of these names moves to
//!   another key (`rename`). So no key has a version twice, whatever order number the inode gets.

use super::lock::protection;
use super::read::{Found, Tree};
use super::tx::Tx;
use super::versions::{Noncurrent, order_of};
use crate::error::{Error, Posix, Result};
use crate::name::Key;
use crate::record::bucket::VersioningState;
use crate::record::inode::{Dirent, Inode, InodeKind, RETIRED, Retention, flag};
use crate::record::version::Version;

/// What an inode that is about to be changed is to its key.
enum Standing {
    /// No version: the bucket keeps none, or the file has no name.
    Free,
    /// The current version under a name that the file does not know.
    Unnamed,
    /// The current version.
    Current,
    /// A version that is no longer current.
    Retired(Key, Noncurrent),
}

impl Tree<'_> {
    /// Whether a file, in a bucket that keeps versions, knows which key it belongs to, if to any.
    pub fn knows_its_key(&self, ino: u64, inode: &Inode) -> Result<bool> {
        Ok(!matches!(self.standing(ino, inode)?, Standing::Unnamed))
    }

    /// Whether an inode is a version that is no longer current.
    pub fn is_retired(&self, ino: u64) -> Result<bool> {
        let (_, inode) = self.live_inode(ino)?;
        Ok(matches!(self.standing(ino, &inode)?, Standing::Retired(..)))
    }

    /// Whether the name an inode knows leads to it.
    pub fn is_current(&self, ino: u64, inode: &Inode) -> Result<bool> {
        Ok(self.dirent(inode.parent, &inode.name)?.is_some_and(|dirent| dirent.ino == ino))
    }

    fn standing(&self, ino: u64, inode: &Inode) -> Result<Standing> {
        if inode.kind() != InodeKind::File || inode.nlink == 0 {
            return Ok(Standing::Free);
        }
        if self.is_current(ino, inode)? {
            return Ok(Standing::Current);
        }
        let key = match inode.parent {
            0 => None,
            RETIRED => Some(inode.name.parse()?),
            parent => match self.key_of(parent, &inode.name) {
                // The directory is gone, and the name with it.
                Err(Error::Posix(Posix::Stale)) => None,
                key => key?,
            },
        };
        let Some(key) = key else { return Ok(Standing::Unnamed) };
        let found = self.noncurrent(&key, order_of(inode))?.filter(|found| found.version.ino == ino);
        Ok(found.map_or(Standing::Unnamed, |found| Standing::Retired(key, found)))
    }
}

impl Tx<'_> {
    fn standing(&self, ino: u64, inode: &Inode) -> Result<Standing> {
        match self.bucket.versioning() {
            VersioningState::Disabled => Ok(Standing::Free),
            VersioningState::Enabled | VersioningState::Suspended => self.tree().standing(ino, inode),
        }
    }

    /// Refuses to change what object lock protects. A version that is no longer current is left as it is by a change:
    /// only if nothing but its record leads to the inode, nothing protected changes.
    fn refuse_locked(&self, inode: &Inode, standing: &Standing) -> Result<()> {
        match standing {
            Standing::Retired(..) if inode.nlink == 1 => Ok(()),
            _ if inode.nlink == 0 => Ok(()),
            _ => self.refuse_protected(inode),
        }
    }

    /// The key that an inode is the current version of, in a bucket that keeps versions.
    pub fn key_written(&self, ino: u64, inode: &Inode) -> Result<Option<Key>> {
        match self.standing(ino, inode)? {
            Standing::Current => self.tree().key_of(inode.parent, &inode.name),
            Standing::Free | Standing::Unnamed | Standing::Retired(..) => Ok(None),
        }
    }

    /// Refuses a change of content that would change a version which is protected, or no longer current.
    ///
    /// # Errors
    /// EPERM for a protected one; [`Error::Busy`] for one that became noncurrent, or lost the name it knew: begin a
    /// version, then try again.
    pub fn check_changeable(&self, ino: u64, inode: &Inode) -> Result<()> {
        let standing = self.standing(ino, inode)?;
        let under_way = self.core.writers.is_at(self.bucket.id, ino, inode);
        match standing {
            Standing::Current | Standing::Unnamed if under_way => Ok(()),
            Standing::Free | Standing::Current => self.refuse_locked(inode, &standing),
            Standing::Unnamed | Standing::Retired(..) => {
                Err(Error::Busy { what: "a file that was replaced while it was open".into() })
            }
        }
    }

    /// Refuses a change of what S3 shows of a version beside its content.
    ///
    /// # Errors
    /// EPERM if object lock protects it, but from those who are writing it; [`Error::Busy`] if it is no longer current.
    pub fn check_describable(&self, ino: u64) -> Result<()> {
        if self.bucket.versioning() == VersioningState::Disabled {
            return Ok(());
        }
        self.check_current(ino)?;
        let (_, inode) = self.tree().live_inode(ino)?;
        if inode.nlink == 0 || self.core.writers.is_at(self.bucket.id, ino, &inode) {
            return Ok(());
        }
        self.refuse_protected(&inode)
    }

    /// Refuses a change of a version that is no longer current.
    ///
    /// # Errors
    /// [`Error::Busy`]: leave the version, then try again.
    pub fn check_current(&self, ino: u64) -> Result<()> {
        let (_, inode) = self.tree().live_inode(ino)?;
        match self.standing(ino, &inode)? {
            Standing::Retired(..) => Err(Error::Busy { what: "a file that was replaced while it was open".into() }),
            Standing::Free | Standing::Unnamed | Standing::Current => Ok(()),
        }
    }

    /// Before content changes for the first time since the file was closed: keeps what is there as a version.
    ///
    /// The caller holds the inode's lock alone: nobody writes in place meanwhile.
    ///
    /// # Errors
    /// EPERM for what is protected; ESTALE for a file that does not know the name it has.
    pub fn begin_version(&mut self, ino: u64) -> Result<()> {
        let (_, inode) = self.tree().live_inode(ino)?;
        let standing = self.standing(ino, &inode)?;
        self.refuse_locked(&inode, &standing)?;
        match standing {
            Standing::Free => Ok(()),
            Standing::Unnamed => Err(Posix::Stale.into()),
            Standing::Current => self.keep_current(ino, &inode),
            Standing::Retired(key, found) => self.part_from_version(ino, &key, &found),
        }
    }

    /// Tells a file the name it was found under, if it does not know the key it belongs to.
    pub fn learn_name(&mut self, ino: u64, parent: u64, name: &str) -> Result<()> {
        let (_, inode) = self.tree().live_inode(ino)?;
        let tree = self.tree();
        let found = tree.dirent(parent, name)?.is_some_and(|dirent| dirent.ino == ino);
        if !found || !matches!(self.standing(ino, &inode)?, Standing::Unnamed) {
            return Ok(());
        }
        let mut inode = self.own(ino)?;
        (inode.parent, inode.name) = (parent, name.to_owned());
        self.save(ino, &inode);
        Ok(())
    }

    /// The inode for a version of `key`, which its name has just lost, or is about to lose: the same, or a copy if
    /// further names lead to that.
    pub(super) fn set_apart(&mut self, key: &Key, ino: u64) -> Result<u64> {
        let (_, inode) = self.tree().linked_inode(ino)?;
        if inode.nlink <= 1 {
            return Ok(ino);
        }
        let copy = self.copy_of(ino)?;
        if self.tree().key_of(inode.parent, &inode.name).is_ok_and(|known| known.as_ref() == Some(key)) {
            self.forget_name(ino)?;
        }
        self.unlink_inode(ino)?;
        Ok(copy)
    }

    fn forget_name(&mut self, ino: u64) -> Result<()> {
        let mut inode = self.own(ino)?;
        (inode.parent, inode.name) = (0, String::new());
        self.save(ino, &inode);
        Ok(())
    }

    /// Tells a file that a mount holds, and that is no longer current from here on, the key it is a version of: its
    /// directory may be moved or go.
    pub(super) fn retire_held(&mut self, key: &Key, ino: u64) -> Result<()> {
        if !self.core.pins.may_be_held(self.bucket.id, ino) {
            return Ok(());
        }
        let mut inode = self.own(ino)?;
        if inode.nlink == 1 {
            (inode.parent, inode.name) = (RETIRED, key.to_string());
            self.save(ino, &inode);
        }
        Ok(())
    }

    fn refuse_protected(&self, inode: &Inode) -> Result<()> {
        match protection(inode, self.now) {
            Some(_) => Err(Posix::NotPermitted.into()),
            None => Ok(()),
        }
    }

    fn keep_current(&mut self, ino: u64, inode: &Inode) -> Result<()> {
        let Some(key) = self.tree().key_of(inode.parent, &inode.name)? else { return Ok(()) };
        let order = order_of(inode);
        if self.bucket.versioning() == VersioningState::Suspended && order == 0 {
            return Ok(());
        }
        let (fresh, retention) = (is_untouched(inode), self.default_retention()?);
        if fresh && order != 0 {
            return if retention.is_some() { self.renew(ino, order, retention) } else { Ok(()) };
        }
        if !fresh {
            let copy = self.copy_of(ino)?;
            self.keep_version(&key, copy, order)?;
        }
        self.replace_null(&key)?;
        let next = self.version_for(&key)?;
        self.renew(ino, next, retention)
    }

    /// Lets the inode be another version, which nothing protects but the retention it begins with.
    fn renew(&mut self, ino: u64, version: u64, retention: Option<Retention>) -> Result<()> {
        let mut inode = self.own(ino)?;
        let object = inode.object.get_or_insert_default();
        (object.version, object.retention, object.legal_hold) = (version, retention, false);
        inode.changed = self.now.0;
        self.save(ino, &inode);
        Ok(())
    }

    /// A new inode with content and attributes of another, which keeps neither its parts nor its home.
    fn copy_of(&mut self, ino: u64) -> Result<u64> {
        let (inode, shared) = self.share_content(ino)?;
        let copy = self.new_ino()?;
        let content = self.take_shared(copy, &shared)?;
        let mut kept = Inode { nlink: 1, content, reserved: 0, flags: inode.flags & flag::NO_DUMP, ..inode.clone() };
        // What the space reserved past the end takes stays with the file.
        kept.take(inode.taken());
        // A tag made of inode and generation would be another one in the copy.
        let etag = inode.etag(ino);
        kept.object.get_or_insert_default().etag = etag;
        if inode.object.as_ref().is_some_and(|object| object.part_table) {
            self.move_parts(ino, copy)?;
            let mut own = self.own(ino)?;
            if let Some(object) = &mut own.object {
                object.become_whole();
            }
            self.save(ino, &own);
        }
        self.add_inode(copy, &kept);
        Ok(copy)
    }

    /// Gives a version that somebody still writes to an inode of its own; the old one goes on without a name.
    fn part_from_version(&mut self, ino: u64, key: &Key, found: &Noncurrent) -> Result<()> {
        let copy = self.copy_of(ino)?;
        self.put_version(key, found.order, Version { ino: copy, ..found.version });
        self.renew(ino, 0, None)?;
        self.forget_name(ino)?;
        self.unlink_inode(ino)
    }

    /// Refuses to take a name away from a current version that is protected, under way or not.
    pub fn check_movable(&self, found: &Found) -> Result<()> {
        if found.dirent.kind() != InodeKind::File {
            return Ok(());
        }
        let (_, inode) = self.tree().linked_inode(found.dirent.ino)?;
        self.refuse_protected(&inode)
    }

    /// What a name led to has just lost it: it becomes a version, or ends.
    pub fn leave(&mut self, parent: u64, name: &str, dirent: Dirent) -> Result<()> {
        let keeps = self.bucket.versioning() != VersioningState::Disabled && dirent.kind() == InodeKind::File;
        let key = if keeps { self.tree().key_of(parent, name)? } else { None };
        let Some(key) = key else { return self.unlink_inode(dirent.ino) };
        let (_, inode) = self.tree().linked_inode(dirent.ino)?;
        if is_untouched(&inode) {
            self.unlink_inode(dirent.ino)?;
        } else {
            self.retire(&key, dirent)?;
        }
        self.replace_null(&key)?;
        self.hide(&key)
    }

    /// Lets the file that was just given a name be the current version of that key.
    pub fn arrive(&mut self, parent: u64, name: &str, inode: &mut Inode) -> Result<()> {
        (inode.parent, inode.name) = (parent, name.to_owned());
        if inode.kind() != InodeKind::File || self.bucket.versioning() == VersioningState::Disabled {
            return Ok(());
        }
        let Some(key) = self.tree().key_of(parent, name)? else { return Ok(()) };
        self.replace_null(&key)?;
        let (version, retention) = (self.version_for(&key)?, self.default_retention()?);
        if version != 0 || retention.is_some() || inode.object.is_some() {
            let object = inode.object.get_or_insert_default();
            (object.version, object.retention) = (version, retention);
        }
        Ok(())
    }

    /// Who writes a file that was given a name goes on writing the version that it is by that.
    pub(super) fn go_on(&mut self, ino: u64, named: &Inode) {
        let (core, bucket, named) = (self.core.clone(), self.bucket.id, named.clone());
        self.txn.after_commit(Box::new(move || core.writers.go_on(bucket, ino, &named)));
    }

    /// Hides older versions of a name that leads to no object any more behind a delete marker.
    pub fn hide_left(&mut self, parent: u64, name: &str) -> Result<()> {
        if self.bucket.versioning() == VersioningState::Disabled {
            return Ok(());
        }
        match self.tree().key_of(parent, name)? {
            Some(key) => self.hide(&key),
            None => Ok(()),
        }
    }

    /// Whether the newest version of a key that leads to nothing is an object.
    fn would_show(&self, key: &Key) -> Result<bool> {
        Ok(self.tree().newest(key)?.is_some_and(|newest| !newest.is_marker()))
    }

    fn hide(&mut self, key: &Key) -> Result<()> {
        if self.tree().find(key)?.is_some() || !self.would_show(key)? {
            return Ok(());
        }
        // Where versions are not kept any more the marker is the version `null`, of which there is one.
        self.replace_null(key)?;
        if !self.would_show(key)? {
            return Ok(());
        }
        let null = self.bucket.versioning() == VersioningState::Suspended;
        let order = self.new_version()?;
        self.put_version(key, order, Version { ino: 0, created: self.now.0, null, present: true });
        Ok(())
    }
}

/// Whether nothing was ever written to a file, by a mount or by S3.
fn is_untouched(inode: &Inode) -> bool {
    inode.size == 0 && inode.generation == 0 && inode.object.as_ref().is_none_or(|object| object.etag.is_empty())
}
