//! The role `amphora holder`: keeps the mounts of a server while that server is restarted, killed or replaced.
//!
//! - It starts no runtime, opens no store and no other file: a few MiB that never have a reason to end.
//! - Started by a server, it leaves that server's session and process group, and ends once it holds nothing. As a
//!   service of its own, it stays until it is stopped.
//!
//! What its death leaves: nothing lost while the server runs, which finds or starts the next one (`fuse::holder`).

mod start;

pub use start::{find, find_or_start};

use clap::Args;
use fuse::holder::{Lifetime, Service};

use crate::config::{Env, SocketPath};
use crate::failure::Failure;
use crate::serve::Notify;

/// What a holder and a server tell each other about themselves.
const PROGRAM: &str = concat!("amphora ", env!("CARGO_PKG_VERSION"));

/// Where to listen, and for how long.
#[derive(Debug, Args)]
pub struct Holder {
    /// Where servers reach it
    #[arg(long, value_name = "unix://PATH")]
    socket: SocketPath,
    /// Leave the session of whoever starts it, and end when there is nothing to hold: how `serve` starts it
    #[arg(long)]
    detached: bool,
}

impl Holder {
    /// Holds until it is not needed any more.
    ///
    /// # Errors
    /// [`Failure::Failed`] when it cannot begin.
    pub fn run(self, env: Env<'_>) -> Result<(), Failure> {
        let Self { socket, detached } = self;
        crate::process::forbid_core_dumps();
        if detached {
            close_inherited();
        }
        let failed = |why: String| Failure::failed(format!("nothing can be held at {socket}: {why}"));
        socket.make_folder().map_err(failed)?;
        let lifetime = if detached { Lifetime::WhileNeeded } else { Lifetime::Forever };
        let service = Service::bind(socket.path(), PROGRAM, lifetime).map_err(|error| failed(error.to_string()))?;
        if detached {
            // Listening already, so whoever started it can connect as soon as this returns there.
            detach().map_err(|error| failed(format!("it cannot leave its session ({error})")))?;
        }
        survive();
        Notify::new(env).ready();
        service.run().map_err(|error| failed(error.to_string()))
    }
}

/// Whoever started the starter may wait for the end of a pipe that neither of them knows of.
fn close_inherited() {
    // SAFETY: close_range(2) on all but the standard streams; this process has opened nothing yet.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
}

/// Goes on in a child of its own session, in the root folder, with nothing on its standard streams; the process that
/// was started ends well.
fn detach() -> std::io::Result<()> {
    // SAFETY: daemon(3) forks and redirects. This process has a single thread, so the child misses none.
    match unsafe { libc::daemon(0, 0) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Memory that runs out has larger and less needed owners. Who may not say so is no worse off than before.
fn survive() {
    let _ = std::fs::write("/proc/self/oom_score_adj", "-900");
    trim();
}

/// What parsing the command line needed goes back to the system.
#[cfg(target_env = "gnu")]
fn trim() {
    // SAFETY: malloc_trim(3) gives free memory back and touches nothing that is in use.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(target_env = "gnu"))]
fn trim() {}
