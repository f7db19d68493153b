//! Invalid CSI and COSI requests: names, sizes, parameters, paths and volume ids.

use std::collections::HashMap;

use proto::csi::v1::controller_client::ControllerClient;
use proto::csi::v1::node_client::NodeClient;
use proto::csi::v1::volume_capability::access_mode::Mode;
use proto::csi::v1::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use proto::csi::v1::volume_content_source::{SnapshotSource, Type, VolumeSource};
use proto::csi::v1::*;
use tonic::Code;
use tonic::transport::Channel;

use crate::support::grpc::refused;
use crate::support::*;

fn capability() -> VolumeCapability {
    VolumeCapability {
        access_mode: Some(AccessMode { mode: Mode::SingleNodeWriter.into() }),
        access_type: Some(AccessType::Mount(MountVolume::default())),
    }
}

fn create(name: &str) -> CreateVolumeRequest {
    CreateVolumeRequest { name: name.into(), volume_capabilities: vec![capability()], ..Default::default() }
}

fn range(required_bytes: i64, limit_bytes: i64) -> Option<CapacityRange> {
    Some(CapacityRange { required_bytes, limit_bytes })
}

fn source(source: Type) -> Option<VolumeContentSource> {
    Some(VolumeContentSource { r#type: Some(source) })
}

fn parameters(name: &str, value: &str) -> HashMap<String, String> {
    HashMap::from([(name.into(), value.into())])
}

fn with_mount(mount: MountVolume) -> Vec<VolumeCapability> {
    vec![VolumeCapability { access_type: Some(AccessType::Mount(mount)), ..capability() }]
}

async fn started() -> (Server, ControllerClient<Channel>, NodeClient<Channel>) {
    let server = Server::start();
    let channel = grpc::channel(&server.ready().socket("csi")).await;
    let mut controller = ControllerClient::new(channel.clone());
    let made = CreateVolumeRequest { capacity_range: range(1 << 20, 0), ..create("vol-1") };
    controller.create_volume(made).await.expect("made");
    (server, controller, NodeClient::new(channel))
}

#[tokio::test]
async fn invalid_volumes_are_refused() {
    let (server, mut controller, _) = started().await;
    let before = cli::listings(&server);
    let snapshot = |id: &str| source(Type::Snapshot(SnapshotSource { snapshot_id: id.into() }));
    let volume = |id: &str| source(Type::Volume(VolumeSource { volume_id: id.into() }));
    let block = VolumeCapability { access_type: Some(AccessType::Block(BlockVolume {})), ..capability() };
    let unknown = VolumeCapability { access_mode: None, ..capability() };
    let ext4 = with_mount(MountVolume { fs_type: "ext4".into(), ..Default::default() });
    let flags = with_mount(MountVolume { mount_flags: vec!["hard".into()], ..Default::default() });
    let new = || create("new");
    for (what, request, code, word) in [
        ("no name", create(""), Code::InvalidArgument, "name"),
        ("a name too long", create(&"n".repeat(129)), Code::InvalidArgument, "128"),
        ("a name with a control character", create("a\u{7}b"), Code::InvalidArgument, "control"),
        (
            "no capability",
            CreateVolumeRequest { volume_capabilities: vec![], ..new() },
            Code::InvalidArgument,
            "volume_capabilities",
        ),
        (
            "a block volume with versions",
            CreateVolumeRequest {
                volume_capabilities: vec![block],
                parameters: parameters("versioning", "enabled"),
                ..new()
            },
            Code::InvalidArgument,
            "versioning",
        ),
        (
            "a class whose bucket does not exist",
            CreateVolumeRequest { parameters: parameters("fromBucket", "absent"), ..new() },
            Code::NotFound,
            "absent",
        ),
        (
            "a policy for writers that does not exist",
            CreateVolumeRequest { parameters: parameters("secondWriter", "both"), ..new() },
            Code::InvalidArgument,
            "secondWriter",
        ),
        (
            "no access mode",
            CreateVolumeRequest { volume_capabilities: vec![unknown], ..new() },
            Code::InvalidArgument,
            "access_mode",
        ),
        (
            "another file system",
            CreateVolumeRequest { volume_capabilities: ext4, ..new() },
            Code::InvalidArgument,
            "ext4",
        ),
        (
            "an unknown mount flag",
            CreateVolumeRequest { volume_capabilities: flags, ..new() },
            Code::InvalidArgument,
            "option",
        ),
        ("a negative size", CreateVolumeRequest { capacity_range: range(-1, 0), ..new() }, Code::InvalidArgument, "-1"),
        (
            "a negative limit",
            CreateVolumeRequest { capacity_range: range(0, -5), ..new() },
            Code::InvalidArgument,
            "-5",
        ),
        (
            "a limit below the size",
            CreateVolumeRequest { capacity_range: range(10, 5), ..new() },
            Code::InvalidArgument,
            "10",
        ),
        (
            "an unknown parameter",
            CreateVolumeRequest { parameters: parameters("replicas", "3"), ..new() },
            Code::InvalidArgument,
            "replicas",
        ),
        (
            "a bad mode",
            CreateVolumeRequest { parameters: parameters("mode", "999"), ..new() },
            Code::InvalidArgument,
            "octal",
        ),
        (
            "a bad uid",
            CreateVolumeRequest { parameters: parameters("uid", "root"), ..new() },
            Code::InvalidArgument,
            "uid",
        ),
        (
            "mutable parameters",
            CreateVolumeRequest { mutable_parameters: parameters("iops", "1"), ..new() },
            Code::InvalidArgument,
            "StorageClass",
        ),
        (
            "an absent snapshot",
            CreateVolumeRequest { volume_content_source: snapshot("absent"), ..new() },
            Code::NotFound,
            "absent",
        ),
        (
            "an absent volume",
            CreateVolumeRequest { volume_content_source: volume("absent"), ..new() },
            Code::NotFound,
            "absent",
        ),
        (
            "a source without an id",
            CreateVolumeRequest { volume_content_source: snapshot(""), ..new() },
            Code::InvalidArgument,
            "snapshot_id",
        ),
        (
            "a name taken with another size",
            CreateVolumeRequest { capacity_range: range(2 << 20, 0), ..create("vol-1") },
            Code::AlreadyExists,
            "vol-1",
        ),
        (
            "a name taken with other parameters",
            CreateVolumeRequest { parameters: parameters("uid", "5"), ..create("vol-1") },
            Code::AlreadyExists,
            "vol-1",
        ),
    ] {
        refused(what, controller.create_volume(request).await, code, &[word]);
    }
    assert_eq!(cli::listings(&server), before);
}

#[tokio::test]
async fn calls_about_absent_resources_are_refused() {
    let (server, mut controller, mut node) = started().await;
    let before = cli::listings(&server);
    for id in ["absent", "Not_A_Volume", "../vol-1", "vol-1/../vol-1", "", &"v".repeat(300)] {
        let code = if id.is_empty() { Code::InvalidArgument } else { Code::NotFound };
        let get = ControllerGetVolumeRequest { volume_id: id.into() };
        refused(id, controller.controller_get_volume(get).await, code, &[id]);
        let publish = ControllerPublishVolumeRequest {
            volume_id: id.into(),
            node_id: "n".into(),
            volume_capability: Some(capability()),
            ..Default::default()
        };
        refused(id, controller.controller_publish_volume(publish).await, code, &[]);
        let expand =
            ControllerExpandVolumeRequest { volume_id: id.into(), capacity_range: range(1, 0), ..Default::default() };
        refused(id, controller.controller_expand_volume(expand).await, code, &[]);
        let validate = ValidateVolumeCapabilitiesRequest {
            volume_id: id.into(),
            volume_capabilities: vec![capability()],
            ..Default::default()
        };
        refused(id, controller.validate_volume_capabilities(validate).await, code, &[]);
        let snapshot = CreateSnapshotRequest { source_volume_id: id.into(), name: "snap".into(), ..Default::default() };
        refused(id, controller.create_snapshot(snapshot).await, code, &[]);
        let stats =
            NodeGetVolumeStatsRequest { volume_id: id.into(), volume_path: "/tmp/absent".into(), ..Default::default() };
        refused(id, node.node_get_volume_stats(stats).await, code, &[]);
        if !id.is_empty() {
            let delete = DeleteVolumeRequest { volume_id: id.into(), ..Default::default() };
            controller.delete_volume(delete).await.expect("deleting an absent volume succeeds");
        }
    }
    let elsewhere = ControllerPublishVolumeRequest {
        volume_id: "vol-1".into(),
        node_id: "another-node".into(),
        volume_capability: Some(capability()),
        ..Default::default()
    };
    let answer = controller.controller_publish_volume(elsewhere).await;
    refused("another node", answer, Code::NotFound, &["another-node"]);
    for (what, token, entries, code) in
        [("a foreign token", "page2", 0, Code::Aborted), ("a negative page", "", -1, Code::InvalidArgument)]
    {
        let volumes = ListVolumesRequest { max_entries: entries, starting_token: token.into() };
        refused(what, controller.list_volumes(volumes).await, code, &[]);
        let snapshots =
            ListSnapshotsRequest { max_entries: entries, starting_token: token.into(), ..Default::default() };
        refused(what, controller.list_snapshots(snapshots).await, code, &[]);
    }
    let parameters = parameters("compress", "yes");
    let snapshot = CreateSnapshotRequest {
        source_volume_id: "vol-1".into(),
        name: "snap".into(),
        parameters,
        ..Default::default()
    };
    refused("a parameter", controller.create_snapshot(snapshot).await, Code::InvalidArgument, &["compress"]);
    assert_eq!(cli::listings(&server), before);
}

#[tokio::test]
async fn sizes_never_shrink_and_snapshots_keep_their_volume() {
    let (server, mut controller, _) = started().await;
    controller.create_volume(create("vol-2")).await.expect("made");
    let snapshot = |volume: &str| CreateSnapshotRequest {
        source_volume_id: volume.into(),
        name: "snap-1".into(),
        ..Default::default()
    };
    controller.create_snapshot(snapshot("vol-1")).await.expect("taken");
    let before = cli::listings(&server);
    let answer = controller.create_snapshot(snapshot("vol-2")).await;
    refused("a snapshot's name taken by another volume's", answer, Code::AlreadyExists, &["snap-1"]);
    for (what, capacity_range, code) in [
        ("no size", None, Code::InvalidArgument),
        ("a negative size", range(-1, 0), Code::InvalidArgument),
        ("a limit below what it has", range(0, 1000), Code::OutOfRange),
    ] {
        let expand = ControllerExpandVolumeRequest { volume_id: "vol-1".into(), capacity_range, ..Default::default() };
        refused(what, controller.controller_expand_volume(expand).await, code, &[]);
    }
    let expand = ControllerExpandVolumeRequest {
        volume_id: "vol-1".into(),
        capacity_range: range(1000, 0),
        ..Default::default()
    };
    let kept = controller.controller_expand_volume(expand).await.expect("it is large enough").into_inner();
    assert_eq!(kept.capacity_bytes, 1 << 20);
    assert_eq!(cli::listings(&server), before);
}

#[tokio::test]
async fn invalid_paths_are_refused() {
    let (server, _, mut node) = started().await;
    let before = cli::listings(&server);
    let dir = server.home().path().join("staging");
    std::fs::create_dir(&dir).expect("made");
    let staging = dir.to_str().expect("UTF-8").to_owned();
    let dotted = format!("{staging}/../staging");
    for path in ["", "staging", "./staging", "/", &dotted] {
        let stage = NodeStageVolumeRequest {
            volume_id: "vol-1".into(),
            staging_target_path: path.into(),
            volume_capability: Some(capability()),
            ..Default::default()
        };
        refused(path, node.node_stage_volume(stage).await, Code::InvalidArgument, &["staging_target_path"]);
        let unstage = NodeUnstageVolumeRequest { volume_id: "vol-1".into(), staging_target_path: path.into() };
        refused(path, node.node_unstage_volume(unstage).await, Code::InvalidArgument, &["staging_target_path"]);
        let publish = NodePublishVolumeRequest {
            volume_id: "vol-1".into(),
            staging_target_path: staging.clone(),
            target_path: path.into(),
            volume_capability: Some(capability()),
            ..Default::default()
        };
        refused(path, node.node_publish_volume(publish).await, Code::InvalidArgument, &["target_path"]);
        let unpublish = NodeUnpublishVolumeRequest { volume_id: "vol-1".into(), target_path: path.into() };
        refused(path, node.node_unpublish_volume(unpublish).await, Code::InvalidArgument, &["target_path"]);
    }
    let target = server.home().path().join("target");
    let publish = NodePublishVolumeRequest {
        volume_id: "vol-1".into(),
        staging_target_path: staging.clone(),
        target_path: target.to_str().expect("UTF-8").into(),
        volume_capability: Some(capability()),
        ..Default::default()
    };
    refused("not staged", node.node_publish_volume(publish).await, Code::FailedPrecondition, &["vol-1", "stage"]);
    assert!(!target.exists());
    let absent = NodeStageVolumeRequest {
        volume_id: "vol-1".into(),
        staging_target_path: format!("{staging}/absent"),
        volume_capability: Some(capability()),
        ..Default::default()
    };
    refused("a folder that is not there", node.node_stage_volume(absent).await, Code::FailedPrecondition, &["absent"]);
    assert_eq!(cli::listings(&server), before);
    assert_eq!(cli::json(&server, &["status"])["mounts"], serde_json::json!([]));
}

#[tokio::test]
async fn invalid_cosi_buckets_are_refused() {
    use proto::cosi::v1alpha1::DriverCreateBucketRequest;
    use proto::cosi::v1alpha1::provisioner_client::ProvisionerClient;

    let (server, ..) = started().await;
    let mut cosi = ProvisionerClient::new(grpc::channel(&server.ready().socket("cosi")).await);
    let good = DriverCreateBucketRequest { name: "claim-1".into(), ..Default::default() };
    cosi.driver_create_bucket(good).await.expect("made, and the account that owns such buckets");
    let before = cli::listings(&server);
    for (name, word) in
        [("", "name"), ("Upper", "lower-case"), ("a_b", "lower-case"), ("ab", "3 to 63"), ("10.0.0.1", "IP address")]
    {
        let request = DriverCreateBucketRequest { name: name.into(), ..Default::default() };
        refused(name, cosi.driver_create_bucket(request).await, Code::InvalidArgument, &[word]);
    }
    let taken = DriverCreateBucketRequest { name: "vol-1".into(), ..Default::default() };
    refused("a volume's name", cosi.driver_create_bucket(taken).await, Code::AlreadyExists, &["vol-1"]);
    assert_eq!(cli::listings(&server), before);
}
