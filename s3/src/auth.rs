//! Secret keys for the signature check.
//!
//! - A request with a session token is of a session, and its access key means nothing without that token.
//! - A revoked key fails from the next request on: cached callers (`authorization::Callers`) are dropped with the change.
//! - The same look-up reads the account's access to the bucket of the path; `access` decides on it once the signature
//!   is verified.

use std::sync::Arc;

use objstore::Store;
use objstore::clock::{Clock as _, SystemClock};
use objstore::name::BucketName;
use objstore::store::{SESSION_KEY_PREFIX, Secret, SessionFault};
use s3s::auth::{S3Auth, SecretKey};
use s3s::{S3Error, S3ErrorCode, S3Result};

use crate::authorization::{CachedCaller, Caller, Reader, Session};
use crate::error::{Detail as _, OrRefuse as _, refuse};
use crate::service::Call;

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
    let CachedCaller { caller, secret } = request.noted(find(call, access_key).await)?;
    request.set_caller(caller);
    Ok(SecretKey::from(secret.reveal()))
}

async fn find(call: &Call, access_key: &str) -> S3Result<CachedCaller> {
    let (service, bucket, token) = (&call.service, &call.request.bucket, call.request.session_token());
    let epoch = service.store.access_epoch();
    if let Some(known) = epoch.and_then(|epoch| service.callers.get(epoch, access_key, bucket))
        && is_proven(&known.caller, token)
    {
        return Ok(known);
    }
    let (id, wanted, reader) = (access_key.to_owned(), bucket.clone(), Arc::clone(&service.bucket_access));
    let token = token.cloned();
    let known = service.blocking(move |store| look_up(store, (id, token), wanted.as_ref(), &reader)).await?;
    let whole = known.caller.bucket_access.as_ref().is_none_or(Result::is_ok);
    if let Some(epoch) = epoch.filter(|_| whole) {
        service.callers.put(epoch, bucket.clone(), known.clone());
    }
    Ok(known)
}

/// Whether a cached caller is the one of a request with this token: a session that has not expired, or none of both.
fn is_proven(caller: &Caller, token: Option<&Secret>) -> bool {
    match (&caller.session, token) {
        (None, None) => true,
        (Some(session), Some(token)) => session.is_proven_by(token) && !session.is_over(SystemClock.now()),
        _ => false,
    }
}

fn look_up(
    store: &Store,
    (id, token): (String, Option<Secret>),
    bucket: Option<&BucketName>,
    reader: &Reader,
) -> S3Result<CachedCaller> {
    let (account, secret, session) = match token {
        None => {
            let identity = store.identify(&id).or_refuse()?.ok_or_else(|| unknown(&id))?;
            (identity.account, identity.secret, None)
        }
        Some(token) => {
            let found = store.role_session(&id, token.reveal()).or_refuse()?.map_err(refuse_token)?;
            let session = Session::of(&found, token).ok_or_else(|| refuse_token(SessionFault::Invalid))?;
            (found.account, found.secret, Some(Arc::new(session)))
        }
    };
    let bucket_access = bucket.map(|bucket| reader.read(store, (Some(&account), session.as_deref()), bucket));
    Ok(CachedCaller { caller: Arc::new(Caller { access_key: id, account, session, bucket_access }), secret })
}

fn unknown(id: &str) -> S3Error {
    let hint = match id.starts_with(SESSION_KEY_PREFIX) {
        true => "The access key is of a session: send its session token too (x-amz-security-token).",
        false => "The access key does not exist or was revoked.",
    };
    refuse(S3ErrorCode::InvalidAccessKeyId, hint).with("AWSAccessKeyId", id)
}

fn refuse_token(fault: SessionFault) -> S3Error {
    match fault {
        SessionFault::Expired => {
            refuse(S3ErrorCode::ExpiredToken, "The session has expired: get new credentials from STS.")
        }
        SessionFault::Invalid => refuse(
            S3ErrorCode::InvalidToken,
            "The session token is not of this access key, or its role was deleted, or the master key was rotated.",
        ),
    }
}
