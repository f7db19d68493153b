//! The interface between the node service and the FUSE mounts.
//!
//! - All calls may block and are made on threads that may block.
//! - Errors are the store's, so that one place maps them to gRPC codes.

use std::path::Path;

use objstore::Result;
use objstore::name::BucketName;
use serde::{Deserialize, Serialize};

use crate::credentials::Credentials;

/// How to mount a bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountOptions {
    /// Refuse all changes. A store on another machine may refuse them although this is false: then the mount is
    /// read-only.
    pub read_only: bool,
    /// Show every file as owned by this user.
    pub uid: Option<u32>,
    /// Show every file as owned by this group.
    pub gid: Option<u32>,
    /// `gid` is that of a pod: it may read and write what its group may use at all.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub group_access: bool,
    /// Execute no programs from the mount.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_exec: bool,
    /// The SELinux context of every file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// Permission bits to hide from the modes shown, 0 to 0o777.
    #[serde(default)]
    pub umask: u32,
    /// The folder of the bucket that becomes the root of the mount; empty for the whole bucket.
    pub prefix: String,
    /// Cache no content of files in the kernel: each read and write asks the store.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub direct: bool,
    /// Leave file locks to the kernel of this node, which excludes programs on this mount alone. `None` in a record of an
    /// earlier version, whose mount has agreed on it with its kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_locks: Option<bool>,
    /// The account whose key opened the bucket, by name; `None` if the driver opened a volume that it created.
    pub account: Option<String>,
    /// The account's id, which a later account of the same name does not have; `None` in a record of an earlier
    /// version.
    #[serde(default)]
    pub account_id: Option<u64>,
    /// What the session is opened with at a store on another machine; `None` if the store is in this process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<Credentials>,
}

/// The state of a mount point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MountState {
    /// Nothing is mounted.
    NotMounted,
    /// A working mount of this bucket, served by this process for this node.
    Ours(BucketName),
    /// A mount of the type [`crate::FS_TYPE`] whose session has ended, or that neither this process nor another serves:
    /// it has to be detached.
    Stale,
    /// Something else, such as a mount that this process serves for its administrator: it must not be touched.
    Other,
}

/// Mounts buckets.
pub trait Mounter: Send + Sync {
    /// Mounts `bucket` at the folder `at`, and returns once the mount works. The kernel lists it with the type
    /// [`crate::FS_TYPE`]. After an error nothing is mounted.
    fn mount(&self, bucket: &BucketName, at: &Path, options: &MountOptions) -> Result<()>;

    /// Syncs and ends the session at `at`, and detaches the mount, dead or alive. If nothing is mounted, it succeeds. It
    /// also succeeds in bounded time if a store on another machine does not answer: that ends the session by itself.
    fn unmount(&self, at: &Path) -> Result<()>;

    /// The state of `at`, found without asking the file system there, whose server may be dead or slow.
    /// [`objstore::disk::topmost_mount`] has the kernel's view.
    fn state(&self, at: &Path) -> Result<MountState>;

    /// Whether this process serves a mount at `at` for its administrator. It asks no file system.
    fn is_administrators(&self, at: &Path) -> bool;
}
