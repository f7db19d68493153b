//! How a volume is mounted.

use std::path::PathBuf;
use std::sync::Arc;

use objstore::clock::{Clock, SystemClock};

/// The most one request carries, in bytes.
pub(crate) const REQUEST_BYTES_MAX: u32 = 1 << 20;

/// The filesystem's type in `/proc/self/mountinfo` is `fuse.` and this.
pub(crate) const SUBTYPE: &str = "amphora";

/// How to mount a volume. `Options::default()` fits root mounting for everybody.
#[derive(Clone)]
pub struct Options {
    /// Refuse all changes with EROFS. A read-only volume is mounted so anyway.
    pub read_only: bool,
    /// Show every file as this user's, and make new files this user's.
    pub uid: Option<u32>,
    /// Show every file as this group's, and make new files this group's.
    pub gid: Option<u32>,
    /// Permission bits to hide from the modes shown, 0 to 0o777. What is stored stays as it is.
    pub umask: u32,
    /// Let other users than the one who mounts in; permissions are checked either way. Default: when root.
    pub allow_other: bool,
    /// Honour setuid programs and device files. Off by default: who may write the bucket could plant them.
    pub privileged_files: bool,
    /// Run no program from it. Read when it is mounted; a mount that is taken over stays as it is.
    pub no_exec: bool,
    /// What `/proc/self/mountinfo` and `df` show as the source, such as `amphora:bucket`.
    pub fs_name: String,
    /// How far the kernel reads ahead, in bytes, up to what one request carries (1 MiB).
    pub readahead_bytes: u32,
    /// Keep file content in the kernel's page cache. Without it each read(2) comes to the server; memory can be mapped
    /// all the same.
    pub page_cache: bool,
    /// Threads that take requests from the kernel; at least 2. Slow calls get further threads when all are busy.
    pub threads: usize,
    /// The program that gives the kernel notices of a mount which outlives this process, called with the argument
    /// [`NOTIFIER`](crate::NOTIFIER): it is to call [`run_notifier`](crate::run_notifier). Without one this process gives
    /// them, and killing it at the wrong moment leaves a process that cannot end.
    pub notifier: Option<PathBuf>,
    /// Tells the time for "set it to now".
    pub clock: Arc<dyn Clock>,
}

impl Default for Options {
    fn default() -> Self {
        let cpus = std::thread::available_parallelism().map_or(2, usize::from);
        Self {
            read_only: false,
            uid: None,
            gid: None,
            umask: 0,
            allow_other: rustix::process::geteuid().is_root(),
            privileged_files: false,
            no_exec: false,
            fs_name: SUBTYPE.to_owned(),
            readahead_bytes: REQUEST_BYTES_MAX,
            page_cache: true,
            threads: (cpus * 2).clamp(4, 16),
            notifier: None,
            clock: Arc::new(SystemClock),
        }
    }
}
