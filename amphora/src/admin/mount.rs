//! Mount operations of the admin service.

use std::path::{Path, PathBuf};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use fuse::{LATENCY_BOUNDS_US, OperationStats, StatsSnapshot, WatchedCall};
use objstore::name::BucketName;
use objstore::{Noun, Store};
use objstore_files::Trips;
use proto::amphora::admin::v1 as api;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::bucket::name;
use super::{MountService, finished, refused};
use crate::config::TlsFiles;
use crate::credentials::Credentials;
use crate::mounts::{
    Access, Error, Look, LostMount, MountPoint, Origin, Proof, Remote, Remount, Request, Unmounting, UnservedMount,
};

/// The most calls that wait for a slow watcher.
const WATCHED_MAX: usize = 256;
/// How often the server checks whether a watcher is still connected.
const WATCH_PERIOD: Duration = Duration::from_millis(500);

pub(super) async fn mount(service: &MountService, request: api::MountRequest) -> Result<api::MountResponse, Status> {
    let dir = directory(&request.dir)?;
    let key = key(&request)?;
    let bucket = name(&request.bucket)?;
    let snapshot = request.snapshot.as_deref().map(name).transpose()?;
    let look = Look {
        uid: request.uid,
        gid: request.gid,
        umask: request.umask,
        readahead_bytes: request.readahead_bytes,
        uncached: request.uncached,
        no_exec: request.no_exec,
        // The administrator's mounts have the label of FUSE.
        context: None,
        group_access: false,
        node_locks: request.node_locks,
    };
    let (store, mounts) = (service.store.clone(), service.mounts.clone());
    let mounted = tokio::task::spawn_blocking(move || {
        let key_id = key.as_ref().map(|key| key.access_key_id.clone());
        let (shown, access, remote) = match store {
            _ if !request.server.is_empty() => (bucket, Access::default(), Some(remote(&request, key)?)),
            Some(store) => {
                let shown = shown_bucket(&store, bucket, snapshot)?;
                let access = key.map_or_else(|| Ok(Access::default()), |key| Access::of(&store, &key, &shown))?;
                (shown, access, None)
            }
            None => (bucket, Access::default(), None),
        };
        let request = Request {
            bucket: shown,
            read_only: request.read_only,
            fixed_read_only: access.read_only,
            prefix: request.prefix,
            look,
            account: access.account,
            access_key_id: key_id,
            origin: Origin::Admin,
            keep: request.keep,
            remote,
        };
        mounts.mount(request, &dir)
    });
    finished(mounted.await)?.map_err(|error| status_of(&error))?;
    Ok(api::MountResponse {})
}

pub(super) async fn unmount(
    service: &MountService,
    request: api::UnmountRequest,
) -> Result<api::UnmountResponse, Status> {
    let dir = directory(&request.dir)?;
    if service.mounts.at(&dir).is_some_and(|point| point.origin == Origin::Csi) {
        return Err(status_of(&Error::Staged { dir }));
    }
    let how = if request.lazy { Unmounting::Lazily } else { Unmounting::IfIdle };
    let mounts = service.mounts.clone();
    let unmounted = tokio::task::spawn_blocking(move || mounts.unmount(&dir, how)).await;
    finished(unmounted)?.map_err(|error| status_of(&error))?;
    Ok(api::UnmountResponse {})
}

/// Makes a mount read-only or writable.
pub(super) async fn remount(
    service: &MountService,
    request: api::RemountRequest,
) -> Result<api::RemountResponse, Status> {
    let dir = directory(&request.dir)?;
    let api::RemountRequest { read_only, uid, gid, prefix, umask, readahead_bytes, uncached, .. } = request;
    let (no_exec, node_locks) = (request.no_exec, request.node_locks);
    let remount = Remount { read_only, uid, gid, umask, readahead_bytes, uncached, no_exec, node_locks, prefix };
    let mounts = service.mounts.clone();
    let remounted = tokio::task::spawn_blocking(move || mounts.remount(&dir, &remount)).await;
    finished(remounted)?.map_err(|error| status_of(&error))?;
    Ok(api::RemountResponse {})
}

