//! Maintenance of a store as an operator does it: check and repair, scrub, backup and restore.

mod backup;
mod check;
mod hostile;
mod killed;
mod scrub;
mod tree;

use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::*;

/// The largest content file of a store.
fn largest(server: &Server) -> PathBuf {
    let mut files = Vec::new();
    files_below(&server.home().data_dir().join("content/blobs"), &mut files);
    files.into_iter().max_by_key(|path| std::fs::metadata(path).map_or(0, |found| found.len())).expect("a file")
}

fn files_below(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { files_below(&path, files) } else { files.push(path) }
    }
}

/// Flips a bit of a file.
fn flip(path: &Path, at: u64) {
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).expect("opened");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("read");
    file.write_all_at(&[byte[0] ^ 4], at).expect("written");
}

fn data_dir(server: &Server) -> String {
    server.home().data_dir().to_str().expect("a path of ours").to_owned()
}

/// The JSON that a command printed, with its exit status.
fn printed(server: &Server, args: &[&str]) -> (Option<i32>, Value) {
    let outcome = cli::cli(server, &[args, &["--output", "json"]].concat());
    let value = serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {outcome}"));
    (outcome.status.code(), value)
}

fn count(value: &Value) -> usize {
    value.as_array().map_or(0, Vec::len)
}
