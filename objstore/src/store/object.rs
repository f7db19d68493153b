//! Operations on objects: stage content, put, head, open, delete.

use bytes::Bytes;
use parking_lot::Mutex;

use super::Store;
use super::marks::{check_lock, retain_by_default};
use super::types::{
    Checksum, Condition, DeleteObject, Deleted, EntityTags, Headers, Lock, ObjectAccess, ObjectInfo, PutObject,
    Retention,
};
use crate::clock::Timestamp;
use crate::content::{self, Block, Reader, StageWriter, Staged, take_staged};
use crate::core;
use crate::error::{Error, Noun, Result};
use crate::expiry::expiration;
use crate::name::{BucketName, Key};
use crate::record;
use crate::record::bucket::{Bucket, VersioningState};
use crate::record::inode::{Inode, Object, StoredChecksum};
use crate::tree::{Named, Tree, Tx, missing_version, version_id};

/// The attributes that are stored with an object.
pub(super) fn object_record(
    etag: String,
    headers: Headers,
    metadata: std::collections::BTreeMap<String, String>,
    tags: std::collections::BTreeMap<String, String>,
    checksums: Vec<Checksum>,
    lock: Lock,
) -> Object {
    let checksums = checksums.into_iter().map(|sum| StoredChecksum { algorithm: sum.algorithm, value: sum.value });
    Object {
        etag,
        content_type: headers.content_type,
        cache_control: headers.cache_control,
        content_disposition: headers.content_disposition,
        content_encoding: headers.content_encoding,
        content_language: headers.content_language,
        expires: headers.expires,
        metadata,
        tags,
        checksums: checksums.collect(),
        parts: 0,
        version: 0,
        retention: lock
            .retention
            .map(|retention| record::inode::Retention { mode: retention.mode as i32, until: retention.until.0 }),
        legal_hold: lock.legal_hold == Some(true),
        part_table: false,
        hold_off: lock.legal_hold == Some(false),
        storage_class: headers.storage_class,
        website_redirect: headers.website_redirect,
        owner: 0,
        acl: None,
    }
}

/// Sets the owner and the access control list of an object about to be put.
pub(super) fn give_access(object: &mut Object, access: ObjectAccess) {
    (object.owner, object.acl) = (access.owner, access.acl);
}

/// The lock of an object.
pub(super) fn lock_of(object: &Object) -> Lock {
    let retention =
        object.retention.map(|retention| Retention { mode: retention.mode(), until: Timestamp(retention.until) });
    Lock { retention, legal_hold: (object.legal_hold || object.hold_off).then_some(object.legal_hold) }
}

/// An inode in the form in which S3 shows it.
pub(super) fn shown(key: &str, ino: u64, inode: &Inode) -> ObjectInfo {
    let object = inode.object.clone().unwrap_or_default();
    let lock = lock_of(&object);
    let checksums = object.checksums.into_iter().map(|sum| Checksum { algorithm: sum.algorithm, value: sum.value });
    ObjectInfo {
        key: key.to_owned(),
        ino,
        size: inode.size,
        etag: inode.etag(ino),
        modified: Timestamp(inode.mtime),
        headers: Headers {
            content_type: object.content_type,
            cache_control: object.cache_control,
            content_disposition: object.content_disposition,
            content_encoding: object.content_encoding,
            content_language: object.content_language,
            expires: object.expires,
            storage_class: object.storage_class,
            website_redirect: object.website_redirect,
        },
        metadata: object.metadata,
        tags: object.tags,
        checksums: checksums.collect(),
        parts: (object.parts > 0).then_some(object.parts),
        version: (object.version != 0).then(|| version_id(object.version)),
        lock,
        access: ObjectAccess { owner: object.owner, acl: object.acl },
        expiration: None,
    }
}

/// Whether a bucket has versioning, or had it.
pub(super) fn keeps_versions(bucket: &Bucket) -> bool {
    bucket.versioning() != VersioningState::Disabled
}

/// Whether the bucket or snapshot under a name has versions: a snapshot has those of its bucket.
fn has_versions(named: &core::Named) -> bool {
    match named {
        core::Named::Bucket(bucket) => keeps_versions(bucket),
        core::Named::Snapshot(snapshot) => snapshot.versioning() != VersioningState::Disabled,
    }
}

/// An inode in the form in which S3 shows it, where `versioned` says whether the bucket has versions: then an object
/// from before has an id too.
pub(super) fn shown_in(versioned: bool, key: &str, ino: u64, inode: &Inode) -> ObjectInfo {
    let info = shown(key, ino, inode);
    let version = if versioned { info.version.or_else(|| Some(version_id(0))) } else { None };
    ObjectInfo { version, ..info }
}

