//! A bucket as a Linux filesystem: the volume handle, over [`objstore::volume::Volume`], without libfuse.
//!
//! - [`mount`] mounts a volume and serves it from this process until [`Mount::unmount`]; [`mountpoint_state`] and
//!   [`unmount_path`] tell about and clear mountpoints, also those of a process that died.
//! - `adapter` alone knows `fuser`: it unpacks requests and packs replies. `fs` and `ops` hold what they mean.
//! - A node is a persistent inode number and an open file is a plain value, so nothing the kernel holds refers to
//!   state of this process, except the names of a directory that is being listed.
//! - What the kernel caches is valid for a day, and dropped the moment the store's feed reports a change by others
//!   (`invalidate`).

mod adapter;
mod crew;
mod errno;
mod error;
mod fs;
mod handles;
mod invalidate;
mod mount;
mod mountpoint;
mod ops;
mod options;
mod stats;
mod view;

pub use error::{Error, Result};
pub use mount::{Ended, Mount, mount};
pub use mountpoint::{MountpointState, mountpoint_state, unmount_path};
pub use options::Options;
pub use stats::{LATENCY_BOUNDS_US, OperationStats, StatsSnapshot};
