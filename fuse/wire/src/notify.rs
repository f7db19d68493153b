//! Notices: messages that the server sends to the kernel without a request, chiefly cache invalidations.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;

use rustix::io::Errno;

use super::abi::notice;
use super::device::Device;
use super::reply::Frame;

/// A notice to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice<'a> {
    /// Drops a cached name of a directory, or its cached absence.
    Entry(u64, &'a OsStr),
    /// Drops the cached attributes and ACLs of a node.
    Attributes(u64),
    /// Drops the cached attributes, ACLs and pages of a node.
    Content(u64),
    /// Asks the kernel to resend all requests that were read and not answered.
    Resend,
}

impl Notice<'_> {
    fn encode(&self) -> (i32, Frame) {
        let mut frame = Frame::new();
        let code = match *self {
            Self::Entry(parent, name) => {
                frame.u64(parent).u32(u32::try_from(name.len()).unwrap_or(u32::MAX)).u32(0);
                notice::INVAL_ENTRY
            }
            // A negative offset leaves the pages cached; a length of 0 means up to the end of the file.
            Self::Attributes(node) => {
                frame.u64(node).i64(-1).i64(0);
                notice::INVAL_INODE
            }
            Self::Content(node) => {
                frame.u64(node).i64(0).i64(0);
                notice::INVAL_INODE
            }
            Self::Resend => notice::RESEND,
        };
        (code, frame)
    }
}

/// Encodes a notice.
pub fn message(notice: Notice<'_>) -> Vec<u8> {
    let (code, mut frame) = notice.encode();
    match notice {
        Notice::Entry(_, name) => {
            let name: Vec<u8> = name.as_bytes().iter().copied().chain([0]).collect();
            [frame.seal_notice(code, name.len()), &name].concat()
        }
        _ => frame.seal_notice(code, 0).to_vec(),
    }
}

/// Sends a notice. Returns whether the kernel knew the node and name.
///
/// # Errors
/// The system's error, if the kernel does not take the notice.
pub fn notify(device: &Device, notice: Notice<'_>) -> io::Result<bool> {
    told(device.send(&message(notice)))
}

/// Reads the kernel's answer to a notice: whether it knew the node and name.
///
/// # Errors
/// The system's error, if the kernel did not take the notice.
pub fn told(sent: rustix::io::Result<()>) -> io::Result<bool> {
    match sent {
        Ok(()) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::Fields;

    fn sent(notice: Notice<'_>) -> Vec<u8> {
        use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
        let (reader, writer) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        assert!(notify(&Device::new(writer), notice).unwrap());
        let mut room = vec![0; 512];
        let len = Device::new(reader).receive(&mut room).unwrap().unwrap();
        room.truncate(len);
        room
    }

    #[test]
    fn a_name_comes_with_its_directory() {
        let bytes = sent(Notice::Entry(7, OsStr::new("name")));
        let mut fields = Fields::new(&bytes);
        assert_eq!(fields.u32(), Ok(37));
        assert_eq!(fields.u32(), Ok(notice::INVAL_ENTRY as u32));
        assert_eq!(fields.u64(), Ok(0), "a notice has no request");
        assert_eq!((fields.u64(), fields.u32(), fields.u32()), (Ok(7), Ok(4), Ok(0)));
        assert_eq!(fields.name(), Ok(OsStr::new("name")));
        assert!(fields.rest().is_empty());
    }

    #[test]
    fn attributes_leave_pages_alone() {
        assert_eq!(sent(Notice::Attributes(7))[24..32], (-1i64).to_ne_bytes());
        assert_eq!(sent(Notice::Content(7))[24..32], 0i64.to_ne_bytes());
        assert_eq!(sent(Notice::Resend).len(), 16);
    }
}
