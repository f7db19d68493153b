//! Slow clients: they hold only their own resources.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tests::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::many_clients::{Method, PairLatencies, ServerUnderTest, print_measurement, status};
use super::process::{open_files, process_use, wait_for_closed_files};
use crate::support::access::root_client;
use crate::support::cli::check_store;

const SLOW: usize = 150;
/// The memory that each of them may make the server use, including what the allocator has not returned.
const EACH_BYTES: u64 = 2 << 20;

/// Reads a little now and then.
async fn read_slowly(mut stream: TcpStream, going: Arc<AtomicBool>) {
    assert_eq!(status(&mut stream).await, 200);
    let mut buffer = [0; 1024];
    while going.load(Ordering::Relaxed) {
        assert_ne!(
            stream.read(&mut buffer).await.expect("more of it"),
            0,
            "the server closed the connection of a slow reader"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Sends a little now and then.
async fn write_slowly(mut stream: TcpStream, going: Arc<AtomicBool>) {
    while going.load(Ordering::Relaxed) {
        stream.write_all(&[7; 100]).await.expect("still wanted");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_readers_and_writers_hold_only_their_own_resources() {
    need!(open_files(4_000));
    let mut under_test = ServerUnderTest::new(&[]).await;
    under_test.put("large", 32 << 20).await;
    let time = Duration::from_secs(amount(3, 20));
    let (alone, base) = (under_test.measure(time).await, process_use(&under_test.server));
    let going = Arc::new(AtomicBool::new(true));
    let readers = under_test.connect_many(SLOW, &under_test.head(Method::Get, "large", 0).await).await;
    let writers = under_test.connect_many(SLOW, &under_test.head(Method::Put, "dripped", 1 << 20).await).await;
    let mut slow: Vec<_> = readers.into_iter().map(|stream| tokio::spawn(read_slowly(stream, going.clone()))).collect();
    slow.extend(writers.into_iter().map(|stream| tokio::spawn(write_slowly(stream, going.clone()))));
    // At first they are as fast as others, because the kernel's buffers take what they do not read.
    under_test.measure(Duration::from_secs(2)).await;
    let is_quick = |beside: &PairLatencies| beside.median() <= alone.median() * 4 + Duration::from_millis(20);
    let beside = under_test.measure_until(time, is_quick).await;
    let crowded = process_use(&under_test.server);
    going.store(false, Ordering::Relaxed);
    for slow in slow {
        slow.await.expect("a slow client is served to its end");
    }
    let grown = crowded.memory.saturating_sub(base.memory);
    print_measurement(&format!(
        "alone: {alone}\nbeside {SLOW} slow readers and as many writers: {beside}; {grown} bytes more"
    ));
    assert!(is_quick(&beside), "alone {alone}, beside them {beside}");
    assert!(grown <= 2 * SLOW as u64 * EACH_BYTES, "{grown} bytes more");
    wait_for_closed_files(&under_test.server, base, Duration::from_secs(20));
    under_test.server.terminate();
    check_store(&under_test.server);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stalled_clients_get_an_answer_and_free_all_resources() {
    need!(open_files(4_000));
    let mut under_test =
        ServerUnderTest::new(&["--s3-upload-stall", "2s", "--s3-download-stall", "2s", "--s3-idle-time", "3s"]).await;
    under_test.put("large", 32 << 20).await;
    let base = process_use(&under_test.server);
    // Half of each body, of two sizes that are stored in different places.
    let mut stopped = Vec::new();
    for length in [100_000, 4 << 20] {
        let head = under_test.head(Method::Put, "half", length).await;
        for _ in 0..50 {
            // All send at once: a connection that waited for the ones before it would reach its timeout.
            let mut one = under_test.connect_many(1, &head).await;
            one[0].write_all(&vec![7; length / 2]).await.expect("sent");
            stopped.extend(one);
        }
    }
    let never_read = under_test.connect_many(50, &under_test.head(Method::Get, "large", 0).await).await;
    for stream in &mut stopped {
        assert_eq!(status(stream).await, 400, "RequestTimeout");
    }
    // On a new connection, because the first one may have reached its idle timeout.
    under_test.client = root_client(&under_test.server);
    under_test.measure(Duration::from_millis(500)).await;
    // The clients still have their ends open, so the server closed its descriptors by itself.
    wait_for_closed_files(&under_test.server, base, Duration::from_secs(20));
    drop((stopped, never_read));
    let absent = under_test.client.head_object().bucket(super::many_clients::BUCKET).key("half").send().await;
    assert!(absent.is_err(), "an incomplete body leaves no object");
    under_test.server.terminate();
    check_store(&under_test.server);
}
