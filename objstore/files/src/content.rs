//! Positions in files, and the ways to allocate a range.

/// The most bytes that one call reads or writes: the largest request of the kernel.
pub const DATA_BYTES_MAX: usize = 1 << 20;

/// The most bytes that a change writes which is answered before the store has made it.
pub const QUEUED_BYTES_MAX: usize = 128 << 10;

/// A position in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The file.
    pub ino: u64,
    /// The byte offset.
    pub offset: u64,
}

/// How to allocate (fallocate(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocate {
    /// Reserve; grow the file if the range passes its end.
    Extend,
    /// Reserve; never change the size (FALLOC_FL_KEEP_SIZE).
    KeepSize,
    /// Make the range read as zeros, the size unchanged (FALLOC_FL_PUNCH_HOLE).
    PunchHole,
    /// Make the range read as zeros and grow the file if it passes its end (FALLOC_FL_ZERO_RANGE).
    ZeroRange,
    /// Make the range read as zeros, the size unchanged (FALLOC_FL_ZERO_RANGE with FALLOC_FL_KEEP_SIZE).
    ZeroRangeKeepSize,
}
