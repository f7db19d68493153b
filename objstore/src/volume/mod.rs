//! A bucket as a mount uses it: by inode numbers, one session per mount.
//!
//! - A change is in the store when the call returns: it survives the death of the process, and is on disk after
//!   [`Volume::sync`] or within 5 s.
//! - An inode the kernel knows is pinned: unlinked or replaced, it stays until the last pin goes.
//! - A session on a snapshot refuses every change.
//! - In a bucket that keeps versions a change of content begins a version (see `writers` and `tree/written.rs`).

mod allocate;
mod attributes;
mod home;
mod names;
mod read;
mod session;
pub mod types;
mod warrant;
mod write;
mod writers;
mod xattr;

pub use crate::feed::Feed;
pub(crate) use session::Session;
pub use session::{Volume, VolumeOptions};
pub use types::*;
pub(crate) use writers::Writers;
