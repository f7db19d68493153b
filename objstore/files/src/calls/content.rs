//! Operations of file content.

use bytes::Bytes;

use super::operations::operations;
use crate::content::{Allocate, Spot};

operations! {
    /// Operations of file content. A call reads or writes at most [`DATA_BYTES_MAX`](crate::DATA_BYTES_MAX) bytes.
    #[derive(Copy)]
    ContentOp {
        /// Reads up to `len` bytes, fewer only at the end of the file.
        [Read] read: Read {
            /// The file.
            ino: u64,
            /// Where.
            offset: u64,
            /// How many bytes.
            len: u32,
        } -> Bytes;

        /// Writes; the bytes are in the store when it returns. If it clears privileges, the session's own changes report
        /// it.
        ///
        /// # Errors
        /// EPERM if the flags forbid it; see [`set_flags`](crate::Files::set_flags).
        [Set] write: Write {
            /// The file.
            ino: u64,
            /// Where.
            offset: u64,
            /// As in [`SetAttr`](crate::SetAttr).
            kill_privileges: bool,
        } + data -> ();

        /// Writes pages that a program changed through a mapping.
        ///
        /// # Errors
        /// EPERM for an append-only file. An immutable one was mapped before it became so, and what was stored until then
        /// is kept.
        [Set] write_back: WriteBack {
            /// The file.
            ino: u64,
            /// Where.
            offset: u64,
            /// As in [`SetAttr`](crate::SetAttr).
            kill_privileges: bool,
        } + data -> ();

        /// Appends at the end of the file; no other write can come between. Returns the new end.
        [Once] append: Append {
            /// The file.
            ino: u64,
        } + data -> u64;

        /// Has the session's own changes report a file's content, as if another client had changed it: an append landed
        /// elsewhere than the kernel assumed, so its cache is wrong.
        [Set] recall: Recall {
            /// The file.
            ino: u64,
        } -> ();

        /// The first byte of data (or of a hole) at or after `offset`; `None` past the end (lseek(2), SEEK_DATA).
        [Read] seek: Seek {
            /// The file.
            ino: u64,
            /// Where to begin.
            offset: u64,
            /// Whether to find data; otherwise a hole.
            data: bool,
        } -> Option<u64>;

        /// Reserves, punches or zeroes a range (fallocate(2)). Privileges are not cleared here: the kernel has that done
        /// before.
        [Set] allocate: Allocate {
            /// The file.
            ino: u64,
            /// How.
            how: Allocate,
            /// Where.
            offset: u64,
            /// How many bytes.
            len: u64,
        } -> ();

        /// Copies up to `len` bytes and returns how many: fewer at the end of the source, and beyond a limit of the service
        /// (copy_file_range(2)).
        ///
        /// # Errors
        /// EINVAL if one is not a regular file, or for overlapping ranges of one file.
        [Set] copy_range: CopyRange {
            /// The source.
            from: Spot,
            /// The target.
            to: Spot,
            /// How many bytes.
            len: u64,
        } -> u64;

        /// Syncs a file or directory (fsync(2)): content, attributes and names; with `data_only` possibly without its mtime
        /// (fdatasync(2)).
        [Set] sync: Sync {
            /// The file or directory.
            ino: u64,
            /// Whether the mtime may be left out.
            data_only: bool,
        } -> ();

        /// Syncs everything that this session and others wrote to the bucket, before a mount ends.
        [Set] sync_volume: SyncVolume {} -> ();
    }
}

impl ContentOp {
    /// The inodes that the operation names.
    pub fn inos(&self) -> [Option<u64>; 2] {
        match self {
            Self::Read { ino, .. }
            | Self::Write { ino, .. }
            | Self::WriteBack { ino, .. }
            | Self::Append { ino }
            | Self::Recall { ino }
            | Self::Seek { ino, .. }
            | Self::Allocate { ino, .. }
            | Self::Sync { ino, .. } => [Some(*ino), None],
            Self::CopyRange { from, to, .. } => [Some(from.ino), Some(to.ino)],
            Self::SyncVolume {} => [None, None],
        }
    }
}
