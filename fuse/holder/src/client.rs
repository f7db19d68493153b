//! A server's client for the fd holder.
//!
//! - It connects only to processes of root or of its own user. The kernel says whose process it is (`peer`) before
//!   anything is sent, because the holder receives the devices of mounts.
//! - It sends one request at a time. If an answer takes longer than [`ANSWER_MAX`], the connection is not used again.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::Uid;

use super::deposits::Deposit;
use super::message::{Answer, RECORD_BYTES_MAX, Refusal, Request, VERSION, VERSION_OLDEST};
use super::packet::{self, Packet};
use super::peer;

/// The longest wait for an answer. The holder does nothing slow, but its machine may be busy.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Why a request to the holder failed. `Display` never prints the source.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No process listens on the socket.
    #[error("no holder answers at {}", path.display())]
    Absent {
        /// Path of the socket.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A process of a user who may not be the holder listens on the socket.
    #[error(
        "the process that answers at {} runs as user {uid}, but a holder runs as root or as this program's user: no \
         mount is handed to it. Remove the socket, or name another with --holder-endpoint",
        path.display()
    )]
    Stranger {
        /// Path of the socket.
        path: PathBuf,
        /// The user whose process listens.
        uid: u32,
    },
    /// Holder and program have no protocol version in common.
    #[error(
        "the holder ({program}) speaks protocol version {theirs}, this program speaks {VERSION_OLDEST} to {VERSION}: end its mounts and restart the holder"
    )]
    Version {
        /// The holder's protocol version.
        theirs: u8,
        /// Name and version of the holder's program.
        program: String,
    },
    /// The holder has no room for another mount.
    #[error("the holder is full: raise its limit of open files")]
    Full,
    /// The record is longer than the holder accepts.
    #[error("a mount's description has {bytes} bytes, and a holder keeps {RECORD_BYTES_MAX}")]
    Large {
        /// Length of the record in bytes.
        bytes: usize,
    },
    /// The connection failed and cannot be used again.
    #[error("the connection to the holder broke")]
    Broken(#[source] io::Error),
}

impl Error {
    /// Whether a new connection may succeed.
    pub fn is_broken(&self) -> bool {
        matches!(self, Self::Absent { .. } | Self::Broken(_))
    }
}

/// An error and its causes on one line, for the log.
pub fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// A connection to a holder.
#[derive(Debug)]
pub struct Holder {
    socket: OwnedFd,
    /// The protocol version that both sides speak.
    version: u8,
    program: String,
    /// Locked from a request to its answer.
    turn: Mutex<()>,
}

impl Holder {
    /// Connects to the holder at `path`.
    ///
    /// # Errors
    /// [`Error::Absent`] if no holder listens, [`Error::Stranger`] if another user's process does, [`Error::Version`]
    /// if there is no common protocol version.
    pub fn connect(path: &Path) -> Result<Self, Error> {
        let socket = dial(path).map_err(|source| Error::Absent { path: path.to_owned(), source })?;
        refuse_stranger(&socket, path)?;
        let mut holder = Self { socket, version: VERSION, program: String::new(), turn: Mutex::new(()) };
        match holder.ask(&Request::Hello, &[])?.0 {
            Answer::Hello { version, program } if version >= VERSION_OLDEST => {
                holder.version = version.min(VERSION);
                holder.program = program;
                Ok(holder)
            }
            Answer::Hello { version, program } => Err(Error::Version { theirs: version, program }),
            other => Err(unexpected(&other)),
        }
    }

    /// Name and version of the holder's program.
    pub fn program(&self) -> &str {
        &self.program
    }

    /// Whether the holder speaks an older protocol version than this program's newest.
    pub fn is_older(&self) -> bool {
        self.version < VERSION
    }

