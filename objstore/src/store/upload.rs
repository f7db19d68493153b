//! Multipart uploads (S3 API, CreateMultipartUpload and what follows).
//!
//! - A part lies in blobs, referred to by its record; completing moves the references to the object's extents.
//! - The bytes of parts count against the quota from the moment they are stored.

use std::collections::BTreeMap;

use prost::Message;

use super::Store;
use super::object::{check_current, keeps_versions, object_record, shared_object, shown_in};
use super::types::{
    Checksum, CompleteUpload, Condition, CopyPart, CreateUpload, List, Lock, ObjectInfo, PartInfo, PartListing, PutPart,
    UploadInfo, UploadListing, UploadRef,
};
use crate::clock::Timestamp;
use crate::content::{Reader, Staged, release, take_staged};
use crate::error::{Error, Noun, Result};
use crate::meta::{Durability, Read, Txn};
use crate::record::decode;
use crate::record::inode::{Content, Extent, ExtentContent, StoredChecksum};
use crate::record::key::{self, tag};
use crate::record::upload::{Part, Upload};
use crate::tree::Tx;

/// The highest part number.
pub const PARTS_MAX: u32 = 10_000;
/// The smallest part but for the last, in bytes.
pub const PART_BYTES_MIN: u64 = 5 << 20;

fn upload_key(bucket: u64, upload: &UploadRef) -> Vec<u8> {
    key::upload(bucket, upload.key.as_str(), &upload.id)
}

fn find(read: &dyn Read, bucket: u64, upload: &UploadRef) -> Result<Upload> {
    let value = if upload.id.is_empty() { None } else { read.get(&upload_key(bucket, upload))? };
    decode("an upload", &value.ok_or_else(|| Error::not_found(Noun::Upload, upload.id.as_str()))?)
}

fn shown_upload(id: &str, key: &str, record: Upload) -> UploadInfo {
    UploadInfo {
        id: id.to_owned(),
        key: key.to_owned(),
        created: Timestamp(record.created),
        initiator: record.initiator,
        checksum_algorithm: record.checksum_algorithm,
    }
}

fn shown_part(number: u32, part: Part) -> PartInfo {
    let checksums = part.checksums.into_iter().map(|sum| Checksum { algorithm: sum.algorithm, value: sum.value });
    PartInfo {
        number,
        size: part.size,
        etag: part.etag,
        modified: Timestamp(part.modified),
        checksums: checksums.collect(),
    }
}

/// The parts of an upload by number.
fn parts_of(read: &dyn Read, id: &str) -> Result<BTreeMap<u32, Part>> {
    let pairs = super::open::all(read, &key::parts(id))?;
    let parts = pairs.iter().filter_map(|pair| {
        let (_, number) = key::unbranched(&pair.key)?;
        Some(decode("a part", &pair.value).map(|part| (number, part)))
    });
    parts.collect()
}

fn check_number(number: u32) -> Result<()> {
    if (1..=PARTS_MAX).contains(&number) {
        return Ok(());
    }
    Err(Error::invalid("part number", number.to_string(), format!("use 1 to {PARTS_MAX}")))
}

impl Store {
    /// Begins an upload.
    pub async fn create_upload(&self, request: CreateUpload) -> Result<UploadInfo> {
        let mut bytes = [0; 16];
        self.core.random.fill(&mut bytes);
        let id = hex_simd::encode_to_string(bytes, hex_simd::AsciiCase::Lower);
        let CreateUpload { bucket, key, headers, metadata, tags, checksum_algorithm, initiator } = request;
        self.change_bucket(&bucket, move |tx| {
            let object = object_record(String::new(), headers, metadata, tags, Vec::new(), Lock::default());
            let record = Upload { created: tx.now.0, object: Some(object), initiator, checksum_algorithm };
            tx.txn.put(key::upload(tx.bucket.id, key.as_str(), &id), record.encode_to_vec());
            Ok(shown_upload(&id, key.as_str(), record))
        })
        .await
    }

    /// One upload.
    pub fn upload(&self, upload: &UploadRef) -> Result<UploadInfo> {
        let snapshot = self.core.meta.snapshot();
        let record = find(&*snapshot, self.bucket_id(&*snapshot, upload)?, upload)?;
        Ok(shown_upload(&upload.id, upload.key.as_str(), record))
    }

    fn bucket_id(&self, read: &dyn Read, upload: &UploadRef) -> Result<u64> {
        let record = self.core.bucket_record(read, &upload.bucket)?;
        Ok(record.ok_or_else(|| Error::not_found(Noun::Bucket, upload.bucket.as_str()))?.id)
    }

