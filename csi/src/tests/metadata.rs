//! Ranges of snapshots: what a backup of them is made of.

use std::ops::Range;

use objstore::volume::{Allocate, ROOT_INO, Volume as Session, VolumeOptions};
use proto::csi::v1::snapshot_metadata_server::SnapshotMetadata as _;
use tokio_stream::StreamExt as _;

use super::block::volume;
use super::*;

const MIB: i64 = 1 << 20;
/// The disk is longer than one step of the walk.
const DISK: i64 = 36 * MIB;
const BLOCK: u64 = 4096;

/// Messages of a stream: each with the size and its ranges.
type Messages = Vec<(i64, Vec<Range<u64>>)>;

fn ranges(blocks: Vec<BlockMetadata>) -> Vec<Range<u64>> {
    let range = |block: BlockMetadata| {
        let from = u64::try_from(block.byte_offset).unwrap();
        from..from + u64::try_from(block.size_bytes).unwrap()
    };
    blocks.into_iter().map(range).collect()
}

impl Fixture {
    async fn allocated(&self, snapshot: &str, starting_offset: i64, max_results: i32) -> Result<Messages, Status> {
        let snapshot_id = snapshot.to_owned();
        let request = GetMetadataAllocatedRequest { snapshot_id, starting_offset, max_results, ..Default::default() };
        let mut stream = self.controller.get_metadata_allocated(Request::new(request)).await?.into_inner();
        let mut messages = Messages::new();
        while let Some(message) = stream.next().await {
            let message = message?;
            assert_eq!(message.block_metadata_type(), BlockMetadataType::VariableLength);
            messages.push((message.volume_capacity_bytes, ranges(message.block_metadata)));
        }
        Ok(messages)
    }

    async fn delta(&self, base: &str, target: &str, from: i64, max_results: i32) -> Result<Messages, Status> {
        let (base_snapshot_id, target_snapshot_id) = (base.to_owned(), target.to_owned());
        let request = GetMetadataDeltaRequest {
            base_snapshot_id,
            target_snapshot_id,
            starting_offset: from,
            max_results,
            ..Default::default()
        };
        let mut stream = self.controller.get_metadata_delta(Request::new(request)).await?.into_inner();
        let mut messages = Messages::new();
        while let Some(message) = stream.next().await {
            let message = message?;
            messages.push((message.volume_capacity_bytes, ranges(message.block_metadata)));
        }
        Ok(messages)
    }

    /// Changes the disk of a volume as a device does.
    async fn on_disk(&self, volume: &str, change: impl FnOnce(&Session, u64) + Send + 'static) {
        let (store, volume) = (self.store.clone(), name(volume));
        let work = move || {
            let volume = store.open_volume(&volume, VolumeOptions::default()).unwrap();
            let disk = volume.lookup(ROOT_INO, "disk.img").unwrap().ino;
            change(&volume, disk);
        };
        tokio::task::spawn_blocking(work).await.unwrap();
    }

    /// The disk in a snapshot.
    async fn image(&self, snapshot: &str) -> Vec<u8> {
        let (store, snapshot) = (self.store.clone(), name(snapshot));
        let read = move || {
            let (_, reader) = store.open_object(&snapshot, &"disk.img".parse().unwrap(), None).unwrap();
            let pieces = (0..reader.size()).step_by(1 << 20);
            pieces.flat_map(|at| reader.read(at, 1 << 20).unwrap().to_vec()).collect()
        };
        tokio::task::spawn_blocking(read).await.unwrap()
    }
}

/// All ranges of a stream, after the rules of the specification for them.
fn checked(messages: &[(i64, Vec<Range<u64>>)], size: i64, from: i64, limit: usize) -> Vec<Range<u64>> {
    assert!(messages.iter().all(|(capacity, ranges)| *capacity == size && ranges.len() <= limit), "{messages:?}");
    let all: Vec<_> = messages.iter().flat_map(|(_, ranges)| ranges.clone()).collect();
    assert!(all.iter().all(|range| range.start < range.end && range.end <= size as u64), "{all:?}");
    assert!(all.windows(2).all(|pair| pair[0].end < pair[1].start), "touching ranges are one: {all:?}");
    assert!(all.first().is_none_or(|first| first.end > from as u64), "{all:?}");
    all
}

