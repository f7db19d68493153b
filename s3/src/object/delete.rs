//! DeleteObject and DeleteObjects.
//!
//! - The answer of DeleteObjects is written here: `s3s` has no element for the hint of a key that is refused.

use std::io::Write;

use bytes::Bytes;
use objstore::name::Key;
use objstore::store::{DeleteObject, Deleted};
use s3s::dto::{
    DeleteObjectInput, DeleteObjectOutput, DeleteObjectsInput, DeleteObjectsOutput, DeletedObject, ObjectIdentifier,
};
use s3s::xml::{SerResult, SerializeContent, Serializer};
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result};

use crate::error::{Failure, OrRefuse as _, from_store, internal, refuse};
use crate::service::Call;
use crate::xml::{self, Document, NAMESPACE};
use crate::{access, conditions, lock, names};

/// The most keys of one DeleteObjects.
const KEYS_MAX: usize = 1000;

/// Deletes an object; an absent one is no error (S3 API, DeleteObject).
pub(crate) async fn one(
    call: &Call,
    request: S3Request<DeleteObjectInput>,
) -> S3Result<S3Response<DeleteObjectOutput>> {
    let input = request.input;
    let condition = conditions::deleting(&request.headers, input.if_match_last_modified_time.as_ref())?;
    let (bucket, key) = (names::bucket(&input.bucket)?, names::key(&input.key)?);
    let bypass_governance =
        lock::may_bypass(call, input.bypass_governance_retention, key.as_str(), input.version_id.as_deref()).await?;
    let delete = DeleteObject { key, version: input.version_id, condition, bypass_governance };
    let deleted = call.store.delete_object(&bucket, delete).await.or_refuse()?;
    Ok(S3Response::new(DeleteObjectOutput {
        delete_marker: deleted.marker.then_some(true),
        version_id: deleted.version,
        ..DeleteObjectOutput::default()
    }))
}

/// Deletes up to 1,000 objects in one commit, with a result for each (S3 API, DeleteObjects).
pub(crate) async fn many(
    call: &Call,
    request: S3Request<DeleteObjectsInput>,
) -> S3Result<S3Response<DeleteObjectsOutput>> {
    call.request.prove(&request.headers)?;
    let (bucket, delete) = (names::bucket(&request.input.bucket)?, request.input.delete);
    if delete.objects.is_empty() || delete.objects.len() > KEYS_MAX {
        return Err(refuse(S3ErrorCode::MalformedXML, format!("Name 1 to {KEYS_MAX} objects.")));
    }

    let bypass = request.input.bypass_governance_retention;
    let (mut done, mut refused) = (Vec::new(), Vec::new());
    let mut requests = Vec::with_capacity(delete.objects.len());
    for object in delete.objects {
        let (key, version) = (object.key.clone(), object.version_id.clone());
        match allowed(call, object, bypass).await {
            Ok(request) => requests.push(request),
            Err(error) => refused.push(Refused::new(&key, version, &error)),
        }
    }
    let named: Vec<_> = requests.iter().map(|request| (request.key.clone(), request.version.clone())).collect();
    let answers = call.store.delete_objects(&bucket, requests).await.or_refuse()?;
    for ((key, version), answer) in named.into_iter().zip(answers) {
        match answer {
            Ok(_) if delete.quiet == Some(true) => {}
            Ok(deleted) => done.push(told(&key, version, deleted)),
            Err(error) => refused.push(Refused::new(key.as_str(), version, &from_store(error))),
        }
    }
    let document = document(&done, &refused).map_err(|error| internal(&error))?;
    let mut response = S3Response::new(DeleteObjectsOutput::default());
    response.extensions.insert(Document(Bytes::from(document)));
    Ok(response)
}

/// The XML of an answer.
fn document(done: &[DeletedObject], refused: &[Refused]) -> SerResult<Vec<u8>> {
    let mut bytes = Vec::with_capacity(256 * (done.len() + refused.len() + 1));
    let mut writer = Serializer::new(&mut bytes);
    writer.decl()?;
    writer.element_with_ns("DeleteResult", NAMESPACE, |writer| {
        done.iter().try_for_each(|deleted| writer.content("Deleted", deleted))?;
        refused.iter().try_for_each(|refused| writer.content("Error", refused))
    })?;
    Ok(bytes)
}

/// One key of many, if the caller may delete it.
async fn allowed(call: &Call, object: ObjectIdentifier, bypass: Option<bool>) -> S3Result<DeleteObject> {
    let request = parse(object)?;
    let (key, version) = (request.key.as_str(), request.version.as_deref());
    if !access::may_delete(call, key, version).await? {
        return Err(refuse(S3ErrorCode::AccessDenied, "You may not delete this key."));
    }
    let bypass_governance = lock::may_bypass(call, bypass, key, version).await?;
    Ok(DeleteObject { bypass_governance, ..request })
}

fn parse(object: ObjectIdentifier) -> S3Result<DeleteObject> {
    let condition =
        conditions::deleting_one_of_many(object.e_tag.as_ref(), object.last_modified_time.as_ref(), object.size)?;
    let key = names::key(&object.key)?;
    Ok(DeleteObject { version: object.version_id, condition, ..DeleteObject::new(key) })
}

fn told(key: &Key, version: Option<String>, deleted: Deleted) -> DeletedObject {
    DeletedObject {
        key: Some(xml::legible(key.as_str()).into_owned()),
        delete_marker: deleted.marker.then_some(true),
        delete_marker_version_id: if deleted.marker { deleted.version } else { None },
        version_id: version,
    }
}

/// A key that was not deleted, and why.
struct Refused {
    key: String,
    version: Option<String>,
    failure: Failure,
}

impl Refused {
    fn new(key: &str, version: Option<String>, error: &S3Error) -> Self {
        Self { key: xml::legible(key).into_owned(), version, failure: Failure::of(error) }
    }
}

impl SerializeContent for Refused {
    fn serialize_content<W: Write>(&self, writer: &mut Serializer<W>) -> SerResult {
        writer.content("Code", &self.failure.code)?;
        writer.content("Key", &self.key)?;
        writer.content("Message", &self.failure.message)?;
        if let Some(hint) = self.failure.hint() {
            writer.content("Hint", hint)?;
        }
        if let Some(version) = &self.version {
            writer.content("VersionId", version)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_key_is_told_with_its_hint() {
        let deleted = DeletedObject { key: Some("a".into()), ..DeletedObject::default() };
        let error = refuse(S3ErrorCode::AccessDenied, "Ask <root>.");
        let refused = [Refused::new("b&\u{1}", Some("7".into()), &error)];
        let written = String::from_utf8(document(&[deleted], &refused).unwrap()).unwrap();
        let (_, body) = written.split_once("?>").unwrap();
        assert_eq!(
            body.trim(),
            "<DeleteResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Deleted><Key>a</Key></Deleted><Error>\
             <Code>AccessDenied</Code><Key>b&amp;\u{fffd}</Key><Message>Access Denied</Message>\
             <Hint>Ask &lt;root&gt;.</Hint><VersionId>7</VersionId></Error></DeleteResult>"
        );
    }
}