    /// Stores a part; one stored before under its number is replaced.
    pub async fn put_part(&self, request: PutPart) -> Result<PartInfo> {
        check_number(request.number)?;
        let PutPart { upload, number, content, etag, checksums } = request;
        let content = self.in_blob(content).await?;
        self.change_bucket(&upload.bucket.clone(), move |tx| {
            let pieces = take_pieces(tx.txn, content)?;
            let checksums =
                checksums.into_iter().map(|sum| StoredChecksum { algorithm: sum.algorithm, value: sum.value });
            put(tx, &upload, number, etag, checksums.collect(), pieces)
        })
        .await
    }

    /// Makes a part of a range of an object, by reference. [`Error::Busy`] if the object changes meanwhile.
    pub async fn copy_part(&self, request: CopyPart) -> Result<PartInfo> {
        check_number(request.number)?;
        let asked = request.clone();
        let source = self.blocking(move |store| store.part_source(&asked)).await?;
        if source.inline {
            // What lies in a record cannot be referred to: its bytes become a part as any other.
            let (content, etag) = self.blocking(move |store| source.stage(store)).await?;
            let CopyPart { upload, number, .. } = request;
            return self.put_part(PutPart { upload, number, content, etag, checksums: Vec::new() }).await;
        }
        self.blocking(move |store| store.share_part(request, &source)).await
    }

    /// The range a part copy asks for.
    fn part_source(&self, request: &CopyPart) -> Result<PartSource> {
        let (object, reader) =
            self.open_object(&request.source_bucket, &request.source_key, request.source_version.as_deref())?;
        super::object::check(&request.source_condition, &request.source_key, Some((reader.ino, &reader.inode)))?;
        let (offset, length) = request.range.unwrap_or((0, object.size));
        if offset.checked_add(length).is_none_or(|end| end > object.size) {
            let range = format!("{offset}+{length}");
            return Err(Error::invalid("copy source range", range, format!("the object has {} bytes", object.size)));
        }
        let inline = matches!(reader.inode.content, Some(Content::Inline(_)));
        Ok(PartSource { reader, etag: object.etag, offset, length, inline })
    }

    /// Makes the part by reference. Its entity tag is the MD5 of its bytes, which are read for that.
    fn share_part(&self, request: CopyPart, source: &PartSource) -> Result<PartInfo> {
        let PartSource { reader, offset, length, .. } = source;
        let (offset, length, seen) = (*offset, *length, source.etag.clone());
        let etag = crate::content::md5_of(reader, offset, length)?;
        let source = (&request.source_key, request.source_version.as_deref());
        let gate = self.hold_source(&request.source_bucket, source)?;
        let core = self.core.clone();
        let CopyPart { upload, number, source_bucket, source_key, source_version, .. } = request;
        let written = self.core.meta.write(Durability::Synced, move |txn| {
            let unchanged = Condition { if_match: Some(seen), ..Condition::default() };
            let named = (&source_key, source_version.as_deref());
            let share = |tx: &mut Tx<'_>, ino| tx.share_range(ino, offset, length);
            let pieces = shared_object(txn, &core, &source_bucket, named, &unchanged, share).map_err(changed)?;
            let mut tx = Tx::begin(txn, &core, &upload.bucket, 0)?;
            let part = put(&mut tx, &upload, number, etag, Vec::new(), pieces)?;
            tx.finish()?;
            Ok(part)
        });
        let answer = written.wait();
        drop(gate);
        answer
    }

    /// A page of parts after number `after`.
    pub fn parts(&self, upload: &UploadRef, after: u32, limit: usize) -> Result<PartListing> {
        let snapshot = self.core.meta.snapshot();
        let record = find(&*snapshot, self.bucket_id(&*snapshot, upload)?, upload)?;
        let mut parts: Vec<PartInfo> = parts_of(&*snapshot, &upload.id)?
            .into_iter()
            .filter(|(number, _)| *number > after)
            .map(|(number, part)| shown_part(number, part))
            .take(limit.saturating_add(1))
            .collect();
        let more = parts.len() > limit;
        parts.truncate(limit);
        let next = parts.last().filter(|_| more).map(|part| part.number);
        Ok(PartListing { upload: shown_upload(&upload.id, upload.key.as_str(), record), parts, next })
    }

