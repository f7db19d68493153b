//! Damaged records of a node's mounts: they are skipped, no volume is shown in place of another, and kubelet's next
//! calls restore everything.

use std::fs;

use rustix::mount::{UnmountFlags, unmount};

use super::{Driver, no_secrets};
use crate::support::*;

#[tokio::test]
async fn a_damaged_record_of_a_mount_is_skipped_and_recreated() {
    need!(root_and_fuse());
    let mut driver = Driver::start().await;
    let volume = driver.create("pvc-1", 64 << 20, None).await;
    let path = driver.mounted(&volume, &no_secrets()).await;
    fs::write(path.join("f"), "kept").expect("written");
    let records = driver.server.home().data_dir().join("csi-node");
    for harm in [flip, cut, remove] {
        driver.server.kill9();
        let mut harmed = 0;
        for record in fs::read_dir(&records).expect("a folder") {
            harm(&record.expect("an entry").path());
            harmed += 1;
        }
        assert_eq!(harmed, 2, "a stage and a target");
        driver.server.restart();
        // The dead mounts have no records any more: a kubelet unmounts them before it calls.
        for dead in [path.clone(), driver.path("staging").join(&volume)] {
            // The path may have no mount.
            let _ = unmount(&dead, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
        }
        driver.reconnect().await;
        driver.stage(&volume, &no_secrets()).await.expect("staged again");
        driver.publish(&volume, &volume, false, &no_secrets()).await.expect("published again");
        assert_eq!(fs::read(path.join("f")).expect("there again"), b"kept");
    }
    driver.unpublish(&volume, &volume).await;
    driver.unstage(&volume).await;
}

fn flip(path: &std::path::Path) {
    let mut bytes = fs::read(path).expect("read");
    let at = bytes.len() / 3;
    bytes[at] ^= 4;
    fs::write(path, bytes).expect("written");
}

fn cut(path: &std::path::Path) {
    let bytes = fs::read(path).expect("read");
    fs::write(path, &bytes[..bytes.len() / 2]).expect("written");
}

fn remove(path: &std::path::Path) {
    fs::remove_file(path).expect("removed");
}
