//! Group snapshots through the sockets: a log that spans volumes, and kills of the server.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use proto::csi::v1::group_controller_client::GroupControllerClient;

use super::*;
use crate::support::access::{read, root_client, write};
use crate::support::cli::check_store;

impl Driver {
    async fn groups(&self) -> GroupControllerClient<Channel> {
        GroupControllerClient::new(grpc::channel(&self.server.ready().socket("csi")).await)
    }
}

fn request(name: &str, volumes: &[&str]) -> CreateVolumeGroupSnapshotRequest {
    let source_volume_ids = volumes.iter().map(|volume| (*volume).to_owned()).collect();
    CreateVolumeGroupSnapshotRequest { name: name.into(), source_volume_ids, ..Default::default() }
}

/// The snapshot of a volume in a group.
fn member<'a>(group: &'a VolumeGroupSnapshot, volume: &str) -> &'a str {
    let found = group.snapshots.iter().find(|snapshot| snapshot.source_volume_id == volume);
    &found.expect("a member").snapshot_id
}

#[expect(clippy::disallowed_methods, reason = "what a program does on a mount")]
fn append(log: &mut File, entry: u32) {
    // One write(2): a snapshot may be taken between two.
    log.write_all(format!("{entry:07}\n").as_bytes()).expect("written");
    log.sync_all().expect("synced");
}

/// Appends each entry to the first log, and when it is on disk to the second.
fn write_logs(paths: [PathBuf; 2], ended: &AtomicBool) -> u32 {
    let open = |path: PathBuf| OpenOptions::new().create(true).append(true).open(path.join("log")).expect("opened");
    let [mut first, mut second] = paths.map(open);
    let mut entry = 0;
    while !ended.load(Ordering::Relaxed) {
        append(&mut first, entry);
        append(&mut second, entry);
        entry += 1;
    }
    entry
}

/// Puts objects 0, 1, … into a bucket, each after the one before.
async fn put_objects(client: aws_sdk_s3::Client, bucket: &str, ended: &AtomicBool) -> u32 {
    let mut entry = 0_u32;
    while !ended.load(Ordering::Relaxed) {
        write(&client, bucket, &format!("object-{entry:07}"), entry.to_string().as_bytes()).await;
        entry += 1;
    }
    entry
}

