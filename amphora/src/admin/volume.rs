//! Volume operations of the admin service: buckets that CSI created or published, and those mounted for it here.

use std::collections::BTreeMap;

use objstore::Store;
use objstore::store::{Bucket, Publication};
use proto::amphora::admin::v1 as api;
use tonic::Status;

use super::Service;
use super::bucket::{all, live, name};
use crate::mounts::{MountPoint, Origin};

pub(super) async fn list(service: &Service) -> Result<api::ListVolumesResponse, Status> {
    let mounts = service.mounts.list();
    let volumes = service.blocking(move |store| {
        let mut publications: BTreeMap<String, Vec<Publication>> = BTreeMap::new();
        for publication in store.publications(None)? {
            publications.entry(publication.bucket.to_string()).or_default().push(publication);
        }
        let mut volumes = Vec::new();
        for bucket in all(store)? {
            let published = publications.remove(bucket.name.as_str()).unwrap_or_default();
            let here = mounts_of(&mounts, &bucket);
            let staged = here.iter().any(|point| point.origin == Origin::Csi);
            if bucket.owner == csi::OWNER || staged || !published.is_empty() {
                volumes.push(shown(store, &bucket, published, &here)?);
            }
        }
        Ok(volumes)
    });
    Ok(api::ListVolumesResponse { volumes: volumes.await? })
}

pub(super) async fn get(service: &Service, id: &str) -> Result<api::Volume, Status> {
    let (name, mounts) = (name(id)?, service.mounts.list());
    service
        .blocking(move |store| {
            let bucket = live(store, &name)?;
            let published = store.publications(Some(&name))?;
            shown(store, &bucket, published, &mounts_of(&mounts, &bucket))
        })
        .await
}

fn mounts_of(mounts: &[MountPoint], bucket: &Bucket) -> Vec<MountPoint> {
    mounts.iter().filter(|point| point.bucket == bucket.name).cloned().collect()
}

fn shown(
    store: &Store,
    bucket: &Bucket,
    published: Vec<Publication>,
    mounts: &[MountPoint],
) -> objstore::Result<api::Volume> {
    let usage = store.usage(&bucket.name)?;
    let publication = |publication: Publication| api::Publication {
        node: publication.node,
        target: None,
        readonly: publication.read_only,
    };
    Ok(api::Volume {
        id: bucket.name.to_string(),
        bucket: bucket.name.to_string(),
        capacity_bytes: bucket.quota_bytes,
        used_bytes: usage.bytes.saturating_add(usage.upload_bytes),
        publications: published.into_iter().map(publication).collect(),
        mounts: mounts.iter().map(super::mount::shown).collect(),
    })
}
