//! A server that crashes or is replaced while volumes are mounted.

use std::fs;
use std::os::unix::fs::MetadataExt;

use rustix::io::Errno;

use super::{Driver, errno, mounts_below, no_secrets};
use crate::support::access::{read, root_client};
use crate::support::*;

#[tokio::test]
async fn published_paths_work_again_after_a_kill() {
    need!(root_and_fuse());
    let mut driver = Driver::start().await;
    let volume = driver.create("pvc-1", 64 << 20, None).await;
    let path = driver.mounted(&volume, &no_secrets()).await;
    driver.publish(&volume, "narrow", true, &no_secrets()).await.expect("published");
    let narrow = driver.path("targets/narrow");
    fs::write(path.join("f"), "before").expect("written");
    let ino = fs::metadata(path.join("f")).expect("there").ino();

    driver.server.kill9();
    // The kernel still shows what it has cached; anything else needs the server.
    assert_eq!(errno(fs::File::create(path.join("g"))), Some(Errno::NOTCONN), "no server serves the mount");
    driver.server.restart();

    assert_eq!(fs::read(path.join("f")).expect("there again"), b"before");
    assert_eq!(fs::metadata(path.join("f")).expect("there").ino(), ino, "inode numbers are persistent");
    fs::write(path.join("g"), "after").expect("written");
    assert_eq!(read(&root_client(&driver.server), &volume, "g").await, b"after");
    assert_eq!(fs::read(narrow.join("g")).expect("there"), b"after");
    assert_eq!(errno(fs::write(narrow.join("g"), "no")), Some(Errno::ROFS), "the target is still read-only");

    // The kubelet, which knows nothing of the crash, continues.
    driver.reconnect().await;
    driver.stage(&volume, &no_secrets()).await.expect("staged already");
    driver.publish(&volume, &volume, false, &no_secrets()).await.expect("published already");
    for target in [volume.as_str(), "narrow"] {
        driver.unpublish(&volume, target).await;
    }
    driver.unstage(&volume).await;
    driver.delete(&volume).await;
    assert!(mounts_below(&driver).is_empty(), "{:?}", mounts_below(&driver));
}

#[tokio::test]
async fn a_rolling_restart_brings_volumes_back() {
    need!(root_and_fuse());
    let mut driver = Driver::start().await;
    let volume = driver.create("pvc-1", 64 << 20, None).await;
    let path = driver.mounted(&volume, &no_secrets()).await;
    for round in 0..3 {
        fs::write(path.join("f"), format!("round {round}")).expect("written");
        let ended = driver.server.terminate();
        assert_eq!(ended.code(), Some(0), "{}", driver.server.log());
        driver.server.restart();
        assert_eq!(fs::read_to_string(path.join("f")).expect("there again"), format!("round {round}"));
    }
    driver.reconnect().await;
    driver.unpublish(&volume, &volume).await;
    driver.unstage(&volume).await;
    assert!(mounts_below(&driver).is_empty(), "{:?}", mounts_below(&driver));
}

#[tokio::test]
async fn a_volume_of_a_deleted_bucket_can_be_unmounted() {
    need!(root_and_fuse());
    let mut driver = Driver::start().await;
    let volume = driver.create("pvc-1", 64 << 20, None).await;
    let path = driver.mounted(&volume, &no_secrets()).await;
    let refusal = cli::refusal(&driver.server, &["bucket", "delete", &volume, "--force"], 1);
    assert!(refusal.contains("mounted"), "{refusal}");
    // Deletes it through S3, without the node's knowledge.
    root_client(&driver.server).delete_bucket().bucket(&volume).send().await.expect("it is empty");
    assert!(fs::write(path.join("f"), "lost").is_err(), "a write into a deleted bucket must not be acknowledged");
    driver.unpublish(&volume, &volume).await;
    driver.unstage(&volume).await;
    assert!(!path.exists());

    // After a restart the volume cannot be mounted again; the server starts nevertheless.
    let volume = driver.create("pvc-2", 64 << 20, None).await;
    driver.mounted(&volume, &no_secrets()).await;
    root_client(&driver.server).delete_bucket().bucket(&volume).send().await.expect("it is empty");
    driver.server.kill9();
    driver.server.restart();
    driver.reconnect().await;
    driver.unpublish(&volume, &volume).await;
    driver.unstage(&volume).await;
    assert!(mounts_below(&driver).is_empty(), "{:?}", mounts_below(&driver));
}
