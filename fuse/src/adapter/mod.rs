//! The adapter between protocol and file system: unpacks each request, has `Fs` serve it, and packs the reply.
//!
//! - Apart from `wire`, it is the only module that knows the protocol. It decides nothing: each operation is one line
//!   of `serve`.
//! - A call runs on the thread that read its request and may wait for the disk; other threads read requests meanwhile.
//! - INIT requests only features that the store supports (see [`WISHES`]).

mod answer;
mod convert;
mod notices;
mod serve;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use objstore_files::RequestId;

use crate::fs::Parts;
use crate::opened::Backing;
use crate::options::REQUEST_BYTES_MAX;
use crate::stats::{Call, Op};
use crate::wire;

pub use crate::wire::keep_processors_awake;
pub(crate) use crate::wire::{Agreement, Feature, Left, Pause, StandIn};
pub(crate) use notices::Notices;

/// The most requests that the kernel may have in flight in the background, such as readahead.
const BACKGROUND_MAX: u16 = 64;

/// The features to request from the kernel; an older kernel grants those it has.
///
/// - EXPLICIT_INVAL_DATA in place of AUTO_INVAL_DATA: the latter drops a file's pages whenever its mtime changes, so
///   also after each write through this mount. The feed is exact.
/// - No writeback cache: a write is in the store when write(2) returns, and S3 sees it.
/// - POSIX_LOCKS and FLOCK_LOCKS if the store keeps file locks ([`LOCKS`]); otherwise the kernel keeps them itself.
/// - No ATOMIC_O_TRUNC: with it, an open of a running program for O_RDONLY | O_TRUNC truncates the file before the
///   kernel finds that it must not (ETXTBSY).
const WISHES: &[Feature] = &[
    Feature::InitExt,
    Feature::AsyncRead,
    Feature::BigWrites,
    Feature::MaxPages,
    Feature::HandleKillprivV2, // no question about capabilities before each write
    Feature::ParallelDirOps,
    Feature::DoReadDirPlus,
    Feature::ReadDirPlusAuto,
    Feature::AsyncDio,
    Feature::CacheSymlinks, // a symlink never changes
    Feature::ExplicitInvalData,
    Feature::DirectIoAllowMmap,
    Feature::ExportSupport, // file handles: lookups of "." and ".." on any node
    Feature::DontMask,      // a directory's default ACL stands in for the umask
    Feature::PosixAcl,      // permissions by ACLs
    Feature::SetXattrExt,   // says when a new ACL clears setgid
    Feature::HasResend,     // a successor can ask for what was left unanswered
    Feature::AllowIdmap,    // pods with user namespaces
    Feature::Passthrough,   // large files are read by passthrough
];

/// The features of a mount whose store keeps file locks.
const LOCKS: &[Feature] = &[Feature::PosixLocks, Feature::FlockLocks];

/// A new mount whose INIT is not answered yet.
pub(crate) struct Hello(wire::Hello);

impl Hello {
    /// Reads the INIT request and fixes the reply without sending it.
    pub fn read(device: OwnedFd, keeps_locks: bool) -> io::Result<Self> {
        let locks = if keeps_locks { LOCKS } else { &[] };
        let limits = wire::Limits { request_bytes: REQUEST_BYTES_MAX, background: BACKGROUND_MAX };
        wire::Hello::read(device, wire::Features::new(&[WISHES, locks].concat()), limits).map(Self)
    }

    /// The agreement for a later takeover; it is deposited before the reply is sent.
    pub fn agreement(&self) -> Agreement {
        self.0.agreement()
    }

    /// Whether the kernel granted a requested feature.
    pub fn has(&self, feature: Feature) -> bool {
        self.0.has(feature)
    }

    /// The mount's descriptor.
    pub fn device(&self) -> BorrowedFd<'_> {
        self.0.device().as_fd()
    }

    /// Sends the reply; the mount works from then on.
    pub fn answer(self) -> io::Result<Session> {
        wire::Session::begin(self.0).map(Session)
    }
}

/// A mount whose INIT has been answered.
pub(crate) struct Session(wire::Session);

impl Session {
    /// Takes over a mount that another server began. Nothing is sent; [`Notices::resend`] brings the requests that it
    /// left unanswered, INIT included.
    pub fn resume(device: OwnedFd, agreement: &Agreement) -> io::Result<Self> {
        wire::Session::resume(device, agreement).map(Self)
    }

    /// Whether the kernel granted a requested feature.
    pub fn has(&self, feature: Feature) -> bool {
        self.0.has(feature)
    }

    /// Whether the kernel asks for file locks.
    pub fn keeps_locks(&self) -> bool {
        LOCKS.iter().all(|feature| self.has(*feature))
    }

