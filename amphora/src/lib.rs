//! The `amphora` program: the server with all its doors, and the command line that administers it.
//!
//! - `cli` parses and prints, `config` says what a server runs with, `serve` opens the doors and closes them.
//! - `admin` is the door of the command line; S3, COSI and CSI live in crates of their own.
//! - `audit` writes a line for each change that is asked for; `metrics` has the figures of `/metrics`.
//! - `holder` is the role that keeps mounts while no server runs, and how a server finds or starts one.
//! - `mounts` is where CSI, the admin service and FUSE meet; they do not know each other.

mod admin;
mod audit;
mod backups;
pub mod cli;
pub mod config;
pub mod credentials;
pub mod failure;
mod hints;
mod holder;
mod logs;
mod memory;
mod metrics;
mod mounts;
mod observed;
pub mod process;
mod serve;
mod stderr;
