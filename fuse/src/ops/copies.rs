//! Copies between files of a mount (copy_file_range(2), which cp(1) uses).
//!
//! - The kernel writes back mapped pages before the request and drops the target's pages after the reply. It copies
//!   between mounts itself.
//! - The kernel also asks for the target's setuid and setgid to be cleared, but names no caller then. Through an
//!   idmapped mount, such a request may seem to come from a process that neither owns nor may write the file. So this
//!   module clears the bits as well.

use objstore_files::Spot;

use crate::caller::Caller;
use crate::errno::{self, Result};
use crate::fs::Fs;

/// A range to copy from one file to another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyRange {
    pub from_node: u64,
    pub from_offset: u64,
    pub to_node: u64,
    pub to_offset: u64,
    pub len: u64,
}

impl Fs<'_> {
    /// Copies up to the whole range and returns the number of bytes copied. The caller asks for the rest.
    pub fn copy_range(&self, copy: CopyRange, caller: Caller) -> Result<u64> {
        let from = Spot { ino: self.view.ino(copy.from_node), offset: copy.from_offset };
        let to = Spot { ino: self.view.ino(copy.to_node), offset: copy.to_offset };
        let copied = self.files.copy_range(from, to, copy.len).map_err(|error| errno::of(&error))?;
        if copied > 0 && !caller.keeps_privileges() && self.is_privileged(to.ino) {
            self.kill_privileges(to.ino)?;
        }
        Ok(copied)
    }
}
