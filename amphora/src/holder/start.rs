//! Finding and starting the fd holder for a server.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use fuse::holder::{Error, Holder};

use crate::config::SocketPath;

/// Number of attempts: a holder that is just ending may have accepted the connection.
const TRIES: usize = 5;
const PAUSE: Duration = Duration::from_millis(100);
/// Number of pauses in which a holder that ended may be started again by others, such as systemd.
const RESTART_PAUSES: usize = 10;
/// The running program, even if its file was replaced.
const THIS: &str = "/proc/self/exe";

/// The holder at `socket`, if one answers.
///
/// # Errors
/// [`Error::Version`] if there is no common protocol version.
pub fn find(socket: &SocketPath) -> Result<Option<Holder>, Error> {
    for _ in 0..TRIES {
        match Holder::connect(socket.path()) {
            Ok(holder) => return Ok(Some(holder)),
            Err(Error::Absent { .. }) => return Ok(None),
            Err(Error::Broken(_)) => std::thread::sleep(PAUSE),
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// What to do where no holder answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Start one, which outlives this process.
    Start,
    /// Start one, which starts the node of this folder again while it does not run.
    StartWithNode(PathBuf),
    /// Report it absent: the holder is a service of its own, which is started again by others. A holder started here
    /// would take its socket, and might end with the container of this process.
    Await,
}

/// The holder at `socket`. Where there is none, it is started or reported absent.
///
/// # Errors
/// If there is none and it may not or cannot be started, or there is no common protocol version.
pub fn require(socket: &SocketPath, missing: &Missing) -> Result<Holder, Error> {
    match (find(socket)?, missing) {
        (Some(holder), _) => Ok(holder),
        (None, Missing::Start | Missing::StartWithNode(_)) => match find_restarted(socket)? {
            Some(holder) => Ok(holder),
            None => start_and_connect(socket, missing),
        },
        (None, Missing::Await) => {
            let source = std::io::Error::other("it is not started here (--start-holder false)");
            Err(Error::Absent { path: socket.path().to_owned(), source })
        }
    }
}

/// The next holder at a socket that an ended one left, if others start it soon. It could not start beside one that this
/// process started.
fn find_restarted(socket: &SocketPath) -> Result<Option<Holder>, Error> {
    for _ in 0..RESTART_PAUSES {
        if !socket.path().exists() {
            return Ok(None);
        }
        std::thread::sleep(PAUSE);
        if let Some(holder) = find(socket)? {
            return Ok(Some(holder));
        }
    }
    Ok(None)
}

fn start_and_connect(socket: &SocketPath, missing: &Missing) -> Result<Holder, Error> {
    let mut failed = String::new();
    for _ in 0..TRIES {
        failed = start(socket, missing).err().unwrap_or_default();
        // A concurrent start is no problem: either holder will do.
        match Holder::connect(socket.path()) {
            Err(error) if error.is_broken() => std::thread::sleep(PAUSE),
            found => return found,
        }
    }
    let source = std::io::Error::other(if failed.is_empty() { "it was started and is gone".into() } else { failed });
    Err(Error::Absent { path: socket.path().to_owned(), source })
}

/// Starts a holder that outlives this process; it listens when this returns.
fn start(socket: &SocketPath, missing: &Missing) -> Result<(), String> {
    let mut command = Command::new(THIS);
    command.arg0("amphora").args(["holder", "--detached", "--socket"]).arg(socket.path());
    if let Missing::StartWithNode(folder) = missing {
        command.arg("--node").arg(folder);
    }
    // It needs nothing from the environment, which may contain the root key.
    command.env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let ended = command.output().map_err(|error| format!("it cannot be started ({error})"))?;
    if ended.status.success() {
        if std::env::var_os("INVOCATION_ID").is_some() {
            tracing::warn!(
                "the holder was started within this service, and systemd ends it with the service unless that has \
                 KillMode=process: install amphora-holder.service to keep mounts"
            );
        }
        tracing::info!(%socket, "started a holder, which keeps mounts while no server runs");
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ended.stderr).trim().replace('\n', " ");
    Err(format!("it ended with {}: {said}", ended.status))
}

/// What a holder calls while nothing serves the mounts of the node with this folder: it starts the process that starts the
/// node, unless that process runs.
pub fn starter(folder: PathBuf) -> fuse::holder::Starter {
    Box::new(move || {
        let mut command = Command::new(THIS);
        command.arg0("amphora").args(["node", "--detached", "--again", "--state-dir"]).arg(&folder);
        command.env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // It leaves at once, with or without a process in the background. A failure is tried again.
        let _ = command.status();
    })
}
