//! Volumes as a workload sees them: mounted, full, grown, snapshotted and cloned, and the same bytes through S3.

use std::fs;

use proto::csi::v1::volume_capability::access_mode::Mode;
use proto::csi::v1::volume_capability::{AccessType, MountVolume};
use proto::csi::v1::volume_usage::Unit;
use proto::csi::v1::{
    CapacityRange, ControllerExpandVolumeRequest, ControllerPublishVolumeRequest, ControllerUnpublishVolumeRequest,
    DeleteSnapshotRequest, NodeGetInfoRequest, NodeGetVolumeStatsRequest, NodeStageVolumeRequest, VolumeCapability,
};
use rustix::io::Errno;
use tonic::Code;

use super::{Driver, capability, errno, mounts_below, no_secrets, text};
use crate::support::access::{read, root_client, write};
use crate::support::grpc::refused;
use crate::support::*;

#[tokio::test]
async fn a_volume_is_a_bucket_and_is_deleted_with_its_claim() {
    need!(root_and_fuse());
    let mut driver = Driver::start().await;
    let volume = driver.create("pvc-1", 64 << 20, None).await;
    let node = driver.node.node_get_info(NodeGetInfoRequest {}).await.expect("in the answer").into_inner().node_id;
    let attach = ControllerPublishVolumeRequest {
        volume_id: volume.clone(),
        node_id: node.clone(),
        volume_capability: Some(capability(Mode::SingleNodeWriter)),
        ..Default::default()
    };
    driver.controller.controller_publish_volume(attach).await.expect("attached");
    let path = driver.mounted(&volume, &no_secrets()).await;

    let client = root_client(&driver.server);
    fs::create_dir(path.join("dir")).expect("made");
    fs::write(path.join("dir/file"), "by the pod").expect("written");
    assert_eq!(read(&client, &volume, "dir/file").await, b"by the pod");
    write(&client, &volume, "dir/object", b"by a client").await;
    assert_eq!(fs::read(path.join("dir/object")).expect("there"), b"by a client");

    let shown = cli::json(&driver.server, &["volume", "show", &volume]);
    assert_eq!(shown["publications"][0]["node"], node, "{shown}");
    let delete = proto::csi::v1::DeleteVolumeRequest { volume_id: volume.clone(), ..Default::default() };
    let answer = driver.controller.delete_volume(delete).await;
    refused("a volume in use", answer, Code::FailedPrecondition, &["unpublish"]);

    driver.unpublish(&volume, &volume).await;
    driver.unpublish(&volume, &volume).await;
    assert!(!path.exists(), "the target goes with its publication");
    driver.unstage(&volume).await;
    driver.unstage(&volume).await;
    let detach = ControllerUnpublishVolumeRequest { volume_id: volume.clone(), node_id: node, ..Default::default() };
    driver.controller.controller_unpublish_volume(detach).await.expect("detached");
    driver.delete(&volume).await;
    driver.delete(&volume).await;
    assert_eq!(cli::json(&driver.server, &["bucket", "list"]), serde_json::json!([]));
}

