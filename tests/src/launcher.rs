//! A helper process that starts servers, which a test process cannot always do.
//!
//! - exec(2) closes the files that its parent has open, and closing a file of a mount waits for the mount's server. A
//!   test with such an open file would wait for the very server that it is about to start. The helper has no files
//!   open.
//! - It is a shell that reads names of scripts, runs one at a time, and reports when each began and ended.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

const SCRIPT: &str = "while read -r script; do sh \"$script\" & echo \"$!\"; wait \"$!\"; echo \"$?\"; done";
/// The time limit for the shell to start a process.
const LIMIT: Duration = Duration::from_secs(20);

/// The shell.
#[derive(Debug)]
pub(crate) struct Launcher {
    shell: Child,
    answers: Receiver<u32>,
}

impl Launcher {
    /// Starts the shell.
    ///
    /// # Errors
    /// If there is no shell.
    pub(crate) fn new() -> Result<Self, String> {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut shell = command.spawn().map_err(|error| format!("sh does not start: {error}"))?;
        let stdout = shell.stdout.take().expect("stdout is piped");
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(stdout).lines().map_while(Result::ok);
            lines.filter_map(|line| line.trim().parse().ok()).try_for_each(|number| sender.send(number))
        });
        Ok(Self { shell, answers })
    }

    /// Runs `command` with its output appended to `log`; returns the process id. The previous command has to have
    /// ended.
    ///
    /// # Errors
    /// If the script cannot be written, or the shell has ended.
    pub(crate) fn start(&mut self, command: &Command, log: &Path) -> Result<u32, String> {
        let script = log.with_extension("start");
        write_script(&script, command, log).map_err(|error| format!("{}: {error}", script.display()))?;
        let mut stdin = self.shell.stdin.as_ref().expect("stdin is piped");
        writeln!(stdin, "{}", script.display()).map_err(|error| format!("the shell is gone: {error}"))?;
        self.answers.recv_timeout(LIMIT).map_err(|error| format!("the shell starts nothing: {error}"))
    }

    /// The command's exit status; `None` while it runs, and after `limit`.
    pub(crate) fn ended(&self, limit: Duration) -> Option<ExitStatus> {
        let status = self.answers.recv_timeout(limit).ok()?;
        // sh(1): 128 plus the number of the signal.
        let raw = if status > 128 { status - 128 } else { status << 8 };
        Some(ExitStatus::from_raw(i32::try_from(raw).expect("below 256")))
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        // Both calls fail only if the process has ended already.
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

/// The environment may contain keys, so the file is private.
fn write_script(script: &Path, command: &Command, log: &Path) -> std::io::Result<()> {
    let mut file = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(script)?;
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => writeln!(file, "export {}={}", name.display(), quote(&value.to_string_lossy()))?,
            None => writeln!(file, "unset {}", name.display())?,
        }
    }
    if let Some(dir) = command.get_current_dir() {
        writeln!(file, "cd {}", quote(&dir.to_string_lossy()))?;
    }
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| quote(&word.to_string_lossy())).collect();
    writeln!(file, "exec {} </dev/null >>{} 2>&1", words.join(" "), quote(&log.to_string_lossy()))
}

fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_started_program_keeps_its_arguments_and_reports_its_status() {
        let dir = tempfile::tempdir().expect("a folder");
        let log = dir.path().join("log");
        let mut launcher = Launcher::new().expect("a shell");
        let mut command = Command::new("sh");
        command.args(["-c", "echo \"$0\" \"$A\"; pwd; exit 3", "it's a $word"]).env("A", "b 'c'").current_dir("/");
        launcher.start(&command, &log).expect("started");
        assert_eq!(launcher.ended(LIMIT).and_then(|status| status.code()), Some(3));
        assert_eq!(std::fs::read_to_string(&log).expect("the log"), "it's a $word b 'c'\n/\n");
        let mut command = Command::new("sleep");
        let pid = launcher.start(command.arg("60"), &log).expect("started");
        assert_eq!(launcher.ended(Duration::from_millis(50)), None);
        let pid = rustix::process::Pid::from_raw(i32::try_from(pid).expect("a process id")).expect("not 0");
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it runs");
        assert_eq!(launcher.ended(LIMIT).and_then(|status| status.signal()), Some(9));
    }
}
