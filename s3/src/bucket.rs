//! Operations on buckets.

pub(crate) mod acl;
pub(crate) mod logging;
pub(crate) mod ownership;
pub(crate) mod policy;
pub(crate) mod public_access;
pub(crate) mod tagging;
pub(crate) mod website;

use std::collections::BTreeMap;

use objstore::name::BucketName;
use objstore::store::{
    Account, Bucket, CreateBucket, Deletion, ObjectLock, Outcome, RootAttributes, SetBucket, Settings, Versioning,
};
use objstore::{Error, Noun, Store};
use s3s::dto::{self, *};
use s3s::{S3ErrorCode, S3Request, S3Response, S3Result};

use crate::acl::{Setting, check_first};
use crate::error::{Detail as _, OrRefuse as _, bad_argument, from_store, not_offered, refuse};
use crate::response::{person, time};
use crate::service::{Call, Service};
use crate::tagging::{Of, from_set};
use crate::{names, token, xml};

/// The most buckets on one page (S3 API, ListBuckets).
const PAGE_MAX: i32 = 10_000;
/// Number of buckets read from the store at a time while searching those that the caller may see.
const STEP: usize = 1_000;
/// The region in which creating one's own bucket again is no error (S3 API, CreateBucket).
const LENIENT_REGION: &str = "us-east-1";

/// Lists the buckets to which the caller has any access (S3 API, ListBuckets).
pub(crate) async fn list(call: &Call, request: S3Request<ListBucketsInput>) -> S3Result<S3Response<ListBucketsOutput>> {
    let input = request.input;
    let account = call.request.account()?.clone();
    let limit = match input.max_buckets {
        None => usize::MAX,
        Some(max @ 1..=PAGE_MAX) => usize::try_from(max).unwrap_or(1),
        Some(max) => {
            let words = format!("Argument max-buckets must be an integer between 1 and {PAGE_MAX}.");
            return Err(bad_argument(words, "max-buckets", max));
        }
    };
    let after = input.continuation_token.as_deref().map(token::decode).transpose()?;
    let prefix = input.prefix.clone().unwrap_or_default();
    let owner = account.name.clone();
    let elsewhere = input.bucket_region.as_ref().is_some_and(|region| **region != *call.region);
    let (found, next) = match elsewhere {
        true => (Vec::new(), None),
        false => call.blocking(move |store| visible(store, &account, &prefix, after, limit)).await?,
    };
    let buckets = found.into_iter().map(|bucket| dto::Bucket {
        name: Some(bucket.name.as_str().to_owned()),
        creation_date: Some(time(bucket.created)),
        bucket_region: Some(call.region.to_string()),
        ..dto::Bucket::default()
    });
    Ok(S3Response::new(ListBucketsOutput {
        buckets: Some(buckets.collect()),
        continuation_token: next.as_deref().map(token::encode),
        owner: Some(person(&owner)),
        prefix: input.prefix.map(xml::shown),
    }))
}

/// The next `limit` buckets after `after` that the account may see, and the start of the following page.
fn visible(
    store: &Store,
    account: &Account,
    prefix: &str,
    mut after: Option<String>,
    limit: usize,
) -> S3Result<(Vec<Bucket>, Option<String>)> {
    let mut found: Vec<Bucket> = Vec::new();
    loop {
        let step = store.buckets(after.as_deref(), STEP).or_refuse()?;
        let Some(last) = step.last() else { return Ok((found, None)) };
        after = Some(last.name.as_str().to_owned());
        for bucket in step {
            if !bucket.name.as_str().starts_with(prefix) || !may_see(store, account, &bucket)? {
                continue;
            }
            if found.len() == limit {
                let next = found.last().map(|bucket| bucket.name.as_str().to_owned());
                return Ok((found, next));
            }
            found.push(bucket);
        }
    }
}

/// Whether the account has any access to a bucket, which may have been deleted since it was listed.
fn may_see(store: &Store, account: &Account, bucket: &Bucket) -> S3Result<bool> {
    match store.access(account, &bucket.name) {
        Ok(mode) => Ok(mode.is_some()),
        Err(Error::NotFound { .. }) => Ok(false),
        Err(error) => Err(from_store(error)),
    }
}

/// Creates a bucket owned by the caller, with its first settings in the same transaction (S3 API, CreateBucket).
pub(crate) async fn create(
    call: &Call,
    request: S3Request<CreateBucketInput>,
) -> S3Result<S3Response<CreateBucketOutput>> {
    call.request.prove(&request.headers)?;
    let input = request.input;
    let name = names::bucket(&input.bucket)?;
    let account = call.request.account()?.clone();
    let (ownership, asked) = check_first(&request.headers)?;
    let acl = acl::of_new(call, asked, ownership.unwrap_or(Setting::Enforced), account.id).await?;
    let ownership = ownership.map(Setting::kept);
    let settings = Settings { ownership, acl, ..first_settings(call, input)? };
    let create = CreateBucket {
        name: name.clone(),
        owner: account.name.clone(),
        quota_bytes: None,
        versioning: if settings.object_lock.is_some() { Versioning::Enabled } else { Versioning::Disabled },
        source: None,
        attributes: BTreeMap::new(),
        root: RootAttributes::default(),
    };
    match call.store.create_bucket_with(create, settings).await {
        Ok((_, Outcome::Made)) => {}
        Ok((_, Outcome::Found)) => already_owned(call)?,
        Err(Error::Exists { noun: Noun::Bucket, .. }) => {
            let (name, owner) = (name.clone(), account.name);
            let mine = call.blocking(move |store| Ok(owned_by(store, &name, &owner))).await?;
            if !mine {
                return Err(refuse(
                    S3ErrorCode::BucketAlreadyExists,
                    "The bucket exists and belongs to another account.",
                ));
            }
            already_owned(call)?;
        }
        Err(error) => return Err(from_store(error)),
    }
    Ok(S3Response::new(CreateBucketOutput { location: Some(format!("/{name}")), ..CreateBucketOutput::default() }))
}

