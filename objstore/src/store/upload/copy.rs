//! Parts that are ranges of objects (S3 API, UploadPartCopy).
//!
//! - Content is copied by reference. The bytes are still read once, for the entity tag and the checksums.
//! - If the object changes between the reading and the reference, the part is refused as busy.

use super::part::{check_number, put};
use super::stored_checksums;
use crate::content::{Reader, Staged, share_range};
use crate::error::{Error, Result};
use crate::meta::Durability;
use crate::record::inode::Content;
use crate::store::Store;
use crate::store::copy::{check_size, shared_object};
use crate::store::object::check;
use crate::store::types::{Checksum, Condition, CopyPart, PartHash, PartInfo, PutPart};
use crate::tree::Tx;

/// Bytes read and hashed at a time.
const CHUNK: usize = 1 << 20;

impl Store {
    /// Creates a part from a range of an object, by reference; `hash` receives the bytes. [`Error::Busy`] if the object
    /// changes meanwhile.
    pub async fn copy_part(&self, request: CopyPart, hash: Box<dyn PartHash>) -> Result<PartInfo> {
        check_number(request.number)?;
        let _changing = self.begin_change(&request.source_bucket).await?;
        let asked = request.clone();
        let source = self.blocking(move |store| store.part_source(&asked)).await?;
        if source.inline {
            // Inline content cannot be referred to: its bytes are stored like those of any other part.
            let (content, (etag, checksums)) = self.blocking(move |store| source.stage(store, hash)).await?;
            let CopyPart { upload, number, .. } = request;
            return self.put_part(PutPart { upload, number, content, etag, checksums }).await;
        }
        self.blocking(move |store| store.share_part(request, &source, hash)).await
    }

    /// The range that a part copy asks for.
    fn part_source(&self, request: &CopyPart) -> Result<PartSource> {
        let (object, reader) =
            self.open_object(&request.source_bucket, &request.source_key, request.source_version.as_deref())?;
        check(&request.source_condition, &request.source_key, Some((reader.ino, &reader.inode)))?;
        let (offset, length) = request.range.unwrap_or((0, object.size));
        if offset.checked_add(length).is_none_or(|end| end > object.size) {
            let range = format!("bytes={offset}-{}", offset.saturating_add(length).saturating_sub(1));
            return Err(Error::invalid("range", range, format!("the copy source has {} bytes", object.size)));
        }
        check_size(length)?;
        let inline = matches!(reader.inode.content, Some(Content::Inline(_)));
        Ok(PartSource { reader, etag: object.etag, offset, length, inline })
    }

    /// Creates the part by reference.
    fn share_part(&self, request: CopyPart, source: &PartSource, hash: Box<dyn PartHash>) -> Result<PartInfo> {
        let (etag, checksums) = source.read(hash, |_| Ok(()))?;
        let (offset, length, seen) = (source.offset, source.length, source.etag.clone());
        let named = (&request.source_key, request.source_version.as_deref());
        let held = self.hold_source(&request.source_bucket, named)?;
        let (core, source) = (self.core.clone(), held.source);
        let CopyPart { upload, number, source_bucket, source_key, source_version, .. } = request;
        let written = self.core.meta.write(Durability::Synced, move |txn| {
            let unchanged = Condition { if_match: Some(seen.into()), ..Condition::default() };
            let named = (&source_key, source_version.as_deref());
            let share = |tx: &mut Tx<'_>, ino| share_range(tx, ino, offset, length);
            let pieces = shared_object(txn, &core, source, &source_bucket, named, &unchanged, share);
            let pieces = pieces.map_err(changed)?;
            let mut tx = Tx::begin(txn, &core, &upload.bucket, 0)?;
            let part = put(&mut tx, &upload, number, etag, stored_checksums(checksums), pieces)?;
            tx.finish()?;
            Ok(part)
        });
        let answer = written.wait();
        drop(held);
        answer
    }
}

/// The source of a part.
struct PartSource {
    reader: Reader,
    etag: String,
    offset: u64,
    length: u64,
    /// Whether the bytes are inline.
    inline: bool,
}

impl PartSource {
    /// Stages the bytes and returns their digests.
    fn stage(&self, store: &Store, hash: Box<dyn PartHash>) -> Result<(Staged, (String, Vec<Checksum>))> {
        let mut writer = store.stage_writer();
        let sums = self.read(hash, |data| writer.write(data))?;
        Ok((writer.finish()?, sums))
    }

    /// Reads the bytes, hashes them and passes them on.
    fn read(
        &self,
        mut hash: Box<dyn PartHash>,
        mut hand_on: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<(String, Vec<Checksum>)> {
        let (mut at, end) = (self.offset, self.offset + self.length);
        while at < end {
            let len = usize::try_from(end - at).unwrap_or(CHUNK).min(CHUNK);
            let data = self.reader.read(at, len)?;
            hash.update(&data);
            hand_on(&data)?;
            at += data.len().max(1) as u64;
        }
        Ok(hash.finish())
    }
}

/// The error for an object that changed after it was hashed.
fn changed(error: Error) -> Error {
    match error {
        Error::Precondition { key, .. } => Error::Busy { what: format!("object \"{key}\", which is being written,") },
        other => other,
    }
}
