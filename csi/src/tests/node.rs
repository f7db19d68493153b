//! The node's guarantees.

use super::*;
use proto::csi::v1::node_server::Node as _;

/// Makes two tests of each: with the node in the process of its store, and with a node on another machine.
macro_rules! both_ways {
    ($($test:ident;)*) => {
        mod local {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                super::$test(super::fixture().await).await;
            })*
        }

        mod on_another_machine {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                super::$test(super::remote::fixture().await).await;
            })*
        }
    };
}

both_ways! {
    a_volume_goes_up_and_down_and_every_step_may_be_repeated;
    bad_requests_change_nothing;
    a_stage_that_fails_leaves_nothing;
    a_publish_that_fails_leaves_nothing;
    a_call_whose_caller_leaves_is_finished_and_others_are_told_to_wait;
    each_mode_has_its_answers_to_a_second_publication;
    paths_may_be_as_long_as_the_system_has_them;
    what_is_not_ours_is_left_alone;
    what_took_the_place_of_a_stage_is_left_alone;
    a_folder_that_holds_something_is_not_published_at;
    files_beside_a_volume_are_never_deleted;
    a_volume_that_is_gone_can_be_taken_down;
    a_publish_secret_narrows_and_never_widens;
}

pub(super) fn stage(f: &Fixture, volume_id: &str) -> NodeStageVolumeRequest {
    NodeStageVolumeRequest {
        volume_id: volume_id.into(),
        staging_target_path: f.text("staging"),
        volume_capability: Some(writer()),
        ..Default::default()
    }
}

pub(super) fn publish(f: &Fixture, volume_id: &str, target: &str) -> NodePublishVolumeRequest {
    NodePublishVolumeRequest {
        volume_id: volume_id.into(),
        staging_target_path: f.text("staging"),
        target_path: f.text(target),
        volume_capability: Some(writer()),
        ..Default::default()
    }
}

impl Fixture {
    /// Stages a volume. For a node on another machine it is published first.
    pub(super) async fn stage(&self, mut request: NodeStageVolumeRequest) -> Result<(), Status> {
        if self.wire.is_some() && request.publish_context.is_empty() && !request.volume_id.is_empty() {
            request.publish_context = self.attached(&request.volume_id, NODE, false).await?;
        }
        self.node.node_stage_volume(Request::new(request)).await.map(|_| ())
    }

    pub(super) async fn unstage(&self, volume_id: &str) -> Result<(), Status> {
        let staging_target_path = self.text("staging");
        let request = NodeUnstageVolumeRequest { volume_id: volume_id.into(), staging_target_path };
        self.node.node_unstage_volume(Request::new(request)).await.map(|_| ())
    }

    pub(super) async fn publish(&self, request: NodePublishVolumeRequest) -> Result<(), Status> {
        self.node.node_publish_volume(Request::new(request)).await.map(|_| ())
    }

    pub(super) async fn unpublish(&self, volume_id: &str, target: &str) -> Result<(), Status> {
        let request = NodeUnpublishVolumeRequest { volume_id: volume_id.into(), target_path: self.text(target) };
        self.node.node_unpublish_volume(Request::new(request)).await.map(|_| ())
    }

    pub(super) async fn stats(&self, volume_id: &str, volume_path: &str) -> Result<NodeGetVolumeStatsResponse, Status> {
        let request = NodeGetVolumeStatsRequest {
            volume_id: volume_id.into(),
            volume_path: volume_path.into(),
            ..Default::default()
        };
        Ok(self.node.node_get_volume_stats(Request::new(request)).await?.into_inner())
    }
}

