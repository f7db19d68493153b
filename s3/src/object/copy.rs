//! CopyObject.

use objstore::store::{Condition, CopyObject, Directive, Lock};
use s3s::dto::{CopyObjectInput, CopyObjectOutput, CopyObjectResult, MetadataDirective, TaggingDirective};
use s3s::{S3ErrorCode, S3Request, S3Response, S3Result};

use super::{etag, time};
use crate::attributes::{self, Attributes};
use crate::checksum;
use crate::conditions::{self, Reading};
use crate::error::{OrRefuse as _, refuse};
use crate::names::{self, Source};
use crate::service::Service;

/// The conditions on the source in the input of CopyObject or UploadPartCopy.
macro_rules! reading {
    ($input:expr) => {
        $crate::conditions::Reading {
            if_match: $input.copy_source_if_match.take(),
            if_none_match: $input.copy_source_if_none_match.take(),
            modified_since: $input.copy_source_if_modified_since.take(),
            unmodified_since: $input.copy_source_if_unmodified_since.take(),
        }
    };
}
pub(crate) use reading;

/// Copies an object by reference; its bytes do not move (S3 API, CopyObject).
pub(crate) async fn copy(
    service: &Service,
    request: S3Request<CopyObjectInput>,
) -> S3Result<S3Response<CopyObjectOutput>> {
    let mut input = request.input;
    let source = names::source(&input.copy_source)?;
    let (bucket, key) = (names::bucket(&input.bucket)?, names::key(&input.key)?);
    let condition = conditions::writing(input.if_match.take(), input.if_none_match.take())?;
    let reading = reading!(input);
    let replaces =
        replaces(input.metadata_directive.as_ref().map(MetadataDirective::as_str), "x-amz-metadata-directive")?;
    let retags = replaces_tags(&input)?;
    let Attributes { headers, metadata, tags } = attributes::take!(input)?;
    let onto_itself = (&source.bucket, &source.key) == (&bucket, &key) && source.version.is_none();
    if onto_itself && !replaces && !retags {
        return Err(refuse(
            S3ErrorCode::InvalidRequest,
            "A copy of an object onto itself has to replace its metadata or tags.",
        ));
    }

    let source_condition = source_condition(service, &source, reading).await?;
    let copied_version = source.version.clone();
    let copy = CopyObject {
        source_bucket: source.bucket,
        source_key: source.key,
        source_version: source.version,
        source_condition,
        bucket,
        key,
        metadata: if replaces { Directive::Replace((headers, metadata)) } else { Directive::Copy },
        tags: if retags { Directive::Replace(tags) } else { Directive::Copy },
        lock: Lock::default(),
        condition,
    };
    let object = service.store.copy_object(copy).await.or_refuse()?;

    let mut result = CopyObjectResult {
        e_tag: Some(etag(&object.etag)),
        last_modified: Some(time(object.modified)),
        ..CopyObjectResult::default()
    };
    checksum::fill!(result, &object.checksums, typed);
    Ok(S3Response::new(CopyObjectOutput {
        copy_object_result: Some(result),
        copy_source_version_id: copied_version,
        version_id: object.version,
        ..CopyObjectOutput::default()
    }))
}

/// Decides the conditions on the source now, and binds the copy to the object they were decided on.
pub(crate) async fn source_condition(service: &Service, source: &Source, reading: Reading) -> S3Result<Condition> {
    if reading.is_empty() {
        return Ok(Condition::default());
    }
    let (bucket, key, version) = (source.bucket.clone(), source.key.clone(), source.version.clone());
    service
        .blocking(move |store| {
            let object = store.head_object(&bucket, &key, version.as_deref()).or_refuse()?;
            reading.check_source(&object)?;
            Ok(Condition { if_match: Some(object.etag), ..Condition::default() })
        })
        .await
}

fn replaces(directive: Option<&str>, header: &str) -> S3Result<bool> {
    match directive {
        None | Some("COPY") => Ok(false),
        Some("REPLACE") => Ok(true),
        Some(_) => Err(refuse(S3ErrorCode::InvalidArgument, format!("{header} is COPY or REPLACE."))),
    }
}

fn replaces_tags(input: &CopyObjectInput) -> S3Result<bool> {
    replaces(input.tagging_directive.as_ref().map(TaggingDirective::as_str), "x-amz-tagging-directive")
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
