//! Usage and health of a volume. CSI v1.12, NodeGetVolumeStats and NodeExpandVolume.
//!
//! - The numbers come from the store and from the kernel's list of mounts; the mount itself is never asked, so that a
//!   dead one cannot block kubelet.

use std::path::{Path, PathBuf};

use objstore::store::{Bucket, Stats, Usage};
use proto::csi::v1::{
    NodeExpandVolumeRequest, NodeExpandVolumeResponse, NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse,
    VolumeCondition, VolumeUsage, volume_usage::Unit,
};
use tonic::Status;

use super::Inner;
use super::record::Stage;
use crate::bind::BindFlags;
use crate::capability::Capability;
use crate::capacity::{Range, signed};
use crate::mounter::MountState;
use crate::{path, status};

/// Disk space of a small file. Inodes are unlimited, so as many are reported as there is space for.
const INODE_BYTES: u64 = 1024;

impl Inner {
    pub(super) fn stats(&self, request: &NodeGetVolumeStatsRequest) -> Result<NodeGetVolumeStatsResponse, Status> {
        let (bucket, stage, path) = self.volume_at(&request.volume_id, &request.volume_path)?;
        let usage = self.store.usage(&bucket.name).map_err(status::of)?;
        let stats = self.store.stats();
        let condition = match self.fault(&stage, &path, &stats)? {
            Some(message) => VolumeCondition { abnormal: true, message },
            None => VolumeCondition { abnormal: false, message: "mounted and answering".into() },
        };
        Ok(NodeGetVolumeStatsResponse { usage: volume_usage(&usage, &stats).into(), volume_condition: Some(condition) })
    }

    /// The volume, if it is staged or published at `given`, and that path in its recorded form.
    fn volume_at(&self, volume: &str, given: &str) -> Result<(Bucket, Stage, PathBuf), Status> {
        status::required("volume_id", volume)?;
        status::required("volume_path", given)?;
        let bucket = self.bucket(volume)?;
        let nowhere =
            || Status::not_found(format!("volume \"{volume}\" is neither staged nor published at \"{given}\""));
        let stage = self.records.stage(volume).ok_or_else(nowhere)?;
        let target = |path: &PathBuf| self.records.target(path).is_some_and(|target| target.volume == volume);
        let is_here = |path: &PathBuf| stage.path == *path || target(path);
        // Most callers give the resolved path, so usually nothing has to be looked up.
        let path = Some(Path::new(given).components().collect()).filter(is_here);
        let path = path.or_else(|| Some(path::resolve(Path::new(given))).filter(is_here)).ok_or_else(nowhere)?;
        Ok((bucket, stage, path))
    }

    /// What is wrong with the volume at `path`, as a message for people.
    fn fault(&self, stage: &Stage, path: &Path, stats: &Stats) -> Result<Option<String>, Status> {
        if let Some(why) = &stats.poisoned {
            return Ok(Some(format!("the store refuses writes: {why}")));
        }
        match self.mounter.state(&stage.path).map_err(status::of)? {
            MountState::Ours(_) => {}
            MountState::Stale => return Ok(Some("the mount is dead; stage the volume again".into())),
            MountState::NotMounted | MountState::Other => return Ok(Some("the volume is not mounted".into())),
        }
        let shown = self.is_shown(stage, path, BindFlags::default())?;
        Ok((!shown).then(|| format!("\"{}\" does not show the volume; publish it again", path.display())))
    }

    pub(super) fn expand(&self, request: &NodeExpandVolumeRequest) -> Result<NodeExpandVolumeResponse, Status> {
        if let Some(capability) = &request.volume_capability {
            Capability::parse(Some(capability))?;
        }
        let range = Range::parse(request.capacity_range.as_ref())?;
        let (bucket, _, _) = self.volume_at(&request.volume_id, &request.volume_path)?;
        match (bucket.quota_bytes, range.required()) {
            (Some(quota), Some(required)) if quota < required => Err(Status::failed_precondition(format!(
                "volume \"{}\" has {quota} bytes; call ControllerExpandVolume for {required} first",
                bucket.name
            ))),
            // The mount shows the quota, which the controller has raised.
            (quota, required) => {
                let size = quota.or(required).unwrap_or(0);
                Ok(NodeExpandVolumeResponse { capacity_bytes: signed(size) })
            }
        }
    }
}

fn volume_usage(usage: &Usage, stats: &Stats) -> [VolumeUsage; 2] {
    let used = usage.bytes.saturating_add(usage.upload_bytes);
    let left = usage.limit_bytes.map_or(stats.free_bytes, |limit| limit.saturating_sub(used));
    let available = left.min(stats.free_bytes);
    let total = usage.limit_bytes.unwrap_or(used.saturating_add(available));
    let inodes_left = stats.free_bytes / INODE_BYTES;
    let of = |unit: Unit, total, used, available| VolumeUsage {
        unit: unit.into(),
        total: signed(total),
        used: signed(used),
        available: signed(available),
    };
    [
        of(Unit::Bytes, total, used, available),
        of(Unit::Inodes, usage.inodes.saturating_add(inodes_left), usage.inodes, inodes_left),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(limit_bytes: Option<u64>, used: u64, free_bytes: u64) -> (i64, i64, i64) {
        let usage = Usage { bytes: used, upload_bytes: 5, inodes: 3, limit_bytes, ..Usage::default() };
        let [bytes, inodes] = volume_usage(&usage, &Stats { free_bytes, ..Default::default() });
        assert_eq!(inodes.total, inodes.used + inodes.available);
        (bytes.total, bytes.used, bytes.available)
    }

    #[test]
    fn usage_follows_the_quota_or_else_the_disk() {
        assert_eq!(bytes(Some(100), 10, 1000), (100, 15, 85));
        assert_eq!(bytes(Some(100), 10, 50), (100, 15, 50), "the disk may have less than the quota allows");
        assert_eq!(bytes(Some(100), 200, 1000), (100, 205, 0), "a quota may be lowered below what is used");
        assert_eq!(bytes(None, 10, 1000), (1015, 15, 1000));
    }
}
