//! Operations of S3 on a process.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{Process, end_of};
use crate::content::Staged;
use crate::disk::DIRECT_BLOCK;
use crate::error::Result;
use crate::record::inode::RetentionMode;
use crate::store::*;
use crate::tests::simulated::model::{State, etag};
use crate::tests::simulated::operation::{At, Operation, bytes};
use crate::tests::test_store::{key, name};

impl Process {
    /// Content that begins at a page of memory, or does not, as the stamp says: which parts of it go to disk without a
    /// copy depends on that, and is not to be left to the allocator.
    fn stage(&self, stamp: u64, size: usize) -> Result<Staged> {
        let mut room = vec![0; size + 2 * DIRECT_BLOCK];
        let at = room.as_ptr().align_offset(DIRECT_BLOCK) + (stamp % 2) as usize;
        room[at..at + size].copy_from_slice(&bytes(stamp, size));
        self.run(self.store.stage(Bytes::from(room).slice(at..at + size)))
    }

    fn upload(state: &State, at: &At) -> UploadRef {
        let id = state.buckets[&at.bucket].uploads[&at.path].id.clone().unwrap();
        UploadRef { bucket: name(&at.bucket), key: key(&at.path), id }
    }

    pub(super) fn act_on_objects(&mut self, state: &State, operation: &Operation) -> Result<Option<String>> {
        match operation {
            Operation::Put { at, size, stamp, until } => {
                let until = until.map(|until| Retention { mode: RetentionMode::Compliance, until: end_of(until) });
                let request = PutObject {
                    bucket: name(&at.bucket),
                    key: key(&at.path),
                    content: self.stage(*stamp, *size)?,
                    etag: etag(*stamp),
                    headers: Headers::default(),
                    metadata: BTreeMap::from([("note".to_owned(), stamp.to_string())]),
                    tags: BTreeMap::new(),
                    checksums: Vec::new(),
                    lock: Lock { retention: until, legal_hold: None },
                    access: Default::default(),
                    condition: Condition::default(),
                };
                self.run(self.store.put_object(request)).map(drop)?;
            }
            Operation::PutFolder { at } => self.put_folder(at)?,
            Operation::DeleteFolder { at } => {
                let request = DeleteObject::new(key(&format!("{}/", at.path)));
                self.run(self.store.delete_object(&name(&at.bucket), request)).map(drop)?;
            }
            Operation::Delete { at } => {
                let request = DeleteObject::new(key(&at.path));
                self.run(self.store.delete_object(&name(&at.bucket), request)).map(drop)?;
            }
            Operation::DeleteMany { bucket, keys } => {
                let requests = keys.iter().map(|of| DeleteObject::new(key(of))).collect();
                let deleted = self.run(self.store.delete_objects(&name(bucket), requests))?;
                deleted.into_iter().try_for_each(|deleted| deleted.map(drop))?;
            }
            Operation::DeleteVersion { at, index, bypass } => {
                let version = self.version(at, *index)?;
                let request = DeleteObject { version, bypass_governance: *bypass, ..DeleteObject::new(key(&at.path)) };
                self.run(self.store.delete_object(&name(&at.bucket), request)).map(drop)?;
            }
            Operation::Retain { at, index, until, compliance, bypass } => {
                let mode = if *compliance { RetentionMode::Compliance } else { RetentionMode::Governance };
                let (kept, version) = (Retention { mode, until: end_of(*until) }, self.version(at, *index)?);
                let (bucket, key, version) = (name(&at.bucket), key(&at.path), version.as_deref());
                self.run(self.store.set_retention(&bucket, &key, version, Some(kept), *bypass)).map(drop)?;
            }
            Operation::Hold { at, index, on } => {
                let version = self.version(at, *index)?;
                let (bucket, key, version) = (name(&at.bucket), key(&at.path), version.as_deref());
                self.run(self.store.set_legal_hold(&bucket, &key, version, *on)).map(drop)?;
            }
            Operation::Copy { from, to } => {
                let request = CopyObject {
                    storage_class: None,
                    website_redirect: None,
                    source_bucket: name(&from.bucket),
                    source_key: key(&from.path),
                    source_version: None,
                    source_condition: Condition::default(),
                    bucket: name(&to.bucket),
                    key: key(&to.path),
                    metadata: Directive::Copy,
                    tags: Directive::Copy,
                    checksums: None,
                    lock: Lock::default(),
                    access: Default::default(),
                    condition: Condition::default(),
                };
                self.run(self.store.copy_object(request)).map(drop)?;
            }
            Operation::Look { bucket } => {
                let list = List { limit: usize::MAX, ..List::default() };
                for object in self.store.list_objects(&name(bucket), &list)?.objects {
                    self.store.head_object(&name(bucket), &key(&object.key), None)?;
                }
            }
            _ => return self.act_on_uploads(state, operation),
        }
        Ok(None)
    }

