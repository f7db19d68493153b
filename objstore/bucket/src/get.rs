//! Reading objects, verified against what was asked.
//!
//! - A range is exactly as long as it was asked for, and from the place that was asked for.
//! - An answer that ends early or has a wrong checksum is asked for again, a few times; then it is an error.
//! - No more bytes are held than were asked for, however many the server sends.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_s3::operation::get_object::GetObjectOutput;
use aws_sdk_s3::types::ChecksumMode;
use bytes::{Bytes, BytesMut};

use crate::error::{Error, Result, chain, explain};
use crate::stats::Kind;
use crate::{Bucket, Inner};

/// How often a body that did not arrive whole is asked for.
const BODIES: u32 = 4;
/// The metadata of an object that names the write that made it.
pub(crate) const TOKEN: &str = "amphora-token";

/// An object and its entity tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// The content.
    pub bytes: Bytes,
    /// The entity tag, for [`Bucket::replace`].
    pub etag: String,
}

/// What HEAD tells of an object.
pub(crate) struct Head {
    pub length: u64,
    pub etag: String,
    pub token: Option<String>,
}

impl Bucket {
    /// The whole object `key`.
    ///
    /// # Errors
    /// [`Error::Damaged`] if it has more than `most` bytes.
    pub fn get(&self, key: &str, most: usize) -> Result<Object> {
        let key = key.to_owned();
        self.wait(|inner| async move { inner.get(&key, Wanted::Whole { most }).await })
    }

    /// Several whole objects at the same time, each with the most bytes that it may have; an outcome for each. The caller
    /// bounds how many bytes they have together.
    pub fn get_each(&self, keys: &[(String, usize)]) -> Vec<Result<Object>> {
        let keys = keys.to_vec();
        let asked = keys.len();
        let all = self.wait(|inner| async move {
            let gets = keys.into_iter().map(|(key, most)| {
                let inner = Arc::clone(&inner);
                async move { inner.get(&key, Wanted::Whole { most }).await }
            });
            Ok(futures::future::join_all(gets).await)
        });
        all.unwrap_or_else(|error| vec![Err(error); asked])
    }

    /// The bytes `range` of the object `key`: exactly so many, or an error.
    pub fn get_range(&self, key: &str, range: Range<u64>) -> Result<Bytes> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let key = key.to_owned();
        self.wait(|inner| async move { inner.get(&key, Wanted::Range(range)).await.map(|object| object.bytes) })
    }

    /// The length of the object `key` in bytes; `None` if it does not exist.
    pub fn length(&self, key: &str) -> Result<Option<u64>> {
        let key = key.to_owned();
        self.wait(|inner| async move {
            match inner.head(&key).await {
                Ok(head) => Ok(Some(head.length)),
                Err(Error::Missing { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        })
    }
}

#[derive(Clone)]
enum Wanted {
    Whole { most: usize },
    Range(Range<u64>),
}

impl Inner {
    async fn get(self: Arc<Self>, key: &str, wanted: Wanted) -> Result<Object> {
        let mut attempt = 1;
        loop {
            let _slot = self.slot().await;
            let started = async { self.get_head(key, &wanted).await };
            // Without an answer at all, the client has tried again already.
            let body = self.counters.count(Kind::Get, started).await?;
            match self.get_body(key, &wanted, body).await {
                Err(Error::Unavailable { .. } | Error::Damaged { .. }) if attempt < BODIES => {
                    tokio::time::sleep(Duration::from_millis(50 << attempt)).await;
                    attempt += 1;
                }
                got => return got,
            }
        }
    }

    async fn get_head(&self, key: &str, wanted: &Wanted) -> Result<GetObjectOutput> {
        let name = self.location.name(key);
        let mut request = self.client.get_object().bucket(self.location.bucket()).key(self.location.key(key));
        request = match wanted {
            Wanted::Whole { .. } => request.checksum_mode(ChecksumMode::Enabled),
            Wanted::Range(range) => request.range(format!("bytes={}-{}", range.start, range.end - 1)),
        };
        request.send().await.map_err(|error| explain(&error, ("reading", name)))
    }

    async fn get_body(&self, key: &str, wanted: &Wanted, answer: GetObjectOutput) -> Result<Object> {
        let name = self.location.name(key);
        let length = check_head(&answer, wanted, &name)?;
        let etag = answer.e_tag.clone().unwrap_or_default();
        let body = collect(answer, length, &name);
        let bytes = tokio::time::timeout(self.patience.attempt, body).await.unwrap_or_else(|_| {
            Err(Error::Unavailable { operation: "reading", name: name.clone(), why: "it took too long".into() })
        })?;
        Ok(Object { bytes, etag })
    }

    pub(crate) async fn head(&self, key: &str) -> Result<Head> {
        let request = self.client.head_object().bucket(self.location.bucket()).key(self.location.key(key));
        let send = async {
            let answer =
                request.send().await.map_err(|error| explain(&error, ("looking for", self.location.name(key))))?;
            let length = answer.content_length().and_then(|length| u64::try_from(length).ok()).unwrap_or(0);
            let token = answer.metadata().and_then(|metadata| metadata.get(TOKEN)).cloned();
            Ok(Head { length, etag: answer.e_tag.unwrap_or_default(), token })
        };
        self.counters.count(Kind::Get, send).await
    }
}

/// The length that the body has to have.
fn check_head(answer: &GetObjectOutput, wanted: &Wanted, name: &str) -> Result<u64> {
    let said = answer.content_length().and_then(|length| u64::try_from(length).ok());
    let damaged = |expected: String, found: String| Err(Error::Damaged { name: name.into(), expected, found });
    match wanted {
        Wanted::Whole { most } => match said {
            Some(length) if length <= *most as u64 => Ok(length),
            Some(length) => damaged(format!("at most {most} bytes"), format!("{length} bytes")),
            None => damaged("a length".into(), "none".into()),
        },
        Wanted::Range(range) => {
            let expected = format!("bytes {}-{}/", range.start, range.end - 1);
            let found = answer.content_range().unwrap_or("no range");
            if !found.starts_with(&expected) {
                return damaged(expected, found.chars().take(100).collect());
            }
            let length = range.end - range.start;
            match said {
                Some(said) if said != length => damaged(format!("{length} bytes"), format!("{said} bytes")),
                _ => Ok(length),
            }
        }
    }
}

/// The body, which has to have `length` bytes.
async fn collect(mut answer: GetObjectOutput, length: u64, name: &str) -> Result<Bytes> {
    let damaged = |found: String| Error::Damaged { name: name.into(), expected: format!("{length} bytes"), found };
    let mut all = BytesMut::new();
    while let Some(piece) = answer.body.next().await {
        let piece = piece.map_err(|error| {
            let why = chain(&error);
            match why.contains("checksum") {
                true => damaged(why),
                false => Error::Unavailable { operation: "reading", name: name.into(), why },
            }
        })?;
        if (all.len() + piece.len()) as u64 > length {
            return Err(damaged("more".into()));
        }
        if piece.len() as u64 == length {
            return Ok(piece);
        }
        all.extend_from_slice(&piece);
    }
    if (all.len() as u64) < length {
        return Err(damaged(format!("{} bytes", all.len())));
    }
    Ok(all.freeze())
}
