//! Block volumes: a device over a file of the store, on the real kernel.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use proto::csi::v1::volume_usage::Unit;
use rustix::mount::{UnmountFlags, unmount};
use tonic::Code;

use super::*;
use crate::support::access::{read, root_client};
use crate::support::cli::check_store;
use crate::support::grpc::refused;

pub(super) const MIB: usize = 1 << 20;
/// How long a tool may take.
const LIMIT: Duration = Duration::from_secs(120);

/// What block volumes need of the machine, or the reason of a skip.
pub(crate) fn devices() -> Result<(), String> {
    root_and_fuse()?;
    match fs::metadata("/sys/devices/virtual/misc/loop-control") {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("block volumes need loop devices ({error}): modprobe loop")),
    }
}

/// The loop devices over files in a server's folder, or over files that are mounted nowhere any more.
pub(super) fn loops_below(driver: &Driver) -> Vec<String> {
    let home = text(driver.server.home().path());
    let devices = fs::read_dir("/sys/block").expect("block devices").flatten();
    let files = devices.filter_map(|device| fs::read_to_string(device.path().join("loop/backing_file")).ok());
    files.filter(|file| file.contains(&home)).collect()
}

fn block() -> VolumeCapability {
    let access_type = Some(AccessType::Block(volume_capability::BlockVolume {}));
    VolumeCapability { access_type, ..capability(Mode::MultiNodeMultiWriter) }
}

impl Driver {
    pub(crate) async fn create_block(&mut self, name: &str, mib: usize, snapshot: Option<&str>) -> String {
        let source = snapshot
            .map(|id| VolumeContentSource { r#type: Some(Type::Snapshot(SnapshotSource { snapshot_id: id.into() })) });
        let request = CreateVolumeRequest {
            name: name.into(),
            capacity_range: Some(CapacityRange { required_bytes: bytes(mib), limit_bytes: 0 }),
            volume_capabilities: vec![block()],
            volume_content_source: source,
            ..Default::default()
        };
        let made = self.controller.create_volume(request).await.expect("made").into_inner();
        made.volume.expect("in the answer").volume_id
    }

    async fn publish_block(&mut self, volume: &str, target: &str, readonly: bool) -> Result<PathBuf, Status> {
        let path = self.path("targets").join(target);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        let request = NodePublishVolumeRequest {
            volume_id: volume.into(),
            staging_target_path: self.staging(volume),
            target_path: text(&path),
            volume_capability: Some(block()),
            readonly,
            ..Default::default()
        };
        self.node.node_publish_volume(request).await.map(|_| path)
    }

    /// Stages and publishes a block volume; the path of its device. `context`: of a publication to the node.
    pub(crate) async fn device(&mut self, volume: &str, context: &HashMap<String, String>) -> PathBuf {
        let request = staging(volume, &self.staging(volume), context);
        self.node.node_stage_volume(request.clone()).await.expect("staged");
        self.node.node_stage_volume(request).await.expect("staged again");
        self.publish_block(volume, volume, false).await.expect("published")
    }

    pub(super) async fn grow(&mut self, volume: &str, mib: usize) {
        let capacity_range = Some(CapacityRange { required_bytes: bytes(mib), limit_bytes: 0 });
        let request = ControllerExpandVolumeRequest { volume_id: volume.into(), capacity_range, ..Default::default() };
        let grown = self.controller.controller_expand_volume(request).await.expect("grown").into_inner();
        assert!(grown.node_expansion_required && grown.capacity_bytes == bytes(mib), "{grown:?}");
        let volume_path = text(&self.path("targets").join(volume));
        let request =
            NodeExpandVolumeRequest { volume_id: volume.into(), volume_path, capacity_range, ..Default::default() };
        let grown = self.node.node_expand_volume(request).await.expect("grown on the node").into_inner();
        assert_eq!(grown.capacity_bytes, bytes(mib));
    }

    /// Takes a block volume down, and checks that nothing of it is left.
    pub(crate) async fn remove_block(&mut self, volume: &str) {
        for _ in 0..2 {
            self.unpublish(volume, volume).await;
        }
        assert_eq!(loops_below(self), Vec::<String>::new());
        for _ in 0..2 {
            self.unstage(volume).await;
        }
        self.delete(volume).await;
    }

    async fn stats_of(&mut self, volume: &str) -> NodeGetVolumeStatsResponse {
        let volume_path = text(&self.path("targets").join(volume));
        let request = NodeGetVolumeStatsRequest { volume_id: volume.into(), volume_path, ..Default::default() };
        self.node.node_get_volume_stats(request).await.expect("stats").into_inner()
    }
}

fn staging(volume: &str, path: &str, context: &HashMap<String, String>) -> NodeStageVolumeRequest {
    NodeStageVolumeRequest {
        volume_id: volume.into(),
        staging_target_path: path.into(),
        volume_capability: Some(block()),
        publish_context: context.clone(),
        ..Default::default()
    }
}

fn bytes(mib: usize) -> i64 {
    i64::try_from(mib * MIB).expect("a size")
}

/// Opens a device as programs do that bypass the page cache, as databases and virtual machines.
pub(crate) fn open(device: &Path) -> File {
    let direct = i32::try_from(rustix::fs::OFlags::DIRECT.bits()).expect("a flag");
    File::options().read(true).write(true).custom_flags(direct).open(device).expect("opened")
}

/// Bytes that lie as direct I/O needs them.
fn pages(len: usize) -> (Vec<u8>, usize) {
    let bytes = vec![0_u8; len + 4096];
    let skip = bytes.as_ptr().align_offset(4096);
    (bytes, skip)
}

pub(crate) fn write_direct(device: &File, offset: u64, content: &[u8]) -> std::io::Result<()> {
    let (mut bytes, skip) = pages(content.len());
    bytes[skip..skip + content.len()].copy_from_slice(content);
    device.write_all_at(&bytes[skip..skip + content.len()], offset)
}

pub(crate) fn read_direct(device: &File, offset: u64, len: usize) -> std::io::Result<Vec<u8>> {
    let (mut bytes, skip) = pages(len);
    device.read_exact_at(&mut bytes[skip..skip + len], offset)?;
    Ok(bytes[skip..skip + len].to_vec())
}

fn size(device: &Path) -> u64 {
    File::open(device).and_then(|mut device| device.seek(SeekFrom::End(0))).expect("a size")
}

/// Content of this length that differs from block to block.
pub(super) fn content(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at / 512) as u8 ^ (at % 251) as u8 ^ seed).collect()
}

