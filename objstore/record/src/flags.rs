//! Enforcement of the chattr(1) flags of an inode, for mounts and S3: a forbidden change fails with EPERM, which S3
//! reports as AccessDenied.
//!
//! - An immutable inode keeps content, attributes and names; an append-only one too, except for bytes appended at its
//!   end. An immutable directory keeps its names; an append-only one accepts new names and loses none.
//! - The flags belong to the current file: a version that ceases to be current loses them.

use objstore_base::error::{Posix, Result};

use crate::inode::{Inode, flag};

/// A kind of change of an inode that flags may forbid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touching {
    /// Appending bytes or reserving space; for a directory, adding a name.
    Adds,
    /// Anything else.
    Changes,
    /// Writing back pages of a mapping. An immutable file was opened and mapped before it became so, and what the
    /// program stored before is kept. An append-only one may be opened and mapped afterwards.
    WritesBack,
}

impl Inode {
    /// Refuses a change that its flags forbid.
    ///
    /// # Errors
    /// EPERM
    pub fn refuse_fixed(&self, what: Touching) -> Result<()> {
        let refused = match what {
            Touching::Adds => self.is_immutable(),
            Touching::Changes => self.is_fixed(),
            Touching::WritesBack => self.is_append_only(),
        };
        if refused { Err(Posix::NotPermitted.into()) } else { Ok(()) }
    }

    /// Inherits the flags that a new inode gets from its directory (ext4, EXT4_FL_INHERITED).
    pub fn inherit_flags(&mut self, dir: &Self) {
        self.flags |= dir.flags & flag::NO_DUMP;
    }
}
