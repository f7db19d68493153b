//! The cells of a session's lock file: what each change of its locks was, in 64 bytes.
//!
//! A cell lies within one page and is written by one call, which the death of the process does not split. It says on
//! which start of the machine it was written, and ends with a checksum.

use node_session::lock::{Kind, Mode, Range};
use objstore_files::LockOwner;

/// The size of a cell in bytes.
pub(super) const CELL_BYTES: usize = 64;

/// What the checksum covers.
const SUMMED_BYTES: usize = CELL_BYTES - 4;

/// A change of a session's locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    /// The first cell of a file that was written when the store was closed: what follows is on disk and complete.
    Closed,
    /// An owner locked a range, in place of what it had there (a mode), or unlocked it (none).
    Changed {
        /// The file.
        ino: u64,
        /// Which kind of lock.
        kind: Kind,
        /// Whose.
        by: LockOwner,
        /// What it covers.
        range: Range,
        /// What it allows to others; `None` if it was unlocked.
        mode: Option<Mode>,
    },
}

const CLOSED: u8 = 1;
const CHANGED: u8 = 2;

fn kind_byte(kind: Kind) -> u8 {
    match kind {
        Kind::Ranges => 1,
        Kind::Whole => 2,
    }
}

fn mode_byte(mode: Option<Mode>) -> u8 {
    match mode {
        None => 1,
        Some(Mode::Shared) => 2,
        Some(Mode::Exclusive) => 3,
    }
}

impl Cell {
    /// The cell as bytes: what it is, the machine's start, and the numbers of the change.
    pub fn encode(self, machine: u64) -> [u8; CELL_BYTES] {
        let mut bytes = [0; CELL_BYTES];
        let mut put = |at: usize, number: u64| bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
        put(8, machine);
        match self {
            Self::Closed => bytes[0] = CLOSED,
            Self::Changed { ino, kind, by, range, mode } => {
                let numbers = [ino, by.owner, by.handle, range.first(), range.last()];
                (16..).step_by(8).zip(numbers).for_each(|(at, number)| put(at, number));
                bytes[0..3].copy_from_slice(&[CHANGED, kind_byte(kind), mode_byte(mode)]);
                bytes[4..8].copy_from_slice(&by.pid.to_le_bytes());
            }
        }
        let sum = crc_fast::crc32_iscsi(&bytes[..SUMMED_BYTES]);
        bytes[SUMMED_BYTES..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The cell that bytes are, and the machine's start on which it was written; `None` if they are none.
    pub fn decode(bytes: &[u8]) -> Option<(Self, u64)> {
        let number = |at: usize| bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        let short = |at: usize| bytes.get(at..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
        if short(SUMMED_BYTES)? != crc_fast::crc32_iscsi(&bytes[..SUMMED_BYTES]) {
            return None;
        }
        let kind = [Kind::Ranges, Kind::Whole].into_iter().find(|kind| kind_byte(*kind) == bytes[1]);
        let modes = [None, Some(Mode::Shared), Some(Mode::Exclusive)];
        let mode = modes.into_iter().find(|mode| mode_byte(*mode) == bytes[2]);
        let cell = match bytes[0] {
            CLOSED => Self::Closed,
            CHANGED => Self::Changed {
                ino: number(16)?,
                kind: kind?,
                by: LockOwner { owner: number(24)?, handle: number(32)?, pid: short(4)? },
                range: Range::new(number(40)?, number(48)?)?,
                mode: mode?,
            },
            _ => return None,
        };
        Some((cell, number(8)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_read_as_they_were_written_and_changed_bytes_are_none() {
        let by = LockOwner { owner: u64::MAX, handle: 7, pid: 8 };
        let changed = |kind, mode| Cell::Changed { ino: 5, kind, by, range: Range::ALL, mode };
        let cells = [
            Cell::Closed,
            changed(Kind::Ranges, None),
            changed(Kind::Whole, Some(Mode::Shared)),
            changed(Kind::Ranges, Some(Mode::Exclusive)),
        ];
        for cell in cells {
            let bytes = cell.encode(u64::MAX - 1);
            assert_eq!(Cell::decode(&bytes), Some((cell, u64::MAX - 1)));
            for at in 0..CELL_BYTES {
                let mut other = bytes;
                other[at] ^= 0x10;
                assert_eq!(Cell::decode(&other), None, "byte {at}");
                assert_eq!(Cell::decode(&bytes[..at]), None);
            }
        }
        assert_eq!(Cell::decode(&[0; CELL_BYTES]), None);
    }
}
