//! Volumes for pods with `fsGroup`.

use proto::csi::v1::volume_capability::{AccessType, MountVolume};

use super::node::{publish, stage};
use super::recovery::start_again;
use super::*;

fn grouped(group: &str, flags: &[&str]) -> Option<VolumeCapability> {
    let mount_flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
    let mount = MountVolume { volume_mount_group: group.into(), mount_flags, ..Default::default() };
    let shared = capability(access_mode::Mode::MultiNodeMultiWriter);
    Some(VolumeCapability { access_type: Some(AccessType::Mount(mount)), ..shared })
}

impl Fixture {
    async fn stage_for(&self, volume: &str, group: &str) -> Result<(), Status> {
        self.stage(NodeStageVolumeRequest { volume_capability: grouped(group, &[]), ..stage(self, volume) }).await
    }

    async fn publish_for(&self, volume: &str, target: &str, group: &str) -> Result<(), Status> {
        let request = publish(self, volume, target);
        self.publish(NodePublishVolumeRequest { volume_capability: grouped(group, &[]), ..request }).await
    }

    /// The group for which a path was mounted itself, if it was.
    fn mounted_for(&self, at: &str) -> Option<(Option<u32>, bool)> {
        let options = self.machine.options.lock();
        options.get(&self.path(at)).map(|options| (options.gid, options.group_access))
    }

    fn devices(&self, paths: &[&str]) -> usize {
        let device = |at: &&str| self.machine.top(&self.path(at)).unwrap().device;
        paths.iter().map(device).collect::<BTreeSet<_>>().len()
    }
}

