//! Versions created by mounts in a bucket with versioning, and object lock for mounts.
//!
//! - Protection comes first: content under object lock is not changed, and its name is neither moved nor unlinked,
//!   whether the inode is the current version of its key or not. The one exception is a version that mounts of this
//!   process are writing, under the default retention that it got when it was begun or named (`volume/writers.rs`).
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
//!   another key (`rename`). So no key has a version twice, with any order number of the inode.

use super::lock::protection;
use super::read::{Found, Tree};
use super::tx::Tx;
use super::versions::{Noncurrent, order_of};
use crate::error::{Error, Posix, Result};
use crate::name::Key;
use crate::record::bucket::VersioningState;
use crate::record::inode::{Dirent, Inode, InodeKind, NONCURRENT, Retention, flag};
use crate::record::version::Version;

/// The relation of an inode that is about to be changed to its key.
enum KeyState {
    /// Not a version: the bucket has no versioning, or the file has no name.
    Free,
    /// The current version, under a name that the file has not recorded.
    Unnamed,
    /// The current version.
    Current,
    /// A noncurrent version.
    Retired(Key, Noncurrent),
}

impl Tree<'_> {
    /// Whether a file, in a bucket with versioning, has recorded its key, if it has one.
    pub fn knows_its_key(&self, ino: u64, inode: &Inode) -> Result<bool> {
        Ok(!matches!(self.standing(ino, inode)?, KeyState::Unnamed))
    }

    /// Whether an inode is a noncurrent version.
    pub fn is_noncurrent(&self, ino: u64) -> Result<bool> {
        let (_, inode) = self.dirty_inode(ino)?;
        Ok(matches!(self.standing(ino, &inode)?, KeyState::Retired(..)))
    }

    /// Whether the recorded name of an inode leads to it.
    pub fn is_current(&self, ino: u64, inode: &Inode) -> Result<bool> {
        Ok(self.dirent(inode.parent, &inode.name)?.is_some_and(|dirent| dirent.ino == ino))
    }

    fn standing(&self, ino: u64, inode: &Inode) -> Result<KeyState> {
        if inode.kind() != InodeKind::File || inode.nlink == 0 {
            return Ok(KeyState::Free);
        }
        if self.is_current(ino, inode)? {
            return Ok(KeyState::Current);
        }
        let key = match inode.parent {
            0 => None,
            NONCURRENT => Some(inode.name.parse()?),
            parent => match self.key_of(parent, &inode.name) {
                // The directory is gone, and the name with it.
                Err(Error::Posix(Posix::Stale)) => None,
                key => key?,
            },
        };
        let Some(key) = key else { return Ok(KeyState::Unnamed) };
        let found = self.noncurrent(&key, order_of(inode))?.filter(|found| found.version.ino == ino);
        Ok(found.map_or(KeyState::Unnamed, |found| KeyState::Retired(key, found)))
    }
}

