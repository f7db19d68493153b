//! Volumes that begin with the content of a bucket: the parameters `fromBucket` and `fromPrefix` of a StorageClass.
//!
//! - The copy of a bucket takes the same time for any content. That of a folder of it takes time for each object. Both share the
//!   content until either side changes it.
//! - Who writes a class may not read every bucket of the store: one that this driver did not make needs an access key, whose
//!   account may read it as a whole, in the provisioner's Secret. The key is checked again for each page of a long copy.
//! - A claim with a source of its own begins with that.
//!
//! A crash leaves a bucket with a mark (`filling.rs`) and a part of its content: CreateVolume is repeated, and continues. A
//! call that fails for good deletes the bucket.

use std::collections::HashMap;

use objstore::name::{BucketName, Key};
use objstore::store::{Bucket, Fill, List, Source};
use objstore::{Error, Noun, Result};
use tonic::Status;

use super::Controller;
use crate::{access, filling, is_provisioned, status};

/// The parameter with the bucket.
pub(super) const FROM_BUCKET: &str = "fromBucket";
/// The parameter with the folder of the bucket.
pub(super) const FROM_PREFIX: &str = "fromPrefix";
/// The attribute that keeps the bucket, by which a repeated request is recognized.
pub(super) const ATTRIBUTE: &str = "csi.fromBucket";
/// The attribute that keeps the folder.
pub(super) const PREFIX_ATTRIBUTE: &str = "csi.fromPrefix";

/// The most characters of a refused folder that an error repeats.
const SHOWN_CHARS_MAX: usize = 64;

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
    let wrong = |why| {
        let shown: String = given.chars().take(SHOWN_CHARS_MAX).collect();
        Error::invalid(FROM_PREFIX, shown, why)
    };
    if !folder.split('/').all(objstore::name::mountable) {
        return Err(wrong("use the names of folders with \"/\" between them"));
    }
    let key: Key =
        format!("{folder}/").parse().map_err(|_| wrong("no key begins with it: it is too long, or has a NUL byte"))?;
    Ok(key.to_string())
}

/// The bucket or snapshot that a class names, when the key in the Secret may read it.
pub(super) struct Found {
    pub(super) source: Source,
    /// Its id: another one of its name may belong to another account.
    pub(super) id: u64,
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
    /// The bucket or snapshot that a class names.
    pub(super) async fn template(
        &self,
        template: &Template,
        secrets: &HashMap<String, String>,
    ) -> std::result::Result<Found, Status> {
        let name = &template.bucket;
        let found = self.find(name).await?;
        let bucket = found.ok_or_else(|| status::of(Error::not_found(Noun::Bucket, name.as_str())))?;
        filling::refuse(&bucket)?;
        let source = match bucket.snapshot {
            true => Source::Snapshot(name.to_string()),
            false => Source::Bucket(name.clone()),
        };
        let id = bucket.id;
        if !is_provisioned(&bucket, &self.config.driver_name) {
            self.check_key(bucket, secrets).await?;
        }
        Ok(Found { source, id })
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
    pub(super) async fn check_folder(&self, bucket: &BucketName, prefix: &str) -> std::result::Result<(), Status> {
        let list = List { prefix: prefix.to_owned(), limit: 1, ..List::default() };
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
        let Some(template) = template.filter(|_| volume.attributes.contains_key(filling::MARK)) else { return Ok(()) };
        match self.copy(volume, template, secrets).await {
            Err(failed) if !status::may_exist(&failed) => Err(self.undo(volume, failed).await),
            copied => copied,
        }
    }

    async fn copy(
        &self,
        volume: &Bucket,
        template: &Template,
        secrets: &HashMap<String, String>,
    ) -> std::result::Result<(), Status> {
        loop {
            // While a long copy runs, the rights of the key may be taken away, and the bucket may be replaced.
            let found = self.template(template, secrets).await?;
            let page = Fill {
                bucket: volume.name.clone(),
                id: volume.id,
                source: template.bucket.clone(),
                source_id: found.id,
                prefix: template.prefix.clone().unwrap_or_default(),
                attribute: filling::MARK.to_owned(),
            };
            if !self.store.fill_page(page).await.map_err(unfit)? {
                return Ok(());
            }
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
        let long = "long/".repeat(300);
        for bad in ["", "/", "a//b", "a/../b", ".", "a\0b", long.as_str()] {
            let error = parse(&[("fromBucket", "golden"), ("fromPrefix", bad)]).unwrap_err().to_string();
            assert!(error.contains("fromPrefix"), "{error}");
        }
        assert!(parse(&[("fromPrefix", "a")]).unwrap_err().to_string().contains("fromBucket"));
    }
}
