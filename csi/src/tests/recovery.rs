//! Recovery after the death of a process.

use super::node::{publish, stage};
use super::*;
use crate::node::Recovered;

/// Simulates the death of the process and the start of another, which recovers.
async fn restart(f: &mut Fixture) -> Recovered {
    f.machine.die();
    start_again(f).await
}

pub(super) async fn start_again(f: &mut Fixture) -> Recovered {
    let node = node(&f.store, &f.machine, &config(f.dir.path()));
    let recovered = node.recover().await;
    f.node = crate::node::Service::new(node);
    recovered
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_mounts_are_rebuilt_as_they_were() {
    let mut f = fixture().await;
    f.create("pvc-1").await;
    f.stage(stage(&f, "pvc-1")).await.unwrap();
    f.publish(publish(&f, "pvc-1", "a")).await.unwrap();
    f.publish(NodePublishVolumeRequest { readonly: true, ..publish(&f, "pvc-1", "b") }).await.unwrap();
    let recovered = restart(&mut f).await;
    assert_eq!(recovered, Recovered { stages: 1, targets: 2, ..Default::default() });
    assert_eq!((f.machine.serves(&f.path("a")), f.machine.serves(&f.path("b"))), (Some("rw"), Some("ro")));
    assert_eq!(f.machine.count(), 3, "no dead mount is left below the new ones");
    f.publish(publish(&f, "pvc-1", "a")).await.unwrap();
    f.stage(stage(&f, "pvc-1")).await.unwrap();
    f.unpublish("pvc-1", "a").await.unwrap();
    f.unpublish("pvc-1", "b").await.unwrap();
    f.unstage("pvc-1").await.unwrap();
    assert_eq!(f.machine.count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn live_mounts_are_left_alone() {
    let mut f = fixture().await;
    f.create("pvc-1").await;
    f.stage(stage(&f, "pvc-1")).await.unwrap();
    f.publish(publish(&f, "pvc-1", "a")).await.unwrap();
    let before = f.machine.mounts.lock().clone();
    assert_eq!(start_again(&mut f).await, Recovered { stages: 1, targets: 1, ..Default::default() });
    assert_eq!(*f.machine.mounts.lock(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bind_left_before_it_was_made_read_only_is_made_anew() {
    let mut f = fixture().await;
    f.create("pvc-1").await;
    f.stage(stage(&f, "pvc-1")).await.unwrap();
    f.publish(NodePublishVolumeRequest { readonly: true, ..publish(&f, "pvc-1", "a") }).await.unwrap();
    f.machine.detach(&f.path("a")).unwrap();
    f.machine.bind(&f.path("staging"), &f.path("a"), BindFlags::default()).unwrap();
    start_again(&mut f).await;
    assert_eq!(f.machine.serves(&f.path("a")), Some("ro"));
    assert_eq!(f.machine.count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_grant_is_not_mounted_again() {
    let mut f = fixture().await;
    let secrets = f.foreign_bucket("alices", Some(Mode::ReadWrite)).await;
    f.stage(NodeStageVolumeRequest { secrets, ..stage(&f, "alices") }).await.unwrap();
    f.publish(publish(&f, "alices", "a")).await.unwrap();
    f.store.add_grant(&name("alices"), "bob", Mode::Read).await.unwrap();
    restart(&mut f).await;
    assert_eq!(f.machine.serves(&f.path("a")), Some("ro"));
    f.store.delete_account("bob").await.unwrap();
    assert_eq!(restart(&mut f).await, Recovered { removed: 2, ..Default::default() });
    assert_eq!(f.machine.count(), 0);
    f.unpublish("alices", "a").await.unwrap();
    f.unstage("alices").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn another_account_under_the_name_gets_no_mount_of_the_old_one() {
    let mut f = fixture().await;
    let secrets = f.foreign_bucket("alices", Some(Mode::ReadWrite)).await;
    f.stage(NodeStageVolumeRequest { secrets, ..stage(&f, "alices") }).await.unwrap();
    f.store.delete_account("bob").await.unwrap();
    f.store.create_account("bob", false).await.unwrap();
    f.store.add_grant(&name("alices"), "bob", Mode::ReadWrite).await.unwrap();
    assert_eq!(restart(&mut f).await, Recovered { removed: 1, ..Default::default() });
    assert_eq!(f.machine.count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_bucket_under_the_name_is_not_mounted_for_the_old_one() {
    let mut f = fixture().await;
    f.create("pvc-1").await;
    f.stage(stage(&f, "pvc-1")).await.unwrap();
    f.store.delete_bucket(&name("pvc-1"), objstore::store::Deletion::Force).await.unwrap();
    f.create("pvc-1").await;
    assert_eq!(restart(&mut f).await, Recovered { removed: 1, ..Default::default() });
    assert_eq!(f.machine.count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_rebuilt_now_is_rebuilt_when_asked_for() {
    let mut f = fixture().await;
    f.create("pvc-1").await;
    f.stage(stage(&f, "pvc-1")).await.unwrap();
    f.publish(publish(&f, "pvc-1", "a")).await.unwrap();
    f.machine.mounts_fail.store(true, Ordering::Relaxed);
    assert_eq!(restart(&mut f).await, Recovered { failed: 1, ..Default::default() });
    f.machine.mounts_fail.store(false, Ordering::Relaxed);
    f.publish(publish(&f, "pvc-1", "a")).await.unwrap();
    assert_eq!(f.machine.serves(&f.path("a")), Some("rw"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_cleaned_up_by_hand_is_forgotten() {
    let mut f = fixture().await;
    f.create("pvc-1").await;
    f.stage(stage(&f, "pvc-1")).await.unwrap();
    f.publish(publish(&f, "pvc-1", "a")).await.unwrap();
    f.machine.detach(&f.path("a")).unwrap();
    std::fs::remove_dir(f.path("a")).unwrap();
    assert_eq!(restart(&mut f).await, Recovered { stages: 1, removed: 1, ..Default::default() });
    f.unstage("pvc-1").await.unwrap();
}
