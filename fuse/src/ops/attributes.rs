//! Attributes of inodes, and the free space of the volume.
//!
//! - The kernel leaves clearing setuid and setgid to the server (HANDLE_KILLPRIV_V2): on chown for every caller; on
//!   truncate, write and fallocate for callers without CAP_FSETID.
//! - The kernel sends a SETATTR without attributes before a content change that has to clear these bits, and for a
//!   chown(2) that changes neither owner nor group. The bits are cleared then. If the caller neither owns nor may write
//!   the file, the call can only be such a chown(2), and nothing is changed.
//! - The kernel sends the same SETATTR before root writes a file with capabilities, after it removed those. A file that
//!   has both loses setuid too.

use objstore_base::clock::Timestamp;
use objstore_files::{Attr, Kind, SetAttr, Space};

use crate::caller::Caller;
use crate::errno::{self, Result};
use crate::fs::Fs;

/// The setuid bit.
const SETUID: u32 = 0o4000;
/// The setgid bit.
const SETGID: u32 = 0o2000;

/// A time to set.
#[derive(Clone, Copy, Debug)]
pub(crate) enum When {
    /// The server's current time (UTIME_NOW).
    Now,
    /// A given time.
    At(Timestamp),
}

/// The attributes that a request sets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    pub atime: Option<When>,
    pub mtime: Option<When>,
    /// The request clears setuid and setgid: it is a chown, or a change of size by a caller without CAP_FSETID.
    pub kill_privileges: bool,
}

impl Wanted {
    fn is_empty(&self) -> bool {
        let owner = self.uid.or(self.gid).is_some();
        let times = self.atime.or(self.mtime).is_some();
        !owner && !times && self.mode.is_none() && self.size.is_none()
    }
}

impl Fs<'_> {
    /// The attributes of a node.
    pub fn attr(&self, node: u64) -> Result<Attr> {
        let found = self.files.attr(self.view.ino(node));
        found.map(|attr| self.view.show(attr)).map_err(|error| errno::of(&error))
    }

    /// Sets attributes and returns all attributes after the change.
    pub fn set_attr(&self, node: u64, wanted: Wanted, caller: Caller) -> Result<Attr> {
        let ino = self.view.ino(node);
        let (uid, gid) = (self.view.new_owner(wanted.uid)?, self.view.new_group(wanted.gid)?);
        let held = if wanted.kill_privileges || wanted.is_empty() { Some(self.attr(node)?) } else { None };
        let held = held.filter(|attr| attr.kind != Kind::Directory);
        if let Some(attr) = held.filter(|attr| !wanted.kill_privileges && !owns_or_writes(caller, attr))
            && is_privileged(&attr, caller)
        {
            return Ok(attr);
        }
        let held = held.filter(|attr| wanted.kill_privileges || owns_or_writes(caller, attr));
        let set = SetAttr {
            mode: wanted.mode.map(|mode| mode & 0o7777),
            uid,
            gid,
            size: wanted.size,
            atime: wanted.atime.map(|when| self.time(when)),
            mtime: wanted.mtime.map(|when| self.time(when)),
            touches: ![wanted.atime, wanted.mtime].iter().any(|when| matches!(when, Some(When::At(_)))),
            kill_privileges: held.is_some(),
            outsider: held.is_some_and(|attr| attr.mode & SETGID != 0 && caller.is_outside(attr.gid)),
        };
        self.files.set_attr(ino, set).map(|attr| self.view.show(attr)).map_err(|error| errno::of(&error))
    }

    fn time(&self, when: When) -> Timestamp {
        match when {
            When::Now => self.clock.now(),
            When::At(time) => time,
        }
    }

    /// Whether a file has setuid, setgid or capabilities that a change of its content removes.
    pub(super) fn is_privileged(&self, ino: u64) -> bool {
        self.files.attr(ino).is_ok_and(|attr| attr.kind == Kind::File && attr.mode & 0o6000 != 0)
    }

    /// Clears setuid and setgid of a file whose content changed.
    pub(super) fn kill_privileges(&self, ino: u64) -> Result<()> {
        self.files.lose_privileges(ino, true).map_err(|error| errno::of(&error))
    }

    /// Syncs everything that was written to the volume.
    pub fn sync_volume(&self) -> Result<()> {
        self.files.sync_volume().map_err(|error| errno::of_sync(&error))
    }

    /// The space of the volume.
    pub fn space(&self) -> Result<Space> {
        self.files.space().map_err(|error| errno::of(&error))
    }
}

/// Whether a file has setuid, or a setgid that a change by `caller` clears.
fn is_privileged(attr: &Attr, caller: Caller) -> bool {
    let takes_setgid = attr.mode & 0o010 != 0 || caller.is_outside(attr.gid);
    attr.mode & SETUID != 0 || (attr.mode & SETGID != 0 && takes_setgid)
}

/// Whether the caller could clear setuid and setgid of a file: by its mode, it owns the file or may write it.
fn owns_or_writes(caller: Caller, attr: &Attr) -> bool {
    let writes = if caller.is_outside(attr.gid) { 0o002 } else { 0o020 };
    caller.keeps_privileges() || caller.is_user(attr.uid) || attr.mode & writes != 0
}
