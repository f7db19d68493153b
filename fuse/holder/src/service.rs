//! The fd holder's service: one thread that accepts deposits and returns them.
//!
//! - Its socket accepts root and its own user only; the credentials of each connection are checked.
//! - A misbehaving peer loses its own connection and affects no other. No call waits for a peer, and the numbers of
//!   peers, deposits and bytes are bounded.
//! - A lock file beside the socket shows that a holder runs, so that of two started at once one keeps the socket.
//!
//! A crash leaves the socket's file, which the next holder replaces, and the lock file, which is unlocked then.

use std::ffi::OsString;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with};

use super::attendant::Attendant;
use super::deposits::{Deposit, Deposits, raise_open_files};
use super::message::{Answer, Refusal, Request, VERSION, VERSION_OLDEST};
use super::packet::{self, Packet};
use super::peer;

/// The most connections at a time; a server needs one.
const PEERS_MAX: usize = 16;
/// The most connections that wait to be accepted.
const BACKLOG: i32 = 16;
/// How long an unneeded holder stays, because a starting server may be about to connect.
const GRACE: Duration = Duration::from_secs(2);
/// The interval at which a holder without a server checks whether its mounts still exist.
const TICK: Duration = Duration::from_secs(1);
/// How long mounts stay without a server before the holder has one started.
const UNSERVED: Duration = Duration::from_secs(3);
/// The longest pause between two attempts to start a server; each pause is twice the one before.
const UNSERVED_MAX: Duration = Duration::from_secs(60);
/// The version of the protocol from which on servers claim the mounts that they serve.
const CLAIMS: u8 = 2;
/// How long the holder looks for mounts without a server after a connection has ended: the process may take a while to end.
const LOOKING: Duration = Duration::from_secs(10);
/// The interval of these looks.
const LOOK: Duration = Duration::from_millis(100);
/// The delay after the system had no room for a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// When a holder ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// Never: it is a service of its own.
    Forever,
    /// When it keeps no deposit and no server is connected.
    WhileNeeded,
}

/// Starts the server of mounts, without waiting for it.
pub type Starter = Box<dyn FnMut() + Send>;

/// A connected server.
struct Peer {
    socket: OwnedFd,
    /// The version of the protocol that it speaks; `None` before its first request but Hello.
    version: Option<u8>,
}

/// A running holder.
pub struct Service {
    listener: OwnedFd,
    path: PathBuf,
    /// Device and inode of this holder's socket file, to recognize it at the path.
    place: (u64, u64),
    program: String,
    lifetime: Lifetime,
    peers: Vec<Peer>,
    deposits: Deposits,
    /// Since when no server has been connected.
    alone_since: Instant,
    /// What starts a server; `None`: others do.
    starter: Option<Starter>,
    /// How long no server has to be connected before one is started.
    unserved_max: Duration,
    /// What looks after mounts without a server, if anything does.
    attendant: Option<Box<dyn Attendant>>,
    /// Whether the last server that asked for anything claims the mounts that it serves.
    is_claimed: bool,
    /// Until when the holder looks for mounts without a server, although servers are connected.
    looks_until: Instant,
    /// Held open as long as the service exists.
    _lock: OwnedFd,
}

impl Service {
    /// Listens at `path`, whose folder has to exist. `program` is the name and version that servers are given.
    ///
    /// # Errors
    /// [`ErrorKind::AddrInUse`] if a holder runs there already; otherwise the system's error.
    pub fn bind(path: &Path, program: &str, lifetime: Lifetime) -> Result<Self> {
        let lock = lock(path)?;
        let listener = listener(path)?;
        let place = place(path)?;
        let deposits = Deposits::new(raise_open_files());
        let (path, program) = (path.to_owned(), program.to_owned());
        let alone_since = Instant::now();
        let peers = Vec::new();
        Ok(Self {
            listener,
            path,
            place,
            program,
            lifetime,
            peers,
            deposits,
            alone_since,
            starter: None,
            unserved_max: UNSERVED,
            attendant: None,
            is_claimed: true,
            looks_until: alone_since,
            _lock: lock,
        })
    }

    /// Calls `starter` while mounts have no server for some seconds, again and again until one connects.
    #[must_use]
    pub fn with_starter(self, starter: Starter) -> Self {
        Self { starter: Some(starter), ..self }
    }

