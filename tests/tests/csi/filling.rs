//! Volumes that begin with the content below a prefix: a copy of many objects, which a crash interrupts.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt as _;
use tonic::Code;

use super::{Driver, capability, no_secrets};
use crate::support::access::{read, root_client};
use crate::support::cli::check_store;
use crate::support::grpc::refused;
use crate::support::*;
use proto::csi::v1::volume_capability::access_mode::Mode;
use proto::csi::v1::*;

/// The objects below the prefix, which make a dozen pages.
const OBJECTS: usize = 3000;
/// The name of the machine.
const NODE: &str = "filling";

fn key(number: usize) -> String {
    format!("{:02}/file-{number:04}", number % 40)
}

fn content(number: usize) -> Vec<u8> {
    format!("content of {number}").into_bytes()
}

/// A driver with a bucket of many objects that it did not make.
async fn with_objects() -> Driver {
    let driver = Driver::of(Options::default().args(["--node-id", NODE]).start()).await;
    let client = root_client(&driver.server);
    client.create_bucket().bucket("golden").send().await.expect("made");
    let puts = (0..OBJECTS).map(|number| {
        let put = client.put_object().bucket("golden").key(format!("models/2026/{}", key(number)));
        put.body(content(number).into()).send()
    });
    futures::stream::iter(puts).buffer_unordered(32).for_each(|put| async { drop(put.expect("put")) }).await;
    let beside = client.put_object().bucket("golden").key("models/2026x").body(vec![1; 100].into());
    beside.send().await.expect("put");
    driver
}

/// The claim, with the root key as the provisioner's Secret.
fn claim(driver: &Driver, name: &str) -> CreateVolumeRequest {
    let key = driver.server.credentials();
    CreateVolumeRequest {
        name: name.into(),
        capacity_range: Some(CapacityRange { required_bytes: 1 << 20, limit_bytes: 0 }),
        volume_capabilities: vec![capability(Mode::SingleNodeWriter)],
        parameters: [("fromBucket", "golden"), ("fromPrefix", "models/2026")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        secrets: [("accessKeyId", key.access_key_id), ("secretAccessKey", key.secret_access_key)]
            .map(|(key, value)| (key.to_owned(), value))
            .into(),
        ..Default::default()
    }
}

/// The keys of a volume with their sizes; none before it is made.
async fn listed(driver: &Driver, volume: &str) -> BTreeMap<String, i64> {
    let client = root_client(&driver.server);
    let mut pages = client.list_objects_v2().bucket(volume).into_paginator().send();
    let mut keys = BTreeMap::new();
    while let Some(Ok(page)) = pages.next().await {
        let found = page.contents.unwrap_or_default().into_iter();
        keys.extend(found.map(|object| (object.key.expect("a key"), object.size.expect("a size"))));
    }
    keys
}

/// Waits until a volume has more objects than before. Returns how many.
async fn more_than(driver: &Driver, volume: &str, before: usize) -> usize {
    for _ in 0..2000 {
        let now = listed(driver, volume).await.len();
        if now > before {
            return now;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{volume} has no more than {before} objects");
}

async fn compare(driver: &Driver, volume: &str) {
    let expected: BTreeMap<_, _> = (0..OBJECTS).map(|number| (key(number), content(number).len() as i64)).collect();
    let found = listed(driver, volume).await;
    assert!(found == expected, "{} keys of {OBJECTS}", found.len());
    let client = root_client(&driver.server);
    for number in (0..OBJECTS).step_by(97) {
        assert_eq!(read(&client, volume, &key(number)).await, content(number));
    }
    let used = cli::json(&driver.server, &["bucket", "show", volume]);
    let bytes: usize = (0..OBJECTS).map(|number| content(number).len()).sum();
    assert_eq!(used["usedBytes"], bytes, "nothing is counted twice: {used}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_is_filled_through_kills_and_used_only_when_it_is_whole() {
    let mut driver = with_objects().await;
    let (mut copied, mut kills) = (0, 0);
    let publish = ControllerPublishVolumeRequest {
        volume_id: "pvc-1".into(),
        node_id: NODE.into(),
        volume_capability: Some(capability(Mode::SingleNodeWriter)),
        ..Default::default()
    };
    for _ in 0..4 {
        let (mut controller, request) = (driver.controller.clone(), claim(&driver, "pvc-1"));
        let call = tokio::spawn(async move { controller.create_volume(request).await });
        let now = more_than(&driver, "pvc-1", copied).await;
        driver.server.kill9();
        if call.await.expect("no panic").is_ok() {
            driver.server.restart();
            driver.reconnect().await;
            break;
        }
        kills += 1;
        driver.server.restart();
        driver.reconnect().await;
        copied = listed(&driver, "pvc-1").await.len();
        assert!(copied >= now, "{copied} objects after the crash, and {now} before it");
        if copied < OBJECTS {
            assert_eq!(copied % 256, 0, "whole pages");
            let answer = driver.controller.controller_publish_volume(publish.clone()).await;
            refused("a volume that is not whole", answer, Code::FailedPrecondition, &["still being copied"]);
            let answer = driver.stage("pvc-1", &no_secrets()).await;
            refused("a volume that is not whole", answer, Code::FailedPrecondition, &["still being copied"]);
        }
    }
    assert!(kills > 0, "the copy was over before any kill");
    driver.controller.create_volume(claim(&driver, "pvc-1")).await.expect("whole");
    compare(&driver, "pvc-1").await;
    driver.controller.controller_publish_volume(publish).await.expect("published");
    assert_eq!(driver.server.terminate().code(), Some(0));
    check_store(&driver.server);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_whose_caller_left_ends_and_one_that_is_refused_leaves_nothing() {
    let mut driver = with_objects().await;
    let (mut controller, request) = (driver.controller.clone(), claim(&driver, "pvc-1"));
    let call = tokio::spawn(async move { controller.create_volume(request).await });
    more_than(&driver, "pvc-1", 0).await;
    call.abort();
    // The sidecar repeats the call, as it does after its time limit.
    let mut made = driver.controller.create_volume(claim(&driver, "pvc-1")).await;
    for _ in 0..1000 {
        match &made {
            Err(status) if status.code() == Code::Aborted => tokio::time::sleep(Duration::from_millis(50)).await,
            _ => break,
        }
        made = driver.controller.create_volume(claim(&driver, "pvc-1")).await;
    }
    made.expect("whole");
    compare(&driver, "pvc-1").await;

    let small = Some(CapacityRange { required_bytes: 20_000, limit_bytes: 0 });
    let request = CreateVolumeRequest { capacity_range: small, ..claim(&driver, "pvc-2") };
    refused("too small", driver.controller.create_volume(request).await, Code::OutOfRange, &["20000 bytes"]);
    let request = CreateVolumeRequest { secrets: no_secrets(), ..claim(&driver, "pvc-2") };
    refused("no key", driver.controller.create_volume(request).await, Code::PermissionDenied, &["golden"]);
    let mut request = claim(&driver, "pvc-2");
    request.parameters.insert("fromPrefix".into(), "model".into());
    refused("no object", driver.controller.create_volume(request).await, Code::NotFound, &["model/"]);
    let left = driver.controller.list_volumes(ListVolumesRequest::default()).await.expect("listed").into_inner();
    let ids = left.entries.into_iter().map(|entry| entry.volume.expect("a volume").volume_id);
    assert_eq!(ids.collect::<Vec<_>>(), ["golden", "pvc-1"]);
    driver.delete("pvc-1").await;
}
