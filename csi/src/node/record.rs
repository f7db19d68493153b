//! Records of the volumes staged and published on this node, from which a new process rebuilds their mounts.
//!
//! - One JSON file for each stage and each target, readable by the node's user alone (0600). Where the store is in this
//!   process they hold no secrets, only the name and id of the account that owned the key. Where it is on another machine, a
//!   stage has the ticket, and the key of a Secret: a restarted node opens the volume with them.
//! - A record is written before its mount is made and removed after it is unmounted.
//! - Loop devices of a block volume are recorded after they are attached, and the record is removed after they are
//!   detached.
//! - Records of an earlier boot are removed at open, since their mounts are gone.
//! - The second line of a file is the SHA-256 of the first: a flipped bit must not show one volume in place of another.
//! - An unreadable file is skipped with a warning; the next stage or publish overwrites it.
//!
//! A crash leaves a record whose mount may be missing, dead or half bound; never a mount without its record. It may leave a
//! loop device without a record, which no target shows, and which is known by its label (`block.rs`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use objstore::Result;
use objstore::disk::Disk;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tracing::warn;

use super::inline::Inline;
use crate::bind::BindFlags;
use crate::capability::{AccessMode, Kind};
use crate::loop_device::{Access, Device};
use crate::mounter::MountOptions;
use crate::sealed::{seal, unseal};
use crate::volume_id::hex;

/// A volume mounted at its staging path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stage {
    /// The bucket's name; for an inline volume, the name that the bucket of its id would have.
    pub(super) volume: String,
    /// The bucket's id: a later bucket of the same name is a different volume.
    pub(super) bucket_id: u64,
    pub(super) path: PathBuf,
    pub(super) mode: AccessMode,
    #[serde(default)]
    pub(super) kind: Kind,
    /// Set for an inline volume, which is mounted at its target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) inline: Option<Inline>,
    pub(super) options: MountOptions,
}

impl Stage {
    /// The bucket that it shows.
    pub(super) fn bucket(&self) -> &str {
        self.inline.as_ref().map_or(&self.volume, |inline| &inline.bucket)
    }

    /// The group of the pods that it was made for.
    pub(super) fn group(&self) -> Option<u32> {
        self.options.gid.filter(|_| self.options.group_access)
    }

    /// Takes over the group of a stage that exists, unless a mount option names one.
    pub(super) fn keep_group_of(&mut self, known: &Self) {
        let is_free = |stage: &Self| stage.options.gid.is_none() || stage.options.group_access;
        if is_free(self) && is_free(known) {
            (self.options.gid, self.options.group_access) = (known.options.gid, known.options.group_access);
        }
    }

    /// Whether another stage is the same in everything but the ticket, which may change while the volume is staged. A stage of
    /// an earlier version does not say who keeps its locks.
    pub(super) fn is_alike(&self, other: &Self) -> bool {
        let credentials = |stage: &Self| stage.options.credentials.as_ref().map(|given| given.key.clone());
        let mut same = self.clone();
        same.options.credentials.clone_from(&other.options.credentials);
        same.options.node_locks = same.options.node_locks.or(other.options.node_locks);
        same == *other && credentials(self) == credentials(other)
    }
}

/// A staged volume shown at a target path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Target {
    /// The bucket's name.
    pub(super) volume: String,
    pub(super) path: PathBuf,
    pub(super) mode: AccessMode,
    #[serde(default)]
    pub(super) kind: Kind,
    pub(super) flags: BindFlags,
    #[serde(default)]
    pub(super) shown: Shown,
}

/// What a target shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Shown {
    /// The mount of the stage, or its device.
    #[default]
    Stage,
    /// A mount at the target itself, for another group than that of the stage.
    Own {
        /// The group.
        group: u32,
    },
}

/// A loop device over the disk of a staged block volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Attached {
    pub(super) device: Device,
    pub(super) access: Access,
    /// The device number of the mount that its file lies on. It is not used again while the loop device is attached.
    pub(super) mount: String,
}

/// The loop devices of a volume: at most one for each [`Access`].
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Devices {
    volume: String,
    attached: Vec<Attached>,
}

/// A record with the boot it belongs to.
#[derive(Serialize, Deserialize)]
struct Kept<T> {
    boot_id: String,
    #[serde(flatten)]
    record: T,
}

