//! The volume: a bucket as a mount uses it, by inode numbers, with one session per mount.
//!
//! - A change is in the store when the call returns: it survives the death of the process, and is on disk after
//!   [`Volume::sync`] or within 5 s.
//! - An inode that the kernel knows is referenced: if it is unlinked or replaced, it stays until the last reference is
//!   dropped.
//! - A session may outlive the server: the next one takes it over with everything its kernel holds (`persistent`,
//!   `holds`), and serves the requests in progress without executing one twice (`replay`).
//! - A session on a snapshot refuses every change.
//! - A mount on another machine has a session that its node opens and resumes (`remote`).
//! - In a bucket with versioning a change of content begins a version (see `writers` and `tree/written.rs`).

mod access_check;
mod acl;
mod allocate;
mod attributes;
mod backing;
mod closing;
mod copy_range;
mod dirty;
mod flags;
mod holds;
mod in_place;
mod listing;
mod locks;
mod many;
mod nameless;
mod names;
mod object_attributes;
mod path;
mod persistent;
mod read;
mod remote;
pub(crate) mod replay;
mod reserve;
mod service;
mod session;
pub mod types;
mod write;
mod writers;
mod xattr;

pub use backing::Backing;

pub use crate::feed::Feed;
pub use crate::session_id::SessionId;
pub(crate) use persistent::forget_owed;
pub(crate) use remote::resume_all;
pub use remote::{Barrier, OpenRemote, QueuedCall, RemoteAbout, RemoteSession, SlotCall, VolumeLease};
pub(crate) use session::Session;
pub use session::{Volume, VolumeOptions};
pub use types::*;
