//! The folder backups lie in.
//!
//! ```text
//! amphora-backup              what this is, and the number of this folder
//! lock                        held by who writes
//! backups/BUCKET/ID.manifest  a backup
//! data/XX/HASH                a chunk; XX are the first two digits
//! ```
//! - Everything is for its owner alone (0700, 0600), written beside its place, synced and renamed: a file that has its
//!   name is whole. A crash leaves `*.tmp` files, and chunks that no manifest names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::format::{Manifest, hash, hex};
use crate::clock::{Random, SystemRandom};
use crate::disk::{Disk, Lock, RealDisk};
use crate::error::{Error, Result};

const MARK: &str = "amphora-backup";
const MARK_TEXT: &str = "amphora backup, format 1\nchain ";
const SUFFIX: &str = ".manifest";
const MODE: u32 = 0o600;

/// A folder of backups.
pub struct Folder {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    /// Tells snapshots made for this folder from those for others.
    pub(super) chain: String,
    _lock: Option<Lock>,
}

impl Folder {
    /// Opens a folder to write to, made if it is absent or empty.
    ///
    /// # Errors
    /// [`Error::Unusable`] if it holds something else, or somebody else writes to it.
    pub fn for_writing(dir: &Path) -> Result<Self> {
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
        if !disk.exists(&dir.join(MARK))? {
            let lone = |name: &String| name == "lock" || name == &format!("{MARK}.tmp");
            if disk.exists(dir)? && !disk.list(dir)?.iter().all(lone) {
                let why = format!("{} holds something else than backups: name an empty folder, or none", dir.display());
                return Err(Error::Unusable { why });
            }
            disk.make_dir_all(dir)?;
        }
        let lock = disk.lock(&dir.join("lock"))?;
        if !disk.exists(&dir.join(MARK))? {
            let mut random = [0; 4];
            SystemRandom.fill(&mut random);
            disk.write_atomic(&dir.join(MARK), format!("{MARK_TEXT}{}\n", hex(&random)).as_bytes(), MODE)?;
        }
        Ok(Self { _lock: Some(lock), ..Self::for_reading(dir)? })
    }

    /// Opens a folder to read from.
    ///
    /// # Errors
    /// [`Error::Unusable`] if it is no folder of backups.
    pub fn for_reading(dir: &Path) -> Result<Self> {
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
        let why = format!("{} is no folder of backups: name one that `amphora backup` made", dir.display());
        if !disk.exists(&dir.join(MARK))? {
            return Err(Error::Unusable { why });
        }
        let text = String::from_utf8_lossy(&disk.read_all(&dir.join(MARK))?).into_owned();
        let chain = text.strip_prefix(MARK_TEXT).map(str::trim_end);
        let chain = chain.ok_or(Error::Unusable { why })?.to_owned();
        Ok(Self { disk, dir: dir.to_owned(), chain, _lock: None })
    }

    fn chunk_path(&self, hash: &[u8]) -> PathBuf {
        let name = hex(hash);
        self.dir.join("data").join(name.get(..2).unwrap_or_default()).join(&name)
    }

    /// Whether a chunk is there.
    pub(super) fn has_chunk(&self, hash: &[u8]) -> Result<bool> {
        self.disk.exists(&self.chunk_path(hash))
    }

    /// Writes a chunk, on disk when it returns, unless it is there; its hash, and the bytes written.
    pub(super) fn put_chunk(&self, bytes: &[u8]) -> Result<(Vec<u8>, u64)> {
        let hash = hash(bytes).to_vec();
        let path = self.chunk_path(&hash);
        if self.disk.exists(&path)? {
            return Ok((hash, 0));
        }
        if let Some(dir) = path.parent() {
            self.disk.make_dir_all(dir)?;
        }
        self.disk.write_atomic(&path, bytes, MODE)?;
        Ok((hash, bytes.len() as u64))
    }

