//! Rules of the specification that hold for every call. CSI v1.12, Concurrency, Field Requirements and Error Scheme; and
//! conditions of single calls that no other test of this folder meets.

use proto::csi::v1::identity_server::Identity as _;
use proto::csi::v1::node_server::Node as _;
use proto::csi::v1::plugin_capability::{Type, service, volume_expansion};
use proto::csi::v1::snapshot_metadata_server::SnapshotMetadata as _;
use proto::csi::v1::{controller_service_capability as of_controller, node_service_capability as of_node};

use super::controller::{from_snapshot, volume};
use super::node::{publish, stage};
use super::*;
use crate::capability::tests::block;

const MIB: i64 = 1 << 20;

/// The status of a call of the service `$service` with a request of these fields.
macro_rules! refusal {
    ($service:expr, $call:ident, $request:ident { $($field:ident: $value:expr),* }) => {{
        let request = filled(|request: &mut $request| {
            $(request.$field = $value;)*
            let _ = request;
        });
        (stringify!($call), $service.$call(Request::new(request)).await.err().expect("refused"))
    }};
}

fn filled<T: Default>(fill: impl FnOnce(&mut T)) -> T {
    let mut request = T::default();
    fill(&mut request);
    request
}

/// Checks that a call without a required field is refused as the specification says, and in words.
#[track_caller]
fn check_missing((call, status): (&str, Status), field: &str) {
    assert_eq!(status.code(), Code::InvalidArgument, "{call}: {status}");
    assert!(status.message().contains(field), "{call} does not name {field}: {status}");
    assert!(status.details().is_empty(), "{call}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_required_field_of_the_controller_is_missed_by_its_name() {
    let f = fixture().await;
    let (c, name) = (&f.controller, || "pvc-1".to_owned());
    f.create("pvc-1").await;
    check_missing(refusal!(c, create_volume, CreateVolumeRequest { volume_capabilities: vec![writer()] }), "name");
    check_missing(refusal!(c, create_volume, CreateVolumeRequest { name: name() }), "volume_capabilities");
    for (lacking, field) in [
        (VolumeCapability { access_mode: None, ..writer() }, "access_mode"),
        (VolumeCapability { access_type: None, ..writer() }, "access_type"),
    ] {
        let request =
            refusal!(c, create_volume, CreateVolumeRequest { name: name(), volume_capabilities: vec![lacking] });
        check_missing(request, field);
    }
    check_missing(refusal!(c, delete_volume, DeleteVolumeRequest {}), "volume_id");
    let capability = || Some(writer());
    let node_id = || NODE.to_owned();
    let lacking = refusal!(
        c,
        controller_publish_volume,
        ControllerPublishVolumeRequest { node_id: node_id(), volume_capability: capability() }
    );
    check_missing(lacking, "volume_id");
    let lacking = refusal!(
        c,
        controller_publish_volume,
        ControllerPublishVolumeRequest { volume_id: name(), volume_capability: capability() }
    );
    check_missing(lacking, "node_id");
    let lacking = refusal!(
        c,
        controller_publish_volume,
        ControllerPublishVolumeRequest { volume_id: name(), node_id: node_id() }
    );
    check_missing(lacking, "volume_capability");
    check_missing(refusal!(c, controller_unpublish_volume, ControllerUnpublishVolumeRequest {}), "volume_id");
    let lacking = refusal!(
        c,
        validate_volume_capabilities,
        ValidateVolumeCapabilitiesRequest { volume_capabilities: vec![writer()] }
    );
    check_missing(lacking, "volume_id");
    let lacking = refusal!(c, validate_volume_capabilities, ValidateVolumeCapabilitiesRequest { volume_id: name() });
    check_missing(lacking, "volume_capabilities");
    check_missing(refusal!(c, controller_get_volume, ControllerGetVolumeRequest {}), "volume_id");
    let lacking = refusal!(c, controller_modify_volume, ControllerModifyVolumeRequest { volume_id: name() });
    check_missing(lacking, "mutable_parameters");
    check_missing(refusal!(c, controller_modify_volume, ControllerModifyVolumeRequest {}), "volume_id");
    let capacity_range = Some(CapacityRange { required_bytes: MIB, limit_bytes: 0 });
    let lacking =
        refusal!(c, controller_expand_volume, ControllerExpandVolumeRequest { capacity_range: capacity_range });
    check_missing(lacking, "volume_id");
    let lacking = refusal!(c, controller_expand_volume, ControllerExpandVolumeRequest { volume_id: name() });
    check_missing(lacking, "capacity_range");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_required_field_about_snapshots_is_missed_by_its_name() {
    let f = fixture().await;
    let c = &f.controller;
    f.create("pvc-1").await;
    let name = || "one".to_owned();
    check_missing(refusal!(c, create_snapshot, CreateSnapshotRequest { name: name() }), "source_volume_id");
    let lacking = refusal!(c, create_snapshot, CreateSnapshotRequest { source_volume_id: "pvc-1".to_owned() });
    check_missing(lacking, "name");
    check_missing(refusal!(c, delete_snapshot, DeleteSnapshotRequest {}), "snapshot_id");
    check_missing(refusal!(c, get_snapshot, GetSnapshotRequest {}), "snapshot_id");
    let source_volume_ids = || vec!["pvc-1".to_owned()];
    let lacking = refusal!(
        c,
        create_volume_group_snapshot,
        CreateVolumeGroupSnapshotRequest { source_volume_ids: source_volume_ids() }
    );
    check_missing(lacking, "name");
    let lacking = refusal!(c, create_volume_group_snapshot, CreateVolumeGroupSnapshotRequest { name: name() });
    check_missing(lacking, "source_volume_ids");
    let request =
        CreateVolumeGroupSnapshotRequest { name: name(), source_volume_ids: source_volume_ids(), ..Default::default() };
    c.create_volume_group_snapshot(Request::new(request)).await.unwrap();
    check_missing(refusal!(c, delete_volume_group_snapshot, DeleteVolumeGroupSnapshotRequest {}), "group_snapshot_id");
    check_missing(refusal!(c, get_volume_group_snapshot, GetVolumeGroupSnapshotRequest {}), "group_snapshot_id");
    // A list without a snapshot differs from that of the group.
    let lacking =
        refusal!(c, delete_volume_group_snapshot, DeleteVolumeGroupSnapshotRequest { group_snapshot_id: name() });
    check_missing(lacking, "snapshot");
    let lacking = refusal!(c, get_volume_group_snapshot, GetVolumeGroupSnapshotRequest { group_snapshot_id: name() });
    check_missing(lacking, "snapshot");
    check_missing(refusal!(c, get_metadata_allocated, GetMetadataAllocatedRequest {}), "snapshot_id");
    check_missing(refusal!(c, get_metadata_delta, GetMetadataDeltaRequest {}), "base_snapshot_id");
    f.snap("pvc-1", "base").await.unwrap();
    let base = "base".to_owned();
    check_missing(
        refusal!(c, get_metadata_delta, GetMetadataDeltaRequest { base_snapshot_id: base }),
        "target_snapshot_id",
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_required_field_of_the_node_is_missed_by_its_name() {
    let f = fixture().await;
    let n = &f.node;
    f.create("pvc-1").await;
    let (id, path, capability) = (|| "pvc-1".to_owned(), |at: &str| f.text(at), || Some(writer()));
    let lacking = refusal!(
        n,
        node_stage_volume,
        NodeStageVolumeRequest { staging_target_path: path("staging"), volume_capability: capability() }
    );
    check_missing(lacking, "volume_id");
    let lacking =
        refusal!(n, node_stage_volume, NodeStageVolumeRequest { volume_id: id(), volume_capability: capability() });
    check_missing(lacking, "staging_target_path");
    let lacking = refusal!(
        n,
        node_stage_volume,
        NodeStageVolumeRequest { volume_id: id(), staging_target_path: path("staging") }
    );
    check_missing(lacking, "volume_capability");
    let lacking = refusal!(n, node_unstage_volume, NodeUnstageVolumeRequest { staging_target_path: path("staging") });
    check_missing(lacking, "volume_id");
    check_missing(
        refusal!(n, node_unstage_volume, NodeUnstageVolumeRequest { volume_id: id() }),
        "staging_target_path",
    );
    f.stage(stage(&f, "pvc-1")).await.unwrap();
    let good = || publish(&f, "pvc-1", "target");
    for (request, code, field) in [
        (NodePublishVolumeRequest { volume_id: String::new(), ..good() }, Code::InvalidArgument, "volume_id"),
        (NodePublishVolumeRequest { target_path: String::new(), ..good() }, Code::InvalidArgument, "target_path"),
        (NodePublishVolumeRequest { volume_capability: None, ..good() }, Code::InvalidArgument, "volume_capability"),
        // The table of NodePublishVolume has another code for this one.
        (
            NodePublishVolumeRequest { staging_target_path: String::new(), ..good() },
            Code::FailedPrecondition,
            "staging_target_path",
        ),
    ] {
        let status = f.publish(request).await.unwrap_err();
        assert!(status.code() == code && status.message().contains(field), "{field}: {status}");
    }
    check_missing(
        refusal!(n, node_unpublish_volume, NodeUnpublishVolumeRequest { target_path: path("t") }),
        "volume_id",
    );
    check_missing(refusal!(n, node_unpublish_volume, NodeUnpublishVolumeRequest { volume_id: id() }), "target_path");
    check_missing(
        refusal!(n, node_get_volume_stats, NodeGetVolumeStatsRequest { volume_path: path("t") }),
        "volume_id",
    );
    check_missing(refusal!(n, node_get_volume_stats, NodeGetVolumeStatsRequest { volume_id: id() }), "volume_path");
    check_missing(refusal!(n, node_expand_volume, NodeExpandVolumeRequest { volume_path: path("t") }), "volume_id");
    check_missing(refusal!(n, node_expand_volume, NodeExpandVolumeRequest { volume_id: id() }), "volume_path");
}

/// CSI v1.12, Concurrency.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_call_for_what_is_worked_on_is_aborted() {
    let f = fixture().await;
    let (c, id) = (&f.controller, || "pvc-1".to_owned());
    f.create("pvc-1").await;
    let held = c.hold("pvc-1");
    let mutable_parameters = HashMap::from([("gid".to_owned(), "7".to_owned())]);
    let capacity_range = Some(CapacityRange { required_bytes: MIB, limit_bytes: 0 });
    let (node_id, volume_capability) = (NODE.to_owned(), Some(writer()));
    let refused = [
        refusal!(c, create_volume, CreateVolumeRequest { name: id(), volume_capabilities: vec![writer()] }),
        refusal!(c, delete_volume, DeleteVolumeRequest { volume_id: id() }),
        refusal!(
            c,
            controller_publish_volume,
            ControllerPublishVolumeRequest { volume_id: id(), node_id: node_id, volume_capability: volume_capability }
        ),
        refusal!(c, controller_unpublish_volume, ControllerUnpublishVolumeRequest { volume_id: id() }),
        refusal!(
            c,
            controller_modify_volume,
            ControllerModifyVolumeRequest { volume_id: id(), mutable_parameters: mutable_parameters }
        ),
        refusal!(
            c,
            controller_expand_volume,
            ControllerExpandVolumeRequest { volume_id: id(), capacity_range: capacity_range }
        ),
        refusal!(c, create_snapshot, CreateSnapshotRequest { name: id(), source_volume_id: id() }),
        refusal!(c, delete_snapshot, DeleteSnapshotRequest { snapshot_id: id() }),
    ];
    for (call, status) in refused {
        assert_eq!(status.code(), Code::Aborted, "{call}: {status}");
    }
    drop(held);
    let _held = c.hold("group/one");
    let (name, source_volume_ids) = ("one".to_owned(), vec![id()]);
    for (call, status) in [
        refusal!(
            c,
            create_volume_group_snapshot,
            CreateVolumeGroupSnapshotRequest { name: name.clone(), source_volume_ids: source_volume_ids }
        ),
        refusal!(
            c,
            delete_volume_group_snapshot,
            DeleteVolumeGroupSnapshotRequest { group_snapshot_id: name, snapshot_ids: vec![id()] }
        ),
    ] {
        assert_eq!(status.code(), Code::Aborted, "{call}: {status}");
    }
    f.remove("pvc-1").await.expect("nothing was left locked or half done");
}

/// CSI v1.12, GetPluginCapabilities, Probe, and the capabilities of the three services.
#[tokio::test(flavor = "multi_thread")]
async fn the_capabilities_are_these_and_no_others() {
    let f = fixture().await;
    let identity = crate::identity::Service::new(&config(f.dir.path()));
    let info = identity.get_plugin_info(Request::new(GetPluginInfoRequest {})).await.unwrap().into_inner();
    assert_eq!((info.name.as_str(), info.vendor_version.as_str()), (DRIVER, "1"));
    let probe = identity.probe(Request::new(ProbeRequest {})).await.unwrap().into_inner();
    assert_eq!(probe.ready, Some(true));
    let plugin = identity.get_plugin_capabilities(Request::new(GetPluginCapabilitiesRequest {})).await.unwrap();
    let plugin: Vec<_> = plugin.into_inner().capabilities.into_iter().filter_map(|one| one.r#type).collect();
    let of_service = |one: service::Type| Type::Service(plugin_capability::Service { r#type: one.into() });
    let online = plugin_capability::VolumeExpansion { r#type: volume_expansion::Type::Online.into() };
    assert_eq!(
        plugin,
        [
            of_service(service::Type::ControllerService),
            of_service(service::Type::GroupControllerService),
            of_service(service::Type::SnapshotMetadataService),
            Type::VolumeExpansion(online),
        ]
    );
    let answer = f.controller.controller_get_capabilities(Request::new(ControllerGetCapabilitiesRequest {}));
    let mut all: Vec<_> = answer
        .await
        .unwrap()
        .into_inner()
        .capabilities
        .into_iter()
        .map(|one| {
            let Some(of_controller::Type::Rpc(rpc)) = one.r#type else { panic!("{one:?}") };
            rpc.r#type
        })
        .collect();
    all.sort_unstable();
    assert_eq!(all, (1..=15).collect::<Vec<_>>(), "all of version 1.12");
    let answer = f.node.node_get_capabilities(Request::new(NodeGetCapabilitiesRequest {})).await.unwrap().into_inner();
    let mut all: Vec<_> = answer
        .capabilities
        .into_iter()
        .map(|one| {
            let Some(of_node::Type::Rpc(rpc)) = one.r#type else { panic!("{one:?}") };
            rpc.r#type
        })
        .collect();
    all.sort_unstable();
    assert_eq!(all, (1..=6).collect::<Vec<_>>(), "all of version 1.12");
    let answer = f.controller.group_controller_get_capabilities(Request::new(GroupControllerGetCapabilitiesRequest {}));
    assert_eq!(answer.await.unwrap().into_inner().capabilities.len(), 1);
}

/// CSI v1.12, Size Limits.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_driver_sends_is_within_the_limits_of_its_fields() {
    let f = start_with(|config| Config { nodes: Nodes::Any, node_id: "n".repeat(128), ..config }).await;
    let name = "N".repeat(128);
    let made = f.make(volume(&name, MIB, 0)).await.unwrap();
    let snapshot = f.snap(&made.volume_id, &name).await.unwrap();
    let request = CreateVolumeGroupSnapshotRequest {
        name,
        source_volume_ids: vec![made.volume_id.clone()],
        ..Default::default()
    };
    let group = f.controller.create_volume_group_snapshot(Request::new(request)).await.unwrap().into_inner();
    let group = group.group_snapshot.unwrap();
    f.create("zz").await;
    let request = ListVolumesRequest { max_entries: 1, ..Default::default() };
    let page = f.controller.list_volumes(Request::new(request)).await.unwrap().into_inner();
    let condition = page.entries[0].status.clone().unwrap().volume_condition.unwrap();
    let parameters = HashMap::from([("x".repeat(400), "y".to_owned())]);
    let request = ValidateVolumeCapabilitiesRequest {
        volume_id: made.volume_id.clone(),
        volume_capabilities: vec![writer()],
        parameters,
        ..Default::default()
    };
    let refused = f.controller.validate_volume_capabilities(Request::new(request)).await.unwrap().into_inner();
    let member = &group.snapshots[0].snapshot_id;
    for text in [
        &made.volume_id,
        &snapshot.snapshot_id,
        &group.group_snapshot_id,
        member,
        &page.next_token,
        &condition.message,
        &refused.message,
    ] {
        assert!((1..=128).contains(&text.len()), "{} bytes: {text}", text.len());
    }
    let context = f.attached(&made.volume_id, &"n".repeat(128), false).await.unwrap();
    assert!(context.contains_key("amphora/ticket") && crate::size_limit::bytes(&context) <= 4096, "{context:?}");
    let deep = f.path(&"d".repeat(200));
    std::fs::create_dir(&deep).unwrap();
    let long = crate::health::condition(Some(format!("the target is {}", deep.display())), "well").message;
    assert!(long.len() <= 128, "{long}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_outlives_its_volume_and_makes_larger_ones() {
    let f = fixture().await;
    f.make(volume("pvc-1", MIB, 0)).await.unwrap();
    let fill = |store: Store, bytes: usize| {
        move || {
            use objstore::volume::{Make, Ownership, ROOT_INO, VolumeOptions};
            let volume = store.open_volume(&name("pvc-1"), VolumeOptions::default()).unwrap();
            let owner = Ownership { uid: 0, gid: 0, mode: 0o600, umask: 0 };
            let file = volume.make(ROOT_INO, "file", Make::File, owner).unwrap();
            let size = Some(bytes as u64);
            volume.set_attr(file.ino, objstore::volume::SetAttr { size, ..Default::default() }).unwrap();
            volume.sync_volume().unwrap();
        }
    };
    tokio::task::spawn_blocking(fill(f.store.clone(), 600 << 10)).await.unwrap();
    let snapshot = f.snap("pvc-1", "snap-1").await.unwrap();
    assert!(snapshot.size_bytes >= 600 << 10, "{snapshot:?}");
    f.remove("pvc-1").await.unwrap();
    let listed = f.snapshots(ListSnapshotsRequest { source_volume_id: "pvc-1".into(), ..Default::default() }).await;
    assert_eq!(listed.entries.len(), 1, "also by its volume");
    let larger = f.make(from_snapshot(volume("pvc-2", 4 * MIB, 4 * MIB), "snap-1")).await.unwrap();
    assert_eq!(larger.capacity_bytes, 4 * MIB);
    let refused = f.make(from_snapshot(volume("pvc-3", MIB / 4, MIB / 4), "snap-1")).await;
    assert_eq!(code(refused), Code::OutOfRange, "smaller than the source");
    assert!(f.store.bucket(&name("pvc-3")).is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_is_refused_parameters_and_deletion_while_it_is_used() {
    let f = fixture().await;
    f.create("pvc-1").await;
    let parameters = HashMap::from([("key".to_owned(), "value".to_owned())]);
    let (name, source_volume_id) = ("snap-1".to_owned(), "pvc-1".to_owned());
    let request = CreateSnapshotRequest { name, source_volume_id, parameters, ..Default::default() };
    assert_eq!(code(f.controller.create_snapshot(Request::new(request)).await), Code::InvalidArgument);
    assert!(f.store.snapshots(None, None, 10).unwrap().is_empty());
    f.snap("pvc-1", "snap-1").await.unwrap();
    let store = f.store.clone();
    let open = move || store.open_volume(&super::name("snap-1"), Default::default()).unwrap();
    let mount = tokio::task::spawn_blocking(open).await.unwrap();
    assert_eq!(code(f.drop_snapshot("snap-1").await), Code::FailedPrecondition, "it is mounted");
    tokio::task::spawn_blocking(move || drop(mount)).await.unwrap();
    f.drop_snapshot("snap-1").await.unwrap();
    for (request, code) in [
        (ListSnapshotsRequest { starting_token: "other".into(), ..Default::default() }, Code::Aborted),
        (ListSnapshotsRequest { max_entries: -1, ..Default::default() }, Code::InvalidArgument),
    ] {
        assert_eq!(super::code(f.controller.list_snapshots(Request::new(request)).await), code);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_has_no_more_volumes_than_its_limit() {
    let f = start_with(|config| Config { max_volumes: 1, ..config }).await;
    let info = f.node.node_get_info(Request::new(NodeGetInfoRequest {})).await.unwrap().into_inner();
    assert_eq!(info.max_volumes_per_node, 1);
    f.create("pvc-1").await;
    f.create("pvc-2").await;
    f.attach("pvc-1", NODE, false).await.unwrap();
    f.attach("pvc-1", NODE, false).await.unwrap();
    assert_eq!(code(f.attach("pvc-2", NODE, false).await), Code::ResourceExhausted);
    f.detach("pvc-1").await.unwrap();
    f.attach("pvc-2", NODE, false).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_is_unpublished_from_one_node_or_from_all() {
    let f = remote::fixture().await;
    f.create("pvc-1").await;
    let shared = || capability(access_mode::Mode::MultiNodeMultiWriter);
    let nodes = async || {
        let request = ControllerGetVolumeRequest { volume_id: "pvc-1".into() };
        let status = f.controller.controller_get_volume(Request::new(request)).await.unwrap().into_inner().status;
        let mut nodes = status.unwrap().published_node_ids;
        nodes.sort_unstable();
        nodes
    };
    let leave = async |node_id: &str| {
        let (volume_id, node_id) = ("pvc-1".into(), node_id.into());
        let request = ControllerUnpublishVolumeRequest { volume_id, node_id, ..Default::default() };
        f.controller.controller_unpublish_volume(Request::new(request)).await.unwrap();
    };
    for node in ["a", "b", "c"] {
        f.attach_as("pvc-1", node, false, shared()).await.unwrap();
    }
    let alone = f.attach_as("pvc-1", "d", false, writer()).await.unwrap_err();
    assert!(alone.code() == Code::FailedPrecondition && alone.message().contains("\"a\""), "it names a node: {alone}");
    leave("b").await;
    leave("b").await;
    leave("never-there").await;
    assert_eq!(nodes().await, ["a", "c"]);
    leave("").await;
    assert!(nodes().await.is_empty());
    leave("").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expansion_for_another_kind_of_use_is_refused() {
    let f = fixture().await;
    let mode = access_mode::Mode::SingleNodeMultiWriter;
    f.create("files").await;
    f.make(CreateVolumeRequest { volume_capabilities: vec![block(mode)], ..volume("blocks", 8 * MIB, 0) })
        .await
        .unwrap();
    let capacity_range = Some(CapacityRange { required_bytes: 16 * MIB, limit_bytes: 0 });
    for (volume_id, given, is_fit) in [
        ("files", writer(), true),
        ("files", block(mode), false),
        ("blocks", block(mode), true),
        ("blocks", writer(), false),
    ] {
        let request = ControllerExpandVolumeRequest {
            volume_id: volume_id.into(),
            capacity_range,
            volume_capability: Some(given),
            ..Default::default()
        };
        let answer = f.controller.controller_expand_volume(Request::new(request)).await;
        let code = answer.err().map(|status| status.code());
        assert_eq!(code, (!is_fit).then_some(Code::InvalidArgument), "{volume_id}");
    }
    f.stage(stage(&f, "files")).await.unwrap();
    let request = |volume_capability, required_bytes, limit_bytes| NodeExpandVolumeRequest {
        volume_id: "files".into(),
        volume_path: f.text("staging"),
        capacity_range: Some(CapacityRange { required_bytes, limit_bytes }),
        volume_capability: Some(volume_capability),
        ..Default::default()
    };
    let expand = async |request| f.node.node_expand_volume(Request::new(request)).await;
    assert_eq!(code(expand(request(block(mode), MIB, 0)).await), Code::InvalidArgument);
    f.store
        .set_bucket(
            &name("files"),
            objstore::store::SetBucket { quota_bytes: Some(Some(1 << 24)), ..Default::default() },
        )
        .await
        .unwrap();
    assert_eq!(code(expand(request(writer(), MIB, 2 * MIB)).await), Code::OutOfRange, "it is larger already");
    assert_eq!(expand(request(writer(), MIB, 0)).await.unwrap().into_inner().capacity_bytes, 16 * MIB);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_validated_is_answered_as_it_was_given() {
    let f = fixture().await;
    f.create("pvc-1").await;
    let map = |key: &str, value: &str| HashMap::from([(key.to_owned(), value.to_owned())]);
    let request = |mutable_parameters| ValidateVolumeCapabilitiesRequest {
        volume_id: "pvc-1".into(),
        volume_context: map("any", "context"),
        volume_capabilities: vec![writer()],
        parameters: map("uid", "7"),
        mutable_parameters,
        ..Default::default()
    };
    let validate = async |request| {
        f.controller.validate_volume_capabilities(Request::new(request)).await.unwrap().into_inner().confirmed
    };
    let asked = request(map("gid", "8"));
    let confirmed = validate(asked.clone()).await.unwrap();
    assert_eq!(confirmed.volume_capabilities, asked.volume_capabilities);
    assert_eq!((confirmed.volume_context, confirmed.parameters), (asked.volume_context, asked.parameters));
    assert_eq!(confirmed.mutable_parameters, asked.mutable_parameters);
    assert!(validate(request(map("iops", "8"))).await.is_none(), "an unknown mutable parameter");
}
