//! Volumes that begin with the content of a bucket: the parameters `fromBucket` and `fromPrefix` of a StorageClass.
//!
//! - The copy of a bucket takes the same time for any content. That of a folder of it takes time for each object. Both share the
//!   content until either side changes it.
//! - Who writes a class may not read every bucket of the store: one that this driver did not make needs an access key, whose
//!   account may read it as a whole, in the provisioner's Secret.
//! - A claim with a source of its own begins with that.
//! - A volume is in use only when it is whole. An attribute marks one that is not.
//!
//! A crash leaves a bucket with the mark and a part of its content: CreateVolume is repeated, and continues. A call that
//! fails for good deletes the bucket.

use std::collections::HashMap;

use objstore::name::BucketName;
use objstore::store::{Bucket, Fill, List, Source};
use objstore::{Error, Noun, Result};
use tonic::Status;

use super::Controller;
use crate::{access, is_provisioned, status};

/// The parameter with the bucket.
pub(super) const FROM_BUCKET: &str = "fromBucket";
/// The parameter with the folder of the bucket.
pub(super) const FROM_PREFIX: &str = "fromPrefix";
/// The attribute that keeps the bucket, by which a repeated request is recognized.
pub(super) const ATTRIBUTE: &str = "csi.fromBucket";
/// The attribute that keeps the folder.
pub(super) const PREFIX_ATTRIBUTE: &str = "csi.fromPrefix";
/// The attribute of a volume that is not yet whole: the key that was copied last.
pub(super) const PROGRESS: &str = "csi.filling";

/// What a class says that volumes begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template {
    pub(super) bucket: BucketName,
    /// The folder, with `/` at its end; the whole bucket without one.
    pub(super) prefix: Option<String>,
}

impl Template {
    /// Parses the parameters of a class.
    pub(super) fn parse(parameters: &HashMap<String, String>) -> Result<Option<Self>> {
        let prefix = parameters.get(FROM_PREFIX).map(|given| folder(given)).transpose()?;
        let Some(bucket) = parameters.get(FROM_BUCKET) else {
            return match parameters.get(FROM_PREFIX) {
                None => Ok(None),
                Some(given) => Err(Error::invalid(FROM_PREFIX, given, "name the bucket as well, with fromBucket")),
            };
        };
        Ok(Some(Self { bucket: bucket.parse()?, prefix }))
    }

    /// The attributes to store with the volume.
    pub(super) fn attributes(&self) -> impl Iterator<Item = (String, String)> {
        let prefix = self.prefix.clone().map(|prefix| (PREFIX_ATTRIBUTE.to_owned(), prefix));
        [(ATTRIBUTE.to_owned(), self.bucket.to_string())].into_iter().chain(prefix)
    }
}

/// A folder with `/` at its end. `a`, `/a` and `a/` are the same one.
fn folder(given: &str) -> Result<String> {
    let folder = given.trim_matches('/');
    match folder.split('/').all(objstore::name::mountable) {
        true => Ok(format!("{folder}/")),
        false => Err(Error::invalid(FROM_PREFIX, given, "use the names of folders with \"/\" between them")),
    }
}

/// Refuses the use of a volume whose first content is not yet there.
pub(super) fn whole(bucket: &Bucket) -> std::result::Result<(), Status> {
    match bucket.attributes.contains_key(PROGRESS) {
        false => Ok(()),
        true => Err(Status::failed_precondition(format!(
            "the content of volume \"{}\" is still being copied; repeat its CreateVolume until that succeeds",
            bucket.name
        ))),
    }
}

/// The status for an error at the creation of a volume with content.
pub(super) fn unfit(error: Error) -> Status {
    match error {
        Error::QuotaExceeded { limit_bytes, used_bytes, asked_bytes, .. } => {
            let bytes = used_bytes.saturating_add(asked_bytes);
            Status::out_of_range(format!(
                "a volume of {limit_bytes} bytes is too small for the {bytes} bytes of its source, or more; request a larger one"
            ))
        }
        error => status::of(error),
    }
}

