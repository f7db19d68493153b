//! Access control of every endpoint: who gets access to what, and that refused requests change nothing.
//!
//! - `table` states for every S3 operation what it needs, written independently of the server's own table; `operations`
//!   tries each as every caller in `who`.
//! - After refused requests the state of all buckets is unchanged (`state`).
//! - `mounts` covers what a key opens as a mount; the sockets, the master key, secrets, paths and hostile input have
//!   their own files.

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
