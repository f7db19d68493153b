//! The backup repository: the folder in which backups lie.
//!
//! ```text
//! amphora-backup              the kind of folder, and its id
//! lock                        held by a writer
//! backups/BUCKET/ID.manifest  a backup
//! data/XX/HASH                a chunk; XX are the first two digits
//! ```
//!
//! - Everything is private to its owner (0700, 0600), and written under a temporary name, synced and renamed: a file
//!   with its final name is complete. A crash leaves `*.tmp` files, and chunks that no manifest names.
//! - Nothing in it is trusted, because another user may have created it ([`UntrustedDir`]). Every read and listing is
//!   bounded, and the length of a chunk of messages comes from its manifest.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::format::{CONTENT_MAX, Chunk, MANIFEST_MAX, MESSAGES_MAX, Manifest, hash, hex};
use crate::clock::{Random, SystemRandom};
use crate::disk::{Disk, Lock, RealDisk, UntrustedDir, is_missing, is_of_the_volume};
use crate::error::{Error, Result};
use crate::name::BucketName;

const MARK: &str = "amphora-backup";
const MARK_TEXT: &str = "amphora backup, format 1\nchain ";
/// The largest mark file in bytes.
const MARK_MAX: u64 = 256;
const SUFFIX: &str = ".manifest";
const MODE: u32 = 0o600;
/// The most names in one folder: buckets, backups of one, or chunks with the same prefix.
const NAMES_MAX: usize = 1 << 18;

/// A backup repository.
pub struct Folder {
    dir: UntrustedDir,
    /// Identifies snapshots made for this repository.
    pub(super) chain: String,
    _lock: Option<Lock>,
}

impl Folder {
    /// Opens a repository for writing; created if the folder is absent or empty.
    ///
    /// # Errors
    /// [`Error::Unusable`] if it holds something else, or another program writes to it.
    pub fn for_writing(dir: &Path) -> Result<Self> {
        RealDisk::new().make_dir_all(dir)?;
        let folder = UntrustedDir::open(dir)?;
        let mark = Path::new(MARK);
        let is_marked = folder.length(mark)?.is_some();
        let lone = |name: &String| name == "lock" || name == &format!("{MARK}.tmp") || is_of_the_volume(name);
        if !is_marked && !folder.list(Path::new(""), NAMES_MAX)?.iter().all(lone) {
            let why = format!(
                "{} contains other files than backups: name an empty folder, or one that does not exist",
                dir.display()
            );
            return Err(Error::Unusable { why });
        }
        let lock = folder.lock(Path::new("lock"))?;
        if folder.length(mark)?.is_none() {
            let mut random = [0; 4];
            SystemRandom.fill(&mut random);
            folder.write_atomic(mark, format!("{MARK_TEXT}{}\n", hex(&random)).as_bytes(), MODE)?;
        }
        Ok(Self { _lock: Some(lock), ..Self::for_reading(dir)? })
    }

    /// Opens a repository for reading.
    ///
    /// # Errors
    /// [`Error::Unusable`] if it is not a backup repository.
    pub fn for_reading(dir: &Path) -> Result<Self> {
        let foreign = || Error::Unusable {
            why: format!("{} is not a folder of backups: name one that `amphora backup` created", dir.display()),
        };
        let absent = |error| if is_missing(&error) { foreign() } else { error };
        let folder = UntrustedDir::open(dir).map_err(absent)?;
        let mark = folder.read(Path::new(MARK), MARK_MAX).map_err(absent)?;
        let chain = std::str::from_utf8(&mark).ok().and_then(|text| text.strip_prefix(MARK_TEXT)).map(str::trim_end);
        let is_chain = |chain: &&str| chain.len() <= 16 && chain.bytes().all(|byte| byte.is_ascii_hexdigit());
        let chain = chain.filter(is_chain).ok_or_else(foreign)?.to_owned();
        Ok(Self { dir: folder, chain, _lock: None })
    }

    /// Whether a chunk exists.
    pub(super) fn has_chunk(&self, hash: &[u8]) -> Result<bool> {
        self.dir.length(&chunk_path(&hex(hash))).map(|length| length.is_some())
    }

    /// Writes a chunk unless it exists; it is on disk when this returns. Returns its hash, and the bytes written.
    pub(super) fn put_chunk(&self, bytes: &[u8]) -> Result<(Vec<u8>, u64)> {
        let hash = hash(bytes).to_vec();
        let path = chunk_path(&hex(&hash));
        if self.dir.length(&path)?.is_some() {
            return Ok((hash, 0));
        }
        if let Some(dir) = path.parent() {
            self.dir.make_dir_all(dir)?;
        }
        self.dir.write_atomic(&path, bytes, MODE)?;
        Ok((hash, bytes.len() as u64))
    }

    /// A chunk of content, verified by its name.
    pub(super) fn content(&self, name: &[u8]) -> Result<Vec<u8>> {
        self.chunk(name, CONTENT_MAX)
    }

    /// A chunk of messages, verified by its name and by the length in its manifest.
    pub(super) fn messages(&self, chunk: &Chunk) -> Result<Vec<u8>> {
        let bytes = self.chunk(&chunk.hash, chunk.length.min(MESSAGES_MAX))?;
        if bytes.len() as u64 != chunk.length {
            let what = format!("the backup's file {}", self.dir.shown(&chunk_path(&hex(&chunk.hash))).display());
            return Err(Error::corrupt(what, format!("{} bytes", chunk.length), format!("{}", bytes.len())));
        }
        Ok(bytes)
    }

