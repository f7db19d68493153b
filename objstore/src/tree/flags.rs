//! Enforcement of the chattr(1) flags for mounts and S3: EPERM, which S3 reports as AccessDenied.
//!
//! - An immutable inode keeps content, attributes and names; an append-only one too, except for bytes appended at its
//!   end. An immutable directory keeps its names; an append-only one accepts new names and loses none.
//! - The flags belong to the current file: a version that ceases to be current loses them.

use crate::error::{Posix, Result};
use crate::record::inode::{Inode, flag};

use super::tx::Tx;

/// A change of an inode that flags may forbid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touching {
    /// It gets bytes at its end, or space; of a directory, a name.
    Adds,
    /// Anything else.
    Changes,
    /// Pages of a mapping are written back. A file that is immutable was opened and mapped before it became so: what the
    /// program stored by then is not lost. An append-only one may be opened and mapped afterwards.
    WritesBack,
}

impl Inode {
    /// Refuses what its flags forbid.
    ///
    /// # Errors
    /// EPERM
    pub(crate) fn refuse_fixed(&self, what: Touching) -> Result<()> {
        let refused = match what {
            Touching::Adds => self.is_immutable(),
            Touching::Changes => self.is_fixed(),
            Touching::WritesBack => self.is_append_only(),
        };
        if refused { Err(Posix::NotPermitted.into()) } else { Ok(()) }
    }

    /// Takes over the flags that what is made in a directory has from it (ext4, EXT4_FL_INHERITED).
    pub fn inherit_flags(&mut self, dir: &Self) {
        self.flags |= dir.flags & flag::NO_DUMP;
    }
}

impl Tx<'_> {
    /// Refuses to take a name from an inode whose flags keep it.
    pub fn refuse_unnaming(&self, ino: u64) -> Result<()> {
        self.tree().linked_inode(ino)?.1.refuse_fixed(Touching::Changes)
    }
}
