//! The ranges of a block volume that hold data in a snapshot, and those that differ between two. CSI v1.12, Snapshot
//! Metadata Service RPCs.
//!
//! - The ranges are those of the volume's disk, in whole blocks of [`RANGE_BLOCK_BYTES`]. Every byte outside them is zero, or
//!   the same in both snapshots.
//! - They are computed step by step as the caller takes them, [`AHEAD`] messages in advance. No thread waits for a caller.
//! - A stream keeps its snapshots' content, also when they are deleted. One whose caller takes no message for [`PATIENCE`]
//!   is aborted, and a repeated call continues at its `starting_offset`.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use objstore::name::BucketName;
use objstore::store::{RANGE_BLOCK_BYTES, Reader, SnapshotInfo};
use objstore::{Error, Noun, Store};
use proto::csi::v1::{
    BlockMetadata, BlockMetadataType, GetMetadataAllocatedRequest, GetMetadataAllocatedResponse,
    GetMetadataDeltaRequest, GetMetadataDeltaResponse,
};
use tokio::sync::mpsc::{Sender, channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::Controller;
use crate::capability::Kind;
use crate::capacity::signed;
use crate::{disk, status};

/// The most streams at a time. Each keeps a moment of the store, and reads.
const STREAMS_MAX: usize = 16;
/// The most ranges of a message: some 80 KiB, far below the 4 MiB that clients of gRPC accept.
const MESSAGE_RANGES_MAX: usize = 4096;
/// Bytes of the disk that are looked at in one step. A step of a delta reads up to twice as many.
const STEP_BYTES: u64 = 32 << 20;
/// Messages that wait for the caller.
const AHEAD: usize = 2;
/// How long a caller may take no message: as long as the upstream sidecar lets a stream last.
const PATIENCE: Duration = Duration::from_secs(10 * 60);

/// A stream of messages.
pub(super) type Answers<T> = ReceiverStream<Result<T, Status>>;

/// The limit of streams: a cheap handle.
#[derive(Clone)]
pub(super) struct Streams(Arc<Semaphore>);

impl Default for Streams {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(STREAMS_MAX)))
    }
}

impl Streams {
    fn begin(&self) -> Result<OwnedSemaphorePermit, Status> {
        self.0.clone().try_acquire_owned().map_err(|_| {
            Status::resource_exhausted(format!(
                "{STREAMS_MAX} streams of snapshot metadata are in progress already; try again when one has ended"
            ))
        })
    }
}

/// The disk of a snapshot, and that of the earlier one with which it is compared.
struct Disks {
    target: Reader,
    base: Option<Reader>,
}

impl Disks {
    fn ranges(&self, from: u64, to: u64) -> objstore::Result<Vec<Range<u64>>> {
        match &self.base {
            None => self.target.data_ranges(from, to),
            Some(base) => self.target.changed_ranges(base, from, to),
        }
    }
}

/// A walk over a disk, from which the messages come.
struct Walk {
    disks: Arc<Disks>,
    size: u64,
    /// Where the next step begins: a multiple of [`RANGE_BLOCK_BYTES`].
    at: u64,
    /// Ranges that are found and not yet sent. The last one may be continued by the next step.
    found: Vec<Range<u64>>,
    /// The most ranges of a message.
    limit: usize,
}

impl Walk {
    /// A walk from `starting_offset`, which an interrupted stream of the same request reached.
    fn begin(disks: Disks, starting_offset: i64, max_results: i32) -> Result<Self, Status> {
        let size = disks.target.size();
        let from = u64::try_from(starting_offset).ok().filter(|from| *from <= size).ok_or_else(|| {
            Status::out_of_range(format!("starting_offset is {starting_offset}; it must be from 0 to {size}"))
        })?;
        let limit = usize::try_from(max_results)
            .map_err(|_| Status::invalid_argument(format!("max_results is {max_results}; it must not be negative")))?;
        let limit = if limit == 0 { MESSAGE_RANGES_MAX } else { limit.min(MESSAGE_RANGES_MAX) };
        // At the end there is nothing, also if the last block is not whole.
        let at = if from == size { size } else { from / RANGE_BLOCK_BYTES * RANGE_BLOCK_BYTES };
        Ok(Self { disks: Arc::new(disks), size, at, found: Vec::new(), limit })
    }