    /// Deposits descriptors under `id`, replacing what was kept under it.
    ///
    /// # Errors
    /// Nothing is kept then except what was kept before.
    pub fn deposit(&self, id: u64, record: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<(), Error> {
        if record.len() > RECORD_BYTES_MAX {
            return Err(Error::Large { bytes: record.len() });
        }
        match self.ask(&Request::Deposit { id, record: record.to_vec() }, descriptors)?.0 {
            Answer::Done => Ok(()),
            other => Err(self.refused(&other)),
        }
    }

    /// All deposits, ordered by id.
    ///
    /// # Errors
    /// If the connection breaks.
    pub fn list(&self) -> Result<Vec<Deposit>, Error> {
        let (mut all, mut from) = (Vec::new(), Some(0));
        while let Some(next) = from {
            match self.ask(&Request::Next { from: next }, &[])? {
                (Answer::Held { id, record }, descriptors) => {
                    all.push(Deposit { id, record, descriptors });
                    from = id.checked_add(1);
                }
                (Answer::End, _) => break,
                (other, _) => return Err(self.refused(&other)),
            }
        }
        Ok(all)
    }

    /// Has the holder close a deposit. An unknown id is no error.
    ///
    /// # Errors
    /// If the connection breaks.
    pub fn withdraw(&self, id: u64) -> Result<(), Error> {
        match self.ask(&Request::Withdraw { id }, &[])?.0 {
            Answer::Done | Answer::Refused(Refusal::Unknown) => Ok(()),
            other => Err(self.refused(&other)),
        }
    }

    /// Blocks until the holder has ended or [`Holder::hang_up`] was called.
    pub fn wait_gone(&self) {
        loop {
            // Hang-ups are reported without being asked for.
            let mut asked = [PollFd::new(&self.socket, PollFlags::RDHUP)];
            match poll(&mut asked, None) {
                Err(Errno::INTR) => {}
                _ => return,
            }
        }
    }

    /// Closes the connection and ends [`Holder::wait_gone`].
    pub fn hang_up(&self) {
        // A connection that is closed already needs nothing more.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
    }

    fn ask(&self, request: &Request, descriptors: &[BorrowedFd<'_>]) -> Result<(Answer, Vec<OwnedFd>), Error> {
        let _turn = self.turn.lock();
        let answered = packet::send(self.socket.as_fd(), &request.encode(self.version), descriptors)
            .and_then(|()| packet::receive(&self.socket));
        // After a late or missing answer, the next one could be mistaken for it.
        match answered.inspect_err(|_| self.hang_up()) {
            Ok(Some(Packet { bytes, descriptors })) => match Answer::decode(&bytes) {
                Some(answer) => Ok((answer, descriptors)),
                None => Err(Error::Broken(io::ErrorKind::InvalidData.into())),
            },
            Ok(None) => Err(Error::Broken(io::ErrorKind::UnexpectedEof.into())),
            Err(error) => Err(Error::Broken(error)),
        }
    }

    fn refused(&self, answer: &Answer) -> Error {
        match answer {
            Answer::Refused(Refusal::Full) => Error::Full,
            Answer::Refused(Refusal::Version) => Error::Version { theirs: self.version, program: self.program.clone() },
            other => unexpected(other),
        }
    }
}

fn unexpected(answer: &Answer) -> Error {
    let text = match answer {
        Answer::Refused(refusal) => format!("the holder refused: {refusal:?}"),
        _ => "the holder sent an unexpected answer".to_owned(),
    };
    Error::Broken(io::Error::new(io::ErrorKind::InvalidData, text))
}

/// Refuses a holder of another user. Through the descriptors of mounts all files can be read and changed, so only
/// processes of root or of the own user receive them.
fn refuse_stranger(socket: &OwnedFd, path: &Path) -> Result<(), Error> {
    let user = peer::user(socket).map_err(Error::Broken)?;
    if is_trusted(user, rustix::process::geteuid()) {
        return Ok(());
    }
    Err(Error::Stranger { path: path.to_owned(), uid: user.as_raw() })
}

fn is_trusted(peer: Uid, own: Uid) -> bool {
    peer.is_root() || peer == own
}

fn dial(path: &Path) -> io::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    for timeout in [Timeout::Recv, Timeout::Send] {
        set_socket_timeout(&socket, timeout, Some(ANSWER_MAX))?;
    }
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}