/// Copies the ranges of an image into a backup.
fn copy(backup: &mut Vec<u8>, image: &[u8], ranges: &[Range<u64>]) {
    backup.resize(image.len(), 0);
    for range in ranges {
        let range = range.start as usize..range.end as usize;
        backup[range.clone()].copy_from_slice(&image[range]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_allocated_ranges_and_deltas_is_the_disk() {
    let f = fixture().await;
    f.make_block(volume("pvc-1", DISK)).await.unwrap();
    let mut snapshots = vec![f.snapshot("pvc-1", "round-0").await];
    for round in 1..=4_u64 {
        f.on_disk("pvc-1", move |disk, ino| {
            // Small, over the end of a step, over and over, zeros, and discarded.
            disk.write(ino, round * 10_000, &[round as u8; 100], false).unwrap();
            disk.write(ino, (32 << 20) - 3000, &vec![round as u8; 9000], false).unwrap();
            disk.write(ino, 33 << 20, &[7; 5000], false).unwrap();
            disk.write(ino, 34 << 20, &[0; 8192], false).unwrap();
            disk.write(ino, (35 << 20) + round * 100_000, &vec![3; 300_000], false).unwrap();
            disk.allocate(ino, Allocate::PunchHole, (35 << 20) + round * 150_000, 70_000).unwrap();
        })
        .await;
        if round == 3 {
            f.expand("pvc-1", DISK + MIB).await.unwrap();
            f.on_disk("pvc-1", |disk, ino| disk.write(ino, DISK as u64, &[9; 512], false).unwrap()).await;
        }
        snapshots.push(f.snapshot("pvc-1", &format!("round-{round}")).await);
    }
    let first = f.allocated(&snapshots[0], 0, 0).await.unwrap();
    assert_eq!(first, [(DISK, vec![])], "one message has the size");
    let mut incremental = Vec::new();
    for (round, snapshot) in snapshots.iter().enumerate() {
        let (image, size) = (f.image(snapshot).await, if round < 3 { DISK } else { DISK + MIB });
        let all = checked(&f.allocated(snapshot, 0, 0).await.unwrap(), size, 0, 4096);
        let mut full = Vec::new();
        copy(&mut full, &image, &all);
        assert!(full == image, "round {round}: {all:?}");
        let held: u64 = all.iter().map(|range| range.end - range.start).sum();
        assert!(held < 4 << 20, "holes are not allocated: {all:?}");
        if round > 0 {
            let changed = f.delta(&snapshots[round - 1], snapshot, 0, 0).await.unwrap();
            let changed = checked(&changed, size, 0, 4096);
            assert!(
                changed.iter().all(|range| !range.contains(&(33 << 20))) || round == 1,
                "the same bytes: {changed:?}"
            );
            copy(&mut incremental, &image, &changed);
            assert!(incremental == image, "round {round}: {changed:?}");
        }
    }
    // From the first to the last in one step.
    let mut skipped = f.image(&snapshots[0]).await;
    let image = f.image(&snapshots[4]).await;
    copy(
        &mut skipped,
        &image,
        &checked(&f.delta(&snapshots[0], &snapshots[4], 0, 0).await.unwrap(), DISK + MIB, 0, 4096),
    );
    assert!(skipped == image);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_continues_where_an_interrupted_one_ended() {
    let f = fixture().await;
    f.make_block(volume("pvc-1", DISK)).await.unwrap();
    let base = f.snapshot("pvc-1", "base").await;
    f.on_disk("pvc-1", |disk, ino| {
        for place in [0, 5, 6, 9, 8191, 8192, 9215] {
            disk.write(ino, place * BLOCK, &[1; 4096], false).unwrap();
        }
    })
    .await;
    let target = f.snapshot("pvc-1", "target").await;
    let whole = checked(&f.delta(&base, &target, 0, 0).await.unwrap(), DISK, 0, 4096);
    let block = |first: u64, count: u64| first * BLOCK..(first + count) * BLOCK;
    assert_eq!(whole, [block(0, 1), block(5, 2), block(9, 1), block(8191, 2), block(9215, 1)]);
    let singly = f.delta(&base, &target, 0, 1).await.unwrap();
    assert_eq!((singly.len(), checked(&singly, DISK, 0, 1)), (5, whole.clone()));
    for (taken, last) in whole.iter().enumerate() {
        let from = last.end as i64;
        let rest = checked(&f.delta(&base, &target, from, 2).await.unwrap(), DISK, from, 2);
        assert_eq!(rest, whole[taken + 1..], "from {from}");
        assert_eq!(checked(&f.allocated(&target, from, 2).await.unwrap(), DISK, from, 2), whole[taken + 1..]);
    }
    // Within a range and within a block.
    let rest = checked(&f.allocated(&target, 6 * 4096 + 17, 0).await.unwrap(), DISK, 6 * 4096 + 17, 4096);
    assert_eq!(rest, [block(6, 1), block(9, 1), block(8191, 2), block(9215, 1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_for_ranges_that_make_no_sense_are_refused_with_their_codes() {
    let f = fixture().await;
    f.make_block(volume("pvc-1", MIB)).await.unwrap();
    f.make_block(volume("pvc-2", MIB)).await.unwrap();
    f.create("files").await;
    let (first, second) = (f.snapshot("pvc-1", "first").await, f.snapshot("pvc-1", "second").await);
    let other = f.snapshot("pvc-2", "other").await;
    // A file of that name makes no block volume of one for mounts.
    let store = f.store.clone();
    let write = move || {
        let files = store.open_volume(&name("files"), VolumeOptions::default()).unwrap();
        let owner = objstore::volume::Ownership { uid: 0, gid: 0, mode: 0o600, umask: 0 };
        files.make(ROOT_INO, "disk.img", objstore::volume::Make::File, owner).unwrap();
    };
    tokio::task::spawn_blocking(write).await.unwrap();
    let files = f.snapshot("files", "of-files").await;
    for (snapshot, offset, results, expected) in [
        ("", 0, 0, Code::InvalidArgument),
        ("absent", 0, 0, Code::NotFound),
        ("pvc-1", 0, 0, Code::NotFound),
        ("no/name", 0, 0, Code::NotFound),
        (&files, 0, 0, Code::InvalidArgument),
        (&first, -1, 0, Code::OutOfRange),
        (&first, MIB + 1, 0, Code::OutOfRange),
        (&first, 0, -1, Code::InvalidArgument),
    ] {
        assert_eq!(code(f.allocated(snapshot, offset, results).await), expected, "{snapshot} {offset} {results}");
    }
    assert_eq!(f.allocated(&first, MIB, 0).await.unwrap(), [(MIB, vec![])], "the end is a place to continue");
    for (base, target, offset, expected) in [
        ("", second.as_str(), 0, Code::InvalidArgument),
        (&first, "", 0, Code::InvalidArgument),
        ("absent", &second, 0, Code::NotFound),
        (&first, "absent", 0, Code::NotFound),
        (&second, &first, 0, Code::InvalidArgument),
        (&first, &first, 0, Code::InvalidArgument),
        (&first, &other, 0, Code::InvalidArgument),
        (&first, &second, -1, Code::OutOfRange),
        (&first, &second, MIB + 1, Code::OutOfRange),
    ] {
        assert_eq!(code(f.delta(base, target, offset, 0).await), expected, "{base} {target} {offset}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_whole_although_its_snapshots_are_deleted() {
    let f = fixture().await;
    f.make_block(volume("pvc-1", DISK)).await.unwrap();
    let base = f.snapshot("pvc-1", "base").await;
    f.on_disk("pvc-1", |disk, ino| {
        for place in (0..9216_u64).step_by(9) {
            disk.write(ino, place * BLOCK, &[1; 4096], false).unwrap();
        }
    })
    .await;
    let target = f.snapshot("pvc-1", "target").await;
    let request = GetMetadataDeltaRequest {
        base_snapshot_id: base.clone(),
        target_snapshot_id: target.clone(),
        max_results: 1,
        ..Default::default()
    };
    let stream = f.controller.get_metadata_delta(Request::new(request)).await.unwrap().into_inner();
    for snapshot_id in [base, target] {
        let request = DeleteSnapshotRequest { snapshot_id, ..Default::default() };
        f.controller.delete_snapshot(Request::new(request)).await.unwrap();
    }
    let found: Vec<_> = stream.map(|message| message.unwrap().block_metadata.len()).collect().await;
    assert_eq!(found, vec![1; 1024]);
}