impl Controller {
    /// The bucket or snapshot that a class names, as the source of a volume.
    pub(super) async fn template(
        &self,
        template: &Template,
        secrets: &HashMap<String, String>,
    ) -> std::result::Result<Source, Status> {
        let name = &template.bucket;
        let found = self.find(name).await?;
        let bucket = found.ok_or_else(|| status::of(Error::not_found(Noun::Bucket, name.as_str())))?;
        whole(&bucket)?;
        let source = match bucket.snapshot {
            true => Source::Snapshot(name.to_string()),
            false => Source::Bucket(name.clone()),
        };
        if !is_provisioned(&bucket, &self.config.driver_name) {
            self.check_key(bucket, secrets).await?;
        }
        self.check_folder(template).await?;
        Ok(source)
    }

    /// Checks that the key in a Secret may read a bucket that the driver did not make.
    async fn check_key(&self, bucket: Bucket, secrets: &HashMap<String, String>) -> std::result::Result<(), Status> {
        let (store, secrets, name) = (self.store.clone(), secrets.clone(), bucket.name.clone());
        let opened = tokio::task::spawn_blocking(move || access::for_publish(&store, &bucket, &secrets)).await;
        let opened = opened.map_err(|_| Status::internal("checking the access key failed; see the log"))??;
        opened.map(drop).ok_or_else(|| {
            Status::permission_denied(format!(
                "bucket \"{name}\" was not made by this driver: give the StorageClass a provisioner secret \
                 (csi.storage.k8s.io/provisioner-secret-name) with an S3 key that may read it"
            ))
        })
    }

    /// Refuses a folder without an object, which is more likely misspelled than empty.
    async fn check_folder(&self, template: &Template) -> std::result::Result<(), Status> {
        let Template { bucket, prefix: Some(prefix) } = template.clone() else { return Ok(()) };
        let list = List { prefix: prefix.clone(), limit: 1, ..List::default() };
        let name = bucket.clone();
        let found = self.read(move |store| store.list_objects(&name, &list)).await?;
        match found.objects.is_empty() {
            false => Ok(()),
            true => Err(Status::not_found(format!("bucket \"{bucket}\" has no object below the prefix \"{prefix}\""))),
        }
    }

    /// Copies what a volume begins with, or what is missing of it; if that fails for good, the volume is deleted.
    pub(super) async fn fill(
        &self,
        volume: &Bucket,
        template: Option<&Template>,
        secrets: &HashMap<String, String>,
    ) -> std::result::Result<(), Status> {
        let Some((template, prefix)) = template.and_then(|template| Some((template, template.prefix.clone()?))) else {
            return Ok(());
        };
        if !volume.attributes.contains_key(PROGRESS) {
            return Ok(());
        }
        // The key may have lost its rights since the volume was begun.
        if let Err(refused) = self.template(template, secrets).await {
            return Err(self.undo(volume, refused).await);
        }
        let fill = Fill {
            bucket: volume.name.clone(),
            id: volume.id,
            source: template.bucket.clone(),
            prefix,
            progress: PROGRESS.to_owned(),
        };
        match self.store.fill_bucket(fill).await {
            Ok(()) => Ok(()),
            Err(error @ Error::Busy { .. }) => Err(status::of(error)),
            Err(error) => Err(self.undo(volume, unfit(error)).await),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<Option<Template>> {
        Template::parse(&pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn a_folder_is_named_with_its_bucket() {
        assert_eq!(parse(&[]).unwrap(), None);
        let whole = parse(&[("fromBucket", "golden")]).unwrap().unwrap();
        assert_eq!((whole.bucket.as_str(), whole.prefix), ("golden", None));
        for prefix in ["models/2026", "/models/2026", "models/2026/"] {
            let folder = parse(&[("fromBucket", "golden"), ("fromPrefix", prefix)]).unwrap().unwrap();
            assert_eq!(folder.prefix.as_deref(), Some("models/2026/"));
        }
        for bad in ["", "/", "a//b", "a/../b", "."] {
            let error = parse(&[("fromBucket", "golden"), ("fromPrefix", bad)]).unwrap_err().to_string();
            assert!(error.contains("fromPrefix"), "{error}");
        }
        assert!(parse(&[("fromPrefix", "a")]).unwrap_err().to_string().contains("fromBucket"));
    }
}
