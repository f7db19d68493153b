//! Resources that the node and the driver did not create: an administrator's mounts, folders and snapshots.

use std::fs;
use std::path::Path;

use proto::csi::v1::{
    DeleteSnapshotRequest, DeleteVolumeRequest, NodeStageVolumeRequest, NodeUnpublishVolumeRequest,
    NodeUnstageVolumeRequest,
};
use tonic::Code;

use super::{Driver, no_secrets, text};
use crate::support::grpc::refused;
use crate::support::*;

/// A folder below the server's, mounted with `amphora mount`.
fn mounted_by_hand(driver: &Driver, bucket: &str, dir: &str) -> std::path::PathBuf {
    let dir = driver.path(dir);
    fs::create_dir_all(&dir).expect("made");
    cli::json(&driver.server, &["mount", bucket, &text(&dir)]);
    fs::write(dir.join("f"), "by hand").expect("written");
    dir
}

async fn unpublish(driver: &mut Driver, volume: &str, target: &Path) {
    let request = NodeUnpublishVolumeRequest { volume_id: volume.into(), target_path: text(target) };
    driver.node.node_unpublish_volume(request).await.expect("unpublishing an unpublished volume succeeds");
}

async fn unstage(driver: &mut Driver, volume: &str, staging: &Path) {
    let request = NodeUnstageVolumeRequest { volume_id: volume.into(), staging_target_path: text(staging) };
    driver.node.node_unstage_volume(request).await.expect("unstaging an unstaged volume succeeds");
}

#[tokio::test]
async fn a_mount_of_the_administrator_survives_calls_about_other_volumes() {
    need!(root_and_fuse());
    let mut driver = Driver::start().await;
    let volume = driver.create("pvc-1", 64 << 20, None).await;
    cli::json(&driver.server, &["bucket", "create", "by-hand"]);
    let dir = mounted_by_hand(&driver, "by-hand", "mnt");
    for id in [volume.as_str(), "by-hand", "unknown"] {
        unpublish(&mut driver, id, &dir).await;
        unstage(&mut driver, id, &dir).await;
    }
    let stage = NodeStageVolumeRequest {
        volume_id: volume.clone(),
        staging_target_path: text(&dir),
        volume_capability: Some(super::capability(super::Mode::MultiNodeMultiWriter)),
        ..Default::default()
    };
    let answer = driver.node.node_stage_volume(stage).await;
    refused("a staging path that is taken", answer, Code::FailedPrecondition, &["unmount it first"]);
    driver.stage(&volume, &no_secrets()).await.expect("staged");
    fs::create_dir_all(driver.path("targets")).expect("made");
    let target = mounted_by_hand(&driver, "by-hand", "targets/taken");
    let answer = driver.publish(&volume, "taken", false, &no_secrets()).await;
    refused("a target path that is taken", answer, Code::FailedPrecondition, &["unmount it first"]);
    unpublish(&mut driver, &volume, &target).await;
    for dir in [dir, target] {
        assert_eq!(fs::read(dir.join("f")).expect("still mounted"), b"by hand");
    }
}

#[tokio::test]
async fn a_staged_volume_is_not_deleted() {
    need!(root_and_fuse());
    let mut driver = Driver::start().await;
    let volume = driver.create("pvc-1", 64 << 20, None).await;
    driver.stage(&volume, &no_secrets()).await.expect("staged");
    let delete = DeleteVolumeRequest { volume_id: volume.clone(), ..Default::default() };
    let answer = driver.controller.delete_volume(delete.clone()).await;
    refused("a staged volume", answer, Code::FailedPrecondition, &["mounted"]);
    driver.server.kill9();
    driver.server.restart();
    driver.reconnect().await;
    let answer = driver.controller.delete_volume(delete).await;
    refused("a staged volume, after a restart", answer, Code::FailedPrecondition, &["mounted"]);
    driver.unstage(&volume).await;
    driver.delete(&volume).await;
}

#[tokio::test]
async fn a_folder_with_files_is_no_target() {
    need!(root_and_fuse());
    let mut driver = Driver::start().await;
    let volume = driver.create("pvc-1", 64 << 20, None).await;
    driver.stage(&volume, &no_secrets()).await.expect("staged");
    let target = driver.path("targets/full");
    fs::create_dir_all(&target).expect("made");
    fs::write(target.join("f"), "mine").expect("written");
    let answer = driver.publish(&volume, "full", false, &no_secrets()).await;
    refused("a folder with files", answer, Code::FailedPrecondition, &["not empty"]);
    unpublish(&mut driver, &volume, &target).await;
    assert_eq!(fs::read(target.join("f")).expect("still there"), b"mine");
    driver.unstage(&volume).await;
}

#[tokio::test]
async fn a_snapshot_of_the_administrator_is_not_deleted() {
    let mut driver = Driver::start().await;
    let volume = driver.create("pvc-1", 64 << 20, None).await;
    cli::json(&driver.server, &["snapshot", "create", &volume, "by-hand"]);
    let snapshot = driver.snapshot(&volume, "by-csi").await;
    let delete = |id: &str| DeleteSnapshotRequest { snapshot_id: id.into(), ..Default::default() };
    let answer = driver.controller.delete_snapshot(delete("by-hand")).await;
    refused("a snapshot that an administrator made", answer, Code::FailedPrecondition, &["by-hand", "Retain"]);
    driver.controller.delete_snapshot(delete(&snapshot)).await.expect("its own");
    let listed = cli::json(&driver.server, &["snapshot", "list"]);
    assert_eq!((listed.as_array().expect("a list").len(), &listed[0]["name"]), (1, &"by-hand".into()));
}
