//! Parts of uploads: storing, replacing and listing them.

use std::collections::BTreeMap;

use prost::Message;

use super::{PARTS_MAX, found, shown_checksums, shown_upload, stored_checksums};
use crate::clock::Timestamp;
use crate::content::{Staged, release, take_staged};
use crate::error::{Error, Result};
use crate::meta::{Pair, Read, Txn};
use crate::record::decode;
use crate::record::inode::{Content, Extent, StoredChecksum};
use crate::record::key;
use crate::record::upload::Part;
use crate::store::Store;
use crate::store::types::{PartInfo, PartListing, PutPart, UploadRef};
use crate::tree::Tx;

/// The parts of an upload by number.
pub(super) fn all_of(read: &dyn Read, id: &str) -> Result<BTreeMap<u32, Part>> {
    crate::store::all(read, &key::parts(id))?.iter().map(read_back).collect()
}

fn read_back(pair: &Pair) -> Result<(u32, Part)> {
    let number = key::unbranched(&pair.key).map(|(_, number)| number);
    let number = number.ok_or_else(|| Error::corrupt("a part", "a number in its key", "none"))?;
    Ok((number, decode("a part", &pair.value)?))
}

fn shown(number: u32, part: Part) -> PartInfo {
    PartInfo {
        number,
        size: part.size,
        etag: part.etag,
        modified: Timestamp(part.modified),
        checksums: shown_checksums(part.checksums),
    }
}

/// Refuses an invalid part number.
pub(super) fn check_number(number: u32) -> Result<()> {
    if (1..=PARTS_MAX).contains(&number) {
        return Ok(());
    }
    Err(Error::invalid("part number", number.to_string(), format!("use 1 to {PARTS_MAX}")))
}

impl Store {
    /// Stores a part, replacing one with its number. If the upload was completed or aborted meanwhile, nothing of the
    /// part remains.
    pub async fn put_part(&self, request: PutPart) -> Result<PartInfo> {
        check_number(request.number)?;
        let PutPart { upload, number, content, etag, checksums } = request;
        let content = self.in_blob(content).await?;
        self.change_bucket(&upload.bucket.clone(), move |tx| {
            let pieces = take_pieces(tx.txn, content)?;
            put(tx, &upload, number, etag, stored_checksums(checksums), pieces)
        })
        .await
    }

    /// A page of parts after number `after`.
    pub fn parts(&self, upload: &UploadRef, after: u32, limit: usize) -> Result<PartListing> {
        let snapshot = self.core.meta.snapshot();
        let record = found(&*snapshot, self.bucket_id(&*snapshot, upload)?, upload)?;
        let from = key::part(&upload.id, after.saturating_add(1));
        let pairs = snapshot.scan(&from, &key::after_prefix(&key::parts(&upload.id)), limit.saturating_add(1))?;
        let more = pairs.len() > limit;
        let parts = pairs.iter().take(limit).map(|pair| read_back(pair).map(|(number, part)| shown(number, part)));
        let parts: Vec<PartInfo> = parts.collect::<Result<_>>()?;
        let next = parts.last().filter(|_| more).map(|part| part.number);
        Ok(PartListing { upload: shown_upload(&upload.id, upload.key.as_str(), record), parts, next })
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

/// Stores a part, replacing one with its number.
pub(super) fn put(
    tx: &mut Tx<'_>,
    upload: &UploadRef,
    number: u32,
    etag: String,
    checksums: Vec<StoredChecksum>,
    pieces: Vec<Extent>,
) -> Result<PartInfo> {
    found(&*tx.txn, tx.bucket.id, upload)?;
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
    Ok(shown(number, part))
}

/// Drops the references of a part.
pub(super) fn drop_pieces(txn: &mut dyn Txn, part: &Part) -> Result<()> {
    part.pieces.iter().filter(|piece| piece.blob != 0).try_for_each(|piece| release(txn, piece.blob))
}
