//! What is to be mounted, for whom, and how it looks.

use objstore::name::BucketName;
use serde::{Deserialize, Serialize};

/// What the source of a mount begins with in `/proc/mounts`; the bucket follows.
pub const SOURCE_PREFIX: &str = "amphora:";

/// What to mount, and how.
#[derive(Clone, Debug)]
pub struct Request {
    /// The bucket or snapshot.
    pub bucket: BucketName,
    /// Begin as a read-only mount. The kernel refuses changes, and a remount may have it take them.
    pub read_only: bool,
    /// Have the store refuse changes, whatever the kernel is told: the grant is for reading, or CSI asked for it.
    pub fixed_read_only: bool,
    /// Show only what is below this directory of the bucket; empty: all.
    pub prefix: String,
    /// How files look, and how the kernel handles them.
    pub look: Look,
    /// Whose grant opens it, by account: the mount ends with the grant. `None`: the administrator's.
    pub account: Option<String>,
    /// The key that account was found by, where there is one.
    pub access_key_id: Option<String>,
    /// Who wants it.
    pub origin: Origin,
    /// Make it again at the start of a server, if it is not there then.
    pub keep: bool,
}

/// How the files of a mount look, and how the kernel handles them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Look {
    /// Show all files as this user's.
    pub uid: Option<u32>,
    /// Show all files as this group's.
    pub gid: Option<u32>,
    /// Permission bits to hide, 0 to 0o777.
    pub umask: u32,
    /// How far the kernel reads ahead; `None`: as far as one request carries.
    pub readahead_bytes: Option<u32>,
    /// Leave file content out of the kernel's page cache.
    pub uncached: bool,
    /// Run no program from it.
    #[serde(default)]
    pub no_exec: bool,
}

/// Who a mount was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// `amphora mount`.
    Admin,
    /// CSI NodeStageVolume.
    Csi,
}

impl Look {
    /// The same as the options of `amphora mount -o`.
    pub(super) fn options(&self) -> Vec<String> {
        let mut options = Vec::new();
        options.extend(self.uid.map(|uid| format!("uid={uid}")));
        options.extend(self.gid.map(|gid| format!("gid={gid}")));
        options.extend((self.umask != 0).then(|| format!("umask={:o}", self.umask)));
        options.extend(self.readahead_bytes.map(|bytes| format!("readahead={bytes}")));
        options.extend(self.uncached.then(|| "cache=off".to_owned()));
        options.extend(self.no_exec.then(|| "noexec".to_owned()));
        options
    }
}

impl Request {
    /// The options of the mount itself. `read_only`: whether the volume is so, whatever was asked.
    pub(super) fn options(&self, read_only: bool) -> fuse::Options {
        let defaults = fuse::Options::default();
        fuse::Options {
            read_only: self.read_only || read_only,
            uid: self.look.uid,
            gid: self.look.gid,
            umask: self.look.umask,
            readahead_bytes: self.look.readahead_bytes.unwrap_or(defaults.readahead_bytes),
            page_cache: !self.look.uncached,
            no_exec: self.look.no_exec,
            fs_name: format!("{SOURCE_PREFIX}{}", self.bucket),
            // This very program, also where its file was replaced since.
            notifier: Some("/proc/self/exe".into()),
            ..defaults
        }
    }
}