/// As kubelet passes the context of a pod. What a kernel with SELinux does is its own.
#[tokio::test]
async fn a_kernel_without_selinux_refuses_a_context_and_nothing_is_left() {
    need!(root_and_fuse());
    let types = fs::read_to_string("/proc/filesystems").expect("the list of file systems");
    if types.contains("selinuxfs") {
        return;
    }
    let mut driver = Driver::start().await;
    let volume = driver.create("pvc-1", 64 << 20, None).await;
    let mount_flags = vec![r#"context="system_u:object_r:container_file_t:s0:c1,c2""#.to_owned()];
    let labelled = AccessType::Mount(MountVolume { mount_flags, ..Default::default() });
    let request = NodeStageVolumeRequest {
        volume_id: volume.clone(),
        staging_target_path: driver.staging(&volume),
        volume_capability: Some(VolumeCapability {
            access_type: Some(labelled),
            ..capability(Mode::MultiNodeMultiWriter)
        }),
        ..Default::default()
    };
    let answer = driver.node.node_stage_volume(request).await;
    refused("a context", answer, Code::InvalidArgument, &["context", "this machine runs without SELinux"]);
    assert!(mounts_below(&driver).is_empty(), "{:?}", mounts_below(&driver));
    driver.mounted(&volume, &no_secrets()).await;
    driver.unpublish(&volume, &volume).await;
    driver.unstage(&volume).await;
}

#[tokio::test]
async fn the_size_of_a_volume_is_a_limit_that_can_grow() {
    need!(root_and_fuse());
    let mut driver = Driver::start().await;
    let volume = driver.create("pvc-1", 1 << 20, None).await;
    let path = driver.mounted(&volume, &no_secrets()).await;
    fs::write(path.join("fits"), vec![1; 600 << 10]).expect("within the limit");
    let error = errno(fs::write(path.join("more"), vec![2; 600 << 10]));
    assert!(matches!(error, Some(Errno::DQUOT | Errno::NOSPC)), "{error:?}");
    fs::remove_file(path.join("more")).expect("the file that did not fit can be removed");

    let usage = stats(&mut driver, &volume).await;
    assert_eq!(usage.total, 1 << 20);
    assert!((600 << 10..1 << 20).contains(&usage.used), "{usage:?}");

    let grow = ControllerExpandVolumeRequest {
        volume_id: volume.clone(),
        capacity_range: Some(CapacityRange { required_bytes: 4 << 20, limit_bytes: 0 }),
        ..Default::default()
    };
    let grown = driver.controller.controller_expand_volume(grow).await.expect("grown").into_inner();
    assert_eq!((grown.capacity_bytes, grown.node_expansion_required), (4 << 20, false));
    fs::write(path.join("more"), vec![2; 600 << 10]).expect("within the new limit, without a remount");
    assert_eq!(stats(&mut driver, &volume).await.total, 4 << 20);
}

async fn stats(driver: &mut Driver, volume: &str) -> proto::csi::v1::VolumeUsage {
    let volume_path = text(&driver.path("targets").join(volume));
    let request = NodeGetVolumeStatsRequest { volume_id: volume.into(), volume_path, ..Default::default() };
    let answer = driver.node.node_get_volume_stats(request).await.expect("in the answer").into_inner();
    assert!(answer.volume_condition.as_ref().is_some_and(|condition| !condition.abnormal), "{answer:?}");
    answer.usage.into_iter().find(|usage| usage.unit() == Unit::Bytes).expect("the usage in bytes is reported")
}

#[tokio::test]
async fn a_clone_of_a_snapshot_shows_its_content() {
    need!(root_and_fuse());
    let mut driver = Driver::start().await;
    let volume = driver.create("pvc-1", 64 << 20, None).await;
    let path = driver.mounted(&volume, &no_secrets()).await;
    let old = vec![b'o'; 1 << 20];
    fs::write(path.join("changed"), &old).expect("written");
    fs::write(path.join("deleted"), "still here").expect("written");
    fs::create_dir(path.join("dir")).expect("made");

    let snapshot = driver.snapshot(&volume, "snap-1").await;
    assert_eq!(driver.snapshot(&volume, "snap-1").await, snapshot, "asked for again");
    fs::write(path.join("changed"), "new").expect("overwritten");
    fs::remove_file(path.join("deleted")).expect("deleted");
    write(&root_client(&driver.server), &volume, "added", b"after").await;

    let clone = driver.create("pvc-2", 64 << 20, Some(&snapshot)).await;
    let past = driver.mounted(&clone, &no_secrets()).await;
    assert!(fs::read(past.join("changed")).expect("there") == old, "the clone has the old content");
    assert_eq!(fs::read(past.join("deleted")).expect("there"), b"still here");
    assert!(past.join("dir").is_dir() && !past.join("added").exists());
    fs::write(past.join("changed"), "by the clone").expect("a clone can be written");
    assert_eq!(fs::read(path.join("changed")).expect("there"), b"new", "the source does not see the clone's change");

    // The clone does not depend on its source.
    let delete = DeleteSnapshotRequest { snapshot_id: snapshot, ..Default::default() };
    driver.controller.delete_snapshot(delete.clone()).await.expect("deleted");
    driver.controller.delete_snapshot(delete).await.expect("deleted again");
    driver.unpublish(&volume, &volume).await;
    driver.unstage(&volume).await;
    driver.delete(&volume).await;
    assert_eq!(fs::read(past.join("deleted")).expect("there"), b"still here");
}

#[tokio::test]
async fn one_staged_volume_serves_many_targets_with_their_own_options() {
    need!(root_and_fuse());
    let mut driver = Driver::start().await;
    let volume = driver.create("pvc-1", 64 << 20, None).await;
    let wide = driver.mounted(&volume, &no_secrets()).await;
    driver.publish(&volume, "narrow", true, &no_secrets()).await.expect("published");
    driver.publish(&volume, "narrow", true, &no_secrets()).await.expect("published again");
    let narrow = driver.path("targets").join("narrow");
    fs::write(wide.join("f"), "1").expect("written");
    assert_eq!(fs::read(narrow.join("f")).expect("there"), b"1");
    assert_eq!(errno(fs::write(narrow.join("f"), "2")), Some(Errno::ROFS));
    let again = driver.publish(&volume, "narrow", false, &no_secrets()).await;
    refused("published with another readonly", again, Code::AlreadyExists, &["narrow"]);
    driver.unpublish(&volume, "narrow").await;
    fs::write(wide.join("f"), "3").expect("the other target stays mounted");
    let unstage = proto::csi::v1::NodeUnstageVolumeRequest {
        volume_id: volume.clone(),
        staging_target_path: driver.staging(&volume),
    };
    let answer = driver.node.node_unstage_volume(unstage).await;
    refused("unstaging under a target", answer, Code::FailedPrecondition, &[&text(&wide)]);
}

#[tokio::test]
async fn mount_options_of_the_claim_take_effect() {
    use proto::csi::v1::NodeStageVolumeRequest;
    use proto::csi::v1::volume_capability::{AccessType, MountVolume};
    use std::os::unix::fs::MetadataExt;

    need!(root_and_fuse());
    let mut driver = Driver::start().await;
    let volume = driver.create("pvc-1", 64 << 20, None).await;
    write(&root_client(&driver.server), &volume, "team/a", b"1").await;
    let mount =
        MountVolume { mount_flags: vec!["uid=1234,gid=4321".into(), "prefix=team".into()], ..Default::default() };
    let capability =
        VolumeCapability { access_type: Some(AccessType::Mount(mount)), ..capability(Mode::MultiNodeMultiWriter) };
    let staging = driver.staging(&volume);
    let request = NodeStageVolumeRequest {
        volume_id: volume.clone(),
        staging_target_path: staging.clone(),
        volume_capability: Some(capability),
        ..Default::default()
    };
    driver.node.node_stage_volume(request).await.expect("staged");
    let file = fs::metadata(format!("{staging}/a")).expect("the prefix is the root");
    assert_eq!((file.uid(), file.gid()), (1234, 4321));
    driver.unstage(&volume).await;
}