/// Why a target cannot be recorded.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Conflict {
    /// The volume is not staged, or no longer.
    NotStaged,
    /// One of the two has a mode for one target, and this is the other target.
    SingleTarget(PathBuf),
    /// The path shows another volume.
    Taken(Box<Target>),
}

/// The records of this node.
pub(super) struct Records {
    dir: PathBuf,
    disk: Arc<dyn Disk>,
    boot_id: String,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    stages: BTreeMap<String, Stage>,
    targets: BTreeMap<PathBuf, Target>,
    devices: BTreeMap<String, Vec<Attached>>,
}

impl Records {
    /// Reads the records in `dir`, which is created if absent.
    pub(super) fn open(dir: &Path, disk: Arc<dyn Disk>, boot_id: String) -> Result<Self> {
        disk.make_dir_all(dir)?;
        let records = Self { dir: dir.to_owned(), disk, boot_id, known: Mutex::default() };
        for name in records.disk.list(dir)? {
            records.load(&name)?;
        }
        Ok(records)
    }

    fn load(&self, name: &str) -> Result<()> {
        let path = self.dir.join(name);
        let Some((kind, _)) = name.split_once('-').filter(|_| name.ends_with(".json")) else { return Ok(()) };
        let content = self.disk.read_all(&path)?;
        match kind {
            "stage" => {
                let stage: Option<Stage> = self.current(&path, &content)?;
                self.known.lock().stages.extend(stage.map(|stage| (stage.volume.clone(), stage)));
            }
            "target" => {
                let target: Option<Target> = self.current(&path, &content)?;
                self.known.lock().targets.extend(target.map(|target| (target.path.clone(), target)));
            }
            "device" => {
                let devices: Option<Devices> = self.current(&path, &content)?;
                self.known.lock().devices.extend(devices.map(|known| (known.volume, known.attached)));
            }
            _ => {}
        }
        Ok(())
    }

    fn current<T: DeserializeOwned>(&self, path: &Path, content: &[u8]) -> Result<Option<T>> {
        match unseal::<Kept<T>>(content) {
            Ok(kept) if kept.boot_id == self.boot_id => Ok(Some(kept.record)),
            Ok(_) => self.disk.remove(path).map(|()| None),
            Err(why) => {
                warn!(path = %path.display(), why, "cannot read the record of a mount; it is skipped");
                Ok(None)
            }
        }
    }

    pub(super) fn stage(&self, volume: &str) -> Option<Stage> {
        self.known.lock().stages.get(volume).cloned()
    }

    pub(super) fn stages(&self) -> Vec<Stage> {
        self.known.lock().stages.values().cloned().collect()
    }

    /// The volume staged at `path`.
    pub(super) fn staged_at(&self, path: &Path) -> Option<Stage> {
        self.known.lock().stages.values().find(|stage| stage.path == path).cloned()
    }

    pub(super) fn target(&self, path: &Path) -> Option<Target> {
        self.known.lock().targets.get(path).cloned()
    }

    pub(super) fn targets(&self, volume: &str) -> Vec<Target> {
        self.known.lock().targets.values().filter(|target| target.volume == volume).cloned().collect()
    }

    /// The loop devices of a volume.
    pub(super) fn devices(&self, volume: &str) -> Vec<Attached> {
        self.known.lock().devices.get(volume).cloned().unwrap_or_default()
    }

    /// The loop devices of all volumes, by volume.
    pub(super) fn all_devices(&self) -> Vec<(String, Vec<Attached>)> {
        self.known.lock().devices.iter().map(|(volume, attached)| (volume.clone(), attached.clone())).collect()
    }

    /// Records the loop devices of a volume. The caller holds the volume's lock.
    pub(super) fn put_devices(&self, volume: &str, attached: &[Attached]) -> Result<()> {
        let file = self.dir.join(format!("device-{volume}.json"));
        let mut known = self.known.lock();
        if attached.is_empty() {
            self.disk.remove(&file)?;
            known.devices.remove(volume);
            return Ok(());
        }
        self.write(&file, &Devices { volume: volume.to_owned(), attached: attached.to_vec() })?;
        known.devices.insert(volume.to_owned(), attached.to_vec());
        Ok(())
    }

    /// Records a stage. The caller holds the volume's lock.
    pub(super) fn put_stage(&self, stage: &Stage) -> Result<()> {
        self.write(&self.stage_file(&stage.volume), stage)?;
        self.known.lock().stages.insert(stage.volume.clone(), stage.clone());
        Ok(())
    }

