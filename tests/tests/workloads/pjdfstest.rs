//! pjdfstest: what POSIX asks of each call, by user, kind of file and error.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::mounted;
use crate::support::*;

const LIMIT: Duration = Duration::from_secs(200);
/// The number of tests in the release we install: fewer means that they were not run.
const TESTS: usize = 398;

#[test]
fn posix_calls_fail_only_as_listed() {
    need!(root_and_fuse());
    let tool = need!(required("pjdfstest"));
    let (mount, server) = mounted();
    let (home, second) = (server.home().path(), server.home().path().join("second"));
    std::fs::create_dir(&second).expect("a folder");
    for dir in [home, mount.path(), &second] {
        // Half of the tests switch to other users.
        std::fs::set_permissions(dir, Permissions::from_mode(0o755)).expect("a mode");
    }
    let check = |remount: bool, patterns: &[&str]| {
        let path = home.join(format!("pjdfstest-{remount}.toml"));
        std::fs::write(&path, config(&second, remount)).expect("the config is written");
        let mut command = Command::new(&tool);
        command.arg("-c").arg(path).arg("-p").arg(mount.path()).args(patterns);
        let told = run(&mut command, LIMIT).expect("pjdfstest ends");
        assert!(told.status.success(), "{}\n{}", told.stderr, remarkable(&told.stdout));
        told.stdout
    };
    let told = check(false, &[]);
    assert!(told.contains(&format!(" {TESTS} total")), "{told}");
    // In a run of their own: the kernel refuses to make a mount read-only while it still releases the files that an
    // earlier test unlinked.
    let told = check(true, &["erofs"]);
    assert!(told.contains(" 0 skipped"), "{told}");
}

fn config(second: &Path, remount: bool) -> String {
    let list = include_str!("../../expected-failures/pjdfstest.txt");
    let names = list.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let expected: Vec<_> = names.filter(|name| !name.is_empty()).collect();
    format!(
        "[features]\nposix_fallocate = {{}}\nrename_ctime = {{}}\nstat_st_birthtime = {{}}\nutime_now = {{}}\n\
         utimensat = {{}}\nsecondary_fs = {second:?}\n\
         [settings]\nnaptime = 0.01\nallow_remount = {remount}\nexpected_failures = {expected:?}\n\
         [dummy_auth]\nentries = [[\"nobody\", \"nogroup\"], [\"daemon\", \"daemon\"]]\n"
    )
}

/// The output without the lines of tests that went as they should.
fn remarkable(told: &str) -> String {
    let usual = [" ok", " skipped", " failed as expected"];
    let lines = told.lines().filter(|line| !usual.iter().any(|end| line.ends_with(end)));
    lines.collect::<Vec<_>>().join("\n")
}