    /// A page of uploads: by key, then by id. `list.after` is the key marker.
    pub fn uploads(
        &self,
        bucket: &crate::name::BucketName,
        list: &List,
        after_id: Option<&str>,
    ) -> Result<UploadListing> {
        let snapshot = self.core.meta.snapshot();
        let record = self.core.bucket_record(&*snapshot, bucket)?;
        let id = record.ok_or_else(|| Error::not_found(Noun::Bucket, bucket.as_str()))?.id;
        let mut page = UploadListing::default();
        for pair in super::open::all(&*snapshot, &key::by_id(tag::UPLOAD, id))? {
            let Some(name) = key::text_at(&pair.key, 9).map(str::to_owned) else { continue };
            let upload_id = String::from_utf8_lossy(&pair.key[9 + name.len() + 1..]).into_owned();
            if !name.starts_with(&list.prefix) || !is_after(&name, &upload_id, list.after.as_deref(), after_id) {
                continue;
            }
            if let Some(prefix) = crate::tree::common_prefix(&name, list) {
                let seen = page.prefixes.last() == Some(&prefix)
                    || list.after.as_ref().is_some_and(|after| after.starts_with(&prefix));
                if seen {
                    continue;
                }
                if page.uploads.len() + page.prefixes.len() == list.limit {
                    return Ok(page);
                }
                page.next = Some((prefix.clone(), String::new()));
                page.prefixes.push(prefix);
                continue;
            }
            if page.uploads.len() + page.prefixes.len() == list.limit {
                return Ok(page);
            }
            page.next = Some((name.clone(), upload_id.clone()));
            page.uploads.push(shown_upload(&upload_id, &name, decode("an upload", &pair.value)?));
        }
        page.next = None;
        Ok(page)
    }

    /// Turns an upload into its object, by reference.
    pub async fn complete_upload(&self, request: CompleteUpload) -> Result<ObjectInfo> {
        let bucket = request.upload.bucket.clone();
        self.change_bucket(&bucket, move |tx| complete(tx, request)).await
    }

    /// Drops an upload and its parts.
    pub async fn abort_upload(&self, upload: &UploadRef) -> Result<()> {
        let upload = upload.clone();
        self.change_bucket(&upload.bucket.clone(), move |tx| {
            find(&*tx.txn, tx.bucket.id, &upload)?;
            for (_, part) in parts_of(&*tx.txn, &upload.id)? {
                tx.count_upload(-i64::try_from(part.size).unwrap_or(i64::MAX));
            }
            drop_upload(tx.txn, tx.bucket.id, upload.key.as_str(), &upload.id)
        })
        .await
    }
}

/// What a part is copied from.
struct PartSource {
    reader: Reader,
    etag: String,
    offset: u64,
    length: u64,
    /// Whether the bytes lie in the record.
    inline: bool,
}

impl PartSource {
    /// Stages the bytes, and gives their MD5.
    fn stage(&self, store: &Store) -> Result<(Staged, String)> {
        let mut writer = store.stage_writer();
        let etag = crate::content::hash_of(&self.reader, self.offset, self.length, |data| writer.write(data))?;
        Ok((writer.finish()?, etag))
    }
}

/// The object changed after it was hashed.
fn changed(error: Error) -> Error {
    match error {
        Error::Precondition { key, .. } => Error::Busy { what: format!("object \"{key}\", which is being written,") },
        other => other,
    }
}

fn is_after(key: &str, id: &str, after: Option<&str>, after_id: Option<&str>) -> bool {
    match (after, after_id.filter(|id| !id.is_empty())) {
        (None, _) => true,
        (Some(after), None) => key > after,
        (Some(after), Some(after_id)) => (key, id) > (after, after_id),
    }
}

/// Staged content as pieces of a part, each with its reference.
fn take_pieces(txn: &mut dyn Txn, staged: Staged) -> Result<Vec<Extent>> {
    let length = staged.len();
    match take_staged(txn, staged)? {
        Some(Content::Blob(content)) if length > 0 => Ok(vec![Extent { blob: content.id, blob_offset: 0, length }]),
        Some(Content::Blob(content)) => release(txn, content.id).map(|()| Vec::new()),
        _ => Ok(Vec::new()),
    }
}

