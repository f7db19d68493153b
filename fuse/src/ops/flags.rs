//! Inode flags of chattr(1), read and set by ioctl(2) (ioctl_iflags(2), FS_IOC_FSGETXATTR(2const)).
//!
//! - The kernel has checked the caller: the owner, and CAP_LINUX_IMMUTABLE to change `i` or `a`. It does not enforce
//!   the flags, so the store refuses what they forbid.
//! - Flags that the store does not keep are refused, not ignored.

use bytes::Bytes;
use objstore_files::Flags;
use rustix::io::Errno;

use crate::errno::{self, Result};
use crate::fs::Fs;

/// Commands of ioctl(2) (linux/fs.h).
const GET_FLAGS: u32 = 0x8008_6601;
const SET_FLAGS: u32 = 0x4008_6602;
const GET_XFLAGS: u32 = 0x801c_581f;
const SET_XFLAGS: u32 = 0x401c_5820;

/// Access to one flag.
type Flag = fn(&mut Flags) -> &mut bool;

/// For each flag: its field, its bit in the older call and in the newer one.
const BITS: [(Flag, u32, u32); 3] = [
    (|flags| &mut flags.immutable, 0x10, 0x08),
    (|flags| &mut flags.append_only, 0x20, 0x10),
    (|flags| &mut flags.no_dump, 0x40, 0x80),
];

/// The size of struct fsxattr, whose first field has the flags.
const FSXATTR_BYTES: usize = 28;

/// An ioctl(2) on a file or directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ioctl<'a> {
    pub command: u32,
    /// The bytes that the caller passes.
    pub data: &'a [u8],
    /// The number of bytes that the caller accepts.
    pub room: usize,
}

impl Fs<'_> {
    /// Answers an ioctl(2) with exactly as many bytes as the caller accepts.
    pub fn ioctl(&self, node: u64, ioctl: Ioctl<'_>) -> Result<Bytes> {
        let ino = self.view.ino(node);
        match (ioctl.command, ioctl.room) {
            (GET_FLAGS, 4 | 8) => self.get_flags(ino, ioctl.room, false),
            (GET_XFLAGS, FSXATTR_BYTES) => self.get_flags(ino, ioctl.room, true),
            (SET_FLAGS, 0) => self.set_flags(ino, first_word(ioctl.data)?, false),
            (SET_XFLAGS, 0) if ioctl.data.len() == FSXATTR_BYTES => {
                // Extent sizes and projects are not kept; the number of extents is only ever read.
                let rest = ioctl.data[4..8].iter().chain(&ioctl.data[12..20]);
                if rest.into_iter().any(|byte| *byte != 0) {
                    return Err(Errno::OPNOTSUPP);
                }
                self.set_flags(ino, first_word(ioctl.data)?, true)
            }
            _ => Err(Errno::NOTTY),
        }
    }

    fn get_flags(&self, ino: u64, room: usize, newer: bool) -> Result<Bytes> {
        let flags = self.files.flags(ino).map_err(|error| errno::of(&error))?;
        let mut answer = vec![0; room];
        answer[..4].copy_from_slice(&bits(flags, newer).to_ne_bytes());
        Ok(answer.into())
    }

    fn set_flags(&self, ino: u64, bits: u32, newer: bool) -> Result<Bytes> {
        let flags = flags(bits, newer).ok_or(Errno::OPNOTSUPP)?;
        self.files.set_flags(ino, flags).map_err(|error| errno::of(&error))?;
        Ok(Bytes::new())
    }
}

fn first_word(data: &[u8]) -> Result<u32> {
    data.first_chunk().map(|word| u32::from_ne_bytes(*word)).ok_or(Errno::INVAL)
}

fn bits(mut flags: Flags, newer: bool) -> u32 {
    let mut bits = 0;
    for (flag, old, new) in BITS {
        if *flag(&mut flags) {
            bits |= if newer { new } else { old };
        }
    }
    bits
}

/// The flags that bits stand for; `None` if they contain unsupported ones.
fn flags(bits: u32, newer: bool) -> Option<Flags> {
    let (mut flags, mut left) = (Flags::default(), bits);
    for (flag, old, new) in BITS {
        let bit = if newer { new } else { old };
        *flag(&mut flags) = bits & bit != 0;
        left &= !bit;
    }
    (left == 0).then_some(flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_survive_their_bits_and_others_are_refused() {
        for number in 0..8 {
            let set = |bit| number & bit != 0;
            let kept = Flags { immutable: set(1), append_only: set(2), no_dump: set(4) };
            for newer in [false, true] {
                assert_eq!(flags(bits(kept, newer), newer), Some(kept));
            }
        }
        // FS_COMPR_FL and FS_EXTENT_FL; FS_XFLAG_PROJINHERIT.
        assert_eq!((flags(0x4, false), flags(0x8_0010, false), flags(0x200, true)), (None, None, None));
    }
}
