//! The program file of this server, to be executed again in its place.
//!
//! - Its path is the one that it was started by. An upgrade means that another program lies there now.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use super::Env;
use super::passed_sockets::{self, PassedSockets};
use crate::failure::Failure;

/// The time limit for a program's answer to `--version` or to the check of its settings.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// The flag with which a program checks its settings. Older versions do not know it.
const CHECK: &str = "--check-config";

/// A program and its arguments.
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
    /// The arguments, including the name that it was called by.
    args: Vec<OsString>,
}

impl Program {
    /// The program of this process. Must be called at once, because its file may be replaced later.
    pub(crate) fn started(env: Env<'_>) -> Self {
        let args: Vec<OsString> = std::env::args_os().collect();
        let named = args.first().map(Path::new).and_then(|name| found(name, env));
        let path = named.or_else(|| std::env::current_exe().ok()).unwrap_or_else(|| PathBuf::from("/proc/self/exe"));
        Self { path, args }
    }

    /// The version of the program file that is there now. Blocking.
    ///
    /// # Errors
    /// If it does not run, or is another program.
    pub fn version(&self) -> Result<String, String> {
        let path = self.path.display();
        let said = self.ask(&["--version".into()])?;
        let text = String::from_utf8_lossy(&said.stdout);
        let version = text.trim().strip_prefix("amphora ").filter(|_| said.status.success());
        version
            .map(str::to_owned)
            .ok_or_else(|| format!("{path} is not an amphora program: `--version` ended with {}", said.status))
    }

    /// Whether the program file that is there now accepts this server's settings: arguments, environment and file as
    /// they are now. Blocking.
    ///
    /// # Errors
    /// If it does not, with its own message.
    pub fn check(&self) -> Result<(), String> {
        let mut args: Vec<OsString> = self.args.iter().skip(1).cloned().collect();
        args.push(CHECK.into());
        let said = self.ask(&args)?;
        let words = String::from_utf8_lossy(&said.stderr);
        if said.status.success() || (words.contains(CHECK) && words.contains("unexpected argument")) {
            return Ok(());
        }
        let words = words.trim().trim_start_matches("amphora: ").replace('\n', " ");
        Err(format!("{} does not accept this server's settings: {words}", self.path.display()))
    }

    fn ask(&self, args: &[OsString]) -> Result<Output, String> {
        let path = self.path.display();
        let mut child = Command::new(&self.path)
            .args(args)
            .env_remove(passed_sockets::VARIABLE)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{path} does not run ({error}): install the next version at this path"))?;
        let deadline = Instant::now() + ANSWER_LIMIT;
        while child.try_wait().is_ok_and(|ended| ended.is_none()) {
            if Instant::now() > deadline {
                let _ = child.kill();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        child.wait_with_output().map_err(|error| format!("{path} does not run ({error})"))
    }

    /// Replaces this process by that program, with the same arguments and the passed sockets. Returns only on failure.
    pub(crate) fn replace(&self, passed: &PassedSockets) -> Failure {
        let mut command = Command::new(&self.path);
        if let Some((name, args)) = self.args.split_first() {
            command.arg0(name).args(args);
        }
        let error = passed.hand_on(&mut command).err().unwrap_or_else(|| command.exec());
        Failure::failed(format!("{} cannot be started ({error}): the server ends", self.path.display()))
    }
}

/// The path of this program's name, if it leads to the running program.
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
        assert!(program("/bin/true").version().expect_err("another").contains("not an amphora program"));
        assert!(program("/bin/true").check().is_ok());
        let text = program("/bin/false").check().expect_err("refused");
        assert!(text.contains("/bin/false does not accept"), "{text}");
    }
}
