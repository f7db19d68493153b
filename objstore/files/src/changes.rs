//! The stream of changes that other clients make: for each, a session drops the cached old state.

/// A change by another client, whose old state a mount may have cached.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// The name in the directory now leads to another inode, or to none.
    Entry {
        /// The directory.
        parent: u64,
        /// The name.
        name: String,
    },
    /// The inode's content and attributes changed.
    Content {
        /// The inode.
        ino: u64,
    },
    /// The inode's attributes changed.
    Attributes {
        /// The inode.
        ino: u64,
    },
    /// A question rather than a change: whether the kernel still holds the inode, which has no name any more.
    /// [`Files::probe_result`](crate::Files::probe_result) has to follow.
    Probe {
        /// The inode.
        ino: u64,
    },
    /// Everything may have changed: the session was cut off from its store for longer than its answers may be cached, or
    /// the store was restarted.
    All,
    /// A lock for which a request waited is held by its owner now ([`Files::lock`](crate::Files::lock)).
    LockGranted {
        /// The number of the request.
        ticket: u64,
    },
    /// The store takes back the exclusive lease of the volume, of this or an earlier number. A session acknowledges it when
    /// the store has executed everything that the session answered by itself, and answers nothing by itself from then on.
    Recall {
        /// The number of the grant.
        grant: u64,
    },
    /// Whether other sessions use the bucket from now on. Without it, a session assumes that others do.
    Sharing {
        /// Whether there are others.
        shared: bool,
    },
}

/// The changes by other clients (S3, other mounts), in commit order. Take a batch, drop the caches, then acknowledge:
/// an S3 write is answered only after that.
pub trait Changes: Send {
    /// Waits for changes; `None` once the stream is closed and all earlier changes were taken. A batch has at most
    /// [`CHANGES_MAX`] changes.
    fn next(&mut self) -> Option<Vec<Change>>;

    /// Acknowledges all batches taken so far.
    fn acknowledge(&mut self);

    /// Whether the stream ended because changes were lost: the session's caches may be wrong, and have to be dropped as a
    /// whole.
    fn is_lost(&self) -> bool;
}

/// The most changes in one batch: a session that leaves more unread is lost.
pub const CHANGES_MAX: usize = 256 << 10;
