//! How files are opened: through the kernel's pages, or past the server, where the kernel reads the blob by itself.
//!
//! - The kernel takes one mode for all opens of a node, and fails an open in the other with EIO. So the first one
//!   decides, until the last is released; the `table` counts them, and outlives this process.
//! - A reader of a large file that nobody has open goes past the server, if the store can let it. A writer that comes
//!   later has its reads and writes sent to the server (FOPEN_DIRECT_IO), which writes the same blob in place: there is
//!   one page cache, the blob's, and the readers see what is written.
//! - Such a writer can map the blob, and write it past the server. Before it is answered the file is *exposed* in the
//!   store. The pages that the kernel had of the node before are dropped at the next open through them.
//! - A file whose first open is a writer's is opened through the kernel's pages, for readers too.
//! - But for one that is *fresh*: made by who can only write it. Its writes come to the server as they are, past the
//!   pages (FOPEN_DIRECT_IO): otherwise the kernel asks for the new file's capabilities before the first, and sends each
//!   that does not end with a page in two. Until all have closed it, who else opens it reads past the pages too: a page
//!   read during a write could stay stale in kernels that drop pages before such a write, and not after it.
//! - Where the kernel or the disk refuse a backing file, everything goes through the server; that is logged once.
//!
//! A crash between registering a backing file and counting the open leaves a file registered until the mount ends, and
//! nothing else.

mod small;
mod state;
mod table;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use objstore::volume::{Released, Unfit, Volume};
use rustix::io::Errno;

use crate::errno::{self, Result};
use crate::handles::{OpenFile, is_writer};
use crate::opened::{Backing, BackingId, OpenFlags, Opened};
use crate::shared::Shared;
use crate::view::View;

use small::SmallFiles;
use state::{Mode, State};
pub(crate) use table::Asked;
use table::{Held, Table};

/// The smallest file that is worth it, in bytes: registering a backing file costs an open more than reading this much
/// through the server does (decision 0025).
const LEAST: u64 = 64 << 10;

/// How a mount wants its files opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    /// Through the kernel's page cache; else each read and write comes to the server.
    pub page_cache: bool,
    /// New files are written past it by who only writes them: what is opened so can still be mapped.
    pub write_past: bool,
}

/// The open files of a mount.
pub(crate) struct Opens {
    table: Table,
    volume: Volume,
    view: View,
    wish: Wish,
    /// Hands files to the kernel, unless it does not take any.
    backing: Option<Arc<dyn Backing>>,
    refused: AtomicBool,
    small: SmallFiles,
    /// The last number given to a file whose closing is told.
    last: AtomicU32,
}

impl Opens {
    /// What the process before left in `shared`, or none: before the first request is served. `backing` is `None` if the
    /// kernel did not grant passthrough.
    pub fn resume(
        shared: Arc<Shared>,
        backing: Option<Arc<dyn Backing>>,
        volume: Volume,
        view: View,
        wish: Wish,
    ) -> Self {
        let (table, refused, small) = (Table::resume(shared), AtomicBool::new(false), SmallFiles::new());
        let opens = Self { table, volume, view, wish, backing, refused, small, last: AtomicU32::new(0) };
        opens.take_over();
        opens
    }

    /// Has the store treat what the kernel has open past the server as that.
    fn take_over(&self) {
        if self.volume.inherited() {
            self.volume.open_before(self.table.nodes().into_iter().map(|node| self.view.ino(node)));
        }
        for node in self.table.nodes() {
            let state = self.table.hold(node).state();
            let past = matches!(state.mode, Mode::Past(_)) || state.mapped;
            if past && let Err(error) = self.volume.back_again(self.view.ino(node)) {
                tracing::error!(node, %error, "cannot end the passthrough of a file; it may not show later writes");
            }
        }
    }

    /// A file that is opened with the flags of open(2), in this life of the store.
    fn file(&self, flags: i32) -> OpenFile {
        let writable = is_writer(flags);
        // If that cannot be told now, telling does no harm.
        let told = writable && self.volume.keeps_versions().unwrap_or(true);
        let number = || self.last.fetch_add(1, Ordering::Relaxed) % OpenFile::NUMBER_MAX + 1;
        OpenFile { writable, number: if told { number() } else { 0 }, life: self.volume.life() }
    }