    /// The mount's descriptor.
    pub fn device(&self) -> BorrowedFd<'_> {
        self.0.device().as_fd()
    }

    /// The size of a buffer for [`Self::stand_in`].
    pub fn buffer_bytes(&self) -> usize {
        self.0.buffer_bytes()
    }

    /// A buffer for [`Self::stand_in`], all of it resident.
    pub fn buffer(&self) -> Vec<u8> {
        self.0.buffer()
    }

    /// Stands in for a server that does not run: see [`wire::Session::stand_in`].
    pub fn stand_in(&self, buffer: &mut [u8], by: &mut impl wire::StandIn) -> io::Result<wire::Left> {
        self.0.stand_in(buffer, by)
    }

    /// A sender of notices to the kernel.
    pub fn notices(&self) -> Notices {
        Notices::new(self.0.device().clone())
    }

    /// The registration of backing files for passthrough.
    pub fn backing(&self) -> Arc<dyn Backing> {
        Arc::new(self.notices())
    }
}

/// Answers all requests of a mount with EIO until the mount is gone.
pub(crate) fn refuse_all(device: OwnedFd) -> io::Result<()> {
    wire::refuse_all(&wire::Device::new(device), libc::EIO)
}

/// A session that is ready to serve.
pub(crate) struct Server(wire::Running<Adapter>);

impl Server {
    /// Has `filesystem` serve the session's requests, with up to `readers` threads that wait for requests at a time.
    pub fn new(filesystem: Parts, session: Session, readers: usize) -> Self {
        Self(session.0.serve(Adapter(filesystem), readers))
    }

    /// A handle that pauses the session, for a process that ends while the mount goes on.
    pub fn pause_handle(&self) -> Pause {
        self.0.pause_handle()
    }

    /// Serves until the mount is gone.
    pub fn run(self) -> io::Result<()> {
        self.0.run()
    }
}

/// Whether an operation opens or closes files.
fn changes_opens(operation: &wire::Operation<'_>) -> bool {
    use wire::Operation::{Create, Open, Release, TmpFile};
    matches!(operation, Open { .. } | Create { .. } | TmpFile { .. } | Release { .. })
}

/// Whether the kernel caches names from the answer to an operation that changes none.
fn reads_names(operation: &wire::Operation<'_>) -> bool {
    use wire::Operation::{Lookup, ReadDir, ReadDirPlus};
    matches!(operation, Lookup(_) | ReadDir(_) | ReadDirPlus(_))
}

/// The reply to a request that waits for a lock.
fn answered_later(reply: wire::Reply<'_>) -> crate::locks::Answer {
    let later = reply.later();
    Box::new(move |locked| match locked {
        Ok(()) => later.done(),
        Err(errno) => later.refuse(errno.raw_os_error()),
    })
}

/// Passes requests to the file system and counts them.
struct Adapter(Parts);

impl wire::Service for Adapter {
    fn serve(&self, request: &wire::Request<'_>, reply: wire::Reply<'_>) {
        let started = Instant::now();
        let parts = &self.0;
        if let wire::Operation::Interrupt(interrupted) = request.operation {
            return parts.locks.interrupt(interrupted);
        }
        let id = RequestId { unique: request.context.unique, resent: request.context.resent };
        let files = parts.session.serving(convert::told_caller(&request.context), id);
        if let Some(wanted) = convert::awaited_lock(request) {
            parts.serving(&files).wait_for_lock(request.context.unique, wanted, answered_later(reply));
            let (op, node) = (Op::Lock, request.context.node);
            return parts.stats.call(Call { op, node, name: None, took: started.elapsed(), errno: None });
        }
        // Until the answer is sent.
        let _reading = reads_names(&request.operation).then(|| parts.sharing.begin());
        let result = serve::answer(&parts.serving(&files), request);
        if let Some(op) = convert::op(&request.operation) {
            let errno = result.as_ref().err().map(|errno| errno.raw_os_error());
            let (node, name) = (request.context.node, request.operation.name());
            parts.stats.call(Call { op, node, name, took: started.elapsed(), errno });
        }
        match result {
            Ok(_) if !request.operation.is_answered() => {}
            Ok(answer) => {
                answer.node().into_iter().for_each(|node| parts.known.insert(node));
                answer.send(reply, answer::Limits::now(&parts.session, &parts.sharing));
            }
            Err(errno) => reply.refuse(errno.raw_os_error()),
        }
        // This happens even if the kernel did not accept the reply: it does not resend that request either.
        files.recorded().into_iter().for_each(|request| parts.session.answered(request));
        if changes_opens(&request.operation) {
            parts.opens.answered(request.context.unique);
        }
    }
}
