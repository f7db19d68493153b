//! Secret keys for the signature check.
//!
//! - A revoked key fails from the next request on: cached callers (`authorization::Callers`) are dropped with the change.
//! - The same look-up reads the account's access to the bucket of the path; `access` decides on it once the signature
//!   is verified.

use std::sync::Arc;

use objstore::Store;
use objstore::name::BucketName;
use s3s::auth::{S3Auth, SecretKey};
use s3s::{S3ErrorCode, S3Result};

use crate::authorization::{CachedCaller, Caller, Reader};
use crate::error::{Detail as _, OrRefuse as _, refuse};
use crate::service::{Call, Service};

/// The keys of the store, for one request.
pub(crate) struct Keys(pub(crate) Call);

#[async_trait::async_trait]
impl S3Auth for Keys {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        secret_key(&self.0, access_key).await
    }
}

/// The secret of an access key, whose owner becomes the caller of the request.
pub(crate) async fn secret_key(call: &Call, access_key: &str) -> S3Result<SecretKey> {
    let request = &call.request;
    let CachedCaller { caller, secret } = request.noted(find(call, access_key, &request.bucket).await)?;
    request.set_caller(caller);
    Ok(SecretKey::from(secret.reveal()))
}

async fn find(service: &Service, access_key: &str, bucket: &Option<BucketName>) -> S3Result<CachedCaller> {
    let epoch = service.store.access_epoch();
    if let Some(known) = epoch.and_then(|epoch| service.callers.get(epoch, access_key, bucket)) {
        return Ok(known);
    }
    let (id, wanted, reader) = (access_key.to_owned(), bucket.clone(), Arc::clone(&service.bucket_access));
    let known = service.blocking(move |store| look_up(store, id, wanted.as_ref(), &reader)).await?;
    let whole = known.caller.bucket_access.as_ref().is_none_or(Result::is_ok);
    if let Some(epoch) = epoch.filter(|_| whole) {
        service.callers.put(epoch, bucket.clone(), known.clone());
    }
    Ok(known)
}

fn look_up(store: &Store, id: String, bucket: Option<&BucketName>, reader: &Reader) -> S3Result<CachedCaller> {
    let Some(identity) = store.identify(&id).or_refuse()? else {
        let error = refuse(S3ErrorCode::InvalidAccessKeyId, "The access key does not exist or was revoked.");
        return Err(error.with("AWSAccessKeyId", id));
    };
    let account = identity.account;
    let bucket_access = bucket.map(|bucket| reader.read(store, Some(&account), bucket));
    Ok(CachedCaller { caller: Arc::new(Caller { access_key: id, account, bucket_access }), secret: identity.secret })
}
