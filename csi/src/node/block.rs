//! Block volumes on a node: the staged mount's disk as a loop device, and its node at target paths. CSI v1.12,
//! NodePublishVolume.
//!
//! - A staged volume has at most one device that writes and one that only reads, shared by its targets on this node: so
//!   programs on one node share the page cache of one device.
//! - A device is attached when its first target is published, and detached when its last one is unpublished or the volume is
//!   unstaged: always before its mount is unmounted.
//! - A device whose mount was made again is dead. It is detached, and another takes its place at its targets.
//! - Callers hold the volume's lock.
//!
//! A crash leaves a device that is recorded, or one that no target shows and that has this node's label; recovery detaches
//! the latter.

use std::io::{self, ErrorKind};
use std::path::Path;

use objstore::Error;
use objstore::disk::MountEntry;
use sha2::{Digest, Sha256};
use tonic::Status;
use tracing::warn;

use super::Inner;
use super::record::{Attached, Stage, Target};
use crate::Config;
use crate::disk::{BLOCK_BYTES, DISK};
use crate::loop_device::{Access, Device};
use crate::volume_id::hex;
use crate::{path, status};

/// The type of the file system whose node of a device is bound at a target, in the kernel's list of mounts.
pub(super) const DEVICE_FS_TYPE: &str = "devtmpfs";

/// The label of all devices of a node: nodes on one machine have different folders.
pub(super) fn label(config: &Config) -> String {
    let mut hash = Sha256::new();
    for part in
        [config.driver_name.as_bytes(), config.node_id.as_bytes(), config.state_dir.as_os_str().as_encoded_bytes()]
    {
        hash.update(part);
        hash.update([0]);
    }
    format!("amphora-{}", &hex(&hash.finalize())[..40])
}

