//! Publishing a staged volume at a workload's path. CSI v1.12, NodePublishVolume and NodeUnpublishVolume.
//!
//! - A publish may narrow the access of the stage, never widen it.
//! - A failed publish leaves no mount, no record, and no folder that it created.
//! - Content of a target folder is never deleted, so a non-empty folder is refused.
//! - Only mounts in this node's records are unmounted, and only binds of a volume: a call about any other volume or
//!   path changes nothing.

use objstore::disk::MountEntry;
use proto::csi::v1::{
    NodePublishVolumeRequest, NodePublishVolumeResponse, NodeUnpublishVolumeRequest, NodeUnpublishVolumeResponse,
};
use std::path::Path;
use tonic::{Code, Status};
use tracing::warn;

use super::block::device_number;
use super::record::{Conflict, Shown, Stage, Target};
use super::{Inner, inline};
use crate::bind::BindFlags;
use crate::capability::{Capability, Kind};
use crate::locks::Guard;
use crate::mounter::MountState;
use crate::{FS_TYPE, path, status};

/// The most mounts stacked at a target before unmounting gives up.
const STACKED_MOUNTS_MAX: usize = 16;

impl Inner {
    pub(super) fn publish(&self, request: &NodePublishVolumeRequest) -> Result<NodePublishVolumeResponse, Status> {
        let volume = status::required("volume_id", &request.volume_id)?;
        let path = path::parse("target_path", &request.target_path)?;
        let capability = Capability::parse(request.volume_capability.as_ref())?;
        let _guard = self.target_locks.hold(&path.to_string_lossy())?;
        if inline::is_inline(request) {
            return self.publish_inline(request, &path, &capability);
        }
        let stage = self.staged(volume, &request.staging_target_path)?;
        let flags =
            self.bind_flags(request, &stage, &capability).map_err(|refused| self.differs(volume, &path, refused))?;
        let (shown, stage) = self.shown_for(stage, &capability, &path)?;
        let (mode, kind) = (capability.mode, capability.kind);
        let target = Target { volume: volume.to_owned(), path, mode, kind, flags, shown };
        let _volume_guard = self.hold_devices(&target)?;
        let was_known = self.records.target(&target.path).is_some();
        if !was_known {
            match target.shown {
                Shown::Stage => self.refuse_unrecorded_target(&stage, &target.path)?,
                Shown::Own { .. } => self.refuse_unrecorded(&target.path)?,
            }
        }
        self.claim(&target)?;
        if !was_known && !self.is_still_for(&stage) {
            self.take_back(&target);
            return Err(Status::aborted("another pod's group was given to the volume at this moment; repeat the call"));
        }
        let shown = match (target.kind, target.shown) {
            (Kind::Block, _) => self.show_device(&stage, &target),
            (Kind::Mount, Shown::Stage) => self.show(&stage, &target),
            (Kind::Mount, Shown::Own { group }) => self.show_own(&stage, &target, group),
        };
        if shown.is_err() && !was_known {
            self.take_back(&target);
        }
        shown.map(|()| NodePublishVolumeResponse {})
    }

    /// The refusal of a capability that the stage does not have: ALREADY_EXISTS at a target that shows the volume (CSI v1.12,
    /// NodePublishVolume Errors).
    fn differs(&self, volume: &str, path: &Path, refused: Status) -> Status {
        let is_shown = self.records.target(path).is_some_and(|known| known.volume == volume);
        match refused.code() {
            Code::FailedPrecondition if is_shown => Status::already_exists(refused.message()),
            _ => refused,
        }
    }

    fn staged(&self, volume: &str, staging_path: &str) -> Result<Stage, Status> {
        if staging_path.is_empty() {
            return Err(Status::failed_precondition("staging_target_path is missing; the volume has to be staged"));
        }
        let path = path::parse("staging_target_path", staging_path)?;
        let stage = self.records.stage(volume).filter(|stage| stage.path == path);
        match stage {
            Some(stage) => Ok(stage),
            None => Err(self.volumes.find(volume).err().unwrap_or_else(|| not_staged(volume))),
        }
    }

    fn bind_flags(
        &self,
        request: &NodePublishVolumeRequest,
        stage: &Stage,
        capability: &Capability,
    ) -> Result<BindFlags, Status> {
        let narrowed = self.volumes.narrow(stage, &request.secrets)?;
        let flags = &capability.flags;
        let staged = &stage.options;
        if capability.kind != stage.kind {
            return Err(Status::failed_precondition(format!(
                "volume \"{}\" is staged as the other of block and mount; stage it with this capability",
                stage.volume
            )));
        }
        let fixed_gid = staged.gid.filter(|_| !staged.group_access);
        if (flags.uid, flags.gid, &flags.prefix) != (staged.uid, fixed_gid, &staged.prefix) {
            return Err(Status::failed_precondition(format!(
                "volume \"{}\" is staged with another uid, gid or prefix; stage it with these mount options",
                stage.volume
            )));
        }
        if flags.context != staged.context && capability.kind == Kind::Mount {
            return Err(Status::failed_precondition(format!(
                "volume \"{}\" is mounted on this node with another SELinux context; a mount has one for all of its files, so \
                 pods of different contexts cannot use the volume on one node at the same time",
                stage.volume
            )));
        }
        let read_only = request.readonly || staged.read_only || narrowed || capability.mode.is_read_only();
        Ok(BindFlags { read_only: read_only || flags.bind.read_only, ..flags.bind })
    }

    /// Holds the lock of a block volume, whose targets share devices.
    fn hold_devices(&self, target: &Target) -> Result<Option<Guard>, Status> {
        match target.kind {
            Kind::Mount => Ok(None),
            Kind::Block => self.volume_locks.hold(&target.volume).map(Some),
        }
    }

