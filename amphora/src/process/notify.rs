//! Notifications to systemd (sd_notify(3)): one datagram to the socket that `NOTIFY_SOCKET` names.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use super::Env;

/// The notification socket; `None` without systemd.
pub(crate) struct Notify(Option<SocketAddr>);

impl Notify {
    pub(crate) fn new(env: Env<'_>) -> Self {
        let socket = env("NOTIFY_SOCKET").and_then(|name| match name.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name).ok(),
            path => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(path)).ok(),
        });
        Self(socket)
    }

    /// Reports that every endpoint is open.
    pub(crate) fn ready(&self) {
        self.send("READY=1");
    }

    /// Reports that the process continues as another program, which reports when it is ready.
    pub(crate) fn reloading(&self) {
        self.send("RELOADING=1");
    }

    /// Reports that the endpoints are closing.
    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1");
    }

    fn send(&self, state: &str) {
        let Some(socket) = &self.0 else { return };
        let sent = UnixDatagram::unbound().and_then(|from| from.send_to_addr(state.as_bytes(), socket));
        if let Err(error) = sent {
            tracing::warn!(%error, state, "cannot notify systemd");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systemd_hears_one_line() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("notify");
        let systemd = UnixDatagram::bind(&path).expect("bound");
        Notify::new(&|name| (name == "NOTIFY_SOCKET").then(|| path.clone().into())).ready();
        let mut heard = [0; 64];
        let bytes = systemd.recv(&mut heard).expect("a datagram");
        assert_eq!(&heard[..bytes], b"READY=1");
        Notify::new(&|_| None).ready();
    }
}
