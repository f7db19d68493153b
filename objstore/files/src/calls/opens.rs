//! Operations of open files, and of inodes that the kernel holds since before a takeover.

use std::borrow::Cow;

use super::operations::operations;

operations! {
    /// Operations of open files.
    OpenOp<'a> {
        /// Refuses to open a file for writing that its flags protect; an append-only one can be opened for appending.
        ///
        /// # Errors
        /// EPERM
        [Read] check_open: CheckOpen {
            /// The file.
            ino: u64,
            /// Whether it is opened for appending.
            appends: bool,
        } -> ();

        /// Opens a file for writing: [`close_writer`](crate::Files::close_writer) has to follow.
        ///
        /// # Errors
        /// EPERM for a version under object lock; in a bucket with versioning, ESTALE for a file whose recorded name is
        /// gone: look it up again.
        [Count] open_writer: OpenWriter {
            /// The file.
            ino: u64,
        } -> ();

        /// Closes a file that was open for writing. The last close ends the open version: the bucket's default retention is
        /// counted from then.
        [Count] close_writer: CloseWriter {
            /// The file.
            ino: u64,
            /// Whether it was opened when another process served the session (see [`About::life`](crate::About::life)): its
            /// writer is then not counted.
            inherited: bool,
        } -> ();

        /// Records that a descriptor of a file open for writing is being closed, perhaps the last of `handle`. Called
        /// before close(2) returns; [`closed`](crate::Files::closed) follows later.
        [Count] closing: Closing {
            /// The file.
            ino: u64,
            /// The mount's number for the open file.
            handle: u64,
        } -> ();

        /// Records that the handle was released, and [`close_writer`](crate::Files::close_writer) called for it.
        [Count] closed: Closed {
            /// The file.
            ino: u64,
            /// The mount's number for the open file.
            handle: u64,
        } -> ();

        /// Whether the bucket has versioning, or had it.
        [Read] keeps_versions: KeepsVersions {} -> bool;

        /// Names the inodes that the kernel has had open since before the takeover. If the mount's grant is gone, then or
        /// later, their cached data is dropped. Called once [`FileService::changes`](crate::FileService::changes) is open,
        /// with at most [`INODES_MAX`](crate::INODES_MAX) inodes: several calls name any number of them.
        [Count] open_before: OpenBefore {
            /// The inodes.
            inos: Cow<'a, [u64]>,
        } -> ();

        /// The kernel's answer to [`Change::Probe`](crate::Change::Probe): whether it holds the inode. If it does not, the
        /// inode is collected unless another session holds it.
        [Count] probe_result: ProbeResult {
            /// The inode.
            ino: u64,
            /// Whether the kernel holds it.
            held: bool,
        } -> ();
    }
}

impl OpenOp<'_> {
    /// The inode that the operation names; of those that tell the store what a session holds, none.
    pub fn ino(&self) -> Option<u64> {
        match self {
            Self::CheckOpen { ino, .. }
            | Self::OpenWriter { ino }
            | Self::CloseWriter { ino, .. }
            | Self::Closing { ino, .. }
            | Self::Closed { ino, .. } => Some(*ino),
            Self::KeepsVersions {} | Self::OpenBefore { .. } | Self::ProbeResult { .. } => None,
        }
    }
}
