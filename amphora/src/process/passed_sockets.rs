//! Listening sockets passed from one process to the next: in an upgrade, or by systemd.
//!
//! - An upgrade names them in [`VARIABLE`], as `PID:s3=12,http=13`; systemd in `LISTEN_FDS` and related variables
//!   (sd_listen_fds(3)), with the same names in `FileDescriptorName=`.
//! - An endpoint takes the socket of its name if it listens at the endpoint's address; unused sockets are closed.
//! - Connections made between the two processes wait in the socket.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::process::Command;

use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
use rustix::net::sockopt::socket_acceptconn;

use super::Env;

/// The variable that names the sockets of an upgrade.
pub(super) const VARIABLE: &str = "AMPHORA_PASSED_SOCKETS";
/// The first descriptor that systemd passes.
const SYSTEMD_FIRST: RawFd = 3;

/// Sockets by the names of their endpoints.
#[derive(Debug, Default)]
pub(crate) struct PassedSockets {
    /// Received from the previous process and not used yet.
    came: BTreeMap<String, OwnedFd>,
    /// To pass to the next process.
    going: BTreeMap<String, OwnedFd>,
}

impl PassedSockets {
    /// The sockets that this process was started with. Must be called once, before it opens anything.
    pub fn take(env: Env<'_>) -> Self {
        let text = |name: &str| env(name).and_then(|value| value.into_string().ok()).unwrap_or_default();
        let pid = std::process::id().to_string();
        let named = match text(VARIABLE).split_once(':') {
            Some((to, list)) if to == pid => own_list(list),
            _ if text("LISTEN_PID") == pid => systemd_list(&text("LISTEN_FDS"), &text("LISTEN_FDNAMES")),
            _ => Vec::new(),
        };
        let came = named.into_iter().filter_map(|(name, number)| Some((name, own(number)?))).collect();
        Self { came, going: BTreeMap::new() }
    }

    /// Takes the socket of an endpoint.
    pub fn socket(&mut self, name: &str) -> Option<OwnedFd> {
        self.came.remove(name)
    }

    /// Keeps a duplicate of an endpoint's socket to pass on.
    pub fn keep(&mut self, name: &str, socket: impl AsFd) {
        match socket.as_fd().try_clone_to_owned() {
            Ok(copy) => drop(self.going.insert(name.to_owned(), copy)),
            Err(error) => {
                tracing::warn!(%error, endpoint = name, "an upgrade will bind this endpoint again, and drop connections meanwhile");
            }
        }
    }

    /// Makes `command` inherit all sockets and their names.
    pub fn hand_on(&self, command: &mut Command) -> std::io::Result<()> {
        for socket in self.going.values() {
            fcntl_setfd(socket, FdFlags::empty())?;
        }
        let list: Vec<_> = self.going.iter().map(|(name, socket)| format!("{name}={}", socket.as_raw_fd())).collect();
        command.env(VARIABLE, format!("{}:{}", std::process::id(), list.join(",")));
        for name in ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"] {
            command.env_remove(name);
        }
        Ok(())
    }
}

fn own_list(list: &str) -> Vec<(String, RawFd)> {
    let pairs = list.split(',').filter_map(|pair| pair.split_once('='));
    pairs.filter_map(|(name, number)| Some((name.to_owned(), number.parse().ok()?))).collect()
}

fn systemd_list(count: &str, names: &str) -> Vec<(String, RawFd)> {
    let count = count.parse().unwrap_or(0);
    names.split(':').map(str::to_owned).zip(SYSTEMD_FIRST..).take(count).collect()
}

/// Takes ownership of an inherited descriptor, if it is a listening socket.
fn own(number: RawFd) -> Option<OwnedFd> {
    if number < SYSTEMD_FIRST {
        return None;
    }
    // SAFETY: borrowed for two system calls; a closed number is answered with EBADF.
    let asked = unsafe { BorrowedFd::borrow_raw(number) };
    if fcntl_getfd(asked).is_err() || !socket_acceptconn(asked).unwrap_or(false) {
        tracing::warn!(number, "an inherited descriptor is not a listening socket");
        return None;
    }
    // SAFETY: it is open, and was passed to this process by number to be owned. Nothing else here owns it, because
    // nothing was opened before.
    let socket = unsafe { OwnedFd::from_raw_fd(number) };
    fcntl_setfd(&socket, FdFlags::CLOEXEC).ok()?;
    Some(socket)
}

#[cfg(test)]
mod tests {
    use std::os::fd::IntoRawFd as _;

    use super::*;

    fn listening() -> (RawFd, u16) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
        let port = listener.local_addr().expect("an address").port();
        (listener.into_raw_fd(), port)
    }

    #[test]
    fn sockets_are_taken_by_name() {
        let ((s3, port), (other, _)) = (listening(), listening());
        let pid = std::process::id();
        let value = format!("{pid}:s3={s3},admin={other},file=1,gone=99999,broken");
        let mut passed = PassedSockets::take(&|name| (name == VARIABLE).then(|| value.clone().into()));
        assert_eq!(passed.came.keys().collect::<Vec<_>>(), ["admin", "s3"]);
        let socket = std::net::TcpListener::from(passed.socket("s3").expect("passed"));
        assert_eq!(socket.local_addr().expect("an address").port(), port);
        assert!(passed.socket("s3").is_none());
    }

    #[test]
    fn sockets_of_another_process_are_left_alone() {
        let (number, _) = listening();
        let value = format!("1:s3={number}");
        assert!(PassedSockets::take(&|name| (name == VARIABLE).then(|| value.clone().into())).came.is_empty());
        assert!(own(number).is_some(), "still open");
    }

    #[test]
    fn systemd_names_them_in_order() {
        assert_eq!(systemd_list("2", "s3:http:more"), [("s3".to_owned(), 3), ("http".to_owned(), 4)]);
        assert_eq!(systemd_list("", ""), []);
    }

    #[test]
    fn what_is_kept_is_named_for_the_next() {
        let mut passed = PassedSockets::default();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
        passed.keep("s3", &listener);
        let mut command = Command::new("true");
        passed.hand_on(&mut command).expect("passed on");
        let number = passed.going["s3"].as_raw_fd();
        let value = command.get_envs().find(|(name, _)| *name == VARIABLE).and_then(|(_, value)| value);
        assert_eq!(value.expect("set").to_str(), Some(format!("{}:s3={number}", std::process::id()).as_str()));
        assert!(!fcntl_getfd(&passed.going["s3"]).expect("open").contains(FdFlags::CLOEXEC));
    }
}
