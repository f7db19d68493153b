//! A request for a mount: the bucket, the requester and the options.

use objstore::name::BucketName;
use serde::{Deserialize, Serialize};

use super::remote::Remote;

/// The prefix of the source in `/proc/mounts`; the bucket follows.
pub const SOURCE_PREFIX: &str = "amphora:";

/// What to mount, and how.
#[derive(Clone, Debug)]
pub struct Request {
    /// The bucket or snapshot.
    pub bucket: BucketName,
    /// Begin as a read-only mount. The kernel enforces it, and a remount may lift it.
    pub read_only: bool,
    /// Have the store refuse changes even if the kernel allows them: the grant is read-only, or CSI requested it.
    pub fixed_read_only: bool,
    /// The directory of the bucket to show; empty for all.
    pub prefix: String,
    /// Presentation of files, and caching.
    pub look: Look,
    /// The account whose grant opens the bucket; the mount loses access with the grant. `None`: the administrator.
    pub account: Option<String>,
    /// The access key that identified the account, if there was one.
    pub access_key_id: Option<String>,
    /// The requester.
    pub origin: Origin,
    /// Mount again at the start of a server if the mount is missing.
    pub keep: bool,
    /// The store on another machine that has the bucket; `None`: the store of this process.
    pub remote: Option<Remote>,
}

/// Presentation of files, and caching in the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Look {
    /// Show all files as owned by this user.
    pub uid: Option<u32>,
    /// Show all files with this group.
    pub gid: Option<u32>,
    /// Let the group read and write what its group may use at all.
    #[serde(default)]
    pub group_access: bool,
    /// Permission bits to hide, 0 to 0o777.
    pub umask: u32,
    /// The kernel's readahead in bytes; `None`: the largest.
    pub readahead_bytes: Option<u32>,
    /// Do not cache file content in the kernel.
    pub uncached: bool,
    /// Execute no programs from it.
    #[serde(default)]
    pub no_exec: bool,
    /// The SELinux context of every file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// Leave file locks to the kernel of this machine, which excludes programs on this mount alone.
    #[serde(default)]
    pub node_locks: bool,
}

/// The requester of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// `amphora mount`.
    Admin,
    /// CSI NodeStageVolume.
    Csi,
}

impl Look {
    /// The options in the form of `amphora mount -o`.
    pub(super) fn options(&self) -> Vec<String> {
        let mut options = Vec::new();
        options.extend(self.uid.map(|uid| format!("uid={uid}")));
        options.extend(self.gid.map(|gid| format!("gid={gid}")));
        options.extend((self.umask != 0).then(|| format!("umask={:o}", self.umask)));
        options.extend(self.readahead_bytes.map(|bytes| format!("readahead={bytes}")));
        options.extend(self.uncached.then(|| "cache=off".to_owned()));
        options.extend(self.no_exec.then(|| "noexec".to_owned()));
        options.extend(self.context.as_ref().map(|context| format!("context=\"{context}\"")));
        options.extend(self.node_locks.then(|| "locks=node".to_owned()));
        options
    }
}

impl Request {
    /// The options of the FUSE mount. `read_only`: whether the volume is read-only, regardless of the request.
    pub(super) fn options(&self, read_only: bool) -> fuse::Options {
        let defaults = fuse::Options::default();
        fuse::Options {
            read_only: self.read_only || read_only,
            uid: self.look.uid,
            gid: self.look.gid,
            group_access: self.look.group_access,
            umask: self.look.umask,
            readahead_bytes: self.look.readahead_bytes.unwrap_or(defaults.readahead_bytes),
            page_cache: !self.look.uncached,
            no_exec: self.look.no_exec,
            context: self.look.context.clone(),
            locks: if self.look.node_locks { fuse::Locks::Node } else { fuse::Locks::Store },
            fs_name: format!("{SOURCE_PREFIX}{}", self.bucket),
            // The running program, even if its file was replaced.
            notifier: Some("/proc/self/exe".into()),
            ..defaults
        }
    }
}