async fn a_volume_goes_up_and_down_and_every_step_may_be_repeated(f: Fixture) {
    f.create("pvc-1").await;
    for _ in 0..3 {
        f.stage(stage(&f, "pvc-1")).await.unwrap();
    }
    for _ in 0..3 {
        f.publish(publish(&f, "pvc-1", "target")).await.unwrap();
    }
    f.publish(publish(&f, "pvc-1", "other")).await.unwrap();
    assert_eq!(f.machine.count(), 3);
    assert_eq!(f.machine.serves(&f.path("target")), Some("rw"));
    assert_eq!(code(f.unstage("pvc-1").await), Code::FailedPrecondition);
    for _ in 0..3 {
        f.unpublish("pvc-1", "target").await.unwrap();
        f.unpublish("pvc-1", "other").await.unwrap();
    }
    for _ in 0..3 {
        f.unstage("pvc-1").await.unwrap();
    }
    assert_eq!(f.machine.count(), 0);
    assert!(!f.path("target").exists() && f.path("staging").exists());
    assert_eq!(std::fs::read_dir(f.path("node")).unwrap().count(), 0);
}

async fn bad_requests_change_nothing(f: Fixture) {
    f.create("pvc-1").await;
    let good = || stage(&f, "pvc-1");
    let bad = [
        NodeStageVolumeRequest { volume_id: String::new(), ..good() },
        NodeStageVolumeRequest { staging_target_path: String::new(), ..good() },
        NodeStageVolumeRequest { staging_target_path: "relative".into(), ..good() },
        NodeStageVolumeRequest { staging_target_path: "/".into(), ..good() },
        NodeStageVolumeRequest { volume_capability: None, ..good() },
        NodeStageVolumeRequest { secrets: HashMap::from([("password".into(), "x".into())]), ..good() },
    ];
    for request in bad {
        assert_eq!(code(f.stage(request).await), Code::InvalidArgument);
    }
    assert_eq!(code(f.stage(stage(&f, "absent")).await), Code::NotFound);
    std::os::unix::fs::symlink(f.path("staging"), f.path("link")).unwrap();
    for path in ["link", "nowhere"] {
        let request = NodeStageVolumeRequest { staging_target_path: f.text(path), ..good() };
        assert_eq!(code(f.stage(request).await), Code::FailedPrecondition, "{path}");
    }
    assert_eq!(code(f.publish(publish(&f, "pvc-1", "target")).await), Code::FailedPrecondition, "not staged");
    assert_eq!(code(f.publish(publish(&f, "No Name", "target")).await), Code::NotFound);
    if f.wire.is_none() {
        assert_eq!(code(f.publish(publish(&f, "absent", "target")).await), Code::NotFound);
    }
    f.stage(good()).await.unwrap();
    let inline = HashMap::from([("csi.storage.k8s.io/ephemeral".to_owned(), "true".to_owned())]);
    let good = || publish(&f, "pvc-1", "target");
    let bad = [
        NodePublishVolumeRequest { volume_id: String::new(), ..good() },
        NodePublishVolumeRequest { target_path: "/a/../b".into(), ..good() },
        NodePublishVolumeRequest { volume_capability: None, ..good() },
        NodePublishVolumeRequest { volume_context: inline, ..good() },
    ];
    for request in bad {
        assert_eq!(code(f.publish(request).await), Code::InvalidArgument);
    }
    assert_eq!(code(f.publish(publish(&f, "pvc-1", "no/parent")).await), Code::FailedPrecondition);
    let elsewhere = NodePublishVolumeRequest { staging_target_path: f.text("elsewhere"), ..good() };
    assert_eq!(code(f.publish(elsewhere).await), Code::FailedPrecondition);
    assert_eq!(f.machine.count(), 1);
    assert!(!f.path("target").exists());
}

async fn a_stage_that_fails_leaves_nothing(f: Fixture) {
    f.create("pvc-1").await;
    f.machine.mounts_fail.store(true, Ordering::Relaxed);
    let status = f.stage(stage(&f, "pvc-1")).await.unwrap_err();
    assert!(status.code() == Code::Internal && status.message().contains("No such device"), "{status}");
    assert_eq!(std::fs::read_dir(f.path("node")).unwrap().count(), 0);
    f.machine.mounts_fail.store(false, Ordering::Relaxed);
    f.stage(stage(&f, "pvc-1")).await.unwrap();
}

