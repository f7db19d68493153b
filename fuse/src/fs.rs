//! The file system: what each request means, in terms of the store and without the protocol's encoding.
//!
//! - `ops` has one `impl` block for each group of requests. Nodes and attributes are the mount's; everything between
//!   is the store's.
//! - Every method may wait for the disk, and none waits for the kernel.

use std::ffi::OsStr;
use std::ops::Deref;
use std::sync::Arc;

use objstore_base::clock::Clock;
use objstore_files::{FileSession, Files, NAME_BYTES_MAX};
use rustix::io::Errno;

use crate::errno::Result;
use crate::handles::OpenDirectories;
use crate::known::Known;
use crate::locks::FileLocks;
use crate::passthrough::Opens;
use crate::sharing::Sharing;
use crate::stats::Stats;
use crate::view::View;

/// The parts of a mounted volume's file system, which all its requests share.
pub(crate) struct Parts {
    pub session: FileSession,
    pub view: View,
    pub directories: OpenDirectories,
    pub clock: Arc<dyn Clock>,
    pub stats: Arc<Stats>,
    /// The open files, in memory that outlives this process.
    pub opens: Opens,
    /// Whether other mounts use the bucket.
    pub sharing: Arc<Sharing>,
    /// What the kernel may have cached.
    pub known: Arc<Known>,
    /// The file locks.
    pub locks: Arc<FileLocks>,
    /// Whether callers can be looked up by their process id.
    pub sees_callers: bool,
}

impl Parts {
    /// The file system for a request, for which `files` act.
    pub fn serving<'a>(&'a self, files: &'a Files<'a>) -> Fs<'a> {
        Fs { files, parts: self }
    }
}

/// The file system as one request sees it.
#[derive(Clone, Copy)]
pub(crate) struct Fs<'a> {
    /// The files, by a handle that acts for the request.
    pub files: &'a Files<'a>,
    parts: &'a Parts,
}

impl Deref for Fs<'_> {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        self.parts
    }
}

/// A name as it may stand in an object key: EILSEQ if it is not UTF-8, ENAMETOOLONG beyond 255 bytes.
pub(crate) fn name(name: &OsStr) -> Result<&str> {
    if name.len() > NAME_BYTES_MAX {
        return Err(Errno::NAMETOOLONG);
    }
    text(name)
}

/// A string that the store can keep: UTF-8.
pub(crate) fn text(text: &OsStr) -> Result<&str> {
    text.to_str().ok_or(Errno::ILSEQ)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn names_are_utf8_of_at_most_255_bytes() {
        let long = "é".repeat(127);
        assert_eq!(name(OsStr::new(&long)), Ok(long.as_str()));
        assert_eq!(name(OsStr::new(&"é".repeat(128))), Err(Errno::NAMETOOLONG));
        assert_eq!(name(OsStr::from_bytes(b"a\xff")), Err(Errno::ILSEQ));
    }
}
