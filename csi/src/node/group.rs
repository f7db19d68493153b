//! Targets for another group than that of their stage. CSI v1.12, MountVolume.volume_mount_group; Kubernetes, `fsGroup`.
//!
//! - A stage is mounted for the group that its first caller names, and targets for that group are binds of it. A target for
//!   another group, or for none, has a mount of its own at its path: so pods of several groups use one volume on one node, and
//!   each sees its own group.
//! - Nothing of the volume is changed for a group: the mount shows it. So a pod starts as fast with any number of files.
//! - A target keeps what it shows as long as it is published.
//!
//! A crash leaves the target's record, whose mount may be missing or dead; recovery mounts it again.

use std::path::Path;

use objstore::name::BucketName;
use tonic::Status;

use super::Inner;
use super::record::{Shown, Stage, Target};
use crate::capability::{Capability, Kind};
use crate::mounter::{MountOptions, MountState};
use crate::{path, status};

impl Inner {
    /// What a target shows for this capability. A target that an earlier version published shows the stage, and a stage of
    /// an earlier version has no group.
    pub(super) fn shown_for(&self, stage: &Stage, capability: &Capability, path: &Path) -> Shown {
        let is_bound = |target: Target| target.volume == stage.volume && target.shown == Shown::Stage;
        let was_bound = stage.group().is_none() && self.records.target(path).is_some_and(is_bound);
        let is_fixed = stage.options.gid.is_some() && !stage.options.group_access;
        if was_bound || is_fixed || capability.kind == Kind::Block || capability.group == stage.group() {
            return Shown::Stage;
        }
        Shown::Own { group: capability.group }
    }

    /// Makes sure that the target has its own mount, for this group.
    pub(super) fn show_own(&self, stage: &Stage, target: &Target, group: Option<u32>) -> Result<(), Status> {
        if self.shows_target(stage, target)? {
            return Ok(());
        }
        self.hide_target(target)?;
        let made = path::make_target_dir(&target.path)?;
        let bucket: BucketName = stage.bucket().parse().map_err(status::of)?;
        let options = MountOptions {
            read_only: stage.options.read_only || target.flags.read_only,
            no_exec: target.flags.no_exec,
            gid: group,
            group_access: group.is_some(),
            ..stage.options.clone()
        };
        self.mounter.mount(&bucket, &target.path, &options).map_err(|error| {
            if made {
                // If it cannot be removed now, the unpublish removes it.
                let _ = path::remove_target_dir(&target.path);
            }
            status::of(error)
        })
    }

    /// Whether a target shows the working volume.
    pub(super) fn shows_target(&self, stage: &Stage, target: &Target) -> Result<bool, Status> {
        match (target.kind, target.shown) {
            (Kind::Block, _) => self.shows_device(stage, target),
            (Kind::Mount, Shown::Stage) => self.is_shown(stage, &target.path, target.flags),
            (Kind::Mount, Shown::Own { .. }) => {
                let state = self.mounter.state(&target.path).map_err(status::of)?;
                Ok(matches!(state, MountState::Ours(bucket) if bucket.as_str() == stage.bucket()))
            }
        }
    }

    /// Takes away what a target shows.
    pub(super) fn hide_target(&self, target: &Target) -> Result<(), Status> {
        match target.shown {
            Shown::Stage => self.hide(&target.path, target.kind),
            Shown::Own { .. } => match self.mounter.state(&target.path).map_err(status::of)? {
                MountState::Ours(_) | MountState::Stale => self.mounter.unmount(&target.path).map_err(status::of),
                MountState::NotMounted => Ok(()),
                MountState::Other => self.hide(&target.path, target.kind),
            },
        }
    }

    /// Unmounts the targets of a volume that have mounts of their own. Their records stay.
    pub(super) fn unmount_own(&self, volume: &str) -> Result<(), Status> {
        let targets = self.records.targets(volume).into_iter();
        targets.filter(|target| target.shown != Shown::Stage).try_for_each(|target| self.hide_target(&target))
    }

    /// The stage with the path of the mount that `path` shows.
    pub(super) fn mount_of(&self, stage: &Stage, path: &Path) -> Stage {
        let own = self.records.target(path).filter(|target| target.shown != Shown::Stage);
        Stage { path: own.map_or_else(|| stage.path.clone(), |target| target.path), ..stage.clone() }
    }
}
