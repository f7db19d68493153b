//! Volumes that begin with the content of a bucket: the parameter `fromBucket` of a StorageClass.
//!
//! - The copy takes the same time for any content, and shares it until either side changes it.
//! - Who writes a class may not read every bucket of the store: one that this driver did not make needs an access key, whose
//!   account may read it, in the provisioner's Secret.
//! - A claim with a source of its own begins with that.

use std::collections::HashMap;

use objstore::name::BucketName;
use objstore::store::Source;
use objstore::{Error, Noun};
use tonic::Status;

use super::Controller;
use crate::{access, is_provisioned, status};

/// The parameter, and the attribute that keeps it, by which a repeated request is recognized.
pub(super) const FROM_BUCKET: &str = "fromBucket";
pub(super) const ATTRIBUTE: &str = "csi.fromBucket";

/// The bucket that a class names.
pub(super) fn of_class(parameters: &HashMap<String, String>) -> Result<Option<BucketName>, Status> {
    let name = parameters.get(FROM_BUCKET).map(|name| name.parse()).transpose();
    name.map_err(status::of)
}

impl Controller {
    /// The bucket or snapshot that a class names, as the source of a volume.
    pub(super) async fn template(
        &self,
        name: &BucketName,
        secrets: &HashMap<String, String>,
    ) -> Result<Source, Status> {
        let found = self.find(name).await?;
        let bucket = found.ok_or_else(|| status::of(Error::not_found(Noun::Bucket, name.as_str())))?;
        let source = match bucket.snapshot {
            true => Source::Snapshot(name.to_string()),
            false => Source::Bucket(name.clone()),
        };
        if is_provisioned(&bucket, &self.config.driver_name) {
            return Ok(source);
        }
        let (store, secrets) = (self.store.clone(), secrets.clone());
        let opened = tokio::task::spawn_blocking(move || access::for_publish(&store, &bucket, &secrets)).await;
        let opened = opened.map_err(|_| Status::internal("checking the access key failed; see the log"))??;
        opened.map(|_| source).ok_or_else(|| {
            Status::permission_denied(format!(
                "bucket \"{name}\" was not made by this driver: give the StorageClass a provisioner secret \
                 (csi.storage.k8s.io/provisioner-secret-name) with an S3 key that may read it"
            ))
        })
    }
}
