//! Bucket operations of the admin service.

use std::collections::BTreeMap;

use objstore::name::BucketName;
use objstore::store::{
    Bucket, CreateBucket, Deletion, Logging, Outcome, RootAttributes, SetBucket, Source, Versioning, Website,
};
use objstore::{Error, Noun, Store};
use proto::amphora::admin::v1 as api;
use tonic::Status;

use super::{Service, refused};

/// Number of buckets read at a time.
const PAGE: usize = 1000;

pub(super) async fn create(service: &Service, request: api::CreateBucketRequest) -> Result<api::Bucket, Status> {
    let versioning = match request.versioning.as_str() {
        "" | "off" => Versioning::Disabled,
        "enabled" => Versioning::Enabled,
        other => {
            return Err(Status::invalid_argument(format!("versioning \"{other}\" is not valid: use off or enabled")));
        }
    };
    let owner = match request.owner_account {
        name if name.is_empty() => service.root_account.clone(),
        name => service.blocking(move |store| store.account(&name)).await?.name,
    };
    let create = CreateBucket {
        name: name(&request.name)?,
        owner,
        quota_bytes: request.quota_bytes,
        versioning,
        source: Some(request.from_snapshot).filter(|name| !name.is_empty()).map(Source::Snapshot),
        attributes: BTreeMap::new(),
        root: RootAttributes::default(),
    };
    match service.store.create_bucket(create).await.map_err(|error| refused(&error))? {
        (bucket, Outcome::Made) => service.blocking(|store| shown(store, bucket)).await,
        (bucket, Outcome::Found) => Err(taken(Noun::Bucket, bucket.name.as_str())),
    }
}

pub(super) async fn list(service: &Service) -> Result<api::ListBucketsResponse, Status> {
    let all = service.blocking(|store| all(store)?.into_iter().map(|bucket| shown(store, bucket)).collect());
    Ok(api::ListBucketsResponse { buckets: all.await? })
}

pub(super) async fn get(service: &Service, text: &str) -> Result<api::Bucket, Status> {
    let name = name(text)?;
    service.blocking(move |store| shown(store, live(store, &name)?)).await
}

pub(super) async fn set(service: &Service, request: &api::SetBucketRequest) -> Result<api::Bucket, Status> {
    let name = name(&request.name)?;
    let quota_bytes = match (request.quota_bytes, request.clear_quota) {
        (Some(_), true) => return Err(Status::invalid_argument("quota_bytes and clear_quota exclude each other")),
        (Some(bytes), false) => Some(Some(bytes)),
        (None, true) => Some(None),
        (None, false) => None,
    };
    let versioning = match request.versioning.as_str() {
        "" => None,
        "enabled" => Some(Versioning::Enabled),
        "suspended" => Some(Versioning::Suspended),
        other => {
            let advice = "use enabled or suspended";
            return Err(Status::invalid_argument(format!("versioning \"{other}\" is not valid: {advice}")));
        }
    };
    let set = SetBucket { quota_bytes, versioning, attributes: BTreeMap::new() };
    let bucket = service.store.set_bucket(&name, set).await.map_err(|error| refused(&error))?;
    service.blocking(|store| shown(store, bucket)).await
}

pub(super) async fn delete(
    service: &Service,
    request: &api::DeleteBucketRequest,
) -> Result<api::DeleteBucketResponse, Status> {
    let name = name(&request.name)?;
    if let Some(dir) = service.mounts.dirs_of(&name).first() {
        let dir = dir.display();
        let text = format!("bucket \"{name}\" is mounted at {dir}: unmount it first (`amphora umount {dir}`)");
        return Err(Status::failed_precondition(text));
    }
    let how = if request.force { Deletion::Force } else { Deletion::IfEmpty };
    service.store.delete_bucket(&name, how).await.map_err(|error| match error {
        Error::NotEmpty { name, what } => Status::failed_precondition(format!(
            "bucket \"{name}\" is not empty: it holds {what}; delete them first, or all of it with --force"
        )),
        error => refused(&error),
    })?;
    Ok(api::DeleteBucketResponse {})
}

/// Parses a bucket name.
pub(super) fn name(text: &str) -> Result<BucketName, Status> {
    text.parse().map_err(|error| refused(&error))
}

/// The error for an existing name. Only the Kubernetes interfaces treat an identical request as success.
pub(super) fn taken(noun: Noun, name: &str) -> Status {
    Status::already_exists(format!("{noun} \"{name}\" already exists"))
}

/// All buckets, by name.
pub(super) fn all(store: &Store) -> objstore::Result<Vec<Bucket>> {
    let mut all: Vec<Bucket> = Vec::new();
    loop {
        let after = all.last().map(|bucket| bucket.name.as_str().to_owned());
        let page = store.buckets(after.as_deref(), PAGE)?;
        let end = page.len() < PAGE;
        all.extend(page);
        if end {
            return Ok(all);
        }
    }
}

/// The bucket with this name; a snapshot is an error.
pub(super) fn live(store: &Store, name: &BucketName) -> objstore::Result<Bucket> {
    let bucket = store.bucket(name)?;
    if bucket.snapshot { Err(Error::not_found(Noun::Bucket, name.as_str())) } else { Ok(bucket) }
}

/// Where an access log is delivered.
fn access_log(logging: &Logging) -> String {
    format!("{}/{}", logging.target, logging.prefix)
}

/// What a website does.
fn website(website: &Website) -> &'static str {
    if website.redirect_all.is_some() { "redirect" } else { "index" }
}

fn shown(store: &Store, bucket: Bucket) -> objstore::Result<api::Bucket> {
    let (usage, settings) = (store.usage(&bucket.name)?, store.settings(&bucket.name)?.settings);
    let versioning = match bucket.versioning {
        Versioning::Disabled => "off",
        Versioning::Enabled => "enabled",
        Versioning::Suspended => "suspended",
    };
    Ok(api::Bucket {
        name: bucket.name.to_string(),
        quota_bytes: bucket.quota_bytes,
        used_bytes: usage.bytes.saturating_add(usage.upload_bytes),
        inode_count: usage.inodes,
        object_count: usage.objects,
        hidden_key_count: usage.hidden,
        versioning: versioning.into(),
        owner: bucket.owner,
        created_unix_ms: bucket.created.millis(),
        from_snapshot: bucket.source.unwrap_or_default(),
        website: settings.website.as_ref().map(website).unwrap_or_default().into(),
        access_log: settings.logging.as_ref().map(access_log).unwrap_or_default(),
    })
}
