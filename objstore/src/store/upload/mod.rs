//! Multipart uploads (S3 API, CreateMultipartUpload and the related operations).
//!
//! - A part lies in blobs, to which its record refers; completion transfers the references to the object's extents.
//! - The bytes of parts count against the quota as soon as they are stored.
//! - An upload's id begins with its time of creation, so that the uploads of a key are in that order.
//! - A completion is remembered for a day: the same request gets the same answer, even if the object was changed or
//!   deleted since (see [`complete`]).
//!
//! Each operation is one transaction. A crash before it leaves staged content that opening the store removes.

mod complete;
mod copy;
mod list;
mod part;

use prost::Message;

use super::Store;
use super::object::{give_access, object_record};
use super::types::{Checksum, CreateUpload, UploadInfo, UploadRef};
use crate::clock::Timestamp;
use crate::error::{Error, Noun, Result};
use crate::meta::{Read, Txn};
use crate::name::Key;
use crate::record::decode;
use crate::record::inode::StoredChecksum;
use crate::record::key::{self, tag};
use crate::record::upload::Upload;
use crate::tree::Tx;

pub(crate) use complete::KEPT as COMPLETED_KEPT;

/// The highest part number.
pub const PARTS_MAX: u32 = 10_000;
/// The smallest size of a part other than the last, in bytes.
pub const PART_BYTES_MIN: u64 = 5 << 20;
/// Number of random bytes in an upload's id, after the time.
const ID_RANDOM_BYTES: usize = 12;

fn upload_key(bucket: u64, upload: &UploadRef) -> Vec<u8> {
    key::upload(bucket, upload.key.as_str(), &upload.id)
}

fn find(read: &dyn Read, bucket: u64, upload: &UploadRef) -> Result<Option<Upload>> {
    // Without an id the key would be the prefix of all uploads of the object.
    let value = if upload.id.is_empty() { None } else { read.get(&upload_key(bucket, upload))? };
    value.map(|value| decode("an upload", &value)).transpose()
}

fn found(read: &dyn Read, bucket: u64, upload: &UploadRef) -> Result<Upload> {
    find(read, bucket, upload)?.ok_or_else(|| missing(upload))
}

fn missing(upload: &UploadRef) -> Error {
    Error::not_found(Noun::Upload, upload.id.as_str())
}

fn shown_upload(id: &str, key: &str, record: Upload) -> UploadInfo {
    UploadInfo {
        id: id.to_owned(),
        key: key.to_owned(),
        created: Timestamp(record.created),
        initiator: record.initiator,
        checksum_algorithm: record.checksum_algorithm,
        storage_class: record.object.and_then(|object| object.storage_class),
    }
}

/// Checksums in the form of records.
pub(super) fn stored_checksums(checksums: Vec<Checksum>) -> Vec<StoredChecksum> {
    checksums.into_iter().map(|sum| StoredChecksum { algorithm: sum.algorithm, value: sum.value }).collect()
}

fn shown_checksums(checksums: Vec<StoredChecksum>) -> Vec<Checksum> {
    checksums.into_iter().map(|sum| Checksum { algorithm: sum.algorithm, value: sum.value }).collect()
}

/// Key and id of the upload whose record has the key `raw`.
fn names_of(raw: &[u8]) -> Option<(&str, &str)> {
    let name = key::text_at(raw, key::UPLOAD_KEY_AT)?;
    let id = std::str::from_utf8(raw.get(key::UPLOAD_KEY_AT + name.len() + 1..)?).ok()?;
    Some((name, id))
}

impl Store {
    /// Creates an upload.
    pub async fn create_upload(&self, request: CreateUpload) -> Result<UploadInfo> {
        let mut random = [0; ID_RANDOM_BYTES];
        self.core.random.fill(&mut random);
        let CreateUpload { bucket, key, headers, metadata, tags, lock, access, checksum_algorithm, initiator } =
            request;
        self.change_bucket(&bucket, move |tx| {
            super::marks::check_lock(tx, &key, &lock)?;
            let id = upload_id(tx.now, &random);
            let mut object = object_record(String::new(), headers, metadata, tags, Vec::new(), lock);
            give_access(&mut object, access);
            let record = Upload { created: tx.now.0, object: Some(object), initiator, checksum_algorithm };
            tx.txn.put(key::upload(tx.bucket.id, key.as_str(), &id), record.encode_to_vec());
            Ok(shown_upload(&id, key.as_str(), record))
        })
        .await
    }

    /// An upload.
    pub fn upload(&self, upload: &UploadRef) -> Result<UploadInfo> {
        let snapshot = self.core.meta.snapshot();
        let record = found(&*snapshot, self.bucket_id(&*snapshot, upload)?, upload)?;
        Ok(shown_upload(&upload.id, upload.key.as_str(), record))
    }

    fn bucket_id(&self, read: &dyn Read, upload: &UploadRef) -> Result<u64> {
        let record = self.core.bucket_record(read, &upload.bucket)?;
        Ok(record.ok_or_else(|| Error::not_found(Noun::Bucket, upload.bucket.as_str()))?.id)
    }

    /// Aborts an upload and deletes its parts.
    pub async fn abort_upload(&self, upload: &UploadRef) -> Result<()> {
        let upload = upload.clone();
        self.change_bucket(&upload.bucket.clone(), move |tx| {
            found(&*tx.txn, tx.bucket.id, &upload)?;
            abort(tx, &upload.key, &upload.id)
        })
        .await
    }
}

/// The time in nanoseconds, then random bytes, both in hexadecimal.
fn upload_id(now: Timestamp, random: &[u8; ID_RANDOM_BYTES]) -> String {
    let nanos = u64::try_from(now.0).unwrap_or_default();
    format!("{nanos:016x}{}", hex_simd::encode_to_string(random, hex_simd::AsciiCase::Lower))
}

/// Removes an existing upload and its parts.
pub(crate) fn abort(tx: &mut Tx<'_>, key: &Key, id: &str) -> Result<()> {
    for (_, part) in part::all_of(&*tx.txn, id)? {
        tx.count_upload(-i64::try_from(part.size).unwrap_or(i64::MAX));
    }
    drop_upload(tx.txn, tx.bucket.id, key.as_str(), id)
}

fn drop_upload(txn: &mut dyn Txn, bucket: u64, key: &str, id: &str) -> Result<()> {
    for (number, part) in part::all_of(&*txn, id)? {
        part::drop_pieces(txn, &part)?;
        txn.delete(key::part(id, number));
    }
    txn.delete(key::upload(bucket, key, id));
    Ok(())
}

/// Removes the uploads of a bucket that is being deleted, and the records of completed ones.
pub(super) fn delete_of_bucket(txn: &mut dyn Txn, bucket: u64) -> Result<()> {
    for pair in super::all(&*txn, &key::by_id(tag::UPLOAD, bucket))? {
        let Some((name, id)) = names_of(&pair.key) else { continue };
        drop_upload(txn, bucket, name, id)?;
    }
    for pair in super::all(&*txn, &key::by_id(tag::COMPLETED, bucket))? {
        txn.delete(pair.key.to_vec());
    }
    Ok(())
}
