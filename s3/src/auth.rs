//! Secrets for the signature check.
//!
//! - Every request asks the store, so a revoked key fails from the next request on; nothing is cached.
//! - The same trip to the store looks up how the key's account stands to the bucket of the path; `access` decides on it
//!   once the signature was verified.

use std::sync::Arc;

use s3s::auth::{S3Auth, SecretKey};
use s3s::{S3ErrorCode, S3Result};

use crate::error::{OrRefuse as _, refuse};
use crate::request::{self, Caller};
use crate::service::Service;

/// The keys of the store.
pub(crate) struct Keys(pub(crate) Service);

#[async_trait::async_trait]
impl S3Auth for Keys {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        let request = request::current()?;
        let (id, bucket) = (access_key.to_owned(), request.bucket.clone());
        let standings = Arc::clone(&self.0.standings);
        let (caller, secret) = self
            .0
            .blocking(move |store| {
                let Some(identity) = store.identify(&id).or_refuse()? else {
                    return Err(refuse(
                        S3ErrorCode::InvalidAccessKeyId,
                        "The access key is not known, or was revoked.",
                    ));
                };
                let account = identity.account;
                let standing = bucket.map(|bucket| standings.read(store, Some(&account), &bucket));
                Ok((Caller { access_key: id, account, standing }, identity.secret))
            })
            .await?;
        request.set_caller(caller);
        Ok(SecretKey::from(secret.reveal()))
    }
}
