//! What programs do on a mount: git, SQLite, `cp -a`, and the two tools that test filesystems.

mod copy;
mod fsx;
mod git;
mod pjdfstest;
mod sqlite;

use crate::support::*;

/// A server with the bucket `work`, mounted.
fn mounted() -> (Mounted, Server) {
    let server = Server::start();
    make_bucket(&server, "work", &[]);
    (Mounted::new(&server, "work", "m"), server)
}
