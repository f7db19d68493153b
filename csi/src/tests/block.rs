//! Block volumes: the guarantees of controller and node, with simulated loop devices.

use proto::csi::v1::node_server::Node as _;
use proto::csi::v1::volume_usage::Unit;

use super::node::{publish, stage};
use super::recovery::start_again;
use super::*;
use crate::capability::tests::block;
use crate::loop_device::{Access, Device, Devices};

/// The simulated loop devices.
#[derive(Default)]
pub(super) struct Loops {
    attached: BTreeMap<u32, Loop>,
    made: u64,
}

/// An attached device.
struct Loop {
    sequence: u64,
    access: Access,
    label: String,
    /// The device number of the mount its disk lies on.
    mount: String,
    bytes: u64,
}

impl Machine {
    /// The size of the disk in a mounted bucket.
    fn disk_bytes(&self, folder: &Path) -> io::Result<u64> {
        let mounted = self.top(folder).ok_or_else(|| io::Error::from_raw_os_error(2))?;
        match mounted.source.as_str() {
            "no-disk" => Err(io::Error::from_raw_os_error(2)),
            "odd-disk" => Ok(1000),
            _ => Ok(Some(self.disk_bytes.load(Ordering::Relaxed)).filter(|bytes| *bytes > 0).unwrap_or(8 << 20)),
        }
    }

    fn loops(&self) -> Vec<(u32, Access)> {
        self.loops.lock().attached.iter().map(|(number, device)| (*number, device.access)).collect()
    }

    fn shown(&self, at: &Path) -> Option<u32> {
        self.top(at)?.root.strip_prefix("/loop")?.parse().ok()
    }
}

impl Devices for Machine {
    fn attach(&self, folder: &Path, access: Access, label: &str) -> io::Result<Device> {
        assert!(label.len() < 64, "the kernel keeps 63 bytes");
        let (bytes, mounted) = (self.disk_bytes(folder)?, self.top(folder).expect("mounted"));
        if access == Access::ReadWrite && mounted.options.contains(&"ro".to_owned()) {
            return Err(io::Error::from_raw_os_error(30));
        }
        let mut loops = self.loops.lock();
        loops.made += 1;
        let sequence = loops.made;
        let number = (0..).find(|number| !loops.attached.contains_key(number)).expect("a free one");
        let device = Loop { sequence, access, label: label.to_owned(), mount: mounted.device, bytes };
        loops.attached.insert(number, device);
        Ok(Device { number, sequence })
    }

    fn size(&self, device: Device) -> Option<u64> {
        let loops = self.loops.lock();
        loops.attached.get(&device.number).filter(|found| found.sequence == device.sequence).map(|found| found.bytes)
    }

    fn grow(&self, folder: &Path, device: Device) -> io::Result<u64> {
        let bytes = self.disk_bytes(folder)?;
        self.loops.lock().attached.get_mut(&device.number).expect("attached").bytes = bytes;
        Ok(bytes)
    }

    fn detach(&self, device: Device) -> io::Result<()> {
        let mut loops = self.loops.lock();
        if loops.attached.get(&device.number).is_some_and(|found| found.sequence == device.sequence) {
            let gone = loops.attached.remove(&device.number).expect("attached");
            let mounts = self.mounts.lock();
            let is_mounted = mounts.values().flatten().any(|mounted| mounted.device == gone.mount);
            assert!(is_mounted, "a device is detached before its mount");
        }
        Ok(())
    }

    fn labelled(&self, label: &str, known: &[Device]) -> io::Result<Vec<Device>> {
        let loops = self.loops.lock();
        let found = loops.attached.iter().filter(|(_, found)| found.label == label);
        let found = found.map(|(number, found)| Device { number: *number, sequence: found.sequence });
        Ok(found.filter(|device| !known.contains(device)).collect())
    }

    fn show(&self, device: Device, target: &Path) -> io::Result<()> {
        if self.binds_fail.load(Ordering::Relaxed) {
            return Err(io::Error::from_raw_os_error(1));
        }
        let root = format!("/loop{}", device.number);
        let fs_type = "devtmpfs".into();
        self.push(target, MountEntry { device: "0:6".into(), fs_type, root, ..MountEntry::default() });
        Ok(())
    }

    fn disk_size(&self, folder: &Path) -> io::Result<u64> {
        self.disk_bytes(folder)
    }
}

const MIB: i64 = 1 << 20;

fn device() -> VolumeCapability {
    block(access_mode::Mode::MultiNodeMultiWriter)
}

pub(super) fn volume(name: &str, required_bytes: i64) -> CreateVolumeRequest {
    CreateVolumeRequest {
        name: name.into(),
        capacity_range: Some(CapacityRange { required_bytes, limit_bytes: 0 }),
        volume_capabilities: vec![device()],
        ..Default::default()
    }
}

