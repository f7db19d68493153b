//! The records of a bucket as a snapshot shows them, read for a backup.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use prost::Message;

use super::chunks::Writer;
use super::folder::Folder;
use super::format::{Chunk, Entry};
use crate::branch::Ancestry;
use crate::core::Core;
use crate::error::Result;
use crate::record::access_list::AccessList;
use crate::record::decode;
use crate::record::inode::{Content, Extent, Inode, InodeKind, Object};
use crate::record::key::{self, tag};

/// The kinds of records of a bucket. Inodes come first, because the others refer to them.
pub(super) const KINDS: [u8; 5] = [tag::INODE, tag::DIRENT, tag::EXTENT, tag::VERSION, tag::OBJECT_PARTS];

/// The offset in a tree record's key after kind and clone group.
pub(super) const KEY_AT: usize = 9;
/// Records read at a time.
const CHUNK: usize = 512;

/// The written records of a bucket.
#[derive(Default)]
pub(super) struct Written {
    pub chunks: Vec<Chunk>,
    pub sent_bytes: u64,
    pub files: Files,
    /// The referenced blobs, each with the end of its visible bytes.
    pub blobs: BTreeMap<u64, u64>,
    /// The ids of the accounts that own objects or are named in access control lists.
    pub accounts: BTreeSet<u64>,
    /// Files without a name that were open, which no one sees.
    nameless: HashSet<u64>,
}

/// Writes all records.
pub(super) fn write(core: &Core, ancestry: &Ancestry, folder: &Folder) -> Result<Written> {
    let (mut written, mut writer) = (Written::default(), Writer::default());
    for kind in KINDS {
        let prefix = key::by_id(kind, ancestry.clone_group);
        let end = key::after_prefix(&prefix);
        let mut from = prefix;
        loop {
            // The snapshot's branch does not change, so each read may be at another moment.
            let seen = ancestry.scan(&*core.meta.snapshot(), &from, &end, CHUNK)?;
            for record in &seen {
                let key = record.base[KEY_AT..].to_vec();
                if written.take(kind, key::u64_at(&key, 0).unwrap_or_default(), &record.value)? {
                    let entry = Entry { kind: u32::from(kind), key, value: record.value.to_vec() };
                    writer.add(folder, &entry, &record.base[KEY_AT..])?;
                }
            }
            match seen.last() {
                Some(last) if seen.len() == CHUNK => from = key::after_prefix(&last.base),
                _ => break,
            }
        }
    }
    (written.chunks, written.sent_bytes) = writer.finish(folder)?;
    Ok(written)
}

impl Written {
    /// Records what a record refers to. Returns whether it belongs in the backup.
    fn take(&mut self, kind: u8, ino: u64, value: &[u8]) -> Result<bool> {
        match kind {
            tag::INODE => self.take_inode(ino, &decode("an inode", value)?),
            tag::EXTENT | tag::OBJECT_PARTS if self.nameless.contains(&ino) => Ok(false),
            tag::EXTENT => {
                let extent: Extent = decode("an extent", value)?;
                self.refer(extent.blob, extent.blob_offset + extent.length);
                Ok(true)
            }
            _ => Ok(true),
        }
    }

    fn take_inode(&mut self, ino: u64, inode: &Inode) -> Result<bool> {
        if inode.nlink == 0 {
            self.nameless.insert(ino);
            return Ok(false);
        }
        if let Some(blob) = self.files.add_inode(inode) {
            self.refer(blob, inode.size);
        }
        if let Some(object) = &inode.object {
            self.accounts.extend(Some(object.owner).filter(|owner| *owner != 0));
            self.accounts.extend(object.acl.iter().flat_map(AccessList::accounts));
        }
        Ok(true)
    }

    fn refer(&mut self, blob: u64, end: u64) {
        let known = self.blobs.entry(blob).or_default();
        *known = end.max(*known);
    }
}

/// The number of files and objects in a backup.
#[derive(Default)]
pub(super) struct Files {
    pub count: u64,
    /// The sum of their sizes.
    pub bytes: u64,
}

impl Files {
    /// Counts an inode if it is a file; returns the blob it refers to.
    fn add_inode(&mut self, inode: &Inode) -> Option<u64> {
        if inode.kind() == InodeKind::File {
            self.count += 1;
            self.bytes = self.bytes.saturating_add(inode.size);
        }
        match &inode.content {
            Some(Content::Blob(content)) => Some(content.id),
            _ => None,
        }
    }

    /// Counts a record of a backup if it is a file; returns the blob it refers to.
    pub fn add(&mut self, kind: u8, value: &[u8]) -> Result<Option<u64>> {
        Ok(match kind {
            tag::INODE => self.add_inode(&decode("an inode of a backup", value)?),
            tag::EXTENT => Some(decode::<Extent>("an extent of a backup", value)?.blob),
            _ => None,
        })
    }
}

/// The accounts of a backup: the id in this store by the id in the backup.
#[derive(Clone, Debug, Default)]
pub(super) struct Accounts(pub BTreeMap<u64, u64>);

impl Accounts {
    /// The id in this store; zero, which no account has, if the account is missing.
    pub(super) fn id(&self, there: u64) -> u64 {
        self.0.get(&there).copied().unwrap_or_default()
    }
}

/// A record with its blob references and account ids replaced, and without in-place blobs.
pub(super) fn mapped(
    kind: u8,
    value: Vec<u8>,
    map: &mut dyn FnMut(u64) -> Result<u64>,
    accounts: &Accounts,
) -> Result<Vec<u8>> {
    match kind {
        tag::INODE => {
            let mut inode: Inode = decode("an inode", &value)?;
            match &mut inode.content {
                Some(Content::Blob(content)) => (content.id, content.in_place) = (map(content.id)?, false),
                Some(Content::Extents(content)) => content.in_place = None,
                _ if !inode.object.as_ref().is_some_and(Object::names_accounts) => return Ok(value),
                _ => {}
            }
            if let Some(object) = &mut inode.object {
                object.owner = accounts.id(object.owner);
                if let Some(acl) = &mut object.acl {
                    acl.map_accounts(&|id| accounts.id(id));
                }
            }
            Ok(inode.encode_to_vec())
        }
        tag::EXTENT => {
            let extent: Extent = decode("an extent", &value)?;
            Ok(Extent { blob: map(extent.blob)?, ..extent }.encode_to_vec())
        }
        _ => Ok(value),
    }
}