    /// Closes a stage to new targets; refused with its first target while it has one. Its file stays until
    /// [`Records::forget_stage`]. The caller holds the volume's lock.
    pub(super) fn close_stage(&self, volume: &str) -> Result<Option<Stage>, Target> {
        let mut known = self.known.lock();
        match known.targets.values().find(|target| target.volume == volume) {
            Some(target) => Err(target.clone()),
            None => Ok(known.stages.remove(volume)),
        }
    }

    /// Removes the record of a stage. The caller holds the volume's lock.
    pub(super) fn forget_stage(&self, volume: &str) -> Result<()> {
        self.disk.remove(&self.stage_file(volume))?;
        self.known.lock().stages.remove(volume);
        Ok(())
    }

    /// Records a target unless it conflicts with another. The caller holds the target's lock.
    pub(super) fn claim_target(&self, target: &Target) -> Result<Result<(), Conflict>> {
        {
            let mut known = self.known.lock();
            if let Some(conflict) = known.conflict(target) {
                return Ok(Err(conflict));
            }
            // Added to the map before it is written, so that a second claim for a single writer sees it.
            known.targets.insert(target.path.clone(), target.clone());
        }
        let written = self.write(&self.target_file(&target.path), target);
        if written.is_err() {
            self.known.lock().targets.remove(&target.path);
        }
        written.map(Ok)
    }

    /// Removes the record of a target. The caller holds the target's lock.
    pub(super) fn forget_target(&self, path: &Path) -> Result<()> {
        self.disk.remove(&self.target_file(path))?;
        self.known.lock().targets.remove(path);
        Ok(())
    }

    fn write<T: Serialize + Clone>(&self, path: &Path, record: &T) -> Result<()> {
        let kept = Kept { boot_id: self.boot_id.clone(), record: record.clone() };
        self.disk.write_atomic(path, seal(&kept)?.as_bytes(), 0o600)
    }

    fn stage_file(&self, volume: &str) -> PathBuf {
        self.dir.join(format!("stage-{volume}.json"))
    }

    /// The record's file. A path may be longer than a file name, so it is hashed.
    fn target_file(&self, path: &Path) -> PathBuf {
        let hash = hex(&Sha256::digest(path.as_os_str().as_encoded_bytes()));
        self.dir.join(format!("target-{hash}.json"))
    }
}

