//! A TCP port reserved for a server, also while the server does not run.
//!
//! - A bound socket that never listens holds it: the system does not assign the port to others, and clients are refused
//!   while no server listens.
//! - The server can still listen on it, since both sockets set `SO_REUSEADDR` (socket(7)).

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;

use rustix::net::sockopt::set_socket_reuseaddr;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with};

/// A port of 127.0.0.1, held until this is dropped.
#[derive(Debug)]
pub(crate) struct Port {
    address: SocketAddrV4,
    _held: OwnedFd,
}

impl Port {
    /// Reserves a free port.
    pub(crate) fn take() -> Result<Self, String> {
        let taken = || -> rustix::io::Result<_> {
            let held = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
            set_socket_reuseaddr(&held, true)?;
            bind(&held, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
            let address = SocketAddrV4::try_from(getsockname(&held)?)?;
            Ok(Self { address, _held: held })
        };
        taken().map_err(|errno| format!("no port for a server: {errno}"))
    }

    /// The address, `127.0.0.1:PORT`.
    pub(crate) fn address(&self) -> SocketAddrV4 {
        self.address
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_reserved_port_belongs_to_its_owner_before_and_after_it_listens() {
        let port = Port::take().expect("a port");
        for _ in 0..2 {
            assert!(TcpStream::connect(port.address()).is_err(), "nobody listens");
            drop(TcpListener::bind(port.address()).expect("the owner may"));
        }
    }
}
