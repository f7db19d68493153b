//! The FUSE protocol, as Linux speaks it: requests to typed values, answers and notices to bytes, and the threads that
//! carry them. It knows nothing of the store or of what a request means.
//!
//! - Versions 7.31 (Linux 5.4) to 7.45 are spoken; what a newer kernel adds is used only where the INIT agreed on it.
//! - Bytes of a request are never trusted to be whole: what does not parse is answered with EIO, and nothing panics.
//! - All threads share one descriptor of the device. Cloned ones (FUSE_DEV_IOC_CLONE) would each own the requests taken
//!   from them, and the kernel fails those when the process dies; the requests of a shared descriptor that somebody else
//!   holds open can be asked for again (RESEND).

mod abi;
mod awake;
mod backing;
mod crew;
mod device;
mod dirent;
mod fields;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzed;
mod idle;
mod init;
mod notify;
mod operation;
mod pace;
mod refusing;
mod reply;
mod request;
mod session;

pub(crate) use abi::Feature;
pub use awake::keep_processors_awake;
pub(crate) use backing::{close_backing, open_backing};
pub(crate) use device::Device;
pub(crate) use dirent::{Listing, Name};
pub(crate) use init::{Agreement, Features, Hello, Limits};
pub(crate) use notify::{Notice, message, notify, told};
pub(crate) use operation::{CopyRange, New, Operation, ReadDir, SetAttr, Time, When, Write};
pub(crate) use refusing::refuse_all;
pub(crate) use reply::{Attributes, Entry, Frame, OpenReply, SpaceReply, Statx};
pub(crate) use request::{Context, Request};
pub(crate) use session::{Pause, Reply, Running, Service, Session};
