//! Staging a volume: mounting it once for this node. CSI v1.12, NodeStageVolume and NodeUnstageVolume.
//!
//! - The access is the narrowest of the key's grant, the access mode, the publication and the option `ro`.
//! - A stage keeps the group for which it was first made; targets for other groups have mounts of their own (`group.rs`).
//! - A failed stage leaves no mount and no record.
//! - A repeated stage with another ticket keeps the mount, and records the ticket for the next time.
//! - Only mounts in this node's records are unmounted: a call about any other volume or path changes nothing.

use std::path::{Path, PathBuf};

use objstore::name::BucketName;
use proto::csi::v1::{
    NodeStageVolumeRequest, NodeStageVolumeResponse, NodeUnstageVolumeRequest, NodeUnstageVolumeResponse,
};
use tonic::Status;
use tracing::warn;

use super::Inner;
use super::record::Stage;
use super::volumes::Request;
use crate::capability::{Capability, Kind};
use crate::context::PublishContext;
use crate::mounter::MountState;
use crate::{path, status};

impl Inner {
    pub(super) fn stage(&self, request: &NodeStageVolumeRequest) -> Result<NodeStageVolumeResponse, Status> {
        let volume = status::required("volume_id", &request.volume_id)?;
        let path = path::parse("staging_target_path", &request.staging_target_path)?;
        let capability = Capability::parse(request.volume_capability.as_ref())?;
        let _guard = self.volume_locks.hold(volume)?;
        let mut stage = self.stage_of(request, (volume, path), &capability)?;
        let known = self.records.stage(volume);
        if let Some(known) = &known {
            // Pods of several groups may use a volume, and the caller stages it for any of them.
            stage.keep_group_of(known);
        }
        match known {
            Some(known) if known.is_alike(&stage) => self.renew(&known, &stage)?,
            Some(known) => return Err(staged_otherwise(&known, &stage)),
            None => self.stage_anew(&stage)?,
        }
        Ok(NodeStageVolumeResponse {})
    }

    fn stage_of(
        &self,
        request: &NodeStageVolumeRequest,
        (volume, path): (&str, PathBuf),
        capability: &Capability,
    ) -> Result<Stage, Status> {
        let context = PublishContext::parse(&request.publish_context)?;
        let asked = Request { volume, kind: capability.kind, context: &context, secrets: &request.secrets };
        let opened = self.volumes.open(&asked)?;
        let options = opened.mount_options(capability, context.read_only);
        let (volume, mode, kind) = (volume.to_owned(), capability.mode, capability.kind);
        Ok(Stage { volume, bucket_id: opened.bucket_id, path, mode, kind, inline: None, options })
    }

    /// A repeated stage. The ticket may be another: that of a later publication, or after a rotation of the master key.
    fn renew(&self, known: &Stage, stage: &Stage) -> Result<(), Status> {
        if known != stage {
            self.records.put_stage(stage).map_err(status::of)?;
        }
        self.revive(stage)
    }

    fn stage_anew(&self, stage: &Stage) -> Result<(), Status> {
        if let Some(other) = self.records.staged_at(&stage.path) {
            return Err(Status::failed_precondition(format!(
                "volume \"{}\" is staged at \"{}\"; unstage it first",
                other.volume,
                stage.path.display()
            )));
        }
        self.refuse_unrecorded(&stage.path)?;
        path::check_staging_dir(&stage.path)?;
        self.records.put_stage(stage).map_err(status::of)?;
        let mounted = self.mount(stage).and_then(|()| match stage.kind {
            Kind::Mount => Ok(()),
            Kind::Block => self.check_disk(stage),
        });
        if mounted.is_err() {
            self.roll_back(stage);
        }
        mounted
    }

    /// Refuses a path with an unrecorded mount. A mount that this process serves for the node belongs to the node even
    /// without a record: it was taken over from an earlier server, and its record was lost.
    pub(super) fn refuse_unrecorded(&self, path: &Path) -> Result<(), Status> {
        match self.mounter.state(path).map_err(status::of)? {
            MountState::NotMounted => Ok(()),
            MountState::Ours(_) => self.mounter.unmount(path).map_err(status::of),
            MountState::Stale | MountState::Other => Err(occupied(path)),
        }
    }

