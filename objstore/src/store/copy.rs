//! Copies by reference, of any size (S3 API, CopyObject, UploadPartCopy).
//!
//! - Writes in place to the source are blocked while its content is being shared, and earlier ones are synced: a copy
//!   is on disk when it is answered. A crash before the commit leaves the source unchanged and no copy.
//! - Names are not locked: if the source's key leads to another object at the commit, the copy starts again.

use std::sync::Arc;

use super::Store;
use super::marks::{check_lock, retain_by_default};
use super::object::{check, check_current, give_access, keeps_versions, object_record, shown_in, version_of};
use super::types::{Condition, CopiedObject, CopyObject, Directive, Headers, ObjectAccess, ObjectInfo};
use super::upload::stored_checksums;
use crate::content::bring_to_disk;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::expiry::expiration;
use crate::meta::{Durability, Txn};
use crate::name::{BucketName, Key};
use crate::passthrough::Prepared;
use crate::record::inode::{Inode, Object};
use crate::state::ExclusiveGuard;
use crate::tree::{SharedContent, Tree, Tx, order_of, version_id};

/// The largest object that one copy accepts (S3 API, CopyObject: larger ones have to be copied in parts).
const BYTES_MAX: u64 = 5 << 30;
/// How often a copy is restarted because its source was replaced meanwhile.
const TRIES_MAX: usize = 8;

/// Refuses a copy larger than S3 allows.
pub(super) fn check_size(bytes: u64) -> Result<()> {
    if bytes <= BYTES_MAX {
        return Ok(());
    }
    let why = format!("the maximum allowable size for a copy source is {BYTES_MAX} bytes; copy it in parts");
    Err(Error::invalid("copy source size", bytes.to_string(), why))
}

impl Store {
    /// Copies an object by reference.
    pub async fn copy_object(&self, request: CopyObject) -> Result<CopiedObject> {
        let _changing = (self.begin_change(&request.source_bucket).await?, self.begin_change(&request.bucket).await?);
        let settled = self.clone();
        let (copied, bucket) = self
            .blocking(move |store| {
                let (request, mut tries) = (Arc::new(request), 1);
                loop {
                    match store.copy_once(&request) {
                        Err(Error::Busy { .. }) if tries < TRIES_MAX => tries += 1,
                        answer => return answer,
                    }
                }
            })
            .await?;
        settled.wait_for_mounts(bucket).await;
        Ok(copied)
    }

    fn copy_once(&self, request: &Arc<CopyObject>) -> Result<(CopiedObject, u64)> {
        let held =
            self.hold_source(&request.source_bucket, (&request.source_key, request.source_version.as_deref()))?;
        let (core, request, source) = (self.core.clone(), request.clone(), held.source);
        let written = self.core.meta.write(Durability::Synced, move |txn| copy(txn, &core, &request, source));
        let answer = written.wait();
        drop(held);
        answer
    }

    /// Blocks writes in place to a bucket while one of its objects is shared, after syncing earlier writes to that
    /// object: a copy is on disk when it is answered. Snapshots need no lock.
    ///
    /// A blob that programs have open by passthrough is copied here, and the copy refers to that.
    pub(super) fn hold_source(&self, bucket: &BucketName, (key, version): (&Key, Option<&str>)) -> Result<HeldSource> {
        let record = self.core.bucket_record(&*self.core.meta.snapshot(), bucket)?;
        let gate = record.as_ref().map(|record| self.core.gates.share(record.id));
        let snapshot = self.core.meta.snapshot();
        let ancestry = self.core.readable(&*snapshot, bucket)?;
        let tree = Tree { read: &*snapshot, ancestry: &ancestry };
        let (ino, inode) = version_of(tree, key, version)?;
        let source = (record.as_ref().map_or(0, |record| record.id), ino);
        if let Some(record) = record {
            self.core.flush(record.id, &[ino])?;
            bring_to_disk(&self.core, tree, ino, &inode)?;
        }
        Ok(HeldSource { source, _copies: self.core.passthrough.prepare(|| tree.blobs_of(ino, &inode))?, _gate: gate })
    }
}

/// A bucket by id, zero for a snapshot, and an inode.
pub(super) type Source = (u64, u64);

/// The locked source of a copy; released after the commit.
pub(super) struct HeldSource {
    pub source: Source,
    _copies: Prepared,
    _gate: Option<ExclusiveGuard>,
}