fn put(
    tx: &mut Tx<'_>,
    upload: &UploadRef,
    number: u32,
    etag: String,
    checksums: Vec<StoredChecksum>,
    pieces: Vec<Extent>,
) -> Result<PartInfo> {
    find(&*tx.txn, tx.bucket.id, upload)?;
    let part_key = key::part(&upload.id, number);
    if let Some(value) = tx.txn.get(&part_key)? {
        let replaced: Part = decode("a part", &value)?;
        tx.count_upload(-i64::try_from(replaced.size).unwrap_or(i64::MAX));
        drop_pieces(tx.txn, &replaced)?;
    }
    let size = pieces.iter().map(|piece| piece.length).sum();
    let part = Part { size, etag, modified: tx.now.0, checksums, pieces };
    tx.count_upload(i64::try_from(size).unwrap_or(i64::MAX));
    tx.txn.put(part_key, part.encode_to_vec());
    Ok(shown_part(number, part))
}

fn drop_pieces(txn: &mut dyn Txn, part: &Part) -> Result<()> {
    part.pieces.iter().filter(|piece| piece.blob != 0).try_for_each(|piece| release(txn, piece.blob))
}

fn drop_upload(txn: &mut dyn Txn, bucket: u64, key: &str, id: &str) -> Result<()> {
    for (number, part) in parts_of(&*txn, id)? {
        drop_pieces(txn, &part)?;
        txn.delete(key::part(id, number));
    }
    txn.delete(key::upload(bucket, key, id));
    Ok(())
}

/// Drops the uploads of a bucket that is being deleted.
pub(super) fn delete_of_bucket(txn: &mut dyn Txn, bucket: u64) -> Result<()> {
    for pair in super::open::all(&*txn, &key::by_id(tag::UPLOAD, bucket))? {
        let Some(name) = key::text_at(&pair.key, 9) else { continue };
        let id = String::from_utf8_lossy(&pair.key[9 + name.len() + 1..]).into_owned();
        drop_upload(txn, bucket, name, &id)?;
    }
    Ok(())
}

fn complete(tx: &mut Tx<'_>, request: CompleteUpload) -> Result<ObjectInfo> {
    let CompleteUpload { upload, parts, condition, checksums } = request;
    let record = find(&*tx.txn, tx.bucket.id, &upload)?;
    let stored = parts_of(&*tx.txn, &upload.id)?;
    let chosen = choose(&parts, &stored)?;
    check_current(tx.tree(), &condition, &upload.key)?;

    let ino = tx.new_ino()?;
    let mut size = 0;
    for part in &chosen {
        for piece in &part.pieces {
            if piece.blob != 0 {
                tx.add_extent(ino, size, *piece)?;
            }
            size += piece.length;
        }
    }
    let mut object = record.object.unwrap_or_default();
    object.etag = crate::content::multipart_etag(chosen.iter().map(|part| part.etag.as_str()));
    object.parts = u32::try_from(chosen.len()).unwrap_or(PARTS_MAX);
    object.checksums =
        checksums.into_iter().map(|sum| StoredChecksum { algorithm: sum.algorithm, value: sum.value }).collect();
    let content = Some(Content::Extents(ExtentContent { home: None }));
    let inode = tx.put_object(&upload.key, ino, content, size, object)?;
    for part in stored.values() {
        tx.count_upload(-i64::try_from(part.size).unwrap_or(i64::MAX));
    }
    drop_upload(tx.txn, tx.bucket.id, upload.key.as_str(), &upload.id)?;
    Ok(shown_in(keeps_versions(&tx.bucket), upload.key.as_str(), ino, &inode))
}

/// The parts named, checked: present, in order, and none too small but the last.
fn choose<'a>(named: &[(u32, String)], stored: &'a BTreeMap<u32, Part>) -> Result<Vec<&'a Part>> {
    if named.is_empty() {
        return Err(Error::invalid("part order", "", "name at least one part"));
    }
    if let Some(pair) = named.windows(2).find(|pair| pair[1].0 <= pair[0].0) {
        return Err(Error::invalid("part order", pair[1].0.to_string(), "part numbers have to rise"));
    }
    let mut chosen = Vec::with_capacity(named.len());
    for (index, (number, etag)) in named.iter().enumerate() {
        let part = stored.get(number).filter(|part| part.etag == *etag);
        let part = part.ok_or_else(|| Error::not_found(Noun::Part, format!("{number} with entity tag {etag}")))?;
        if part.size < PART_BYTES_MIN && index + 1 < named.len() {
            let why = format!("part {number} has less than {PART_BYTES_MIN} bytes; only the last may");
            return Err(Error::invalid("part size", part.size.to_string(), why));
        }
        chosen.push(part);
    }
    Ok(chosen)
}
