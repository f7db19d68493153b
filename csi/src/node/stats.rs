//! Usage and health of a volume. CSI v1.12, NodeGetVolumeStats and NodeExpandVolume.
//!
//! - The numbers come from the store or its session, and from the kernel's list of mounts; the mount itself is never asked, so that a
//!   dead one cannot block kubelet.

use std::path::{Path, PathBuf};

use proto::csi::v1::volume_usage::Unit;
use proto::csi::v1::{
    NodeExpandVolumeRequest, NodeExpandVolumeResponse, NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse,
    VolumeUsage,
};
use tonic::Status;

use super::Inner;
use super::record::Stage;
use super::volumes::Report;
use crate::bind::BindFlags;
use crate::capability::{Capability, Kind};
use crate::capacity::{Range, signed};
use crate::mounter::MountState;
use crate::{health, path, status, volume_id};

impl Inner {
    pub(super) fn stats(&self, request: &NodeGetVolumeStatsRequest) -> Result<NodeGetVolumeStatsResponse, Status> {
        let (stage, path) = self.volume_at(&request.volume_id, &request.volume_path)?;
        let Report { usage, fault } = self.volumes.report(&self.mount_of(&stage, &path))?;
        let usage = match stage.kind {
            Kind::Mount => usage,
            Kind::Block => self.size_of_block(&stage)?,
        };
        let condition = health::condition(self.fault(&stage, &path, fault)?, "mounted and answering");
        Ok(NodeGetVolumeStatsResponse { usage, volume_condition: Some(condition) })
    }

    /// The size of a block volume. What is used of it is not known to the node (CSI v1.12, VolumeUsage).
    fn size_of_block(&self, stage: &Stage) -> Result<Vec<VolumeUsage>, Status> {
        let size = match self.device_size(stage) {
            Some(size) => Some(size),
            None => self.volumes.size(&stage.volume)?,
        };
        let total = |size| VolumeUsage { unit: Unit::Bytes.into(), total: signed(size), ..Default::default() };
        Ok(size.map(total).into_iter().collect())
    }

    /// The volume, if it is staged or published at `given`, and that path in its recorded form.
    fn volume_at(&self, volume: &str, given: &str) -> Result<(Stage, PathBuf), Status> {
        status::required("volume_id", volume)?;
        status::required("volume_path", given)?;
        let nowhere =
            || Status::not_found(format!("volume \"{volume}\" is neither staged nor published at \"{given}\""));
        let stage = self.records.stage(volume).or_else(|| self.inline_volume(volume)).ok_or_else(nowhere)?;
        let target = |path: &PathBuf| self.records.target(path).is_some_and(|target| target.volume == volume);
        let is_here = |path: &PathBuf| stage.path == *path || target(path);
        // Most callers give the resolved path, so usually nothing has to be looked up.
        let path = Some(Path::new(given).components().collect()).filter(is_here);
        let path = path.or_else(|| Some(path::resolve(Path::new(given))).filter(is_here)).ok_or_else(nowhere)?;
        Ok((stage, path))
    }

    /// The inline volume with this id.
    fn inline_volume(&self, volume: &str) -> Option<Stage> {
        let name = volume_id::for_volume(volume).ok()?;
        self.records.stage(name.as_str()).filter(|stage| stage.inline.is_some())
    }

    /// What is wrong with the volume at `path`, as a message for people.
    fn fault(&self, stage: &Stage, path: &Path, of_store: Option<String>) -> Result<Option<String>, Status> {
        if of_store.is_some() {
            return Ok(of_store);
        }
        match self.mounter.state(&self.mount_of(stage, path).path).map_err(status::of)? {
            MountState::Ours(_) => {}
            MountState::Stale => return Ok(Some("the mount is dead; stage the volume again".into())),
            MountState::NotMounted | MountState::Other => return Ok(Some("the volume is not mounted".into())),
        }
        let shown = match self.records.target(path) {
            Some(target) => self.shows_target(stage, &target)?,
            None => self.is_shown(stage, path, BindFlags::default())?,
        };
        Ok((!shown).then(|| format!("the target does not show the volume; publish it again at \"{}\"", path.display())))
    }

    pub(super) fn expand(&self, request: &NodeExpandVolumeRequest) -> Result<NodeExpandVolumeResponse, Status> {
        let capability = request.volume_capability.as_ref();
        let capability = capability.map(|given| Capability::parse(Some(given))).transpose()?;
        let range = Range::parse(request.capacity_range.as_ref())?;
        let (stage, _) = self.volume_at(&request.volume_id, &request.volume_path)?;
        if capability.is_some_and(|given| given.kind != stage.kind) {
            return Err(Status::invalid_argument(format!(
                "volume \"{}\" is staged as the other of block and mount; leave volume_capability out, or name that",
                stage.volume
            )));
        }
        if stage.kind == Kind::Block {
            return self.expand_block(&stage, range);
        }
        // The mount shows the quota, which the controller has raised.
        match self.volumes.size(&stage.volume)? {
            Some(quota) => expanded(&stage, range, quota),
            None => Ok(NodeExpandVolumeResponse { capacity_bytes: signed(range.required().unwrap_or(0)) }),
        }
    }

    /// Gives the devices of a volume the size of its disk, which the controller has raised.
    fn expand_block(&self, stage: &Stage, range: Range) -> Result<NodeExpandVolumeResponse, Status> {
        let _guard = self.volume_locks.hold(&stage.volume)?;
        let size = self.grow_devices(stage)?;
        expanded(stage, range, size)
    }
}

/// The answer for a volume that has this size now. The range has to admit it (CSI v1.12, NodeExpandVolume Errors).
fn expanded(stage: &Stage, range: Range, size: u64) -> Result<NodeExpandVolumeResponse, Status> {
    match range.required() {
        Some(required) if size < required => Err(Status::out_of_range(format!(
            "volume \"{}\" has {size} bytes, and only the controller makes it larger; call ControllerExpandVolume for \
             {required} first",
            stage.volume
        ))),
        _ if range.is_exceeded_by(Some(size)) => {
            Err(Status::out_of_range(format!("volume \"{}\" already has {size} bytes, above the limit", stage.volume)))
        }
        _ => Ok(NodeExpandVolumeResponse { capacity_bytes: signed(size) }),
    }
}
