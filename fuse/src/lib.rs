//! A bucket as a Linux file system: mounts a [`FileSession`](objstore_files::FileSession) through FUSE, without libfuse.
//!
//! - [`mount`] mounts the files of a session and serves them from this process until [`Mount::unmount`].
//!   [`mountpoint_state`], [`unmount_path`] and [`abandon_path`] inspect and clear mount points, also those of a
//!   process that died.
//! - The crate `fuse-wire` speaks the FUSE protocol. `adapter` alone uses it: it unpacks requests and packs replies.
//!   `fs` and `ops` implement their meaning.
//! - A node is a persistent inode number and an open file is a plain value. So the kernel holds no reference to state
//!   of this process, except to the names of a directory that is being listed.
//! - [`mount_kept`] also deposits the mount with a [`holder`], and [`take_over`] continues it in another process. A
//!   [`Refusal`] answers a mount that cannot be taken over.
//! - What the kernel caches is valid for a day, names for seconds (`sharing`), and is dropped as soon as the store's feed
//!   reports a change by another client (`invalidate`).

mod adapter;
mod caller;
mod claim;
mod couriers;
mod errno;
mod error;
mod fs;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzed;
mod handles;
pub mod holder;
mod invalidate;
mod kernel_mount;
mod known;
mod locks;
mod mount;
mod mountpoint;
mod notifier;
mod opened;
mod ops;
mod options;
mod passthrough;
mod session;
mod shared_memory;
mod sharing;
mod stats;
mod unserved;
mod users;
mod view;

use fuse_wire as wire;

pub use adapter::keep_processors_awake;
pub use error::{Error, Result};
pub use mount::{Ended, Keep, Mount, mount, mount_kept, take_over};
pub use mountpoint::{
    Attachment, Mountinfo, MountpointState, abandon_path, mountpoint_state, unmount_idle_path, unmount_path,
};
pub use notifier::{NOTIFIER, run_notifier};
pub use options::{Locks, Options};
pub use stats::{LATENCY_BOUNDS_US, OperationStats, StatsSnapshot, WatchedCall};
pub use unserved::{Refusal, Unserved};
pub use users::User;
