//! The server's process reveals no secret to other processes: not in its environment, and not in a core dump.

use std::fs;
use std::path::PathBuf;

use crate::support::*;

const ROOT_SECRET: &str = "root/secret+of=the~environment-0123456789";

fn options() -> Options {
    Options::default().env("AMPHORA_ROOT_ACCESS_KEY_ID", "ROOTKEYID").env("AMPHORA_ROOT_SECRET_ACCESS_KEY", ROOT_SECRET)
}

/// The environments of all processes of the program under test.
fn environments() -> Vec<(u32, String)> {
    let program = fs::canonicalize(amphora().expect("built")).expect("there");
    let entries = fs::read_dir("/proc").expect("mounted").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let ours = pids.filter(|pid| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program));
    let read = |pid| Some((pid, String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/environ")).ok()?).into_owned()));
    ours.filter_map(read).collect()
}

#[test]
fn the_root_secret_is_in_no_environment() {
    need!(root_and_fuse());
    let mut server = options().holder().start();
    make_bucket(&server, "docs", &[]);
    let dir = server.home().path().join("mounted");
    fs::create_dir(&dir).expect("made");
    cli::json(&server, &["mount", "docs", dir.to_str().expect("ours")]);
    assert_eq!(
        server.credentials().secret_access_key,
        ROOT_SECRET,
        "the server still uses the secret from its environment"
    );
    let clean = |server: &Server| {
        let found = environments();
        assert!(found.iter().any(|(pid, _)| Some(*pid) == server.pid()), "the server's own is among them");
        for (pid, environment) in found {
            assert!(!environment.contains(ROOT_SECRET), "process {pid} shows the root secret");
        }
    };
    clean(&server);
    cli::json(&server, &["upgrade"]);
    clean(&server);
    assert_eq!(fs::read_dir(&dir).expect("it goes on").count(), 0);
    cli::json(&server, &["umount", dir.to_str().expect("ours")]);
    server.terminate();
}

#[test]
fn a_server_leaves_no_core_dump() {
    need!(root_and_fuse());
    let soft_limit = |server: &Server| {
        let limits = fs::read_to_string(proc(server, "limits")).expect("running");
        let line = limits.lines().find(|line| line.starts_with("Max core file size")).expect("a line").to_owned();
        line.split_whitespace().nth(4).expect("a number").to_owned()
    };
    let unlimited = || Options::default().under(["prlimit", "--core=unlimited", "--"]);
    assert_eq!(soft_limit(&unlimited().start()), "0");
    assert_eq!(soft_limit(&unlimited().args(["--core-dumps"]).start()), "unlimited");
}

fn proc(server: &Server, file: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{}/{file}", server.pid().expect("running")))
}
