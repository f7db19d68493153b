//! Snapshots. CSI v1.12, CreateSnapshot, DeleteSnapshot, ListSnapshots and GetSnapshot.
//!
//! - A snapshot's id is its name in the store; it is ready as soon as it is created.
//! - Only snapshots created by this driver are deleted. A snapshot's record names its creator; earlier versions did not
//!   record it and named their snapshots `snapshot-` and the UID of a VolumeSnapshot, so these count as the driver's.

use std::collections::HashMap;

use objstore::clock::Timestamp;
use objstore::name::is_uuid;
use objstore::store::{Creator, SnapshotInfo};
use objstore::{Error, Noun};
use proto::csi::v1::list_snapshots_response::Entry;
use proto::csi::v1::{
    CreateSnapshotRequest, CreateSnapshotResponse, DeleteSnapshotRequest, DeleteSnapshotResponse, GetSnapshotRequest,
    GetSnapshotResponse, ListSnapshotsRequest, ListSnapshotsResponse, Snapshot,
};
use tonic::Status;

use super::Controller;
use super::list::Page;
use crate::capacity::signed;
use crate::{status, volume_id};

/// The prefix of keys that the sidecars add.
const SIDECAR_PREFIX: &str = "csi.storage.k8s.io/";
/// The prefix before the UID of a VolumeSnapshot in names by the external-snapshotter.
const SNAPSHOTTER_PREFIX: &str = "snapshot-";

impl Controller {
    pub(super) async fn create_snapshot(
        self,
        request: CreateSnapshotRequest,
    ) -> Result<CreateSnapshotResponse, Status> {
        let name = volume_id::for_snapshot(&request.name)?;
        status::required("source_volume_id", &request.source_volume_id)?;
        refuse_parameters(&request.parameters, "VolumeSnapshotClass")?;
        let _guard = self.locks.hold(name.as_str())?;
        let bucket = self.whole(&request.source_volume_id).await?;
        let taken = self.store.create_snapshot_as(&bucket.name, &name, Creator::Csi).await;
        let (snapshot, _) = taken.map_err(status::of)?;
        if !is_taken_here(&snapshot) {
            let (name, why) = (name.to_string(), "this driver did not take it".to_owned());
            return Err(status::of(Error::Exists { noun: Noun::Snapshot, name, why }));
        }
        Ok(CreateSnapshotResponse { snapshot: Some(describe(&snapshot)) })
    }

    pub(super) async fn delete_snapshot(
        self,
        request: DeleteSnapshotRequest,
    ) -> Result<DeleteSnapshotResponse, Status> {
        let id = status::required("snapshot_id", &request.snapshot_id)?;
        let _guard = self.locks.hold(id)?;
        let gone = Ok(DeleteSnapshotResponse {});
        let Some(snapshot) = self.find_snapshot(id).await? else { return gone };
        if !is_taken_here(&snapshot) {
            return Err(Status::failed_precondition(format!(
                "snapshot \"{id}\" was not taken by this driver; delete it with `amphora snapshot delete`, or keep it with \
                 the deletionPolicy Retain"
            )));
        }
        if let Some(group) = &snapshot.group {
            // CSI v1.12, DeleteSnapshot: the code of a snapshot that is part of a group.
            return Err(Status::invalid_argument(format!(
                "snapshot \"{id}\" belongs to the group snapshot \"{group}\"; delete that with DeleteVolumeGroupSnapshot \
                 (in Kubernetes: delete the VolumeGroupSnapshot)"
            )));
        }
        match self.store.delete_unused_snapshot(id).await {
            Ok(()) | Err(Error::NotFound { .. }) => gone,
            Err(error) => Err(status::of(error)),
        }
    }

    pub(super) async fn list_snapshots(self, request: ListSnapshotsRequest) -> Result<ListSnapshotsResponse, Status> {
        let page = Page::parse(request.max_entries, &request.starting_token)?;
        let mut snapshots = match request.snapshot_id.as_str() {
            "" => self.snapshots_of(&request.source_volume_id, &page).await?,
            id => self.find_snapshot(id).await?.into_iter().collect(),
        };
        let source = request.source_volume_id;
        snapshots.retain(|snapshot| source.is_empty() || snapshot.bucket.as_str() == source);
        let next_token = page.cut(&mut snapshots, |snapshot| &snapshot.name);
        let entries = snapshots.iter().map(|snapshot| Entry { snapshot: Some(describe(snapshot)) }).collect();
        Ok(ListSnapshotsResponse { entries, next_token })
    }

