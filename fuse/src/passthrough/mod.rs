//! How files are opened: through the kernel's page cache of the node, or by passthrough, where the kernel reads the
//! backing blob itself.
//!
//! - The kernel has one mode for all opens of a node, and fails an open in another with EIO. So the first open decides
//!   until the last is released. `table` counts the opens and outlives this process.
//! - The first reader of a large file opens it by passthrough, if the store allows that. A later writer reads and
//!   writes through the server (FOPEN_DIRECT_IO), which writes the same blob in place. There is one page cache, the
//!   blob's, so readers see what is written.
//! - Such a writer can map the blob and write it without the server. Before its open is answered, the store records the
//!   file as writable through a mapping (*exposed*). The node's old pages are dropped at the next open through them.
//! - If the first open is a writer's, the file is opened through the node's pages, for later readers too.
//! - Exception: a *fresh* file, created by a program that only writes it. It is opened with direct I/O
//!   (FOPEN_DIRECT_IO). Otherwise the kernel asks for the new file's capabilities before the first write, and splits
//!   each write that does not end at a page boundary. Until all have closed it, other programs open it with direct I/O
//!   too: a page read during a write could stay stale in kernels that drop pages before such a write and not after it.
//!   While other mounts use the bucket, each file that is opened for writing counts as fresh: a write through the page
//!   cache holds a page until it is answered, its answer waits for other mounts to drop theirs, and the writers of one
//!   file would wait for each other. So at most one mount writes through its pages: the one that was alone before.
//! - Where the kernel or the disk refuse a backing file, all requests go through the server; that is logged once.
//!
//! A crash between registering a backing file and counting the open leaves the file registered until the mount ends,
//! and nothing else.

mod small;
mod state;
mod table;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use objstore_files::{FileSession, INODES_MAX, LocalFiles, Released, Unfit};
use rustix::io::Errno;

use crate::errno::{self, Result};
use crate::handles::{OpenFile, is_writer};
use crate::opened::{Backing, BackingId, OpenFlags, Opened};
use crate::shared_memory::SharedMemory;
use crate::sharing::Sharing;
use crate::view::View;

use small::SmallFiles;
use state::{Mode, State};
pub(crate) use table::Asked;
use table::{LockedNode, Table};

/// The smallest file opened by passthrough, in bytes: registering a backing file delays an open more than reading this
/// much through the server (decision 0025).
const LEAST: u64 = 64 << 10;

/// A mount's options for opening files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenOptions {
    /// Use the kernel's page cache; otherwise each read and write becomes a request.
    pub page_cache: bool,
    /// Open new files that are only written with direct I/O; such files can still be mapped.
    pub write_past: bool,
    /// Give each open file a number and announce each close, because the store keeps file locks.
    pub locks: bool,
}

/// The open files of a mount.
pub(crate) struct Opens {
    table: Table,
    session: FileSession,
    sharing: Arc<Sharing>,
    view: View,
    open_options: OpenOptions,
    /// Registers backing files; `None` if the kernel does not support passthrough.
    backing: Option<Arc<dyn Backing>>,
    refused: AtomicBool,
    small: SmallFiles,
    /// The last number given to a file whose close is announced.
    last: AtomicU32,
}

impl Opens {
    /// The open files that the earlier process left in `shared`, or none. Called before the first request is served.
    /// `backing` is `None` if the kernel did not grant passthrough.
    pub fn resume(
        shared: Arc<SharedMemory>,
        backing: Option<Arc<dyn Backing>>,
        (session, sharing): (FileSession, Arc<Sharing>),
        view: View,
        open_options: OpenOptions,
    ) -> Self {
        let (table, refused, small) = (Table::resume(shared), AtomicBool::new(false), SmallFiles::new());
        // Numbers of files that an earlier process opened may still be in use: this process begins elsewhere.
        let last = AtomicU32::new(session.process().wrapping_mul(0x9E37_79B1));
        let opens = Self { table, session, sharing, view, open_options, backing, refused, small, last };
        opens.take_over();
        opens
    }

    /// Records in the store which files the kernel has open by passthrough.
    fn take_over(&self) {
        if self.session.about().inherited {
            let inos: Vec<_> = self.table.nodes().into_iter().map(|node| self.view.ino(node)).collect();
            // The root is always known; so one call is made even if nothing is open.
            let told = inos.chunks(INODES_MAX).chain(inos.is_empty().then_some(&inos[..]));
            for part in told {
                if let Err(error) = self.session.own().open_before(part) {
                    tracing::error!(%error, "the store does not know which files a mount has open; they may show stale data");
                }
            }
        }
        for node in self.table.nodes() {
            let state = self.table.hold(node).state();
            let past = matches!(state.mode, Mode::Past(_)) || state.mapped;
            if past
                && let Some(local) = self.session.local()
                && let Err(error) = local.back_again(self.view.ino(node))
            {
                tracing::error!(node, %error, "cannot end the passthrough of a file; it may not show later writes");
            }
        }
    }

