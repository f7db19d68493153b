//! Sessions against a socket that stands in for the kernel.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::*;
use crate::abi::{IN_HEADER_BYTES, MAJOR, UNIQUE_RESENT, opcode};

const WAIT: Duration = Duration::from_secs(10);

/// A service that answers STATFS, panics at GETATTR, and blocks at READLINK until the test releases it.
struct Blunt(Mutex<Receiver<()>>);

impl Service for Blunt {
    fn serve(&self, request: &Request<'_>, reply: Reply<'_>) {
        match request.operation {
            Operation::GetAttr => panic!("on purpose"),
            Operation::ReadLink => {
                let _ = self.0.lock().recv_timeout(WAIT);
                reply.send_bytes(b"target");
            }
            _ => reply.send(Frame::new()),
        }
    }
}

/// The kernel's end of a running session.
struct Kernel {
    device: Device,
    release: Sender<()>,
    pause: Pause,
    session: JoinHandle<io::Result<()>>,
}

impl Kernel {
    fn new() -> Self {
        let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        let (ours, theirs) = pair.unwrap();
        let device = Device::new(ours);
        device.send(&init()).unwrap();
        let limits = super::super::Limits { request_bytes: 1 << 17, background: 64 };
        let hello = Hello::read(theirs, super::super::Features::default(), limits).unwrap();
        let session = Session::begin(hello).unwrap();
        let (release, blocked) = channel();
        let running = session.serve(Blunt(Mutex::new(blocked)), 2);
        let pause = running.pause_handle();
        let kernel = Self { device, release, pause, session: std::thread::spawn(|| running.run()) };
        assert_eq!(kernel.answer(), (1, 0, 64), "INIT is answered first");
        kernel
    }

    fn ask(&self, opcode: u32, ticket: u64, args: &[u8]) {
        self.device.send(&message(opcode, ticket, args)).unwrap();
    }

    /// Request number, error and size of the next reply.
    fn answer(&self) -> (u64, i32, usize) {
        let mut room = [0; 256];
        let len = self.device.receive(&mut room).unwrap().unwrap();
        let error = i32::from_ne_bytes(room[4..8].try_into().unwrap());
        (u64::from_ne_bytes(room[8..16].try_into().unwrap()), -error, len - 16)
    }

    /// Closes the kernel's end and waits for the session to end.
    fn end(self) {
        drop((self.device, self.release));
        self.session.join().unwrap().unwrap();
    }
}

fn message(opcode: u32, ticket: u64, args: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let len = (IN_HEADER_BYTES + args.len()) as u32;
    bytes.extend_from_slice(&len.to_ne_bytes());
    bytes.extend_from_slice(&opcode.to_ne_bytes());
    bytes.extend_from_slice(&ticket.to_ne_bytes());
    bytes.resize(IN_HEADER_BYTES, 0);
    bytes.extend_from_slice(args);
    bytes
}

fn init() -> Vec<u8> {
    let args: Vec<u8> = [MAJOR, 44, 1 << 17, 0].iter().flat_map(|arg| arg.to_ne_bytes()).collect();
    message(opcode::INIT, 1, &args)
}

#[test]
fn whatever_is_asked_is_answered() {
    let kernel = Kernel::new();
    let cases = [
        (opcode::STATFS, 0),
        (opcode::GETATTR, libc::EIO),
        (opcode::LOOKUP, libc::EIO),
        (opcode::INTERRUPT, libc::ENOSYS),
        (4000, libc::ENOSYS),
        (opcode::DESTROY, 0),
    ];
    for (ticket, (opcode, errno)) in (2..).zip(cases) {
        kernel.ask(opcode, ticket | UNIQUE_RESENT, &[]);
        assert_eq!(kernel.answer(), (ticket | UNIQUE_RESENT, errno, 0), "operation {opcode}");
    }
    kernel.end();
}

#[test]
fn an_init_that_comes_again_gets_the_same_answer() {
    let kernel = Kernel::new();
    kernel.device.send(&init()).unwrap();
    assert_eq!(kernel.answer(), (1, 0, 64));
    kernel.end();
}

#[test]
fn calls_that_block_do_not_hold_up_others() {
    let kernel = Kernel::new();
    (0..8).for_each(|ticket| kernel.ask(opcode::READLINK, ticket, &[]));
    kernel.ask(opcode::STATFS, 100, &[]);
    assert_eq!(kernel.answer(), (100, 0, 0));
    (0..8).for_each(|_| kernel.release.send(()).unwrap());
    let mut tickets: Vec<_> = (0..8).map(|_| kernel.answer().0).collect();
    tickets.sort_unstable();
    assert_eq!(tickets, (0..8).collect::<Vec<_>>());
    kernel.end();
}

#[test]
fn a_pause_answers_what_was_read_and_nothing_after() {
    let kernel = Kernel::new();
    kernel.ask(opcode::READLINK, 2, &[]);
    kernel.ask(opcode::STATFS, 3, &[]);
    assert_eq!(kernel.answer(), (3, 0, 0), "so the call before it is under way");
    assert!(!kernel.pause.pause(Duration::ZERO), "a call is under way");
    kernel.release.send(()).unwrap();
    assert!(kernel.pause.pause(WAIT));
    assert_eq!(kernel.answer(), (2, 0, 6));
    kernel.ask(opcode::STATFS, 4, &[]);
    let timeout = rustix::net::sockopt::set_socket_timeout;
    timeout(&kernel.device, rustix::net::sockopt::Timeout::Recv, Some(Duration::from_millis(50))).unwrap();
    let unanswered = rustix::io::read(&kernel.device, &mut [0; 64][..]);
    assert_eq!(unanswered, Err(Errno::AGAIN), "that one is for the successor");
}

#[test]
fn a_mount_at_rest_keeps_one_thread_without_a_buffer_and_serves_again() {
    let kernel = Kernel::new();
    for ticket in (0..300).step_by(100) {
        // Several threads, all of which come back.
        (0..4).for_each(|more| kernel.ask(opcode::READLINK, ticket + more, &[]));
        (0..4).for_each(|_| kernel.release.send(()).unwrap());
        let answers: Vec<_> = (0..4).map(|_| kernel.answer().1).collect();
        assert_eq!(answers, [0; 4]);
        let since = Instant::now();
        while !kernel.pause.0.resting.load(Ordering::Relaxed) {
            assert!(since.elapsed() < 6 * WAIT, "it never comes to rest");
            std::thread::sleep(Duration::from_millis(50));
        }
        kernel.ask(opcode::STATFS, ticket + 50, &[]);
        assert_eq!(kernel.answer(), (ticket + 50, 0, 0));
        assert!(!kernel.pause.0.resting.load(Ordering::Relaxed));
    }
    kernel.end();
}
