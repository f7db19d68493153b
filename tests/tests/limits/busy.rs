//! Five hundred connections with constant requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tests::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::many_clients::{Method, ServerUnderTest, print_measurement, status};
use super::process::{open_files, process_use, wait_for_closed_files};

const BUSY: usize = 500;
const BYTES: usize = 4096;
/// The number of answers from which shares can be told apart from chance.
const ENOUGH: usize = 8;
/// The time limit for these answers on a slow machine.
const LIMIT: Duration = Duration::from_secs(120);

/// Sends requests again and again; returns how many were answered. All answers are counted in `all`.
async fn ask(mut stream: TcpStream, head: Arc<str>, going: Arc<AtomicBool>, all: Arc<AtomicUsize>) -> usize {
    let (mut answered, mut body) = (0, vec![0; BYTES]);
    while going.load(Ordering::Relaxed) {
        stream.write_all(head.as_bytes()).await.expect("sent");
        assert_eq!(status(&mut stream).await, 200);
        stream.read_exact(&mut body).await.expect("its content");
        answered += 1;
        all.fetch_add(1, Ordering::Relaxed);
    }
    answered
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_busy_connections_have_equal_shares() {
    need!(open_files(4_000));
    let under_test = ServerUnderTest::new(&[]).await;
    under_test.put("small", BYTES).await;
    let base = process_use(&under_test.server);
    let head: Arc<str> = under_test.head(Method::Get, "small", 0).await.into();
    let (going, all) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
    let clients = under_test.connect_many(BUSY, "").await;
    let begin = Instant::now();
    let asking = clients.into_iter().map(|stream| tokio::spawn(ask(stream, head.clone(), going.clone(), all.clone())));
    let asking: Vec<_> = asking.collect();
    let beside = under_test.measure(Duration::from_secs(amount(6, 30))).await;
    while all.load(Ordering::Relaxed) < ENOUGH * BUSY && begin.elapsed() < LIMIT {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    going.store(false, Ordering::Relaxed);
    let mut answered = Vec::new();
    for asking in asking {
        answered.push(asking.await.expect("every request was answered"));
    }
    let took = begin.elapsed();
    answered.sort_unstable();
    let (least, usual, most) = (answered[0], answered[BUSY / 2], answered[BUSY - 1]);
    let all: usize = answered.iter().sum();
    let loaded = process_use(&under_test.server);
    print_measurement(&format!(
        "{BUSY} connections got {all} answers in {took:?}: {least} to {most} each, median {usual}; one more \
         connection: {beside}"
    ));
    assert!(usual >= 4 && least * 4 >= usual && most <= usual * 4, "{least} to {most} answers, usually {usual}");
    // One more connection is served in turn: its write and its read wait for a few rounds of the others, not for all.
    let turn = took / u32::try_from(usual).expect("few");
    assert!(beside.median() <= turn * 8 + Duration::from_millis(100), "a turn takes {turn:?}; beside them {beside}");
    let grown = loaded.memory.saturating_sub(base.memory);
    assert!(grown <= 256 << 20, "{grown} bytes more");
    wait_for_closed_files(&under_test.server, base, Duration::from_secs(20));
}