/// Makes the copy. Returns it, and the bucket that contains it.
fn copy(txn: &mut dyn Txn, core: &Arc<Core>, request: &CopyObject, held: Source) -> Result<(CopiedObject, u64)> {
    let (source_versioned, (source, shared)) = share(txn, core, request, held)?;
    check_size(source.size)?;
    let mut tx = Tx::begin(txn, core, &request.bucket, 0)?;
    check_current(&tx, &request.condition, &request.key)?;
    check_lock(&tx, &request.key, &request.lock)?;
    let ino = tx.new_ino()?;
    let content = tx.take_shared(ino, &shared)?;
    let mut object = copied(&source, request);
    if let Some(checksums) = &request.checksums {
        object.checksums = stored_checksums(checksums.clone());
    }
    retain_by_default(&tx, &request.key, &mut object)?;
    let inode = tx.put_object(&request.key, ino, content, source.size, object)?;
    let (bucket, versioned) = (tx.bucket.id, keeps_versions(&tx.bucket));
    let expiration = expiration::of(&*tx.txn, tx.core, &tx.bucket, request.key.as_str(), &inode)?;
    tx.finish()?;
    let info = shown_in(versioned, request.key.as_str(), ino, &inode);
    let source_version = source_versioned.then(|| version_id(order_of(&source)));
    Ok((CopiedObject { object: ObjectInfo { expiration, ..info }, source_version }, bucket))
}

/// The source of a copy, with its content ready to be referred to, and whether its bucket has versioning.
fn share(
    txn: &mut dyn Txn,
    core: &Arc<Core>,
    request: &CopyObject,
    held: Source,
) -> Result<(bool, (Inode, SharedContent))> {
    let (bucket, key) = (&request.source_bucket, &request.source_key);
    let version = request.source_version.as_deref();
    shared_object(txn, core, held, bucket, (key, version), &request.source_condition, |tx, ino| {
        Ok((keeps_versions(&tx.bucket), tx.share_content(ino)?))
    })
}

/// Finds the source of a copy and shares its content; a snapshot is read as it is.
///
/// # Errors
/// [`Error::Busy`] if it is not the locked inode: a mount's writes to it may be in progress and unsynced.
pub(super) fn shared_object<T>(
    txn: &mut dyn Txn,
    core: &Arc<Core>,
    held: Source,
    bucket: &BucketName,
    (key, version): (&Key, Option<&str>),
    condition: &Condition,
    share: impl FnOnce(&mut Tx<'_>, u64) -> Result<T>,
) -> Result<T> {
    let mut tx = Tx::begin_source(txn, core, bucket)?;
    let (ino, inode) = version_of(tx.tree(), key, version)?;
    check(condition, key, Some((ino, &inode)))?;
    if (tx.bucket.id, ino) != held {
        return Err(Error::Busy { what: format!("object \"{key}\", which is being replaced,") });
    }
    let shared = share(&mut tx, ino)?;
    tx.finish()?;
    Ok(shared)
}

/// The attributes of a copy. An entity tag made of the source's inode and generation is not copied: in a clone the same
/// two stand for other content, so the copy gets its own.
fn copied(source: &Inode, request: &CopyObject) -> Object {
    let CopyObject { metadata, tags, lock, .. } = request;
    let mut object = copied_object(source, request.access.clone());
    let locked =
        object_record(String::new(), Headers::default(), Default::default(), Default::default(), Vec::new(), *lock);
    (object.retention, object.legal_hold, object.hold_off) = (locked.retention, locked.legal_hold, locked.hold_off);
    if let Directive::Replace((headers, metadata)) = metadata {
        let (headers, metadata) = (headers.clone(), metadata.clone());
        let replaced = object_record(String::new(), headers, metadata, Default::default(), Vec::new(), *lock);
        object = Object {
            etag: object.etag,
            tags: object.tags,
            checksums: object.checksums,
            parts: object.parts,
            ..replaced
        };
    }
    if let Directive::Replace(tags) = tags {
        object.tags.clone_from(tags);
    }
    object.storage_class.clone_from(&request.storage_class);
    object.website_redirect.clone_from(&request.website_redirect);
    give_access(&mut object, request.access.clone());
    object
}

/// The attributes of a whole copy without a lock.
pub(super) fn copied_object(source: &Inode, access: ObjectAccess) -> Object {
    let mut object = source.object.clone().unwrap_or_default();
    object.version = 0;
    object.become_whole();
    (object.retention, object.legal_hold, object.hold_off) = (None, false, false);
    give_access(&mut object, access);
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_larger_than_s3_copies_at_once_is_refused() {
        assert!(check_size(5 << 30).is_ok());
        assert!(matches!(check_size((5 << 30) + 1), Err(Error::Invalid { what: "copy source size", .. })));
    }
}
