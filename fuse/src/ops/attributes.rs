//! Attributes of inodes, and the space of the volume.
//!
//! - The kernel leaves taking setuid and setgid away to the server (HANDLE_KILLPRIV_V2): on chown for everybody, on
//!   truncate, write and fallocate for who lacks CAP_FSETID.

use objstore::clock::Timestamp;
use objstore::volume::{Attr, Kind, SetAttr, Space};

use crate::errno::{self, Result};
use crate::fs::Fs;
use crate::invalidate::Echo;
use crate::view::Caller;

/// A time to set.
#[derive(Clone, Copy, Debug)]
pub(crate) enum When {
    /// The time the server has (UTIME_NOW).
    Now,
    /// A given time.
    At(Timestamp),
}

/// The attributes a request sets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    pub atime: Option<When>,
    pub mtime: Option<When>,
}

impl Wanted {
    fn is_empty(&self) -> bool {
        let owner = self.uid.or(self.gid).is_some();
        let times = self.atime.or(self.mtime).is_some();
        !owner && !times && self.mode.is_none() && self.size.is_none()
    }
}

impl Fs {
    /// The attributes of a node.
    pub fn attr(&self, node: u64) -> Result<Attr> {
        let found = self.volume.attr(self.view.ino(node));
        found.map(|attr| self.view.show(attr)).map_err(|error| errno::of(&error))
    }

    /// Sets attributes and answers with all of them, as they are then.
    pub fn set_attr(&self, node: u64, wanted: Wanted, caller: Caller) -> Result<Attr> {
        let ino = self.view.ino(node);
        let owned = Wanted { uid: self.view.new_owner(wanted.uid)?, gid: self.view.new_group(wanted.gid)?, ..wanted };
        if owned.is_empty() {
            return self.attr(node);
        }
        let chown = owned.uid.or(owned.gid).is_some() && self.kind(ino)? != Kind::Directory;
        let truncate = owned.size.is_some() && !caller.keeps_privileges();
        let set = SetAttr {
            mode: owned.mode.map(|mode| mode & 0o7777),
            uid: owned.uid,
            gid: owned.gid,
            size: owned.size,
            atime: owned.atime.map(|when| self.time(when)),
            mtime: owned.mtime.map(|when| self.time(when)),
            kill_privileges: chown || truncate,
        };
        self.volume.set_attr(ino, set).map(|attr| self.view.show(attr)).map_err(|error| errno::of(&error))
    }

    fn kind(&self, ino: u64) -> Result<Kind> {
        self.volume.attr(ino).map(|attr| attr.kind).map_err(|error| errno::of(&error))
    }

    fn time(&self, when: When) -> Timestamp {
        match when {
            When::Now => self.clock.now(),
            When::At(time) => time,
        }
    }

    /// Whether a file has privileges that a change of its content takes away.
    pub(super) fn is_privileged(&self, ino: u64) -> bool {
        self.volume.attr(ino).is_ok_and(|attr| attr.kind == Kind::File && attr.mode & 0o6000 != 0)
    }

    /// Takes setuid and setgid from a file whose content changed, and has the kernel read its mode anew: it counts a
    /// change of content as one of size and times only.
    pub(super) fn kill_privileges(&self, ino: u64) -> Result<()> {
        let set = SetAttr { kill_privileges: true, ..SetAttr::default() };
        self.volume.set_attr(ino, set).map_err(|error| errno::of(&error))?;
        self.echo(Echo::Attributes(self.view.node(ino)));
        Ok(())
    }

    /// The space of the volume.
    pub fn space(&self) -> Result<Space> {
        self.volume.space().map_err(|error| errno::of(&error))
    }
}