    /// Looks at the next part of the disk.
    async fn step(&mut self) -> Result<(), Status> {
        let (from, to) = (self.at, self.size.min(self.at + STEP_BYTES));
        let disks = self.disks.clone();
        let ranges = tokio::task::spawn_blocking(move || disks.ranges(from, to)).await;
        let ranges = ranges.map_err(|_| Status::internal("comparing snapshots broke off; see the log"))?;
        for range in ranges.map_err(status::of)? {
            match self.found.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => self.found.push(range),
            }
        }
        self.at = to;
        Ok(())
    }

    /// The ranges of the next message; `None` after the last one.
    async fn next(&mut self, is_gone: impl Fn() -> bool) -> Result<Option<Vec<Range<u64>>>, Status> {
        while self.found.len() <= self.limit && self.at < self.size && !is_gone() {
            self.step().await?;
        }
        let taken: Vec<_> = self.found.drain(..self.limit.min(self.found.len())).collect();
        Ok(Some(taken).filter(|taken| !taken.is_empty()))
    }

    /// Sends all messages that `message` makes of the size and the ranges. The first one is sent although it is empty, for
    /// the size in it.
    async fn send<T>(mut self, to: Sender<Result<T, Status>>, message: fn(i64, Vec<BlockMetadata>) -> T) {
        let mut is_first = true;
        loop {
            let next = match self.next(|| to.is_closed()).await {
                Ok(None) if !is_first => return,
                Ok(ranges) => Ok(message(signed(self.size), ranges.unwrap_or_default().iter().map(block).collect())),
                Err(failure) => Err(failure),
            };
            let is_last = next.is_err();
            is_first = false;
            if !sent(&to, next).await || is_last {
                return;
            }
        }
    }
}

/// Sends a message; false if the caller is gone, or does not take any.
async fn sent<T>(to: &Sender<Result<T, Status>>, message: Result<T, Status>) -> bool {
    match tokio::time::timeout(PATIENCE, to.reserve()).await {
        Ok(Ok(place)) => {
            place.send(message);
            true
        }
        Ok(Err(_)) | Err(_) => false,
    }
}

fn block(range: &Range<u64>) -> BlockMetadata {
    BlockMetadata { byte_offset: signed(range.start), size_bytes: signed(range.end - range.start) }
}

impl Controller {
    /// CSI v1.12, GetMetadataAllocated.
    pub(super) async fn allocated(
        self,
        request: GetMetadataAllocatedRequest,
    ) -> Result<Answers<GetMetadataAllocatedResponse>, Status> {
        let snapshot = self.taken("snapshot_id", &request.snapshot_id).await?;
        let permit = self.streams.begin()?;
        let disks = Disks { target: self.disk_in(snapshot).await?, base: None };
        let walk = Walk::begin(disks, request.starting_offset, request.max_results)?;
        Ok(stream(walk, permit, |volume_capacity_bytes, block_metadata| GetMetadataAllocatedResponse {
            block_metadata_type: BlockMetadataType::VariableLength.into(),
            volume_capacity_bytes,
            block_metadata,
        }))
    }

    /// CSI v1.12, GetMetadataDelta.
    pub(super) async fn delta(
        self,
        request: GetMetadataDeltaRequest,
    ) -> Result<Answers<GetMetadataDeltaResponse>, Status> {
        let base = self.taken("base_snapshot_id", &request.base_snapshot_id).await?;
        let target = self.taken("target_snapshot_id", &request.target_snapshot_id).await?;
        check_pair(&base, &target)?;
        let permit = self.streams.begin()?;
        let disks = Disks { base: Some(self.disk_in(base).await?), target: self.disk_in(target).await? };
        let walk = Walk::begin(disks, request.starting_offset, request.max_results)?;
        Ok(stream(walk, permit, |volume_capacity_bytes, block_metadata| GetMetadataDeltaResponse {
            block_metadata_type: BlockMetadataType::VariableLength.into(),
            volume_capacity_bytes,
            block_metadata,
        }))
    }

    async fn taken(&self, field: &str, id: &str) -> Result<SnapshotInfo, Status> {
        let id = status::required(field, id)?;
        self.find_snapshot(id).await?.ok_or_else(|| status::of(Error::not_found(Noun::Snapshot, id)))
    }

