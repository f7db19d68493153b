//! UploadPart, UploadPartCopy and ListParts.

use objstore::store::{CopyPart, PartInfo, PutPart, UploadRef};
use s3s::dto::*;
use s3s::{S3Request, S3Response, S3Result};

use crate::body::{Body, receive};
use crate::checksum::{self, Algorithm, Claims, Digest, Plan};
use crate::error::{OrRefuse as _, bad_argument};
use crate::object::copy::{reading, source_condition};
use crate::response::{etag, initiator, length, person, time};
use crate::service::{Call, Service};
use crate::{listing, names, storage_class};

/// Stores a part (S3 API, UploadPart).
pub(crate) async fn put(
    service: &Service,
    request: S3Request<UploadPartInput>,
) -> S3Result<S3Response<UploadPartOutput>> {
    let mut input = request.input;
    let upload = names::upload(&input.bucket, &input.key, input.upload_id)?;
    let number = names::part_number(input.part_number)?;
    // A missing upload is reported before the body is received.
    let plan = plan_of(service, &upload).await?;
    let body = Body {
        stream: input.body.take(),
        length: input.content_length,
        claims: Claims::from_headers(&request.headers)?.for_part(plan.map(|plan| plan.algorithm))?,
        trailers: request.trailing_headers,
    };
    let received = receive(&service.store, body).await?;
    let put = PutPart {
        upload,
        number,
        content: received.content,
        etag: received.sums.etag(),
        checksums: received.sums.checksum.into_iter().collect(),
    };
    let part = service.store.put_part(put).await.or_refuse()?;

    let mut output = UploadPartOutput { e_tag: Some(etag(&part.etag)), ..UploadPartOutput::default() };
    checksum::fill!(output, &part.checksums);
    Ok(S3Response::new(output))
}

/// The checksum plan of an upload.
async fn plan_of(service: &Service, upload: &UploadRef) -> S3Result<Option<Plan>> {
    let upload = upload.clone();
    let known = service.blocking(move |store| store.upload(&upload).or_refuse()).await?;
    Ok(Plan::from_record(known.checksum_algorithm.as_deref()))
}

/// Creates a part from a range of an object, by reference (S3 API, UploadPartCopy).
pub(crate) async fn copy(
    call: &Call,
    request: S3Request<UploadPartCopyInput>,
) -> S3Result<S3Response<UploadPartCopyOutput>> {
    let mut input = request.input;
    let source = names::source(&input.copy_source)?;
    let range = input.copy_source_range.as_deref().map(parse_range).transpose()?;
    let reading = reading!(input, &request.headers)?;
    let upload = names::upload(&input.bucket, &input.key, input.upload_id)?;
    let number = names::part_number(input.part_number)?;
    let plan = plan_of(call, &upload).await?;
    let source_condition = source_condition(call, &source, reading).await?;
    let copied_version = source.version.clone();
    let copy = CopyPart {
        upload,
        number,
        source_bucket: source.bucket,
        source_key: source.key,
        source_version: source.version,
        source_condition,
        range,
    };
    // The bytes are read for the entity tag anyway, so the part gets a checksum as an uploaded one does.
    let digest = Digest::new(Some(plan.map_or(Algorithm::DEFAULT, |plan| plan.algorithm)));
    let part = call.store.copy_part(copy, Box::new(digest)).await.or_refuse()?;

    let mut result = CopyPartResult {
        e_tag: Some(etag(&part.etag)),
        last_modified: Some(time(part.modified)),
        ..CopyPartResult::default()
    };
    checksum::fill!(result, &part.checksums);
    Ok(S3Response::new(UploadPartCopyOutput {
        copy_part_result: Some(result),
        copy_source_version_id: copied_version,
        ..UploadPartCopyOutput::default()
    }))
}

/// Lists the parts of an upload (S3 API, ListParts).
pub(crate) async fn list(
    service: &Service,
    request: S3Request<ListPartsInput>,
) -> S3Result<S3Response<ListPartsOutput>> {
    let input = request.input;
    let upload = names::upload(&input.bucket, &input.key, input.upload_id)?;
    let limit = listing::page(input.max_parts, "max-parts")?;
    let marker = input.part_number_marker.unwrap_or(0);
    let after = u32::try_from(marker).map_err(|_| listing::out_of_range("part-number-marker", marker))?;
    let id = upload.id.clone();
    let (owner, listing) = service
        .blocking(move |store| {
            let owner = store.bucket(&upload.bucket).or_refuse()?.owner;
            // The store returns at least one part per page, so that listings progress; here none were requested.
            let mut listing = store.parts(&upload, after, limit.max(1)).or_refuse()?;
            if limit == 0 {
                (listing.parts, listing.next) = (Vec::new(), None);
            }
            Ok((owner, listing))
        })
        .await?;
    let plan = Plan::from_record(listing.upload.checksum_algorithm.as_deref());
    let last = listing.parts.last().and_then(|part| i32::try_from(part.number).ok());
    Ok(S3Response::new(ListPartsOutput {
        bucket: Some(input.bucket),
        checksum_algorithm: plan.map(|plan| ChecksumAlgorithm::from_static(plan.algorithm.name())),
        checksum_type: plan.map(Plan::kind),
        initiator: Some(initiator(listing.upload.initiator)),
        is_truncated: Some(listing.next.is_some()),
        key: Some(input.key),
        max_parts: i32::try_from(limit).ok(),
        next_part_number_marker: Some(last.unwrap_or(0)),
        owner: Some(person(&owner)),
        part_number_marker: Some(marker),
        parts: Some(listing.parts.iter().map(entry).collect()),
        storage_class: Some(storage_class::name(listing.upload.storage_class.as_ref()).to_owned().into()),
        upload_id: Some(id),
        ..ListPartsOutput::default()
    }))
}

fn entry(part: &PartInfo) -> Part {
    let mut entry = Part {
        e_tag: Some(etag(&part.etag)),
        last_modified: Some(time(part.modified)),
        part_number: i32::try_from(part.number).ok(),
        size: Some(length(part.size)),
        ..Part::default()
    };
    checksum::fill!(entry, &part.checksums);
    entry
}

/// `x-amz-copy-source-range`: `bytes=first-last`, both named (S3 API, UploadPartCopy).
fn parse_range(range: &str) -> S3Result<(u64, u64)> {
    match s3s::dto::Range::parse(range) {
        Ok(s3s::dto::Range::Int { first, last: Some(last) }) => Ok((first, last - first + 1)),
        _ => Err(bad_argument(
            "The x-amz-copy-source-range value must be of the form bytes=first-last where first and last are the \
             zero-based offsets of the first and last bytes to copy",
            "x-amz-copy-source-range",
            range,
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copied_ranges_name_both_ends() {
        assert_eq!(parse_range("bytes=0-0").unwrap(), (0, 1));
        assert_eq!(parse_range("bytes=5-9").unwrap(), (5, 5));
        for bad in ["bytes=5-", "bytes=-5", "bytes=9-5", "5-9", "bytes=0-1,3-4", ""] {
            assert!(parse_range(bad).is_err(), "{bad}");
        }
    }
}
