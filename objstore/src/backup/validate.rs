//! Validation of a backup before anything of it is restored.
//!
//! - A checksum reveals damage, not who made a file. So values that the store adds up, allocates or navigates by are
//!   limited to what a store can have written. Other invalid values in records are errors when they are read, as damage
//!   in a store is.
//! - The number of records has to match the manifest, and all content that they refer to has to be part of the backup.
//!   Whether names and files match is not checked: a store with such damage may be backed up, and has to be restorable.

use std::cmp::Ordering;
use std::collections::HashSet;

use super::chunks::Reader;
use super::folder::Folder;
use super::format::{BlobEntry, Entry, Manifest, Piece, hex};
use super::records::{Files, KEY_AT, KINDS};
use crate::error::{Error, Result};
use crate::name::BucketName;
use crate::record::bucket::Bucket;
use crate::record::decode;
use crate::record::inode::{Extent, Inode};
use crate::record::key::{self, tag};
use crate::record::listed::ListedDirent;
use crate::record::upload::ObjectParts;
use crate::record::version::Version;
use crate::store::{ACCOUNTS_MAX, ACL_GRANTS_MAX, GRANTS_MAX};
use crate::tree::{order_of, shown_name};

/// A bound that no store reaches: inode numbers rise below it, version order numbers fall above it.
const HALF: u64 = 1 << 63;

/// Validates everything in a backup, and that every chunk exists.
pub(super) fn check(folder: &Folder, manifest: &Manifest) -> Result<()> {
    let Manifest { grants, next_ino, next_version, .. } = manifest;
    let bucket: BucketName = manifest.bucket.parse()?;
    decode::<Bucket>("the bucket of a backup", &manifest.record)?;
    let named = super::settings::of(&manifest.settings)?.policy_accounts;
    for (what, count) in [("grants on the bucket", grants.len()), ("accounts in the policy", named.len())] {
        if count as u64 > GRANTS_MAX {
            return Err(Error::TooMany { what, limit: GRANTS_MAX });
        }
    }
    if manifest.listed_accounts.len() as u64 > ACCOUNTS_MAX {
        return Err(Error::TooMany { what: "accounts in access control lists", limit: ACCOUNTS_MAX });
    }
    let backup = Validation { folder, manifest, what: format!("the backup of bucket \"{bucket}\"") };
    if !(2..HALF).contains(next_ino) || *next_version < HALF {
        return Err(backup.odd("the next inode and version of a store", format!("{next_ino} and {next_version}")));
    }
    let blobs = backup.blobs()?;
    backup.records(&blobs)
}

struct Validation<'a> {
    folder: &'a Folder,
    manifest: &'a Manifest,
    what: String,
}

