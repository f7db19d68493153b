//! The units of `deploy/` as systemd reads them.

use std::process::Command;
use std::time::Duration;

use tests::prelude::*;

/// Where the units look for the program.
const INSTALLED: &str = "/usr/local/bin/amphora";

#[test]
fn systemd_finds_no_fault_in_the_units() {
    let analyze = need!(tool("systemd-analyze").ok_or("systemd-analyze is not installed"));
    let program = need!(amphora());
    let home = Home::new().expect("a folder");
    let mut command = Command::new(analyze);
    // Folders of units end in a colon where the system's own follow: some are named by ours.
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
