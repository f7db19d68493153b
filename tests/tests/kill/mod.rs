//! kill -9 of the server under load: what was acknowledged is there, what was not is old or new, never half.

mod mount;
mod objects;

use crate::support::Server;
use crate::support::cli::json;

/// Verifies the store as an operator would; the server is not running.
#[track_caller]
fn check(server: &Server) {
    let checked = json(server, &["check", server.home().data_dir().to_str().expect("a path of ours")]);
    assert_eq!(checked["clean"], true, "{checked}");
}
