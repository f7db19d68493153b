//! Completing an upload (S3 API, CompleteMultipartUpload).
//!
//! - The references of the named parts become the object's; those of the others are dropped.
//! - The same transaction writes a record of the answer. For a day a repeated request gets the same answer, because a
//!   client that did not receive the first cannot distinguish that from a lost request. Other parts under the id are an
//!   error: the upload no longer exists.

use std::collections::BTreeMap;

use md5::{Digest, Md5};
use prost::Message;

use super::{PART_BYTES_MIN, PARTS_MAX, drop_upload, find, missing, part, shown_checksums, stored_checksums};
use crate::error::{Error, Noun, Result};
use crate::meta::Read;
use crate::record::decode;
use crate::record::inode::{Content, ExtentContent};
use crate::record::key;
use crate::record::upload::{Completed, ObjectPart, Part};
use crate::store::Store;
use crate::store::marks::retain_by_default;
use crate::store::object::{check_current, keeps_versions, shown_in};
use crate::store::types::{self, CompleteUpload, CompletedUpload, UploadRef};
use crate::tree::Tx;

/// How long a completion is remembered, in nanoseconds: a day, the minimum on AWS.
pub(crate) const KEPT: i64 = 24 * 60 * 60 * 1_000_000_000;

impl Store {
    /// Turns an upload into an object, by reference. A repeated request returns the same result.
    pub async fn complete_upload(&self, request: CompleteUpload) -> Result<CompletedUpload> {
        let bucket = request.upload.bucket.clone();
        self.change_bucket(&bucket, move |tx| complete(tx, request)).await
    }

    /// The result of completing an upload from these parts in the last day.
    pub fn completed_upload(&self, upload: &UploadRef, parts: &[(u32, String)]) -> Result<Option<CompletedUpload>> {
        let snapshot = self.core.meta.snapshot();
        repeated(&*snapshot, self.bucket_id(&*snapshot, upload)?, upload, parts)
    }
}

fn repeated(
    read: &dyn Read,
    bucket: u64,
    upload: &UploadRef,
    parts: &[(u32, String)],
) -> Result<Option<CompletedUpload>> {
    let value = read.get(&key::completed(bucket, upload.key.as_str(), &upload.id))?;
    let record: Option<Completed> = value.map(|value| decode("a completed upload", &value)).transpose()?;
    Ok(record.filter(|record| record.parts_digest == digest(parts)).map(shown))
}

fn shown(record: Completed) -> CompletedUpload {
    let Completed { etag, version, checksums, size, parts, .. } = record;
    CompletedUpload { etag, version, checksums: shown_checksums(checksums), size, parts }
}

fn digest(parts: &[(u32, String)]) -> Vec<u8> {
    let mut hash = Md5::new();
    for (number, etag) in parts {
        hash.update(format!("{number} {etag}\n"));
    }
    hash.finalize().to_vec()
}

fn complete(tx: &mut Tx<'_>, request: CompleteUpload) -> Result<CompletedUpload> {
    let CompleteUpload { upload, parts, condition, checksums } = request;
    let Some(record) = find(&*tx.txn, tx.bucket.id, &upload)? else {
        return repeated(&*tx.txn, tx.bucket.id, &upload, &parts)?.ok_or_else(|| missing(&upload));
    };
    let mut stored = part::all_of(&*tx.txn, &upload.id)?;
    check_parts(&parts, &stored)?;
    check_current(tx, &condition, &upload.key)?;
    for part in stored.values() {
        tx.count_upload(-i64::try_from(part.size).unwrap_or(i64::MAX));
    }

    let ino = tx.new_ino()?;
    let mut size = 0;
    let mut table = Vec::with_capacity(parts.len());
    for (number, _) in &parts {
        let Some(part) = stored.remove(number) else { continue };
        take_pieces(tx, ino, size, &part);
        // The part's references are the object's now, so its record is removed without them.
        tx.txn.delete(key::part(&upload.id, *number));
        size += part.size;
        table.push(ObjectPart { number: *number, size: part.size, checksums: part.checksums });
    }
    tx.put_parts(ino, table);
    let mut object = record.object.unwrap_or_default();
    object.etag = crate::content::multipart_etag(parts.iter().map(|(_, etag)| etag.as_str()));
    object.parts = u32::try_from(parts.len()).unwrap_or(PARTS_MAX);
    object.part_table = true;
    object.checksums = stored_checksums(checksums);
    retain_by_default(tx, &upload.key, &mut object)?;
    let content = Some(Content::Extents(ExtentContent { in_place: None }));
    let inode = tx.put_object(&upload.key, ino, content, size, object)?;
    drop_upload(tx.txn, tx.bucket.id, upload.key.as_str(), &upload.id)?;
    let info = shown_in(keeps_versions(&tx.bucket), upload.key.as_str(), ino, &inode);
    Ok(remember(tx, &upload, &parts, info))
}

/// Transfers the references of a part to the object's extents.
fn take_pieces(tx: &mut Tx<'_>, ino: u64, mut at: u64, part: &Part) {
    for piece in &part.pieces {
        if piece.blob != 0 {
            tx.take_extent(ino, at, *piece);
        }
        at += piece.length;
    }
}

fn remember(tx: &mut Tx<'_>, upload: &UploadRef, parts: &[(u32, String)], info: types::ObjectInfo) -> CompletedUpload {
    let record = Completed {
        at: tx.now.0,
        parts_digest: digest(parts),
        etag: info.etag,
        version: info.version,
        checksums: stored_checksums(info.checksums),
        size: info.size,
        parts: info.parts.unwrap_or_default(),
    };
    tx.txn.put(key::completed(tx.bucket.id, upload.key.as_str(), &upload.id), record.encode_to_vec());
    shown(record)
}

/// Checks the named parts: present, in order, and all but the last large enough.
fn check_parts(named: &[(u32, String)], stored: &BTreeMap<u32, Part>) -> Result<()> {
    if named.is_empty() {
        return Err(Error::invalid("part order", "", "name at least one part"));
    }
    if let Some(pair) = named.windows(2).find(|pair| pair[1].0 <= pair[0].0) {
        return Err(Error::invalid("part order", pair[1].0.to_string(), "part numbers have to rise"));
    }
    for (index, (number, etag)) in named.iter().enumerate() {
        let part = stored.get(number).filter(|part| part.etag == *etag);
        let part = part.ok_or_else(|| Error::not_found(Noun::Part, format!("{number} with entity tag {etag}")))?;
        if part.size < PART_BYTES_MIN && index + 1 < named.len() {
            let why = format!("part {number} has less than {PART_BYTES_MIN} bytes; only the last may");
            return Err(Error::invalid("part size", part.size.to_string(), why));
        }
    }
    Ok(())
}
