//! Group snapshots: snapshots of several volumes at one moment. CSI v1.12, Group Controller Service RPCs.
//!
//! - A group's id is its name in the store. Its members are ordinary snapshots, of which volumes are made.
//! - The store takes and deletes a group in one transaction, so nothing has to be undone.
//! - A member is not deleted alone by CSI. The administrator may (`amphora snapshot delete`); the group continues without.

use objstore::name::BucketName;
use objstore::store::{Creator, GROUP_BUCKETS_MAX, GroupMember, GroupSnapshotInfo};
use objstore::{Error, Noun};
use proto::csi::v1::group_controller_service_capability::{Rpc, Type, rpc};
use proto::csi::v1::{
    CreateVolumeGroupSnapshotRequest, CreateVolumeGroupSnapshotResponse, DeleteVolumeGroupSnapshotRequest,
    DeleteVolumeGroupSnapshotResponse, GetVolumeGroupSnapshotRequest, GetVolumeGroupSnapshotResponse,
    GroupControllerGetCapabilitiesRequest, GroupControllerGetCapabilitiesResponse, GroupControllerServiceCapability,
    VolumeGroupSnapshot,
};
use tonic::Status;

use super::Controller;
use super::snapshot::{describe, is_taken_here, refuse_parameters, timestamp};
use crate::locks::Guard;
use crate::{filling, status, volume_id};

impl Controller {
    pub(super) async fn group_capabilities(
        self,
        _: GroupControllerGetCapabilitiesRequest,
    ) -> Result<GroupControllerGetCapabilitiesResponse, Status> {
        let rpc = Rpc { r#type: rpc::Type::CreateDeleteGetVolumeGroupSnapshot.into() };
        let capabilities = vec![GroupControllerServiceCapability { r#type: Some(Type::Rpc(rpc)) }];
        Ok(GroupControllerGetCapabilitiesResponse { capabilities })
    }

    pub(super) async fn create_group(
        self,
        request: CreateVolumeGroupSnapshotRequest,
    ) -> Result<CreateVolumeGroupSnapshotResponse, Status> {
        let name = volume_id::for_group(&request.name)?;
        refuse_parameters(&request.parameters, "VolumeGroupSnapshotClass")?;
        let _guard = self.hold_group(name.as_str())?;
        let members = members(&name, &request.source_volume_ids)?;
        for id in &request.source_volume_ids {
            // The store refuses a volume that does not exist.
            if let Ok(member) = id.parse()
                && let Some(found) = self.find(&member).await?
            {
                filling::refuse(&found)?;
            }
        }
        let taken = self.store.create_group_snapshot(&name, members, Creator::Csi).await;
        let (group, _) = taken.map_err(status::of)?;
        if !is_made_here(&group) {
            let (name, why) = (group.name, "this driver did not take it".to_owned());
            return Err(status::of(Error::Exists { noun: Noun::GroupSnapshot, name, why }));
        }
        Ok(CreateVolumeGroupSnapshotResponse { group_snapshot: Some(shown(&group)?) })
    }

    pub(super) async fn delete_group(
        self,
        request: DeleteVolumeGroupSnapshotRequest,
    ) -> Result<DeleteVolumeGroupSnapshotResponse, Status> {
        let id = status::required("group_snapshot_id", &request.group_snapshot_id)?;
        let _guard = self.hold_group(id)?;
        let gone = Ok(DeleteVolumeGroupSnapshotResponse {});
        let name = id.to_owned();
        let found = self.read(move |store| match store.group_snapshot(&name) {
            Err(Error::NotFound { .. }) => Ok(None),
            found => found.map(Some),
        });
        let Some(group) = found.await? else { return gone };
        if !is_made_here(&group) {
            return Err(Status::failed_precondition(format!(
                "group snapshot \"{id}\" was not taken by this driver; keep it with the deletionPolicy Retain"
            )));
        }
        match self.store.delete_unused_group_snapshot(id, request.snapshot_ids).await {
            Ok(()) | Err(Error::NotFound { .. }) => gone,
            Err(error) => Err(status::of(error)),
        }
    }

    pub(super) async fn get_group(
        self,
        request: GetVolumeGroupSnapshotRequest,
    ) -> Result<GetVolumeGroupSnapshotResponse, Status> {
        let id = status::required("group_snapshot_id", &request.group_snapshot_id)?.to_owned();
        let listed = request.snapshot_ids;
        let group = self.read(move |store| store.group_snapshot_of(&id, &listed)).await?;
        Ok(GetVolumeGroupSnapshotResponse { group_snapshot: Some(shown(&group)?) })
    }

    /// Locks the name of a group. No volume or snapshot has such a name.
    fn hold_group(&self, name: &str) -> Result<Guard, Status> {
        self.locks.hold(&format!("group/{name}"))
    }
}

/// The buckets of the volumes of a group, and the names of their snapshots.
fn members(group: &BucketName, volumes: &[String]) -> Result<Vec<GroupMember>, Status> {
    let count = volumes.len();
    if !(1..=GROUP_BUCKETS_MAX).contains(&count) {
        let why = format!("source_volume_ids has {count} volumes; use 1 to {GROUP_BUCKETS_MAX}");
        return Err(Status::invalid_argument(why));
    }
    let member = |volume: &String| {
        let bucket = status::required("a volume id in source_volume_ids", volume)?;
        let bucket: BucketName = bucket.parse().map_err(|_| status::no_such_volume(volume))?;
        Ok(GroupMember { snapshot: volume_id::for_member(group, &bucket)?, bucket })
    };
    volumes.iter().map(member).collect()
}

/// Whether this driver created the group.
fn is_made_here(group: &GroupSnapshotInfo) -> bool {
    group.snapshots.iter().all(is_taken_here)
}

fn shown(group: &GroupSnapshotInfo) -> Result<VolumeGroupSnapshot, Status> {
    // All members have one time of creation. The record of a group without any is removed with its last member.
    let first = group.snapshots.first();
    let first = first.ok_or_else(|| status::of(Error::not_found(Noun::GroupSnapshot, &group.name)))?;
    Ok(VolumeGroupSnapshot {
        group_snapshot_id: group.name.clone(),
        snapshots: group.snapshots.iter().map(describe).collect(),
        creation_time: Some(timestamp(first.created)),
        ready_to_use: true,
    })
}