    /// A chunk, compared with its name.
    pub(super) fn chunk(&self, name: &[u8]) -> Result<Vec<u8>> {
        let path = self.chunk_path(name);
        let what = || format!("the backup's file {}", path.display());
        if !self.disk.exists(&path)? {
            return Err(Error::corrupt(what(), "a file", "none"));
        }
        let bytes = self.disk.read_all(&path)?;
        let found = hash(&bytes);
        if found != *name {
            return Err(Error::corrupt(what(), "the checksum it is named by", hex(&found)));
        }
        Ok(bytes)
    }

    /// The hashes of all chunks there are, and what else lies between them.
    pub(super) fn chunks(&self) -> Result<(Vec<String>, Vec<PathBuf>)> {
        let (mut chunks, mut others) = (Vec::new(), Vec::new());
        let data = self.dir.join("data");
        for shard in self.names(&data)? {
            for name in self.names(&data.join(&shard))? {
                match name.len() == 64 && name.starts_with(&shard) {
                    true => chunks.push(name),
                    false => others.push(data.join(&shard).join(name)),
                }
            }
        }
        Ok((chunks, others))
    }

    /// Removes a chunk by its hash in hex; the bytes it took.
    pub(super) fn remove_chunk(&self, name: &str) -> Result<u64> {
        let path = self.dir.join("data").join(name.get(..2).unwrap_or_default()).join(name);
        let length = self.disk.open(&path)?.len()?;
        self.disk.remove(&path)?;
        Ok(length)
    }

    pub(super) fn remove(&self, path: &Path) -> Result<()> {
        self.disk.remove(path)
    }

    fn names(&self, dir: &Path) -> Result<Vec<String>> {
        let mut names = if self.disk.exists(dir)? { self.disk.list(dir)? } else { Vec::new() };
        names.sort_unstable();
        Ok(names)
    }

    /// The buckets there are backups of.
    pub(super) fn buckets(&self) -> Result<Vec<String>> {
        self.names(&self.dir.join("backups"))
    }

    /// The ids of the backups of a bucket, oldest first.
    pub(super) fn ids(&self, bucket: &str) -> Result<Vec<String>> {
        let names = self.names(&self.dir.join("backups").join(bucket))?;
        Ok(names.iter().filter_map(|name| name.strip_suffix(SUFFIX)).map(str::to_owned).collect())
    }

    fn manifest_path(&self, bucket: &str, id: &str) -> PathBuf {
        self.dir.join("backups").join(bucket).join(format!("{id}{SUFFIX}"))
    }

    /// Reads a backup.
    pub(super) fn manifest(&self, bucket: &str, id: &str) -> Result<Manifest> {
        let path = self.manifest_path(bucket, id);
        let plain = |text: &str| !text.contains('/') && !text.starts_with('.');
        if !plain(bucket) || !plain(id) || !self.disk.exists(&path)? {
            let why = format!("there is no backup {id} of bucket \"{bucket}\" in {}", self.dir.display());
            return Err(Error::Unusable { why });
        }
        let what = format!("the backup {}", path.display());
        Manifest::from_bytes(&what, &self.disk.read_all(&path)?)
    }

    /// Writes a backup: from here on it is one.
    pub(super) fn put_manifest(&self, id: &str, manifest: &Manifest) -> Result<()> {
        let path = self.manifest_path(&manifest.bucket, id);
        if let Some(dir) = path.parent() {
            self.disk.make_dir_all(dir)?;
        }
        self.disk.write_atomic(&path, &manifest.to_bytes(), MODE)
    }

    /// Removes a backup; its chunks go with `prune`.
    pub(super) fn remove_manifest(&self, bucket: &str, id: &str) -> Result<()> {
        let path = self.manifest_path(bucket, id);
        self.disk.remove(&path)?;
        path.parent().map_or(Ok(()), |dir| self.disk.sync_dir(dir))
    }
}
