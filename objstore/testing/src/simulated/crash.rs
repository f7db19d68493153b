//! The effect of a power cut on unsynced changes.
//!
//! - Of each file: its size, holes and clones up to some moment, in their order, since file systems journal those. Of
//!   the written bytes, each sector as it was at its own moment: old, new, or of a write in between. The moments are
//!   chosen for each file: all at once, page by page or sector by sector.
//! - Bytes written to space that, as far as the disk knows, was not allocated yet, are lost with the allocation.
//! - The time of the last change is that of the last sync.
//! - Of each name: what it referred to at some moment since its folder was synced.
//! - Files are independent of each other and of names: any of them may be ahead.

use super::image::{Image, PAGE, SECTOR};
use crate::random::Choices;

/// An unsynced change of a file.
#[derive(Clone)]
pub(super) enum Change {
    /// The bytes at an offset.
    Write { offset: u64, data: bytes::Bytes },
    /// A new size.
    SetLen(u64),
    /// A new size, if the file is smaller.
    Extend(u64),
    /// Space reserved up to this offset, which may be beyond the end.
    Reserve(u64),
    /// A hole.
    Punch { offset: u64, len: u64 },
    /// The content of another file, which is on disk.
    Become(Image),
}

impl Change {
    /// Applies the change.
    pub(super) fn apply(&self, image: &mut Image) {
        match self {
            Self::Write { offset, data } => image.write(data, *offset),
            Self::SetLen(len) => image.set_len(*len),
            Self::Extend(len) => image.set_len(image.len().max(*len)),
            Self::Reserve(end) => image.reserve(*end),
            Self::Punch { offset, len } => image.punch(*offset, *len),
            Self::Become(other) => *image = other.clone(),
        }
    }

    /// The range of bytes that are stored in another place, or in none, after the change.
    fn moves(&self) -> Option<(u64, u64)> {
        match self {
            Self::SetLen(len) => Some((*len, u64::MAX)),
            Self::Punch { offset, len } => Some((*offset, offset.saturating_add(*len))),
            Self::Become(_) => Some((0, u64::MAX)),
            Self::Write { .. } | Self::Extend(_) | Self::Reserve(_) => None,
        }
    }
}

/// From which moment each byte of a file is.
enum Moments {
    /// All bytes are from the same moment.
    One(usize),
    /// Each piece of `bytes` bytes has its own moment, chosen by the seed out of so many.
    Each { bytes: u64, seed: u64, changes: usize },
}

impl Moments {
    fn draw(choices: &mut Choices, changes: usize) -> Self {
        match choices.below(6) {
            0 => Self::One(changes),
            1 => Self::One(0),
            2 => Self::One(choices.below(changes + 1)),
            3 | 4 => Self::Each { bytes: PAGE, seed: choices.below_u64(u64::MAX), changes },
            _ => Self::Each { bytes: SECTOR, seed: choices.below_u64(u64::MAX), changes },
        }
    }

    /// How many of the changes the byte at `offset` has seen.
    fn at(&self, offset: u64) -> usize {
        match self {
            Self::One(moment) => *moment,
            Self::Each { bytes, seed, changes } => {
                let mut own = Choices::with(seed.wrapping_add((offset / bytes).wrapping_mul(0xA076_1D64_78BD_642F)));
                // Mostly the first or the last moment: what lies between is soon overwritten.
                match own.below(3) {
                    0 => 0,
                    1 => *changes,
                    _ => own.below(changes + 1),
                }
            }
        }
    }

    fn grain(&self) -> u64 {
        match self {
            Self::One(_) => u64::MAX,
            Self::Each { bytes, .. } => *bytes,
        }
    }
}

/// What a crash leaves of a file: the content `synced` and a part of `changes`.
pub(super) fn file(synced: &Image, changes: &[Change], choices: &mut Choices) -> Image {
    let mut left = synced.clone();
    if changes.is_empty() {
        return left;
    }
    let kept = match choices.below(3) {
        0 => 0,
        1 => changes.len(),
        _ => choices.below(changes.len() + 1),
    };
    let moments = Moments::draw(choices, changes.len());
    let mut lost_space = Vec::new();
    for (index, change) in changes.iter().enumerate() {
        match change {
            Change::Write { offset, data } => {
                let end = offset + data.len() as u64;
                if index < kept {
                    left.set_len(left.len().max(end));
                } else if index == kept && left.len() < end && choices.once_in(2) {
                    let grown = left.len().max(*offset);
                    left.set_len(grown + choices.below_u64(end - grown + 1));
                }
                write(&mut left, (*offset, data), index, &moments, &lost_space);
            }
            _ if index < kept => change.apply(&mut left),
            _ => lost_space.extend(change.moves()),
        }
    }
    left
}

/// Writes the pieces that reached the disk.
fn write(left: &mut Image, (offset, data): (u64, &[u8]), index: usize, moments: &Moments, lost_space: &[(u64, u64)]) {
    let mut done = 0;
    while done < data.len() {
        let at = offset + done as u64;
        let grain = if lost_space.is_empty() { moments.grain() } else { moments.grain().min(SECTOR) };
        let room = if grain == u64::MAX { u64::MAX } else { grain - at % grain };
        let next = data.len().min(done.saturating_add(usize::try_from(room).unwrap_or(usize::MAX)));
        let end = offset + next as u64;
        let nowhere = lost_space.iter().any(|(from, to)| at < *to && *from < end);
        if moments.at(at) > index && !nowhere {
            left.write_within(&data[done..next], at);
        }
        done = next;
    }
}

/// What a crash leaves of a name: what it referred to when it was synced, or at any time since.
pub(super) fn name<T: Copy>(synced: Option<T>, since: &[Option<T>], choices: &mut Choices) -> Option<T> {
    match choices.below(3) {
        0 => synced,
        1 => since.last().copied().unwrap_or(synced),
        _ => {
            let moment = choices.below(since.len() + 1);
            if moment == 0 { synced } else { since[moment - 1] }
        }
    }
}