impl Known {
    fn conflict(&self, new: &Target) -> Option<Conflict> {
        if !self.stages.contains_key(&new.volume) {
            return Some(Conflict::NotStaged);
        }
        if let Some(found) = self.targets.get(&new.path) {
            return (found != new).then(|| Conflict::Taken(Box::new(found.clone())));
        }
        let single = |target: &Target| target.mode.has_one_target();
        let mut others = self.targets.values().filter(|target| target.volume == new.volume);
        let other = others.find(|other| single(other) || single(new))?;
        Some(Conflict::SingleTarget(other.path.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use objstore::disk::RealDisk;

    fn open(dir: &Path, boot_id: &str) -> Records {
        Records::open(dir, Arc::new(RealDisk::new()), boot_id.into()).unwrap()
    }

    fn stage(volume: &str) -> Stage {
        let options = MountOptions { account: Some("alice".into()), ..Default::default() };
        let path = PathBuf::from("/staging").join(volume);
        Stage {
            volume: volume.into(),
            bucket_id: 1,
            path,
            mode: AccessMode::SingleNodeWriter,
            kind: Kind::Mount,
            inline: None,
            options,
        }
    }

    fn target(volume: &str, path: &str, mode: AccessMode) -> Target {
        let (volume, path) = (volume.into(), path.into());
        Target { volume, path, mode, kind: Kind::Mount, flags: BindFlags::default(), shown: Shown::Stage }
    }

    #[test]
    fn records_survive_the_process_but_not_the_machine() {
        let dir = tempfile::tempdir().unwrap();
        let records = open(dir.path(), "boot-1");
        records.put_stage(&stage("vol")).unwrap();
        let at = target("vol", "/pods/a", AccessMode::SingleNodeWriter);
        records.claim_target(&at).unwrap().unwrap();

        let device = Device { number: 3, sequence: 9 };
        let attached = [Attached { device, access: Access::ReadWrite, mount: "0:50".into() }];
        records.put_devices("vol", &attached).unwrap();

        let again = open(dir.path(), "boot-1");
        assert_eq!((again.devices("vol"), again.all_devices().len()), (attached.to_vec(), 1));
        assert_eq!((again.stage("vol"), again.target(Path::new("/pods/a"))), (Some(stage("vol")), Some(at)));
        let rebooted = open(dir.path(), "boot-2");
        assert_eq!((rebooted.stages().len(), rebooted.targets("vol").len()), (0, 0));
        assert_eq!(rebooted.devices("vol"), []);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_is_struck_out_stays_out() {
        let dir = tempfile::tempdir().unwrap();
        let records = open(dir.path(), "boot");
        records.put_stage(&stage("vol")).unwrap();
        records.claim_target(&target("vol", "/a", AccessMode::SingleNodeWriter)).unwrap().unwrap();
        assert_eq!(records.close_stage("vol").unwrap_err().path, Path::new("/a"));
        records.forget_target(Path::new("/a")).unwrap();
        assert_eq!(records.close_stage("vol"), Ok(Some(stage("vol"))));
        let claim = records.claim_target(&target("vol", "/b", AccessMode::SingleNodeWriter)).unwrap();
        assert_eq!(claim, Err(Conflict::NotStaged));
        assert!(open(dir.path(), "boot").stage("vol").is_some(), "the file stays until the mount is gone");
        records.forget_stage("vol").unwrap();
        assert_eq!(open(dir.path(), "boot").stage("vol"), None);
    }

    #[test]
    fn the_mode_of_a_volume_says_whether_it_has_one_target() {
        let dir = tempfile::tempdir().unwrap();
        let records = open(dir.path(), "boot");
        records.put_stage(&stage("vol")).unwrap();
        records.put_stage(&stage("other")).unwrap();
        for mode in [AccessMode::SingleNodeSingleWriter, AccessMode::SingleNodeWriter, AccessMode::SingleNodeReaderOnly]
        {
            let single = |path| target("vol", path, mode);
            records.claim_target(&single("/a")).unwrap().unwrap();
            records.claim_target(&single("/a")).unwrap().unwrap();
            let refused = records.claim_target(&single("/b")).unwrap();
            assert_eq!(refused, Err(Conflict::SingleTarget("/a".into())));
            let refused = records.claim_target(&target("vol", "/b", AccessMode::SingleNodeMultiWriter)).unwrap();
            assert_eq!(refused, Err(Conflict::SingleTarget("/a".into())));
            let refused = records.claim_target(&target("other", "/a", AccessMode::SingleNodeWriter)).unwrap();
            assert_eq!(refused, Err(Conflict::Taken(Box::new(single("/a")))));
            records.forget_target(Path::new("/a")).unwrap();
        }
        for mode in [
            AccessMode::SingleNodeMultiWriter,
            AccessMode::MultiNodeReaderOnly,
            AccessMode::MultiNodeSingleWriter,
            AccessMode::MultiNodeMultiWriter,
        ] {
            for path in ["/a", "/b"] {
                records.claim_target(&target("vol", path, mode)).unwrap().unwrap();
            }
            for path in ["/a", "/b"] {
                records.forget_target(Path::new(path)).unwrap();
            }
        }
    }

    #[test]
    fn a_damaged_record_does_not_stop_the_node() {
        let dir = tempfile::tempdir().unwrap();
        open(dir.path(), "boot").put_stage(&stage("vol")).unwrap();
        std::fs::write(dir.path().join("stage-bad.json"), "{").unwrap();
        std::fs::write(dir.path().join("stage-half.json.tmp"), "{").unwrap();
        assert_eq!(open(dir.path(), "boot").stages(), [stage("vol")]);
    }

    #[test]
    fn a_flipped_bit_never_makes_another_record() {
        let dir = tempfile::tempdir().unwrap();
        open(dir.path(), "boot").put_stage(&stage("vol")).unwrap();
        let file = dir.path().join("stage-vol.json");
        let whole = std::fs::read(&file).unwrap();
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut damaged = whole.clone();
                damaged[at] ^= 1 << bit;
                std::fs::write(&file, &damaged).unwrap();
                assert_eq!(open(dir.path(), "boot").stages(), [], "bit {bit} of byte {at}");
            }
            std::fs::write(&file, &whole[..at]).unwrap();
            assert_eq!(open(dir.path(), "boot").stages(), [], "the first {at} bytes");
        }
    }
}