    /// Makes sure that the mount of a stage exists and works.
    pub(super) fn revive(&self, stage: &Stage) -> Result<(), Status> {
        match self.mounter.state(&stage.path).map_err(status::of)? {
            MountState::NotMounted => {}
            MountState::Ours(bucket) if bucket.as_str() == stage.bucket() => return Ok(()),
            MountState::Ours(_) | MountState::Stale => self.unmount_at(stage)?,
            MountState::Other => return Err(occupied(&stage.path)),
        }
        path::check_staging_dir(&stage.path)?;
        self.mount(stage)
    }

    pub(super) fn mount(&self, stage: &Stage) -> Result<(), Status> {
        let bucket: BucketName = stage.bucket().parse().map_err(status::of)?;
        self.mounter.mount(&bucket, &stage.path, &stage.options).map_err(status::of)
    }

    /// Undoes a failed stage. The original failure is reported; a further one is logged.
    fn roll_back(&self, stage: &Stage) {
        let undone = self.unmount_stage(stage);
        let undone = undone.and_then(|()| self.records.forget_stage(&stage.volume).map_err(status::of));
        if let Err(status) = undone {
            let reason = status.message();
            warn!(volume = stage.volume, path = %stage.path.display(), reason, "cannot undo a failed stage");
        }
    }

    pub(super) fn unstage(&self, request: &NodeUnstageVolumeRequest) -> Result<NodeUnstageVolumeResponse, Status> {
        let volume = status::required("volume_id", &request.volume_id)?;
        let path = path::parse("staging_target_path", &request.staging_target_path)?;
        let _guard = self.volume_locks.hold(volume)?;
        match self.records.stage(volume) {
            Some(stage) if stage.path == path && stage.inline.is_none() => self.take_down(&stage)?,
            // Another mount at the path is not the volume that the caller names, so the volume is not staged there.
            Some(_) | None => {}
        }
        Ok(NodeUnstageVolumeResponse {})
    }

    fn take_down(&self, stage: &Stage) -> Result<(), Status> {
        self.forget_missing_targets(&stage.volume)?;
        self.records.close_stage(&stage.volume).map_err(|target| {
            Status::failed_precondition(format!(
                "volume \"{}\" is published at \"{}\"; unpublish it first",
                stage.volume,
                target.path.display()
            ))
        })?;
        let unmounted = self.unmount_stage(stage);
        let unmounted = unmounted.and_then(|()| self.records.forget_stage(&stage.volume).map_err(status::of));
        if unmounted.is_err() {
            // The mount is still there, and the caller will retry.
            self.records.put_stage(stage).map_err(status::of)?;
        }
        unmounted
    }

    /// Removes records of targets at which nothing is mounted any more: they were cleaned up manually.
    fn forget_missing_targets(&self, volume: &str) -> Result<(), Status> {
        for target in self.records.targets(volume) {
            let _guard = self.target_locks.hold(&target.path.to_string_lossy())?;
            if self.mounted(&target.path)?.is_none() {
                self.records.forget_target(&target.path).map_err(status::of)?;
            }
        }
        Ok(())
    }

    /// Unmounts the mount of a stage, dead or alive, after its loop devices are detached. A later mount of another program
    /// at its path stays.
    pub(super) fn unmount_stage(&self, stage: &Stage) -> Result<(), Status> {
        match self.mounter.state(&stage.path).map_err(status::of)? {
            MountState::Ours(bucket) if bucket.as_str() != stage.bucket() => self.drop_devices(&stage.volume),
            MountState::Other => self.drop_devices(&stage.volume),
            MountState::Ours(_) | MountState::Stale | MountState::NotMounted => self.unmount_at(stage),
        }
    }

    /// Unmounts what is mounted at the path of a stage. A device would keep its file system alive, so devices go first.
    fn unmount_at(&self, stage: &Stage) -> Result<(), Status> {
        self.drop_devices(&stage.volume)?;
        self.mounter.unmount(&stage.path).map_err(status::of)
    }
}

fn occupied(path: &Path) -> Status {
    Status::failed_precondition(format!(
        "\"{0}\" has a mount that this node did not make; unmount it first (`umount {0}`)",
        path.display()
    ))
}

fn staged_otherwise(known: &Stage, asked: &Stage) -> Status {
    if known.path == asked.path && known.options.context != asked.options.context {
        return Status::already_exists(format!(
            "volume \"{}\" is staged with another SELinux context, and a mount has one for all of its files; unstage it first",
            asked.volume
        ));
    }
    let how = match known.path == asked.path {
        true => "with another capability, secret or an earlier bucket of that name".to_owned(),
        false => format!("at \"{}\"", known.path.display()),
    };
    Status::already_exists(format!("volume \"{}\" is already staged {how}; unstage it first", asked.volume))
}
