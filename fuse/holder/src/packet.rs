//! Packets on the holder's socket: bytes and up to four descriptors, delivered whole or not at all.

use std::io::{Error, ErrorKind, IoSlice, IoSliceMut, Result};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

/// The largest packet in bytes; a socket's buffer has room for several.
pub(super) const BYTES_MAX: usize = 40 * 1024;
/// The most descriptors in one packet.
pub(super) const DESCRIPTORS_MAX: usize = 4;

const SPACE: usize = rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX));

/// A received packet.
#[derive(Debug)]
pub(super) struct Packet {
    pub bytes: Vec<u8>,
    pub descriptors: Vec<OwnedFd>,
}

/// Sends a packet. On a non-blocking socket it fails with [`ErrorKind::WouldBlock`] if the peer does not read.
pub(super) fn send(socket: impl AsFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<()> {
    if descriptors.len() > DESCRIPTORS_MAX {
        return Err(Error::new(ErrorKind::InvalidInput, "too many descriptors for one packet"));
    }
    let mut space = [MaybeUninit::uninit(); SPACE];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    let sent = sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?;
    if sent == bytes.len() { Ok(()) } else { Err(ErrorKind::WriteZero.into()) }
}

/// Receives the next packet; `None` once the peer has closed the connection. Descriptors are closed on exec.
///
/// # Errors
/// [`ErrorKind::InvalidData`] for a packet that is too long or has too many descriptors; those received are closed.
pub(super) fn receive(socket: impl AsFd) -> Result<Option<Packet>> {
    let mut bytes = vec![0; BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); SPACE];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    // The space for descriptors is rounded up, so one more than asked for may arrive.
    let lost = received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC);
    if lost || descriptors.len() > DESCRIPTORS_MAX {
        return Err(Error::new(ErrorKind::InvalidData, "a packet was too long, or descriptors were lost"));
    }
    if received.bytes == 0 {
        return Ok(None);
    }
    bytes.truncate(received.bytes);
    bytes.shrink_to_fit();
    Ok(Some(Packet { bytes, descriptors }))
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    fn pair() -> (OwnedFd, OwnedFd) {
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
    }

    #[test]
    fn packets_keep_their_bounds_and_descriptors() {
        let (here, there) = pair();
        let (file, other) = (std::fs::File::open("/dev/null").unwrap(), std::fs::File::open("/dev/zero").unwrap());
        send(&here, b"one", &[file.as_fd(), other.as_fd()]).unwrap();
        send(&here, &vec![7; BYTES_MAX], &[]).unwrap();
        let first = receive(&there).unwrap().unwrap();
        assert_eq!((first.bytes.as_slice(), first.descriptors.len()), (b"one".as_slice(), 2));
        let found = rustix::fs::fstat(&first.descriptors[1]).unwrap();
        assert_eq!(found.st_rdev, rustix::fs::fstat(&other).unwrap().st_rdev);
        assert_eq!(receive(&there).unwrap().unwrap().bytes, vec![7; BYTES_MAX]);
        drop(here);
        assert!(receive(&there).unwrap().is_none());
    }

    #[test]
    fn what_is_too_large_is_refused_and_leaves_nothing_open() {
        let (here, there) = pair();
        let (read, write) = rustix::pipe::pipe().unwrap();
        assert!(send(&here, b"x", &[write.as_fd(); DESCRIPTORS_MAX + 1]).is_err());
        send(&here, &vec![7; BYTES_MAX + 1], &[write.as_fd()]).unwrap();
        drop(write);
        assert_eq!(receive(&there).unwrap_err().kind(), ErrorKind::InvalidData);
        // The last writer is closed, so reading ends.
        assert_eq!(rustix::io::read(&read, &mut [0; 1]).unwrap(), 0);
    }
}