/// The settings of a new bucket apart from ownership and ACL: object lock and tags.
fn first_settings(service: &Service, input: CreateBucketInput) -> S3Result<Settings> {
    let tags = match input.create_bucket_configuration {
        Some(configuration) => {
            check_configuration(service, &configuration)?;
            from_set(configuration.tags.unwrap_or_default(), Of::Bucket)?
        }
        None => BTreeMap::new(),
    };
    let object_lock = (input.object_lock_enabled_for_bucket == Some(true)).then_some(ObjectLock { default: None });
    Ok(Settings { tags, object_lock, ..Settings::default() })
}

fn check_configuration(service: &Service, configuration: &CreateBucketConfiguration) -> S3Result<()> {
    if configuration.bucket.is_some() || configuration.location.is_some() {
        return Err(not_offered("A directory bucket"));
    }
    match &configuration.location_constraint {
        Some(place) if !place.as_str().is_empty() && place.as_str() != &*service.region => Err(refuse(
            S3ErrorCode::InvalidLocationConstraint,
            format!("Buckets are in the region {} here, not in {}.", service.region, place.as_str()),
        )
        .with("LocationConstraint", place.as_str())),
        _ => Ok(()),
    }
}

fn owned_by(store: &Store, name: &BucketName, owner: &str) -> bool {
    store.bucket(name).is_ok_and(|bucket| bucket.owner == owner && !bucket.snapshot)
}

fn already_owned(service: &Service) -> S3Result<()> {
    if &*service.region == LENIENT_REGION {
        return Ok(());
    }
    Err(refuse(S3ErrorCode::BucketAlreadyOwnedByYou, "The bucket exists and is yours."))
}

/// Answers whether a bucket exists (S3 API, HeadBucket).
pub(crate) async fn head(
    service: &Service,
    request: S3Request<HeadBucketInput>,
) -> S3Result<S3Response<HeadBucketOutput>> {
    find(service, &request.input.bucket).await?;
    Ok(S3Response::new(HeadBucketOutput {
        bucket_region: Some(service.region.to_string()),
        access_point_alias: Some(false),
        ..HeadBucketOutput::default()
    }))
}

/// Deletes an empty bucket (S3 API, DeleteBucket).
pub(crate) async fn delete(
    service: &Service,
    request: S3Request<DeleteBucketInput>,
) -> S3Result<S3Response<DeleteBucketOutput>> {
    let name = names::bucket(&request.input.bucket)?;
    service.store.delete_bucket(&name, Deletion::IfNoObjects).await.or_refuse()?;
    Ok(S3Response::new(DeleteBucketOutput::default()))
}

/// Answers the region; for us-east-1 the answer is empty, as on AWS (S3 API, GetBucketLocation).
pub(crate) async fn location(
    service: &Service,
    request: S3Request<GetBucketLocationInput>,
) -> S3Result<S3Response<GetBucketLocationOutput>> {
    find(service, &request.input.bucket).await?;
    let place =
        (&*service.region != LENIENT_REGION).then(|| BucketLocationConstraint::from(service.region.to_string()));
    Ok(S3Response::new(GetBucketLocationOutput { location_constraint: place }))
}

/// Answers the versioning state (S3 API, GetBucketVersioning).
pub(crate) async fn versioning(
    service: &Service,
    request: S3Request<GetBucketVersioningInput>,
) -> S3Result<S3Response<GetBucketVersioningOutput>> {
    let status = match find(service, &request.input.bucket).await?.versioning {
        Versioning::Disabled => None,
        Versioning::Enabled => Some(BucketVersioningStatus::ENABLED),
        Versioning::Suspended => Some(BucketVersioningStatus::SUSPENDED),
    };
    let status = status.map(BucketVersioningStatus::from_static);
    Ok(S3Response::new(GetBucketVersioningOutput { status, ..GetBucketVersioningOutput::default() }))
}

/// Enables or suspends versioning (S3 API, PutBucketVersioning).
pub(crate) async fn set_versioning(
    call: &Call,
    request: S3Request<PutBucketVersioningInput>,
) -> S3Result<S3Response<PutBucketVersioningOutput>> {
    call.request.prove(&request.headers)?;
    let name = names::bucket(&request.input.bucket)?;
    let configuration = request.input.versioning_configuration;
    if configuration.mfa_delete.as_ref().is_some_and(|mfa| mfa.as_str() == MFADelete::ENABLED) {
        return Err(not_offered("MFA delete"));
    }
    let versioning = match configuration.status.as_ref().map(BucketVersioningStatus::as_str) {
        Some(BucketVersioningStatus::ENABLED) => Versioning::Enabled,
        Some(BucketVersioningStatus::SUSPENDED) => Versioning::Suspended,
        _ => return Err(refuse(S3ErrorCode::MalformedXML, "Status is Enabled or Suspended.")),
    };
    let set = SetBucket { versioning: Some(versioning), ..SetBucket::default() };
    call.store.set_bucket(&name, set).await.or_refuse()?;
    Ok(S3Response::new(PutBucketVersioningOutput::default()))
}

async fn find(service: &Service, name: &str) -> S3Result<Bucket> {
    let name = names::bucket(name)?;
    service.blocking(move |store| store.bucket(&name).or_refuse()).await
}