    /// The disk in a snapshot of a block volume.
    async fn disk_in(&self, snapshot: SnapshotInfo) -> Result<Reader, Status> {
        let (driver_name, name) = (self.config.driver_name.clone(), snapshot.name.clone());
        let found = self.read(move |store| open(store, &snapshot, &driver_name)).await?;
        found.ok_or_else(|| {
            Status::invalid_argument(format!(
                "snapshot \"{name}\" is not of a block volume; only those have ranges, so back its files up"
            ))
        })
    }
}

/// Refuses snapshots of different volumes, and a base that is not the earlier one.
fn check_pair(base: &SnapshotInfo, target: &SnapshotInfo) -> Result<(), Status> {
    if base.bucket_id != target.bucket_id {
        return Err(Status::invalid_argument(format!(
            "snapshots \"{}\" and \"{}\" are of different volumes (\"{}\" and \"{}\"); use two snapshots of one volume",
            base.name, target.name, base.bucket, target.bucket
        )));
    }
    if base.id >= target.id {
        return Err(Status::invalid_argument(format!(
            "the base snapshot \"{}\" was not taken before the target snapshot \"{}\"; use an earlier one",
            base.name, target.name
        )));
    }
    Ok(())
}

/// The disk in a snapshot; `None` if the volume is for mounts.
fn open(store: &Store, snapshot: &SnapshotInfo, driver_name: &str) -> objstore::Result<Option<Reader>> {
    let name: BucketName = snapshot.name.parse()?;
    let volume = match store.bucket(&snapshot.bucket) {
        Err(Error::NotFound { .. }) => None,
        found => Some(found?).filter(|found| found.id == snapshot.bucket_id),
    };
    if volume.is_some_and(|volume| disk::other_kind(&volume, driver_name, Kind::Block).is_some()) {
        return Ok(None);
    }
    match store.open_object(&name, &disk::DISK.parse()?, None) {
        Err(Error::NotFound { noun: Noun::Key, .. }) => Ok(None),
        found => found.map(|(_, reader)| Some(reader)),
    }
}

/// Walks in a task of its own, which ends with the stream.
fn stream<T: Send + 'static>(
    walk: Walk,
    permit: OwnedSemaphorePermit,
    message: fn(i64, Vec<BlockMetadata>) -> T,
) -> Answers<T> {
    let (sender, receiver) = channel(AHEAD);
    tokio::spawn(async move {
        walk.send(sender, message).await;
        drop(permit);
    });
    ReceiverStream::new(receiver)
}

#[cfg(test)]
mod tests {
    use objstore::clock::Timestamp;
    use objstore::store::Creator;
    use tonic::Code;

    use super::*;

    fn snapshot(id: u64, bucket_id: u64) -> SnapshotInfo {
        let (name, bucket) = (format!("snap-{id}"), "vol".parse().expect("a name"));
        let (created, creator) = (Timestamp(0), Creator::Csi);
        SnapshotInfo { name, id, bucket, bucket_id, created, size_bytes: 0, creator, group: None }
    }

    #[test]
    fn a_base_is_an_earlier_snapshot_of_the_same_volume() {
        assert!(check_pair(&snapshot(1, 7), &snapshot(2, 7)).is_ok());
        for (base, target) in [((2, 7), (1, 7)), ((1, 7), (1, 7)), ((1, 7), (2, 8))] {
            let refused = check_pair(&snapshot(base.0, base.1), &snapshot(target.0, target.1));
            assert_eq!(refused.expect_err("refused").code(), Code::InvalidArgument);
        }
    }

    #[tokio::test]
    async fn a_stream_is_kept_for_a_caller_that_is_there() {
        let (sender, receiver) = channel(1);
        assert!(sent(&sender, Ok(1)).await);
        drop(receiver);
        assert!(!sent(&sender, Ok(2)).await);
    }

    #[test]
    fn streams_beyond_the_limit_are_refused_until_one_ends() {
        let streams = Streams::default();
        let mut begun: Vec<_> = (0..STREAMS_MAX).map(|_| streams.begin().expect("below the limit")).collect();
        assert_eq!(streams.begin().expect_err("refused").code(), Code::ResourceExhausted);
        begun.pop();
        assert!(streams.begin().is_ok());
    }
}
