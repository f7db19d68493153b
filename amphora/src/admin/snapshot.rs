//! Snapshot operations of the admin service.

use objstore::name::BucketName;
use objstore::store::{Outcome, SnapshotInfo};
use objstore::{Noun, Store};
use proto::amphora::admin::v1 as api;
use tonic::Status;

use super::bucket::{name, taken};
use super::{Service, refused};

/// Number of snapshots read at a time.
const PAGE: usize = 1000;

pub(super) async fn create(service: &Service, request: &api::CreateSnapshotRequest) -> Result<api::Snapshot, Status> {
    let (bucket, snapshot) = (name(&request.bucket)?, name(&request.name)?);
    match service.store.create_snapshot(&bucket, &snapshot).await.map_err(|error| refused(&error))? {
        (snapshot, Outcome::Made) => Ok(shown(snapshot)),
        (snapshot, Outcome::Found) => Err(taken(Noun::Snapshot, &snapshot.name)),
    }
}

pub(super) async fn list(service: &Service, bucket: Option<String>) -> Result<api::ListSnapshotsResponse, Status> {
    let bucket = bucket.as_deref().map(name).transpose()?;
    let mut snapshots = service.blocking(move |store| all(store, bucket.as_ref())).await?;
    snapshots.sort_by(|a, b| (&a.bucket, a.created).cmp(&(&b.bucket, b.created)));
    Ok(api::ListSnapshotsResponse { snapshots: snapshots.into_iter().map(shown).collect() })
}

pub(super) async fn delete(service: &Service, text: &str) -> Result<api::DeleteSnapshotResponse, Status> {
    let snapshot = name(text)?;
    // Checked first, because a bucket of that name may be mounted too.
    let asked = snapshot.clone();
    service.blocking(move |store| store.snapshot(asked.as_str()).map(drop)).await?;
    if let Some(dir) = service.mounts.dirs_of(&snapshot).first() {
        let dir = dir.display();
        let text = format!("snapshot \"{snapshot}\" is mounted at {dir}: unmount it first (`amphora umount {dir}`)");
        return Err(Status::failed_precondition(text));
    }
    service.store.delete_snapshot(snapshot.as_str()).await.map_err(|error| refused(&error))?;
    Ok(api::DeleteSnapshotResponse {})
}

fn all(store: &Store, bucket: Option<&BucketName>) -> objstore::Result<Vec<SnapshotInfo>> {
    let mut all: Vec<SnapshotInfo> = Vec::new();
    loop {
        let after = all.last().map(|snapshot| snapshot.name.clone());
        let page = store.snapshots(bucket, after.as_deref(), PAGE)?;
        let end = page.len() < PAGE;
        all.extend(page);
        if end {
            return Ok(all);
        }
    }
}

fn shown(snapshot: SnapshotInfo) -> api::Snapshot {
    api::Snapshot {
        name: snapshot.name,
        bucket: snapshot.bucket.to_string(),
        created_unix_ms: snapshot.created.millis(),
        size_bytes: snapshot.size_bytes,
    }
}