/// The number of entries of a log without gaps.
fn entries(log: &[u8]) -> usize {
    let text = std::str::from_utf8(log).expect("lines");
    for (number, line) in text.lines().enumerate() {
        assert_eq!(line, format!("{number:07}"), "a gap in the log");
    }
    text.lines().count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_snapshot_is_one_moment_of_a_log_that_spans_volumes() {
    need!(root_and_fuse());
    let rounds = amount(8, 100);
    let mut driver = Driver::start().await;
    let volumes = ["pvc-1", "pvc-2", "pvc-3"];
    for volume in volumes {
        driver.create(volume, 1 << 30, None).await;
    }
    let paths = [driver.mounted("pvc-1", &no_secrets()).await, driver.mounted("pvc-2", &no_secrets()).await];
    let client = root_client(&driver.server);
    let ended = Arc::new(AtomicBool::new(false));
    let flag = ended.clone();
    let logs = tokio::task::spawn_blocking(move || write_logs(paths, &flag));
    let (flag, putter) = (ended.clone(), client.clone());
    let objects = tokio::spawn(async move { put_objects(putter, "pvc-3", &flag).await });
    let mut groups = driver.groups().await;
    let mut ahead = 0;
    for round in 0..rounds {
        tokio::time::sleep(Duration::from_millis(40)).await;
        let taken = groups.create_volume_group_snapshot(request(&format!("group-{round}"), &volumes)).await;
        let group = taken.expect("taken").into_inner().group_snapshot.expect("in the answer");
        let first = entries(&read(&client, member(&group, "pvc-1"), "log").await);
        let second = entries(&read(&client, member(&group, "pvc-2"), "log").await);
        assert!(first == second || first == second + 1, "round {round}: {first} entries, and {second} written after");
        ahead += first - second;
        let listed = client.list_objects_v2().bucket(member(&group, "pvc-3")).max_keys(1000).send().await;
        let keys: Vec<_> = listed.expect("listed").contents().iter().filter_map(|object| object.key.clone()).collect();
        let expected: Vec<_> = (0..keys.len()).map(|entry| format!("object-{entry:07}")).collect();
        assert_eq!(keys, expected, "round {round}: an object without an earlier one");
    }
    ended.store(true, Ordering::Relaxed);
    let written = (logs.await.expect("written"), objects.await.expect("put"));
    assert!(written.0 as usize > rounds && written.1 as usize > rounds, "{written:?}: too little load");
    print_summary(rounds, ahead, written);
    for volume in ["pvc-1", "pvc-2"] {
        driver.unpublish(volume, volume).await;
        driver.unstage(volume).await;
    }
    assert_eq!(driver.server.terminate().code(), Some(0));
    check_store(&driver.server);
}

#[expect(clippy::print_stdout, reason = "cargo verify --full shows it; the test harness hides it otherwise")]
fn print_summary(rounds: usize, ahead: usize, written: (u32, u32)) {
    println!("{rounds} group snapshots of {written:?} entries and objects; {ahead} between two entries");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_leaves_a_whole_group_snapshot_or_none() {
    let cycles = amount(12, 200);
    let mut rng = Rng::new("csi::groups");
    let mut driver = Driver::start().await;
    let volumes = ["pvc-1", "pvc-2", "pvc-3", "pvc-4"];
    for volume in volumes {
        driver.create(volume, 1 << 30, None).await;
    }
    let (mut whole, mut none) = (0, 0);
    for cycle in 0..cycles {
        let name = format!("group-{cycle}");
        let mut groups = driver.groups().await;
        let asked = request(&name, &volumes);
        let call = tokio::spawn(async move { groups.create_volume_group_snapshot(asked).await });
        tokio::time::sleep(Duration::from_micros(rng.below(12_000) as u64)).await;
        driver.server.kill9();
        let was_answered = call.await.expect("no panic").is_ok();
        driver.server.restart();
        driver.reconnect().await;
        let listed = driver.controller.list_snapshots(ListSnapshotsRequest::default()).await.expect("listed");
        let found = listed.into_inner().entries.into_iter().filter_map(|entry| entry.snapshot);
        let found = found.filter(|snapshot| snapshot.group_snapshot_id == name).count();
        assert!(found == 0 || found == volumes.len(), "cycle {cycle}: {found} snapshots of {}", volumes.len());
        assert!(found > 0 || !was_answered, "cycle {cycle}: an acknowledged group is lost");
        if found > 0 {
            whole += 1;
        } else {
            none += 1;
        }
        // The orchestrator repeats the call, and at some time deletes the group.
        let mut groups = driver.groups().await;
        let again = groups.create_volume_group_snapshot(request(&name, &volumes)).await.expect("taken").into_inner();
        let group = again.group_snapshot.expect("in the answer");
        assert_eq!(group.snapshots.len(), volumes.len());
        let snapshot_ids = group.snapshots.into_iter().map(|snapshot| snapshot.snapshot_id).collect();
        let group_snapshot_id = group.group_snapshot_id;
        let delete = DeleteVolumeGroupSnapshotRequest { group_snapshot_id, snapshot_ids, ..Default::default() };
        groups.delete_volume_group_snapshot(delete).await.expect("deleted");
    }
    print_kills(whole, none);
    assert_eq!(driver.server.terminate().code(), Some(0));
    check_store(&driver.server);
}

#[expect(clippy::print_stdout, reason = "cargo verify --full shows it; the test harness hides it otherwise")]
fn print_kills(whole: usize, none: usize) {
    println!("kill -9 while a group snapshot is taken: {whole} groups were whole, {none} were not there");
}