/// Statistics of mounts.
pub(super) fn stats(
    service: &MountService,
    request: &api::MountStatsRequest,
) -> Result<api::MountStatsResponse, Status> {
    let dir = request.dir.as_deref().map(directory).transpose()?;
    let told = service.mounts.stats(dir.as_deref()).map_err(|error| status_of(&error))?;
    let mounts = told.iter().map(|(point, stats)| mount_figures(point, stats)).collect();
    Ok(api::MountStatsResponse { mounts })
}

fn mount_figures(point: &MountPoint, stats: &StatsSnapshot) -> api::MountFigures {
    let called = stats.operations.iter().filter(|operation| operation.count > 0);
    api::MountFigures {
        mount: Some(shown(point)),
        read_bytes: stats.read_bytes,
        written_bytes: stats.written_bytes,
        operations: called.map(operation_stats).collect(),
        trips: stats.trips.iter().map(trip_figures).collect(),
    }
}

fn trip_figures(counted: &Trips) -> api::TripFigures {
    let Trips { operation, calls, trips } = *counted;
    api::TripFigures { operation: operation.to_owned(), calls, trips }
}

fn operation_stats(operation: &OperationStats) -> api::OperationFigures {
    let bounds = LATENCY_BOUNDS_US.iter().copied().map(Some).chain([None]);
    let buckets = bounds.zip(&operation.buckets);
    api::OperationFigures {
        name: operation.name.to_owned(),
        count: operation.count,
        errors: operation.errors,
        total_ns: nanos(operation.total),
        buckets: buckets.map(|(at_most_us, count)| api::LatencyBucket { at_most_us, count: *count }).collect(),
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The stream of calls that a watcher receives.
pub(super) type Watched = ReceiverStream<Result<api::WatchedCall, Status>>;

/// Streams the calls of a mount as they are answered, until the client disconnects or the mount ends.
pub(super) fn watch(service: &MountService, request: &api::WatchMountRequest) -> Result<Watched, Status> {
    let dir = directory(&request.dir)?;
    let calls = service.mounts.watch(&dir).map_err(|error| status_of(&error))?;
    let mounts = service.mounts.clone();
    let (answers, stream) = tokio::sync::mpsc::channel(WATCHED_MAX);
    tokio::task::spawn_blocking(move || {
        while !answers.is_closed() {
            match calls.recv_timeout(WATCH_PERIOD) {
                Ok(call) => {
                    let path = mounts.path_of(&dir, call.node);
                    if answers.blocking_send(Ok(watched(call, path))).is_err() {
                        break;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    });
    Ok(ReceiverStream::new(stream))
}

fn watched(call: WatchedCall, path: Option<String>) -> api::WatchedCall {
    let WatchedCall { operation, node, name, took, errno, missed } = call;
    let (operation, errno) = (operation.to_owned(), errno.unwrap_or(0));
    api::WatchedCall { operation, inode: node, path, name, took_ns: nanos(took), errno, missed }
}

/// A mount in the protocol's form.
pub(super) fn shown(point: &MountPoint) -> api::MountPoint {
    api::MountPoint {
        bucket: point.bucket.to_string(),
        dir: point.dir.display().to_string(),
        read_only: point.read_only,
        keep: point.keep,
        server: point.server.clone().unwrap_or_default(),
        link: point.link.as_ref().map(super::link::shown),
    }
}

/// A mount whose requests are refused, in the protocol's form.
pub(super) fn unserved(mount: UnservedMount) -> api::UnservedMount {
    let UnservedMount { bucket, dir, why } = mount;
    api::UnservedMount { bucket, dir: dir.map(|dir| dir.display().to_string()), why }
}

/// A lost mount in the protocol's form.
pub(super) fn lost(mount: LostMount) -> api::LostMount {
    let LostMount { bucket, dir, why, command } = mount;
    api::LostMount { bucket, dir: dir.display().to_string(), why, command }
}

/// Parses a directory of this machine.
pub(super) fn directory(text: &str) -> Result<PathBuf, Status> {
    let path = Path::new(text);
    if path.is_absolute() {
        return Ok(path.components().collect());
    }
    Err(Status::invalid_argument(format!("dir \"{text}\" is not valid: use an absolute path")))
}

fn key(request: &api::MountRequest) -> Result<Option<Credentials>, Status> {
    if request.access_key_id.is_empty() && request.secret_access_key.is_empty() {
        return Ok(None);
    }
    let key = Credentials::new(request.access_key_id.clone(), request.secret_access_key.clone());
    key.map(Some).map_err(Status::invalid_argument)
}

/// The store on another machine that a request names.
fn remote(request: &api::MountRequest, key: Option<Credentials>) -> objstore::Result<Remote> {
    let key = key.ok_or_else(|| objstore::Error::Denied {
        why: "a mount of a store on another machine needs an access key: name its file with --credentials".into(),
    })?;
    if request.keep {
        let why = "a mount of a store on another machine is made again by fstab(5) or a systemd unit".to_owned();
        return Err(objstore::Error::invalid("mount option", "keep", why));
    }
    let not_pem = |_| objstore::Error::invalid("certificates", "of the authority", "they are not PEM");
    let ca = String::from_utf8(request.ca_pem.clone()).map_err(not_pem)?;
    let ca = Some(ca).filter(|ca| !ca.is_empty());
    let proof = Proof::AccessKey { id: key.access_key_id, secret: key.secret.reveal().to_owned() };
    Ok(Remote::new(request.server.clone(), ca, proof).showing(identity(request)?))
}

/// The certificate that the node shows, by files of this machine.
fn identity(request: &api::MountRequest) -> objstore::Result<Option<TlsFiles>> {
    let (certificate, key) = (PathBuf::from(&request.cert_file), PathBuf::from(&request.key_file));
    match (certificate.as_os_str().is_empty(), key.as_os_str().is_empty()) {
        (true, true) => Ok(None),
        (false, false) if certificate.is_absolute() && key.is_absolute() => Ok(Some(TlsFiles { certificate, key })),
        _ => {
            let why = "a certificate and its key are named together, by absolute paths";
            Err(objstore::Error::invalid("certificate", request.cert_file.clone(), why))
        }
    }
}

/// The requested bucket, or the requested snapshot of it.
fn shown_bucket(store: &Store, bucket: BucketName, snapshot: Option<BucketName>) -> objstore::Result<BucketName> {
    let Some(snapshot) = snapshot else { return Ok(bucket) };
    if store.snapshot(snapshot.as_str())?.bucket == bucket {
        return Ok(snapshot);
    }
    Err(objstore::Error::not_found(Noun::Snapshot, format!("{snapshot}\" of bucket \"{bucket}")))
}

fn status_of(error: &Error) -> Status {
    let text = crate::failure::with_causes(error);
    match error {
        Error::Busy { .. } => Status::aborted(text),
        Error::TooMany { .. } => Status::resource_exhausted(text),
        Error::Taken { .. } => Status::already_exists(text),
        Error::NotMounted { .. } | Error::NoDirectory { .. } => Status::not_found(text),
        Error::Store(error) => refused(error),
        Error::FixedReadOnly { .. }
        | Error::Served { .. }
        | Error::Staged { .. }
        | Error::Changed { .. }
        | Error::Fuse(fuse::Error::Target { .. } | fuse::Error::Unable { .. } | fuse::Error::InUse { .. }) => {
            Status::failed_precondition(text)
        }
        Error::Fixed { .. } | Error::Fuse(fuse::Error::Option { .. }) => Status::invalid_argument(text),
        Error::Holder { .. } | Error::Fuse(fuse::Error::Io { .. } | fuse::Error::Unsynced { .. }) => {
            Status::internal(text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_absolute_and_have_one_name() {
        assert_eq!(directory("/mnt/./a/").expect("absolute"), Path::new("/mnt/a"));
        assert_eq!(directory("mnt").expect_err("relative").code(), tonic::Code::InvalidArgument);
    }

    #[test]
    fn half_a_key_is_refused() {
        let request = api::MountRequest { access_key_id: "AKEXAMPLE".into(), ..Default::default() };
        assert_eq!(key(&request).expect_err("half").code(), tonic::Code::InvalidArgument);
        assert!(key(&api::MountRequest::default()).expect("none").is_none());
    }
}
