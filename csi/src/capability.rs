//! Volume capabilities: access mode and access type (CSI v1.12, VolumeCapability).
//!
//! - A volume is mounted or is a raw block device; no volume is both.

use proto::csi::v1::VolumeCapability;
use proto::csi::v1::volume_capability::{AccessType, MountVolume, access_mode::Mode};
use serde::{Deserialize, Serialize};
use tonic::Status;

use crate::mount_flags::MountFlags;

/// How many nodes and workloads may use a volume, and whether they may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum AccessMode {
    SingleNodeWriter,
    SingleNodeReaderOnly,
    SingleNodeSingleWriter,
    SingleNodeMultiWriter,
    MultiNodeReaderOnly,
    MultiNodeSingleWriter,
    MultiNodeMultiWriter,
}

/// Every mode with its name in the specification, under which publications are stored.
const MODES: [(AccessMode, Mode); 7] = [
    (AccessMode::SingleNodeWriter, Mode::SingleNodeWriter),
    (AccessMode::SingleNodeReaderOnly, Mode::SingleNodeReaderOnly),
    (AccessMode::SingleNodeSingleWriter, Mode::SingleNodeSingleWriter),
    (AccessMode::SingleNodeMultiWriter, Mode::SingleNodeMultiWriter),
    (AccessMode::MultiNodeReaderOnly, Mode::MultiNodeReaderOnly),
    (AccessMode::MultiNodeSingleWriter, Mode::MultiNodeSingleWriter),
    (AccessMode::MultiNodeMultiWriter, Mode::MultiNodeMultiWriter),
];

impl AccessMode {
    fn parse(mode: i32) -> Option<Self> {
        MODES.iter().find(|(_, theirs)| *theirs as i32 == mode).map(|(ours, _)| *ours)
    }

    /// The mode with this name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        MODES.iter().find(|(_, theirs)| theirs.as_str_name() == name).map(|(ours, _)| *ours)
    }

    /// The name in the specification.
    pub(crate) fn name(self) -> &'static str {
        MODES.iter().find(|(ours, _)| *ours == self).map_or("", |(_, theirs)| theirs.as_str_name())
    }

    /// Whether only one node may use the volume.
    pub(crate) fn is_single_node(self) -> bool {
        matches!(
            self,
            Self::SingleNodeWriter
                | Self::SingleNodeReaderOnly
                | Self::SingleNodeSingleWriter
                | Self::SingleNodeMultiWriter
        )
    }

    /// Whether more than one node may use the volume, and one of them may write: there a lock of one node has to exclude
    /// programs on another.
    pub(crate) fn needs_common_locks(self) -> bool {
        matches!(self, Self::MultiNodeSingleWriter | Self::MultiNodeMultiWriter)
    }

    /// Whether a volume is shown at one target only. The two modes before SINGLE_NODE_SINGLE_WRITER and
    /// SINGLE_NODE_MULTI_WRITER have its rules (CSI v1.12, NodePublishVolume).
    pub(crate) fn has_one_target(self) -> bool {
        self.is_single_node() && self != Self::SingleNodeMultiWriter
    }

    /// Whether the volume is read-only.
    pub(crate) fn is_read_only(self) -> bool {
        matches!(self, Self::SingleNodeReaderOnly | Self::MultiNodeReaderOnly)
    }
}

/// How workloads see a volume (VolumeCapability.access_type).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// As a mounted file system.
    #[default]
    Mount,
    /// As a block device.
    Block,
}

/// A supported capability.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Capability {
    pub(crate) mode: AccessMode,
    pub(crate) kind: Kind,
    pub(crate) flags: MountFlags,
    /// The group of the pods that use the volume (MountVolume.volume_mount_group); `None` if the mount option `gid=` names
    /// another one.
    pub(crate) group: Option<u32>,
}

impl Capability {
    /// Parses a capability.
    pub(crate) fn parse(given: Option<&VolumeCapability>) -> Result<Self, Status> {
        let given = given.ok_or_else(|| Status::invalid_argument("volume_capability is missing"))?;
        let mode = given.access_mode.as_ref().map_or(0, |access| access.mode);
        let mode = AccessMode::parse(mode)
            .ok_or_else(|| Status::invalid_argument("volume_capability.access_mode is missing or not known"))?;
        match &given.access_type {
            Some(AccessType::Mount(mount)) => {
                let (flags, group) = (mount_flags(mount)?, mount_group(mount)?);
                let group = group.filter(|_| flags.gid.is_none());
                Ok(Self { mode, kind: Kind::Mount, flags, group })
            }
            Some(AccessType::Block(_)) => {
                Ok(Self { mode, kind: Kind::Block, flags: MountFlags::default(), group: None })
            }
            None => Err(Status::invalid_argument("volume_capability.access_type is missing")),
        }
    }

