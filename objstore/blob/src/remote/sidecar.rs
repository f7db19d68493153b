//! The sidecar of a local file: which of its chunks hold changes that are not saved.
//!
//! - It is for a process that dies while the machine lives: what a program wrote is then in the page cache, and in nothing
//!   else. So it is never synced, and not believed after the machine was started again.
//! - A chunk is marked before it is changed, and the mark is removed after the change was saved. A chunk that is not here, and
//!   is written as a whole, is marked after it is here.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use objstore_base::error::Result;
use objstore_disk::{Disk, File};

const DIRTY: u8 = 2;
const CLEAN: u8 = 1;

/// The sidecar of one file, created with its first mark.
pub(super) struct Sidecar {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: OnceLock<Arc<dyn File>>,
}

impl Sidecar {
    pub fn new(disk: Arc<dyn Disk>, file: &std::path::Path) -> Self {
        let mut path = file.as_os_str().to_owned();
        path.push(".s");
        Self { disk, path: path.into(), file: OnceLock::new() }
    }

    /// Marks a chunk, or with `None` the attributes.
    pub fn mark(&self, chunk: Option<u32>, dirty: bool) -> Result<()> {
        let file = match self.file.get() {
            Some(file) => file,
            None if !dirty => return Ok(()),
            None => {
                let file = match self.disk.exists(&self.path)? {
                    true => self.disk.open(&self.path)?,
                    false => self.disk.create(&self.path)?,
                };
                self.file.get_or_init(|| file)
            }
        };
        let at = chunk.map_or(0, |chunk| u64::from(chunk) + 1);
        file.write_at(&[if dirty { DIRTY } else { CLEAN }], at)
    }

    /// What an earlier process marked: whether the attributes, and which chunks are changed, or only here.
    pub fn read(&self) -> Result<Option<(bool, Vec<u32>)>> {
        if !self.disk.exists(&self.path)? {
            return Ok(None);
        }
        let bytes = self.disk.read_all(&self.path)?;
        let chunks = bytes.iter().skip(1).zip(0..).filter(|(byte, _)| **byte == DIRTY).map(|(_, index)| index);
        Ok(Some((bytes.first() == Some(&DIRTY), chunks.collect())))
    }

    pub fn remove(&self) -> Result<()> {
        self.disk.remove(&self.path)
    }
}
