//! csi-sanity, the conformance suite of Kubernetes CSI, against the real binary.

use std::process::Command;
use std::time::Duration;

use crate::support::*;

/// The time limit: the whole suite takes seconds.
const LIMIT: Duration = Duration::from_secs(300);

/// The smallest number of specs. The suite skips what the driver does not advertise, so a lost capability would pass.
const SPECS_MIN: usize = 92;

/// Runs the suite. `node`: the socket of the node service, if it is not the server's; `more` arguments of the suite.
#[track_caller]
pub(super) fn pass(server: &Server, node: Option<&str>, more: &[&str]) -> Result<(), String> {
    let suite = required("csi-sanity")?;
    root_and_fuse()?;
    let home = server.home().path();
    // The suite creates and removes these itself, but not their parents.
    let [target, staging] = ["target", "staging"].map(|name| home.join("sanity").join(name));
    std::fs::create_dir_all(home.join("sanity")).expect("made");
    let parameters = home.join("sanity").join("parameters.yaml");
    // A block volume keeps no versions.
    let versions = if more.ends_with(&BLOCK) { "" } else { ", versioning: enabled, noncurrentDays: \"30\"" };
    std::fs::write(&parameters, format!("{{gid: \"7\", mode: \"0770\"{versions}}}\n")).expect("written");
    let mut command = Command::new(suite);
    command.arg("--csi.testvolumemutableparameters").arg(&parameters);
    let socket = |word: &str| server.ready().word(word).to_owned();
    command.args(more);
    match node.or_else(|| server.ready().get("csi-node")) {
        None => command.arg("--csi.endpoint").arg(socket("csi")),
        Some(node) => command.arg("--csi.endpoint").arg(node).arg("--csi.controllerendpoint").arg(socket("csi")),
    };
    command.arg("--csi.mountdir").arg(target).arg("--csi.stagingdir").arg(staging).arg("--ginkgo.no-color");
    let outcome = run(&mut command, LIMIT).unwrap_or_else(|error| panic!("{error}"));
    assert!(outcome.status.success(), "{outcome}");
    let (ran, summary) = counts(&outcome.stdout).unwrap_or_else(|| panic!("no summary: {outcome}"));
    print_summary(&summary);
    assert!(ran >= SPECS_MIN, "only {ran} specs were selected: {summary}");
    assert!(summary.contains(" 0 Failed"), "{summary}");
    Ok(())
}

#[expect(clippy::print_stdout, reason = "shown with --nocapture: a pass alone does not say how much ran")]
fn print_summary(summary: &str) {
    println!("csi-sanity: {summary}");
}

/// The number of specs that ran, and the lines that report it, such as `Ran 70 of 92 Specs in 5.0 seconds`, with the
/// results.
fn counts(output: &str) -> Option<(usize, String)> {
    let ran = output.lines().find(|line| line.starts_with("Ran ") && line.contains(" Specs in "))?;
    let became = output.lines().find(|line| line.contains(" Passed | ") && line.contains(" Skipped"))?;
    let count = ran.split(' ').nth(1)?.parse().ok()?;
    Some((count, format!("{ran}; {became}")))
}

#[test]
fn the_suite_passes_on_one_endpoint() {
    need!(pass(&Server::start(), None, &[]));
}

/// The arguments with which the suite uses all volumes as block devices.
pub(super) const BLOCK: [&str; 2] = ["--csi.testvolumeaccesstype", "block"];

#[test]
fn the_suite_passes_with_block_volumes() {
    need!(super::block::devices());
    need!(pass(&Server::start(), None, &BLOCK));
    need!(pass(&Options::default().split_csi().start(), None, &BLOCK));
}

#[test]
fn the_suite_passes_on_two_endpoints() {
    let server = Options::default().split_csi().start();
    assert!(server.ready().get("csi-node").is_some(), "the node has a socket of its own");
    need!(pass(&server, None, &[]));
}
