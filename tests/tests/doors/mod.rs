//! The doors: who gets in where, and that those who do not change nothing.
//!
//! - `table` says of every S3 operation what it needs, written apart from the server's own table; `operations` tries each
//!   as everybody in `who`.
//! - After what was refused the state of all buckets is what it was (`state`).
//! - What a key opens as a mount is in `mounts`; the sockets, the master key, secrets, paths and hostile input have files
//!   of their own.

mod forms;
mod hostile;
mod master;
mod mounts;
mod operations;
mod others;
mod paths;
mod process;
mod reach;
mod secrets;
mod sockets;
mod state;
mod strangers;
mod table;
mod who;

pub use sockets::as_nobody;
