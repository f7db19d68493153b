//! Copies from file to file within the mount (copy_file_range(2), which cp(1) uses).
//!
//! - The kernel writes back what programs have mapped and changed, and drops the target's pages after the answer. Between
//!   mounts it copies itself. It also has privileges taken from the target; but not by whom it does not tell and who is
//!   not found to own or write the file, as through an idmapped mount. So that is seen to here as well.

use objstore::volume::Spot;

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

impl Fs {
    /// Copies up to all of it; how many bytes. The caller asks for the rest.
    pub fn copy_range(&self, copy: CopyRange, caller: Caller) -> Result<u64> {
        let from = Spot { ino: self.view.ino(copy.from_node), offset: copy.from_offset };
        let to = Spot { ino: self.view.ino(copy.to_node), offset: copy.to_offset };
        let copied = self.volume.copy_range(from, to, copy.len).map_err(|error| errno::of(&error))?;
        if copied > 0 && !caller.keeps_privileges() && self.is_privileged(to.ino) {
            self.kill_privileges(to.ino)?;
        }
        Ok(copied)
    }
}
