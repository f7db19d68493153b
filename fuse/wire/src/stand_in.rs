//! Standing in for the server of a mount while none runs, by the process that keeps its device.
//!
//! - Nothing is served here. A close that changes nothing is answered, and what the kernel forgets is noted. All other
//!   requests go back to the kernel's queue (RESEND), where a program that waits for one can still be killed.
//! - A program that is killed in the moment in which its request is read here would wait for the next server, and could not
//!   end before: its request is answered with EINTR at the next look, if it changes nothing and no other waits for it.
//! - An INTERRUPT is read and dropped: the kernel sends it again behind its request.
//! - No other process reads the device meanwhile. The caller sees to that, since RESEND would repeat what another is just
//!   serving.
//! - No read waits: a program may be killed, and take its request back, between the look at the device and the read. An
//!   alarm ends such a read.
//!
//! A crash leaves what was read with the kernel, which resends it to the next server.

use std::io;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::abi::Features;
use super::alarm::Alarm;
use super::device::{Device, Received};
use super::notify::{Notice, notify};
use super::operation::Operation;
use super::reply::Frame;
use super::request::Request;

/// After how long a read that waits is ended.
const READ_MAX: Duration = Duration::from_millis(10);
/// How long to wait for the next request after a close was answered: a program that ends closes one file after the other.
const NEXT: Duration = Duration::from_millis(1);
/// How long such waits may keep other requests out of the kernel's queue.
const NEXT_MAX: Duration = Duration::from_millis(5);

/// What the process that stands in knows of a mount.
pub trait StandIn {
    /// Whether closing a descriptor of an open file changes nothing. `owner` is the process, as an owner of locks.
    fn may_close(&mut self, node: u64, handle: u64, owner: u64) -> bool;
    /// Whether this thread is being ended, and only waits for its request.
    fn is_ending(&self, thread: u32) -> bool;
    /// The kernel has returned references of a node.
    fn forget(&mut self, node: u64, lookups: u64);
}

/// What is left to the next server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Requests.
    Requests {
        /// How many.
        all: usize,
        /// How many of them no process has read before.
        fresh: usize,
    },
    /// Nothing: the mount is gone.
    Gone,
}

/// Reads all requests that wait, answers what may be answered, and gives the others back. `buffer` has room for the largest
/// request.
///
/// # Errors
/// The system's error, if the device cannot be read or written.
pub(super) fn stand_in(
    device: &Device,
    features: Features,
    buffer: &mut [u8],
    by: &mut impl StandIn,
) -> io::Result<Left> {
    let _alarm = Alarm::every(READ_MAX)?;
    let (mut all, mut fresh, mut wait, began) = (0, 0, Duration::ZERO, Instant::now());
    while device.is_ready_within(wait) {
        match device.receive_unless(buffer, || true)? {
            Received::Gone => return Ok(Left::Gone),
            Received::Interrupted => break,
            Received::Message(len) => match settle(device, features, &buffer[..len], by)? {
                Settled::Closed if began.elapsed() < NEXT_MAX => wait = NEXT,
                Settled::Closed | Settled::Noted => wait = Duration::ZERO,
                Settled::Left { resent } => {
                    (all, fresh, wait) = (all + 1, fresh + usize::from(!resent), Duration::ZERO);
                }
            },
        }
    }
    if all > 0 && is_gone(notify(device, Notice::Resend).map(drop))? {
        return Ok(Left::Gone);
    }
    Ok(Left::Requests { all, fresh })
}

/// What became of a request.
enum Settled {
    Closed,
    Noted,
    Left { resent: bool },
}

fn settle(device: &Device, features: Features, message: &[u8], by: &mut impl StandIn) -> io::Result<Settled> {
    // What is not understood is left to the server, which answers it.
    let Ok(request) = Request::decode(message, features) else { return Ok(Settled::Left { resent: false }) };
    let node = request.context.node;
    match request.operation {
        Operation::Flush { handle, owner } if by.may_close(node, handle, owner) => {
            match device.send(Frame::new().seal(request.context.ticket())) {
                // ENOENT: the program no longer waits.
                Ok(()) | Err(Errno::NOENT | Errno::NODEV) => Ok(Settled::Closed),
                Err(errno) => Err(errno.into()),
            }
        }
        Operation::Forget(lookups) => {
            by.forget(node, lookups);
            Ok(Settled::Noted)
        }
        Operation::BatchForget(forgets) => {
            forgets.iter().for_each(|(node, lookups)| by.forget(node, lookups));
            Ok(Settled::Noted)
        }
        Operation::NotifyReply | Operation::Interrupt(_) => Ok(Settled::Noted),
        Operation::Lookup(_)
        | Operation::GetAttr
        | Operation::StatX
        | Operation::ReadLink
        | Operation::StatFs
        | Operation::GetXattr { .. }
        | Operation::ListXattr { .. }
            if request.context.resent && by.is_ending(request.context.pid) =>
        {
            match device.send(Frame::new().seal_error(request.context.ticket(), libc::EINTR)) {
                Ok(()) | Err(Errno::NOENT | Errno::NODEV) => Ok(Settled::Noted),
                Err(errno) => Err(errno.into()),
            }
        }
        _ => Ok(Settled::Left { resent: request.context.resent }),
    }
}

