//! A bucket as a CSI volume: look-up and description. CSI v1.12, Volume and ControllerGetVolume.

use objstore::name::BucketName;
use objstore::store::{Bucket, Publication, Stats, Usage};
use objstore::{Error, Noun, Store};
use proto::csi::v1::controller_get_volume_response::VolumeStatus;
use proto::csi::v1::volume_content_source::{SnapshotSource, Type, VolumeSource};
use proto::csi::v1::{
    ControllerGetVolumeRequest, ControllerGetVolumeResponse, Volume, VolumeCondition, VolumeContentSource,
};
use tonic::Status;

use super::Controller;
use crate::Topology;
use crate::capacity::signed;
use crate::status::{no_such_volume, required};
use crate::{filling, health};

/// The attribute with the source that a volume was cloned from.
pub(super) const SOURCE: &str = "csi.source";
const SNAPSHOT: &str = "snapshot:";
const VOLUME: &str = "volume:";

impl Controller {
    /// The bucket or snapshot with this name, if it exists.
    pub(super) async fn find(&self, name: &BucketName) -> Result<Option<Bucket>, Status> {
        let name = name.clone();
        self.read(move |store| match store.bucket(&name) {
            Err(Error::NotFound { noun: Noun::Bucket | Noun::Snapshot, .. }) => Ok(None),
            found => found.map(Some),
        })
        .await
    }

    /// The volume with this id. An id that is not a valid bucket name cannot exist.
    pub(super) async fn existing(&self, id: &str) -> Result<Bucket, Status> {
        let name = required("volume_id", id)?.parse().map_err(|_| no_such_volume(id))?;
        self.find(&name).await?.ok_or_else(|| no_such_volume(id))
    }

    /// The volume with this id, if its first content is there.
    pub(super) async fn whole(&self, id: &str) -> Result<Bucket, Status> {
        let bucket = self.existing(id).await?;
        filling::refuse(&bucket).map(|()| bucket)
    }

    /// The publications of a volume; none if it does not exist.
    pub(super) async fn publications(&self, name: &BucketName) -> Result<Vec<Publication>, Status> {
        let name = name.clone();
        self.read(move |store| match store.publications(Some(&name)) {
            Err(Error::NotFound { .. }) => Ok(Vec::new()),
            found => found,
        })
        .await
    }

    /// CSI v1.12, ControllerGetVolume.
    pub(super) async fn get_volume(
        self,
        request: ControllerGetVolumeRequest,
    ) -> Result<ControllerGetVolumeResponse, Status> {
        let bucket = self.existing(&request.volume_id).await?;
        let publications = self.publications(&bucket.name).await?;
        let asked = bucket.clone();
        let volume_condition = self.read(move |store| condition(store, &asked, &store.stats())).await?;
        let published_node_ids = publications.into_iter().map(|publication| publication.node).collect();
        Ok(ControllerGetVolumeResponse {
            volume: Some(describe(&bucket, &self.config.topology)),
            status: Some(VolumeStatus { published_node_ids, volume_condition: Some(volume_condition) }),
        })
    }
}

/// The health of a volume; of one that was just deleted, that of the store.
pub(super) fn condition(store: &Store, bucket: &Bucket, stats: &Stats) -> objstore::Result<VolumeCondition> {
    let usage = match store.usage(&bucket.name) {
        Err(Error::NotFound { .. }) => Usage::default(),
        usage => usage?,
    };
    Ok(health::condition(health::fault(bucket, &usage, stats), "the store serves it"))
}

/// The bucket as a volume that can be used in `topology`.
pub(super) fn describe(bucket: &Bucket, topology: &Topology) -> Volume {
    Volume {
        capacity_bytes: signed(bucket.quota_bytes.unwrap_or(0)),
        volume_id: bucket.name.to_string(),
        content_source: bucket.attributes.get(SOURCE).and_then(|source| content_source(source)),
        accessible_topology: topology.wire().into_iter().collect(),
        ..Default::default()
    }
}

/// A content source in the form in which the bucket stores it.
pub(super) fn source_attribute(source: &Type) -> String {
    match source {
        Type::Snapshot(snapshot) => format!("{SNAPSHOT}{}", snapshot.snapshot_id),
        Type::Volume(volume) => format!("{VOLUME}{}", volume.volume_id),
    }
}

fn content_source(attribute: &str) -> Option<VolumeContentSource> {
    let snapshot = attribute.strip_prefix(SNAPSHOT).map(|id| Type::Snapshot(SnapshotSource { snapshot_id: id.into() }));
    let volume = || attribute.strip_prefix(VOLUME).map(|id| Type::Volume(VolumeSource { volume_id: id.into() }));
    Some(VolumeContentSource { r#type: Some(snapshot.or_else(volume)?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_sources_come_back_as_they_were_given() {
        let snapshot = Type::Snapshot(SnapshotSource { snapshot_id: "s:1".into() });
        let volume = Type::Volume(VolumeSource { volume_id: "v".into() });
        for source in [snapshot, volume] {
            assert_eq!(content_source(&source_attribute(&source)).unwrap().r#type, Some(source));
        }
        assert_eq!(content_source("elsewhere"), None);
    }
}
