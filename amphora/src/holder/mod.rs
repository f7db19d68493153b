//! The command `amphora holder`: the fd holder, which keeps a server's mounts while the server is restarted, killed or
//! replaced.
//!
//! - It starts no runtime, and opens neither a store nor any other file. It takes a few MiB and has no reason to fail.
//! - If a server started it, it leaves that server's session and process group, and ends once it holds nothing. As a
//!   service of its own it runs until it is stopped.
//!
//! Its death loses nothing while the server runs, which finds or starts the next holder (`fuse::holder`).

mod start;

pub use start::{Missing, find, require};

use std::path::PathBuf;

use clap::Args;
use fuse::holder::{Closes, Lifetime, Service};

use crate::config::{Env, SocketPath};
use crate::failure::Failure;
use crate::process::Notify;

/// The program name and version that holder and server exchange.
const PROGRAM: &str = concat!("amphora ", env!("CARGO_PKG_VERSION"));

/// The holder's socket and lifetime.
#[derive(Debug, Args)]
pub struct Holder {
    /// Socket at which servers connect
    #[arg(long, value_name = "unix://PATH")]
    socket: SocketPath,
    /// Leave the session of the starting process, and end when no mount is held; `serve` starts the holder in this way
    #[arg(long)]
    detached: bool,
    /// Start the node of this folder while no process serves the mounts; `amphora mount --server` uses it
    #[arg(long, value_name = "DIR", hide = true)]
    node: Option<PathBuf>,
}

impl Holder {
    /// Runs until the holder is no longer needed.
    ///
    /// # Errors
    /// [`Failure::Failed`] if it cannot start.
    pub fn run(self, env: Env<'_>) -> Result<(), Failure> {
        let Self { socket, detached, node } = self;
        crate::process::forbid_core_dumps();
        if detached {
            close_inherited();
        }
        let failed = |why: String| Failure::failed(format!("the holder cannot start at {socket}: {why}"));
        socket.make_folder().map_err(failed)?;
        let lifetime = if detached { Lifetime::WhileNeeded } else { Lifetime::Forever };
        let service = Service::bind(socket.path(), PROGRAM, lifetime).map_err(|error| failed(error.to_string()))?;
        let service = service.with_attendant(Box::<Closes>::default());
        let service = match node {
            Some(folder) => service.with_starter(start::starter(folder)),
            None => service,
        };
        if detached {
            // It listens already, so the starter can connect as soon as the parent process ends.
            detach().map_err(|error| failed(format!("it cannot leave its session ({error})")))?;
        }
        survive();
        Notify::new(env).ready();
        service.run().map_err(|error| failed(error.to_string()))
    }
}

/// Closes inherited descriptors: the starter's parent may wait for the end of a pipe that neither of them knows of.
fn close_inherited() {
    // SAFETY: close_range(2) on all but the standard streams; this process has opened nothing yet.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
}

/// Continues in a child process with its own session, in the root folder, with no standard streams; the parent exits
/// successfully.
fn detach() -> std::io::Result<()> {
    // SAFETY: daemon(3) forks and redirects. This process has a single thread, so the child misses none.
    match unsafe { libc::daemon(0, 0) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Protects the process from the OOM killer, since others use more memory. Without the right to do so nothing changes.
fn survive() {
    let _ = std::fs::write("/proc/self/oom_score_adj", "-900");
    trim();
}

/// Returns the memory of command-line parsing to the system.
#[cfg(target_env = "gnu")]
fn trim() {
    // SAFETY: malloc_trim(3) returns free memory and touches nothing in use.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(target_env = "gnu"))]
fn trim() {}
