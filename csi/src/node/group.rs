//! Targets for another group than that of their stage. CSI v1.12, MountVolume.volume_mount_group; Kubernetes, `fsGroup`.
//!
//! - A stage is mounted for the group that its caller names, and targets for that group, or for none, are binds of it. Before
//!   its first target it is mounted again for a target of another group.
//! - Beside others, a target for another group has a mount of its own at its path: so pods of several groups use one volume on
//!   one node, and each sees its own group. It is refused where this node keeps the file locks, because two mounts would not
//!   exclude each other's programs.
//! - Nothing of the volume is changed for a group: the mount shows it. So a pod starts as fast with any number of files.
//! - A target keeps what it shows as long as it is published.
//!
//! A crash leaves the record of the stage or of the target, whose mount may be missing or dead; recovery mounts it again.

use std::path::Path;

use objstore::name::BucketName;
use tonic::Status;

use super::Inner;
use super::record::{Shown, Stage, Target};
use crate::capability::{Capability, Kind};
use crate::mounter::{MountOptions, MountState};
use crate::{path, status};

impl Inner {
    /// What a target shows for this capability, and the stage, which may have taken over the target's group. A target that an
    /// earlier version published shows a stage without a group.
    pub(super) fn shown_for(
        &self,
        stage: Stage,
        capability: &Capability,
        path: &Path,
    ) -> Result<(Shown, Stage), Status> {
        let is_fixed = stage.options.gid.is_some() && !stage.options.group_access;
        let group = capability.group.filter(|group| !is_fixed && stage.group() != Some(*group));
        let known = self.records.target(path).filter(|target| target.volume == stage.volume);
        match (group, known.map(|target| target.shown)) {
            (None, Some(Shown::Own { .. })) | (Some(_), Some(Shown::Stage)) if stage.group().is_some() => Err(
                Status::already_exists(format!("the volume is published at \"{}\" for another group", path.display())),
            ),
            (None, _) | (Some(_), Some(Shown::Stage)) => Ok((Shown::Stage, stage)),
            (Some(group), Some(Shown::Own { .. })) => Ok((Shown::Own { group }, stage)),
            (Some(group), None) => match self.mount_for(&stage, group)? {
                Some(stage) => Ok((Shown::Stage, stage)),
                None if stage.options.node_locks == Some(true) => Err(other_group(&stage, group)),
                None => Ok((Shown::Own { group }, stage)),
            },
        }
    }

    /// Mounts a stage without targets again, for this group. `None` if it has targets.
    fn mount_for(&self, stage: &Stage, group: u32) -> Result<Option<Stage>, Status> {
        let _guard = self.volume_locks.hold(&stage.volume)?;
        if self.records.close_stage(&stage.volume).is_err() {
            return Ok(None);
        }
        if let Err(status) = self.unmount_stage(stage) {
            // The mount is still there, and the caller will retry.
            self.records.put_stage(stage).map_err(status::of)?;
            return Err(status);
        }
        let options = MountOptions { gid: Some(group), group_access: true, ..stage.options.clone() };
        let stage = Stage { options, ..stage.clone() };
        self.records.put_stage(&stage).map_err(status::of)?;
        self.mount(&stage)?;
        Ok(Some(stage))
    }

    /// Whether a stage still has its group. It keeps it as soon as a target is claimed.
    pub(super) fn is_still_for(&self, stage: &Stage) -> bool {
        self.records.stage(&stage.volume).is_some_and(|now| now.group() == stage.group())
    }

    /// Makes sure that the target has its own mount, for this group.
    pub(super) fn show_own(&self, stage: &Stage, target: &Target, group: u32) -> Result<(), Status> {
        if self.shows_target(stage, target)? {
            return Ok(());
        }
        self.hide_target(target)?;
        let made = path::make_target_dir(&target.path)?;
        let bucket: BucketName = stage.bucket().parse().map_err(status::of)?;
        let options = MountOptions {
            read_only: stage.options.read_only || target.flags.read_only,
            no_exec: target.flags.no_exec,
            gid: Some(group),
            group_access: true,
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

fn other_group(stage: &Stage, group: u32) -> Status {
    let theirs = stage.group().map_or_else(|| "without fsGroup".to_owned(), |group| format!("of group {group}"));
    Status::failed_precondition(format!(
        "volume \"{}\" is used on this node by pods {theirs}, and this node keeps its file locks, so that pods of group {group} \
         cannot use it beside them; give all of them one fsGroup, or the volume the mount option locks=store",
        stage.volume
    ))
}
