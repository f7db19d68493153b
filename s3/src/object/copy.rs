//! CopyObject.

use objstore::store::{Condition, CopiedObject, CopyObject, Directive};
use s3s::dto::{CopyObjectInput, CopyObjectOutput, CopyObjectResult, MetadataDirective, TaggingDirective};
use s3s::{S3ErrorCode, S3Request, S3Response, S3Result};

use super::acl;
use crate::acl::{ListHeaders, Of};
use crate::attributes::{self, Attributes};
use crate::checksum::{self, Algorithm, Copied};
use crate::conditions::{self, Reading};
use crate::error::{bad_argument, refuse, refuse_source, says};
use crate::names::{self, Source};
use crate::response::{etag, time, version_made};
use crate::service::Call;
use crate::{lifecycle, lock, storage_class};

/// The conditions on the source, from the input of CopyObject or UploadPartCopy.
macro_rules! reading {
    ($input:expr, $headers:expr) => {
        $crate::conditions::Reading::of_source(
            $headers,
            $input.copy_source_if_modified_since.take(),
            $input.copy_source_if_unmodified_since.take(),
        )
    };
}
pub(crate) use reading;

/// Copies an object by reference; its bytes do not move (S3 API, CopyObject).
pub(crate) async fn copy(call: &Call, request: S3Request<CopyObjectInput>) -> S3Result<S3Response<CopyObjectOutput>> {
    let mut input = request.input;
    let source = names::source(&input.copy_source)?;
    let (bucket, key) = (names::bucket(&input.bucket)?, names::key(&input.key)?);
    let condition = conditions::writing(&request.headers)?;
    let reading = reading!(input, &request.headers)?;
    let replaces = replaces(input.metadata_directive.as_ref().map(MetadataDirective::as_str), "metadata")?;
    let retags = replaces_tags(&input)?;
    let lock = lock::asked!(input)?;
    let website_redirect = input.website_redirect_location.clone();
    let access = acl::of_new(call, ListHeaders::of(&request.headers, Of::Object)?).await?;
    let Attributes { headers, metadata, tags } = attributes::take!(input)?;
    let storage_class = storage_class::kept(input.storage_class.as_ref());
    let reclasses = input.storage_class.is_some() || website_redirect.is_some();
    let onto_itself = (&source.bucket, &source.key) == (&bucket, &key) && source.version.is_none();
    if onto_itself && !replaces && !retags && !reclasses {
        return Err(says(
            S3ErrorCode::InvalidRequest,
            "This copy request is illegal because it is trying to copy an object to itself without changing the object's \
             metadata, storage class, website redirect location or encryption attributes.",
        ));
    }

    let asked = input.checksum_algorithm.as_ref().map(|name| Algorithm::from_name(name.as_str())).transpose()?;
    let seen = call.request.checked_source().cloned();
    let mut source_condition = source_condition(call, &source, reading).await?;
    let (source, worked_out) = call
        .blocking(move |store| {
            let worked_out = checksum::of_copy(store, &source, asked)?;
            Ok((source, worked_out))
        })
        .await?;
    let checksums = match worked_out {
        None => None,
        Some(Copied { source_etag, checksum }) => {
            bind(&mut source_condition, &source_etag)?;
            Some(checksum.into_iter().collect())
        }
    };
    let copy = CopyObject {
        source_bucket: source.bucket,
        source_key: source.key,
        source_version: source.version,
        source_condition,
        bucket,
        key,
        storage_class,
        website_redirect,
        metadata: if replaces { Directive::Replace((headers, metadata)) } else { Directive::Copy },
        tags: match seen {
            _ if retags => Directive::Replace(tags),
            // Exactly these tags were allowed.
            Some(seen) => Directive::Replace(seen.tags),
            None => Directive::Copy,
        },
        checksums,
        lock,
        access,
        condition,
    };
    let copied = call.store.copy_object(copy).await.map_err(refuse_source)?;
    Ok(S3Response::new(answer(copied)))
}

fn answer(CopiedObject { object, source_version }: CopiedObject) -> CopyObjectOutput {
    let mut result = CopyObjectResult {
        e_tag: Some(etag(&object.etag)),
        last_modified: Some(time(object.modified)),
        ..CopyObjectResult::default()
    };
    checksum::fill!(result, &object.checksums, typed);
    CopyObjectOutput {
        copy_object_result: Some(result),
        copy_source_version_id: source_version,
        expiration: object.expiration.as_ref().and_then(lifecycle::header),
        version_id: version_made(object.version),
        ..CopyObjectOutput::default()
    }
}

/// Evaluates the conditions on the source now, and binds the copy to that object, which is also the one that the access
/// check saw.
pub(crate) async fn source_condition(call: &Call, source: &Source, reading: Reading) -> S3Result<Condition> {
    let mut condition = decided(call, source, reading).await?;
    if let Some(seen) = call.request.checked_source() {
        bind(&mut condition, &seen.etag)?;
    }
    Ok(condition)
}

async fn decided(call: &Call, source: &Source, reading: Reading) -> S3Result<Condition> {
    if reading.is_empty() {
        return Ok(Condition::default());
    }
    let (bucket, key, version) = (source.bucket.clone(), source.key.clone(), source.version.clone());
    call.blocking(move |store| {
        let object = store.head_object(&bucket, &key, version.as_deref()).map_err(refuse_source)?;
        reading.check_source(&object)?;
        Ok(Condition { if_match: Some(object.etag.into()), ..Condition::default() })
    })
    .await
}

/// Binds a copy to a source with this entity tag.
fn bind(condition: &mut Condition, etag: &str) -> S3Result<()> {
    if condition.if_match.get_or_insert_with(|| etag.to_owned().into()).name(etag) {
        return Ok(());
    }
    Err(refuse(S3ErrorCode::OperationAborted, "The source changed while it was copied; try again."))
}

/// Whether a directive replaces `what`, the metadata or the tags.
fn replaces(directive: Option<&str>, what: &str) -> S3Result<bool> {
    match directive {
        None | Some("COPY") => Ok(false),
        Some("REPLACE") => Ok(true),
        Some(other) => {
            let header = if what == "tagging" { "x-amz-tagging-directive" } else { "x-amz-metadata-directive" };
            Err(bad_argument(format!("Unknown {what} directive."), header, other))
        }
    }
}

fn replaces_tags(input: &CopyObjectInput) -> S3Result<bool> {
    replaces(input.tagging_directive.as_ref().map(TaggingDirective::as_str), "tagging")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_are_copy_or_replace() {
        assert!(!replaces(None, "x").unwrap());
        assert!(!replaces(Some("COPY"), "x").unwrap());
        assert!(replaces(Some("REPLACE"), "x").unwrap());
        assert_eq!(replaces(Some("KEEP"), "x").unwrap_err().code().as_str(), "InvalidArgument");
    }
}
