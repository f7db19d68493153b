//! The `amphora` program: the server with all its endpoints, and the command line that administers it.
//!
//! - `cli` parses and prints, `config` holds a server's settings, `serve` opens and closes the endpoints.
//! - `node` runs mounts of stores on other machines; `endpoints` is what it has in common with `serve`.
//! - `admin` is the service behind the command line; S3, COSI and CSI are crates of their own.
//! - `audit` writes a line for each requested change; `metrics` has the values of `/metrics`.
//! - `holder` runs the fd holder, and finds or starts one for a server.
//! - `process` is the interface to other processes: the environment, systemd, and upgrades.
//! - `tls_pair` reads a certificate and its key again when they are renewed.
//! - `volumes` is the listener for mounts on other machines.
//! - `mounts` connects CSI, the admin service and FUSE, which do not know each other.

mod admin;
mod audit;
mod backups;
mod boot_clock;
pub mod cli;
pub mod config;
pub mod credentials;
mod endpoints;
pub mod failure;
mod hints;
mod holder;
mod logs;
mod memory;
mod metrics;
mod mounts;
mod node;
pub mod process;
mod serve;
mod stderr;
mod tls_pair;
mod volumes;
