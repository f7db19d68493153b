//! Data folders that belong to others or are not data folders: refused at once and left unchanged.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::serve::{Case, tree};
use crate::support::*;

/// A time limit for machines under load: a process that waits for the other end of a FIFO would wait for ever.
const LIMIT: Duration = Duration::from_secs(30);

#[test]
fn a_folder_with_other_files_is_refused_as_a_store() {
    let home = Home::new().expect("a folder");
    let data = home.data_dir();
    fs::create_dir_all(data.join("ssl")).expect("made");
    fs::write(data.join("passwd"), "root:x:0:0").expect("written");
    let before = tree(&data);
    for flag in [&[][..], &["--check-config"]] {
        Case::new("a folder of something else", 1, flag, &["--data-dir", "passwd", "ssl", "an empty folder"])
            .refused(&home);
        assert_eq!(tree(&data), before);
        assert_eq!(fs::read_dir(&data).expect("there").count(), 2, "no folder for sockets is made either");
    }
}

#[test]
fn a_data_folder_of_another_user_is_refused() {
    need!(root_and_fuse());
    let mut server = Server::start();
    assert_eq!(server.terminate().code(), Some(0));
    let data = server.home().data_dir();
    chown(&data, Some(65534), None).expect("given away");
    let why = server.try_restart().expect_err("another user owns it");
    assert!(why.contains("belongs to user 65534") && why.contains("chown -R 0"), "{why}");
    chown(&data, Some(0), None).expect("taken back");
    server.restart();
}

#[expect(clippy::disallowed_methods, reason = "a test moves files of its own, and nothing has to last")]
#[test]
fn pipes_and_links_in_place_of_store_files_are_refused_at_once() {
    let mut server = Server::start();
    cli::json(&server, &["bucket", "create", "docs"]);
    assert_eq!(server.terminate().code(), Some(0));
    let (home, data) = (Home::new().expect("a folder"), server.home().data_dir());
    let data_arg = format!("--data-dir={}", data.display());
    for name in ["lock", "master.key", "meta/version", "meta/lock", "meta/synced", "meta/0.jnl"] {
        let (file, aside) = (data.join(name), home.path().join("aside"));
        fs::rename(&file, &aside).unwrap_or_else(|error| panic!("{name}: {error}"));
        for odd in ["a FIFO", "a symbolic link"] {
            put(odd, &file);
            Case::new("no file", 1, &[&data_arg], &[name, odd, "not a regular file"]).refused(&home);
            let mut check = Command::new(amphora().expect("built"));
            let outcome = run(check.arg("check").arg(&data), LIMIT).expect("it ends");
            let said = format!("{}{}", outcome.stdout, outcome.stderr);
            assert!(outcome.status.code() == Some(1) && said.contains(odd), "{name}, {odd}: {outcome}");
            fs::remove_file(&file).expect("removed");
        }
        fs::rename(&aside, &file).expect("back");
    }
    // Each start rewrites this file, and none reads it.
    let root = data.join("root-credentials");
    fs::remove_file(&root).expect("there");
    put("a FIFO", &root);
    server.restart();
    assert_eq!(fs::symlink_metadata(&root).expect("there").permissions().mode(), 0o100_600);
    assert_eq!(cli::json(&server, &["bucket", "list"])[0]["name"], "docs");
}

/// Puts a FIFO at `file`, or a link to a file without an end.
fn put(odd: &str, file: &Path) {
    if odd == "a FIFO" {
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, file, rustix::fs::FileType::Fifo, mode, 0).expect("made");
    } else {
        symlink("/dev/zero", file).expect("made");
    }
}

#[test]
fn named_files_that_are_not_regular_are_refused_at_once() {
    let home = Home::new().expect("a folder");
    let (fifo, text) = (home.path().join("fifo"), home.path().join("text"));
    put("a FIFO", &fifo);
    write_private(&text, "");
    for odd in [fifo.to_str().expect("ours"), "/dev/zero", "/dev/full", home.path().to_str().expect("ours")] {
        let text = text.display();
        let flag = |name: &str| format!("--{name}={odd}");
        Case::new("a config file", 2, &[&flag("config")], &[odd, "not a regular file"]).refused(&home);
        let key = format!("--tls-key={text}");
        Case::new("a certificate", 1, &[&flag("tls-cert"), &key], &[odd, "not a regular file"]).refused(&home);
        let certificate = format!("--tls-cert={text}");
        Case::new("a TLS key", 1, &[&certificate, &flag("tls-key")], &[odd, "not a regular file"]).refused(&home);
    }
    assert!(!home.data_dir().exists());
    let server = Server::start();
    cli::json(&server, &["bucket", "create", "docs"]);
    for odd in [fifo.to_str().expect("ours"), "/dev/zero"] {
        let said = cli::refusal(&server, &["mount", "docs", "/nonexistent", "--credentials", odd], 1);
        assert!(said.contains(odd) && said.contains("not a regular file"), "{said}");
    }
}
