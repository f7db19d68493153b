//! Extended attributes.
//!
//! - `user.`, `security.` and `trusted.` are kept; `system.` (POSIX ACLs) is refused with EOPNOTSUPP, which programs
//!   take as "this filesystem has none".

use std::ffi::OsStr;

use bytes::Bytes;
use objstore::volume::XattrMode;
use rustix::io::Errno;

use crate::errno::{self, Result};
use crate::fs::{Fs, text};
use crate::view::Caller;

/// The answer to a request for a value or a list: the bytes, or how many there are for who asked with room for none.
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

impl Fs {
    /// The value of one.
    pub fn xattr(&self, node: u64, name: &OsStr, room: u32) -> Result<Fitted> {
        let value = self.volume.xattr(self.view.ino(node), kept(name)?).map_err(|error| errno::of(&error))?;
        Fitted::fit(value, room)
    }

    /// All names, each ended by NUL. `trusted.` is not shown to users who could not read it (xattr(7)).
    pub fn xattrs(&self, node: u64, room: u32, caller: Caller) -> Result<Fitted> {
        let names = self.volume.xattrs(self.view.ino(node)).map_err(|error| errno::of(&error))?;
        let shown = names.iter().filter(|name| caller.uid == 0 || !name.starts_with("trusted."));
        let list: Vec<u8> = shown.flat_map(|name| name.bytes().chain([0])).collect();
        Fitted::fit(list.into(), room)
    }

    /// Sets one, as setxattr(2) with `flags`.
    pub fn set_xattr(&self, node: u64, name: &OsStr, value: &[u8], flags: i32) -> Result<()> {
        let mode = match flags {
            0 => XattrMode::Any,
            libc::XATTR_CREATE => XattrMode::Create,
            libc::XATTR_REPLACE => XattrMode::Replace,
            _ => return Err(Errno::INVAL),
        };
        let set = self.volume.set_xattr(self.view.ino(node), kept(name)?, value, mode);
        set.map_err(|error| errno::of(&error))
    }

    /// Removes one.
    pub fn remove_xattr(&self, node: u64, name: &OsStr) -> Result<()> {
        let removed = self.volume.remove_xattr(self.view.ino(node), kept(name)?);
        removed.map_err(|error| errno::of(&error))
    }
}

/// The name of an attribute that is kept.
fn kept(name: &OsStr) -> Result<&str> {
    let name = text(name)?;
    let known = ["user.", "security.", "trusted."].iter().any(|prefix| name.starts_with(prefix));
    if known { Ok(name) } else { Err(Errno::OPNOTSUPP) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_fit_the_room_they_are_given() {
        let value = Bytes::from_static(b"four");
        assert_eq!(Fitted::fit(value.clone(), 0), Ok(Fitted::Len(4)));
        assert_eq!(Fitted::fit(value.clone(), 3), Err(Errno::RANGE));
        assert_eq!(Fitted::fit(value.clone(), 4), Ok(Fitted::Bytes(value)));
    }

    #[test]
    fn acls_are_not_kept() {
        assert_eq!(kept(OsStr::new("user.a")), Ok("user.a"));
        assert_eq!(kept(OsStr::new("system.posix_acl_access")), Err(Errno::OPNOTSUPP));
    }
}
