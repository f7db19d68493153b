//! Objects longer than one request: multipart uploads.
//!
//! - A few parts are read and sent at a time, so memory is bounded.
//! - Completing creates the object once, like [`Bucket::put`]. An answer that was lost is recognised by the token.
//!
//! A crash leaves an upload with parts; [`Bucket::abort_uploads`] removes it.

use std::sync::Arc;

use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{ChecksumAlgorithm, CompletedMultipartUpload, CompletedPart};
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};

use crate::error::{Error, Result, explain};
use crate::get::TOKEN;
use crate::stats::Kind;
use crate::{Bucket, Inner};

/// The size of a part in bytes, except where an object would have too many.
pub const PART_BYTES: u64 = 16 << 20;
/// The largest number of parts (S3 API, "multipart upload limits"), with some left.
const PARTS_MAX: u64 = 9_000;
/// The number of parts under way at a time.
const PARTS_AT_ONCE: usize = 4;

/// Where the bytes of a large object come from.
pub trait Source: Send + Sync {
    /// `len` bytes at `offset`; blocking. An error is the reason, as a part of a sentence.
    fn read(&self, offset: u64, len: usize) -> Result<Bytes, String>;
}

impl Bucket {
    /// Creates the object `key` of `length` bytes in parts. An object is written once: [`Error::Conflict`] if there is one
    /// that this call did not make.
    pub fn put_large(&self, key: &str, length: u64, source: Arc<dyn Source>) -> Result<()> {
        let key = key.to_owned();
        self.wait(|inner| async move {
            let token = inner.token();
            let upload = inner.begin(&key, &token).await?;
            let done = inner.clone().fill(&key, &upload, length, source, &token).await;
            if done.is_err() {
                inner.abort(&key, &upload).await;
            }
            done
        })
    }

    /// Removes uploads below `prefix` that were begun and neither completed nor aborted. Only for a prefix under which no
    /// upload is under way.
    pub fn abort_uploads(&self, prefix: &str) -> Result<usize> {
        let prefix = prefix.to_owned();
        self.wait(|inner| async move { inner.abort_all(&prefix).await })
    }
}

impl Inner {
    async fn begin(&self, key: &str, token: &str) -> Result<String> {
        let request = self
            .client
            .create_multipart_upload()
            .bucket(self.location.bucket())
            .key(self.location.key(key))
            .checksum_algorithm(ChecksumAlgorithm::Crc32C)
            .metadata(TOKEN, token);
        let send = async {
            let name = self.location.name(key);
            let answer = request.send().await.map_err(|error| explain(&error, ("writing", name.clone())))?;
            let none = || Error::Damaged { name, expected: "the id of an upload".into(), found: "none".into() };
            answer.upload_id.ok_or_else(none)
        };
        self.counters.count(Kind::Put, send).await
    }

    async fn fill(
        self: Arc<Self>,
        key: &str,
        upload: &str,
        length: u64,
        source: Arc<dyn Source>,
        token: &str,
    ) -> Result<()> {
        let size = PART_BYTES.max(length.div_ceil(PARTS_MAX).next_multiple_of(1 << 20));
        let parts = futures::stream::iter(0..length.div_ceil(size).max(1)).map(|index| {
            let (inner, source) = (self.clone(), source.clone());
            let from = index * size;
            let len = usize::try_from(size.min(length - from)).unwrap_or(0);
            async move { inner.part(key, upload, index, (source, from, len)).await }
        });
        let parts: Vec<CompletedPart> = parts.buffered(PARTS_AT_ONCE).try_collect().await?;
        let request = self
            .client
            .complete_multipart_upload()
            .bucket(self.location.bucket())
            .key(self.location.key(key))
            .upload_id(upload)
            .if_none_match("*")
            .multipart_upload(CompletedMultipartUpload::builder().set_parts(Some(parts)).build());
        let name = self.location.name(key);
        let send = async { request.send().await.map(drop).map_err(|error| explain(&error, ("writing", name.clone()))) };
        let completed = self.counters.count(Kind::Put, send).await;
        match completed {
            Ok(()) => {}
            // An upload that was completed is gone, and the object is there.
            Err(error @ (Error::Conflict { .. } | Error::Missing { .. })) => {
                self.made_by(key, token).await?.ok_or(error)?;
            }
            Err(error) => return Err(error),
        }
        let found = self.head(key).await?.length;
        if found != length {
            return Err(Error::Damaged {
                name,
                expected: format!("{length} bytes, as written"),
                found: format!("{found} bytes"),
            });
        }
        Ok(())
    }

    async fn part(
        self: Arc<Self>,
        key: &str,
        upload: &str,
        index: u64,
        (source, from, len): (Arc<dyn Source>, u64, usize),
    ) -> Result<CompletedPart> {
        let _slot = self.slot().await;
        let name = self.location.name(key);
        let read = tokio::task::spawn_blocking(move || source.read(from, len)).await;
        let bytes = read.unwrap_or_else(|error| Err(error.to_string()));
        let bytes = bytes.map_err(|why| Error::Unavailable {
            operation: "reading what to write as",
            name: name.clone(),
            why,
        })?;
        let number = i32::try_from(index + 1).unwrap_or(i32::MAX);
        let request = self
            .client
            .upload_part()
            .bucket(self.location.bucket())
            .key(self.location.key(key))
            .upload_id(upload)
            .part_number(number)
            .checksum_algorithm(ChecksumAlgorithm::Crc32C)
            .body(ByteStream::from(bytes));
        let send = async { request.send().await.map_err(|error| explain(&error, ("writing", name))) };
        let answer = self.counters.count(Kind::Put, send).await?;
        let part = CompletedPart::builder().part_number(number).set_e_tag(answer.e_tag);
        Ok(part.set_checksum_crc32_c(answer.checksum_crc32_c).build())
    }

    async fn abort(&self, key: &str, upload: &str) {
        let request = self.client.abort_multipart_upload().bucket(self.location.bucket()).key(self.location.key(key));
        if let Err(error) = request.upload_id(upload).send().await {
            let error = explain(&error, ("aborting the upload of", self.location.name(key)));
            tracing::debug!(%error, "parts of an upload stay until the store is opened again");
        }
    }

    async fn abort_all(&self, prefix: &str) -> Result<usize> {
        let (mut key_marker, mut id_marker, mut aborted) = (None, None, 0);
        loop {
            let request = self
                .client
                .list_multipart_uploads()
                .bucket(self.location.bucket())
                .prefix(self.location.key(prefix))
                .set_key_marker(key_marker.clone())
                .set_upload_id_marker(id_marker.clone());
            let name = self.location.name(prefix);
            let send = async { request.send().await.map_err(|error| explain(&error, ("listing uploads of", name))) };
            let page = self.counters.count(Kind::List, send).await?;
            for upload in page.uploads() {
                let key = upload.key().and_then(|key| self.location.strip(key)).filter(|key| key.starts_with(prefix));
                if let (Some(key), Some(id)) = (key, upload.upload_id()) {
                    self.abort(key, id).await;
                    aborted += 1;
                }
            }
            let next = (page.next_key_marker, page.next_upload_id_marker);
            // A server that names the same page again would keep this here forever.
            if page.is_truncated != Some(true) || next.0.is_none() || next == (key_marker, id_marker) {
                return Ok(aborted);
            }
            (key_marker, id_marker) = next;
        }
    }
}
