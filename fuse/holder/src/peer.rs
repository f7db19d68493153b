//! The user at the other end of a Unix socket, as the kernel reports it (unix(7), SO_PEERCRED).
//!
//! A peer is identified by its user alone. Its process id says nothing in a container: the kernel reports 0 for a process
//! that is not visible in the own PID namespace, and the same number means another process in another namespace.

use std::io::{Error, Result};
use std::os::fd::{AsFd, AsRawFd};

use rustix::process::Uid;

/// The user of the process that connected or listened. A user without a number in the own user namespace is reported as
/// the overflow user (65534), which is never root.
///
/// rustix has a call for it, but its process id cannot be 0: it takes the answer about a process of another PID namespace
/// for an error.
///
/// # Errors
/// The system's error, if this is not a connected Unix socket.
pub(super) fn user(socket: impl AsFd) -> Result<Uid> {
    let mut found = libc::ucred { pid: 0, uid: libc::uid_t::MAX, gid: libc::gid_t::MAX };
    let mut len = libc::socklen_t::try_from(size_of::<libc::ucred>()).unwrap_or_default();
    let descriptor = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel writes at most `len` bytes to `found`, which has that many and lives through the call.
    let status = unsafe {
        libc::getsockopt(descriptor, libc::SOL_SOCKET, libc::SO_PEERCRED, (&raw mut found).cast(), &raw mut len)
    };
    if status != 0 {
        return Err(Error::last_os_error());
    }
    // A socket without a peer has no user: -1.
    if usize::try_from(len) != Ok(size_of::<libc::ucred>()) || found.uid == libc::uid_t::MAX {
        return Err(Error::other("the system reports no user for this socket"));
    }
    Ok(Uid::from_raw(found.uid))
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with, socketpair};

    use super::*;

    #[test]
    fn the_user_of_a_peer_is_reported_and_there_is_none_without_a_peer() {
        let (here, _there) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        assert_eq!(user(&here).unwrap(), rustix::process::geteuid());
        let alone = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        assert!(user(alone).is_err() && user(std::fs::File::open("/dev/null").unwrap()).is_err());
    }
}