    fn act_on_uploads(&mut self, state: &State, operation: &Operation) -> Result<Option<String>> {
        match operation {
            Operation::BeginUpload { at } => {
                let request = CreateUpload {
                    bucket: name(&at.bucket),
                    key: key(&at.path),
                    headers: Headers::default(),
                    metadata: BTreeMap::new(),
                    tags: BTreeMap::new(),
                    lock: Lock::default(),
                    access: Default::default(),
                    checksum_algorithm: None,
                    initiator: ROOT_ACCOUNT.into(),
                };
                return Ok(Some(self.run(self.store.create_upload(request))?.id));
            }
            Operation::PutPart { at, number, size, stamp } => {
                let (upload, content) = (Self::upload(state, at), self.stage(*stamp, *size)?);
                let part = PutPart { upload, number: *number, content, etag: etag(*stamp), checksums: Vec::new() };
                self.run(self.store.put_part(part)).map(drop)?;
            }
            Operation::CopyPart { at, number, from, stamp } => {
                let request = CopyPart {
                    upload: Self::upload(state, at),
                    number: *number,
                    source_bucket: name(&from.bucket),
                    source_key: key(&from.path),
                    source_version: None,
                    source_condition: Condition::default(),
                    range: None,
                };
                self.run(self.store.copy_part(request, Box::new(NoHash(*stamp)))).map(drop)?;
            }
            Operation::Complete { at } => {
                let upload = Self::upload(state, at);
                let parts = self.store.parts(&upload, 0, 100)?.parts;
                let last = parts.last().map(|part| (part.number, part.etag.clone()));
                let request = CompleteUpload {
                    upload,
                    parts: last.into_iter().collect(),
                    condition: Condition::default(),
                    checksums: Vec::new(),
                };
                self.run(self.store.complete_upload(request)).map(drop)?;
            }
            Operation::Abort { at } => self.run(self.store.abort_upload(&Self::upload(state, at)))?,
            _ => unreachable!("{operation:?}"),
        }
        Ok(None)
    }

    fn put_folder(&self, at: &At) -> Result<()> {
        let request = PutObject {
            bucket: name(&at.bucket),
            key: key(&format!("{}/", at.path)),
            content: self.stage(0, 0)?,
            etag: etag(0),
            headers: Headers::default(),
            metadata: BTreeMap::new(),
            tags: BTreeMap::new(),
            checksums: Vec::new(),
            lock: Lock::default(),
            access: Default::default(),
            condition: Condition::default(),
        };
        self.run(self.store.put_object(request)).map(drop)
    }

    /// The id of a version; the oldest has the index 0.
    fn version(&self, at: &At, index: usize) -> Result<Option<String>> {
        let list = List { prefix: at.path.clone(), limit: usize::MAX, ..List::default() };
        let listed = self.store.list_versions(&name(&at.bucket), &ListVersions { list, after_version: None })?;
        let of_key: Vec<_> = listed.versions.iter().filter(|version| version.object.key == at.path).collect();
        Ok(of_key[of_key.len() - 1 - index].object.version.clone())
    }
}

/// Gives a part the entity tag of a stamp.
struct NoHash(u64);

impl PartHash for NoHash {
    fn update(&mut self, _data: &[u8]) {}

    fn finish(self: Box<Self>) -> (String, Vec<Checksum>) {
        (etag(self.0), Vec::new())
    }
}