/// A delete marker in the form in which a listing shows it.
pub(super) fn marker(key: &str, version: String, created: i64) -> ObjectInfo {
    let inode = Inode { mtime: created, ..Inode::default() };
    ObjectInfo { version: Some(version), etag: String::new(), ..shown(key, 0, &inode) }
}

/// Refuses if the current object does not meet the condition (RFC 9110, section 13; S3 API, conditional writes).
pub(super) fn check(condition: &Condition, key: &Key, now: Option<(u64, &Inode)>) -> Result<()> {
    let failed = |condition| Err(Error::Precondition { condition, key: key.to_string() });
    let etag = now.map(|(ino, inode)| inode.etag(ino));
    if condition.if_match.is_some() || condition.size.is_some() || condition.modified.is_some() {
        let Some(((_, inode), etag)) = now.zip(etag.as_deref()) else {
            return Err(Error::not_found(Noun::Key, key.as_str()));
        };
        if condition.if_match.as_ref().is_some_and(|wanted| !wanted.name(etag)) {
            return failed("If-Match");
        }
        if condition.size.is_some_and(|wanted| wanted != inode.size) {
            return failed("x-amz-if-match-size");
        }
        if condition.modified.is_some_and(|wanted| wanted.parts().0 != Timestamp(inode.mtime).parts().0) {
            return failed("x-amz-if-match-last-modified-time");
        }
    }
    match (&condition.if_none_match, etag) {
        (Some(unwanted), Some(etag)) if unwanted.name(&etag) => failed("If-None-Match"),
        _ => Ok(()),
    }
}

/// Evaluates the condition of a deletion (S3 API, DeleteObject) on the named version, or else on the current object.
///
/// A version that is gone meets every condition: its id names only it, so there is nothing left to protect. Without a
/// version, If-Match on an absent object is refused, as on S3. Conditions on size and time are met by a key that never
/// existed, and not by a delete marker.
fn check_deletion(tx: &Tx<'_>, request: &DeleteObject) -> Result<()> {
    let tree = tx.tree();
    let DeleteObject { key, version, condition, .. } = request;
    if *condition == Condition::default() {
        return Ok(());
    }
    if let Some(id) = version {
        return match tree.version(key, id)? {
            Some(Named::Object(ino, inode)) => check(condition, key, Some((ino, &tx.as_written(ino, inode)))),
            Some(Named::Marker(_)) if *condition != any_object() => {
                Err(Error::Precondition { condition: "on a delete marker", key: key.to_string() })
            }
            _ => Ok(()),
        };
    }
    match tree.object(key)? {
        Some((ino, inode)) => check(condition, key, Some((ino, &tx.as_written(ino, inode)))),
        None if condition.if_match.is_some() => Err(absent(tree, key)),
        None if tree.current_marker(key)?.is_some() => {
            Err(Error::Precondition { condition: "on size or time", key: key.to_string() })
        }
        None => Ok(()),
    }
}

/// The condition that an object exists.
fn any_object() -> Condition {
    Condition { if_match: Some(EntityTags::Any), ..Condition::default() }
}

/// Evaluates the condition on the object under a key.
pub(super) fn check_current(tx: &Tx<'_>, condition: &Condition, key: &Key) -> Result<()> {
    if *condition == Condition::default() {
        return Ok(());
    }
    let found = tx.tree().object(key)?.map(|(ino, inode)| (ino, tx.as_written(ino, inode)));
    check(condition, key, found.as_ref().map(|(ino, inode)| (*ino, inode)))
}

impl Store {
    /// Stages content held in memory: on disk when it returns, except up to 4 KiB, which are stored in the record.
    pub async fn stage(&self, data: Bytes) -> Result<Staged> {
        content::stage(&self.core, data).await
    }

    /// A writer for content of any length.
    pub fn stage_writer(&self) -> StageWriter {
        StageWriter::new(&self.core)
    }

    /// An empty block of memory, to collect content for [`StageWriter::write`].
    pub fn block(&self) -> Block {
        self.core.blobs.block()
    }

    /// Staged content as a blob: inline content is packed, for records that can refer to blobs only.
    pub(crate) async fn in_blob(&self, staged: Staged) -> Result<Staged> {
        content::in_blob(&self.core, staged).await
    }

