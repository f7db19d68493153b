//! Ten thousand idle connections.

use std::time::Duration;

use tests::prelude::*;

use super::many_clients::{Method, PairLatencies, ServerUnderTest, print_measurement, status};
use super::process::{open_files, process_use, wait_for_closed_files};

const IDLE: usize = 10_000;
/// How many of the idle connections have sent a request and received its answer.
const ANSWERED: usize = 1_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_idle_connections_slow_no_request() {
    need!(open_files(IDLE as u64 + 5_000));
    let under_test = ServerUnderTest::new(&["--s3-max-connections", "12000"]).await;
    under_test.put("small", 100).await;
    let time = Duration::from_secs(amount(3, 10));
    let (alone, base) = (under_test.measure(time).await, process_use(&under_test.server));
    // Some connections have had an answer. Most have sent nothing, and the server closes those after half a minute.
    let mut kept = under_test.connect_many(ANSWERED, &under_test.head(Method::Get, "small", 0).await).await;
    for stream in &mut kept {
        assert_eq!(status(stream).await, 200);
    }
    let mut silent = under_test.connect_many(IDLE - ANSWERED, "").await;
    // The kernel completes a connection before the server accepts it.
    let all = || Some(process_use(&under_test.server)).filter(|held| held.files >= base.files + IDLE);
    let crowded = wait_until(Duration::from_secs(10), all).expect("the server accepts all connections");
    let is_quick = |beside: &PairLatencies| {
        beside.median() <= alone.median() * 4 + Duration::from_millis(20)
            && beside.slow() <= alone.slow() * 6 + Duration::from_millis(50)
    };
    let beside = under_test.measure_until(time, is_quick).await;
    print_measurement(&format!(
        "alone: {alone}\nbeside {IDLE} idle connections: {beside}\n{base:?} before, {crowded:?} with them"
    ));
    assert!(is_quick(&beside), "alone {alone}, beside them {beside}");
    let each = crowded.memory.saturating_sub(base.memory) / IDLE as u64;
    assert!(each <= 48 << 10, "{each} bytes for each idle connection");
    silent.clear();
    kept.clear();
    wait_for_closed_files(&under_test.server, base, Duration::from_secs(20));
    // The server returns free memory to the kernel every five seconds, or once a minute if it returned little last
    // time.
    let most = base.memory + crowded.memory.saturating_sub(base.memory) / 3;
    let is_back = || (process_use(&under_test.server).memory <= most).then_some(());
    let back = wait_until(Duration::from_secs(100), is_back);
    let now = process_use(&under_test.server);
    print_measurement(&format!("{now:?} after they left"));
    assert!(back.is_some(), "{now:?} are held after they left, {base:?} before, {crowded:?} with them");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_beyond_the_limit_are_closed() {
    need!(open_files(6_000));
    let under_test = ServerUnderTest::new(&["--s3-max-connections", "1000"]).await;
    let base = process_use(&under_test.server);
    // For each new connection the server closes the one that is idle for the longest time.
    let idle = under_test.connect_many(4_000, "").await;
    let beside = under_test.measure(Duration::from_secs(1)).await;
    let files = process_use(&under_test.server).files;
    assert!(files <= base.files + 1_000 + 200, "{files} files are open: {beside}");
    drop(idle);
    wait_for_closed_files(&under_test.server, base, Duration::from_secs(20));
}
