//! Passthrough at the seam: descriptors of blobs, which the kernel reads itself. Only a store on this machine has them.

use std::os::fd::BorrowedFd;

use objstore_base::error::Result;

/// A file open by passthrough, until [`LocalFiles::release_backing`].
pub trait Backing {
    /// The file below, open for reading and writing; `None` if it has no descriptor.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;
}

/// Why a file is not opened by passthrough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// It is smaller than requested, which can change only by a write.
    Small,
    /// A temporary reason.
    Now,
}

/// The remaining use of a passthrough file that a mount released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// Nothing of this mount's.
    Done,
    /// A mapping made through a closed handle.
    Mapped,
}

/// Passthrough: the kernel reads and writes the files below by itself.
pub trait LocalFiles: Send + Sync {
    /// Opens a file of at least `least` bytes by passthrough, if that is correct now.
    ///
    /// # Errors
    /// If the file cannot be read; it is then read through the service, which reports the error.
    fn back(&self, ino: u64, least: u64) -> Result<Result<Box<dyn Backing>, Unfit>>;

    /// Registers a file that an earlier process opened by passthrough; the usual conditions do not apply.
    ///
    /// # Errors
    /// If the file has no single blob, or another file has it.
    fn back_again(&self, ino: u64) -> Result<()>;

    /// Records that this session's kernel has closed all passthrough handles of a file.
    fn release_backing(&self, ino: u64) -> Released;

    /// Whether a file is open by passthrough, or still mapped through a closed handle.
    fn is_passthrough(&self, ino: u64) -> bool;

    /// Records that a passthrough file is about to be opened in a way that allows a writable mapping.
    ///
    /// # Errors
    /// If the session or the file's flags forbid changes.
    fn expose(&self, ino: u64) -> Result<()>;
}
