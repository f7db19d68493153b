//! Running a command to its end, with a time limit.
//!
//! - Each command leads its own process group; after the time limit the whole group is killed.
//! - A grandchild that left the group and holds a pipe open cannot block the caller: reading is bounded as well.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// The polling interval of a waiting caller.
pub(crate) const POLL: Duration = Duration::from_millis(5);
/// How long to wait for the rest of an ended process's output: on a busy machine the reader may be slow, and a
/// grandchild may keep the pipe open.
const DRAIN: Duration = Duration::from_secs(20);

/// The result of a command.
#[derive(Debug)]
pub struct Outcome {
    /// The command line, for messages.
    pub command: String,
    /// Its exit status.
    pub status: ExitStatus,
    /// All it wrote to stdout.
    pub stdout: String,
    /// All it wrote to stderr.
    pub stderr: String,
}

impl Outcome {
    /// The stdout of a successful command.
    ///
    /// # Panics
    /// If it failed; the message contains its whole output.
    #[track_caller]
    #[must_use]
    pub fn ok(self) -> String {
        assert!(self.status.success(), "{} failed\n{self}", self.command);
        self.stdout
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "$ {}\n{}\n--- stdout\n{}\n--- stderr\n{}", self.command, self.status, self.stdout, self.stderr)
    }
}

/// Runs `command` without input and returns its result, with any exit status.
///
/// # Errors
/// If it could not be started, or was killed at the time limit; the text contains its output so far.
pub fn run(command: &mut Command, limit: Duration) -> Result<Outcome, String> {
    let line = line(command);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().map_err(|error| format!("{line} does not start: {error}"))?;
    let stdout = child.stdout.take().map(collect);
    let stderr = child.stderr.take().map(collect);
    let ended = wait(&mut child, limit);
    if ended.is_none() {
        kill_group(&child);
    }
    let status = child.wait().map_err(|error| format!("{line}: waiting for it: {error}"))?;
    let outcome = Outcome { command: line, status, stdout: drain(stdout), stderr: drain(stderr) };
    match ended {
        Some(_) => Ok(outcome),
        None => Err(format!("killed after {} s: {outcome}", limit.as_secs_f32())),
    }
}

/// The command line without the environment, which holds keys.
fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Waits for `child` to end; `None` when it is still running after `limit`.
pub fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let deadline = Instant::now() + limit;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            _ if Instant::now() >= deadline => return None,
            _ => std::thread::sleep(POLL),
        }
    }
}

/// Polls `ready` until it returns a value; `None` once `limit` has passed.
pub fn wait_until<T>(limit: Duration, mut ready: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + limit;
    loop {
        match ready() {
            Some(value) => return Some(value),
            None if Instant::now() >= deadline => return None,
            None => std::thread::sleep(POLL),
        }
    }
}

/// The process id of a child that has not been waited for.
pub(crate) fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

fn kill_group(child: &Child) {
    // The child is not reaped yet, so its id cannot belong to another process. An ended group is no error.
    let _ = kill_process_group(pid(child), Signal::KILL);
}

/// Reads a pipe on a thread, in chunks, so that output before a hang is kept.
fn collect(mut pipe: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (chunks, receiver) = channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 8192];
        while let Ok(count @ 1..) = pipe.read(&mut buffer) {
            if chunks.send(buffer[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    receiver
}

fn drain(chunks: Option<Receiver<Vec<u8>>>) -> String {
    let deadline = Instant::now() + DRAIN;
    let mut bytes = Vec::new();
    if let Some(chunks) = chunks {
        while let Ok(chunk) = chunks.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            bytes.extend(chunk);
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_command_that_ends_keeps_its_status_and_output() {
        let outcome = run(&mut shell("echo out; echo err >&2; exit 3"), Duration::from_secs(10)).expect("ends");
        assert_eq!(outcome.status.code(), Some(3));
        assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("out\n", "err\n"));
    }

    #[test]
    fn a_command_past_its_limit_is_killed_with_its_children() {
        let start = Instant::now();
        let error = run(&mut shell("echo begun; sleep 60 & sleep 60"), Duration::from_millis(300)).expect_err("killed");
        assert!(error.contains("begun"), "{error}");
        assert!(start.elapsed() < Duration::from_secs(10), "reading waited for a process of the killed group");
    }
}