fn copy_of(snapshot_id: &str, request: CreateVolumeRequest) -> CreateVolumeRequest {
    use volume_content_source::{SnapshotSource, Type};
    let source = Type::Snapshot(SnapshotSource { snapshot_id: snapshot_id.into() });
    CreateVolumeRequest { volume_content_source: Some(VolumeContentSource { r#type: Some(source) }), ..request }
}

impl Fixture {
    pub(super) async fn make_block(&self, request: CreateVolumeRequest) -> Result<Volume, Status> {
        Ok(self.controller.create_volume(Request::new(request)).await?.into_inner().volume.unwrap())
    }

    /// The size of a volume's disk, as S3 shows it.
    async fn disk(&self, volume: &str) -> u64 {
        let (store, volume) = (self.store.clone(), name(volume));
        let look = move || {
            let volume = store.open_volume(&volume, objstore::volume::VolumeOptions::default()).unwrap();
            volume.lookup(objstore::volume::ROOT_INO, "disk.img").unwrap().size
        };
        tokio::task::spawn_blocking(look).await.unwrap()
    }

    async fn stage_block(&self, volume: &str) -> Result<(), Status> {
        self.stage(NodeStageVolumeRequest { volume_capability: Some(device()), ..stage(self, volume) }).await
    }

    async fn publish_block(&self, volume: &str, target: &str, readonly: bool) -> Result<(), Status> {
        let request = publish(self, volume, target);
        self.publish(NodePublishVolumeRequest { volume_capability: Some(device()), readonly, ..request }).await
    }

    pub(super) async fn snapshot(&self, volume: &str, name: &str) -> String {
        let request =
            CreateSnapshotRequest { source_volume_id: volume.into(), name: name.into(), ..Default::default() };
        let taken = self.controller.create_snapshot(Request::new(request)).await.unwrap().into_inner();
        taken.snapshot.unwrap().snapshot_id
    }

    pub(super) async fn expand(
        &self,
        volume: &str,
        required_bytes: i64,
    ) -> Result<ControllerExpandVolumeResponse, Status> {
        let request = ControllerExpandVolumeRequest {
            volume_id: volume.into(),
            capacity_range: Some(CapacityRange { required_bytes, limit_bytes: 0 }),
            ..Default::default()
        };
        Ok(self.controller.controller_expand_volume(Request::new(request)).await?.into_inner())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_volume_has_a_disk_of_its_size_that_grows_with_it() {
    let f = fixture().await;
    for _ in 0..2 {
        let made = f.make_block(volume("pvc-1", 8 * MIB + 1)).await.unwrap();
        assert_eq!(made.capacity_bytes, 8 * MIB + 4096, "whole blocks");
    }
    assert_eq!(f.disk("pvc-1").await, (8 << 20) + 4096);
    assert_eq!(f.store.usage(&name("pvc-1")).unwrap().bytes, (8 << 20) + 4096, "the whole size is counted");
    for _ in 0..2 {
        let grown = f.expand("pvc-1", 16 * MIB).await.unwrap();
        assert!(grown.capacity_bytes == 16 * MIB && grown.node_expansion_required);
        assert_eq!(f.disk("pvc-1").await, 16 << 20);
    }
    f.expand("pvc-1", MIB).await.unwrap();
    assert_eq!(f.disk("pvc-1").await, 16 << 20, "a disk never shrinks");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_crash_left_of_a_new_block_volume_is_completed() {
    let f = fixture().await;
    f.make_block(volume("pvc-1", 8 * MIB)).await.unwrap();
    let store = f.store.clone();
    let remove = move || {
        let volume = store.open_volume(&name("pvc-1"), objstore::volume::VolumeOptions::default()).unwrap();
        volume.unlink(objstore::volume::ROOT_INO, "disk.img").unwrap();
    };
    tokio::task::spawn_blocking(remove).await.unwrap();
    f.make_block(volume("pvc-1", 8 * MIB)).await.unwrap();
    assert_eq!(f.disk("pvc-1").await, 8 << 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_is_for_blocks_or_for_mounts_for_ever() {
    let f = fixture().await;
    let mixed = CreateVolumeRequest { volume_capabilities: vec![writer(), device()], ..volume("mixed", MIB) };
    assert_eq!(code(f.make_block(mixed).await), Code::InvalidArgument);
    f.make_block(volume("blocks", MIB)).await.unwrap();
    f.create("files").await;
    let mounted = CreateVolumeRequest { volume_capabilities: vec![writer()], ..volume("blocks", MIB) };
    assert_eq!(code(f.make_block(mounted).await), Code::AlreadyExists);
    assert_eq!(code(f.stage(stage(&f, "blocks")).await), Code::FailedPrecondition);
    assert_eq!(code(f.stage_block("files").await), Code::FailedPrecondition);
    for (volume_id, capability, confirmed) in
        [("blocks", device(), true), ("blocks", writer(), false), ("files", device(), false), ("files", writer(), true)]
    {
        let publish = ControllerPublishVolumeRequest {
            volume_id: volume_id.into(),
            node_id: NODE.into(),
            volume_capability: Some(capability.clone()),
            ..Default::default()
        };
        assert_eq!(f.controller.controller_publish_volume(Request::new(publish)).await.is_ok(), confirmed);
        let validate = ValidateVolumeCapabilitiesRequest {
            volume_id: volume_id.into(),
            volume_capabilities: vec![capability],
            ..Default::default()
        };
        let answer = f.controller.validate_volume_capabilities(Request::new(validate)).await.unwrap().into_inner();
        assert_eq!(answer.confirmed.is_some(), confirmed, "{}", answer.message);
    }
    let versions = HashMap::from([("versioning".to_owned(), "enabled".to_owned())]);
    let refused = f.make_block(CreateVolumeRequest { parameters: versions, ..volume("versions", MIB) }).await;
    assert_eq!(code(refused), Code::InvalidArgument);
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_of_a_block_volume_are_block_volumes_and_may_be_larger() {
    let f = fixture().await;
    f.make_block(volume("pvc-1", 8 * MIB)).await.unwrap();
    let snapshot = f.snapshot("pvc-1", "snap-1").await;
    let copy = |name: &str, bytes| copy_of(&snapshot, volume(name, bytes));
    assert_eq!(f.make_block(copy("same", 0)).await.unwrap().capacity_bytes, 8 * MIB);
    f.make_block(copy("larger", 16 * MIB)).await.unwrap();
    assert_eq!((f.disk("same").await, f.disk("larger").await), (8 << 20, 16 << 20));
    assert_eq!(code(f.make_block(copy("smaller", 4 * MIB)).await), Code::OutOfRange);
    let mounted = CreateVolumeRequest { volume_capabilities: vec![writer()], ..copy("mounted", 8 * MIB) };
    assert_eq!(code(f.make_block(mounted).await), Code::InvalidArgument);
    assert_eq!(code(f.make_block(copy_of("absent", volume("lost", MIB))).await), Code::NotFound);
    f.create("files").await;
    let of_files = f.snapshot("files", "snap-2").await;
    assert_eq!(code(f.make_block(copy_of(&of_files, volume("from-files", MIB))).await), Code::InvalidArgument);
    assert!(f.store.bucket(&name("from-files")).is_err(), "nothing is left of it");
}

#[tokio::test(flavor = "multi_thread")]
async fn targets_share_a_device_which_goes_with_the_last_of_them() {
    let f = fixture().await;
    f.make_block(volume("pvc-1", 8 * MIB)).await.unwrap();
    for _ in 0..2 {
        f.stage_block("pvc-1").await.unwrap();
    }
    assert!(f.machine.options.lock()[&f.path("staging")].direct, "the mount caches nothing");
    assert_eq!(f.machine.loops(), []);
    for target in ["a", "b", "a"] {
        f.publish_block("pvc-1", target, false).await.unwrap();
    }
    assert_eq!(f.machine.loops(), [(0, Access::ReadWrite)]);
    f.publish_block("pvc-1", "reader", true).await.unwrap();
    assert_eq!(f.machine.loops(), [(0, Access::ReadWrite), (1, Access::ReadOnly)]);
    assert_eq!(["a", "b", "reader"].map(|target| f.machine.shown(&f.path(target))), [Some(0), Some(0), Some(1)]);
    assert!(std::fs::metadata(f.path("a")).unwrap().is_file());
    assert_eq!(code(f.unstage("pvc-1").await), Code::FailedPrecondition);
    for target in ["a", "reader", "reader"] {
        f.unpublish("pvc-1", target).await.unwrap();
    }
    assert_eq!(f.machine.loops(), [(0, Access::ReadWrite)]);
    f.unpublish("pvc-1", "b").await.unwrap();
    assert_eq!(f.machine.loops(), []);
    f.unstage("pvc-1").await.unwrap();
    assert_eq!((f.machine.count(), std::fs::read_dir(f.path("node")).unwrap().count()), (0, 0));
    assert!(!f.path("a").exists() && !f.path("reader").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_block_publish_that_fails_leaves_nothing_but_is_repeated() {
    let f = fixture().await;
    f.make_block(volume("pvc-1", 8 * MIB)).await.unwrap();
    f.stage_block("pvc-1").await.unwrap();
    f.machine.binds_fail.store(true, Ordering::Relaxed);
    assert!(f.publish_block("pvc-1", "target", false).await.is_err());
    assert!(!f.path("target").exists());
    f.machine.binds_fail.store(false, Ordering::Relaxed);
    std::fs::write(f.path("target"), "kept").unwrap();
    assert_eq!(code(f.publish_block("pvc-1", "target", false).await), Code::FailedPrecondition);
    f.unstage("pvc-1").await.unwrap();
    assert_eq!((f.machine.loops(), f.machine.count()), (vec![], 0));
    assert_eq!(std::fs::read(f.path("target")).unwrap(), b"kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_with_a_disk_image_is_a_block_volume_and_others_are_not() {
    let f = fixture().await;
    let secrets = f.foreign_bucket("images", Some(Mode::ReadWrite)).await;
    for (bucket, ok) in [("images", true), ("no-disk", false), ("odd-disk", false)] {
        if bucket != "images" {
            let request = objstore::store::CreateBucket {
                name: name(bucket),
                owner: "alice".into(),
                quota_bytes: None,
                versioning: objstore::store::Versioning::Disabled,
                source: None,
                attributes: BTreeMap::new(),
                root: objstore::store::RootAttributes::default(),
            };
            f.store.create_bucket(request).await.unwrap();
            f.store.add_grant(&name(bucket), "bob", Mode::ReadWrite).await.unwrap();
        }
        let request =
            NodeStageVolumeRequest { volume_capability: Some(device()), secrets: secrets.clone(), ..stage(&f, bucket) };
        match f.stage(request).await {
            Ok(()) => assert!(ok, "{bucket}"),
            Err(status) => {
                assert!(!ok && status.code() == Code::FailedPrecondition, "{bucket}: {status}");
                assert!(status.message().contains("disk.img"), "{status}");
            }
        }
        f.unstage(bucket).await.unwrap();
        assert_eq!(f.machine.count(), 0, "{bucket}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn devices_follow_the_disk_and_show_its_size() {
    let f = fixture().await;
    f.make_block(volume("pvc-1", 8 * MIB)).await.unwrap();
    f.stage_block("pvc-1").await.unwrap();
    f.publish_block("pvc-1", "target", false).await.unwrap();
    let expand = async |required_bytes| {
        let request = NodeExpandVolumeRequest {
            volume_id: "pvc-1".into(),
            volume_path: f.text("target"),
            capacity_range: Some(CapacityRange { required_bytes, limit_bytes: 0 }),
            ..Default::default()
        };
        Ok::<_, Status>(f.node.node_expand_volume(Request::new(request)).await?.into_inner().capacity_bytes)
    };
    assert_eq!(code(expand(16 * MIB).await), Code::OutOfRange, "the controller comes first");
    f.machine.disk_bytes.store(16 << 20, Ordering::Relaxed);
    assert_eq!(expand(16 * MIB).await.unwrap(), 16 * MIB);
    let stats = f.stats("pvc-1", &f.text("target")).await.unwrap();
    let [usage] = &stats.usage[..] else { panic!("{stats:?}") };
    assert_eq!((usage.unit(), usage.total, usage.used, usage.available), (Unit::Bytes, 16 * MIB, 0, 0));
    assert!(!stats.volume_condition.unwrap().abnormal);
    // The device is detached by hand.
    f.machine.loops.lock().attached.clear();
    assert!(f.stats("pvc-1", &f.text("target")).await.unwrap().volume_condition.unwrap().abnormal);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_node_keeps_working_devices_and_replaces_dead_ones() {
    let mut f = fixture().await;
    f.make_block(volume("pvc-1", 8 * MIB)).await.unwrap();
    f.stage_block("pvc-1").await.unwrap();
    f.publish_block("pvc-1", "target", false).await.unwrap();
    // A device that was attached and not recorded.
    let label = f.machine.loops.lock().attached[&0].label.clone();
    f.machine.attach(&f.path("staging"), Access::ReadWrite, &label).unwrap();
    f.machine.attach(&f.path("staging"), Access::ReadWrite, "another node's").unwrap();
    start_again(&mut f).await;
    assert_eq!(
        f.machine.loops.lock().attached.iter().map(|(number, found)| (*number, found.sequence)).collect::<Vec<_>>(),
        [(0, 1), (2, 3)]
    );
    assert_eq!(f.machine.shown(&f.path("target")), Some(0));
    f.machine.die();
    start_again(&mut f).await;
    let shown = f.machine.shown(&f.path("target")).unwrap();
    let mount = f.machine.top(&f.path("staging")).unwrap().device;
    assert_eq!(f.machine.loops.lock().attached[&shown].mount, mount, "the device is over the new mount");
    assert!(!f.stats("pvc-1", &f.text("target")).await.unwrap().volume_condition.unwrap().abnormal);
    f.unpublish("pvc-1", "target").await.unwrap();
    f.unstage("pvc-1").await.unwrap();
    assert_eq!(f.machine.loops().len(), 1, "the other node's");
}
