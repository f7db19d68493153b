//! The reply to opening a file: a handle, cache flags, and the backing file for passthrough if there is one.

use std::io;
use std::os::fd::BorrowedFd;

use crate::handles::OpenFile;

/// How the kernel treats an open file. With all flags off, it uses the page cache and drops it on open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OpenFlags {
    /// Keep the pages cached from earlier opens.
    pub keep_cache: bool,
    /// Direct I/O: no page cache, each read and write is a request.
    pub direct_io: bool,
    /// The file has no position.
    pub nonseekable: bool,
    /// Cache the listing (directories).
    pub cache_dir: bool,
    /// Closing a descriptor sends no FLUSH.
    pub no_flush: bool,
    /// With `direct_io`: several writes to the file at a time.
    pub parallel_direct_writes: bool,
}

/// A file that was just opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opened {
    pub handle: OpenFile,
    pub flags: OpenFlags,
    /// The backing file that the kernel reads and writes itself.
    pub backing: Option<BackingId>,
}

impl Opened {
    /// An open without passthrough. The pages stay cached on open, and closing a file that has a number is announced
    /// (see `ops::files`).
    pub fn served(handle: OpenFile) -> Self {
        let flags = OpenFlags { keep_cache: true, no_flush: handle.number == 0, ..OpenFlags::default() };
        Self { handle, flags, backing: None }
    }
}

/// The kernel's number for a registered backing file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BackingId(i32);

impl BackingId {
    /// A number that this or an earlier process received from the kernel.
    pub fn from_number(number: i32) -> Self {
        Self(number)
    }

    /// The number.
    pub fn number(self) -> i32 {
        self.0
    }
}

/// Registers backing files with the kernel. A mount without passthrough refuses.
pub(crate) trait Backing: Send + Sync {
    /// Registers a file; the kernel keeps it open until [`Backing::close`].
    fn open(&self, file: BorrowedFd<'_>) -> io::Result<BackingId>;
    /// Ends the registration of a file. Files opened with it keep it.
    fn close(&self, id: BackingId) -> io::Result<()>;
}
