//! Mounts in operation: what happens to them when grants, servers, holders and users change.
//!
//! - Separate processes access a mount, with a time limit: one that hangs fails its test.

mod another_machine;
mod away;
mod busy;
mod certificates;
mod closes;
mod grants;
mod keep_option;
mod operators;
mod remount;
mod swapped;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::support::cli::json;
use crate::support::*;

/// The time limit of a program that reads a mount, also on a busy machine.
const LOOK: Duration = Duration::from_secs(20);

const BUCKET: &str = "files";

/// A server with a holder and a bucket, and a folder to mount at.
fn served() -> (Server, PathBuf) {
    let server = Options::default().holder().start();
    make_bucket(&server, BUCKET, &[]);
    let dir = folder(&server, "m");
    (server, dir)
}

fn folder(server: &Server, name: &str) -> PathBuf {
    let dir = server.home().path().join(name);
    std::fs::create_dir(&dir).expect("a folder");
    dir
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of ours")
}

fn mount(server: &Server, dir: &Path, options: &[&str]) {
    json(server, &[&["mount", BUCKET, text(dir)], options].concat());
}

/// Runs a program that reads a mount; returns its output, or its error output.
#[track_caller]
fn look(words: &[&str]) -> Result<String, String> {
    let mut command = Command::new(words[0]);
    match run(command.args(&words[1..]).env("LC_ALL", "C"), LOOK) {
        Ok(outcome) if outcome.status.success() => Ok(outcome.stdout),
        Ok(outcome) => Err(outcome.stderr),
        Err(error) => panic!("{error}"),
    }
}

/// The entries that `status` lists under a name.
fn reported(server: &Server, name: &str) -> Vec<Value> {
    json(server, &["status"])[name].as_array().unwrap_or_else(|| panic!("no {name}")).clone()
}

fn is_reported(server: &Server, name: &str, dir: &Path) -> bool {
    reported(server, name).iter().any(|mount| mount["dir"] == text(dir))
}

fn is_mounted(dir: &Path) -> bool {
    let table = std::fs::read_to_string("/proc/self/mountinfo").expect("the table of mounts");
    table.lines().any(|line| line.split(' ').nth(4) == dir.to_str())
}

/// An account with a grant for the bucket, and a file with its key.
fn alice(server: &Server, mode: &str) -> (PathBuf, Credentials) {
    let key = cli::account(server, "alice");
    json(server, &["grant", "add", BUCKET, "--account", "alice", "--mode", mode]);
    let Credentials { access_key_id, secret_access_key } = &key;
    let lines =
        format!("[default]\naws_access_key_id = {access_key_id}\naws_secret_access_key = {secret_access_key}\n");
    let file = server.home().path().join("alice");
    std::fs::write(&file, lines).expect("a file");
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("a mode");
    (file, key)
}
