//! Writing objects: once, or by compare-and-swap.
//!
//! - Each write has a token in the object's metadata. If a condition fails, the object may be that of an earlier attempt
//!   whose answer was lost; the token tells.
//! - Each body has a CRC-32C, which the server compares before it stores the object.

use std::sync::Arc;
use std::time::Duration;

use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::ChecksumAlgorithm;
use bytes::Bytes;

use crate::error::{Error, Result, explain};
use crate::get::TOKEN;
use crate::stats::Kind;
use crate::{Bucket, Inner};

/// How often a write is tried again that met another one of the same key at the same time.
const CONFLICTS: u32 = 3;

/// What has to be at the key before the write.
#[derive(Clone)]
pub(crate) enum Before {
    Nothing,
    Etag(String),
}

impl Bucket {
    /// Creates the object `key`, and returns its entity tag. An object is written once: [`Error::Conflict`] if there is
    /// one that this call did not make.
    pub fn put(&self, key: &str, bytes: Bytes) -> Result<String> {
        self.put_if(key, bytes, Before::Nothing)
    }

    /// Replaces the object `key` if its entity tag is `etag`; returns the new one. [`Error::Conflict`] if another writer
    /// was faster.
    pub fn replace(&self, key: &str, bytes: Bytes, etag: &str) -> Result<String> {
        self.put_if(key, bytes, Before::Etag(etag.to_owned()))
    }

    /// Creates the object `key` like [`Bucket::put`] without waiting: `then` receives the outcome on a thread of the bucket,
    /// which it must not block. Dropping the last bucket drops `then` without a call.
    pub fn put_then(&self, key: &str, bytes: Bytes, then: impl FnOnce(Result<String>) + Send + 'static) {
        let Some(runtime) = &self.0.runtime else { return };
        let (inner, key) = (Arc::clone(&self.0), key.to_owned());
        runtime.spawn(async move {
            let token = inner.token();
            let write = inner.clone().put(&key, bytes, Before::Nothing, &token);
            then(inner.counters.count(Kind::Put, write).await);
        });
    }

    pub(crate) fn put_if(&self, key: &str, bytes: Bytes, before: Before) -> Result<String> {
        let key = key.to_owned();
        self.wait(|inner| async move {
            let token = inner.token();
            inner.counters.count(Kind::Put, inner.clone().put(&key, bytes, before, &token)).await
        })
    }
}

impl Inner {
    pub(crate) async fn put(self: Arc<Self>, key: &str, bytes: Bytes, before: Before, token: &str) -> Result<String> {
        let mut attempt = 1;
        loop {
            let _slot = self.slot().await;
            match self.put_once(key, bytes.clone(), &before, token).await {
                Err(Error::Conflict { name }) => match self.made_by(key, token).await? {
                    Some((etag, length)) if length == bytes.len() as u64 => return Ok(etag),
                    Some((_, length)) => {
                        let expected = format!("{} bytes, as written", bytes.len());
                        return Err(Error::Damaged { name, expected, found: format!("{length} bytes") });
                    }
                    // Two writers at once: S3 answers one of them before it has decided (409).
                    None if attempt < CONFLICTS && matches!(before, Before::Nothing) && self.is_absent(key).await? => {
                        tokio::time::sleep(Duration::from_millis(50 << attempt)).await;
                        attempt += 1;
                    }
                    None => return Err(Error::Conflict { name }),
                },
                done => return done,
            }
        }
    }

    async fn put_once(&self, key: &str, bytes: Bytes, before: &Before, token: &str) -> Result<String> {
        let mut request = self
            .client
            .put_object()
            .bucket(self.location.bucket())
            .key(self.location.key(key))
            .checksum_algorithm(ChecksumAlgorithm::Crc32C)
            .metadata(TOKEN, token);
        request = match before {
            Before::Nothing => request.if_none_match("*"),
            Before::Etag(etag) => request.if_match(etag),
        };
        let answer = request.body(ByteStream::from(bytes)).send().await;
        let answer = answer.map_err(|error| explain(&error, ("writing", self.location.name(key))))?;
        Ok(answer.e_tag.unwrap_or_default())
    }

    /// The entity tag and length of the object `key`, if the write with this token made it.
    pub(crate) async fn made_by(&self, key: &str, token: &str) -> Result<Option<(String, u64)>> {
        match self.head(key).await {
            Ok(head) => Ok((head.token.as_deref() == Some(token)).then_some((head.etag, head.length))),
            Err(Error::Missing { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn is_absent(&self, key: &str) -> Result<bool> {
        match self.head(key).await {
            Ok(_) => Ok(false),
            Err(Error::Missing { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }
}
