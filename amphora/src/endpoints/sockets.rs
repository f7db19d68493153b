//! Unix sockets that only root and the server's own user may connect to.
//!
//! - The mode is set before the socket listens, so that no other user can connect in between.
//! - A socket with a listening process is left alone; one without is a leftover of a crash, and is replaced.
//! - A socket's file is removed while it still listens, so that it cannot be another process's file.

use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tokio::net::UnixListener;

use crate::config::SocketPath;
use crate::failure::Failure;
use crate::process::PassedSockets;

/// The most connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// The sockets of a server. Dropping it removes their files, while the listeners still exist.
#[derive(Default)]
pub(crate) struct Sockets(Vec<(&'static str, SocketFile)>);

impl Sockets {
    /// Opens the socket of the flag `--NAME-endpoint`: inherited, or newly bound.
    pub(crate) fn open(
        &mut self,
        name: &'static str,
        path: &SocketPath,
        passed: &mut PassedSockets,
    ) -> Result<UnixListener, Failure> {
        let (listener, file) = match passed.socket(name).and_then(|socket| inherited(socket, path)) {
            Some(inherited) => inherited,
            None => bind(&format!("--{name}-endpoint"), path)?,
        };
        passed.keep(name, &listener);
        self.0.push((name, file));
        Ok(listener)
    }

    /// Leaves the files for the process that receives the sockets.
    pub(crate) fn leave(self) {
        std::mem::forget(self);
    }
}

impl std::fmt::Display for Sockets {
    /// The sockets in the form of the ready line: `admin=unix://… csi=unix://…`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words: Vec<_> = self.0.iter().map(|(name, file)| format!("{name}={}", file.0)).collect();
        f.write_str(&words.join(" "))
    }
}

/// The file of a bound socket.
struct SocketFile(SocketPath);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // If it cannot be removed, the next start finds a stale socket.
        let _ = std::fs::remove_file(self.0.path());
    }
}

/// An inherited socket that already listens at the path.
fn inherited(socket: OwnedFd, path: &SocketPath) -> Option<(UnixListener, SocketFile)> {
    let listener = std::os::unix::net::UnixListener::from(socket);
    let fits = listener.local_addr().ok()?.as_pathname() == Some(path.path()) && path.path().exists();
    listener.set_nonblocking(true).ok()?;
    let listener = fits.then(|| UnixListener::from_std(listener).ok()).flatten()?;
    Some((listener, SocketFile(path.clone())))
}

/// Binds a socket and listens on it. `flag` names it in errors.
fn bind(flag: &str, path: &SocketPath) -> Result<(UnixListener, SocketFile), Failure> {
    path.make_folder().and_then(|()| clear_way(path)).and_then(|()| listen(path)).map_err(|why| {
        let variable = flag.trim_start_matches('-').replace('-', "_").to_uppercase();
        Failure::failed(format!("{path} cannot be served: {why}; name another with {flag} or AMPHORA_{variable}"))
    })
}

fn clear_way(path: &SocketPath) -> Result<(), String> {
    let found = match std::fs::symlink_metadata(path.path()) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    if !found.file_type().is_socket() {
        return Err("the path has a file that is not a socket".into());
    }
    match UnixStream::connect(path.path()) {
        Ok(_) => Err("a running process, perhaps another server, answers at this path".into()),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path.path()).map_err(|error| format!("the stale socket cannot be removed ({error})"))
        }
        Err(error) => Err(format!("connecting to the socket at this path fails ({error})")),
    }
}

fn listen(path: &SocketPath) -> Result<(UnixListener, SocketFile), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket: OwnedFd =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(|error| text(&error))?;
    let address = SocketAddrUnix::new(path.path()).map_err(|error| text(&error))?;
    rustix::net::bind(&socket, &address).map_err(|error| text(&error))?;
    let file = SocketFile(path.clone());
    std::fs::set_permissions(path.path(), std::fs::Permissions::from_mode(0o600)).map_err(|error| text(&error))?;
    rustix::net::listen(&socket, BACKLOG).map_err(|error| text(&error))?;
    let listener = UnixListener::from_std(socket.into()).map_err(|error| text(&error))?;
    Ok((listener, file))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(dir: &tempfile::TempDir, name: &str) -> SocketPath {
        SocketPath::new(&dir.path().join(name)).expect("short")
    }

    #[tokio::test]
    async fn a_socket_is_private_and_goes_with_its_owner() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = path(&dir, "run/a.sock");
        let (listener, file) = bind("--a-endpoint", &path).expect("bound");
        let mode = std::fs::metadata(path.path()).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop((listener, file));
        assert!(!path.path().exists());
    }

    #[tokio::test]
    async fn a_live_socket_is_left_alone_and_a_stale_one_replaced() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = path(&dir, "a.sock");
        let stale = std::os::unix::net::UnixListener::bind(path.path()).expect("bound");
        let text = bind("--a-endpoint", &path).err().expect("refused").to_string();
        assert!(text.contains("--a-endpoint") && text.contains("AMPHORA_A_ENDPOINT"), "{text}");
        assert!(text.contains("running process"), "{text}");
        drop(stale);
        assert!(path.path().exists(), "std leaves the file");
        bind("--a-endpoint", &path).expect("replaced");
    }

    #[tokio::test]
    async fn a_file_that_is_no_socket_is_left_alone() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = path(&dir, "a.sock");
        std::fs::write(path.path(), "mine").expect("written");
        let text = bind("--a-endpoint", &path).err().expect("refused").to_string();
        assert!(text.contains("not a socket"), "{text}");
        assert_eq!(std::fs::read_to_string(path.path()).expect("kept"), "mine");
    }
}