    pub(super) async fn get_snapshot(self, request: GetSnapshotRequest) -> Result<GetSnapshotResponse, Status> {
        let id = status::required("snapshot_id", &request.snapshot_id)?;
        match self.find_snapshot(id).await? {
            Some(snapshot) => Ok(GetSnapshotResponse { snapshot: Some(describe(&snapshot)) }),
            None => Err(status::of(Error::not_found(Noun::Snapshot, id))),
        }
    }

    pub(super) async fn find_snapshot(&self, id: &str) -> Result<Option<SnapshotInfo>, Status> {
        let id = id.to_owned();
        self.read(move |store| match store.snapshot(&id) {
            Err(Error::NotFound { .. } | Error::Invalid { .. }) => Ok(None),
            found => found.map(Some),
        })
        .await
    }

    /// The snapshots of a volume, or all; one more than the page holds.
    async fn snapshots_of(&self, volume_id: &str, page: &Page) -> Result<Vec<SnapshotInfo>, Status> {
        let bucket = match volume_id {
            "" => None,
            id => match id.parse() {
                Ok(name) => Some(name),
                Err(_) => return Ok(Vec::new()),
            },
        };
        let (after, limit) = (page.after.clone(), page.limit + 1);
        self.read(move |store| match store.snapshots(bucket.as_ref(), after.as_deref(), limit) {
            Err(Error::NotFound { .. }) => Ok(Vec::new()),
            found => found,
        })
        .await
    }
}

/// Refuses parameters of a class of snapshots, except those that the sidecars add.
pub(super) fn refuse_parameters(given: &HashMap<String, String>, class: &str) -> Result<(), Status> {
    match given.keys().find(|key| !key.starts_with(SIDECAR_PREFIX)) {
        Some(key) => Err(status::of(Error::invalid("parameter", key, format!("a {class} has no parameters here")))),
        None => Ok(()),
    }
}

/// Whether this driver created the snapshot.
pub(super) fn is_taken_here(snapshot: &SnapshotInfo) -> bool {
    match snapshot.creator {
        Creator::Csi => true,
        Creator::Unrecorded => snapshot.name.strip_prefix(SNAPSHOTTER_PREFIX).is_some_and(is_uuid),
        Creator::Administrator | Creator::Cosi => false,
    }
}

pub(super) fn describe(snapshot: &SnapshotInfo) -> Snapshot {
    Snapshot {
        size_bytes: signed(snapshot.size_bytes),
        snapshot_id: snapshot.name.clone(),
        source_volume_id: snapshot.bucket.to_string(),
        creation_time: Some(timestamp(snapshot.created)),
        ready_to_use: true,
        group_snapshot_id: snapshot.group.clone().unwrap_or_default(),
    }
}

pub(super) fn timestamp(at: Timestamp) -> prost_types::Timestamp {
    let (seconds, nanos) = at.parts();
    prost_types::Timestamp { seconds, nanos: i32::try_from(nanos).unwrap_or(0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(name: &str, creator: Creator) -> SnapshotInfo {
        let (name, bucket) = (name.to_owned(), "b-1".parse().unwrap());
        SnapshotInfo { name, id: 1, bucket, bucket_id: 1, created: Timestamp(0), size_bytes: 0, creator, group: None }
    }

    #[test]
    fn snapshots_are_told_by_their_record_and_those_of_older_builds_by_the_whole_name() {
        let uid = "snapshot-0a1b2c3d-1111-2222-3333-444455556666";
        assert!(is_taken_here(&snapshot("any", Creator::Csi)));
        assert!(is_taken_here(&snapshot(uid, Creator::Unrecorded)));
        assert!(!is_taken_here(&snapshot("snapshot-monday", Creator::Unrecorded)));
        assert!(!is_taken_here(&snapshot(uid, Creator::Administrator)));
    }
}
