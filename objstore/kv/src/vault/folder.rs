//! Checkpoints in a folder that all servers reach, for tests with several processes.
//!
//! - Replacements exclude each other by a lock on a file (flock(2)), which has to hold among all servers.
//!
//! A crash leaves whole objects, and temporary files.

use std::fs::File;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use objstore_base::error::{Error, Result};
use objstore_disk::{Disk, RealDisk};
use rustix::fs::{FlockOperation, flock};
use xxhash_rust::xxh3::xxh3_128;

use super::{Replaced, Tag, Vault};

const MODE: u32 = 0o600;

/// A vault in a folder.
pub struct Folder {
    path: PathBuf,
    disk: RealDisk,
}

impl Folder {
    /// Opens the folder, or makes it.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn open(path: &Path) -> Result<Self> {
        let disk = RealDisk::new();
        disk.make_dir_all(path)?;
        Ok(Self { path: path.to_owned(), disk })
    }

    /// Names are ours: the part before a slash is one folder.
    fn at(&self, name: &str) -> Result<PathBuf> {
        let path = self.path.join(name);
        if let Some(parent) = path.parent() {
            self.disk.make_dir_all(parent)?;
        }
        Ok(path)
    }
}

fn tag(content: &[u8]) -> Tag {
    Tag(format!("{:032x}", xxh3_128(content)))
}

impl Vault for Folder {
    fn put(&self, name: &str, content: Bytes) -> Result<()> {
        let path = self.at(name)?;
        if self.disk.exists(&path)? { Ok(()) } else { self.disk.write_atomic(&path, &content, MODE) }
    }

    fn get(&self, name: &str, most: usize) -> Result<Option<(Bytes, Tag)>> {
        let path = self.at(name)?;
        if !self.disk.exists(&path)? {
            return Ok(None);
        }
        let content = Bytes::from(self.disk.read_all(&path)?);
        if content.len() > most {
            return Err(Error::corrupt(name, format!("at most {most} bytes"), format!("{} bytes", content.len())));
        }
        let tag = tag(&content);
        Ok(Some((content, tag)))
    }

    fn replace(&self, name: &str, content: Bytes, before: Option<&Tag>) -> Result<Replaced> {
        let io = |source: std::io::Error| Error::io(format!("locking {}", self.path.display()), source);
        let lock = File::create(self.path.join("lock")).map_err(io)?;
        flock(&lock, FlockOperation::LockExclusive).map_err(|errno| io(errno.into()))?;
        let found = self.get(name, usize::MAX)?.map(|(_, tag)| tag);
        if found.as_ref() != before {
            return Ok(Replaced::Conflict);
        }
        self.disk.write_atomic(&self.at(name)?, &content, MODE)?;
        Ok(Replaced::Done(tag(&content)))
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        let (folder, begin) = prefix.rsplit_once('/').unwrap_or(("", prefix));
        let path = self.path.join(folder);
        if !self.disk.exists(&path)? {
            return Ok(Vec::new());
        }
        let names = self.disk.list(&path)?.into_iter().filter(|name| name.starts_with(begin));
        Ok(names.map(|name| if folder.is_empty() { name } else { format!("{folder}/{name}") }).collect())
    }

    fn remove(&self, names: &[String]) -> Result<()> {
        names.iter().try_for_each(|name| self.disk.remove(&self.at(name)?))
    }
}
