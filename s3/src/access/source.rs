//! Authorization of a copy's source: whether the caller may read it, and copy its tags.
//!
//! - Where its tags matter, the source is read once for all decisions, and the copy is bound to the object seen then.

use std::sync::Arc;

use http::{HeaderMap, Uri};
use objstore::Store;
use s3s::S3Result;
use s3s::dto::CopySource;

use super::{Access, authority_over, expect_owner, hide_absent};
use crate::authorization::{Ask, BodyFacts, CheckedSource, Right, Tags};
use crate::error::refuse_source;
use crate::names::{self, Source};

const EXPECTED_SOURCE_OWNER: &str = "x-amz-source-expected-bucket-owner";

impl Access {
    /// Checks that the source of a copy may be read; if its tags are copied to the key `tagged`, also that they may be
    /// read and set there.
    pub(super) async fn allow_source(
        &self,
        given: &CopySource,
        tagged: Option<&str>,
        head: (&HeaderMap, &Uri),
    ) -> S3Result<()> {
        let request = &self.0.request;
        let (target, source) = (request.authority()?, names::source(given)?);
        let authority = match *target.bucket() == source.bucket {
            true => Arc::clone(&target),
            false => {
                let account = target.account().cloned();
                authority_over(&self.0, account, source.bucket.clone(), head).await?
            }
        };
        request.set_source(Arc::clone(&authority), source.key.as_str().to_owned());
        // A grant that allows reading and writing objects allows it for their tags too.
        let tagged = tagged.filter(|_| !target.by_grants() || !authority.by_grants());
        let asks_object = reading(&source, None).iter().any(|ask| authority.asks_object(ask));
        let is_seen = tagged.is_some() || asks_object;
        if is_seen {
            self.0.store.share_bucket(&source.bucket).await.map_err(refuse_source)?;
        }
        let seen = if is_seen { Some(self.find_source(&source).await) } else { None };
        let traits = seen.as_ref().and_then(|seen| seen.as_ref().ok()).map(CheckedSource::traits);
        let tags = traits.as_ref().map(|traits| &traits.tags);
        authority.require_on(&self.0.store, reading(&source, tagged.and(tags)), traits.clone()).await?;
        // What a mount on another machine has answered is in the store before the source is read.
        self.0.store.share_bucket(&source.bucket).await.map_err(refuse_source)?;
        if let Some(seen) = seen {
            let seen = match seen {
                Ok(seen) => seen,
                Err(error) => return Err(hide_absent(&self.0, error).await),
            };
            if let Some(key) = tagged {
                target.require_all(&self.0.store, tagging_of(key, &seen.tags)).await?;
            }
            request.set_checked_source(seen);
        }
        expect_owner(&self.0, source.bucket, head.0, EXPECTED_SOURCE_OWNER).await
    }

    async fn find_source(&self, source: &Source) -> S3Result<CheckedSource> {
        let (bucket, key, version) = (source.bucket.clone(), source.key.clone(), source.version.clone());
        let head = move |store: &Store| store.head_object(&bucket, &key, version.as_deref()).map_err(refuse_source);
        Ok(CheckedSource::of(self.0.blocking(head).await?))
    }
}

/// The actions for reading a copy's source, and its tags if they are copied.
fn reading(source: &Source, tags: Option<&Tags>) -> Vec<Ask> {
    let (key, version) = (source.key.as_str(), source.version.as_deref());
    let (read, read_tags) = match version {
        None => ("s3:GetObject", "s3:GetObjectTagging"),
        Some(_) => ("s3:GetObjectVersion", "s3:GetObjectVersionTagging"),
    };
    let mut asks = vec![Ask::object(read, Right::Read, key, version)];
    if tags.is_some_and(|tags| !tags.is_empty()) {
        asks.push(Ask::object(read_tags, Right::Read, key, version));
    }
    asks
}

/// The actions for setting these tags on `key`. PutObject is checked again, since the tags were not known before.
fn tagging_of(key: &str, tags: &Tags) -> Vec<Ask> {
    let body = BodyFacts { tags: Some(tags.clone()), ..BodyFacts::default() };
    let put = Ask { body, ..Ask::object("s3:PutObject", Right::Write, key, None) };
    match tags.is_empty() {
        true => vec![put],
        false => vec![Ask { action: "s3:PutObjectTagging", ..put.clone() }, put],
    }
}
