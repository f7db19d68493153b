//! Directory entries: lookup, creation, links, renames and removal.
//!
//! - Each reply that carries attributes takes one inode reference in the store, and the kernel returns it with FORGET.
//!   So an inode that loses its last name stays readable for a program that has looked it up (a lookup may precede the
//!   open).

use std::ffi::OsStr;

use objstore_base::error::{Error, Posix};
use objstore_files::{Attr, Kind, Make, Rename, RenameMode};
use rustix::io::Errno;

use crate::caller::Caller;
use crate::errno::{self, Result};
use crate::fs::{Fs, name, text};
use crate::handles::is_writer;
use crate::opened::Opened;
use crate::passthrough::Asked;
use crate::view::New;

/// A file just created and opened.
pub(crate) struct Created {
    pub attr: Attr,
    pub opened: Opened,
}

/// Arguments of mknod(2).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Special {
    /// Type and permission bits.
    pub mode: u32,
    /// The bits that the caller's umask clears.
    pub umask: u32,
    /// The device number.
    pub rdev: u32,
}

impl Fs<'_> {
    /// Looks up a name; `None` is cached as an absent name. "." and ".." come from file handles (EXPORT_SUPPORT), which
    /// can name any inode of the bucket: where a directory is the mount's root, inodes outside it stay hidden.
    pub fn lookup(&self, parent: u64, wanted: &OsStr) -> Result<Option<Attr>> {
        let parent = self.view.ino(parent);
        if (wanted == "." || wanted == "..") && !self.view.is_whole() && !self.view.is_root(parent) {
            return Err(Errno::STALE);
        }
        if wanted == "." {
            return self.again(parent).map(Some);
        }
        if wanted == ".." {
            let above = self.above(parent)?;
            return self.again(above).map(Some);
        }
        match self.files.lookup(parent, name(wanted)?) {
            Ok(attr) => Ok(Some(self.view.show(attr))),
            Err(Error::Posix(Posix::NotFound)) => Ok(None),
            Err(error) => Err(errno::of(&error)),
        }
    }

    /// Takes a reference on an inode known by number. The root belongs to the session and needs none.
    fn again(&self, ino: u64) -> Result<Attr> {
        let found = if self.view.is_root(ino) { self.files.attr(ino) } else { self.files.pin(ino) };
        found.map(|attr| self.view.show(attr)).map_err(|error| errno::of(&error))
    }

    /// The parent of a directory; the root is its own parent.
    pub(super) fn above(&self, ino: u64) -> Result<u64> {
        if self.view.is_root(ino) {
            return Ok(ino);
        }
        self.files.parent(ino).map_err(|error| errno::of(&error))
    }

    /// Returns the references that lookups took.
    pub fn forget(&self, node: u64, lookups: u64) {
        let ino = self.view.ino(node);
        if !self.view.is_root(ino) {
            self.opens.forget(node);
            self.known.remove(node, lookups);
            if let Err(error) = self.files.forget(ino, lookups) {
                tracing::debug!(ino, %error, "cannot return inode references to the store; they end with the session");
            }
        }
    }

    /// Creates a directory.
    pub fn make_dir(&self, parent: u64, name: &OsStr, new: New, caller: Caller) -> Result<Option<Attr>> {
        self.make(parent, name, Make::Directory, new, caller).map(Some)
    }

    /// Creates a symbolic link.
    pub fn make_symlink(&self, parent: u64, new: &OsStr, target: &OsStr, caller: Caller) -> Result<Option<Attr>> {
        let target = text(target)?.to_owned();
        let how = New { mode: 0o777, umask: 0 };
        self.make(parent, new, Make::Symlink(target), how, caller).map(Some)
    }

    /// Creates a file, pipe, socket or device without opening it.
    pub fn make_node(&self, parent: u64, new: &OsStr, special: Special, caller: Caller) -> Result<Option<Attr>> {
        let what = match special.mode & libc::S_IFMT {
            libc::S_IFREG | 0 => Make::File,
            libc::S_IFIFO => Make::Special(Kind::Fifo, 0),
            libc::S_IFSOCK => Make::Special(Kind::Socket, 0),
            libc::S_IFCHR => Make::Special(Kind::CharDevice, special.rdev),
            libc::S_IFBLK => Make::Special(Kind::BlockDevice, special.rdev),
            _ => return Err(Errno::INVAL),
        };
        let how = New { mode: special.mode, umask: special.umask };
        self.make(parent, new, what, how, caller).map(Some)
    }

    /// Creates a file and opens it. The kernel asks only after it found the name absent. If another client created it
    /// in between, ESTALE makes the kernel look it up again and open it with a permission check, which returning the
    /// file here would skip.
    pub fn create(
        &self,
        parent: u64,
        new: &OsStr,
        how: New,
        flags: i32,
        caller: Caller,
        asked: Asked,
    ) -> Result<Created> {
        let made = if is_writer(flags) {
            let ownership = self.view.ownership(caller, how);
            let made = self.files.create(self.view.ino(parent), name(new)?, ownership);
            made.map(|attr| self.view.show(attr)).map_err(|error| errno::of(&error))
        } else {
            self.make(parent, new, Make::File, how, caller)
        };
        match made {
            Ok(attr) => Ok(Created { opened: self.opens.open_new(attr.ino, flags, asked)?, attr }),
            Err(Errno::EXIST) if flags & libc::O_EXCL == 0 => Err(Errno::STALE),
            Err(errno) => Err(errno),
        }
    }

    /// Creates a file without a name and opens it (open(2), O_TMPFILE). With O_EXCL it can never get a name.
    pub fn tmpfile(&self, parent: u64, how: New, flags: i32, caller: Caller, asked: Asked) -> Result<Created> {
        let ownership = self.view.ownership(caller, how);
        let linkable = flags & libc::O_EXCL == 0;
        let made = self.files.create_nameless(self.view.ino(parent), ownership, linkable);
        let attr = made.map(|attr| self.view.show(attr)).map_err(|error| errno::of(&error))?;
        Ok(Created { opened: self.opens.open_new(attr.ino, flags, asked)?, attr })
    }

    fn make(&self, parent: u64, new: &OsStr, what: Make, how: New, caller: Caller) -> Result<Attr> {
        let ownership = self.view.ownership(caller, how);
        let made = self.files.make(self.view.ino(parent), name(new)?, what, ownership);
        made.map(|attr| self.view.show(attr)).map_err(|error| errno::of(&error))
    }

    /// Links a file under a further name, or gives a file without a name its first.
    pub fn link(&self, node: u64, parent: u64, new: &OsStr) -> Result<Option<Attr>> {
        let linked = self.files.link(self.view.ino(node), self.view.ino(parent), name(new)?);
        linked.map(|attr| Some(self.view.show(attr))).map_err(|error| errno::of(&error))
    }

    /// Removes a name that is not a directory.
    pub fn unlink(&self, parent: u64, old: &OsStr) -> Result<()> {
        self.files.unlink(self.view.ino(parent), name(old)?).map_err(|error| errno::of(&error))
    }

    /// Removes an empty directory.
    pub fn remove_dir(&self, parent: u64, old: &OsStr) -> Result<()> {
        self.files.remove_dir(self.view.ino(parent), name(old)?).map_err(|error| errno::of(&error))
    }

    /// Renames as renameat2(2) with `flags`.
    pub fn rename(&self, from: (u64, &OsStr), to: (u64, &OsStr), flags: u32, caller: Caller) -> Result<()> {
        let replace = flags & libc::RENAME_NOREPLACE == 0;
        let mode = match flags & !libc::RENAME_NOREPLACE {
            0 if replace => RenameMode::Replace,
            0 => RenameMode::NoReplace,
            libc::RENAME_EXCHANGE if replace => RenameMode::Exchange,
            libc::RENAME_WHITEOUT => {
                RenameMode::Whiteout { owner: self.view.ownership(caller, New { mode: 0, umask: 0 }), replace }
            }
            _ => return Err(Errno::INVAL),
        };
        let rename = Rename {
            from_parent: self.view.ino(from.0),
            from_name: name(from.1)?.to_owned(),
            to_parent: self.view.ino(to.0),
            to_name: name(to.1)?.to_owned(),
            mode,
        };
        self.files.rename(rename).map_err(|error| errno::of(&error))
    }

    /// The target of a symbolic link.
    pub fn read_link(&self, node: u64) -> Result<String> {
        self.files.read_link(self.view.ino(node)).map_err(|error| errno::of(&error))
    }
}