#[track_caller]
pub(crate) fn succeed(command: &mut Command) -> String {
    let outcome = run(command, LIMIT).unwrap_or_else(|error| panic!("{error}"));
    assert!(outcome.status.success(), "{outcome}");
    outcome.stdout
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_and_an_object_have_the_same_bytes() {
    need!(devices());
    let mut driver = Driver::start().await;
    let volume = driver.create_block("pvc-1", 16, None).await;
    let device = driver.device(&volume, &HashMap::new()).await;
    assert!(fs::metadata(&device).expect("there").file_type().is_block_device());
    assert_eq!(size(&device), 16 << 20);
    let s3 = root_client(&driver.server);
    assert!(read(&s3, &volume, "disk.img").await == vec![0; 16 * MIB], "a new disk is zeros");

    let new = content(MIB, 1);
    let open_device = open(&device);
    write_direct(&open_device, 8192, &new).expect("written");
    let image = read(&s3, &volume, "disk.img").await;
    assert!(
        image[8192..8192 + MIB] == new && image[..8192].iter().all(|&byte| byte == 0),
        "the write is in the object"
    );
    // A sector is the smallest write.
    write_direct(&open_device, 512, &[7; 512]).expect("written");
    assert!(read_direct(&open_device, 0, 1536).expect("read")[512..1024] == [7; 512]);

    let narrow = driver.publish_block(&volume, "narrow", true).await.expect("published");
    let mut first = vec![0; 1024];
    File::open(&narrow).and_then(|mut device| device.read_exact(&mut first)).expect("read");
    assert!(first[512..] == [7; 512]);
    let refused_write = File::options().write(true).open(&narrow).and_then(|device| device.write_all_at(&[0; 512], 0));
    assert!(refused_write.is_err(), "a read-only device is not written");
    let other = driver.publish_block(&volume, "narrow", false).await;
    refused("published with another readonly", other.map(Response::new), Code::AlreadyExists, &["narrow"]);
    driver.unpublish(&volume, "narrow").await;

    let stats = driver.stats_of(&volume).await;
    let [usage] = &stats.usage[..] else { panic!("{stats:?}") };
    assert_eq!((usage.unit(), usage.total), (Unit::Bytes, bytes(16)));
    driver.grow(&volume, 32).await;
    assert_eq!(size(&device), 32 << 20, "an open device grows");
    write_direct(&open_device, (32 << 20) - 512, &[9; 512]).expect("the new end is written");
    assert_eq!(driver.stats_of(&volume).await.usage[0].total, bytes(32));
    drop(open_device);
    driver.remove_block(&volume).await;
    assert!(mounts_below(&driver).is_empty(), "{:?}", mounts_below(&driver));
    assert_eq!(driver.server.terminate().code(), Some(0));
    check_store(&driver.server);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_stays_within_its_quota_and_discards_give_space_back() {
    need!(devices());
    let discard = need!(required("blkdiscard"));
    let mut driver = Driver::start().await;
    let volume = driver.create_block("pvc-1", 16, None).await;
    let device = driver.device(&volume, &HashMap::new()).await;
    let blocks =
        |driver: &Driver| fs::metadata(Path::new(&driver.staging(&volume)).join("disk.img")).expect("there").blocks();
    assert_eq!(blocks(&driver), 0, "a new disk takes no space");
    let opened = open(&device);
    for at in 0..16 {
        write_direct(&opened, at << 20, &content(MIB, at as u8)).expect("the whole disk is written");
    }
    rustix::fs::fsync(&opened).expect("synced");
    assert!(blocks(&driver) >= 16 << 11, "{}", blocks(&driver));
    let snapshot = driver.snapshot(&volume, "snap-1").await;
    for at in 0..4 {
        write_direct(&opened, at << 20, &content(MIB, 100 + at as u8))
            .expect("the disk is overwritten under a snapshot");
    }
    let size = (8 * MIB).to_string();
    succeed(Command::new(discard).args(["-f", "-o", "0", "-l", &size]).arg(&device));
    assert!(read_direct(&opened, 0, MIB).expect("read").iter().all(|&byte| byte == 0), "what is discarded is zeros");
    assert!(read_direct(&opened, 8 << 20, MIB).expect("read") == content(MIB, 8));
    rustix::fs::fsync(&opened).expect("synced");
    assert!(blocks(&driver) <= 9 << 11, "{}", blocks(&driver));
    drop(opened);

    let copy = driver.create_block("pvc-2", 24, Some(&snapshot)).await;
    let past = driver.device(&copy, &HashMap::new()).await;
    assert_eq!(self::size(&past), 24 << 20, "a copy may be larger");
    let opened = open(&past);
    for at in 0..16 {
        assert!(read_direct(&opened, at << 20, MIB).expect("read") == content(MIB, at as u8), "MiB {at}");
    }
    assert!(read_direct(&opened, 16 << 20, MIB).expect("read").iter().all(|&byte| byte == 0));
    write_direct(&opened, 0, &[1; 4096]).expect("a copy is written");
    drop(opened);
    driver.unpublish(&volume, &volume).await;
    driver.unstage(&volume).await;
    driver.delete(&volume).await;
    driver.remove_block(&copy).await;
    assert_eq!(driver.server.terminate().code(), Some(0));
    check_store(&driver.server);
}

/// The server is killed while fio writes to a device and compares what it reads, and while files are written to a file
/// system on another; the holder keeps the mounts below.
#[tokio::test(flavor = "multi_thread")]
async fn devices_and_file_systems_on_them_survive_kills_of_the_server() {
    need!(devices());
    let (fio, mkfs, fsck) = (need!(required("fio")), need!(required("mkfs.ext4")), need!(required("fsck.ext4")));
    let mut driver = Driver::of(Options::default().holder().start()).await;
    let raw = driver.create_block("pvc-raw", 64, None).await;
    let raw_device = driver.device(&raw, &HashMap::new()).await;
    let formatted = driver.create_block("pvc-ext4", 64, None).await;
    let device = driver.device(&formatted, &HashMap::new()).await;
    succeed(Command::new(mkfs).args(["-q", "-F"]).arg(&device));
    let folder = driver.path("ext4");
    fs::create_dir(&folder).expect("made");
    succeed(Command::new("mount").args(["-t", "ext4"]).arg(text(&device)).arg(&folder));

    let kills = amount(5, 50);
    let seconds = (kills * 2).to_string();
    let mut verify = Command::new(fio);
    verify.args([
        "--name=verify",
        "--rw=randwrite",
        "--bs=4k",
        "--size=48m",
        "--direct=1",
        "--ioengine=libaio",
        "--iodepth=8",
    ]);
    verify.args([
        "--verify=crc32c",
        "--verify_fatal=1",
        "--verify_backlog=1024",
        "--verify_state_save=0",
        "--time_based",
    ]);
    verify.arg(format!("--runtime={seconds}")).arg(format!("--filename={}", raw_device.display()));
    let verifying = std::thread::spawn(move || run(&mut verify, limit(60 + 4 * kills as u64)));
    for cycle in 0..kills {
        std::thread::sleep(Duration::from_millis(700));
        let file = folder.join(format!("{cycle}"));
        let write = std::thread::spawn(move || {
            fs::write(&file, content(MIB, cycle as u8))
                .and_then(|()| File::open(&file))
                .and_then(|file| Ok(rustix::fs::fsync(file)?))
        });
        driver.server.kill9();
        driver.server.restart();
        write.join().expect("no panic").expect("a program on the file system does not notice");
        progress("kill -9 under block volumes", cycle + 1, kills);
    }
    let outcome = verifying.join().expect("no panic").unwrap_or_else(|error| panic!("{error}"));
    assert!(outcome.status.success(), "{outcome}");
    unmount(&folder, UnmountFlags::empty()).expect("unmounted");
    succeed(Command::new(fsck).args(["-f", "-n"]).arg(&device));
    succeed(Command::new("mount").args(["-t", "ext4", "-o", "ro"]).arg(text(&device)).arg(&folder));
    for cycle in 0..kills {
        assert!(fs::read(folder.join(format!("{cycle}"))).expect("there") == content(MIB, cycle as u8), "file {cycle}");
    }
    unmount(&folder, UnmountFlags::empty()).expect("unmounted");
    driver.reconnect().await;
    driver.unpublish(&raw, &raw).await;
    driver.unstage(&raw).await;
    driver.delete(&raw).await;
    driver.remove_block(&formatted).await;
    assert!(mounts_below(&driver).is_empty(), "{:?}", mounts_below(&driver));
    assert_eq!(driver.server.terminate().code(), Some(0));
    check_store(&driver.server);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_died_with_its_server_is_replaced_at_the_next_start() {
    need!(devices());
    let mut driver = Driver::start().await;
    let volume = driver.create_block("pvc-1", 16, None).await;
    let device = driver.device(&volume, &HashMap::new()).await;
    let opened = open(&device);
    write_direct(&opened, 0, &[5; 4096]).expect("written");
    driver.server.kill9();
    assert!(write_direct(&opened, 4096, &[6; 4096]).is_err(), "nothing serves the device, and nothing waits");
    driver.server.restart();
    driver.reconnect().await;
    let again = open(&device);
    assert!(read_direct(&again, 0, 4096).expect("read") == [5; 4096]);
    write_direct(&again, 4096, &[7; 4096]).expect("written");
    assert!(write_direct(&opened, 8192, &[6; 4096]).is_err(), "the old device stays dead for who has it open");
    drop((opened, again));
    driver.publish_block(&volume, &volume, false).await.expect("published already");
    driver.remove_block(&volume).await;
    assert!(mounts_below(&driver).is_empty(), "{:?}", mounts_below(&driver));
}

/// A block volume on another machine than its store.
struct Elsewhere {
    process: remote::Node,
    node: NodeClient<Channel>,
    staging: String,
    target: String,
}

impl Elsewhere {
    async fn start(driver: &mut Driver, listen: String, volume: &str) -> Self {
        let request = ControllerPublishVolumeRequest {
            volume_id: volume.into(),
            node_id: remote::NAME.into(),
            volume_capability: Some(block()),
            ..Default::default()
        };
        let published = driver.controller.controller_publish_volume(request).await.expect("published").into_inner();
        let process = remote::Node::start(listen, &[]);
        let mut node = NodeClient::new(grpc::channel(&process.socket()).await);
        let folder = driver.path("elsewhere");
        fs::create_dir_all(folder.join("staging")).expect("made");
        let (staging_path, target) = (text(&folder.join("staging")), text(&folder.join("target")));
        let stage = staging(volume, &staging_path, &published.publish_context);
        node.node_stage_volume(stage).await.expect("staged elsewhere");
        let request = NodePublishVolumeRequest {
            volume_id: volume.into(),
            staging_target_path: staging_path.clone(),
            target_path: target.clone(),
            volume_capability: Some(block()),
            ..Default::default()
        };
        node.node_publish_volume(request).await.expect("published elsewhere");
        Self { process, node, staging: staging_path, target }
    }

    async fn end(mut self, driver: &mut Driver, volume: &str) {
        let request = NodeUnpublishVolumeRequest { volume_id: volume.into(), target_path: self.target.clone() };
        self.node.node_unpublish_volume(request).await.expect("unpublished");
        let request = NodeUnstageVolumeRequest { volume_id: volume.into(), staging_target_path: self.staging.clone() };
        self.node.node_unstage_volume(request).await.expect("unstaged");
        let request = ControllerUnpublishVolumeRequest { volume_id: volume.into(), ..Default::default() };
        driver.controller.controller_unpublish_volume(request).await.expect("unpublished");
        drop(self.process);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_read_what_the_other_wrote_to_a_disk() {
    need!(devices());
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
    let listen = format!("127.0.0.1:{port}");
    let options = Options::default().args(["--volume-lease", "5s", "--volume-listen", &listen]);
    let mut driver = Driver::of(options.start()).await;
    let volume = driver.create_block("pvc-1", 16, None).await;
    let mut elsewhere = Elsewhere::start(&mut driver, listen, &volume).await;
    let here = open(&driver.device(&volume, &HashMap::new()).await);
    let there = open(Path::new(&elsewhere.target));
    for round in 0..100_u64 {
        let (writer, reader) = if round % 2 == 0 { (&here, &there) } else { (&there, &here) };
        let (offset, written) = (round % 7 * 4096, content(8192, round as u8));
        write_direct(writer, offset, &written).expect("written");
        assert!(read_direct(reader, offset, 8192).expect("read") == written, "round {round}");
    }
    driver.grow(&volume, 32).await;
    let capacity_range = Some(CapacityRange { required_bytes: bytes(32), limit_bytes: 0 });
    let volume_path = elsewhere.target.clone();
    let request =
        NodeExpandVolumeRequest { volume_id: volume.clone(), volume_path, capacity_range, ..Default::default() };
    elsewhere.node.node_expand_volume(request).await.expect("grown elsewhere");
    write_direct(&there, 31 << 20, &content(MIB, 3)).expect("the new end is written");
    assert!(read_direct(&here, 31 << 20, MIB).expect("read") == content(MIB, 3));
    drop((here, there));
    elsewhere.end(&mut driver, &volume).await;
    driver.remove_block(&volume).await;
    assert!(mounts_below(&driver).is_empty(), "{:?}", mounts_below(&driver));
}
