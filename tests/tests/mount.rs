//! `amphora mount` and `amphora umount` as commands.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, ErrorKind};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::cli::{json, refusal};
use crate::support::*;

/// A time limit far above what a mount takes.
const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn a_mount_stays_until_it_is_unmounted() {
    need!(root_and_fuse());
    let server = Server::start();
    make_bucket(&server, "files", &[]);
    let mount = Mounted::new(&server, "files", "m");
    let dir = mount.path().to_owned();
    std::fs::write(dir.join("f"), "kept").expect("a file is written");
    let text = dir.to_str().expect("a path of ours");
    let taken = refusal(&server, &["mount", "files", text], 1);
    assert!(taken.contains(text) && taken.contains("files"), "{taken}");
    mount.unmount(&server);
    assert!(!dir.join("f").exists(), "the directory below shows");
    let again = refusal(&server, &["umount", text], 1);
    assert!(again.contains(text), "{again}");
    let mount = Mounted::new(&server, "files", "m");
    assert_eq!(std::fs::read(mount.path().join("f")).expect("the file is back"), b"kept");
}

#[test]
fn a_terminated_server_unmounts_and_keeps_all_writes() {
    need!(root_and_fuse());
    let mut server = Server::start();
    make_bucket(&server, "files", &[]);
    let mount = Mounted::new(&server, "files", "m");
    let file = mount.path().join("f");
    std::fs::write(&file, vec![7; 300_000]).expect("a file is written");
    drop(mount);
    let status = server.terminate();
    assert_eq!(status.code(), Some(0), "{}", server.log());
    assert_eq!(std::fs::metadata(&file).expect_err("unmounted").kind(), ErrorKind::NotFound);
    server.restart();
    let mount = Mounted::new(&server, "files", "m");
    assert!(std::fs::read(mount.path().join("f")).expect("a file") == vec![7; 300_000]);
}

#[test]
fn options_make_a_mount_read_only_or_show_one_folder() {
    need!(root_and_fuse());
    let server = Server::start();
    make_bucket(&server, "files", &[]);
    let mount = Mounted::new(&server, "files", "m");
    std::fs::create_dir_all(mount.path().join("a/b")).expect("folders");
    std::fs::write(mount.path().join("a/b/f"), "below").expect("a file");
    let part = server.home().path().join("part");
    std::fs::create_dir(&part).expect("a folder");
    json(&server, &["mount", "files", part.to_str().expect("a path of ours"), "-o", "ro,prefix=a,uid=1234"]);
    assert_eq!(std::fs::read(part.join("b/f")).expect("the folder's file"), b"below");
    assert_eq!(std::fs::write(part.join("b/g"), "").expect_err("refused").kind(), ErrorKind::ReadOnlyFilesystem);
    assert_eq!(std::fs::metadata(part.join("b/f")).expect("there").uid(), 1234);
}

#[test]
fn options_hide_permissions_and_caches() {
    need!(root_and_fuse());
    let server = Server::start();
    make_bucket(&server, "files", &[]);
    let dir = server.home().path().join("m");
    std::fs::create_dir(&dir).expect("a folder");
    json(&server, &["mount", "files", path(&dir), "-o", "umask=027,readahead=64Ki", "-o", "cache=off"]);
    std::fs::write(dir.join("f"), "content").expect("a file");
    std::fs::set_permissions(dir.join("f"), std::fs::Permissions::from_mode(0o666)).expect("a mode");
    assert_eq!(std::fs::metadata(dir.join("f")).expect("there").mode() & 0o777, 0o640);
    assert_eq!(std::fs::read(dir.join("f")).expect("read"), b"content");
    let before = read_calls(&server, &dir);
    assert_eq!(std::fs::read(dir.join("f")).expect("read"), b"content");
    assert!(read_calls(&server, &dir) > before, "each read reaches the server");
    let device = std::fs::metadata(&dir).expect("there").dev();
    let file = format!("/sys/class/bdi/{}:{}/read_ahead_kb", rustix::fs::major(device), rustix::fs::minor(device));
    assert_eq!(std::fs::read_to_string(file).expect("the kernel shows the setting").trim(), "64");
    json(&server, &["umount", path(&dir)]);
    json(&server, &["mount", "files", path(&dir), "-o", "noexec"]);
    std::fs::write(dir.join("program"), "#!/bin/sh\n").expect("a file");
    std::fs::set_permissions(dir.join("program"), std::fs::Permissions::from_mode(0o755)).expect("a mode");
    let run = std::process::Command::new(dir.join("program")).status();
    assert_eq!(run.expect_err("refused").kind(), ErrorKind::PermissionDenied);
}

/// The number of reads that the server answered.
fn read_calls(server: &Server, dir: &Path) -> u64 {
    let rows = json(server, &["mount", "stats", path(dir)]);
    let read = rows.as_array().expect("rows").iter().find(|row| row["operation"] == "read");
    read.and_then(|row| row["count"].as_u64()).unwrap_or(0)
}

