//! The systemd units of `deploy/`, checked by systemd.

use std::process::Command;
use std::time::Duration;

use tests::prelude::*;

/// The path at which the units expect the program.
const INSTALLED: &str = "/usr/local/bin/amphora";

/// A sidecar gets access to the folder of its own socket only, with everything below.
#[test]
fn the_example_gives_sidecars_no_other_socket_than_their_own() {
    let text = std::fs::read_to_string(repo().join("deploy/amphora.toml")).expect("the example");
    let setting = |line: &str| {
        let (name, value) = line.trim_start_matches(['#', ' ']).split_once(" = ")?;
        let path = value.trim_matches('"').strip_prefix("unix://")?;
        name.ends_with("-endpoint").then(|| (name.to_owned(), std::path::PathBuf::from(path)))
    };
    let sockets: Vec<_> = text.lines().filter_map(setting).collect();
    let names: Vec<_> = sockets.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["admin-endpoint", "csi-endpoint", "cosi-endpoint", "csi-node-endpoint", "holder-endpoint"]);
    for (name, socket) in sockets.iter().filter(|(name, _)| name.starts_with("csi") || name.starts_with("cosi")) {
        let folder = socket.parent().expect("a folder");
        for (other, path) in sockets.iter().filter(|(other, _)| other != name) {
            assert!(!path.starts_with(folder), "{other} lies in the folder of {name}, {}", folder.display());
        }
    }
}

#[test]
fn systemd_finds_no_fault_in_the_units() {
    let analyze = need!(tool("systemd-analyze").ok_or("systemd-analyze is not installed"));
    let program = need!(amphora());
    let home = Home::new().expect("a folder");
    let mut command = Command::new(analyze);
    // A list of unit folders that ends in a colon continues with the system's own, which some of our units refer to.
    command.arg("verify").arg("--man=no").env("SYSTEMD_UNIT_PATH", format!("{}:", home.path().display()));
    for name in ["amphora.service", "amphora-holder.service"] {
        let text = std::fs::read_to_string(repo().join("deploy").join(name)).expect("the unit");
        assert!(text.contains(INSTALLED), "{name}");
        let path = home.path().join(name);
        std::fs::write(&path, text.replace(INSTALLED, program.to_str().expect("a path of ours"))).expect("written");
        command.arg(path);
    }
    let outcome = run(&mut command, Duration::from_secs(30)).expect("it ends");
    assert!(outcome.status.success() && outcome.stderr.trim().is_empty(), "{outcome}");
}
