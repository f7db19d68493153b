//! The chattr(1) flags of a mount's files: reading, setting and enforcing them (ioctl_iflags(2)).
//!
//! - `tree/flags.rs` enforces them for names and S3; this module enforces them for content and attributes. The kernel
//!   checks who may set them (CAP_LINUX_IMMUTABLE).
//! - They take effect at once, even for open files: setting one ends the file's dirty state, so that each write checks
//!   again. Pages changed through a mapping before are still written back to an immutable file, which can no longer be
//!   opened or mapped for writing; to an append-only one they are not.
//! - Stores into a mapping of a passthrough blob do not pass here. While such a mapping may exist, setting flags is
//!   refused (EBUSY).
//!
//! The flags are in the inode's record: a crash leaves the old or the new ones.

use super::session::Volume;
use super::types::{Change, Flags};
use crate::content::sweep_mapped_writable;
use crate::error::{Posix, Result};
use crate::record::inode::{Inode, flag};
pub(super) use crate::tree::Touching;

fn flags_of(inode: &Inode) -> Flags {
    let has = |bit| inode.flags & bit != 0;
    Flags { immutable: has(flag::IMMUTABLE), append_only: has(flag::APPEND_ONLY), no_dump: has(flag::NO_DUMP) }
}

fn bits_of(flags: Flags) -> u32 {
    let bits =
        [(flags.immutable, flag::IMMUTABLE), (flags.append_only, flag::APPEND_ONLY), (flags.no_dump, flag::NO_DUMP)];
    bits.iter().filter(|(set, _)| *set).fold(0, |bits, (_, bit)| bits | bit)
}

impl Volume {
    /// The flags of an inode.
    pub fn flags(&self, ino: u64) -> Result<Flags> {
        self.reading(|tree| Ok(flags_of(&tree.dirty_inode(ino)?.1)))
    }

    /// Sets all flags of an inode.
    ///
    /// # Errors
    /// EPERM for other changes to an inode that stays immutable; EBUSY if a program may be storing into the file
    /// through a mapping that bypasses the server.
    pub fn set_flags(&self, ino: u64, flags: Flags) -> Result<()> {
        self.refuse_write()?;
        let core = &self.0.core;
        let owner = (self.0.bucket, ino);
        let _gate = core.gates.write_in_place(self.0.bucket);
        let _alone = core.gates.reshape(self.0.bucket, ino);
        if (flags.immutable || flags.append_only) && core.passthrough.is_mapped_writable(owner) {
            sweep_mapped_writable(core)?;
            if core.passthrough.is_mapped_writable(owner) {
                return Err(Posix::InUse.into());
            }
        }
        self.change_last(move |tx| {
            tx.flush_final(ino)?;
            let mut inode = tx.own(ino)?;
            // An immutable file keeps its other flags, too, until it is no longer immutable.
            if inode.is_immutable() && flags.immutable && flags != flags_of(&inode) {
                return Err(Posix::NotPermitted.into());
            }
            inode.flags = bits_of(flags);
            inode.ctime = tx.now.0;
            tx.save(ino, &inode);
            tx.tell(Change::Attributes { ino });
            Ok(())
        })
    }

    /// Refuses to open a file for writing that its flags protect; an append-only one can be opened for appending.
    ///
    /// # Errors
    /// EPERM
    pub fn check_open(&self, ino: u64, appends: bool) -> Result<()> {
        self.refuse_fixed(ino, if appends { Touching::Adds } else { Touching::Changes })
    }

    /// Refuses a change that the flags of an inode forbid.
    pub(super) fn refuse_fixed(&self, ino: u64, what: Touching) -> Result<()> {
        self.reading(|tree| tree.dirty_inode(ino)?.1.refuse_fixed(what))
    }
}
