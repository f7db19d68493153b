//! The FUSE device: requests are read from it, replies and notices are written to it, each in one system call.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// A descriptor of `/dev/fuse` that belongs to a mount.
#[derive(Clone, Debug)]
pub struct Device(Arc<OwnedFd>);

/// The outcome of waiting for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Received {
    /// A message of this many bytes.
    Message(usize),
    /// The mount was unmounted.
    Gone,
    /// No message: a signal interrupted the wait.
    Interrupted,
}

impl Device {
    /// The device behind `descriptor`.
    pub fn new(descriptor: OwnedFd) -> Self {
        Self(Arc::new(descriptor))
    }

    /// Waits for a message and returns its size, or `None` when the mount is gone.
    pub(crate) fn receive(&self, room: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match self.receive_unless(room, || false)? {
                Received::Message(len) => return Ok(Some(len)),
                Received::Gone => return Ok(None),
                Received::Interrupted => {}
            }
        }
    }

    /// Waits for a message. A signal ends the wait if `ends` returns true then.
    pub(super) fn receive_unless(&self, room: &mut [u8], ends: impl Fn() -> bool) -> io::Result<Received> {
        loop {
            match rustix::io::read(&self.0, &mut *room) {
                Ok(0) | Err(Errno::NODEV) => return Ok(Received::Gone),
                Ok(len) => return Ok(Received::Message(len)),
                Err(Errno::INTR) if ends() => return Ok(Received::Interrupted),
                // The request was interrupted before it was read, or a signal interrupted this call.
                Err(Errno::NOENT | Errno::INTR | Errno::AGAIN) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Waits until a message can be read or the mount is gone.
    pub(crate) fn wait(&self) {
        let mut descriptors = [PollFd::new(&self.0, PollFlags::IN)];
        while poll(&mut descriptors, None) == Err(Errno::INTR) {}
    }

    /// Whether a message can be read or the mount is gone.
    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready_within(Duration::ZERO)
    }

    /// Whether a message can be read or the mount is gone, now or within `limit`.
    pub(crate) fn is_ready_within(&self, limit: Duration) -> bool {
        let mut descriptors = [PollFd::new(&self.0, PollFlags::IN)];
        let limit = Timespec { tv_sec: limit.as_secs().cast_signed(), tv_nsec: limit.subsec_nanos().into() };
        // After a failed poll the next read reports the error.
        poll(&mut descriptors, Some(&limit)).unwrap_or(1) > 0
    }

    /// Sends a message.
    pub(crate) fn send(&self, message: &[u8]) -> rustix::io::Result<()> {
        rustix::io::write(&self.0, message).map(drop)
    }

    /// Sends a message whose head and body lie in two buffers.
    pub(crate) fn send_both(&self, head: &[u8], body: &[u8]) -> rustix::io::Result<()> {
        rustix::io::writev(&self.0, &[IoSlice::new(head), IoSlice::new(body)]).map(drop)
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_in_two_places_arrives_as_one() {
        let (reader, writer) = rustix::net::socketpair(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::SEQPACKET,
            rustix::net::SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        Device::new(writer).send_both(b"head", b"body").unwrap();
        let mut room = [0; 16];
        assert_eq!(Device::new(reader).receive(&mut room).unwrap(), Some(8));
        assert_eq!(&room[..8], b"headbody");
    }
}