    /// An open file with the flags of open(2), in this run of the store.
    fn file(&self, flags: i32) -> OpenFile {
        let writable = is_writer(flags);
        // If versioning cannot be read now, announcing the close does no harm.
        let told = writable && self.session.own().keeps_versions().unwrap_or(true);
        let below = |limit: u32| self.last.fetch_add(1, Ordering::Relaxed) % limit + 1;
        let number = match (self.open_options.locks, told) {
            (false, false) => 0,
            (false, true) => below(OpenFile::NUMBER_MAX),
            (true, told) => below(OpenFile::WRITER_BIT - 1) | if told { OpenFile::WRITER_BIT } else { 0 },
        };
        OpenFile { writable, number, life: self.session.about().life }
    }

    /// Opens a file with the flags of open(2).
    pub fn open(&self, node: u64, flags: i32, asked: Asked) -> Result<Opened> {
        let file = self.file(flags);
        if !self.open_options.page_cache {
            return Ok(uncached(file));
        }
        if file.writable {
            self.small.remove(node);
        }
        let mut held = self.table.hold(node);
        let before = held.state();
        if self.table.is_counted(asked) {
            return Ok(opened(file, before, true));
        }
        if before.opens == 0 {
            return self.open_first(&mut held, node, file, flags, asked);
        }
        let exposing = self.expose(node, before, flags)?;
        let after = exposing.opened().ok_or(Errno::NFILE)?;
        let fresh = after.fresh || (after.mode == Mode::Cached && self.writes_direct(file));
        let after = State { fresh, ..after };
        held.change(asked, after);
        Ok(opened(file, after, true))
    }

    /// Opens a file that was just created.
    pub fn open_new(&self, node: u64, flags: i32, asked: Asked) -> Result<Opened> {
        // With O_DSYNC the kernel itself asks for a sync after each write.
        let writes_only = flags & (libc::O_ACCMODE | libc::O_DSYNC) == libc::O_WRONLY;
        if !(writes_only && self.open_options.page_cache && self.open_options.write_past) {
            return self.open(node, flags, asked);
        }
        let mut held = self.table.hold(node);
        if self.table.is_counted(asked) {
            return Ok(opened(self.file(flags), held.state(), true));
        }
        // Another program may have looked it up and opened it already.
        if held.state() != State::default() {
            drop(held);
            return self.open(node, flags, asked);
        }
        let (file, state) = (self.file(flags), State { opens: 1, fresh: true, ..State::default() });
        if held.change(asked, state) {
            return Ok(opened(file, state, true));
        }
        held.overflow();
        Ok(opened(file, State::default(), true))
    }

    /// Whether an open is to hold no pages while it writes, because other mounts use the bucket.
    fn writes_direct(&self, file: OpenFile) -> bool {
        file.writable && self.open_options.write_past && self.sharing.is_shared()
    }

    /// Whether writes of an open node arrive as direct I/O.
    pub fn writes_past_pages(&self, node: u64) -> bool {
        if !self.open_options.page_cache {
            return true;
        }
        let state = self.table.hold(node).state();
        state.fresh || state.mode != Mode::Cached
    }

    /// Decides the mode of a node that is not open.
    fn open_first(
        &self,
        held: &mut LockedNode<'_>,
        node: u64,
        file: OpenFile,
        flags: i32,
        asked: Asked,
    ) -> Result<Opened> {
        let before = held.state();
        let mapped =
            before.mapped && self.session.local().is_some_and(|local| local.is_passthrough(self.view.ino(node)));
        // A writable mapping still exists: readers and writers through other pages would not see its changes.
        let bound = before.mapped_writable && mapped;
        let known = before != State::default() || self.table.is_exact();
        if known
            && (bound || !file.writable)
            && let Some(id) = self.register(node, if bound { 0 } else { LEAST })
        {
            let state = State { mode: Mode::Past(id), opens: 1, mapped: false, ..before };
            let kept = self.expose(node, state, flags).map(|state| held.change(asked, state));
            if kept == Ok(true) {
                return Ok(opened(file, state, true));
            }
            self.unregister(node, id);
            kept?;
        }
        // The node's pages are stale if a mapping wrote the blob directly.
        let fresh = self.writes_direct(file);
        let state = State { mode: Mode::Cached, opens: 1, mapped_writable: bound, mapped, fresh };
        if !held.change(asked, state) {
            held.overflow();
        }
        Ok(opened(file, state, !before.mapped_writable))
    }

