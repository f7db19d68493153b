//! Backups of a device by the ranges of its snapshots, through the sockets and over a kill of the server.

use std::collections::BTreeMap;

use proto::csi::v1::snapshot_metadata_client::SnapshotMetadataClient;

use super::block::{MIB, content, devices, open, read_direct, write_direct};
use super::*;
use crate::support::access::{read, root_client};

/// The size of the device in MiB.
const SIZE_MIB: usize = 48;

type Client = SnapshotMetadataClient<Channel>;

async fn client(driver: &Driver) -> Client {
    SnapshotMetadataClient::new(grpc::channel(&driver.server.ready().socket("csi")).await)
}

/// What a backup program keeps of a device.
#[derive(Default)]
struct Backup {
    bytes: Vec<u8>,
    /// The end of the last range that was copied.
    end: i64,
}

impl Backup {
    /// Copies ranges out of the image of the snapshot.
    fn copy(&mut self, image: &[u8], size: i64, ranges: &[BlockMetadata]) {
        assert_eq!(i64::try_from(image.len()), Ok(size));
        self.bytes.resize(image.len(), 0);
        for range in ranges {
            assert!(range.byte_offset >= self.end && range.size_bytes > 0, "in order: {range:?} after {}", self.end);
            self.end = range.byte_offset + range.size_bytes;
            let at = usize::try_from(range.byte_offset).expect("a place")..usize::try_from(self.end).expect("a place");
            self.bytes[at.clone()].copy_from_slice(&image[at]);
        }
    }
}

async fn allocated(client: &mut Client, snapshot: &str, image: &[u8]) -> Backup {
    let request = GetMetadataAllocatedRequest { snapshot_id: snapshot.into(), max_results: 3, ..Default::default() };
    let mut stream = client.get_metadata_allocated(request).await.expect("a stream").into_inner();
    let mut backup = Backup::default();
    while let Some(message) = stream.message().await.expect("to its end") {
        assert!(message.block_metadata.len() <= 3, "{message:?}");
        backup.copy(image, message.volume_capacity_bytes, &message.block_metadata);
    }
    backup
}

/// Writes to some places of a device, and the bytes of the whole device afterwards.
fn change(device: &Path, round: u8) -> Vec<u8> {
    let device = open(device);
    for place in 0..6 {
        let at = (usize::from(round) * 977 + place * 7919) * 4096 % ((SIZE_MIB - 1) * MIB);
        write_direct(&device, at as u64, &content(40_960, round)).expect("written");
    }
    (0..SIZE_MIB).flat_map(|at| read_direct(&device, (at * MIB) as u64, MIB).expect("read")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_by_allocated_ranges_and_deltas_is_the_device_also_over_a_kill() {
    need!(devices());
    let mut driver = Driver::of(Options::default().holder().start()).await;
    let volume = driver.create_block("pvc-1", SIZE_MIB, None).await;
    let device = driver.device(&volume, &HashMap::new()).await;
    let mut client = client(&driver).await;
    let s3 = root_client(&driver.server);

    let bytes = change(&device, 1);
    let mut base = driver.snapshot(&volume, "round-1").await;
    let image = read(&s3, &base, "disk.img").await;
    let mut backup = allocated(&mut client, &base, &image).await;
    assert!(backup.bytes == bytes, "the allocated ranges are the device");

    for round in 2..=5 {
        let bytes = change(&device, round);
        let target = driver.snapshot(&volume, &format!("round-{round}")).await;
        let image = read(&s3, &target, "disk.img").await;
        backup.end = 0;
        let mut messages = BTreeMap::new();
        loop {
            let request = GetMetadataDeltaRequest {
                base_snapshot_id: base.clone(),
                target_snapshot_id: target.clone(),
                starting_offset: backup.end,
                max_results: 1,
                ..Default::default()
            };
            let mut stream = client.get_metadata_delta(request).await.expect("a stream").into_inner();
            let mut whole = true;
            while let Some(message) = stream.message().await.expect("to its end") {
                backup.copy(&image, message.volume_capacity_bytes, &message.block_metadata);
                *messages.entry(message.block_metadata.len()).or_insert(0) += 1;
                if round == 3 && messages[&1] == 2 {
                    whole = false;
                    break;
                }
            }
            if whole {
                break;
            }
            driver.server.kill9();
            driver.server.restart();
            driver.reconnect().await;
            client = self::client(&driver).await;
        }
        assert!(backup.bytes == bytes, "round {round}: {messages:?}");
        assert_eq!(messages.get(&1), Some(&6), "each range came once: {messages:?}");
        base = target;
    }
    driver.remove_block(&volume).await;
}
