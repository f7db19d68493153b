//! A server's connection to a holder.
//!
//! - It talks to root's processes and to those of its own user only, asked of the kernel (SO_PEERCRED) before a word is
//!   said: a holder is given the devices of mounts.
//! - One question at a time, each answered within [`ANSWER_MAX`] or the connection is useless.

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

/// How long an answer may take: a holder does nothing that takes time, but its machine may be busy.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Why a holder did not do it. `Display` never prints its source.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody is there.
    #[error("no holder answers at {}", path.display())]
    Absent {
        /// Its socket.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// Somebody else listens where the holder should.
    #[error(
        "what answers at {} runs as user {uid}, and a holder runs as root or as this program's own user: nothing is \
         handed to it. Remove the socket, or name another with --holder-endpoint",
        path.display()
    )]
    Stranger {
        /// The socket.
        path: PathBuf,
        /// Whose process it is.
        uid: u32,
    },
    /// It cannot be understood.
    #[error(
        "the holder ({program}) speaks version {theirs} of its protocol, this program {VERSION_OLDEST} to {VERSION}: end its mounts and start the holder anew"
    )]
    Version {
        /// What it speaks.
        theirs: u8,
        /// What it is.
        program: String,
    },
    /// It keeps as much as it may.
    #[error("the holder keeps as many mounts as it may: raise its limit of open files")]
    Full,
    /// A record is too long for it.
    #[error("a mount's description has {bytes} bytes, and a holder keeps {RECORD_BYTES_MAX}")]
    Large {
        /// Its length.
        bytes: usize,
    },
    /// The connection is of no use any more.
    #[error("the connection to the holder broke")]
    Broken(#[source] io::Error),
}

impl Error {
    /// Whether another connection may do better.
    pub fn is_broken(&self) -> bool {
        matches!(self, Self::Absent { .. } | Self::Broken(_))
    }
}

/// A connection to a holder.
#[derive(Debug)]
pub struct Holder {
    socket: OwnedFd,
    /// What both sides speak.
    version: u8,
    program: String,
    /// Held from a question to its answer.
    turn: Mutex<()>,
}

impl Holder {
    /// Connects to the holder at `path`.
    ///
    /// # Errors
    /// [`Error::Absent`] if there is none, [`Error::Stranger`] if it is somebody else's process, [`Error::Version`] if it
    /// cannot be understood.
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

    /// What the holder calls itself.
    pub fn program(&self) -> &str {
        &self.program
    }

    /// Whether it speaks an older version than this program could.
    pub fn is_older(&self) -> bool {
        self.version < VERSION
    }

    /// Has it keep descriptors, in place of what has this id.
    ///
    /// # Errors
    /// Nothing is kept then, but what was before.
    pub fn deposit(&self, id: u64, record: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<(), Error> {
        if record.len() > RECORD_BYTES_MAX {
            return Err(Error::Large { bytes: record.len() });
        }
        match self.ask(&Request::Deposit { id, record: record.to_vec() }, descriptors)?.0 {
            Answer::Done => Ok(()),
            other => Err(self.refused(&other)),
        }
    }

    /// All it keeps, by id.
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

    /// Has it close a deposit; fine if it has none of that id.
    ///
    /// # Errors
    /// If the connection breaks.
    pub fn withdraw(&self, id: u64) -> Result<(), Error> {
        match self.ask(&Request::Withdraw { id }, &[])?.0 {
            Answer::Done | Answer::Refused(Refusal::Unknown) => Ok(()),
            other => Err(self.refused(&other)),
        }
    }

    /// Waits until the holder is gone, or [`Holder::hang_up`] was called.
    pub fn wait_gone(&self) {
        loop {
            // Hanging up is told unasked.
            let mut asked = [PollFd::new(&self.socket, PollFlags::RDHUP)];
            match poll(&mut asked, None) {
                Err(Errno::INTR) => {}
                _ => return,
            }
        }
    }

    /// Ends the connection; whoever waits for the holder to go is let go.
    pub fn hang_up(&self) {
        // One that is over is as good.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
    }

    fn ask(&self, request: &Request, descriptors: &[BorrowedFd<'_>]) -> Result<(Answer, Vec<OwnedFd>), Error> {
        let _turn = self.turn.lock();
        let answered = packet::send(self.socket.as_fd(), &request.encode(self.version), descriptors)
            .and_then(|()| packet::receive(&self.socket));
        // After an answer that is late or missing, the next one could be taken for it.
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
        Answer::Refused(refusal) => format!("it refused: {refusal:?}"),
        _ => "it answered something else".to_owned(),
    };
    Error::Broken(io::Error::new(io::ErrorKind::InvalidData, text))
}

/// Descriptors of mounts, through which all files can be read and changed, go to root's or the own user's process alone.
fn refuse_stranger(socket: &OwnedFd, path: &Path) -> Result<(), Error> {
    let peer = rustix::net::sockopt::socket_peercred(socket).map_err(|errno| Error::Broken(errno.into()))?;
    if is_trusted(peer.uid, rustix::process::geteuid()) {
        return Ok(());
    }
    Err(Error::Stranger { path: path.to_owned(), uid: peer.uid.as_raw() })
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
