//! DeleteObject and DeleteObjects.

use objstore::name::Key;
use objstore::store::{DeleteObject, Deleted};
use s3s::dto::{
    DeleteObjectInput, DeleteObjectOutput, DeleteObjectsInput, DeleteObjectsOutput, DeletedObject, Error,
    ObjectIdentifier,
};
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result};

use crate::error::{Failure, OrRefuse as _, from_store, refuse};
use crate::service::Service;
use crate::{access, body, conditions, lock, names, xml};

/// The most keys of one DeleteObjects.
const KEYS_MAX: usize = 1000;

/// Deletes an object; an absent one is no error (S3 API, DeleteObject).
pub(crate) async fn one(
    service: &Service,
    request: S3Request<DeleteObjectInput>,
) -> S3Result<S3Response<DeleteObjectOutput>> {
    let input = request.input;
    let condition = conditions::deleting(&request.headers, input.if_match_last_modified_time.as_ref())?;
    let (bucket, key) = (names::bucket(&input.bucket)?, names::key(&input.key)?);
    let bypass_governance =
        lock::may_bypass(service, input.bypass_governance_retention, key.as_str(), input.version_id.as_deref()).await?;
    let delete = DeleteObject { key, version: input.version_id, condition, bypass_governance };
    let deleted = service.store.delete_object(&bucket, delete).await.or_refuse()?;
    Ok(S3Response::new(DeleteObjectOutput {
        delete_marker: deleted.marker.then_some(true),
        version_id: deleted.version,
        ..DeleteObjectOutput::default()
    }))
}

/// Deletes up to 1,000 objects in one commit, with a result for each (S3 API, DeleteObjects).
pub(crate) async fn many(
    service: &Service,
    request: S3Request<DeleteObjectsInput>,
) -> S3Result<S3Response<DeleteObjectsOutput>> {
    body::prove(&request.headers)?;
    let (bucket, delete) = (names::bucket(&request.input.bucket)?, request.input.delete);
    if delete.objects.is_empty() || delete.objects.len() > KEYS_MAX {
        return Err(refuse(S3ErrorCode::MalformedXML, format!("Name 1 to {KEYS_MAX} objects.")));
    }

    let bypass = request.input.bypass_governance_retention;
    let mut output = DeleteObjectsOutput::default();
    let mut requests = Vec::with_capacity(delete.objects.len());
    for object in delete.objects {
        let (key, version) = (object.key.clone(), object.version_id.clone());
        match allowed(service, object, bypass).await {
            Ok(request) => requests.push(request),
            Err(error) => output.errors.get_or_insert_default().push(failed(&key, version, &error)),
        }
    }
    let named: Vec<_> = requests.iter().map(|request| (request.key.clone(), request.version.clone())).collect();
    let answers = service.store.delete_objects(&bucket, requests).await.or_refuse()?;
    for ((key, version), answer) in named.into_iter().zip(answers) {
        match answer {
            Ok(_) if delete.quiet == Some(true) => {}
            Ok(deleted) => output.deleted.get_or_insert_default().push(done(&key, version, deleted)),
            Err(error) => {
                let error = failed(key.as_str(), version, &from_store(error));
                output.errors.get_or_insert_default().push(error);
            }
        }
    }
    Ok(S3Response::new(output))
}

/// One key of many, if the caller may delete it.
async fn allowed(service: &Service, object: ObjectIdentifier, bypass: Option<bool>) -> S3Result<DeleteObject> {
    let request = parse(object)?;
    let (key, version) = (request.key.as_str(), request.version.as_deref());
    if !access::may_delete(service, key, version).await? {
        return Err(refuse(S3ErrorCode::AccessDenied, "You may not delete this key."));
    }
    let bypass_governance = lock::may_bypass(service, bypass, key, version).await?;
    Ok(DeleteObject { bypass_governance, ..request })
}

fn parse(object: ObjectIdentifier) -> S3Result<DeleteObject> {
    let condition =
        conditions::deleting_one_of_many(object.e_tag.as_ref(), object.last_modified_time.as_ref(), object.size)?;
    let key = names::key(&object.key)?;
    Ok(DeleteObject { version: object.version_id, condition, ..DeleteObject::new(key) })
}

fn done(key: &Key, version: Option<String>, deleted: Deleted) -> DeletedObject {
    DeletedObject {
        key: Some(xml::legible(key.as_str()).into_owned()),
        delete_marker: deleted.marker.then_some(true),
        delete_marker_version_id: if deleted.marker { deleted.version } else { None },
        version_id: version,
    }
}

fn failed(key: &str, version: Option<String>, error: &S3Error) -> Error {
    Error {
        code: Some(error.code().as_str().to_owned()),
        key: Some(xml::legible(key).into_owned()),
        message: Some(Failure::of(error).message),
        version_id: version,
    }
}
