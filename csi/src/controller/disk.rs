//! The disks of block volumes: made with a volume, grown with it, and found in the source of a new one.
//!
//! - A disk is a sparse file. An extended attribute marks it, which snapshots and clones keep: a copy of a block volume is
//!   a block volume. A disk image that a client wrote has no mark, and may be the source of both kinds.
//! - A disk only grows.
//!
//! A crash leaves a bucket without its disk or with a smaller one: CreateVolume and ControllerExpandVolume are repeated, and
//! complete it. Nothing is answered before the disk is on the store's disk.

use objstore::name::BucketName;
use objstore::store::{Bucket, Source, Versioning};
use objstore::volume::{Attr, Kind as FileKind, Make, Ownership, ROOT_INO, SetAttr, Volume, VolumeOptions, XattrMode};
use objstore::{Error, Posix, Result, Store};
use tonic::Status;
use tracing::warn;

use super::Controller;
use crate::capability::Kind;
use crate::disk::{BLOCK, DISK, is_block};

/// The extended attribute of the disk of a block volume.
const MARK: &str = "trusted.amphora.access";

/// A disk in the source of a new volume.
struct Found {
    size_bytes: u64,
    /// Whether the source is a block volume.
    marked: bool,
    /// The bytes of the other objects of the source.
    beside_bytes: u64,
}

impl Controller {
    /// Makes the disk of a new volume; if that fails, the volume is deleted.
    pub(super) async fn make_disk(&self, bucket: &Bucket) -> Result<(), Status> {
        let made = match bucket.versioning {
            _ if !is_block(bucket) => return Ok(()),
            Versioning::Disabled => self.ensure_disk(bucket).await,
            Versioning::Enabled | Versioning::Suspended => Err(Status::invalid_argument(
                "the source keeps versions, and a block volume does not; copy its disk image into another bucket",
            )),
        };
        match made {
            Ok(()) => Ok(()),
            Err(failure) => Err(self.undo(bucket, failure).await),
        }
    }

    /// Deletes a volume whose creation failed. Returns the failure to answer with.
    pub(super) async fn undo(&self, bucket: &Bucket, failure: Status) -> Status {
        match self.store.delete_unused_bucket(&bucket.name, bucket.id, Vec::new()).await {
            Ok(()) | Err(Error::NotFound { .. }) => failure,
            Err(error) => {
                warn!(volume = %bucket.name, %error, "a volume without its first content is left");
                // It may exist, so the caller repeats the request.
                Status::aborted(failure.message().to_owned())
            }
        }
    }

    /// Makes sure that a block volume has its disk, as large as its quota.
    pub(super) async fn ensure_disk(&self, bucket: &Bucket) -> Result<(), Status> {
        let Some(size) = bucket.quota_bytes.filter(|_| is_block(bucket)) else { return Ok(()) };
        let name = bucket.name.clone();
        self.read(move |store| ensure(store, &name, size)).await
    }

    /// The size of the disk in the source of a new volume of this kind; none without a source, or for a mount.
    pub(super) async fn disk_of_source(&self, source: Option<&Source>, kind: Kind) -> Result<Option<u64>, Status> {
        let Some(source) = source.map(Source::name) else { return Ok(None) };
        // A source that cannot exist is refused where the volume is made.
        let Ok(name) = source.parse::<BucketName>() else { return Ok(None) };
        let found = self.read(move |store| match find(store, &name) {
            // The creation refuses it, in the words for its kind.
            Err(Error::NotFound { .. }) if kind == Kind::Mount => Ok(None),
            found => found,
        });
        let found = found.await?;
        match (kind, found) {
            // The quota of a block volume is the size of its disk.
            (Kind::Block, Some(found)) if found.beside_bytes > 0 => Err(Status::invalid_argument(format!(
                "{} bytes lie beside the file \"{DISK}\" in \"{source}\", and a block volume has room for its disk only; \
                 copy \"{DISK}\" into a bucket of its own, and name that as the source",
                found.beside_bytes
            ))),
            (Kind::Block, Some(found)) => Ok(Some(found.size_bytes)),
            (Kind::Block, None) => Err(Status::invalid_argument(format!(
                "\"{source}\" has no file \"{DISK}\", so it cannot be the source of a block volume; use volumeMode Filesystem"
            ))),
            (Kind::Mount, Some(found)) if found.marked => Err(Status::invalid_argument(format!(
                "\"{source}\" is of a block volume, so it is the source of block volumes only; use volumeMode Block"
            ))),
            (Kind::Mount, _) => Ok(None),
        }
    }
}

/// The disk of a bucket or snapshot, if it has one.
fn find(store: &Store, name: &BucketName) -> Result<Option<Found>> {
    let volume = store.open_volume(name, VolumeOptions { read_only: true, ..VolumeOptions::default() })?;
    let Some(disk) = look(&volume)?.filter(|disk| disk.kind == FileKind::File) else { return Ok(None) };
    let marked = match volume.xattr(disk.ino, MARK) {
        Err(Error::Posix(Posix::NoData)) => false,
        mark => mark.map(|_| true)?,
    };
    let used = store.usage(name)?;
    let beside_bytes = match used.objects {
        // What else counts was deleted while it was open, and a copy leaves it out.
        Some(1) => 0,
        _ => used.bytes.saturating_sub(disk.size),
    };
    Ok(Some(Found { size_bytes: disk.size, marked, beside_bytes }))
}

fn look(volume: &Volume) -> Result<Option<Attr>> {
    match volume.lookup(ROOT_INO, DISK) {
        Err(Error::Posix(Posix::NotFound)) => Ok(None),
        found => found.map(Some),
    }
}

fn ensure(store: &Store, name: &BucketName, size: u64) -> Result<()> {
    let volume = store.open_volume(name, VolumeOptions::default())?;
    let disk = match look(&volume)? {
        Some(disk) if disk.kind != FileKind::File => {
            let why = format!("\"{DISK}\" in volume \"{name}\" is not a regular file, so it cannot be a block device");
            return Err(Error::Unusable { why });
        }
        Some(disk) => disk,
        None => volume.make(ROOT_INO, DISK, Make::File, Ownership { uid: 0, gid: 0, mode: 0o600, umask: 0 })?,
    };
    match volume.xattr(disk.ino, MARK) {
        Err(Error::Posix(Posix::NoData)) => volume.set_xattr(disk.ino, MARK, BLOCK.as_bytes(), XattrMode::Any)?,
        mark => drop(mark?),
    }
    if disk.size < size {
        volume.set_attr(disk.ino, SetAttr { size: Some(size), ..SetAttr::default() })?;
    }
    volume.sync_volume()
}