async fn a_publish_that_fails_leaves_nothing(f: Fixture) {
    f.create("pvc-1").await;
    f.stage(stage(&f, "pvc-1")).await.unwrap();
    f.machine.binds_fail.store(true, Ordering::Relaxed);
    assert_eq!(code(f.publish(publish(&f, "pvc-1", "target")).await), Code::Internal);
    assert!(!f.path("target").exists());
    f.unstage("pvc-1").await.unwrap();
}

#[expect(clippy::await_holding_lock, reason = "only a blocking thread waits for the lock")]
async fn a_call_whose_caller_leaves_is_finished_and_others_are_told_to_wait(f: Fixture) {
    f.create("pvc-1").await;
    let gate = f.machine.gate.lock();
    let left = tokio::time::timeout(std::time::Duration::from_millis(200), f.stage(stage(&f, "pvc-1"))).await;
    assert!(left.is_err(), "the mount waits for the gate");
    assert_eq!(code(f.stage(stage(&f, "pvc-1")).await), Code::Aborted);
    assert_eq!(code(f.unstage("pvc-1").await), Code::Aborted);
    drop(gate);
    while f.unstage("pvc-1").await.is_err() {
        tokio::task::yield_now().await;
    }
    assert_eq!(f.machine.devices.load(Ordering::Relaxed), 1, "the mount was made, and unmounted again");
    assert_eq!(f.machine.count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_is_mounted_read_only_with_a_key_of_its_bucket() {
    let f = fixture().await;
    let secrets = f.foreign_bucket("alices", Some(Mode::ReadWrite)).await;
    f.store.create_snapshot(&name("alices"), &name("yesterday")).await.unwrap();
    assert_eq!(code(f.stage(stage(&f, "yesterday")).await), Code::PermissionDenied);
    f.stage(NodeStageVolumeRequest { secrets, ..stage(&f, "yesterday") }).await.unwrap();
    assert_eq!(f.machine.serves(&f.path("staging")), Some("ro"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mount_is_no_wider_than_the_grant() {
    let f = fixture().await;
    let secrets = f.foreign_bucket("alices", Some(Mode::ReadWrite)).await;
    let with =
        |secrets: &HashMap<String, String>| NodeStageVolumeRequest { secrets: secrets.clone(), ..stage(&f, "alices") };
    f.stage(with(&secrets)).await.unwrap();
    assert_eq!(f.machine.serves(&f.path("staging")), Some("rw"));
    assert_eq!(f.machine.options.lock()[&f.path("staging")].account.as_deref(), Some("bob"));
    f.unstage("alices").await.unwrap();

    f.secret_of_bob("alices", Some(Mode::Read)).await;
    f.stage(with(&secrets)).await.unwrap();
    f.publish(publish(&f, "alices", "target")).await.unwrap();
    assert_eq!(f.machine.serves(&f.path("target")), Some("ro"));
    f.unpublish("alices", "target").await.unwrap();
    f.unstage("alices").await.unwrap();

    f.secret_of_bob("alices", Some(Mode::Write)).await;
    assert_eq!(code(f.stage(with(&secrets)).await), Code::PermissionDenied);
    f.store.remove_grant(&name("alices"), "bob").await.unwrap();
    assert_eq!(code(f.stage(with(&secrets)).await), Code::PermissionDenied);
    assert_eq!(code(f.stage(with(&HashMap::new())).await), Code::PermissionDenied, "not made by this driver");
    let mut wrong = secrets.clone();
    wrong.insert("secretAccessKey".into(), "guess".into());
    assert_eq!(code(f.stage(with(&wrong)).await), Code::Unauthenticated);
    wrong.insert("accessKeyId".into(), "guess".into());
    assert_eq!(code(f.stage(with(&wrong)).await), Code::Unauthenticated);
    assert_eq!(f.machine.count(), 0);
}

async fn a_publish_secret_narrows_and_never_widens(f: Fixture) {
    f.create("pvc-1").await;
    f.stage(stage(&f, "pvc-1")).await.unwrap();
    let secrets = f.secret_of_bob("pvc-1", None).await;
    let with = |target: &str| NodePublishVolumeRequest { secrets: secrets.clone(), ..publish(&f, "pvc-1", target) };
    assert_eq!(code(f.publish(with("a")).await), Code::PermissionDenied);
    f.secret_of_bob("pvc-1", Some(Mode::Read)).await;
    f.publish(with("a")).await.unwrap();
    assert_eq!(f.machine.serves(&f.path("a")), Some("ro"));
    f.publish(publish(&f, "pvc-1", "b")).await.unwrap();
    assert_eq!(f.machine.serves(&f.path("b")), Some("rw"));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_way_to_say_read_only_is_heard() {
    let f = fixture().await;
    f.create("pvc-1").await;
    let reader = capability(access_mode::Mode::MultiNodeReaderOnly);
    let attached = HashMap::from([("amphora/readonly".to_owned(), "true".to_owned())]);
    for request in [
        NodeStageVolumeRequest { volume_capability: Some(reader.clone()), ..stage(&f, "pvc-1") },
        NodeStageVolumeRequest { publish_context: attached, ..stage(&f, "pvc-1") },
    ] {
        f.stage(request).await.unwrap();
        assert_eq!(f.machine.serves(&f.path("staging")), Some("ro"));
        f.unstage("pvc-1").await.unwrap();
    }
    f.stage(stage(&f, "pvc-1")).await.unwrap();
    f.publish(NodePublishVolumeRequest { readonly: true, ..publish(&f, "pvc-1", "a") }).await.unwrap();
    f.publish(NodePublishVolumeRequest { volume_capability: Some(reader), ..publish(&f, "pvc-1", "b") }).await.unwrap();
    assert_eq!((f.machine.serves(&f.path("a")), f.machine.serves(&f.path("b"))), (Some("ro"), Some("ro")));
    assert_eq!(code(f.publish(publish(&f, "pvc-1", "a")).await), Code::AlreadyExists);
}

/// The table of NodePublishVolume, with the capability SINGLE_NODE_MULTI_WRITER.
async fn each_mode_has_its_answers_to_a_second_publication(f: Fixture) {
    use access_mode::Mode;
    f.create("pvc-1").await;
    for (mode, elsewhere) in [
        (Mode::SingleNodeSingleWriter, Err(Code::FailedPrecondition)),
        (Mode::SingleNodeWriter, Err(Code::FailedPrecondition)),
        (Mode::SingleNodeReaderOnly, Err(Code::FailedPrecondition)),
        (Mode::SingleNodeMultiWriter, Ok(())),
        (Mode::MultiNodeReaderOnly, Ok(())),
        (Mode::MultiNodeSingleWriter, Ok(())),
        (Mode::MultiNodeMultiWriter, Ok(())),
    ] {
        f.detach("pvc-1").await.unwrap();
        let with = |flags: &[&str]| {
            let mount_flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
            let mount = volume_capability::MountVolume { mount_flags, ..Default::default() };
            let access_type = Some(volume_capability::AccessType::Mount(mount));
            Some(VolumeCapability { access_type, ..capability(mode) })
        };
        let mut staged = NodeStageVolumeRequest { volume_capability: with(&[]), ..stage(&f, "pvc-1") };
        if f.wire.is_some() {
            staged.publish_context = f.attached_with("pvc-1", capability(mode)).await.unwrap();
        }
        f.stage(staged).await.unwrap();
        let at = |target: &str, flags: &[&str]| NodePublishVolumeRequest {
            volume_capability: with(flags),
            ..publish(&f, "pvc-1", target)
        };
        f.publish(at("a", &[])).await.unwrap();
        f.publish(at("a", &[])).await.unwrap();
        let again = [at("a", &["noexec"]), at("a", &["uid=7"]), at("a", &["prefix=x"])];
        let again = again.into_iter().chain([NodePublishVolumeRequest {
            volume_capability: Some(crate::capability::tests::block(mode)),
            ..at("a", &[])
        }]);
        for request in again {
            assert_eq!(code(f.publish(request).await), Code::AlreadyExists, "{mode:?}");
        }
        for flags in [&[][..], &["noexec"]] {
            let answer = f.publish(at("b", flags)).await.map_err(|status| status.code());
            assert_eq!(answer, elsewhere, "{mode:?} {flags:?}");
            assert_eq!(f.path("b").exists(), elsewhere.is_ok());
            f.unpublish("pvc-1", "b").await.unwrap();
        }
        f.unpublish("pvc-1", "a").await.unwrap();
        f.publish(at("b", &[])).await.unwrap();
        f.unpublish("pvc-1", "b").await.unwrap();
        f.unstage("pvc-1").await.unwrap();
    }
}

async fn paths_may_be_as_long_as_the_system_has_them(f: Fixture) {
    f.create("pvc-1").await;
    let deep: PathBuf = (0..8).map(|_| "d".repeat(200)).collect();
    let (staging, target) = (f.path("").join(&deep).join("s"), f.path("").join(&deep).join("t"));
    std::fs::create_dir_all(&staging).unwrap();
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    assert!(text(&staging).len() > 1600);
    f.stage(NodeStageVolumeRequest { staging_target_path: text(&staging), ..stage(&f, "pvc-1") }).await.unwrap();
    let request = publish(&f, "pvc-1", "t");
    let request =
        NodePublishVolumeRequest { staging_target_path: text(&staging), target_path: text(&target), ..request };
    f.publish(request).await.unwrap();
    f.stats("pvc-1", &text(&target)).await.unwrap();
    let request = NodeUnpublishVolumeRequest { volume_id: "pvc-1".into(), target_path: text(&target) };
    f.node.node_unpublish_volume(Request::new(request)).await.unwrap();
    let request = NodeUnstageVolumeRequest { volume_id: "pvc-1".into(), staging_target_path: text(&staging) };
    f.node.node_unstage_volume(Request::new(request)).await.unwrap();
    assert!(f.machine.count() == 0 && !target.exists());
}

async fn what_is_not_ours_is_left_alone(f: Fixture) {
    f.create("pvc-1").await;
    f.create("pvc-2").await;
    let foreign =
        || MountEntry { device: "8:1".into(), fs_type: "ext4".into(), source: "sda".into(), ..MountEntry::default() };
    f.machine.push(&f.path("staging"), foreign());
    assert_eq!(code(f.stage(stage(&f, "pvc-1")).await), Code::FailedPrecondition);
    f.unstage("pvc-1").await.unwrap();
    assert_eq!(f.machine.count(), 1);
    Mounter::unmount(&*f.machine, &f.path("staging")).unwrap();

    f.stage(stage(&f, "pvc-1")).await.unwrap();
    assert_eq!(code(f.stage(stage(&f, "pvc-2")).await), Code::FailedPrecondition);
    f.unstage("pvc-2").await.unwrap();
    std::fs::create_dir(f.path("target")).unwrap();
    f.machine.push(&f.path("target"), foreign());
    assert_eq!(code(f.publish(publish(&f, "pvc-1", "target")).await), Code::FailedPrecondition);
    f.unpublish("pvc-1", "target").await.unwrap();
    assert_eq!(f.machine.top(&f.path("target")), Some(foreign()));
    f.machine.detach(&f.path("target")).unwrap();
    f.publish(publish(&f, "pvc-1", "target")).await.unwrap();
    f.unpublish("pvc-2", "target").await.unwrap();
    assert_eq!(f.machine.serves(&f.path("target")), Some("rw"));
    f.machine.push(&f.path("target"), foreign());
    assert_eq!(code(f.unpublish("pvc-1", "target").await), Code::FailedPrecondition, "another program mounted over it");
    assert_eq!(f.machine.top(&f.path("target")), Some(foreign()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mount_of_the_administrator_is_never_taken_down() {
    leave_the_administrators_mounts(fixture().await).await;
    leave_the_administrators_mounts(super::remote::fixture().await).await;
}

async fn leave_the_administrators_mounts(f: Fixture) {
    f.create("pvc-1").await;
    f.create("by-hand").await;
    std::fs::create_dir(f.path("target")).unwrap();
    for path in ["staging", "target"] {
        f.machine.mount_for_administrator("by-hand", &f.path(path));
    }
    let untouched = || ["staging", "target"].map(|path| f.machine.serves(&f.path(path))) == [Some("rw"); 2];
    for volume in ["pvc-1", "by-hand", "unknown"] {
        f.unpublish(volume, "target").await.unwrap();
        f.unpublish(volume, "staging").await.unwrap();
        f.unstage(volume).await.unwrap();
        assert!(untouched(), "{volume}");
    }
    for volume in ["pvc-1", "by-hand"] {
        assert_eq!(code(f.stage(stage(&f, volume)).await), Code::FailedPrecondition, "{volume}");
    }
    let elsewhere = f.path("other-staging");
    std::fs::create_dir(&elsewhere).unwrap();
    let staging_target_path = elsewhere.to_str().unwrap().to_owned();
    f.stage(NodeStageVolumeRequest { staging_target_path: staging_target_path.clone(), ..stage(&f, "by-hand") })
        .await
        .unwrap();
    let over = NodePublishVolumeRequest { staging_target_path, ..publish(&f, "by-hand", "target") };
    assert_eq!(code(f.publish(over).await), Code::FailedPrecondition);
    f.unpublish("by-hand", "target").await.unwrap();
    assert!(untouched());
    // The administrator's mounts stay the administrator's even when dead.
    f.machine.die();
    f.unpublish("pvc-1", "target").await.unwrap();
    f.unstage("pvc-1").await.unwrap();
    assert_eq!(code(f.stage(stage(&f, "pvc-1")).await), Code::FailedPrecondition);
    assert!(f.machine.top(&f.path("staging")).is_some() && f.machine.top(&f.path("target")).is_some());
}

async fn what_took_the_place_of_a_stage_is_left_alone(f: Fixture) {
    f.create("pvc-1").await;
    f.create("by-hand").await;
    f.stage(stage(&f, "pvc-1")).await.unwrap();
    f.publish(publish(&f, "pvc-1", "target")).await.unwrap();
    // The administrator unmounts both manually, and mounts something else there.
    for path in ["staging", "target"] {
        Mounter::unmount(&*f.machine, &f.path(path)).unwrap();
        f.machine.mount_for_administrator("by-hand", &f.path(path));
    }
    assert_eq!(code(f.unpublish("pvc-1", "target").await), Code::FailedPrecondition);
    Mounter::unmount(&*f.machine, &f.path("target")).unwrap();
    f.unpublish("pvc-1", "target").await.unwrap();
    f.unstage("pvc-1").await.unwrap();
    assert_eq!(f.machine.serves(&f.path("staging")), Some("rw"), "the stage is gone, the other mount is not");
}

async fn a_folder_that_holds_something_is_not_published_at(f: Fixture) {
    f.create("pvc-1").await;
    f.stage(stage(&f, "pvc-1")).await.unwrap();
    std::fs::create_dir(f.path("target")).unwrap();
    std::fs::write(f.path("target/file"), "kept").unwrap();
    let status = f.publish(publish(&f, "pvc-1", "target")).await.unwrap_err();
    assert!(status.code() == Code::FailedPrecondition && status.message().contains("not empty"), "{status}");
    f.unpublish("pvc-1", "target").await.unwrap();
    assert!(f.path("target/file").exists() && f.machine.count() == 1);
    f.unstage("pvc-1").await.unwrap();
    // An empty folder that was not a target is not removed either.
    std::fs::remove_file(f.path("target/file")).unwrap();
    f.unpublish("pvc-1", "target").await.unwrap();
    assert!(f.path("target").exists());
}

async fn files_beside_a_volume_are_never_deleted(f: Fixture) {
    f.create("pvc-1").await;
    f.stage(stage(&f, "pvc-1")).await.unwrap();
    f.publish(publish(&f, "pvc-1", "target")).await.unwrap();
    std::fs::write(f.path("target/file"), "kept").unwrap();
    assert_eq!(code(f.unpublish("pvc-1", "target").await), Code::FailedPrecondition);
    assert!(f.path("target/file").exists());
    std::fs::remove_file(f.path("target/file")).unwrap();
    f.unpublish("pvc-1", "target").await.unwrap();
}

async fn a_volume_that_is_gone_can_be_taken_down(f: Fixture) {
    f.create("pvc-1").await;
    f.stage(stage(&f, "pvc-1")).await.unwrap();
    f.publish(publish(&f, "pvc-1", "target")).await.unwrap();
    f.store.delete_bucket(&name("pvc-1"), objstore::store::Deletion::Force).await.unwrap();
    f.unpublish("pvc-1", "target").await.unwrap();
    f.unstage("pvc-1").await.unwrap();
    assert_eq!(f.machine.count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn stats_come_without_asking_the_mount() {
    let f = fixture().await;
    f.create("pvc-1").await;
    f.stage(stage(&f, "pvc-1")).await.unwrap();
    f.publish(publish(&f, "pvc-1", "target")).await.unwrap();
    for path in ["target", "staging"] {
        let stats = f.stats("pvc-1", &f.text(path)).await.unwrap();
        assert_eq!(stats.usage.len(), 2);
        assert!(!stats.volume_condition.unwrap().abnormal);
    }
    f.machine.die();
    let stats = f.stats("pvc-1", &f.text("target")).await.unwrap();
    assert!(stats.usage.len() == 2 && stats.volume_condition.unwrap().abnormal);
    assert_eq!(code(f.stats("", "some/path").await), Code::InvalidArgument);
    assert_eq!(code(f.stats("pvc-1", "").await), Code::InvalidArgument);
    assert_eq!(code(f.stats("pvc-1", "some/path").await), Code::NotFound);
    assert_eq!(code(f.stats("absent", &f.text("target")).await), Code::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grown_volume_is_grown_on_the_node() {
    let f = fixture().await;
    f.create("pvc-1").await;
    f.stage(stage(&f, "pvc-1")).await.unwrap();
    let expand = async |volume_id: &str, volume_path: String, required_bytes| {
        let request = NodeExpandVolumeRequest {
            volume_id: volume_id.into(),
            volume_path,
            capacity_range: Some(CapacityRange { required_bytes, limit_bytes: 0 }),
            ..Default::default()
        };
        Ok::<_, Status>(f.node.node_expand_volume(Request::new(request)).await?.into_inner().capacity_bytes)
    };
    let set = |bytes| objstore::store::SetBucket { quota_bytes: Some(Some(bytes)), ..Default::default() };
    f.store.set_bucket(&name("pvc-1"), set(1 << 20)).await.unwrap();
    assert_eq!(expand("pvc-1", f.text("staging"), 1 << 20).await.unwrap(), 1 << 20);
    assert_eq!(code(expand("pvc-1", f.text("staging"), 1 << 21).await), Code::OutOfRange);
    assert_eq!(code(expand("pvc-1", String::new(), 1).await), Code::InvalidArgument);
    assert_eq!(code(expand("", f.text("staging"), 1).await), Code::InvalidArgument);
    assert_eq!(code(expand("absent", "some/path".into(), 1).await), Code::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_works_is_advertised() {
    let f = fixture().await;
    let answer = f.node.node_get_info(Request::new(NodeGetInfoRequest {})).await.unwrap().into_inner();
    assert_eq!((answer.node_id.as_str(), answer.accessible_topology), (NODE, None));
    for bad in ["", "1csi", "csi.amphora.dev.", "csi/amphora", "csi..dev", "csi-.dev", "csi_dev", &"c".repeat(64)] {
        assert!(Config { driver_name: bad.into(), ..config(f.dir.path()) }.check().is_err(), "{bad}");
    }
    for good in ["c", "csi.amphora.dev", "CSI-2.v1", &"c".repeat(63)] {
        Config { driver_name: good.into(), ..config(f.dir.path()) }.check().unwrap();
    }
    for bad in ["a/b", "", &"n".repeat(129)] {
        assert!(Config { node_id: bad.into(), ..config(f.dir.path()) }.check().is_err(), "{bad}");
    }
}
