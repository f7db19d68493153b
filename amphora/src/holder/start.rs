//! How a server finds its holder, and starts one where none is.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use fuse::holder::{Error, Holder};

use crate::config::SocketPath;

/// How often to try: a holder that is just ending may have taken the connection with it.
const TRIES: usize = 5;
const PAUSE: Duration = Duration::from_millis(100);
/// This very program, also where its file was replaced since.
const THIS: &str = "/proc/self/exe";

/// The holder that answers at `socket`, if one does.
///
/// # Errors
/// [`Error::Version`] if it cannot be understood.
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

/// The holder that answers at `socket`, started if there is none.
///
/// # Errors
/// If it cannot be started or understood.
pub fn find_or_start(socket: &SocketPath) -> Result<Holder, Error> {
    if let Some(holder) = find(socket)? {
        return Ok(holder);
    }
    let mut failed = String::new();
    for _ in 0..TRIES {
        failed = start(socket).err().unwrap_or_default();
        // Another may have been started at the same time; either is fine.
        match Holder::connect(socket.path()) {
            Err(error) if error.is_broken() => std::thread::sleep(PAUSE),
            found => return found,
        }
    }
    let source = std::io::Error::other(if failed.is_empty() { "it was started and is gone".into() } else { failed });
    Err(Error::Absent { path: socket.path().to_owned(), source })
}

/// Starts a holder that outlives this process; it listens when this returns.
fn start(socket: &SocketPath) -> Result<(), String> {
    let mut command = Command::new(THIS);
    command.arg0("amphora").args(["holder", "--detached", "--socket"]).arg(socket.path());
    // It needs nothing from the environment, which may hold the root key.
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
