//! A separate process that sends cache invalidations to the kernel, for mounts that outlive the server.
//!
//! - The kernel processes an invalidation under locks that a program may hold while it waits for a reply of this very
//!   mount, and the wait cannot be interrupted. A running server resolves that by its reply.
//!   But a server killed at that moment could not end. Its thread would wait for the program, the program for the next
//!   server, and the next server for the data folder, which a process keeps until its last thread has ended.
//! - So a child process waits instead. It holds the mount's descriptor and one end of a socket, and nothing of the
//!   store. Once the server is gone and the next one has answered the program, the child finds its socket closed and
//!   ends.
//! - One invalidation of a child is in flight at a time, so their order is kept, and a confirmed one has been applied by
//!   the kernel. Those that may wait beside others have children of their own, as many as wait at a time.
//! - If the child dies, this process sends the invalidations itself, which is correct except for that deadlock after a
//!   kill.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};

/// The argument with which a program has to call [`run_notifier`].
pub const NOTIFIER: &str = "notifier";
/// The largest notice in bytes; a name has at most 255.
const NOTICE_BYTES_MAX: usize = 4096;

/// The child process that sends the notices of one mount.
#[derive(Clone)]
pub(crate) struct Notifier(Arc<NotifierState>);

struct NotifierState {
    /// `None` once the child has died.
    socket: Mutex<Option<OwnedFd>>,
    child: Mutex<Option<Child>>,
}

impl Notifier {
    /// Starts `program` for the mount behind `device`.
    pub fn start(program: &Path, device: BorrowedFd<'_>) -> io::Result<Self> {
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let mut command = Command::new(program);
        command.arg0("amphora").arg(NOTIFIER).env_clear().stderr(Stdio::null());
        // A process group of its own, so that signals of the server's terminal do not reach it.
        command.process_group(0).stdin(device.try_clone_to_owned()?).stdout(theirs);
        let child = command.spawn()?;
        Ok(Self(Arc::new(NotifierState { socket: Mutex::new(Some(ours)), child: Mutex::new(Some(child)) })))
    }

    /// Sends a notice and returns the kernel's answer; `None` if the child has died.
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

/// The most children beside the first.
const BESIDE_MAX: usize = 64;
/// The most of them that stay without work.
const IDLE_MAX: usize = 2;

/// The child processes of one mount for notices that may wait beside each other.
#[derive(Clone)]
pub(crate) struct Notifiers(Arc<NotifiersState>);

struct NotifiersState {
    program: PathBuf,
    device: OwnedFd,
    idle: Mutex<Vec<Notifier>>,
    busy: AtomicUsize,
}

impl Notifiers {
    pub fn new(program: &Path, device: BorrowedFd<'_>) -> io::Result<Self> {
        let (program, device) = (program.to_owned(), device.try_clone_to_owned()?);
        Ok(Self(Arc::new(NotifiersState { program, device, idle: Mutex::default(), busy: AtomicUsize::new(0) })))
    }

    /// Sends a notice and returns the kernel's answer; `None` if there is no child for it.
    pub fn give(&self, notice: &[u8]) -> Option<rustix::io::Result<()>> {
        let NotifiersState { program, device, idle, busy } = &*self.0;
        let found = idle.lock().pop();
        let started = || Notifier::start(program, device.as_fd());
        let notifier = match found {
            Some(notifier) => notifier,
            None if busy.load(Ordering::Relaxed) >= BESIDE_MAX => return None,
            None => started()
                .inspect_err(|error| tracing::warn!(%error, "there is no process for a cache invalidation"))
                .ok()?,
        };
        busy.fetch_add(1, Ordering::Relaxed);
        let given = notifier.give(notice);
        busy.fetch_sub(1, Ordering::Relaxed);
        let mut idle = idle.lock();
        if given.is_some() && idle.len() < IDLE_MAX {
            idle.push(notifier);
        }
        given
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

impl Drop for NotifierState {
    /// The child ends when its socket closes. It may have to wait for the kernel first, so another thread waits for it.
    fn drop(&mut self) {
        self.socket.lock().take();
        if let Some(mut child) = self.child.lock().take() {
            std::thread::spawn(move || child.wait());
        }
    }
}

/// The child's main loop: reads notices from standard output, which is a socket, and sends them to the mount behind
/// standard input, until the server is gone.
///
/// # Errors
/// If standard output is not such a socket.
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
        let notifier = Notifier(Arc::new(NotifierState { socket: Mutex::new(Some(ours)), child: Mutex::new(None) }));
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
        let notifier = Notifier(Arc::new(NotifierState { socket: Mutex::new(Some(ours)), child: Mutex::new(None) }));
        assert_eq!((notifier.give(b"a"), notifier.give(b"b")), (None, None));
    }
}
