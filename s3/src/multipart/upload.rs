//! CreateMultipartUpload, AbortMultipartUpload and ListMultipartUploads.

use objstore::Store;
use objstore::store::{CreateUpload, List, UploadInfo};
use s3s::dto::*;
use s3s::{S3ErrorCode, S3Request, S3Response, S3Result};

use crate::acl::{ListHeaders, Of};
use crate::checksum::Plan;
use crate::error::{OrRefuse as _, refuse};
use crate::listing::{self, Encoding, given, marker};
use crate::object::acl::of_new;
use crate::response::{initiator, person, time};
use crate::service::{Call, Service};
use crate::{attributes, conditions, lock, names, storage_class, xml};

/// Creates an upload (S3 API, CreateMultipartUpload).
pub(crate) async fn create(
    call: &Call,
    request: S3Request<CreateMultipartUploadInput>,
) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
    let mut input = request.input;
    let (bucket, key) = (names::bucket(&input.bucket)?, names::key(&input.key)?);
    if !xml::carries(&input.key) {
        // Every response about an upload contains its key.
        let words = "The key holds a control character, which XML cannot carry: use PutObject.";
        return Err(refuse(S3ErrorCode::InvalidArgument, words));
    }
    let plan = Plan::new(
        input.checksum_algorithm.as_ref().map(ChecksumAlgorithm::as_str),
        input.checksum_type.as_ref().map(ChecksumType::as_str),
    )?;
    let lock = lock::asked!(input)?;
    let access = of_new(call, ListHeaders::of(&request.headers, Of::Object)?).await?;
    let attributes = attributes::take!(input)?;
    let create = CreateUpload {
        bucket,
        key,
        headers: attributes.headers,
        metadata: attributes.metadata,
        tags: attributes.tags,
        lock,
        access,
        checksum_algorithm: plan.map(Plan::to_record),
        initiator: call.request.caller_name().to_owned(),
    };
    let upload = call.store.create_upload(create).await.or_refuse()?;
    Ok(S3Response::new(CreateMultipartUploadOutput {
        bucket: Some(input.bucket),
        key: Some(input.key),
        upload_id: Some(upload.id),
        checksum_algorithm: plan.map(|plan| ChecksumAlgorithm::from_static(plan.algorithm.name())),
        checksum_type: plan.map(Plan::kind),
        ..CreateMultipartUploadOutput::default()
    }))
}

/// Aborts an upload and deletes its parts (S3 API, AbortMultipartUpload).
pub(crate) async fn abort(
    service: &Service,
    request: S3Request<AbortMultipartUploadInput>,
) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
    let input = request.input;
    let upload = names::upload(&input.bucket, &input.key, input.upload_id)?;
    let (initiated, headers, asked) = (input.if_match_initiated_time, request.headers, upload.clone());
    if headers.contains_key(conditions::IF_INITIATED) {
        let check = move |store: &Store| {
            let found = store.upload(&asked).or_refuse()?;
            conditions::check_abort(&headers, initiated.as_ref(), found.created)
        };
        service.blocking(check).await?;
    }
    service.store.abort_upload(&upload).await.or_refuse()?;
    Ok(S3Response::new(AbortMultipartUploadOutput::default()))
}

/// Lists uploads in progress (S3 API, ListMultipartUploads).
pub(crate) async fn list(
    service: &Service,
    request: S3Request<ListMultipartUploadsInput>,
) -> S3Result<S3Response<ListMultipartUploadsOutput>> {
    let input = request.input;
    let encoding = Encoding::new(input.encoding_type.as_ref())?;
    let bucket = names::bucket(&input.bucket)?;
    let limit = listing::page(input.max_uploads, "max-uploads")?;
    let list = List {
        prefix: input.prefix.clone().unwrap_or_default(),
        delimiter: given(input.delimiter.as_ref()),
        after: marker::given(input.key_marker.as_ref()),
        limit,
    };
    // Without a key marker an upload-id marker is ignored (S3 API, ListMultipartUploads).
    let after_id = given(input.upload_id_marker.as_ref()).filter(|_| list.after.is_some());
    let (listing, owner) = service
        .blocking(move |store| {
            let owner = store.bucket(&bucket).or_refuse()?.owner;
            let listing = if limit == 0 {
                Default::default()
            } else {
                store.uploads(&bucket, &list, after_id.as_deref()).or_refuse()?
            };
            Ok((listing, owner))
        })
        .await?;
    let uploads = listing.uploads.into_iter().map(|upload| entry(upload, encoding, &owner)).collect();
    let (next_key, next_id) = listing.next.map_or((None, None), |(key, id)| (Some(key), Some(id)));
    Ok(S3Response::new(ListMultipartUploadsOutput {
        bucket: Some(input.bucket),
        common_prefixes: listing::prefixes(&listing.prefixes, encoding),
        delimiter: encoding.apply_to(input.delimiter.as_ref()),
        encoding_type: input.encoding_type,
        is_truncated: Some(next_key.is_some()),
        key_marker: Some(encoding.apply(input.key_marker.as_deref().unwrap_or_default())),
        max_uploads: i32::try_from(limit).ok(),
        next_key_marker: next_key.map(|key| marker::written(&key, encoding)),
        next_upload_id_marker: next_id,
        prefix: Some(encoding.apply(input.prefix.as_deref().unwrap_or_default())),
        request_charged: None,
        upload_id_marker: Some(xml::shown(input.upload_id_marker.unwrap_or_default())),
        uploads: Some(uploads),
    }))
}

fn entry(upload: UploadInfo, encoding: Encoding, owner: &str) -> MultipartUpload {
    let plan = Plan::from_record(upload.checksum_algorithm.as_deref());
    MultipartUpload {
        checksum_algorithm: plan.map(|plan| ChecksumAlgorithm::from_static(plan.algorithm.name())),
        checksum_type: plan.map(Plan::kind),
        initiated: Some(time(upload.created)),
        initiator: Some(initiator(upload.initiator)),
        key: Some(encoding.apply(&upload.key)),
        owner: Some(person(owner)),
        storage_class: Some(storage_class::name(upload.storage_class.as_ref()).to_owned().into()),
        upload_id: Some(upload.id),
    }
}
