//! Quarantine of unreadable records: they are moved to files in `quarantine/` and replaced by what follows from other
//! records.
//!
//! - The file is on disk before the record is removed. It holds the original key and value as the message [`Quarantined`],
//!   and its name says what it is. No program reads it; an expert can.
//!
//! A crash leaves the file and the record: the next repair writes the same file again.

use bytes::Bytes;
use prost::Message;
use sha2::{Digest, Sha256};

use super::fix::Found;
use super::repair::{QUARANTINE, Repair};
use super::tree_repair::put_stub;
use crate::error::Result;
use crate::record::bucket::{Bucket, Snapshot, VersioningState};
use crate::record::creator::Creator;
use crate::record::damage::Quarantined;
use crate::record::decode;
use crate::record::inode::{Extent, Inode, InodeKind};
use crate::record::key::{self, tag};
use crate::record::settings::ObjectLock;
use crate::store::header;

impl Repair<'_> {
    /// Quarantines a record, and writes a replacement if there is one. Returns what was done, if it was necessary.
    pub(super) fn quarantine_record(
        &self,
        key: Vec<u8>,
        was: &Bytes,
        value: Option<Vec<u8>>,
        done: &str,
    ) -> Result<Option<String>> {
        if self.meta.snapshot().get(&key)?.as_ref() != Some(was) {
            return Ok(None);
        }
        let file = self.keep(&key, was)?;
        self.write(move |txn| {
            match value {
                Some(value) => txn.put(key, value),
                None => txn.delete(key),
            }
            Ok(())
        })?;
        Ok(Some(format!("{done}; the record is {file} now")))
    }

    /// Copies a record unchanged to a file. Returns the file.
    pub(super) fn keep(&self, key: &[u8], value: &[u8]) -> Result<String> {
        let record = Quarantined { key: key.to_vec(), value: value.to_vec() }.encode_to_vec();
        let hash = Sha256::digest(&record);
        let number = hash[..8].iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        let name = format!("{QUARANTINE}/{:02x}-{number:016x}.record", key.first().copied().unwrap_or_default());
        self.disk.make_dir_all(&self.dir.join(QUARANTINE))?;
        self.disk.write_atomic(&self.dir.join(&name), &record, 0o600)?;
        Ok(name)
    }

    /// Gives an orphan branch a name.
    pub(super) fn found(&self, found: Found) -> Result<Option<String>> {
        self.write(move |txn| {
            let (bucket, snapshot) = (key::by_name(tag::BUCKET, &found.name), key::by_name(tag::SNAPSHOT, &found.name));
            if txn.get(&bucket)?.is_some() || txn.get(&snapshot)?.is_some() {
                return Ok(None);
            }
            let id = found.id.map_or_else(|| header::next_id(txn), Ok)?;
            let name = found.name.clone();
            let done = if found.snapshot {
                txn.put(snapshot, found.into_snapshot(id).encode_to_vec());
                format!("snapshot \"{name}\" was created for an orphan branch and belongs to root")
            } else {
                let settings = txn.get(&key::by_id(tag::SETTINGS, id))?.is_some();
                txn.put(bucket, found.into_bucket(id, settings).encode_to_vec());
                txn.put(key::by_id(tag::BUCKET_ID, id), name.as_bytes().to_vec());
                format!("bucket \"{name}\" was created for an orphan branch and belongs to root: set its quota and versioning again")
            };
            Ok(Some(done))
        })
    }

    /// Replaces an unreadable extent by one that answers an error.
    pub(super) fn extent(&self, at: Vec<u8>, why: String) -> Result<Option<String>> {
        let (id, now) = (self.blobs.next_id().0, self.now);
        self.write(move |txn| {
            let Some(value) = txn.get(&at)?.filter(|value| Extent::decode(&**value).is_err()) else { return Ok(None) };
            let Some((base, _)) = key::unbranched(&at) else { return Ok(None) };
            let place = key::u64_at(base, 1).zip(key::u64_at(base, key::INODE_AT));
            let Some(((clone_group, ino), offset)) = place.zip(key::u64_at(base, key::EXTENT_OFFSET_AT)) else {
                return Ok(None);
            };
            // The longest that it can have been: up to the next extent, or to the end of the file.
            let next = txn.scan(&key::after_prefix(base), &key::after_prefix(&key::extents(clone_group, ino)), 1)?;
            let mut end = next.first().and_then(|pair| key::u64_at(&pair.key, key::EXTENT_OFFSET_AT));
            if end.is_none() {
                for pair in crate::store::all(&*txn, &key::inode(clone_group, ino))? {
                    let size = decode::<Inode>("an inode", &pair.value).map_or(0, |inode| inode.size);
                    end = end.max(Some(size));
                }
            }
            let length = end.unwrap_or_default().saturating_sub(offset).max(1);
            put_stub(txn, id, 1, &why, (now, vec![Quarantined { key: at.clone(), value: value.to_vec() }]));
            txn.put(at, Extent { blob: id, blob_offset: 0, length }.encode_to_vec());
            Ok(Some(format!("inode {ino}: {length} bytes at {offset} were quarantined")))
        })
    }

    /// Replaces an unreadable inode, which only an older branch sees, by one that answers an error.
    pub(super) fn unseen(&self, at: Vec<u8>, why: String) -> Result<Option<String>> {
        let (id, now) = (self.blobs.next_id().0, self.now);
        self.write(move |txn| {
            let unreadable = |value: &Bytes| !value.is_empty() && Inode::decode(&**value).is_err();
            let Some(value) = txn.get(&at)?.filter(unreadable) else { return Ok(None) };
            put_stub(txn, id, 1, &why, (now, vec![Quarantined { key: at.clone(), value: value.to_vec() }]));
            let mut inode = Inode::new(InodeKind::File, now);
            (inode.size, inode.nlink) = (1, 1);
            inode.content = Some(super::tree_repair::stub_content(id));
            txn.put(at, inode.encode_to_vec());
            Ok(Some("an inode that no name leads to was quarantined".to_owned()))
        })
    }
}

impl Found {
    fn versioning(&self) -> i32 {
        let state = if self.versions || self.locked { VersioningState::Enabled } else { VersioningState::Disabled };
        state as i32
    }

    fn into_snapshot(self, id: u64) -> Snapshot {
        Snapshot {
            id,
            clone_group: self.clone_group,
            branch: self.branch,
            // The bucket it was taken from is unknown.
            bucket: 0,
            bucket_name: self.name.clone(),
            created: self.created,
            owner: self.owner,
            versioning: self.versioning(),
            object_lock: self.locked.then(ObjectLock::default),
            creator: Creator::Unrecorded as i32,
            group: String::new(),
        }
    }

    fn into_bucket(self, id: u64, settings: bool) -> Bucket {
        Bucket {
            id,
            clone_group: self.clone_group,
            branch: self.branch,
            owner: self.owner,
            versioning: self.versioning(),
            created: self.created,
            settings: u64::from(settings),
            ..Bucket::default()
        }
    }
}