    /// Registers the node's blob for passthrough, if the store and the file's size allow it.
    fn register(&self, node: u64, least: u64) -> Option<BackingId> {
        let kernel = self.backing.as_ref().filter(|_| !self.refused.load(Ordering::Relaxed))?;
        if least > 0 && self.small.contains(node) {
            return None;
        }
        let (local, ino) = (self.session.local()?, self.view.ino(node));
        let backing = match local.back(ino, least) {
            Ok(Ok(backing)) => backing,
            Ok(Err(unfit)) => {
                if unfit == Unfit::Small {
                    self.small.insert(node);
                }
                return None;
            }
            Err(error) => {
                tracing::debug!(node, %error, "a file is read through the server");
                return None;
            }
        };
        let registered = backing.descriptor().map(|file| kernel.open(file));
        match registered {
            Some(Ok(id)) => return Some(id),
            Some(Err(error)) => self.refuse(&error),
            None => {}
        }
        local.release_backing(ino);
        None
    }

    /// The kernel or the disk refuses backing files, which does not change while the mount exists.
    fn refuse(&self, error: &std::io::Error) {
        let lasting = [libc::EPERM, libc::ELOOP, libc::EOPNOTSUPP, libc::ENOTTY, libc::EINVAL, libc::ENOSYS];
        let lasts = error.raw_os_error().is_some_and(|number| lasting.contains(&number));
        if lasts && !self.refused.swap(true, Ordering::Relaxed) {
            tracing::info!(%error, "the kernel refuses passthrough on this mount; reads will be slower");
        }
    }

    fn unregister(&self, node: u64, id: BackingId) {
        self.release_backing(node);
        self.close(id);
    }

    /// Records in the store that the kernel has closed all passthrough handles of a node.
    fn release_backing(&self, node: u64) -> Released {
        let release = |local: &dyn LocalFiles| local.release_backing(self.view.ino(node));
        self.session.local().map_or(Released::Done, release)
    }

    fn close(&self, id: BackingId) {
        if let Some(Err(error)) = self.backing.as_ref().map(|kernel| kernel.close(id)) {
            tracing::debug!(%error, id = id.number(), "a backing file stays registered until the mount ends");
        }
    }

    /// Records that a node read by passthrough is about to be opened in a way that allows a writable mapping.
    fn expose(&self, node: u64, state: State, flags: i32) -> Result<State> {
        let maps = flags & libc::O_ACCMODE == libc::O_RDWR && matches!(state.mode, Mode::Past(_));
        if maps
            && !state.mapped_writable
            && let Some(local) = self.session.local()
        {
            local.expose(self.view.ino(node)).map_err(|error| errno::of(&error))?;
        }
        Ok(State { mapped_writable: state.mapped_writable || maps, ..state })
    }

    /// Counts the release of an open, after the kernel has closed it.
    pub fn release(&self, node: u64, asked: Asked) {
        if !self.open_options.page_cache {
            return;
        }
        let mut held = self.table.hold(node);
        let before = held.state();
        if before.opens == 0 || self.table.is_counted(asked) {
            return;
        }
        let after = before.released();
        let Mode::Past(id) = before.mode else {
            held.change(asked, after);
            return;
        };
        if after.opens > 0 {
            held.change(asked, after);
            return;
        }
        let mapped = self.release_backing(node) == Released::Mapped;
        held.change(asked, State { mode: Mode::Cached, mapped, ..after });
        drop(held);
        self.close(id);
    }

    /// Called when the reply to an OPEN, CREATE, TMPFILE or RELEASE was sent.
    pub fn answered(&self, request: u64) {
        self.table.answered(request);
    }

    /// Called when the kernel forgot a node: it is neither open nor mapped.
    pub fn forget(&self, node: u64) {
        if self.table.knows(node) {
            let mut held = self.table.hold(node);
            if held.state().opens == 0 {
                held.settle(State::default());
            }
        }
    }
}

/// The reply to an OPEN with direct I/O, which has no mode.
fn uncached(file: OpenFile) -> Opened {
    let served = Opened::served(file);
    let flags = OpenFlags { keep_cache: false, direct_io: true, parallel_direct_writes: true, ..served.flags };
    Opened { flags, ..served }
}

/// The reply to an OPEN.
fn opened(file: OpenFile, state: State, keep_cache: bool) -> Opened {
    let served = Opened::served(file);
    match state.mode {
        Mode::Cached => Opened { flags: OpenFlags { keep_cache, direct_io: state.fresh, ..served.flags }, ..served },
        Mode::Past(id) => {
            let writer = file.writable;
            let flags =
                OpenFlags { keep_cache: false, direct_io: writer, parallel_direct_writes: writer, ..served.flags };
            Opened { flags, backing: Some(id), ..served }
        }
    }
}