/// Whether a notice failed because the mount is gone.
fn is_gone(told: io::Result<()>) -> io::Result<bool> {
    match told {
        Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ENOTCONN) => Ok(true),
        told => told.map(|()| false),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;
    use crate::abi::{Feature, IN_HEADER_BYTES, notice, opcode};

    const NOTHING: Left = Left::Requests { all: 0, fresh: 0 };

    #[derive(Default)]
    struct Known {
        closes: Vec<(u64, u64, u64)>,
        forgotten: Vec<(u64, u64)>,
    }

    impl StandIn for Known {
        fn may_close(&mut self, node: u64, handle: u64, owner: u64) -> bool {
            self.closes.push((node, handle, owner));
            owner == 8
        }

        fn is_ending(&self, thread: u32) -> bool {
            thread == 77
        }

        fn forget(&mut self, node: u64, lookups: u64) {
            self.forgotten.push((node, lookups));
        }
    }

    fn request(code: u32, unique: u64, args: &[u64]) -> Vec<u8> {
        let mut bytes = vec![0; IN_HEADER_BYTES];
        args.iter().for_each(|arg| bytes.extend_from_slice(&arg.to_ne_bytes()));
        let len = bytes.len() as u32;
        bytes[..4].copy_from_slice(&len.to_ne_bytes());
        bytes[4..8].copy_from_slice(&code.to_ne_bytes());
        bytes[8..16].copy_from_slice(&unique.to_ne_bytes());
        bytes[16..24].copy_from_slice(&5u64.to_ne_bytes());
        bytes
    }

    fn features() -> Features {
        Features::new(&[Feature::PosixLocks, Feature::FlockLocks])
    }

    fn pair() -> (Device, Device) {
        let (kernel, holder): (OwnedFd, OwnedFd) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        (Device::new(kernel), Device::new(holder))
    }

    #[test]
    fn closes_that_change_nothing_are_answered_and_the_rest_goes_back() {
        let (kernel, holder) = pair();
        let (mut by, mut buffer) = (Known::default(), vec![1; 8192]);
        kernel.send(&request(opcode::FLUSH, 2, &[3, 0, 8])).unwrap();
        kernel.send(&request(opcode::FORGET, 0, &[4])).unwrap();
        kernel.send(&request(opcode::INTERRUPT, 0, &[6])).unwrap();
        assert_eq!(stand_in(&holder, features(), &mut buffer, &mut by).unwrap(), NOTHING);
        for message in
            [request(opcode::FLUSH, 4, &[3, 0, 9]), request(opcode::GETATTR, 1 << 63 | 6, &[0, 0]), vec![0; 7]]
        {
            kernel.send(&message).unwrap();
        }
        assert_eq!(stand_in(&holder, features(), &mut buffer, &mut by).unwrap(), Left::Requests { all: 3, fresh: 2 });
        assert_eq!((&by.closes[..], &by.forgotten[..]), (&[(5, 3, 8), (5, 3, 9)][..], &[(5, 4)][..]));
        let mut room = [0; 64];
        assert_eq!(kernel.receive(&mut room).unwrap(), Some(16));
        assert_eq!((&room[4..8], &room[8..16]), (&[0; 4][..], &2u64.to_ne_bytes()[..]), "success, for the first");
        assert_eq!(kernel.receive(&mut room).unwrap(), Some(16));
        assert_eq!(room[4..8], notice::RESEND.to_ne_bytes(), "once, for all others");
        assert!(!kernel.is_ready(), "and nothing else");
        drop(kernel);
        assert_eq!(stand_in(&holder, features(), &mut buffer, &mut by).unwrap(), Left::Gone);
    }

    #[test]
    fn what_a_killed_thread_waits_for_is_ended_if_it_changes_nothing() {
        let (kernel, holder) = pair();
        let (mut by, mut buffer) = (Known::default(), vec![1; 8192]);
        let of_thread = |code: u32, unique: u64, thread: u32| {
            let mut bytes = request(code, unique, &[0, 0]);
            bytes[32..36].copy_from_slice(&thread.to_ne_bytes());
            bytes
        };
        // One that was not read before, one that changes something, and one of a thread that lives.
        kernel.send(&of_thread(opcode::GETATTR, 2, 77)).unwrap();
        kernel.send(&of_thread(opcode::FSYNC, 1 << 63 | 4, 77)).unwrap();
        kernel.send(&of_thread(opcode::GETATTR, 1 << 63 | 6, 78)).unwrap();
        kernel.send(&of_thread(opcode::GETATTR, 1 << 63 | 8, 77)).unwrap();
        assert_eq!(stand_in(&holder, features(), &mut buffer, &mut by).unwrap(), Left::Requests { all: 3, fresh: 1 });
        let mut room = [0; 64];
        assert_eq!(kernel.receive(&mut room).unwrap(), Some(16));
        assert_eq!((&room[4..8], room[8]), (&(-libc::EINTR).to_ne_bytes()[..], 8));
        assert_eq!(kernel.receive(&mut room).unwrap(), Some(16));
        assert_eq!(room[4..8], notice::RESEND.to_ne_bytes());
        assert!(!kernel.is_ready(), "and nothing else");
    }

    #[test]
    fn nothing_to_do_takes_no_time_and_asks_for_nothing() {
        let (kernel, holder) = pair();
        assert_eq!(stand_in(&holder, features(), &mut [1; 8192], &mut Known::default()).unwrap(), NOTHING);
        assert!(!kernel.is_ready());
    }
}