impl Tx<'_> {
    fn standing(&self, ino: u64, inode: &Inode) -> Result<KeyState> {
        match self.bucket.versioning() {
            VersioningState::Disabled => Ok(KeyState::Free),
            VersioningState::Enabled | VersioningState::Suspended => self.tree().standing(ino, inode),
        }
    }

    /// Refuses to change protected content. A noncurrent version is not affected by a change: only if nothing but its
    /// record leads to the inode, no protected content changes.
    fn refuse_locked(&self, inode: &Inode, standing: &KeyState) -> Result<()> {
        match standing {
            KeyState::Retired(..) if inode.nlink == 1 => Ok(()),
            _ if inode.nlink == 0 => Ok(()),
            _ => self.refuse_protected(inode),
        }
    }

    /// The key of which an inode is the current version, in a bucket with versioning.
    pub fn key_written(&self, ino: u64, inode: &Inode) -> Result<Option<Key>> {
        match self.standing(ino, inode)? {
            KeyState::Current => self.tree().key_of(inode.parent, &inode.name),
            KeyState::Free | KeyState::Unnamed | KeyState::Retired(..) => Ok(None),
        }
    }

    /// Refuses a change of content that would change a protected or noncurrent version.
    ///
    /// # Errors
    /// EPERM for a protected one; [`Error::Busy`] for one that became noncurrent, or lost its recorded name: begin a
    /// version, then try again.
    pub fn check_changeable(&self, ino: u64, inode: &Inode) -> Result<()> {
        let standing = self.standing(ino, inode)?;
        let under_way = self.core.writers.is_at(self.bucket.id, ino, inode);
        match standing {
            KeyState::Current | KeyState::Unnamed if under_way => Ok(()),
            KeyState::Free | KeyState::Current => self.refuse_locked(inode, &standing),
            KeyState::Unnamed | KeyState::Retired(..) => {
                Err(Error::Busy { what: "a file that was replaced while it was open".into() })
            }
        }
    }

    /// Refuses a change of attributes that S3 shows.
    ///
    /// # Errors
    /// EPERM if object lock protects the version, except for its current writers; [`Error::Busy`] if it is noncurrent.
    pub fn check_describable(&self, ino: u64) -> Result<()> {
        if self.bucket.versioning() == VersioningState::Disabled {
            return Ok(());
        }
        self.check_current(ino)?;
        let (_, inode) = self.tree().dirty_inode(ino)?;
        if inode.nlink == 0 || self.core.writers.is_at(self.bucket.id, ino, &inode) {
            return Ok(());
        }
        self.refuse_protected(&inode)
    }

    /// Refuses a change of a noncurrent version.
    ///
    /// # Errors
    /// [`Error::Busy`]: leave the version, then try again.
    pub fn check_current(&self, ino: u64) -> Result<()> {
        let (_, inode) = self.tree().dirty_inode(ino)?;
        match self.standing(ino, &inode)? {
            KeyState::Retired(..) => Err(Error::Busy { what: "a file that was replaced while it was open".into() }),
            KeyState::Free | KeyState::Unnamed | KeyState::Current => Ok(()),
        }
    }

    /// Keeps the existing content as a version, before content changes for the first time since the file was closed.
    ///
    /// The caller holds the inode's lock exclusively, so no write in place is in progress.
    ///
    /// # Errors
    /// EPERM for a protected version; ESTALE for a file whose recorded name is gone.
    pub fn begin_version(&mut self, ino: u64) -> Result<()> {
        let (_, inode) = self.tree().dirty_inode(ino)?;
        let standing = self.standing(ino, &inode)?;
        self.refuse_locked(&inode, &standing)?;
        match standing {
            KeyState::Free => Ok(()),
            KeyState::Unnamed => Err(Posix::Stale.into()),
            KeyState::Current => self.keep_current(ino, &inode),
            KeyState::Retired(key, found) => self.part_from_version(ino, &key, &found),
        }
    }

    /// Records the name under which a file was found, if the file has no valid recorded name.
    pub fn learn_name(&mut self, ino: u64, parent: u64, name: &str) -> Result<()> {
        let (_, inode) = self.tree().dirty_inode(ino)?;
        let tree = self.tree();
        let found = tree.dirent(parent, name)?.is_some_and(|dirent| dirent.ino == ino);
        if !found || !matches!(self.standing(ino, &inode)?, KeyState::Unnamed) {
            return Ok(());
        }
        let mut inode = self.own(ino)?;
        (inode.parent, inode.name) = (parent, name.to_owned());
        self.save(ino, &inode);
        Ok(())
    }

    /// The inode for a version of `key`, which its name has lost or is about to lose: the same inode, or a copy if
    /// other names lead to it.
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

    /// Records in a file that a mount holds, and that becomes noncurrent, the key of which it is a version: its
    /// directory may be moved or deleted.
    pub(super) fn retire_held(&mut self, key: &Key, ino: u64) -> Result<()> {
        if !self.core.inode_refs.may_be_held(self.bucket.id, ino) {
            return Ok(());
        }
        let mut inode = self.own(ino)?;
        if inode.nlink == 1 {
            (inode.parent, inode.name) = (NONCURRENT, key.to_string());
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

    /// Makes the inode another version, protected only by its initial retention.
    fn renew(&mut self, ino: u64, version: u64, retention: Option<Retention>) -> Result<()> {
        let mut inode = self.own(ino)?;
        let object = inode.object.get_or_insert_default();
        (object.version, object.retention, object.legal_hold) = (version, retention, false);
        inode.changed = self.now.0;
        self.save(ino, &inode);
        Ok(())
    }

    /// A new inode with content and attributes of another, without its parts and its in-place blob.
    fn copy_of(&mut self, ino: u64) -> Result<u64> {
        let (inode, shared) = self.share_content(ino)?;
        let copy = self.new_ino()?;
        let content = self.take_shared(copy, &shared)?;
        let mut kept = Inode { nlink: 1, content, reserved: 0, flags: inode.flags & flag::NO_DUMP, ..inode.clone() };
        // The space reserved past the end stays with the file.
        kept.take(inode.taken());
        // An entity tag made of inode and generation would differ in the copy.
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

    /// Moves a version that is still being written to a separate inode; the old inode continues without a name.
    fn part_from_version(&mut self, ino: u64, key: &Key, found: &Noncurrent) -> Result<()> {
        let copy = self.copy_of(ino)?;
        self.put_version(key, found.order, Version { ino: copy, ..found.version });
        self.renew(ino, 0, None)?;
        self.forget_name(ino)?;
        self.unlink_inode(ino)
    }

    /// Refuses to remove a name of a protected current version, open or not.
    pub fn check_movable(&self, found: &Found) -> Result<()> {
        if found.dirent.kind() != InodeKind::File {
            return Ok(());
        }
        let (_, inode) = self.tree().linked_inode(found.dirent.ino)?;
        self.refuse_protected(&inode)
    }

    /// Called when an inode has lost a name: keeps it as a version, or deletes it.
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

    /// Makes the file that just got a name the current version of that key.
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

    /// Writers of a file that got a name continue to write its version.
    pub(super) fn go_on(&mut self, ino: u64, named: &Inode) {
        let (core, bucket, named) = (self.core.clone(), self.bucket.id, named.clone());
        self.txn.after_commit(Box::new(move || core.writers.go_on(bucket, ino, &named)));
    }

    /// Adds a delete marker for a name that no longer leads to an object, so that its older versions stay hidden.
    pub fn hide_left(&mut self, parent: u64, name: &str) -> Result<()> {
        if self.bucket.versioning() == VersioningState::Disabled {
            return Ok(());
        }
        match self.tree().key_of(parent, name)? {
            Some(key) => self.hide(&key),
            None => Ok(()),
        }
    }

    /// Whether the newest version of a key without an object is an object.
    fn would_show(&self, key: &Key) -> Result<bool> {
        Ok(self.tree().newest(key)?.is_some_and(|newest| !newest.is_marker()))
    }

    fn hide(&mut self, key: &Key) -> Result<()> {
        if self.tree().find(key)?.is_some() || !self.would_show(key)? {
            return Ok(());
        }
        // With suspended versioning the marker is the version `null`, of which there is one.
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

/// Whether a file was never written, by a mount or by S3.
fn is_untouched(inode: &Inode) -> bool {
    inode.size == 0 && inode.generation == 0 && inode.object.as_ref().is_none_or(|object| object.etag.is_empty())
}
