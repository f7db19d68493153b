//! Copies from file to file within the mount (copy_file_range(2), which cp(1) uses).
//!
//! - The kernel writes back what programs have mapped and changed, takes privileges from the target, and drops the
//!   target's pages after the answer. Between mounts it copies itself.

use objstore::volume::Spot;

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
    pub fn copy_range(&self, copy: CopyRange) -> Result<u64> {
        let from = Spot { ino: self.view.ino(copy.from_node), offset: copy.from_offset };
        let to = Spot { ino: self.view.ino(copy.to_node), offset: copy.to_offset };
        self.volume.copy_range(from, to, copy.len).map_err(|error| errno::of(&error))
    }
}
