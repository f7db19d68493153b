//! A session that answers every request with an error, for a mount whose volume cannot be opened.
//!
//! - It needs nothing of the mount's INIT agreement: request headers look alike in all sessions.

use std::io;

use super::abi::{WRITE_HEADER_BYTES, opcode};
use super::device::Device;
use super::notify::{Notice, notify};
use super::reply::Frame;
use super::request::{Header, is_silent};

/// The most data in a request that any version of this program allows the kernel, in bytes.
const DATA_BYTES_MAX: usize = 1 << 20;

/// Answers all requests with `errno`, including those that an earlier server left unanswered, until the mount is gone.
///
/// # Errors
/// The system's error, if the device cannot be read or written.
pub fn refuse_all(device: &Device, errno: i32) -> io::Result<()> {
    notify(device, Notice::Resend)?;
    let mut buffer = vec![1; WRITE_HEADER_BYTES + DATA_BYTES_MAX];
    while let Some(len) = device.receive(&mut buffer)? {
        let Ok(header) = Header::decode(&buffer[..len]) else { continue };
        // An interrupted request is refused soon anyway.
        if is_silent(header.opcode) || header.opcode == opcode::INTERRUPT {
            continue;
        }
        match device.send(Frame::new().seal_error(header.context.ticket(), errno)) {
            // The caller no longer waits for the reply.
            Ok(()) | Err(rustix::io::Errno::NOENT | rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::NODEV) => break,
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;
    use crate::abi::IN_HEADER_BYTES;

    fn request(code: u32, ticket: u64) -> Vec<u8> {
        let mut bytes = vec![0; IN_HEADER_BYTES];
        bytes[..4].copy_from_slice(&(IN_HEADER_BYTES as u32).to_ne_bytes());
        bytes[4..8].copy_from_slice(&code.to_ne_bytes());
        bytes[8..16].copy_from_slice(&ticket.to_ne_bytes());
        bytes
    }

    #[test]
    fn each_request_that_takes_an_answer_gets_the_error() {
        let (kernel, server): (OwnedFd, OwnedFd) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let kernel = Device::new(kernel);
        let running = std::thread::spawn(move || refuse_all(&Device::new(server), libc::EIO));
        let mut room = [0; 64];
        assert_eq!(kernel.receive(&mut room).unwrap(), Some(16), "what was left unanswered is asked for again");
        for silent in [opcode::FORGET, opcode::BATCH_FORGET, opcode::INTERRUPT] {
            kernel.send(&request(silent, 2)).unwrap();
        }
        kernel.send(&[0; 7]).unwrap();
        // A resent request bears a mark in its number, and so does its reply.
        for ticket in [4, 1 << 63 | 6] {
            kernel.send(&request(opcode::GETATTR, ticket)).unwrap();
            assert_eq!(kernel.receive(&mut room).unwrap(), Some(16));
            assert_eq!(room[4..8], (-libc::EIO).to_ne_bytes());
            assert_eq!(room[8..16], ticket.to_ne_bytes());
        }
        drop(kernel);
        running.join().unwrap().unwrap();
    }
}
