//! What an open file is for the kernel: a handle, how to cache it, and the file to read past the server, if any.

use std::io;
use std::os::fd::BorrowedFd;

use crate::handles::OpenFile;

/// How the kernel treats an open file. All off: through the page cache, which is dropped on open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OpenFlags {
    /// Keep the pages cached from earlier opens.
    pub keep_cache: bool,
    /// Past the page cache, each read and write a request.
    pub direct_io: bool,
    /// It has no position.
    pub nonseekable: bool,
    /// Cache the listing (directories).
    pub cache_dir: bool,
    /// Closing a descriptor of it is not told (FLUSH).
    pub no_flush: bool,
    /// With `direct_io`: several writes at a time.
    pub parallel_direct_writes: bool,
}

/// A file that was just opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opened {
    pub handle: OpenFile,
    pub flags: OpenFlags,
    /// The file that the kernel reads and writes in place of asking.
    pub backing: Option<BackingId>,
}

impl Opened {
    /// Through the server. Pages stay on open, and closing is told of files that have a number (see `ops::files`).
    pub fn served(handle: OpenFile) -> Self {
        let flags = OpenFlags { keep_cache: true, no_flush: handle.number == 0, ..OpenFlags::default() };
        Self { handle, flags, backing: None }
    }
}

/// The kernel's number for a file it may read past the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BackingId(i32);

impl BackingId {
    /// From the number, such as another process left it.
    pub fn from_number(number: i32) -> Self {
        Self(number)
    }

    /// The number.
    pub fn number(self) -> i32 {
        self.0
    }
}

/// Hands files to the kernel. A mount that was not granted passthrough refuses.
pub(crate) trait Backing: Send + Sync {
    /// Registers a file; the kernel holds it until it is given back.
    fn open(&self, file: BorrowedFd<'_>) -> io::Result<BackingId>;
    /// Gives a file back. Opens that use it keep it.
    fn close(&self, id: BackingId) -> io::Result<()>;
}
