//! Backup repositories made by an attacker: refused at once, with bounded memory, and without leaving the folder.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::*;

/// The time limit of a command: one that waits for a FIFO, or reads a device to its end, would never return.
const LIMIT: Duration = Duration::from_secs(60);
/// The memory limit of a command.
const MEMORY: &str = "--as=1000000000";

/// All files and folders below a folder.
fn below(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("a folder").map(|entry| entry.expect("an entry")) {
        if entry.file_type().expect("a kind").is_dir() {
            found.extend(below(&entry.path()));
        }
        found.push(entry.path());
    }
    found
}

/// Puts something other than a file at `path`.
fn put(odd: &str, path: &Path) {
    match odd {
        "a FIFO" => {
            let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
            rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).expect("made");
        }
        "a link" => symlink("/dev/zero", path).expect("made"),
        _ => fs::File::create(path).and_then(|file| file.set_len(15 << 30)).expect("made"),
    }
}

/// Runs a command on the repository with the memory limit.
#[track_caller]
fn look(args: &[&str], what: &str) -> Outcome {
    let mut command = Command::new(required("prlimit").expect("util-linux"));
    command.arg(MEMORY).arg(amphora().expect("built")).args(args);
    run(&mut command, LIMIT).unwrap_or_else(|error| panic!("{what}: {error}"))
}

#[expect(clippy::disallowed_methods, reason = "a test moves files of its own, and nothing has to last")]
#[test]
fn a_hostile_folder_of_backups_is_refused_at_once_by_every_command() {
    need!(required("prlimit"));
    let server = Options::default().under(["prlimit", "--as=4000000000"]).start();
    make_bucket(&server, "docs", &[]);
    let dir = server.home().path().join("backups");
    let text = dir.to_str().expect("ours").to_owned();
    cli::json(&server, &["backup", "docs", &text]);
    let aside = server.home().path().join("aside");
    for path in below(&dir) {
        fs::rename(&path, &aside).expect("moved");
        for odd in ["a FIFO", "a link", "a file of 15 GiB"] {
            put(odd, &path);
            let what = format!("{odd} as {}", path.display());
            let begun = Instant::now();
            let is_lock = path.ends_with("lock");
            for command in ["list", "verify"] {
                let outcome = look(&["backup", command, &text], &what);
                assert!(!outcome.stderr.contains("memory allocation"), "{what}: {outcome}");
                let is_told = outcome.status.code() == Some(1) || is_lock || command == "list";
                assert!(is_told, "{what}: {outcome}");
            }
            let outcome = cli::cli(&server, &["restore", &text, "docs", "--as", "again"]);
            assert_eq!(outcome.status.success(), is_lock, "{what}: {outcome}");
            if is_lock {
                cli::json(&server, &["bucket", "delete", "again", "--force"]);
            }
            assert!(begun.elapsed() < LIMIT, "{what}: {:?}", begun.elapsed());
            fs::remove_file(&path).expect("there");
        }
        fs::rename(&aside, &path).expect("back");
    }
    cli::json(&server, &["restore", &text, "docs", "--as", "again"]);
}