impl Inner {
    /// Refuses a stage whose volume has no disk that can be a device.
    pub(super) fn check_disk(&self, stage: &Stage) -> Result<(), Status> {
        let refuse = |why: String| Err(Status::failed_precondition(format!("volume \"{}\" {why}", stage.volume)));
        match self.devices.disk_size(&stage.path) {
            Ok(bytes) if bytes > 0 && bytes.is_multiple_of(512) => Ok(()),
            Ok(bytes) => refuse(format!(
                "cannot be a block volume: its file \"{DISK}\" has {bytes} bytes, which is not a positive multiple of 512; \
                 write a disk image of whole blocks of {BLOCK_BYTES}"
            )),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                refuse(format!("cannot be a block volume: it has no file \"{DISK}\"; write a disk image there"))
            }
            Err(error) => Err(failed("opening the volume's disk", error)),
        }
    }

    /// Makes sure that the device of a volume is visible at the target.
    pub(super) fn show_device(&self, stage: &Stage, target: &Target) -> Result<(), Status> {
        self.revive(stage)?;
        let device = self.device_for(stage, self.access(stage, target)?)?;
        if self.shows(&target.path, device)? {
            return Ok(());
        }
        self.hide(&target.path, target.kind)?;
        let made = path::make_target_file(&target.path)?;
        self.devices.show(device, &target.path).map_err(|error| {
            if made {
                // If it cannot be removed now, the unpublish removes it.
                let _ = path::remove_target_file(&target.path);
            }
            failed(&format!("showing /dev/loop{} at \"{}\"", device.number, target.path.display()), error)
        })
    }

    /// Whether `path` shows the node of a device.
    pub(super) fn shows(&self, path: &Path, device: Device) -> Result<bool, Status> {
        Ok(self.mounted(path)?.is_some_and(|shown| device_number(&shown) == Some(device.number)))
    }

    /// Whether `path` shows a working device of the stage.
    pub(super) fn shows_device(&self, stage: &Stage, target: &Target) -> Result<bool, Status> {
        let working = self.working_device(stage, self.access(stage, target)?)?;
        working.map_or(Ok(false), |device| self.shows(&target.path, device))
    }

    /// The attached device of a stage whose mount is the present one.
    pub(super) fn working_device(&self, stage: &Stage, access: Access) -> Result<Option<Device>, Status> {
        let Some(mounted) = self.mounted(&stage.path)? else { return Ok(None) };
        let known = self.records.devices(&stage.volume).into_iter();
        let mut known = known.filter(|known| known.access == access && known.mount == mounted.device);
        Ok(known.find(|known| self.devices.size(known.device).is_some()).map(|known| known.device))
    }

    /// The device of a stage, attached if there is none that works.
    pub(super) fn device_for(&self, stage: &Stage, access: Access) -> Result<Device, Status> {
        if let Some(device) = self.working_device(stage, access)? {
            return Ok(device);
        }
        self.drop_device(&stage.volume, access)?;
        let mounted = self.mounted(&stage.path)?.ok_or_else(|| Status::internal("the volume is not mounted"))?;
        let attached = self.devices.attach(&stage.path, access, &label(&self.config));
        let device = attached.map_err(|error| failed("attaching a loop device", error))?;
        let mut all = self.records.devices(&stage.volume);
        all.push(Attached { device, access, mount: mounted.device });
        if let Err(error) = self.records.put_devices(&stage.volume, &all) {
            self.devices.detach(device).map_err(|error| failed("detaching a loop device", error))?;
            return Err(status::of(error));
        }
        Ok(device)
    }

    /// Detaches the device of this access, if there is one.
    pub(super) fn drop_device(&self, volume: &str, access: Access) -> Result<(), Status> {
        let (gone, kept): (Vec<_>, Vec<_>) =
            self.records.devices(volume).into_iter().partition(|known| known.access == access);
        if gone.is_empty() {
            return Ok(());
        }
        for known in gone {
            let number = known.device.number;
            let detached = self.devices.detach(known.device);
            detached.map_err(|error| failed(&format!("detaching /dev/loop{number}"), error))?;
        }
        self.records.put_devices(volume, &kept).map_err(status::of)
    }

    /// Detaches all devices of a volume.
    pub(super) fn drop_devices(&self, volume: &str) -> Result<(), Status> {
        [Access::ReadWrite, Access::ReadOnly].into_iter().try_for_each(|access| self.drop_device(volume, access))
    }

    /// Detaches the devices of a volume that no target but `gone` shows.
    pub(super) fn drop_devices_without(&self, gone: &Target) -> Result<(), Status> {
        let others = self.records.targets(&gone.volume).into_iter().filter(|other| other.path != gone.path);
        let mut needed = Vec::new();
        if let Some(stage) = self.records.stage(&gone.volume) {
            for other in others {
                needed.push(self.access(&stage, &other)?);
            }
        }
        let unneeded = [Access::ReadWrite, Access::ReadOnly].into_iter().filter(|access| !needed.contains(access));
        unneeded.into_iter().try_for_each(|access| self.drop_device(&gone.volume, access))
    }

    /// What the device of a target may do: a read-only mount has no device that writes.
    fn access(&self, stage: &Stage, target: &Target) -> Result<Access, Status> {
        let is_read_only =
            |mounted: MountEntry| mounted.options.iter().chain(&mounted.fs_options).any(|option| option == "ro");
        let read_only = target.flags.read_only || self.mounted(&stage.path)?.is_some_and(is_read_only);
        Ok(if read_only { Access::ReadOnly } else { Access::ReadWrite })
    }

    /// Detaches devices of volumes that are not staged, and devices that were attached and not recorded.
    pub(super) fn drop_left_devices(&self) {
        for (volume, _) in self.records.all_devices() {
            if self.records.stage(&volume).is_none()
                && let Err(status) = self.drop_devices(&volume)
            {
                warn!(volume, reason = status.message(), "a loop device of a volume that is not staged stays attached");
            }
        }
        let known = self.records.all_devices().into_iter().flat_map(|(_, attached)| attached);
        let known: Vec<_> = known.map(|attached| attached.device).collect();
        let left = self.devices.labelled(&label(&self.config), &known);
        let detached = left.and_then(|left| left.into_iter().try_for_each(|device| self.devices.detach(device)));
        if let Err(error) = detached {
            warn!(%error, "loop devices that an earlier process left stay attached");
        }
    }

    /// The size of the devices of a stage after they got that of the disk. It asks the store.
    pub(super) fn grow_devices(&self, stage: &Stage) -> Result<u64, Status> {
        let of_disk =
            self.devices.disk_size(&stage.path).map_err(|error| failed("opening the volume's disk", error))?;
        for access in [Access::ReadWrite, Access::ReadOnly] {
            let Some(device) = self.working_device(stage, access)? else { continue };
            let grown = self.devices.grow(&stage.path, device);
            let size = grown.map_err(|error| failed(&format!("growing /dev/loop{}", device.number), error))?;
            if size < of_disk / 512 * 512 {
                return Err(Status::internal(format!(
                    "/dev/loop{} has {size} bytes and its disk has {of_disk}",
                    device.number
                )));
            }
        }
        Ok(of_disk)
    }

    /// The size of a staged block volume, if a device of it is attached.
    pub(super) fn device_size(&self, stage: &Stage) -> Option<u64> {
        self.records.devices(&stage.volume).into_iter().find_map(|known| self.devices.size(known.device))
    }
}

/// The number of the loop device whose node is mounted.
pub(super) fn device_number(mounted: &MountEntry) -> Option<u32> {
    let name = Path::new(&mounted.root).file_name()?.to_str()?;
    let is_node = mounted.fs_type == DEVICE_FS_TYPE || mounted.fs_type == "tmpfs";
    name.strip_prefix("loop").filter(|_| is_node)?.parse().ok()
}

fn failed(what: &str, error: io::Error) -> Status {
    match error.kind() {
        ErrorKind::PermissionDenied => Status::internal(format!(
            "{what} failed: {error}; block volumes need CAP_SYS_ADMIN and access to loop devices"
        )),
        _ => status::of(Error::io(what.to_owned(), error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nodes_of_loop_devices_are_recognized() {
        let number = |fs_type: &str, root: &str| {
            device_number(&MountEntry { fs_type: fs_type.into(), root: root.into(), ..MountEntry::default() })
        };
        assert_eq!(number("devtmpfs", "/loop12"), Some(12));
        assert_eq!(number("tmpfs", "/loop0"), Some(0), "the /dev of a container");
        assert_eq!(number("ext4", "/loop0"), None);
        assert_eq!(number("devtmpfs", "/sda"), None);
        assert_eq!(number("devtmpfs", "/loop-control"), None);
    }
}
