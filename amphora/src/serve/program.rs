//! This program as it was started, to be started again in its own place.
//!
//! - Its path is the one it was started by: what lies there may be another program by now, which is the point.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use super::passed::{self, Passed};
use crate::config::Env;
use crate::failure::Failure;

/// How long a program may take to tell its version, or whether it takes its settings.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// What has a program look at its settings. One that is older does not know it.
const CHECK: &str = "--check-config";

/// A program and its arguments.
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
    /// With its name, as it was called.
    args: Vec<OsString>,
}

impl Program {
    /// This process's. To be asked at once: later, its file may have been replaced.
    pub(super) fn started(env: Env<'_>) -> Self {
        let args: Vec<OsString> = std::env::args_os().collect();
        let named = args.first().map(Path::new).and_then(|name| found(name, env));
        let path = named.or_else(|| std::env::current_exe().ok()).unwrap_or_else(|| PathBuf::from("/proc/self/exe"));
        Self { path, args }
    }

    /// The version of what lies at the path now. Blocking.
    ///
    /// # Errors
    /// It does not run, or is something else.
    pub fn version(&self) -> Result<String, String> {
        let path = self.path.display();
        let said = self.ask(&["--version".into()])?;
        let text = String::from_utf8_lossy(&said.stdout);
        let version = text.trim().strip_prefix("amphora ").filter(|_| said.status.success());
        version
            .map(str::to_owned)
            .ok_or_else(|| format!("{path} is no amphora: `--version` ended with {}", said.status))
    }

    /// Whether what lies at the path now takes this server's settings: arguments, environment and file as they are by
    /// now. Blocking.
    ///
    /// # Errors
    /// It does not; with its own words.
    pub fn check(&self) -> Result<(), String> {
        let mut args: Vec<OsString> = self.args.iter().skip(1).cloned().collect();
        args.push(CHECK.into());
        let said = self.ask(&args)?;
        let words = String::from_utf8_lossy(&said.stderr);
        if said.status.success() || (words.contains(CHECK) && words.contains("unexpected argument")) {
            return Ok(());
        }
        let words = words.trim().trim_start_matches("amphora: ").replace('\n', " ");
        Err(format!("{} does not take this server's settings: {words}", self.path.display()))
    }

    fn ask(&self, args: &[OsString]) -> Result<Output, String> {
        let path = self.path.display();
        let mut child = Command::new(&self.path)
            .args(args)
            .env_remove(passed::VARIABLE)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{path} does not run ({error}): install the next version there"))?;
        let deadline = Instant::now() + ANSWER_LIMIT;
        while child.try_wait().is_ok_and(|ended| ended.is_none()) {
            if Instant::now() > deadline {
                let _ = child.kill();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        child.wait_with_output().map_err(|error| format!("{path} does not run ({error})"))
    }

    /// Becomes that program, with the same arguments and the sockets that are passed on. Returns only if it cannot.
    pub(super) fn replace(&self, passed: &Passed) -> Failure {
        let mut command = Command::new(&self.path);
        if let Some((name, args)) = self.args.split_first() {
            command.arg0(name).args(args);
        }
        let error = passed.hand_on(&mut command).err().unwrap_or_else(|| command.exec());
        Failure::failed(format!("{} cannot be started ({error}): the server ends", self.path.display()))
    }
}

/// The path behind the name of this program, if it leads to what runs.
fn found(name: &Path, env: Env<'_>) -> Option<PathBuf> {
    let running = std::fs::metadata("/proc/self/exe").ok()?;
    let same = |path: &PathBuf| {
        std::fs::metadata(path).is_ok_and(|found| (found.dev(), found.ino()) == (running.dev(), running.ino()))
    };
    if name.components().count() > 1 || name.is_absolute() {
        return std::path::absolute(name).ok().filter(same);
    }
    let path = env("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_is_the_one_that_was_named() {
        let exe = std::env::current_exe().expect("a test has one");
        let folder = tempfile::tempdir().expect("a folder");
        let link = folder.path().join("amphora");
        std::os::unix::fs::symlink(&exe, &link).expect("linked");
        let path = |name: &str| (name == "PATH").then(|| folder.path().into());
        assert_eq!(found(&link, &|_| None), Some(link.clone()), "a link stays one: it may lead elsewhere later");
        assert_eq!(found(Path::new("amphora"), &path), Some(link));
        assert_eq!(found(Path::new("other"), &path), None);
        assert_eq!(found(Path::new("/bin/sh"), &path), None);
    }

    #[test]
    fn what_is_no_amphora_is_refused() {
        let program = |path: &str| Program { path: path.into(), args: Vec::new() };
        let text = program("/nowhere/amphora").version().expect_err("absent");
        assert!(text.contains("/nowhere/amphora") && text.contains("install"), "{text}");
        assert!(program("/bin/true").version().expect_err("another").contains("no amphora"));
        assert!(program("/bin/true").check().is_ok());
        let text = program("/bin/false").check().expect_err("refused");
        assert!(text.contains("/bin/false does not take"), "{text}");
    }
}
