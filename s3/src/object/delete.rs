//! DeleteObject and DeleteObjects.

use objstore::name::Key;
use objstore::store::{DeleteObject, Deleted};
use s3s::dto::{
    DeleteObjectInput, DeleteObjectOutput, DeleteObjectsInput, DeleteObjectsOutput, DeletedObject, Error,
    ObjectIdentifier,
};
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result};

use crate::checksum::Claims;
use crate::error::{OrRefuse as _, from_store, not_offered, refuse};
use crate::service::Service;
use crate::{conditions, names, request};

/// Keys of one DeleteObjects.
const KEYS_MAX: usize = 1000;

/// Deletes an object; of what is absent nothing (S3 API, DeleteObject).
pub(crate) async fn one(
    service: &Service,
    request: S3Request<DeleteObjectInput>,
) -> S3Result<S3Response<DeleteObjectOutput>> {
    let input = request.input;
    if input.if_match_last_modified_time.is_some() || input.if_match_size.is_some() {
        return Err(not_offered("Deleting by time or size"));
    }
    let condition = conditions::writing(input.if_match, None)?;
    let (bucket, key) = (names::bucket(&input.bucket)?, names::key(&input.key)?);
    let delete = DeleteObject { version: input.version_id, condition, ..DeleteObject::new(key) };
    let deleted = service.store.delete_object(&bucket, delete).await.or_refuse()?;
    Ok(S3Response::new(DeleteObjectOutput {
        delete_marker: deleted.marker.then_some(true),
        version_id: deleted.version,
        ..DeleteObjectOutput::default()
    }))
}

/// Deletes up to 1,000 objects in one commit; each has its own answer (S3 API, DeleteObjects).
pub(crate) async fn many(
    service: &Service,
    request: S3Request<DeleteObjectsInput>,
) -> S3Result<S3Response<DeleteObjectsOutput>> {
    let sums = request::current()?.take_body_sums();
    let claims = Claims::from_headers(&request.headers)?;
    match sums {
        Some(sums) => claims.verify(&sums, None)?,
        None if claims.is_empty() => {}
        None => return Err(refuse(S3ErrorCode::InvalidRequest, "The body's checksum could not be checked.")),
    }
    let (bucket, delete) = (names::bucket(&request.input.bucket)?, request.input.delete);
    if delete.objects.is_empty() || delete.objects.len() > KEYS_MAX {
        return Err(refuse(S3ErrorCode::MalformedXML, format!("Name 1 to {KEYS_MAX} objects.")));
    }

    let mut output = DeleteObjectsOutput::default();
    let mut named = Vec::with_capacity(delete.objects.len());
    for object in &delete.objects {
        match parse(object) {
            Ok(key) => named.push((key, object.version_id.clone())),
            Err(error) => output.errors.get_or_insert_default().push(failed(object.key.clone(), None, &error)),
        }
    }
    let requests = named.iter().cloned().map(|(key, version)| DeleteObject { version, ..DeleteObject::new(key) });
    let answers = service.store.delete_objects(&bucket, requests.collect()).await.or_refuse()?;
    for ((key, version), answer) in named.into_iter().zip(answers) {
        match answer {
            Ok(_) if delete.quiet == Some(true) => {}
            Ok(deleted) => output.deleted.get_or_insert_default().push(done(&key, version, deleted)),
            Err(error) => {
                let error = failed(key.as_str().to_owned(), version, &from_store(error));
                output.errors.get_or_insert_default().push(error);
            }
        }
    }
    Ok(S3Response::new(output))
}

fn parse(object: &ObjectIdentifier) -> S3Result<Key> {
    if object.e_tag.is_some() || object.last_modified_time.is_some() || object.size.is_some() {
        return Err(not_offered("Deleting many objects under conditions"));
    }
    names::key(&object.key)
}

fn done(key: &Key, version: Option<String>, deleted: Deleted) -> DeletedObject {
    DeletedObject {
        key: Some(key.as_str().to_owned()),
        delete_marker: deleted.marker.then_some(true),
        delete_marker_version_id: if deleted.marker { deleted.version } else { None },
        version_id: version,
    }
}

fn failed(key: String, version: Option<String>, error: &S3Error) -> Error {
    Error {
        code: Some(error.code().as_str().to_owned()),
        key: Some(key),
        message: error.message().map(str::to_owned),
        version_id: version,
    }
}
