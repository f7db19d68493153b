//! Between the protocol and the filesystem: unpacks each request, has [`Fs`] serve it, packs the answer.
//!
//! - With `wire`, the one place that knows the protocol. It decides nothing: an operation is one line of `serve`.
//! - A call runs on the thread that read its request and may wait for the disk; other threads read on meanwhile.
//! - INIT asks for what the store can keep up with, and no more (see [`WISHES`]).

mod answer;
mod convert;
mod notices;
mod serve;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use objstore::volume::replay::{self, Recorded, RequestId};

use crate::fs::Fs;
use crate::opened::Backing;
use crate::options::REQUEST_BYTES_MAX;
use crate::stats::Call;
use crate::wire;

pub use crate::wire::keep_processors_awake;
pub(crate) use crate::wire::{Agreement, Feature, Pause};
pub(crate) use notices::Notices;

/// Requests the kernel may have under way of its own accord, such as reading ahead.
const BACKGROUND_MAX: u16 = 64;

/// What to ask the kernel for; an older one gives what it has.
///
/// EXPLICIT_INVAL_DATA in place of AUTO_INVAL_DATA: the latter drops a file's pages whenever its mtime moved, so also
/// after each write of our own; the feed is exact. No writeback cache: a write is in the store when write(2) returns
/// and S3 sees it. No POSIX_LOCKS or FLOCK_LOCKS: the kernel keeps locks itself. No ATOMIC_O_TRUNC: the kernel then has
/// an open of a running program for O_RDONLY | O_TRUNC truncate it before it finds that it must not (ETXTBSY).
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
    Feature::Passthrough,   // large files are read past the server
];

/// A fresh mount that waits for the answer to its INIT.
pub(crate) struct Hello(wire::Hello);

impl Hello {
    /// Reads the INIT and settles the answer, without sending it.
    pub fn read(device: OwnedFd) -> io::Result<Self> {
        let limits = wire::Limits { request_bytes: REQUEST_BYTES_MAX, background: BACKGROUND_MAX };
        wire::Hello::read(device, wire::Features::new(WISHES), limits).map(Self)
    }

    /// What a successor has to know, to be deposited before the answer is sent.
    pub fn agreement(&self) -> Agreement {
        self.0.agreement()
    }

    /// Whether the kernel granted a feature that was wished for.
    pub fn has(&self, feature: Feature) -> bool {
        self.0.has(feature)
    }

    /// The mount's descriptor.
    pub fn device(&self) -> BorrowedFd<'_> {
        self.0.device().as_fd()
    }

    /// Answers: from now on the mount works.
    pub fn answer(self) -> io::Result<Session> {
        wire::Session::begin(self.0).map(Session)
    }
}

/// A mount whose INIT is answered.
pub(crate) struct Session(wire::Session);

impl Session {
    /// Takes over a mount that another server began. Nothing is sent; a [`Notices::resend`] brings what it left
    /// unanswered, the INIT too.
    pub fn resume(device: OwnedFd, agreement: &Agreement) -> io::Result<Self> {
        wire::Session::resume(device, agreement).map(Self)
    }

    /// Whether the kernel granted a feature that was wished for.
    pub fn has(&self, feature: Feature) -> bool {
        self.0.has(feature)
    }

    /// Notices for the kernel.
    pub fn notices(&self) -> Notices {
        Notices::new(self.0.device().clone())
    }

    /// Files to have the kernel read past the server.
    pub fn backing(&self) -> Arc<dyn Backing> {
        Arc::new(self.notices())
    }
}

/// Refuses what a mount asks with EIO, until the kernel is done with it.
pub(crate) fn refuse_all(device: OwnedFd) -> io::Result<()> {
    wire::refuse_all(&wire::Device::new(device), libc::EIO)
}

/// A session that is ready to be served.
pub(crate) struct Server(wire::Running<Adapter>);

impl Server {
    /// Makes `filesystem` answer the session's requests, with up to `readers` threads that wait for some at a time.
    pub fn new(filesystem: Fs, session: Session, readers: usize) -> Self {
        Self(session.0.serve(Adapter(filesystem), readers))
    }

    /// Pauses it, for a process that ends while the mount goes on.
    pub fn pause_handle(&self) -> Pause {
        self.0.pause_handle()
    }

    /// Serves until the kernel is done with the mount.
    pub fn run(self) -> io::Result<()> {
        self.0.run()
    }
}

/// Whether an operation opens or closes files.
fn changes_opens(operation: &wire::Operation<'_>) -> bool {
    use wire::Operation::{Create, Open, Release, TmpFile};
    matches!(operation, Open { .. } | Create { .. } | TmpFile { .. } | Release { .. })
}

/// Has the filesystem serve requests, and counts them.
struct Adapter(Fs);

impl wire::Service for Adapter {
    fn serve(&self, request: &wire::Request<'_>, reply: wire::Reply<'_>) {
        let started = Instant::now();
        let fs = &self.0;
        let id = RequestId { unique: request.context.unique, resent: request.context.resent };
        let (result, recorded) = replay::serve(id, || serve::answer(fs, request));
        if let Some(op) = convert::op(&request.operation) {
            let errno = result.as_ref().err().map(|errno| errno.raw_os_error());
            let (node, name) = (request.context.node, request.operation.name());
            fs.stats.call(Call { op, node, name, took: started.elapsed(), errno });
        }
        match result {
            Ok(_) if !request.operation.is_answered() => {}
            Ok(answer) => answer.send(reply),
            Err(errno) => reply.refuse(errno.raw_os_error()),
        }
        // Also if the kernel did not take the answer: then it does not want it any more.
        recorded.into_iter().for_each(Recorded::answered);
        if changes_opens(&request.operation) {
            fs.opens.answered(request.context.unique);
        }
    }
}