    fn chunk(&self, name: &[u8], limit: u64) -> Result<Vec<u8>> {
        let path = chunk_path(&hex(name));
        let what = || format!("the backup's file {}", self.dir.shown(&path).display());
        let bytes = match self.dir.read(&path, limit) {
            Err(error) if is_missing(&error) => return Err(Error::corrupt(what(), "a file", "none")),
            read => read?,
        };
        let found = hash(&bytes);
        if found != *name {
            return Err(Error::corrupt(what(), "the checksum it is named by", hex(&found)));
        }
        Ok(bytes)
    }

    /// Passes on the names of all chunks and of temporary files, one folder at a time.
    pub(super) fn each_chunk(&self, mut f: impl FnMut(&str) -> Result<()>) -> Result<()> {
        for shard in 0..=u8::MAX {
            let shard = hex(&[shard]);
            for name in self.dir.list(&Path::new("data").join(&shard), NAMES_MAX)? {
                let hash = name.strip_suffix(".tmp").unwrap_or(&name);
                let is_hash = hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
                if is_hash && hash.starts_with(&shard) {
                    f(&name)?;
                }
            }
        }
        Ok(())
    }

    /// Removes a file that [`Folder::each_chunk`] named; returns its size.
    pub(super) fn remove_chunk(&self, name: &str) -> Result<u64> {
        let path = chunk_path(name);
        let length = self.dir.length(&path)?.unwrap_or_default();
        self.dir.remove(&path)?;
        Ok(length)
    }

    fn names(&self, dir: &Path) -> Result<Vec<String>> {
        let mut names = self.dir.list(dir, NAMES_MAX)?;
        names.sort_unstable();
        Ok(names)
    }

    /// The buckets that have backups.
    pub(super) fn buckets(&self) -> Result<Vec<String>> {
        let mut names = self.names(Path::new("backups"))?;
        names.retain(|name| name.parse::<BucketName>().is_ok());
        Ok(names)
    }

    /// The ids of the backups of a bucket, oldest first.
    pub(super) fn ids(&self, bucket: &str) -> Result<Vec<String>> {
        let names = self.names(&Path::new("backups").join(bucket))?;
        let ids = names.iter().filter_map(|name| name.strip_suffix(SUFFIX)).filter(|id| is_plain(id));
        Ok(ids.map(str::to_owned).collect())
    }

    /// Reads a backup.
    pub(super) fn manifest(&self, bucket: &str, id: &str) -> Result<Manifest> {
        let path = manifest_path(bucket, id);
        let absent = || Error::Unusable {
            why: format!(
                "there is no backup {id} of bucket \"{bucket}\" in {}",
                self.dir.shown(Path::new("")).display()
            ),
        };
        if !is_plain(bucket) || !is_plain(id) {
            return Err(absent());
        }
        let bytes = self.dir.read(&path, MANIFEST_MAX);
        let bytes = bytes.map_err(|error| if is_missing(&error) { absent() } else { error })?;
        let what = format!("the backup {}", self.dir.shown(&path).display());
        let manifest = Manifest::from_bytes(&what, &bytes)?;
        if manifest.bucket != bucket {
            let found = manifest.bucket.escape_debug().to_string();
            return Err(Error::corrupt(what, format!("the bucket name {bucket}"), found));
        }
        // Otherwise a short manifest could have one long file read many times.
        let mut named = HashSet::new();
        match manifest.records.iter().chain(&manifest.blobs).find(|chunk| !named.insert(&chunk.hash)) {
            Some(twice) => Err(Error::corrupt(what, "each of its files once", format!("{} again", hex(&twice.hash)))),
            None => Ok(manifest),
        }
    }

    /// Writes a manifest, which completes a backup.
    ///
    /// # Errors
    /// [`Error::Unusable`] if it is larger than the reader accepts.
    pub(super) fn put_manifest(&self, id: &str, manifest: &Manifest) -> Result<()> {
        let (path, bytes) = (manifest_path(&manifest.bucket, id), manifest.to_bytes());
        if bytes.len() as u64 > MANIFEST_MAX {
            let why = format!("the manifest would have {} bytes, more than {MANIFEST_MAX}", bytes.len());
            return Err(Error::Unusable {
                why: format!("{why}: the bucket \"{}\" is too large for a backup", manifest.bucket),
            });
        }
        if let Some(dir) = path.parent() {
            self.dir.make_dir_all(dir)?;
        }
        self.dir.write_atomic(&path, &bytes, MODE)
    }

    /// Removes a manifest; `prune` removes its chunks.
    pub(super) fn remove_manifest(&self, bucket: &str, id: &str) -> Result<()> {
        let path = manifest_path(bucket, id);
        self.dir.remove(&path)?;
        path.parent().map_or(Ok(()), |dir| self.dir.sync(dir))
    }
}

/// The path of a chunk with this hash in hexadecimal; its temporary file lies beside it.
fn chunk_path(name: &str) -> PathBuf {
    Path::new("data").join(name.get(..2).unwrap_or_default()).join(name)
}

fn manifest_path(bucket: &str, id: &str) -> PathBuf {
    Path::new("backups").join(bucket).join(format!("{id}{SUFFIX}"))
}

/// Whether a text can be a bucket name or backup id: it is not a path, and is printable.
fn is_plain(text: &str) -> bool {
    !text.starts_with('.') && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/')
}
