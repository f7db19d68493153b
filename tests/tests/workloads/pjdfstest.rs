//! pjdfstest: POSIX's requirements for each call, by user, file type and error. The crate, and the original suite.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{checked_out, mounted};
use crate::support::*;

const LIMIT: Duration = Duration::from_secs(200);
const ORIGINAL_LIMIT: Duration = Duration::from_secs(1200);
/// The smallest number of files of the original suite: fewer means that some were not run.
const ORIGINAL_FILES: usize = 215;
/// The function of the original suite that makes a path of PATH_MAX bytes, longer than any key (decision 0068).
const LONGEST_PATH: &str = "dirgen_max";
/// The helper of mount(8) for all types that begin with `fuse`; the package fuse or fuse3 has it.
const FUSE_HELPER: &str = "/sbin/mount.fuse";
/// The pause between two changes whose times must differ. The kernel's clock for file times advances every 4 to 10 ms,
/// and less often in a virtual machine whose processors are busy.
const NAP_S: f32 = 0.05;
/// The number of tests in the installed release: fewer means that some were not run.
const TESTS: usize = 398;

here_and_elsewhere! {
    fn posix_calls_fail_only_as_listed() {
        need!(root_and_fuse());
        let tool = need!(required("pjdfstest"));
        let (mount, server) = mounted();
        let (home, second) = (server.home().path(), server.home().path().join("second"));
        std::fs::create_dir(&second).expect("a folder");
        // Half of the tests switch to other users.
        std::fs::set_permissions(&second, Permissions::from_mode(0o755)).expect("a mode");
        let check = |remount: bool, patterns: &[&str]| {
            let path = home.join(format!("pjdfstest-{remount}.toml"));
            std::fs::write(&path, config(&second, remount)).expect("the config is written");
            let mut command = with_our_helper(&tool);
            command.arg("-c").arg(path).arg("-p").arg(mount.path()).args(patterns);
            command.env("AMPHORA_ADMIN_ENDPOINT", format!("unix://{}", server.home().socket("admin").display()));
            let output = run(&mut command, LIMIT).expect("pjdfstest ends");
            assert!(output.status.success(), "{}\n{}", output.stderr, remarkable(&output.stdout));
            output.stdout
        };
        let output = check(false, &[]);
        assert!(output.contains(&format!(" {TESTS} total")), "{output}");
        // A separate run: the kernel refuses to make a mount read-only while it still releases files that an earlier test
        // unlinked.
        let output = check(true, &["erofs"]);
        assert!(output.contains(" 0 skipped"), "{output}");
    }
}

/// The command that runs a program. If mount(8) has a helper for FUSE, which would run an installed `amphora`, the
/// command runs in its own mount namespace with the program under test in the helper's place.
fn with_our_helper(program: &Path) -> Command {
    if !Path::new(FUSE_HELPER).exists() {
        return Command::new(program);
    }
    let ours = amphora().expect("the server is built");
    let mut command = Command::new("unshare");
    let script = format!("mount --bind \"$0\" {FUSE_HELPER} && exec \"$@\"");
    command.args(["--mount", "sh", "-c", &script]).arg(ours).arg(program);
    command
}

here_and_elsewhere! {
    /// The original, in C and shell, built in a checkout of github.com/pjd/pjdfstest as its README says.
    fn the_original_suite_passes() {
        need!(root_and_fuse());
        let suite = need!(checked_out("AMPHORA_PJDFSTEST", "the C pjdfstest"));
        let prove = need!(required("prove"));
        let (mount, _server) = mounted();
        let dir = mount.path().join("suite");
        std::fs::create_dir(&dir).expect("a folder");
        let mut command = Command::new(prove);
        command.args(original_files(&suite.join("tests"))).current_dir(&dir);
        let output = run(&mut command, ORIGINAL_LIMIT).expect("prove ends").ok();
        assert!(output.contains("Result: PASS"), "{output}");
        let files = output.lines().find_map(|line| line.strip_prefix("Files=")?.split(',').next()?.parse::<usize>().ok());
        assert!(files.is_some_and(|files| files >= ORIGINAL_FILES), "{output}");
    }
}

/// The files of the original suite except those that make a path longer than a key.
fn original_files(tests: &Path) -> Vec<PathBuf> {
    let entries = |dir: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(dir).expect("a folder of the suite");
        entries.map(|entry| entry.expect("an entry").path()).collect()
    };
    let groups = entries(tests).into_iter().filter(|path| path.is_dir());
    let mut files: Vec<_> = groups.flat_map(|group| entries(&group)).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "t"));
    files.retain(|path| !std::fs::read_to_string(path).expect("a script").contains(LONGEST_PATH));
    files.sort();
    files
}

fn config(second: &Path, remount: bool) -> String {
    let list = include_str!("../../expected-failures/pjdfstest.txt");
    let names = list.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let expected: Vec<_> = names.filter(|name| !name.is_empty()).collect();
    format!(
        "[features]\nposix_fallocate = {{}}\nrename_ctime = {{}}\nstat_st_birthtime = {{}}\nutime_now = {{}}\n\
         utimensat = {{}}\nsecondary_fs = {second:?}\n\
         [settings]\nnaptime = {NAP_S}\nallow_remount = {remount}\nexpected_failures = {expected:?}\n\
         [dummy_auth]\nentries = [[\"nobody\", \"nogroup\"], [\"daemon\", \"daemon\"]]\n"
    )
}

/// The output without the lines of tests that passed, were skipped, or failed as expected.
fn remarkable(output: &str) -> String {
    let usual = [" ok", " skipped", " failed as expected"];
    let lines = output.lines().filter(|line| !usual.iter().any(|end| line.ends_with(end)));
    lines.collect::<Vec<_>>().join("\n")
}