#[test]
fn operations_of_a_mount_can_be_counted_and_traced() {
    need!(root_and_fuse());
    let server = Server::start();
    make_bucket(&server, "files", &[]);
    let mount = Mounted::new(&server, "files", "m");
    let dir = mount.path();
    let mut trace = server.cli(["mount", "trace", path(dir), "--output", "json"]);
    let mut trace = trace.stdout(Stdio::piped()).spawn().expect("a watcher");
    let lines = BufReader::new(trace.stdout.take().expect("piped")).lines();
    // Calls made before the watcher is ready are not seen, so more are made until it is.
    let (seen, waited) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in lines.map_while(std::io::Result::ok) {
            let call: serde_json::Value = serde_json::from_str(&line).expect("a JSON line");
            if call["operation"] == "mkdir" || (call["operation"] == "make" && call["path"] == "") {
                let _ = seen.send(call);
            }
        }
    });
    let call = (0..600).find_map(|number| {
        std::fs::create_dir(dir.join(format!("d{number}"))).expect("a folder");
        waited.recv_timeout(LIMIT / 600).ok()
    });
    let call = call.expect("a call was seen");
    assert_eq!((&call["errno"], &call["inode"]), (&0.into(), &1.into()));
    assert!(call["name"].as_str().is_some_and(|name| dir.join(name).is_dir()), "{call}");
    trace.kill().and_then(|()| trace.wait()).expect("the watcher ends");
    let rows = json(&server, &["mount", "stats"]);
    let made = rows.as_array().expect("rows").iter().find(|row| row["operation"] == call["operation"]);
    assert!(made.is_some_and(|row| row["count"].as_u64() > Some(0) && row["p99AtMostUs"].is_u64()), "{rows}");
    let elsewhere = refusal(&server, &["mount", "stats", "/"], 1);
    assert!(elsewhere.contains('/'), "{elsewhere}");
}

#[test]
fn mount_of_type_amphora_works_as_in_fstab() {
    need!(root_and_fuse());
    let server = Server::start();
    make_bucket(&server, "files", &[]);
    let home = server.home().path();
    let dir = home.join("m");
    let helper = home.join("mount.amphora");
    std::fs::create_dir(&dir).and_then(|()| symlink(program(&server), &helper)).expect("a folder and a link");
    let endpoint = format!("admin-endpoint=unix://{}", server.home().socket("admin").display());
    let options = format!("rw,noauto,nofail,_netdev,x-systemd.requires=amphora.service,uid=1234,{endpoint}");
    // As mount(8) calls it.
    let mut mount = Command::new(&helper);
    mount.args(["amphora:files", path(&dir), "-v", "-o", &options]);
    let outcome = run(&mut mount, LIMIT).unwrap_or_else(|error| panic!("{error}"));
    assert!(outcome.status.success() && outcome.stdout.contains("files"), "{outcome}");
    std::fs::write(dir.join("f"), "content").expect("a file");
    assert_eq!(std::fs::metadata(dir.join("f")).expect("there").uid(), 1234);
    let again = run(&mut mount, LIMIT).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(again.status.code(), Some(32), "mount(8), EXIT STATUS: {again}");
    let mut wrong = Command::new(&helper);
    wrong.args(["files", path(&dir), "-o", "suid"]);
    let wrong = run(&mut wrong, LIMIT).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(wrong.status.code(), Some(1), "{wrong}");
    let mut umount = Command::new("umount");
    let umount = run(umount.arg(&dir), LIMIT).unwrap_or_else(|error| panic!("{error}"));
    assert!(umount.status.success(), "{umount}");
    assert!(!dir.join("f").exists());
    through_mount(&server, &dir, &endpoint);
}

/// Mounts by mount(8) itself, in a mount namespace whose /usr/sbin has the helper, where mount(8) looks for it.
fn through_mount(server: &Server, dir: &Path, endpoint: &str) {
    let sbin = server.home().path().join("sbin");
    let (upper, work) = (sbin.join("upper"), sbin.join("work"));
    std::fs::create_dir_all(&upper).and_then(|()| std::fs::create_dir_all(&work)).expect("folders");
    symlink(program(server), upper.join("mount.amphora")).expect("a link");
    let layers = format!("lowerdir=/usr/sbin,upperdir={},workdir={}", path(&upper), path(&work));
    let script = "mount -t overlay -o \"$1\" overlay /usr/sbin && mount -t amphora -o \"ro,$2\" files \"$3\"";
    let mut mount = Command::new("unshare");
    mount.args(["--mount", "--propagation", "slave", "sh", "-c", script, "sh", &layers, endpoint, path(dir)]);
    let outcome = run(&mut mount, LIMIT).unwrap_or_else(|error| panic!("{error}"));
    assert!(outcome.status.success(), "{outcome}");
    assert_eq!(std::fs::read(dir.join("f")).expect("mounted"), b"content");
    let refused = std::fs::write(dir.join("f"), "").expect_err("read-only");
    assert_eq!(refused.kind(), ErrorKind::ReadOnlyFilesystem);
    json(server, &["umount", path(dir)]);
}

/// The binary under test.
fn program(server: &Server) -> OsString {
    server.cli(["status"]).get_program().to_owned()
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a path of ours")
}
