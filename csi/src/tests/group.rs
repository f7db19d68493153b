//! Group snapshots. CSI v1.12, Group Controller Service RPCs.

use super::*;

impl Fixture {
    async fn group(&self, name: &str, volumes: &[&str]) -> Result<VolumeGroupSnapshot, Status> {
        let request = CreateVolumeGroupSnapshotRequest {
            name: name.into(),
            source_volume_ids: volumes.iter().map(|volume| (*volume).to_owned()).collect(),
            ..Default::default()
        };
        let made = self.controller.create_volume_group_snapshot(Request::new(request)).await?;
        Ok(made.into_inner().group_snapshot.unwrap())
    }

    async fn drop_group(&self, id: &str, snapshot_ids: &[String]) -> Result<(), Status> {
        let (group_snapshot_id, snapshot_ids) = (id.into(), snapshot_ids.to_vec());
        let request = DeleteVolumeGroupSnapshotRequest { group_snapshot_id, snapshot_ids, ..Default::default() };
        self.controller.delete_volume_group_snapshot(Request::new(request)).await.map(drop)
    }

    async fn found_group(&self, id: &str, snapshot_ids: &[String]) -> Result<VolumeGroupSnapshot, Status> {
        let (group_snapshot_id, snapshot_ids) = (id.into(), snapshot_ids.to_vec());
        let request = GetVolumeGroupSnapshotRequest { group_snapshot_id, snapshot_ids, ..Default::default() };
        let found = self.controller.get_volume_group_snapshot(Request::new(request)).await?;
        Ok(found.into_inner().group_snapshot.unwrap())
    }
}

fn ids(group: &VolumeGroupSnapshot) -> Vec<String> {
    group.snapshots.iter().map(|snapshot| snapshot.snapshot_id.clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_has_a_snapshot_of_each_volume_with_its_id_and_time() {
    let f = fixture().await;
    for volume in ["pvc-1", "pvc-2"] {
        f.create(volume).await;
    }
    let group = f.group("Group_1", &["pvc-1", "pvc-2"]).await.unwrap();
    assert!(group.ready_to_use && group.creation_time.is_some());
    let mut sources: Vec<_> = group.snapshots.iter().map(|snapshot| snapshot.source_volume_id.as_str()).collect();
    sources.sort_unstable();
    assert_eq!(sources, ["pvc-1", "pvc-2"]);
    for snapshot in &group.snapshots {
        assert_eq!(snapshot.group_snapshot_id, group.group_snapshot_id);
        assert!(snapshot.ready_to_use && snapshot.creation_time == group.creation_time);
        let request = GetSnapshotRequest { snapshot_id: snapshot.snapshot_id.clone(), ..Default::default() };
        let found = f.controller.get_snapshot(Request::new(request)).await.unwrap().into_inner().snapshot;
        assert_eq!(found.as_ref(), Some(snapshot));
    }
    let listed = f.controller.list_snapshots(Request::new(ListSnapshotsRequest::default())).await.unwrap().into_inner();
    let listed: Vec<_> = listed.entries.into_iter().map(|entry| entry.snapshot.unwrap()).collect();
    assert_eq!(listed, group.snapshots);
    assert_eq!(f.found_group(&group.group_snapshot_id, &ids(&group)).await.unwrap(), group);
    let name = f.store.snapshots(None, None, 10).unwrap()[0].name.clone();
    assert!(f.store.bucket(&super::name(&name)).unwrap().snapshot, "a snapshot can be read under its own name");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_request_gives_the_same_group_and_another_one_is_refused() {
    let f = fixture().await;
    for volume in ["pvc-1", "pvc-2"] {
        f.create(volume).await;
    }
    let group = f.group("group", &["pvc-1", "pvc-2"]).await.unwrap();
    assert_eq!(f.group("group", &["pvc-2", "pvc-1"]).await.unwrap(), group);
    assert_eq!(code(f.group("group", &["pvc-1"]).await), Code::AlreadyExists);
    let parameters = HashMap::from([("key".to_owned(), "value".to_owned())]);
    let (name, source_volume_ids) = ("group".into(), vec!["pvc-1".into(), "pvc-2".into()]);
    let request = CreateVolumeGroupSnapshotRequest { name, source_volume_ids, parameters, ..Default::default() };
    let refused = f.controller.create_volume_group_snapshot(Request::new(request)).await.unwrap_err();
    assert!(refused.code() == Code::InvalidArgument && refused.message().contains("\"key\""), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_requests_for_groups_take_nothing() {
    let f = fixture().await;
    f.create("pvc-1").await;
    assert_eq!(code(f.group("", &["pvc-1"]).await), Code::InvalidArgument);
    assert_eq!(code(f.group("group", &[]).await), Code::InvalidArgument);
    assert_eq!(code(f.group("group", &["pvc-1", ""]).await), Code::InvalidArgument);
    assert_eq!(code(f.group("group", &["pvc-1", "pvc-1"]).await), Code::InvalidArgument);
    assert_eq!(code(f.group("group", &["pvc-1"; 129]).await), Code::InvalidArgument);
    assert_eq!(code(f.group("group", &["pvc-1", "absent"]).await), Code::NotFound);
    assert_eq!(code(f.group("group", &["pvc-1", "Not A Name"]).await), Code::NotFound);
    assert!(f.store.snapshots(None, None, 10).unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_is_deleted_as_a_whole_and_no_member_alone() {
    let f = fixture().await;
    for volume in ["pvc-1", "pvc-2"] {
        f.create(volume).await;
    }
    let group = f.group("group", &["pvc-1", "pvc-2"]).await.unwrap();
    let (id, members) = (group.group_snapshot_id.as_str(), ids(&group));
    let refused = f.drop_snapshot(&members[0]).await.unwrap_err();
    assert!(refused.code() == Code::InvalidArgument && refused.message().contains(id), "{refused}");
    f.store.create_snapshot(&name("pvc-1"), &name("by-hand")).await.unwrap();
    for wrong in [vec![], members[..1].to_vec(), [&members[..], &["by-hand".to_owned()]].concat()] {
        assert_eq!(code(f.drop_group(id, &wrong).await), Code::InvalidArgument, "{wrong:?}");
        assert_eq!(code(f.found_group(id, &wrong).await), Code::InvalidArgument, "{wrong:?}");
    }
    let (store, member) = (f.store.clone(), name(&members[0]));
    let open = move || store.open_volume(&member, objstore::volume::VolumeOptions::default()).unwrap();
    let mount = tokio::task::spawn_blocking(open).await.unwrap();
    assert_eq!(code(f.drop_group(id, &members).await), Code::FailedPrecondition, "a member is mounted");
    tokio::task::spawn_blocking(move || drop(mount)).await.unwrap();
    f.drop_group(id, &members).await.unwrap();
    f.drop_group(id, &members).await.unwrap();
    assert_eq!(code(f.found_group(id, &members).await), Code::NotFound);
    assert_eq!(f.store.snapshots(None, None, 10).unwrap().len(), 1, "only the administrator's is left");
    assert_eq!(code(f.drop_group("", &[]).await), Code::InvalidArgument);
    f.drop_group("absent", &[]).await.unwrap();
}