    /// Stores an object.
    pub async fn put_object(&self, request: PutObject) -> Result<ObjectInfo> {
        let PutObject { bucket, key, content, etag, headers, metadata, tags, checksums, lock, access, condition } =
            request;
        self.change_bucket(&bucket, move |tx| {
            check_current(tx, &condition, &key)?;
            check_lock(tx, &key, &lock)?;
            let size = content.len();
            let content = take_staged(tx.txn, content)?;
            let ino = tx.new_ino()?;
            let mut object = object_record(etag, headers, metadata, tags, checksums, lock);
            give_access(&mut object, access);
            retain_by_default(tx, &key, &mut object)?;
            let inode = tx.put_object(&key, ino, content, size, object)?;
            let expiration = expiration::of(&*tx.txn, tx.core, &tx.bucket, key.as_str(), &inode)?;
            Ok(ObjectInfo { expiration, ..shown_in(keeps_versions(&tx.bucket), key.as_str(), ino, &inode) })
        })
        .await
    }

    /// The attributes of an object, without its content.
    pub fn head_object(&self, bucket: &BucketName, key: &Key, version: Option<&str>) -> Result<ObjectInfo> {
        Ok(self.open_object(bucket, key, version)?.0)
    }

    /// An object and its content.
    pub fn open_object(&self, bucket: &BucketName, key: &Key, version: Option<&str>) -> Result<(ObjectInfo, Reader)> {
        let guard = self.core.readers.begin();
        let mut snapshot = self.core.meta.snapshot();
        let named = self.core.named(&*snapshot, bucket)?;
        let ancestry = self.core.ancestry_of(&*snapshot, &named)?;
        let (mut ino, mut inode) = version_of(Tree { read: &*snapshot, ancestry: &ancestry }, key, version)?;
        if let Some(record) = named.bucket()
            && self.core.observe(record.id, &[ino])?
        {
            snapshot = self.core.meta.snapshot();
            (ino, inode) = version_of(Tree { read: &*snapshot, ancestry: &ancestry }, key, version)?;
        }
        let expiration = match named.bucket().filter(|_| version.is_none()) {
            Some(record) => expiration::of(&*snapshot, &self.core, record, key.as_str(), &inode)?,
            None => None,
        };
        let info = ObjectInfo { expiration, ..shown_in(has_versions(&named), key.as_str(), ino, &inode) };
        let reader = Reader { core: self.core.clone(), snapshot, ancestry, ino, inode, run: Mutex::default(), guard };
        Ok((info, reader))
    }

    /// Deletes an object; an absent one is no error.
    pub async fn delete_object(&self, bucket: &BucketName, request: DeleteObject) -> Result<Deleted> {
        self.change_bucket(bucket, move |tx| delete(tx, &request)).await
    }

    /// Deletes many objects in one commit, with one result each, in order. A refused one has no effect.
    pub async fn delete_objects(
        &self,
        bucket: &BucketName,
        requests: Vec<DeleteObject>,
    ) -> Result<Vec<Result<Deleted>>> {
        let each =
            move |tx: &mut Tx<'_>| Ok(requests.iter().map(|request| tx.attempt(|tx| delete(tx, request))).collect());
        self.change_bucket(bucket, each).await
    }
}

fn delete(tx: &mut Tx<'_>, request: &DeleteObject) -> Result<Deleted> {
    check_deletion(tx, request)?;
    let DeleteObject { key, version, bypass_governance, .. } = request;
    let Some(id) = version.as_deref() else {
        let removed = tx.delete_current(key)?;
        return Ok(Deleted { existed: removed.existed, marker: removed.marker.is_some(), version: removed.marker });
    };
    Ok(match tx.delete_version(key, id, *bypass_governance)? {
        Some(dropped) => Deleted { existed: true, version: Some(id.to_owned()), marker: dropped.marker },
        None => Deleted { existed: false, version: Some(id.to_owned()), marker: false },
    })
}

/// The object under a key: its current version, or the one with the given id.
pub(super) fn version_of(tree: Tree<'_>, key: &Key, version: Option<&str>) -> Result<(u64, Inode)> {
    let Some(id) = version else {
        return tree.object(key)?.map_or_else(|| Err(absent(tree, key)), Ok);
    };
    match tree.version(key, id)?.ok_or_else(|| missing_version(key, id))? {
        Named::Object(ino, inode) => Ok((ino, inode)),
        Named::Marker(modified) => Err(Error::DeleteMarker { key: key.to_string(), version: id.to_owned(), modified }),
    }
}

/// The error for an absent object, which names the delete marker if there is one.
fn absent(tree: Tree<'_>, key: &Key) -> Error {
    match tree.current_marker(key) {
        Ok(marker) => {
            Error::NotFound { noun: Noun::Key, name: key.to_string(), marker: marker.map(|marker| marker.id()) }
        }
        Err(error) => error,
    }
}
