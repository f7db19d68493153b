//! What mounts buckets, as the node service sees it.
//!
//! - All calls may block and are made on threads that may.
//! - Errors are the store's, so that each gets its code in one place.

use std::path::Path;

use objstore::Result;
use objstore::name::BucketName;
use serde::{Deserialize, Serialize};

/// How to mount a bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountOptions {
    /// Refuse all changes.
    pub read_only: bool,
    /// Show every file as owned by this user.
    pub uid: Option<u32>,
    /// Show every file as owned by this group.
    pub gid: Option<u32>,
    /// Permission bits to hide from the modes shown, 0 to 0o777.
    #[serde(default)]
    pub umask: u32,
    /// Make this folder of the bucket the root of the mount; empty is the whole bucket.
    pub prefix: String,
    /// The account whose key opened the bucket, by name; `None` if the driver opened a volume of its own.
    pub account: Option<String>,
    /// Its id, which no account of the same name has later; `None` in a record of an earlier version.
    #[serde(default)]
    pub account_id: Option<u64>,
}

/// What is mounted at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MountState {
    /// Nothing.
    NotMounted,
    /// This bucket, by a session of this process (or of a holder it is joined to) that answers, mounted for this node.
    Ours(BucketName),
    /// A mount of the type [`crate::FS_TYPE`] whose session is gone, or that this process does not serve and nobody
    /// answers for: to be detached.
    Stale,
    /// Something else, also a mount that this process made for its administrator: to be left alone.
    Other,
}

/// Mounts buckets.
pub trait Mounter: Send + Sync {
    /// Mounts `bucket` at the folder `at` and returns once the mount answers. The kernel lists it with the type
    /// [`crate::FS_TYPE`]. On an error nothing is mounted.
    fn mount(&self, bucket: &BucketName, at: &Path, options: &MountOptions) -> Result<()>;

    /// Ends the session at `at`, with what it wrote on disk, and detaches the mount, dead or alive. Where nothing is
    /// mounted there is nothing to do.
    fn unmount(&self, at: &Path) -> Result<()>;

    /// What is mounted at `at`, told without asking the file system there: its server may be dead or slow.
    /// [`objstore::disk::topmost_mount`] tells what the kernel knows.
    fn state(&self, at: &Path) -> Result<MountState>;

    /// Whether this process mounted a bucket at `at` for its administrator. It asks no file system.
    fn is_administrators(&self, at: &Path) -> bool;
}
