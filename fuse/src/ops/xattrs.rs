//! Extended attributes and POSIX ACLs.
//!
//! - The kernel checks permissions by the access ACL (POSIX_ACL), caches ACLs as long as attributes, and validates what
//!   programs set. `objstore` defines what the names mean.
//! - SELinux labels FUSE mounts as a whole, never single files. A file without a label is therefore answered with
//!   EOPNOTSUPP: `ls -l` and `cp -a` then do not ask for the next one, which would cost a request each.
//! - A mount that shows its own owners, groups or modes shows ACLs accordingly: see [`crate::view::View::show_acl`].

use std::ffi::OsStr;

use bytes::Bytes;
use objstore_base::acl::Acl;
use objstore_files::{SetAcl, WhichAcl, XattrMode};
use rustix::io::Errno;

use crate::caller::Caller;
use crate::errno::{self, Result};
use crate::fs::{Fs, text};

/// The attribute in which SELinux keeps a file's label.
const LABEL: &str = "security.selinux";

/// A value or list, or only its size if the caller asked with no room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fitted {
    Len(u32),
    Bytes(Bytes),
}

impl Fitted {
    fn fit(bytes: Bytes, room: u32) -> Result<Self> {
        let len = u32::try_from(bytes.len()).map_err(|_| Errno::TOOBIG)?;
        match room {
            0 => Ok(Self::Len(len)),
            room if len > room => Err(Errno::RANGE),
            _ => Ok(Self::Bytes(bytes)),
        }
    }
}

/// How to set an attribute.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SetXattr {
    /// The flags of setxattr(2).
    pub flags: i32,
    /// Clear setgid when an access ACL is set: the caller is not a member of the file's group.
    pub kill_setgid: bool,
}

impl Fs<'_> {
    /// The value of an attribute.
    pub fn xattr(&self, node: u64, name: &OsStr, room: u32) -> Result<Fitted> {
        let (ino, name) = (self.view.ino(node), text(name)?);
        let value = match WhichAcl::of_attribute(name) {
            Some(which) => self.acl(ino, which)?,
            None => self.files.xattr(ino, name).map_err(|error| absent(name, errno::of(&error)))?,
        };
        Fitted::fit(value, room)
    }

    fn acl(&self, ino: u64, which: WhichAcl) -> Result<Bytes> {
        let acl = self.files.acl(ino, which).map_err(|error| errno::of(&error))?;
        let shown = acl.map(|acl| self.view.show_acl(acl, which));
        shown.map(|acl| acl.bytes().into()).ok_or(Errno::NODATA)
    }

    /// All names, each ended by NUL. `trusted.` names are hidden from users who could not read them (xattr(7)).
    pub fn xattrs(&self, node: u64, room: u32, caller: Caller) -> Result<Fitted> {
        let names = self.files.xattrs(self.view.ino(node)).map_err(|error| errno::of(&error))?;
        let trusted = |name: &String| name.starts_with("trusted.");
        let hides = names.iter().any(trusted) && !caller.is_user(0);
        let shown = names.iter().filter(|name| !(hides && trusted(name)));
        let list: Vec<u8> = shown.flat_map(|name| name.bytes().chain([0])).collect();
        Fitted::fit(list.into(), room)
    }

    /// Sets an attribute.
    pub fn set_xattr(&self, node: u64, name: &OsStr, value: &[u8], how: SetXattr) -> Result<()> {
        let (ino, name) = (self.view.ino(node), text(name)?);
        if let Some(which) = WhichAcl::of_attribute(name) {
            return self.set_acl(ino, which, value, how.kill_setgid);
        }
        let mode = match how.flags {
            0 => XattrMode::Any,
            libc::XATTR_CREATE => XattrMode::Create,
            libc::XATTR_REPLACE => XattrMode::Replace,
            _ => return Err(Errno::INVAL),
        };
        self.files.set_xattr(ino, name, value, mode).map_err(|error| errno::of(&error))
    }

    /// Sets an ACL. Entries of a kind that the mount does not show cannot be set, as owners cannot.
    fn set_acl(&self, ino: u64, which: WhichAcl, value: &[u8], kill_setgid: bool) -> Result<()> {
        let hidden = self.view.hidden();
        let set = match Acl::parse(value).map_err(|error| errno::of(&error))? {
            None => self.files.remove_acl(ino, which),
            Some(acl) if acl.names(hidden) => return Err(Errno::PERM),
            Some(acl) => self.files.set_acl(ino, which, acl, SetAcl { kill_setgid, hidden }),
        };
        set.map_err(|error| errno::of(&error))
    }

    /// Removes an attribute.
    pub fn remove_xattr(&self, node: u64, name: &OsStr) -> Result<()> {
        self.files.remove_xattr(self.view.ino(node), text(name)?).map_err(|error| errno::of(&error))
    }
}

/// The error for an absent attribute.
fn absent(name: &str, errno: Errno) -> Errno {
    if name == LABEL && errno == Errno::NODATA { Errno::OPNOTSUPP } else { errno }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_label_is_one_that_no_file_has() {
        assert_eq!(absent(LABEL, Errno::NODATA), Errno::OPNOTSUPP);
        assert_eq!(absent(LABEL, Errno::STALE), Errno::STALE);
        assert_eq!(absent("security.capability", Errno::NODATA), Errno::NODATA);
    }

    #[test]
    fn answers_fit_the_room_they_are_given() {
        let value = Bytes::from_static(b"four");
        assert_eq!(Fitted::fit(value.clone(), 0), Ok(Fitted::Len(4)));
        assert_eq!(Fitted::fit(value.clone(), 3), Err(Errno::RANGE));
        assert_eq!(Fitted::fit(value.clone(), 4), Ok(Fitted::Bytes(value)));
    }
}
