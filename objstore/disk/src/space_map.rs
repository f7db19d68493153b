//! The ranges of a file that have space of their own, written or only reserved, as the file system reports them
//! (ioctl_fiemap, Linux `Documentation/filesystems/fiemap.rst`).
//!
//! - SEEK_HOLE is not sufficient: it reports space that is reserved and not written yet as a hole.
//! - Space that is shared with another file does not count: a write to it allocates more.

use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;

/// FS_IOC_FIEMAP: `_IOWR('f', 11, struct fiemap)`, whose header has 32 bytes.
const FS_IOC_FIEMAP: libc::Ioctl = 0xC020_660Bu32 as libc::Ioctl;
/// The flag of the last extent of a file.
const LAST: u32 = 0x1;
/// The flag of an extent whose space other files share.
const SHARED: u32 = 0x2000;
/// The number of extents asked for at a time.
const STEP: usize = 64;
/// A file with more extents than this is not examined.
const EXTENTS_MAX: usize = 64 << 10;

/// The kernel's `struct fiemap`, followed by its extents.
#[repr(C)]
struct Map {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    room: u32,
    reserved: u32,
    extents: [Extent; STEP],
}

/// The kernel's `struct fiemap_extent`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

/// The parts of a range for which a file has no space of its own, in order; `None` if the file system does not report
/// them.
pub(super) fn missing(file: &File, range: Range<u64>) -> Option<Vec<Range<u64>>> {
    let (mut missing, mut at) = (Vec::new(), range.start);
    for _ in 0..EXTENTS_MAX / STEP {
        if at >= range.end {
            return Some(missing);
        }
        let map = ask(file, at..range.end)?;
        let mapped = map.extents.get(..map.mapped as usize)?;
        for extent in mapped {
            let (from, to) = (extent.logical.max(at), extent.logical.saturating_add(extent.length).min(range.end));
            if from > at {
                missing.push(at..from.min(range.end));
            }
            if extent.flags & SHARED != 0 && from < to {
                missing.push(from..to);
            }
            at = at.max(to);
        }
        if mapped.len() < STEP || mapped.last().is_some_and(|extent| extent.flags & LAST != 0) {
            if at < range.end {
                missing.push(at..range.end);
            }
            return Some(missing);
        }
    }
    None
}

/// The parts of a range that are in none of the ranges of `missing`, in order.
pub(super) fn rest(missing: &[Range<u64>], range: Range<u64>) -> Vec<Range<u64>> {
    let (mut rest, mut at) = (Vec::new(), range.start);
    for none in missing.iter().filter(|none| none.end > range.start && none.start < range.end) {
        if none.start > at {
            rest.push(at..none.start);
        }
        at = at.max(none.end);
    }
    if at < range.end {
        rest.push(at..range.end);
    }
    rest
}

fn ask(file: &File, range: Range<u64>) -> Option<Map> {
    let mut map = Map {
        start: range.start,
        length: range.end - range.start,
        flags: 0,
        mapped: 0,
        room: STEP as u32,
        reserved: 0,
        extents: [Extent::default(); STEP],
    };
    // SAFETY: the descriptor is open as long as the file. The call writes to the map alone, which outlives the call and
    // has room for as many extents as `room` says; any bytes are values of its fields.
    let told = unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FIEMAP, &raw mut map) };
    (told == 0).then_some(map)
}

const _: () = assert!(size_of::<Extent>() == 56 && size_of::<Map>() == 32 + 56 * STEP);

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn reserved_space_is_told_from_holes() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4 << 20).unwrap();
        file.write_all_at(&[1; 4096], 1 << 20).unwrap();
        let reserve = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::KEEP_SIZE, 2 << 20, 3 << 20);
        let Some(found) = missing(&file, 0..6 << 20).filter(|_| reserve.is_ok()) else {
            return; // Not every file system knows the calls: tmpfs does not.
        };
        assert_eq!(found, [0..1 << 20, (1 << 20) + 4096..2 << 20, 5 << 20..6 << 20]);
        assert_eq!(missing(&file, 3 << 20..5 << 20), Some(Vec::new()));
        assert_eq!(missing(&file, 7 << 20..9 << 20).unwrap().first(), Some(&(7 << 20..9 << 20)));
    }

    #[test]
    fn the_rest_of_a_range_is_what_is_not_missing() {
        assert_eq!(rest(&[2..4, 6..9], 0..8), [0..2, 4..6]);
        assert_eq!(rest(&[2..4, 6..9], 3..12), [4..6, 9..12]);
        assert_eq!((rest(&[], 5..7).first(), rest(&[0..2, 4..9], 5..7).len()), (Some(&(5..7)), 0));
    }

    #[test]
    fn files_in_many_pieces_are_told_whole() {
        let file = tempfile::tempfile().unwrap();
        for piece in 0..200 {
            file.write_all_at(&[1; 4096], piece * 8192).unwrap();
        }
        let Some(found) = missing(&file, 0..200 * 8192) else { return };
        assert_eq!(found, (0..200).map(|piece| piece * 8192 + 4096..(piece + 1) * 8192).collect::<Vec<_>>());
    }
}