impl Validation<'_> {
    fn odd(&self, expected: &'static str, found: impl Into<String>) -> Error {
        Error::corrupt(self.what.clone(), expected, found)
    }

    /// The ids of all blobs.
    fn blobs(&self) -> Result<HashSet<u64>> {
        let mut reader = Reader::new(self.folder, &self.manifest.blobs);
        let (mut ids, mut last, mut there) = (HashSet::new(), None, Vec::new());
        while let Some(entry) = reader.next::<BlobEntry>()? {
            ids.insert(entry.id);
            if last.replace(entry.id) >= Some(entry.id) {
                return Err(self.odd("blobs by rising id", format!("blob {:016x} after another", entry.id)));
            }
            self.length(&entry)?;
            for piece in entry.pieces.into_iter().filter(|piece| !piece.hash.is_empty()) {
                if piece.hash != there && !self.folder.has_chunk(&piece.hash)? {
                    return Err(self.odd("all of its files", format!("no file {}", hex(&piece.hash))));
                }
                there = piece.hash;
            }
        }
        Ok(ids)
    }

    /// Checks that a blob is as long as its pieces, and that one with checksums has no holes.
    fn length(&self, entry: &BlobEntry) -> Result<()> {
        let add = |sum: u64, piece: &Piece| sum.checked_add(piece.length).filter(|sum| *sum < HALF);
        let sum = entry.pieces.iter().try_fold(0, add);
        let holes = entry.summed && entry.pieces.iter().any(|piece| piece.hash.is_empty() && piece.length > 0);
        if entry.damaged.is_some() || sum == Some(entry.length) && !holes {
            return Ok(());
        }
        Err(self.odd("blobs of the bytes they count", format!("blob {:016x} of {} bytes", entry.id, entry.length)))
    }

    fn records(&self, blobs: &HashSet<u64>) -> Result<()> {
        let mut reader = Reader::new(self.folder, &self.manifest.records);
        let (mut last, mut bytes, mut files): (_, u64, Files) = (None, 0, Files::default());
        while let Some(Entry { kind, key, value }) = reader.next::<Entry>()? {
            let Some(place) = KINDS.iter().position(|known| u32::from(*known) == kind) else {
                return Err(self.odd("records of a bucket", format!("one of kind {kind:02x}")));
            };
            let at = Some((place, key.clone()));
            if last.cmp(&at) != Ordering::Less {
                return Err(self.odd("records in their order", format!("{} after another", hex(&key))));
            }
            last = at;
            // As the store reads it: the reader uses the same offsets.
            let base = [&key::by_id(KINDS[place], 0)[..], &key].concat();
            let size = self.record(KINDS[place], &base, &value)?;
            bytes = bytes
                .checked_add(size)
                .filter(|bytes| *bytes < HALF)
                .ok_or_else(|| self.odd("files of less than 2^63 bytes", format!("inode {} of {size}", hex(&key))))?;
            if let Some(blob) = files.add(KINDS[place], &value)?.filter(|blob| !blobs.contains(blob)) {
                return Err(self.odd("the blobs it refers to", format!("no blob {blob:016x}")));
            }
        }
        let Manifest { objects, bytes, .. } = self.manifest;
        if (files.count, files.bytes) != (*objects, *bytes) {
            let expected = format!("{} of {} bytes", files.count, files.bytes);
            return Err(self.odd("the files it counts", format!("{expected}, not {objects} of {bytes}")));
        }
        Ok(())
    }

    /// Checks that a record has a key of its kind and a readable value; returns the size of an inode.
    fn record(&self, kind: u8, base: &[u8], value: &[u8]) -> Result<u64> {
        let ino = key::u64_at(base, KEY_AT).filter(|ino| (1..self.manifest.next_ino).contains(ino));
        let (size, sound) = match kind {
            tag::INODE => {
                let inode: Inode = decode("an inode of a backup", value)?;
                let known = order_of(&inode) == 0 || order_of(&inode) >= self.manifest.next_version;
                let listed = inode.object.iter().filter_map(|object| object.acl.as_ref());
                let known = known && listed.map(|acl| acl.grants.len()).sum::<usize>() <= ACL_GRANTS_MAX;
                (inode.size, known && ino.is_some() && base.len() == KEY_AT + 8)
            }
            tag::DIRENT => {
                decode::<ListedDirent>("a name of a backup", value)?;
                let name = key::text_at(base, key::DIRENT_NAME_AT).filter(|name| !shown_name(name).contains('/'));
                let ends = |name: &str| base.len() == key::DIRENT_NAME_AT + name.len() + 1;
                (0, ino.is_some() && name.is_some_and(ends))
            }
            tag::EXTENT => {
                let extent: Extent = decode("an extent of a backup", value)?;
                let offset = key::u64_at(base, key::EXTENT_OFFSET_AT).filter(|_| base.len() == KEY_AT + 16);
                let below = |at: u64| at.checked_add(extent.length).is_some_and(|end| end < HALF);
                (0, ino.is_some() && offset.is_some_and(below) && below(extent.blob_offset) && extent.length > 0)
            }
            tag::VERSION => {
                decode::<Version>("a version of a backup", value)?;
                let name = key::text_at(base, key::VERSION_KEY_AT);
                let order = name.and_then(|name| key::u64_at(base, key::VERSION_KEY_AT + name.len() + 1));
                let ends = name.is_some_and(|name| base.len() == key::VERSION_KEY_AT + name.len() + 9);
                (0, ends && order.is_some_and(|order| order >= self.manifest.next_version))
            }
            _ => {
                decode::<ObjectParts>("the parts of an object of a backup", value)?;
                (0, ino.is_some() && base.len() == KEY_AT + 8)
            }
        };
        if sound {
            Ok(size)
        } else {
            Err(self.odd("records that a store can have", format!("{kind:02x} {}", hex(&base[KEY_AT..]))))
        }
    }
}
