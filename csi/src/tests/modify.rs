//! Mutable parameters. CSI v1.12, ControllerModifyVolume, and `mutable_parameters` of CreateVolume.

use objstore::store::Versioning;
use objstore::volume::VolumeOptions;

use super::*;

fn parameters(pairs: &[(&str, &str)]) -> HashMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// The days of a lifecycle rule: those of noncurrent versions, and those of unfinished uploads.
type Days = (Option<u32>, Option<u32>);

impl Fixture {
    async fn modify(&self, volume_id: &str, pairs: &[(&str, &str)]) -> Result<(), Status> {
        let (volume_id, mutable_parameters) = (volume_id.into(), parameters(pairs));
        let request = ControllerModifyVolumeRequest { volume_id, mutable_parameters, ..Default::default() };
        self.controller.controller_modify_volume(Request::new(request)).await.map(drop)
    }

    async fn create_with(&self, name: &str, pairs: &[(&str, &str)], source: Option<&str>) -> Result<Volume, Status> {
        let source = source.map(|volume| {
            let source = volume_content_source::VolumeSource { volume_id: volume.into() };
            VolumeContentSource { r#type: Some(volume_content_source::Type::Volume(source)) }
        });
        let request = CreateVolumeRequest {
            name: name.into(),
            volume_capabilities: vec![writer()],
            parameters: parameters(&[("uid", "5"), ("gid", "5")]),
            mutable_parameters: parameters(pairs),
            volume_content_source: source,
            ..Default::default()
        };
        Ok(self.controller.create_volume(Request::new(request)).await?.into_inner().volume.unwrap())
    }

    async fn on_mount<T: Send + 'static>(
        &self,
        volume: &str,
        look: impl FnOnce(&objstore::volume::Volume) -> T + Send + 'static,
    ) -> T {
        let (store, volume) = (self.store.clone(), name(volume));
        let work = move || look(&store.open_volume(&volume, VolumeOptions::default()).unwrap());
        tokio::task::spawn_blocking(work).await.unwrap()
    }

    /// Owner, group and mode of a volume's root.
    async fn root(&self, volume: &str) -> (u32, u32, u32) {
        self.on_mount(volume, |mount| {
            let root = mount.attr(mount.root()).unwrap();
            (root.uid, root.gid, root.mode & 0o7777)
        })
        .await
    }

    /// Versioning, and the days of the lifecycle rules.
    fn settings(&self, volume: &str) -> (Versioning, Vec<Days>) {
        let settings = self.store.settings(&name(volume)).unwrap().settings;
        let days = settings.lifecycle.iter().map(|rule| (rule.noncurrent_days, rule.abort_upload_days));
        (self.store.bucket(&name(volume)).unwrap().versioning, days.collect())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_parameter_is_changed_alone_and_again_without_effect() {
    let f = fixture().await;
    f.create("pvc-1").await;
    for _ in 0..2 {
        f.modify("pvc-1", &[("gid", "100"), ("mode", "2770")]).await.unwrap();
        assert_eq!(f.root("pvc-1").await, (0, 100, 0o2770));
        assert_eq!(f.settings("pvc-1"), (Versioning::Disabled, vec![]));
    }
    f.modify("pvc-1", &[("versioning", "enabled"), ("noncurrentDays", "30")]).await.unwrap();
    assert_eq!(f.settings("pvc-1"), (Versioning::Enabled, vec![(Some(30), None)]));
    f.modify("pvc-1", &[("abortUploadDays", "7")]).await.unwrap();
    f.modify("pvc-1", &[("versioning", "suspended")]).await.unwrap();
    assert_eq!(f.settings("pvc-1"), (Versioning::Suspended, vec![(Some(30), Some(7))]), "what is not named stays");
    f.modify("pvc-1", &[("noncurrentDays", "none"), ("abortUploadDays", "none")]).await.unwrap();
    assert_eq!(f.settings("pvc-1"), (Versioning::Suspended, vec![]));
    assert_eq!(code(f.modify("pvc-1", &[]).await), Code::InvalidArgument, "nothing is named");
    assert_eq!(f.root("pvc-1").await, (0, 100, 0o2770));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_modification_changes_nothing() {
    let f = fixture().await;
    f.create("pvc-1").await;
    f.modify("pvc-1", &[("versioning", "enabled")]).await.unwrap();
    let before = (f.root("pvc-1").await, f.settings("pvc-1"));
    for bad in
        [("iops", "100"), ("uid", "root"), ("versioning", "on"), ("versioning", "disabled"), ("noncurrentDays", "0")]
    {
        let status = f.modify("pvc-1", &[("gid", "7"), ("abortUploadDays", "7"), bad]).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{bad:?}: {status}");
        assert!(
            bad.0 != "iops" || status.message().contains("\"versioning\""),
            "it names the supported ones: {status}"
        );
        assert_eq!((f.root("pvc-1").await, f.settings("pvc-1")), before, "{bad:?}");
    }
    assert_eq!(code(f.modify("", &[]).await), Code::InvalidArgument);
    assert_eq!(code(f.modify("absent", &[("gid", "7")]).await), Code::NotFound);
    f.foreign_bucket("alices", None).await;
    assert_eq!(code(f.modify("alices", &[("gid", "7")]).await), Code::FailedPrecondition);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mount_shows_the_new_owner_and_keeps_what_it_has_open() {
    let f = fixture().await;
    f.create("pvc-1").await;
    let (store, volume) = (f.store.clone(), name("pvc-1"));
    let mount = tokio::task::spawn_blocking(move || store.open_volume(&volume, VolumeOptions::default()).unwrap())
        .await
        .unwrap();
    f.modify("pvc-1", &[("uid", "9"), ("versioning", "enabled")]).await.unwrap();
    let uid = tokio::task::spawn_blocking(move || mount.attr(mount.root()).unwrap().uid).await.unwrap();
    assert_eq!(uid, 9);
}

#[tokio::test(flavor = "multi_thread")]
async fn mutable_parameters_of_a_new_volume_take_precedence_and_reach_clones() {
    let f = fixture().await;
    let mutable = [("gid", "7"), ("noncurrentDays", "30"), ("versioning", "enabled")];
    let made = f.create_with("pvc-1", &mutable, None).await.unwrap();
    assert_eq!(f.root("pvc-1").await, (5, 7, 0o755));
    assert_eq!(f.settings("pvc-1"), (Versioning::Enabled, vec![(Some(30), None)]));
    assert_eq!(f.create_with("pvc-1", &mutable, None).await.unwrap(), made);
    assert_eq!(code(f.create_with("pvc-1", &mutable[..1], None).await), Code::AlreadyExists);
    f.modify("pvc-1", &[("gid", "8"), ("noncurrentDays", "none")]).await.unwrap();
    assert_eq!(f.create_with("pvc-1", &mutable, None).await.unwrap(), made, "also after a modification");
    assert_eq!(f.root("pvc-1").await, (5, 8, 0o755), "which a repeated creation does not undo");
    f.create_with("pvc-2", &[("uid", "6"), ("abortUploadDays", "3")], Some("pvc-1")).await.unwrap();
    assert_eq!(f.root("pvc-2").await, (6, 8, 0o755), "a clone keeps what its class of attributes does not name");
    assert_eq!(f.settings("pvc-2"), (Versioning::Enabled, vec![(None, Some(3))]));
    assert_eq!(code(f.create_with("pvc-3", &[("iops", "1")], None).await), Code::InvalidArgument);
}
