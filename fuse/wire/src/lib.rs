//! The FUSE protocol as Linux speaks it: decodes requests into typed values, encodes replies and notices, and runs the
//! threads that carry them. It knows nothing of the store or of what a request means.
//!
//! - It speaks versions 7.31 (Linux 5.4) to 7.45. Features of newer kernels are used only where INIT agreed on them.
//! - A request is never trusted to be complete: one that does not parse is answered with EIO, and nothing panics.
//! - All threads share one descriptor of the device. Cloned descriptors (FUSE_DEV_IOC_CLONE) would each own the
//!   requests read from them, and the kernel fails those requests when the process dies. Requests of a shared
//!   descriptor that another process holds open can be asked for again (RESEND).

mod abi;
mod alarm;
mod awake;
mod backing;
mod device;
mod dirent;
mod fields;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzed;
mod idle;
mod init;
mod lock;
mod notify;
mod operation;
mod polling;
mod refusing;
mod reply;
mod request;
mod session;
mod stand_in;
mod workers;

pub use abi::{Feature, Features};
pub use awake::keep_processors_awake;
pub use backing::{close_backing, open_backing};
pub use device::Device;
pub use dirent::{Listing, Name};
pub use init::{Agreement, Hello, Limits};
pub use lock::{FileLock, LockReply, LockType};
pub use notify::{Notice, message, notify, told};
pub use operation::{CopyRange, New, Operation, ReadDir, SetAttr, Time, When, Write};
pub use refusing::refuse_all;
pub use reply::{Attributes, Entry, Frame, OpenReply, SpaceReply, Statx};
pub use request::{Context, Request};
pub use session::{LaterReply, Pause, Reply, Running, Service, Session};
pub use stand_in::{Left, StandIn};
