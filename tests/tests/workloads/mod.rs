//! Real programs on a mount: version control, compilers, databases, copies, and file system test suites.
//!
//! - Each runs briefly within `cargo verify`, and in full with `cargo verify --full workloads`.

mod archive;
mod build;
mod calls;
mod copy;
mod exerciser;
mod fsstress;
mod fsx;
mod git;
mod many;
mod pjdfstest;
mod postgres;
mod rocksdb;
mod sqlite;
mod storm;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use crate::support::*;

/// The bucket that [`mounted`] mounts.
const BUCKET: &str = "work";

/// A server with one mounted bucket, which all users can reach.
fn mounted() -> (Mounted, Server) {
    let server = Server::start();
    make_bucket(&server, BUCKET, &[]);
    let mount = Mounted::new(&server, BUCKET, "m");
    for dir in [server.home().path(), mount.path()] {
        std::fs::set_permissions(dir, Permissions::from_mode(0o755)).expect("a mode");
    }
    (mount, server)
}

/// A program that no package contains: an environment variable names it in a checkout.
fn checked_out(variable: &str, what: &str) -> Result<std::path::PathBuf, String> {
    let given = std::env::var_os(variable).map(std::path::PathBuf::from);
    let path = given
        .ok_or_else(|| format!("{what} comes from a checkout: name it in {variable} (docs/internals/testing.md)"))?;
    if path.exists() { Ok(path) } else { Err(format!("{variable} names {}, which is not there", path.display())) }
}