    /// Has `attendant` look after mounts while no server does.
    #[must_use]
    pub fn with_attendant(self, attendant: Box<dyn Attendant>) -> Self {
        Self { attendant: Some(attendant), ..self }
    }

    /// Serves until it is no longer needed.
    ///
    /// # Errors
    /// The system's errors; a peer can cause none.
    pub fn run(mut self) -> Result<()> {
        // SO_PEERCRED of a listener shows the process that called listen(2), so the call is made after the fork.
        listen(&self.listener, BACKLOG)?;
        while !self.is_over() {
            let mut ready = self.wait()?.into_iter();
            let connecting = ready.next().unwrap_or(false);
            let peers = std::mem::take(&mut self.peers);
            for (mut peer, ready) in peers.into_iter().zip(ready) {
                if !ready || self.serve(&mut peer) {
                    self.peers.push(peer);
                } else {
                    self.looks_until = Instant::now() + LOOKING;
                }
            }
            if connecting {
                self.accept();
            }
            if !self.peers.is_empty() {
                (self.alone_since, self.unserved_max) = (Instant::now(), UNSERVED);
            } else {
                self.deposits.remove_dead();
                self.start_server();
            }
            self.attend();
        }
        // Removed while the lock is held, so that no other holder owns the file, and only if it is still this holder's
        // socket.
        if place(&self.path).is_ok_and(|place| place == self.place) {
            return std::fs::remove_file(&self.path);
        }
        Ok(())
    }

    fn start_server(&mut self) {
        let Some(starter) = &mut self.starter else { return };
        let alone = self.alone_since.elapsed();
        if !self.deposits.is_empty() && alone >= self.unserved_max {
            starter();
            self.unserved_max = alone + alone.min(UNSERVED_MAX);
        }
    }

    /// Has mounts looked after that have no server. The server of an earlier version does not show that it is there.
    fn attend(&mut self) {
        let Some(attendant) = &mut self.attendant else { return };
        let is_claimed = self.is_claimed && self.peers.iter().all(|peer| peer.version != Some(VERSION_OLDEST));
        if !is_claimed {
            attendant.look(&mut std::iter::empty());
        } else if self.peers.is_empty() || Instant::now() < self.looks_until {
            attendant.look(&mut self.deposits.iter());
        }
        attendant.attend();
    }

    fn is_over(&self) -> bool {
        let needed = !self.peers.is_empty() || !self.deposits.is_empty() || self.alone_since.elapsed() < GRACE;
        self.lifetime == Lifetime::WhileNeeded && !needed
    }

    /// Waits for events: first the listener's, then each peer's.
    fn wait(&self) -> Result<Vec<bool>> {
        let sockets = std::iter::once(&self.listener).chain(self.peers.iter().map(|peer| &peer.socket));
        let mut asked: Vec<_> = sockets.map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
        let count = asked.len();
        let wakes = self.attendant.as_ref().map(|attendant| attendant.wakes()).unwrap_or_default();
        asked.extend(wakes.into_iter().map(|wake| PollFd::from_borrowed_fd(wake, PollFlags::IN)));
        let limit = self
            .limit()
            .map(|limit| Timespec { tv_sec: limit.as_secs().cast_signed(), tv_nsec: limit.subsec_nanos().into() });
        match poll(&mut asked, limit.as_ref()) {
            Ok(_) => Ok(asked[..count].iter().map(|socket| !socket.revents().is_empty()).collect()),
            Err(Errno::INTR) => Ok(vec![false; count]),
            Err(errno) => Err(errno.into()),
        }
    }

    /// How long to wait for events; `None` without a limit.
    fn limit(&self) -> Option<Duration> {
        let now = Instant::now();
        let idle = self.deposits.is_empty() && self.lifetime == Lifetime::Forever;
        let tick = (self.peers.is_empty() && !idle).then_some(TICK);
        let look = (self.attendant.is_some() && !self.deposits.is_empty() && now < self.looks_until).then_some(LOOK);
        let due = self.attendant.as_ref().and_then(|attendant| attendant.due());
        let due = due.map(|due| due.saturating_duration_since(now));
        [tick, look, due].into_iter().flatten().min()
    }

    fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        match accept_with(&self.listener, flags) {
            Ok(peer) if self.peers.len() < PEERS_MAX && may_connect(&peer) => {
                self.peers.push(Peer { socket: peer, version: None });
            }
            // The peer may not connect, or there are too many: the connection is closed.
            Ok(_) | Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => {}
            Err(_) => std::thread::sleep(PAUSE),
        }
    }

    /// Answers one packet. Returns `false` if the peer is gone or broke the protocol.
    fn serve(&mut self, peer: &mut Peer) -> bool {
        let decoded = match packet::receive(&peer.socket) {
            Ok(Some(packet)) => (Request::decode(&packet.bytes), packet),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                return send(&peer.socket, VERSION, &Answer::Refused(Refusal::Malformed));
            }
            Ok(None) | Err(_) => return false,
        };
        let (request, packet) = decoded;
        if let Ok((version, Request::Deposit { .. } | Request::Next { .. })) = request {
            peer.version = Some(version);
            self.is_claimed = version >= CLAIMS;
        }
        let peer = &peer.socket;
        match request {
            Ok((_, Request::Hello)) => {
                send(peer, VERSION, &Answer::Hello { version: VERSION, program: self.program.clone() })
            }
            Ok((version, _)) if !(VERSION_OLDEST..=VERSION).contains(&version) => {
                send(peer, VERSION, &Answer::Refused(Refusal::Version))
            }
            Ok((version, Request::Next { from })) => self.give(peer, version, from),
            Ok((version, request)) => {
                // What was kept of the deposit for an attendant is looked at again.
                self.looks_until = self.looks_until.max(Instant::now() + LOOK);
                send(peer, version, &self.change(request, packet))
            }
            Err(refusal) => send(peer, VERSION, &Answer::Refused(refusal)),
        }
    }

    fn change(&mut self, request: Request, packet: Packet) -> Answer {
        match request {
            Request::Deposit { .. } if packet.descriptors.is_empty() => Answer::Refused(Refusal::Malformed),
            Request::Deposit { id, record } => {
                let kept = self.deposits.put(Deposit { id, record, descriptors: packet.descriptors });
                if kept { Answer::Done } else { Answer::Refused(Refusal::Full) }
            }
            Request::Withdraw { id } if self.deposits.remove(id) => Answer::Done,
            Request::Withdraw { .. } => Answer::Refused(Refusal::Unknown),
            Request::Hello | Request::Next { .. } => Answer::Refused(Refusal::Malformed),
        }
    }

    fn give(&self, peer: &OwnedFd, version: u8, from: u64) -> bool {
        let Some(deposit) = self.deposits.next(from) else { return send(peer, version, &Answer::End) };
        let answer = Answer::Held { id: deposit.id, record: deposit.record.clone() };
        let descriptors: Vec<_> = deposit.descriptors.iter().map(AsFd::as_fd).collect();
        packet::send(peer, &answer.encode(version), &descriptors).is_ok()
    }
}

/// Sends an answer. Returns `false` if the peer does not read; its connection is closed then.
fn send(peer: &OwnedFd, version: u8, answer: &Answer) -> bool {
    packet::send(peer, &answer.encode(version), &[]).is_ok()
}

/// Whether the peer is root or this user. The socket's mode allows no others, and this check holds even if the mode was
/// changed.
fn may_connect(peer: &OwnedFd) -> bool {
    peer::user(peer).is_ok_and(|user| user.is_root() || user == rustix::process::geteuid())
}

fn lock(path: &Path) -> Result<OwnedFd> {
    let mut name = OsString::from(path);
    name.push(".lock");
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let lock = rustix::fs::open(&name, flags, Mode::RUSR | Mode::WUSR)?;
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(lock),
        Err(Errno::WOULDBLOCK) => Err(Error::new(ErrorKind::AddrInUse, "a holder is there already")),
        Err(errno) => Err(errno.into()),
    }
}

/// Device and inode of the file at a path.
fn place(path: &Path) -> Result<(u64, u64)> {
    let found = std::fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

/// Binds the socket. The caller holds the lock, so a socket at the path is a leftover and is replaced; any other file
/// is an error.
fn listener(path: &Path) -> Result<OwnedFd> {
    use std::os::unix::fs::FileTypeExt as _;
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => std::fs::remove_file(path)?,
        Ok(_) => return Err(Error::new(ErrorKind::AlreadyExists, "the path is taken by a file that is not a socket")),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}