    /// Refuses a path with an unrecorded mount. A bind of the stage belongs to the node even without a record, which
    /// was lost then, and so does the node of a device of the stage.
    fn refuse_unrecorded_target(&self, stage: &Stage, path: &Path) -> Result<(), Status> {
        let devices = self.records.devices(&stage.volume);
        match self.mounted(path)? {
            Some(mounted) if devices.iter().any(|known| device_number(&mounted) == Some(known.device.number)) => Ok(()),
            Some(_) if self.is_shown(stage, path, BindFlags::default())? => Ok(()),
            Some(mounted) => Err(foreign(&mounted, path)),
            None => Ok(()),
        }
    }

    fn claim(&self, target: &Target) -> Result<(), Status> {
        let path = target.path.display();
        self.records.claim_target(target).map_err(status::of)?.map_err(|conflict| match conflict {
            Conflict::NotStaged => not_staged(&target.volume),
            Conflict::SingleTarget(other) => Status::failed_precondition(format!(
                "volume \"{}\" is for one pod at a time by its access mode, and is published at \"{}\"; unpublish it there \
                 first",
                target.volume,
                other.display()
            )),
            Conflict::Taken(known) if known.volume == target.volume => Status::already_exists(format!(
                "the volume is published at \"{path}\" with another capability or readonly"
            )),
            Conflict::Taken(known) => {
                Status::failed_precondition(format!("volume \"{}\" is published at \"{path}\"", known.volume))
            }
        })
    }

    /// Makes sure that the volume is visible at the target.
    fn show(&self, stage: &Stage, target: &Target) -> Result<(), Status> {
        self.revive_stage(stage)?;
        if self.is_shown(stage, &target.path, target.flags)? {
            return Ok(());
        }
        self.hide(&target.path, target.kind)?;
        let made = path::make_target_dir(&target.path)?;
        self.binder.bind(&stage.path, &target.path, target.flags).map_err(|error| {
            if made {
                // If it cannot be removed now, the unpublish removes it.
                let _ = path::remove_target_dir(&target.path);
            }
            Status::internal(format!("binding \"{}\" failed: {error}", target.path.display()))
        })
    }

    /// Mounts the volume again if its server died. The caller holds the volume's lock, so no stage or unstage is in
    /// progress.
    fn revive_stage(&self, stage: &Stage) -> Result<(), Status> {
        match self.mounter.state(&stage.path).map_err(status::of)? {
            MountState::Ours(bucket) if bucket.as_str() == stage.volume => Ok(()),
            _ => {
                let _guard = self.volume_locks.hold(&stage.volume)?;
                self.revive(stage)
            }
        }
    }

    /// Whether `path` shows the working mount of the stage. A bind that should be read-only and is not was interrupted
    /// between its two steps.
    pub(super) fn is_shown(&self, stage: &Stage, path: &Path, flags: BindFlags) -> Result<bool, Status> {
        let (Some(staged), Some(shown)) = (self.mounted(&stage.path)?, self.mounted(path)?) else { return Ok(false) };
        let is_read_only = shown.options.iter().any(|option| option == "ro");
        Ok(staged.device == shown.device && (is_read_only || !flags.read_only))
    }

    /// Detaches all binds of a recorded target; several may be stacked after a crash.
    pub(super) fn hide(&self, target: &Path, kind: Kind) -> Result<(), Status> {
        for _ in 0..STACKED_MOUNTS_MAX {
            let Some(mounted) = self.mounted(target)? else { return Ok(()) };
            let is_ours = match kind {
                Kind::Mount => mounted.fs_type == FS_TYPE && !self.mounter.is_administrators(target),
                Kind::Block => device_number(&mounted).is_some(),
            };
            if !is_ours {
                return Err(foreign(&mounted, target));
            }
            self.binder
                .detach(target)
                .map_err(|error| Status::internal(format!("unmounting \"{}\" failed: {error}", target.display())))?;
        }
        Err(Status::internal(format!("\"{}\" stays mounted; unmount it by hand", target.display())))
    }

    /// Undoes a failed publish. The original failure is reported; a further one is logged.
    fn take_back(&self, target: &Target) {
        if let Err(error) = self.records.forget_target(&target.path) {
            warn!(path = %target.path.display(), %error, "the record of a failed publish was not removed");
        }
    }

    pub(super) fn unpublish(
        &self,
        request: &NodeUnpublishVolumeRequest,
    ) -> Result<NodeUnpublishVolumeResponse, Status> {
        let volume = status::required("volume_id", &request.volume_id)?;
        let path = path::parse("target_path", &request.target_path)?;
        let _guard = self.target_locks.hold(&path.to_string_lossy())?;
        let Some(target) = self.records.target(&path).filter(|known| known.volume == volume) else {
            return self.unpublish_inline(volume, &path);
        };
        let _volume_guard = self.hold_devices(&target)?;
        self.hide_target(&target)?;
        match target.kind {
            Kind::Mount => path::remove_target_dir(&path)?,
            Kind::Block => {
                path::remove_target_file(&path)?;
                self.drop_devices_without(&target)?;
            }
        }
        self.records.forget_target(&path).map_err(status::of)?;
        Ok(NodeUnpublishVolumeResponse {})
    }
}

fn foreign(mounted: &MountEntry, path: &Path) -> Status {
    Status::failed_precondition(format!(
        "\"{1}\" has a mount of type {0} that this node did not make; unmount it first (`umount {1}`)",
        mounted.fs_type,
        path.display()
    ))
}

fn not_staged(volume: &str) -> Status {
    Status::failed_precondition(format!("volume \"{volume}\" is not staged at the staging_target_path; stage it first"))
}
