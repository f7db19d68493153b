//! Direct writes: writes to a file that bypass the page cache.
//!
//! - Only whole blocks of [`DIRECT_BLOCK`] bytes, at aligned places in memory and in the file, are written directly.
//!   The rest is left to an ordinary write of the same file.
//! - A direct write is not durable: size, allocation and the drive's own cache need the file's sync as before.
//! - If the file system refuses direct writes (EINVAL, on opening or on the first write), they are not tried again for
//!   that file.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::DIRECT_BLOCK;

/// A second descriptor of a file, for direct writes.
pub(super) struct Direct {
    file: File,
    refused: AtomicBool,
}

impl Direct {
    /// Opens `path` for direct writes; `None` if that is not possible, for example if the file system does not support
    /// it: an ordinary write works too.
    pub(super) fn open(path: &Path) -> Option<Self> {
        let file = OpenOptions::new().write(true).custom_flags(libc::O_DIRECT | libc::O_NOFOLLOW).open(path).ok()?;
        Some(Self { file, refused: AtomicBool::new(false) })
    }

    /// Writes as much of the front of `data` as can be written directly; returns the number of bytes written.
    pub(super) fn write(&self, data: &[u8], offset: u64) -> Result<usize> {
        let takes = direct_part(data, offset);
        let mut done = 0;
        while done < takes && !self.refused.load(Ordering::Relaxed) {
            match self.file.write_at(&data[done..takes], offset + done as u64) {
                Ok(count) => {
                    done += count;
                    // The write ended within a block, as on a disk that becomes full: the ordinary write that follows
                    // reports why.
                    if count == 0 || !done.is_multiple_of(DIRECT_BLOCK) {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_refusal(&error) => self.refused.store(true, Ordering::Relaxed),
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }
}

fn is_refusal(error: &Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP))
}

/// How many bytes of the front of `data`, written at `offset`, can be written directly: whole blocks at aligned places.
pub fn direct_part(data: &[u8], offset: u64) -> usize {
    let aligned = data.as_ptr().addr().is_multiple_of(DIRECT_BLOCK) && offset.is_multiple_of(DIRECT_BLOCK as u64);
    if aligned { data.len() / DIRECT_BLOCK * DIRECT_BLOCK } else { 0 }
}
