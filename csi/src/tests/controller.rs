//! The controller's guarantees.

use objstore::store::Creator;
use objstore::volume::VolumeOptions;

use super::*;

pub(super) fn volume(name: &str, required_bytes: i64, limit_bytes: i64) -> CreateVolumeRequest {
    CreateVolumeRequest {
        name: name.into(),
        capacity_range: Some(CapacityRange { required_bytes, limit_bytes }),
        volume_capabilities: vec![writer()],
        ..Default::default()
    }
}

pub(super) fn from_snapshot(mut request: CreateVolumeRequest, snapshot_id: &str) -> CreateVolumeRequest {
    use volume_content_source::{SnapshotSource, Type};
    let source = Type::Snapshot(SnapshotSource { snapshot_id: snapshot_id.into() });
    request.volume_content_source = Some(VolumeContentSource { r#type: Some(source) });
    request
}

fn from_volume(mut request: CreateVolumeRequest, volume_id: &str) -> CreateVolumeRequest {
    use volume_content_source::{Type, VolumeSource};
    let source = Type::Volume(VolumeSource { volume_id: volume_id.into() });
    request.volume_content_source = Some(VolumeContentSource { r#type: Some(source) });
    request
}

impl Fixture {
    pub(super) async fn make(&self, request: CreateVolumeRequest) -> Result<Volume, Status> {
        Ok(self.controller.create_volume(Request::new(request)).await?.into_inner().volume.unwrap())
    }

    pub(super) async fn remove(&self, volume_id: &str) -> Result<(), Status> {
        let request = DeleteVolumeRequest { volume_id: volume_id.into(), ..Default::default() };
        self.controller.delete_volume(Request::new(request)).await.map(|_| ())
    }

    pub(super) async fn attach(&self, volume_id: &str, node_id: &str, readonly: bool) -> Result<bool, Status> {
        Ok(!self.attached(volume_id, node_id, readonly).await?.is_empty())
    }

    /// Publishes a volume to a node; the publish context.
    pub(super) async fn attached(
        &self,
        volume_id: &str,
        node_id: &str,
        readonly: bool,
    ) -> Result<HashMap<String, String>, Status> {
        self.attach_as(volume_id, node_id, readonly, writer()).await
    }

    /// Publishes a volume to the node for this capability.
    pub(super) async fn attached_with(
        &self,
        volume_id: &str,
        capability: VolumeCapability,
    ) -> Result<HashMap<String, String>, Status> {
        self.attach_as(volume_id, NODE, false, capability).await
    }

    pub(super) async fn attach_as(
        &self,
        volume_id: &str,
        node_id: &str,
        readonly: bool,
        capability: VolumeCapability,
    ) -> Result<HashMap<String, String>, Status> {
        let request = ControllerPublishVolumeRequest {
            volume_id: volume_id.into(),
            node_id: node_id.into(),
            volume_capability: Some(capability),
            readonly,
            ..Default::default()
        };
        let answer = self.controller.controller_publish_volume(Request::new(request)).await?;
        Ok(answer.into_inner().publish_context)
    }

    /// Unpublishes a volume from all nodes.
    pub(super) async fn detach(&self, volume_id: &str) -> Result<(), Status> {
        let request = ControllerUnpublishVolumeRequest { volume_id: volume_id.into(), ..Default::default() };
        self.controller.controller_unpublish_volume(Request::new(request)).await.map(|_| ())
    }

    pub(super) async fn snap(&self, source_volume_id: &str, name: &str) -> Result<Snapshot, Status> {
        let request = CreateSnapshotRequest {
            source_volume_id: source_volume_id.into(),
            name: name.into(),
            ..Default::default()
        };
        Ok(self.controller.create_snapshot(Request::new(request)).await?.into_inner().snapshot.unwrap())
    }

    /// A copy of a volume, as restored from a backup under another name: with all attributes of the bucket.
    async fn restored_copy(&self, volume: &str, copy: &str) {
        let found = self.store.bucket(&name(volume)).unwrap();
        let request = objstore::store::CreateBucket {
            name: name(copy),
            owner: found.owner,
            quota_bytes: None,
            versioning: found.versioning,
            source: None,
            attributes: found.attributes,
            root: objstore::store::RootAttributes::default(),
        };
        self.store.create_bucket(request).await.unwrap();
    }

    pub(super) async fn drop_snapshot(&self, snapshot_id: &str) -> Result<(), Status> {
        let request = DeleteSnapshotRequest { snapshot_id: snapshot_id.into(), ..Default::default() };
        self.controller.delete_snapshot(Request::new(request)).await.map(|_| ())
    }

    pub(super) async fn snapshots(&self, request: ListSnapshotsRequest) -> ListSnapshotsResponse {
        self.controller.list_snapshots(Request::new(request)).await.unwrap().into_inner()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_is_a_bucket_with_the_size_as_its_quota() {
    let f = fixture().await;
    let made = f.make(volume("pvc-1", 1 << 30, 0)).await.unwrap();
    assert_eq!((made.volume_id.as_str(), made.capacity_bytes), ("pvc-1", 1 << 30));
    let bucket = f.store.bucket(&name("pvc-1")).unwrap();
    assert_eq!((bucket.owner.as_str(), bucket.quota_bytes), (crate::OWNER, Some(1 << 30)));
    assert_eq!(f.make(volume("Sanity_1", 0, 0)).await.unwrap().capacity_bytes, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_request_gives_the_same_volume_and_another_one_is_refused() {
    let f = fixture().await;
    let first = f.make(volume("Sanity_1", 10, 20)).await.unwrap();
    assert_eq!(f.make(volume("Sanity_1", 10, 20)).await.unwrap(), first);
    assert_eq!(f.make(volume("Sanity_1", 5, 0)).await.unwrap(), first, "within the bounds");
    assert_eq!(code(f.make(volume("Sanity_1", 21, 30)).await), Code::AlreadyExists);
    let mut other = volume("Sanity_1", 10, 20);
    other.parameters.insert("uid".into(), "1000".into());
    assert_eq!(code(f.make(other).await), Code::AlreadyExists);
    assert_eq!(code(f.make(from_volume(volume("Sanity_1", 10, 20), "other")).await), Code::AlreadyExists);
    f.foreign_bucket("taken", None).await;
    assert_eq!(code(f.make(volume("taken", 0, 0)).await), Code::AlreadyExists);
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_requests_for_volumes_change_nothing() {
    let f = fixture().await;
    let good = || volume("pvc-1", 0, 0);
    let block = VolumeCapability {
        access_type: Some(volume_capability::AccessType::Block(volume_capability::BlockVolume {})),
        ..writer()
    };
    let bad = [
        volume("", 0, 0),
        volume(&"x".repeat(129), 0, 0),
        volume("pvc-1", -1, 0),
        volume("pvc-1", 20, 10),
        CreateVolumeRequest { volume_capabilities: vec![], ..good() },
        CreateVolumeRequest { volume_capabilities: vec![writer(), block], ..good() },
        CreateVolumeRequest { parameters: HashMap::from([("fstype".into(), "ext4".into())]), ..good() },
        CreateVolumeRequest { mutable_parameters: HashMap::from([("a".into(), "b".into())]), ..good() },
        CreateVolumeRequest { volume_content_source: Some(VolumeContentSource::default()), ..good() },
    ];
    for request in bad {
        let status = f.make(request).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    }
    assert_eq!(code(f.make(from_snapshot(good(), "absent")).await), Code::NotFound);
    assert_eq!(code(f.make(from_volume(good(), "absent")).await), Code::NotFound);
    assert_eq!(code(f.make(from_volume(good(), "Not A Name")).await), Code::NotFound);
    assert!(f.store.buckets(None, 10).unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn clones_name_their_source() {
    let f = fixture().await;
    f.create("pvc-1").await;
    let snapshot = f.snap("pvc-1", "Snap_1").await.unwrap();
    assert!(snapshot.ready_to_use && snapshot.creation_time.is_some());
    let request = || from_snapshot(volume("pvc-2", 1 << 20, 0), &snapshot.snapshot_id);
    let clone = f.make(request()).await.unwrap();
    assert_eq!(clone.content_source, request().volume_content_source);
    f.remove("pvc-1").await.unwrap();
    assert_eq!(f.make(request()).await.unwrap(), clone);
    let of_clone = f.make(from_volume(volume("pvc-3", 0, 0), "pvc-2")).await.unwrap();
    assert_eq!(of_clone.content_source, from_volume(volume("", 0, 0), "pvc-2").volume_content_source);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_volumes_made_here_are_deleted() {
    let f = fixture().await;
    f.create("pvc-1").await;
    f.foreign_bucket("alices", None).await;
    assert_eq!(code(f.remove("").await), Code::InvalidArgument);
    f.remove("absent").await.unwrap();
    f.remove("Not A Name").await.unwrap();
    assert_eq!(code(f.remove("alices").await), Code::FailedPrecondition);
    f.restored_copy("pvc-1", "rescued").await;
    assert_eq!(code(f.remove("rescued").await), Code::FailedPrecondition);
    f.remove("pvc-1").await.unwrap();
    f.remove("pvc-1").await.unwrap();
    assert!(f.store.bucket(&name("pvc-1")).is_err() && f.store.bucket(&name("alices")).is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_published_volume_is_not_deleted() {
    let f = fixture().await;
    f.create("pvc-1").await;
    f.attach("pvc-1", NODE, false).await.unwrap();
    let status = f.remove("pvc-1").await.unwrap_err();
    assert!(status.code() == Code::FailedPrecondition && status.message().contains(NODE), "{status}");
    f.detach("pvc-1").await.unwrap();
    f.detach("pvc-1").await.unwrap();
    f.remove("pvc-1").await.unwrap();
    f.detach("pvc-1").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mounted_volume_is_not_deleted() {
    let f = fixture().await;
    f.create("pvc-1").await;
    let store = f.store.clone();
    let open = move || store.open_volume(&name("pvc-1"), VolumeOptions::default()).unwrap();
    let mount = tokio::task::spawn_blocking(open).await.unwrap();
    let status = f.remove("pvc-1").await.unwrap_err();
    assert!(status.code() == Code::FailedPrecondition && status.message().contains("mounted"), "{status}");
    tokio::task::spawn_blocking(move || drop(mount)).await.unwrap();
    f.remove("pvc-1").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn only_snapshots_taken_here_are_deleted_or_answered_with() {
    let f = fixture().await;
    f.create("pvc-1").await;
    let uid = "snapshot-0a1b2c3d-1111-2222-3333-444455556666";
    for snapshot in ["by-hand", uid] {
        f.store.create_snapshot(&name("pvc-1"), &name(snapshot)).await.unwrap();
        assert_eq!(code(f.drop_snapshot(snapshot).await), Code::FailedPrecondition);
        assert_eq!(code(f.snap("pvc-1", snapshot).await), Code::AlreadyExists);
        assert!(f.store.snapshot(snapshot).is_ok());
        f.store.delete_snapshot(snapshot).await.unwrap();
    }
    f.snap("pvc-1", uid).await.unwrap();
    f.drop_snapshot(uid).await.unwrap();
    f.store.create_snapshot_as(&name("pvc-1"), &name(uid), Creator::Unrecorded).await.unwrap();
    f.drop_snapshot(uid).await.expect("of an older build");
    // A static volume can be snapshot too, and that snapshot is the driver's.
    f.foreign_bucket("alices", None).await;
    f.snap("alices", "of-alices").await.unwrap();
    f.drop_snapshot("of-alices").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn publications_are_recorded_and_compared() {
    let f = fixture().await;
    f.create("pvc-1").await;
    assert_eq!(code(f.attach("pvc-1", "elsewhere", false).await), Code::NotFound);
    assert_eq!(code(f.attach("absent", NODE, false).await), Code::NotFound);
    assert_eq!(code(f.attach("pvc-1", "", false).await), Code::InvalidArgument);
    assert!(!f.attach("pvc-1", NODE, false).await.unwrap());
    assert!(!f.attach("pvc-1", NODE, false).await.unwrap());
    assert_eq!(code(f.attach("pvc-1", NODE, true).await), Code::AlreadyExists);
    let request = ControllerGetVolumeRequest { volume_id: "pvc-1".into() };
    let answer = f.controller.controller_get_volume(Request::new(request)).await.unwrap().into_inner();
    assert_eq!(answer.status.unwrap().published_node_ids, [NODE]);
    f.detach("pvc-1").await.unwrap();
    assert!(f.attach("pvc-1", NODE, true).await.unwrap(), "the node has to know that it may only read");
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_are_listed_page_by_page_in_order() {
    let f = fixture().await;
    for number in 0..5 {
        f.create(&format!("pvc-{number}")).await;
    }
    f.attach("pvc-3", NODE, false).await.unwrap();
    let mut seen = Vec::new();
    let mut starting_token = String::new();
    loop {
        let request = ListVolumesRequest { max_entries: 2, starting_token };
        let page = f.controller.list_volumes(Request::new(request)).await.unwrap().into_inner();
        assert!(page.entries.len() <= 2);
        seen.extend(
            page.entries
                .into_iter()
                .map(|entry| (entry.volume.unwrap().volume_id, entry.status.unwrap().published_node_ids.len())),
        );
        starting_token = page.next_token;
        if starting_token.is_empty() {
            break;
        }
    }
    let expected: Vec<_> = (0..5).map(|number| (format!("pvc-{number}"), usize::from(number == 3))).collect();
    assert_eq!(seen, expected);
    let request = ListVolumesRequest { starting_token: "invalid-token".into(), ..Default::default() };
    assert_eq!(code(f.controller.list_volumes(Request::new(request)).await), Code::Aborted);
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_are_made_once_listed_and_deleted() {
    let f = fixture().await;
    f.create("pvc-1").await;
    f.create("pvc-2").await;
    let first = f.snap("pvc-1", "Snap_1").await.unwrap();
    assert_eq!(f.snap("pvc-1", "Snap_1").await.unwrap(), first);
    assert_eq!(code(f.snap("pvc-2", "Snap_1").await), Code::AlreadyExists);
    assert_eq!(code(f.snap("absent", "Snap_2").await), Code::NotFound);
    assert_eq!(code(f.snap("", "Snap_2").await), Code::InvalidArgument);
    f.snap("pvc-2", "snap-2").await.unwrap();
    f.snap("pvc-2", "snap-3").await.unwrap();

    let all = f.snapshots(ListSnapshotsRequest::default()).await;
    assert_eq!((all.entries.len(), all.next_token.as_str()), (3, ""));
    let page = f.snapshots(ListSnapshotsRequest { max_entries: 2, ..Default::default() }).await;
    let rest = f.snapshots(ListSnapshotsRequest { starting_token: page.next_token, ..Default::default() }).await;
    assert_eq!((page.entries.len(), rest.entries.len()), (2, 1));
    let one = f.snapshots(ListSnapshotsRequest { snapshot_id: first.snapshot_id.clone(), ..Default::default() }).await;
    assert_eq!(one.entries[0].snapshot.as_ref(), Some(&first));
    for (source_volume_id, count) in [("pvc-1", 1), ("pvc-2", 2), ("absent", 0), ("Not A Name", 0)] {
        let request = ListSnapshotsRequest { source_volume_id: source_volume_id.into(), ..Default::default() };
        assert_eq!(f.snapshots(request).await.entries.len(), count, "{source_volume_id}");
    }

    for id in [first.snapshot_id.as_str(), first.snapshot_id.as_str(), "reallyfakesnapshotid", "Not A Name"] {
        let request = DeleteSnapshotRequest { snapshot_id: id.into(), ..Default::default() };
        f.controller.delete_snapshot(Request::new(request)).await.unwrap();
    }
    let gone = GetSnapshotRequest { snapshot_id: first.snapshot_id, ..Default::default() };
    assert_eq!(code(f.controller.get_snapshot(Request::new(gone)).await), Code::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_grow_and_never_shrink() {
    let f = fixture().await;
    f.make(volume("pvc-1", 10, 0)).await.unwrap();
    let expand = async |volume_id: &str, required_bytes, limit_bytes| {
        let request = ControllerExpandVolumeRequest {
            volume_id: volume_id.into(),
            capacity_range: Some(CapacityRange { required_bytes, limit_bytes }),
            ..Default::default()
        };
        let answer = f.controller.controller_expand_volume(Request::new(request)).await?.into_inner();
        assert!(!answer.node_expansion_required);
        Ok::<_, Status>(answer.capacity_bytes)
    };
    assert_eq!(expand("pvc-1", 20, 0).await.unwrap(), 20);
    assert_eq!(expand("pvc-1", 20, 0).await.unwrap(), 20);
    assert_eq!(expand("pvc-1", 5, 0).await.unwrap(), 20);
    assert_eq!(f.store.bucket(&name("pvc-1")).unwrap().quota_bytes, Some(20));
    assert_eq!(code(expand("pvc-1", 5, 15).await), Code::OutOfRange);
    assert_eq!(code(expand("pvc-1", 0, 0).await), Code::InvalidArgument);
    assert_eq!(code(expand("absent", 5, 0).await), Code::NotFound);
    f.make(volume("pvc-1", 10, 0)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn capabilities_are_confirmed_only_as_a_whole() {
    let f = fixture().await;
    f.create("pvc-1").await;
    let validate = async |volume_id: &str, parameters: &[(&str, &str)], volume_capabilities: Vec<VolumeCapability>| {
        let parameters = parameters.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let request = ValidateVolumeCapabilitiesRequest {
            volume_id: volume_id.into(),
            parameters,
            volume_capabilities,
            ..Default::default()
        };
        let answer = f.controller.validate_volume_capabilities(Request::new(request)).await?.into_inner();
        assert_ne!(answer.confirmed.is_some(), !answer.message.is_empty());
        Ok::<_, Status>(answer.confirmed.is_some())
    };
    assert!(validate("pvc-1", &[("uid", "0")], vec![writer()]).await.unwrap());
    assert!(!validate("pvc-1", &[("fstype", "ext4")], vec![writer()]).await.unwrap());
    assert!(!validate("pvc-1", &[], vec![writer(), VolumeCapability::default()]).await.unwrap());
    assert_eq!(code(validate("pvc-1", &[], vec![]).await), Code::InvalidArgument);
    assert_eq!(code(validate("absent", &[], vec![writer()]).await), Code::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn capacity_is_what_the_disk_has_free() {
    let f = fixture().await;
    let capacity =
        async |request| f.controller.get_capacity(Request::new(request)).await.unwrap().into_inner().available_capacity;
    assert!(capacity(GetCapacityRequest::default()).await > 0);
    let parameters = HashMap::from([("fstype".to_owned(), "ext4".to_owned())]);
    assert_eq!(capacity(GetCapacityRequest { parameters, ..Default::default() }).await, 0);
}
