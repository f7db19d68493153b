//! Access control of every endpoint: who gets access to what, and that refused requests change nothing.
//!
//! - `table` states for every S3 operation what it needs, written independently of the server's own table; `operations`
//!   tries each as every caller in `callers`.
//! - After refused requests the state of all buckets is unchanged (`state`).
//! - `mounts` covers what a key opens as a mount; the sockets, the master key, secrets, paths and hostile input have
//!   their own files.

mod callers;
mod foreign_resources;
mod forms;
mod hostile;
mod master;
mod mount_scope;
mod mounts;
mod operations;
mod paths;
mod process;
mod secrets;
mod sockets;
mod state;
mod table;
mod unauthorized;

pub use sockets::as_nobody;