    /// Opens a file with the flags of open(2).
    pub fn open(&self, node: u64, flags: i32, asked: Asked) -> Result<Opened> {
        let file = self.file(flags);
        if !self.wish.page_cache {
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
        held.change(asked, after);
        Ok(opened(file, after, true))
    }

    /// Opens a file that was just made.
    pub fn open_new(&self, node: u64, flags: i32, asked: Asked) -> Result<Opened> {
        // Who wants each write on disk has the kernel ask for that.
        let writes_only = flags & (libc::O_ACCMODE | libc::O_DSYNC) == libc::O_WRONLY;
        if !(writes_only && self.wish.page_cache && self.wish.write_past) {
            return self.open(node, flags, asked);
        }
        let mut held = self.table.hold(node);
        if self.table.is_counted(asked) {
            return Ok(opened(self.file(flags), held.state(), true));
        }
        // Others may have looked it up and opened it by now.
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

    /// Whether writes of a node that is open come to the server past the kernel's pages.
    pub fn writes_past_pages(&self, node: u64) -> bool {
        if !self.wish.page_cache {
            return true;
        }
        let state = self.table.hold(node).state();
        state.fresh || state.mode != Mode::Cached
    }

    /// Decides how a node is opened that is not open.
    fn open_first(&self, held: &mut Held<'_>, node: u64, file: OpenFile, flags: i32, asked: Asked) -> Result<Opened> {
        let before = held.state();
        let mapped = before.mapped && self.volume.is_backed(self.view.ino(node));
        // A mapping that may write lives on: who reads or writes through other pages would not see it.
        let bound = before.exposed && mapped;
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
        // The pages from before are stale if a mapping wrote past the server.
        let state = State { mode: Mode::Cached, opens: 1, exposed: bound, mapped, fresh: false };
        if !held.change(asked, state) {
            held.overflow();
        }
        Ok(opened(file, state, !before.exposed))
    }

    /// Lets the kernel read a file past the server, if that is right.
    fn register(&self, node: u64, least: u64) -> Option<BackingId> {
        let kernel = self.backing.as_ref().filter(|_| !self.refused.load(Ordering::Relaxed))?;
        if least > 0 && self.small.contains(node) {
            return None;
        }
        let ino = self.view.ino(node);
        let backing = match self.volume.back(ino, least) {
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
        self.volume.release_backing(ino);
        None
    }

    /// The kernel or the disk takes no backing files: that does not change while the mount is there.
    fn refuse(&self, error: &std::io::Error) {
        let lasting = [libc::EPERM, libc::ELOOP, libc::EOPNOTSUPP, libc::ENOTTY, libc::EINVAL, libc::ENOSYS];
        let lasts = error.raw_os_error().is_some_and(|number| lasting.contains(&number));
        if lasts && !self.refused.swap(true, Ordering::Relaxed) {
            tracing::info!(%error, "the kernel refuses passthrough on this mount; reads will be slower");
        }
    }

    fn unregister(&self, node: u64, id: BackingId) {
        self.volume.release_backing(self.view.ino(node));
        self.close(id);
    }

    fn close(&self, id: BackingId) {
        if let Some(Err(error)) = self.backing.as_ref().map(|kernel| kernel.close(id)) {
            tracing::debug!(%error, id = id.number(), "a backing file stays registered until the mount ends");
        }
    }

    /// Before a node that is read past the server is opened so that it can be mapped for writing.
    fn expose(&self, node: u64, state: State, flags: i32) -> Result<State> {
        let maps = flags & libc::O_ACCMODE == libc::O_RDWR && matches!(state.mode, Mode::Past(_));
        if maps && !state.exposed {
            self.volume.expose(self.view.ino(node)).map_err(|error| errno::of(&error))?;
        }
        Ok(State { exposed: state.exposed || maps, ..state })
    }

    /// An open was released: the kernel has let go of it.
    pub fn release(&self, node: u64, asked: Asked) {
        if !self.wish.page_cache {
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
        let mapped = self.volume.release_backing(self.view.ino(node)) == Released::Mapped;
        held.change(asked, State { mode: Mode::Cached, mapped, ..after });
        drop(held);
        self.close(id);
    }

    /// An OPEN, CREATE, TMPFILE or RELEASE was answered.
    pub fn answered(&self, request: u64) {
        self.table.answered(request);
    }

    /// The kernel has forgotten a node: nothing of it is open or mapped.
    pub fn forget(&self, node: u64) {
        if self.table.knows(node) {
            let mut held = self.table.hold(node);
            if held.state().opens == 0 {
                held.settle(State::default());
            }
        }
    }
}

/// The answer to an OPEN past the kernel's pages, which knows no modes.
fn uncached(file: OpenFile) -> Opened {
    let served = Opened::served(file);
    let flags = OpenFlags { keep_cache: false, direct_io: true, parallel_direct_writes: true, ..served.flags };
    Opened { flags, ..served }
}

/// The answer to an OPEN.
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