async fn pods_of_several_groups_use_a_volume_on_one_node(f: Fixture) {
    f.create("pvc-1").await;
    f.stage_for("pvc-1", "100").await.unwrap();
    for _ in 0..2 {
        f.publish_for("pvc-1", "same", "100").await.unwrap();
        f.publish_for("pvc-1", "other", "200").await.unwrap();
        f.publish_for("pvc-1", "none", "").await.unwrap();
        // The caller stages the volume again, for another pod.
        f.stage_for("pvc-1", "200").await.unwrap();
    }
    assert_eq!(f.mounted_for("staging"), Some((Some(100), true)));
    assert_eq!(f.mounted_for("same"), None, "a bind");
    assert_eq!(f.mounted_for("other"), Some((Some(200), true)));
    assert_eq!(f.mounted_for("none"), None, "a pod without a group sees that of the others");
    assert_eq!((f.machine.count(), f.devices(&["staging", "same", "other", "none"])), (4, 2));
    assert_eq!(code(f.publish_for("pvc-1", "other", "300").await), Code::AlreadyExists, "another group at one place");
    let stats = f.stats("pvc-1", &f.text("other")).await.unwrap();
    assert!(!stats.volume_condition.unwrap().abnormal && !stats.usage.is_empty());
    assert_eq!(code(f.unstage("pvc-1").await), Code::FailedPrecondition);
    for target in ["same", "other", "none", "other"] {
        f.unpublish("pvc-1", target).await.unwrap();
        assert!(!f.path(target).exists());
    }
    f.unstage("pvc-1").await.unwrap();
    assert_eq!((f.machine.count(), std::fs::read_dir(f.path("node")).unwrap().count()), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_pod_has_its_group() {
    pods_of_several_groups_use_a_volume_on_one_node(fixture().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_pod_has_its_group_on_another_machine() {
    pods_of_several_groups_use_a_volume_on_one_node(remote::fixture().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_mount_option_gid_is_for_all_pods() {
    let f = fixture().await;
    f.create("pvc-1").await;
    let named = |group: &str| grouped(group, &["gid=7"]);
    f.stage(NodeStageVolumeRequest { volume_capability: named("100"), ..stage(&f, "pvc-1") }).await.unwrap();
    for (target, group) in [("a", "100"), ("b", "200"), ("c", "")] {
        let request = publish(&f, "pvc-1", target);
        f.publish(NodePublishVolumeRequest { volume_capability: named(group), ..request }).await.unwrap();
    }
    assert_eq!((f.mounted_for("staging"), f.devices(&["staging", "a", "b", "c"])), (Some((Some(7), false)), 1));
    assert_eq!(code(f.publish_for("pvc-1", "d", "100").await), Code::FailedPrecondition, "staged with another gid");
    assert_eq!(code(f.publish_for("pvc-1", "d", "staff").await), Code::InvalidArgument);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mount_for_a_group_is_rebuilt_and_keeps_its_restrictions() {
    let mut f = fixture().await;
    f.create("pvc-1").await;
    f.stage_for("pvc-1", "100").await.unwrap();
    f.publish_for("pvc-1", "first", "100").await.unwrap();
    let request = publish(&f, "pvc-1", "reader");
    let volume_capability = grouped("200", &["noexec"]);
    f.publish(NodePublishVolumeRequest { volume_capability, readonly: true, ..request }).await.unwrap();
    f.publish_for("pvc-1", "writer", "200").await.unwrap();
    let restricted = |f: &Fixture, at: &str| f.machine.options.lock()[&f.path(at)].no_exec;
    for round in 0..2 {
        assert_eq!(
            (f.machine.serves(&f.path("reader")), f.machine.serves(&f.path("writer"))),
            (Some("ro"), Some("rw"))
        );
        assert!(restricted(&f, "reader") && !restricted(&f, "writer"), "{round}");
        f.machine.die();
        f.machine.options.lock().clear();
        let abnormal = f.stats("pvc-1", &f.text("writer")).await.unwrap().volume_condition.unwrap().abnormal;
        assert!(abnormal, "its mount is dead");
        let recovered = start_again(&mut f).await;
        assert_eq!((recovered.stages, recovered.targets, recovered.failed), (1, 3, 0));
    }
    assert_eq!((f.mounted_for("writer"), f.machine.count()), (Some((Some(200), true)), 4));
    // A mount that died while its process lives is made again by a repeated publish.
    f.machine.die();
    f.publish_for("pvc-1", "writer", "200").await.unwrap();
    assert_eq!(f.machine.serves(&f.path("writer")), Some("rw"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_narrowed_grant_reaches_mounts_for_groups() {
    let mut f = fixture().await;
    let secrets = f.foreign_bucket("alices", Some(Mode::ReadWrite)).await;
    let volume_capability = grouped("100", &[]);
    f.stage(NodeStageVolumeRequest { secrets, volume_capability, ..stage(&f, "alices") }).await.unwrap();
    f.publish_for("alices", "first", "100").await.unwrap();
    f.publish_for("alices", "a", "200").await.unwrap();
    f.store.add_grant(&name("alices"), "bob", Mode::Read).await.unwrap();
    start_again(&mut f).await;
    assert_eq!(f.machine.serves(&f.path("a")), Some("ro"));
    f.store.delete_account("bob").await.unwrap();
    assert_eq!(start_again(&mut f).await.removed, 3);
    assert_eq!(f.machine.count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_fails_leaves_nothing_and_what_is_not_ours_stays() {
    let f = fixture().await;
    f.create("pvc-1").await;
    f.stage_for("pvc-1", "100").await.unwrap();
    f.publish_for("pvc-1", "first", "100").await.unwrap();
    f.machine.mounts_fail.store(true, Ordering::Relaxed);
    assert_eq!(code(f.publish_for("pvc-1", "target", "200").await), Code::Internal);
    assert!(!f.path("target").exists());
    f.machine.mounts_fail.store(false, Ordering::Relaxed);
    std::fs::create_dir(f.path("target")).unwrap();
    f.machine.mount_for_administrator("pvc-1", &f.path("target"));
    assert_eq!(code(f.publish_for("pvc-1", "target", "200").await), Code::FailedPrecondition);
    f.unpublish("pvc-1", "target").await.unwrap();
    assert_eq!(f.machine.serves(&f.path("target")), Some("rw"), "the administrator's");
    f.unpublish("pvc-1", "first").await.unwrap();
    f.unstage("pvc-1").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_of_an_earlier_version_keeps_what_its_pods_see() {
    let f = fixture().await;
    f.create("pvc-1").await;
    // An earlier version was not told of groups.
    f.stage_for("pvc-1", "").await.unwrap();
    f.publish_for("pvc-1", "running", "").await.unwrap();
    f.stage_for("pvc-1", "100").await.unwrap();
    f.publish_for("pvc-1", "running", "100").await.unwrap();
    f.publish_for("pvc-1", "new", "100").await.unwrap();
    assert_eq!((f.mounted_for("running"), f.mounted_for("new")), (None, Some((Some(100), true))));
}

#[tokio::test(flavor = "multi_thread")]
async fn inline_volumes_are_for_the_group_of_their_pod() {
    let f = fixture().await;
    let context = [("csi.storage.k8s.io/ephemeral", "true"), ("size", "1Mi")];
    let request = NodePublishVolumeRequest {
        volume_context: context.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        volume_capability: grouped("100", &[]),
        ..publish(&f, "csi-1", "target")
    };
    for _ in 0..2 {
        f.publish(request.clone()).await.unwrap();
    }
    assert_eq!(f.mounted_for("target"), Some((Some(100), true)));
    f.unpublish("csi-1", "target").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_no_pod_uses_takes_over_the_group_of_the_next() {
    let f = fixture().await;
    f.create("pvc-1").await;
    f.stage_for("pvc-1", "").await.unwrap();
    for group in [100, 200, 100] {
        f.publish_for("pvc-1", "target", &group.to_string()).await.unwrap();
        assert_eq!(f.mounted_for("staging"), Some((Some(group), true)));
        assert_eq!((f.machine.count(), f.devices(&["staging", "target"])), (2, 1));
        f.unpublish("pvc-1", "target").await.unwrap();
    }
    // A mount that fails is made again by a repeated publish.
    f.machine.mounts_fail.store(true, Ordering::Relaxed);
    assert_eq!(code(f.publish_for("pvc-1", "target", "300").await), Code::Internal);
    f.machine.mounts_fail.store(false, Ordering::Relaxed);
    f.publish_for("pvc-1", "target", "300").await.unwrap();
    assert_eq!((f.mounted_for("staging"), f.machine.serves(&f.path("target"))), (Some((Some(300), true)), Some("rw")));
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_two_groups_are_refused_where_the_node_keeps_their_locks() {
    let f = fixture().await;
    f.create("pvc-1").await;
    let alone = |group: &str| VolumeCapability { access_mode: writer().access_mode, ..grouped(group, &[]).unwrap() };
    let publish = async |target: &str, group: &str| {
        let volume_capability = Some(alone(group));
        f.publish(NodePublishVolumeRequest { volume_capability, ..publish(&f, "pvc-1", target) }).await
    };
    f.stage(NodeStageVolumeRequest { volume_capability: Some(alone("100")), ..stage(&f, "pvc-1") }).await.unwrap();
    publish("first", "100").await.unwrap();
    publish("without", "").await.unwrap();
    let refused = publish("second", "200").await.unwrap_err();
    assert!(refused.code() == Code::FailedPrecondition && refused.message().contains("locks=store"), "{refused}");
    assert!(!f.path("second").exists());
    f.unpublish("pvc-1", "first").await.unwrap();
    f.unpublish("pvc-1", "without").await.unwrap();
    publish("second", "200").await.expect("the others are gone");
    assert_eq!(f.mounted_for("staging"), Some((Some(200), true)));
}