    /// Parses a list of at least one capability, all of one kind.
    pub(crate) fn parse_all(given: &[VolumeCapability]) -> Result<Vec<Self>, Status> {
        if given.is_empty() {
            return Err(Status::invalid_argument("volume_capabilities is missing"));
        }
        let all: Vec<_> = given.iter().map(|capability| Self::parse(Some(capability))).collect::<Result<_, _>>()?;
        if all.iter().any(|capability| Some(capability.kind) != all.first().map(|first| first.kind)) {
            return Err(Status::invalid_argument(
                "volume_capabilities has both block and mount; a volume is one or the other, so request two volumes",
            ));
        }
        Ok(all)
    }
}

fn mount_flags(mount: &MountVolume) -> Result<MountFlags, Status> {
    if !matches!(mount.fs_type.as_str(), "" | "amphora") {
        return Err(Status::invalid_argument(format!(
            "fs_type \"{}\" is not supported; leave it out or use amphora",
            mount.fs_type
        )));
    }
    MountFlags::parse(&mount.mount_flags)
}

/// The group for which a volume is mounted. CSI v1.12, MountVolume.volume_mount_group.
fn mount_group(mount: &MountVolume) -> Result<Option<u32>, Status> {
    let given = mount.volume_mount_group.as_str();
    if given.is_empty() {
        return Ok(None);
    }
    let digits = given.bytes().all(|byte| byte.is_ascii_digit());
    // (gid_t) -1 stands for no group.
    let group = given.parse().ok().filter(|group| digits && *group != u32::MAX);
    group.map(Some).ok_or_else(|| {
        let given: String = given.chars().take(32).collect();
        Status::invalid_argument(format!(
            "volume_mount_group {given:?} is not valid: use the number of a group from 0 to 4294967294"
        ))
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proto::csi::v1::volume_capability::{AccessMode as Wire, BlockVolume};

    /// A capability to mount with `mode`.
    pub(crate) fn mount(mode: Mode) -> VolumeCapability {
        VolumeCapability {
            access_mode: Some(Wire { mode: mode.into() }),
            access_type: Some(AccessType::Mount(MountVolume::default())),
        }
    }

    /// A capability to use the volume as a device, with `mode`.
    pub(crate) fn block(mode: Mode) -> VolumeCapability {
        VolumeCapability { access_type: Some(AccessType::Block(BlockVolume {})), ..mount(mode) }
    }

    #[test]
    fn a_mount_group_is_a_number_and_the_option_gid_comes_first() {
        let parse = |group: &str, flags: &[&str]| {
            let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
            let mount = MountVolume { mount_flags: flags, volume_mount_group: group.into(), ..Default::default() };
            let access_type = Some(AccessType::Mount(mount));
            Capability::parse(Some(&VolumeCapability { access_type, ..self::mount(Mode::SingleNodeWriter) }))
        };
        assert_eq!(parse("", &[]).unwrap().group, None);
        assert_eq!(parse("2000", &["noexec"]).unwrap().group, Some(2000));
        let named = parse("2000", &["gid=7"]).unwrap();
        assert_eq!((named.group, named.flags.gid), (None, Some(7)));
        for bad in ["root", "-1", "+1", "4294967295", "1 ", "99999999999"] {
            assert_eq!(parse(bad, &[]).unwrap_err().code(), tonic::Code::InvalidArgument, "{bad}");
        }
    }

    #[test]
    fn every_mode_of_the_specification_is_known_by_its_name() {
        for (ours, theirs) in MODES {
            assert_eq!(Capability::parse(Some(&mount(theirs))).unwrap().mode, ours);
            let device = Capability::parse(Some(&block(theirs))).unwrap();
            assert_eq!((device.mode, device.kind), (ours, Kind::Block));
            assert_eq!(AccessMode::from_name(ours.name()), Some(ours));
        }
        assert_eq!(AccessMode::from_name("UNKNOWN"), None);
        assert_eq!(MODES.iter().filter(|(mode, _)| mode.is_single_node()).count(), 4);
        assert_eq!(MODES.iter().filter(|(mode, _)| mode.is_read_only()).count(), 2);
        assert_eq!(MODES.iter().filter(|(mode, _)| mode.needs_common_locks()).count(), 2);
    }

    #[test]
    fn what_volumes_cannot_be_is_refused() {
        let good = mount(Mode::SingleNodeWriter);
        let with_mount =
            |mount: MountVolume| VolumeCapability { access_type: Some(AccessType::Mount(mount)), ..good.clone() };
        let bad = [
            VolumeCapability::default(),
            mount(Mode::Unknown),
            VolumeCapability { access_mode: None, ..good.clone() },
            VolumeCapability { access_type: None, ..good.clone() },
            block(Mode::SingleNodeWriter),
            with_mount(MountVolume { fs_type: "ext4".into(), ..Default::default() }),
            with_mount(MountVolume { volume_mount_group: "staff".into(), ..Default::default() }),
            with_mount(MountVolume { mount_flags: vec!["sync".into()], ..Default::default() }),
        ];
        for capability in bad {
            let status = Capability::parse_all(&[good.clone(), capability]).unwrap_err();
            assert_eq!(status.code(), tonic::Code::InvalidArgument, "{status}");
        }
        assert!(Capability::parse_all(&[]).is_err() && Capability::parse(None).is_err());
    }
}
