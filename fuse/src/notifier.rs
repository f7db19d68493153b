//! A process of its own that gives the kernel notices, for mounts that outlive the server.
//!
//! - The kernel gives a notice under locks that a program may hold while it waits for an answer of this very mount, and
//!   waits for them as nothing can interrupt. With the server alive that passes. A server that is killed at that moment
//!   could not end: its thread waits for the program, the program for the next server, and the next server for the
//!   data folder, which a process keeps until its last thread is gone.
//! - So a child waits instead. It holds the mount's descriptor and one end of a socket, and nothing of the store. When
//!   the server is gone, and the next one has answered the program, it finds its socket closed and ends.
//! - One notice is under way at a time: the order is kept, and "told" still means that the kernel took it.
//! - If the child is lost, this process gives the notices itself, which is right but for the danger above.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};

/// The argument that has a program call [`run_notifier`].
pub const NOTIFIER: &str = "notifier";
/// More than any notice takes: a name has 255 bytes.
const NOTICE_BYTES_MAX: usize = 4096;

/// The child that gives notices of one mount.
#[derive(Clone)]
pub(crate) struct Notifier(Arc<Shared>);

struct Shared {
    /// `None` once the child is lost.
    socket: Mutex<Option<OwnedFd>>,
    child: Mutex<Option<Child>>,
}

impl Notifier {
    /// Starts `program` for the mount behind `device`.
    pub fn start(program: &Path, device: BorrowedFd<'_>) -> io::Result<Self> {
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let mut command = Command::new(program);
        command.arg0("amphora").arg(NOTIFIER).env_clear().stderr(Stdio::null());
        // What a terminal sends to the server is not for it.
        command.process_group(0).stdin(device.try_clone_to_owned()?).stdout(theirs);
        let child = command.spawn()?;
        Ok(Self(Arc::new(Shared { socket: Mutex::new(Some(ours)), child: Mutex::new(Some(child)) })))
    }

    /// Gives a notice: what writing it to the device gave. `None` if the child is lost.
    pub fn give(&self, notice: &[u8]) -> Option<rustix::io::Result<()>> {
        let mut socket = self.0.socket.lock();
        let outcome = ask(socket.as_ref()?, notice);
        if let Err(errno) = outcome {
            tracing::warn!(%errno, "the notifier process of a mount ended; the server delivers its cache invalidations itself");
            *socket = None;
        }
        outcome.ok()
    }
}

fn ask(socket: &OwnedFd, notice: &[u8]) -> rustix::io::Result<rustix::io::Result<()>> {
    retry(|| send(socket, notice, SendFlags::NOSIGNAL))?;
    let mut answer = [0; 4];
    match retry(|| recv(socket, &mut answer, RecvFlags::empty()).map(|(len, _)| len))? {
        4 => Ok(match i32::from_ne_bytes(answer) {
            0 => Ok(()),
            errno => Err(Errno::from_raw_os_error(errno)),
        }),
        _ => Err(Errno::PIPE),
    }
}

fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}

impl Drop for Shared {
    /// The child ends with its socket. It may have to wait for the kernel first, so it is waited for elsewhere.
    fn drop(&mut self) {
        self.socket.lock().take();
        if let Some(mut child) = self.child.lock().take() {
            std::thread::spawn(move || child.wait());
        }
    }
}

/// The child: gives the notices that come from standard output, a socket, to the mount behind standard input, until the
/// server is gone.
///
/// # Errors
/// If standard output is no such socket.
pub fn run_notifier() -> io::Result<()> {
    serve(io::stdin().as_fd(), io::stdout().as_fd())
}

fn serve(device: BorrowedFd<'_>, socket: BorrowedFd<'_>) -> io::Result<()> {
    let mut room = [0; NOTICE_BYTES_MAX];
    loop {
        let len = retry(|| recv(socket, &mut room[..], RecvFlags::empty()).map(|(len, _)| len))?;
        if len == 0 {
            return Ok(());
        }
        let given = rustix::io::write(device, &room[..len]);
        let errno = given.map_or_else(Errno::raw_os_error, |_| 0);
        if retry(|| send(socket, &errno.to_ne_bytes(), SendFlags::NOSIGNAL)).is_err() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (OwnedFd, OwnedFd) {
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
    }

    #[test]
    fn notices_are_given_one_by_one_until_the_server_is_gone() {
        let ((kernel, device), (ours, theirs)) = (pair(), pair());
        let child = std::thread::spawn(move || serve(device.as_fd(), theirs.as_fd()));
        let notifier = Notifier(Arc::new(Shared { socket: Mutex::new(Some(ours)), child: Mutex::new(None) }));
        assert_eq!(notifier.give(b"forget"), Some(Ok(())));
        let mut room = [0; 16];
        assert_eq!(recv(&kernel, &mut room[..], RecvFlags::empty()).unwrap().0, 6);
        drop(kernel);
        assert_eq!(notifier.give(b"again"), Some(Err(Errno::PIPE)), "what the kernel answers comes back");
        drop(notifier);
        child.join().unwrap().unwrap();
    }

    #[test]
    fn a_child_that_is_lost_is_told_of() {
        let (ours, theirs) = pair();
        drop(theirs);
        let notifier = Notifier(Arc::new(Shared { socket: Mutex::new(Some(ours)), child: Mutex::new(None) }));
        assert_eq!((notifier.give(b"a"), notifier.give(b"b")), (None, None));
    }
}
