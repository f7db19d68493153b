//! Mount options of a volume.

use std::path::PathBuf;
use std::sync::Arc;

use objstore_base::clock::{Clock, SystemClock};

/// The most data in one request, in bytes.
pub(crate) const REQUEST_BYTES_MAX: u32 = 1 << 20;

/// The file system type in `/proc/self/mountinfo` is `fuse.` and this.
pub(crate) const SUBTYPE: &str = "amphora";

/// Who keeps the file locks of a mount. It is agreed with the kernel when the mount is made, and stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Locks {
    /// The store: programs on all mounts of the bucket exclude each other. Each close(2) is a request.
    #[default]
    Store,
    /// The kernel of this machine: programs on this mount exclude each other, and no others. close(2) asks nobody.
    Node,
}

/// How to mount a volume. `Options::default()` suits a mount by root for all users.
#[derive(Clone)]
pub struct Options {
    /// Refuse all changes with EROFS. A read-only volume is always mounted this way.
    pub read_only: bool,
    /// Show every file as owned by this user, and create new files for this user.
    pub uid: Option<u32>,
    /// Show every file with this group, and create new files with this group.
    pub gid: Option<u32>,
    /// Show files as readable and writable by their group, and as executable where they are for their owner; but not files
    /// that give their group nothing. The root is open to its group in any case. Stored modes do not change, and with
    /// [`Options::gid`] a change of group is stored and not shown.
    pub group_access: bool,
    /// Permission bits to hide from the modes shown, 0 to 0o777. Stored modes do not change.
    pub umask: u32,
    /// Admit users other than the mounting one; permissions are checked either way. Default: on for root.
    pub allow_other: bool,
    /// Honour setuid programs and device files. Off by default, because anyone who may write the bucket could plant
    /// them.
    pub privileged_files: bool,
    /// Execute no programs from the mount. It applies when the mount is made; a takeover does not change it.
    pub no_exec: bool,
    /// The SELinux context of every file, without quotes. The kernel takes it when the mount is made, and keeps it as long as the
    /// mount lives; one without SELinux refuses it.
    pub context: Option<String>,
    /// The source that `/proc/self/mountinfo` and `df` show, such as `amphora:bucket`.
    pub fs_name: String,
    /// The kernel's readahead in bytes, up to the largest request (1 MiB).
    pub readahead_bytes: u32,
    /// Keep file content in the kernel's page cache. Without it each read(2) becomes a request; files can be mapped all
    /// the same.
    pub page_cache: bool,
    /// Threads that wait for requests of the kernel; at least 2. When all are busy with slow calls, further threads
    /// start.
    pub threads: usize,
    /// Who keeps file locks, if the store can keep them.
    pub locks: Locks,
    /// The program that sends cache invalidations for a mount which outlives this process. It is called with the
    /// argument [`NOTIFIER`](crate::NOTIFIER) and has to call [`run_notifier`](crate::run_notifier). Without it this
    /// process sends them, and killing it at the wrong moment leaves a process that cannot end.
    pub notifier: Option<PathBuf>,
    /// The clock for timestamps set to the current time (UTIME_NOW).
    pub clock: Arc<dyn Clock>,
}

impl Default for Options {
    fn default() -> Self {
        let cpus = std::thread::available_parallelism().map_or(2, usize::from);
        Self {
            read_only: false,
            uid: None,
            gid: None,
            group_access: false,
            umask: 0,
            allow_other: rustix::process::geteuid().is_root(),
            privileged_files: false,
            no_exec: false,
            context: None,
            fs_name: SUBTYPE.to_owned(),
            readahead_bytes: REQUEST_BYTES_MAX,
            page_cache: true,
            threads: (cpus * 2).clamp(4, 16),
            locks: Locks::Store,
            notifier: None,
            clock: Arc::new(SystemClock),
        }
    }
}
