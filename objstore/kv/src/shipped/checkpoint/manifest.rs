//! The manifest of a checkpoint: which files a copy consists of, and where they lie.
//!
//! - A byte with the version of this layout; the log's identity, 16 bytes; the epoch of its writer, the last batch, and the
//!   last batch of the checkpoint before it, 8 bytes each; the number of files, 4 bytes; the files; and the CRC-32C of
//!   all these, big-endian.
//! - A file has its path behind a length of 2 bytes, and a byte: 0 for content that follows behind a length of 4 bytes, 1
//!   for a table, which has the XXH3-128 of its content, its length, and the epoch in its name.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use objstore_base::error::{Error, Result};
use objstore_log::{Epoch, LogId};

/// The object's name.
pub(crate) const NAME: &str = "manifest";

/// The most bytes of a manifest.
pub(crate) const BYTES_MAX: usize = 16 << 20;

const VERSION: u8 = 1;
const SUM_BYTES: usize = 4;

/// A checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub id: LogId,
    pub epoch: Epoch,
    /// The last batch in it.
    pub batch: u64,
    /// The last batch of the checkpoint before it; 0 if there was none.
    pub before: u64,
    pub files: Vec<File>,
}

/// A file of the copy's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct File {
    /// Below the folder, with slashes.
    pub path: String,
    pub content: Content,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Small(Bytes),
    Table(Table),
}

/// A table in the vault. It never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Table {
    /// The XXH3-128 of its content.
    pub sum: u128,
    pub bytes: u64,
    /// The epoch of the owner that wrote it.
    pub epoch: Epoch,
}

/// The prefix of all tables.
pub(crate) const TABLES: &str = "tables/";

impl Table {
    /// The object's name. An owner removes tables up to its own epoch only: so one that has lost the log removes none of
    /// its successor's.
    pub fn name(&self) -> String {
        format!("{TABLES}{:016x}-{:032x}", self.epoch, self.sum)
    }
}

/// The epoch in a table's name.
pub(crate) fn epoch_of(name: &str) -> Option<Epoch> {
    let (epoch, _) = name.strip_prefix(TABLES)?.split_once('-')?;
    Epoch::from_str_radix(epoch, 16).ok()
}

impl Manifest {
    /// Its tables.
    pub fn tables(&self) -> impl Iterator<Item = Table> {
        self.files.iter().filter_map(|file| match file.content {
            Content::Table(table) => Some(table),
            Content::Small(_) => None,
        })
    }

    pub fn encode(&self) -> Bytes {
        let mut bytes = BytesMut::new();
        bytes.put_u8(VERSION);
        bytes.put_slice(&self.id.0);
        bytes.put_u64(self.epoch);
        bytes.put_u64(self.batch);
        bytes.put_u64(self.before);
        bytes.put_u32(self.files.len() as u32);
        for File { path, content } in &self.files {
            bytes.put_u16(path.len() as u16);
            bytes.put_slice(path.as_bytes());
            match content {
                Content::Small(content) => {
                    bytes.put_u8(0);
                    bytes.put_u32(content.len() as u32);
                    bytes.put_slice(content);
                }
                Content::Table(table) => {
                    bytes.put_u8(1);
                    bytes.put_u128(table.sum);
                    bytes.put_u64(table.bytes);
                    bytes.put_u64(table.epoch);
                }
            }
        }
        let sum = crc_fast::crc32_iscsi(&bytes);
        bytes.put_u32(sum);
        bytes.freeze()
    }

    /// # Errors
    /// [`Error::Corrupt`]: it is not what was written. [`Error::Unusable`]: a newer program wrote it.
    pub fn decode(bytes: &Bytes) -> Result<Self> {
        let damaged = |found: &str| Error::corrupt("the manifest of the checkpoints", "what was written", found);
        let (content, sum) = bytes.split_last_chunk::<SUM_BYTES>().ok_or_else(|| damaged("too few bytes"))?;
        if crc_fast::crc32_iscsi(content) != u32::from_be_bytes(*sum) {
            return Err(damaged("another checksum"));
        }
        if content.first() != Some(&VERSION) {
            let why = "the checkpoints were written by a newer program: use that one";
            return Err(Error::Unusable { why: why.into() });
        }
        parse(bytes.slice(1..content.len())).ok_or_else(|| damaged("other lengths"))
    }
}

fn parse(mut rest: Bytes) -> Option<Manifest> {
    let id = LogId(take(&mut rest, 16)?.as_ref().try_into().ok()?);
    let [epoch, batch, before] = [rest.try_get_u64().ok()?, rest.try_get_u64().ok()?, rest.try_get_u64().ok()?];
    let count = rest.try_get_u32().ok()?;
    let mut files = Vec::new();
    for _ in 0..count {
        let len = usize::from(rest.try_get_u16().ok()?);
        let path = String::from_utf8(take(&mut rest, len)?.to_vec()).ok().filter(|path| is_below(path))?;
        let content = match rest.try_get_u8().ok()? {
            0 => {
                let len = rest.try_get_u32().ok()? as usize;
                Content::Small(take(&mut rest, len)?)
            }
            1 => {
                let (sum, bytes) = (rest.try_get_u128().ok()?, rest.try_get_u64().ok()?);
                Content::Table(Table { sum, bytes, epoch: rest.try_get_u64().ok()? })
            }
            _ => return None,
        };
        files.push(File { path, content });
    }
    rest.is_empty().then_some(Manifest { id, epoch, batch, before, files })
}

fn take(rest: &mut Bytes, len: usize) -> Option<Bytes> {
    (len <= rest.len()).then(|| rest.split_to(len))
}

/// Whether a path leads to a place below the folder.
fn is_below(path: &str) -> bool {
    path.split('/').all(|part| !matches!(part, "" | "." | "..") && !part.contains('\0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(path: &str) -> Manifest {
        let table = Table { sum: 7 << 100, bytes: 1 << 24, epoch: 3 };
        let small = File { path: path.to_owned(), content: Content::Small(Bytes::from_static(b"list")) };
        let file = File { path: "keyspaces/1/tables/9".to_owned(), content: Content::Table(table) };
        Manifest { id: LogId([5; 16]), epoch: 3, batch: 99, before: 42, files: vec![small, file] }
    }

    #[test]
    fn a_manifest_round_trips_and_a_changed_byte_is_found() {
        let written = manifest("keyspaces/1/v7");
        let bytes = written.encode();
        assert_eq!(Manifest::decode(&bytes).unwrap(), written);
        let table = written.tables().next().unwrap();
        assert_eq!((written.tables().count(), epoch_of(&table.name())), (1, Some(3)));
        for at in 0..bytes.len() {
            let mut changed = bytes.to_vec();
            changed[at] ^= 8;
            assert!(Manifest::decode(&changed.into()).is_err(), "at {at}");
            assert!(Manifest::decode(&bytes.slice(..at)).is_err(), "{at} bytes");
        }
    }

    #[test]
    fn a_path_out_of_the_folder_is_refused() {
        for path in ["", "/etc/x", "../x", "a/../../x", "a//b", "./a"] {
            assert!(matches!(Manifest::decode(&manifest(path).encode()), Err(Error::Corrupt { .. })), "{path}");
        }
    }
}
