//! More uploads and downloads than there is memory for: those that fit proceed, the others get SlowDown.

use std::time::Duration;

use tests::prelude::*;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::many_clients::{BUCKET, Method, ServerUnderTest, print_measurement, status};
use super::process::{open_files, process_use, wait_for_closed_files};

/// How many uploads, and how many downloads, fit the memory limit of 16 MiB: each takes 1 MiB.
const ADMITTED: usize = 16;
const CLIENTS: usize = 120;
const LENGTH: usize = 8 << 20;
const LIMIT: Duration = Duration::from_secs(20);

/// The number of answers with each status so far.
async fn count_refused(clients: Vec<TcpStream>, admitted: usize) -> (Vec<TcpStream>, usize) {
    let asked = clients.into_iter().map(|mut stream| async move {
        // An admitted upload has no answer yet, since its body is incomplete.
        let status = tokio::time::timeout(LIMIT, status(&mut stream)).await.ok();
        (stream, status)
    });
    let answers = futures::future::join_all(asked).await;
    let refused = answers.iter().filter(|(_, status)| *status == Some(503)).count();
    let others: Vec<_> = answers.iter().filter_map(|(_, status)| status.filter(|status| *status != 503)).collect();
    assert!(others.iter().all(|status| *status == 200), "{others:?}");
    assert_eq!(CLIENTS - refused, admitted, "as many requests are admitted as fit the memory");
    (answers.into_iter().filter(|(_, status)| *status != Some(503)).map(|(stream, _)| stream).collect(), refused)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_beyond_the_memory_limit_get_slow_down() {
    need!(open_files(4_000));
    let under_test = ServerUnderTest::new(&["--s3-body-memory", "16Mi", "--s3-answer-memory", "16Mi"]).await;
    under_test.put("large", 32 << 20).await;
    let base = process_use(&under_test.server);
    let mut uploads = under_test.connect_many(CLIENTS, &under_test.head(Method::Put, "new", LENGTH).await).await;
    for stream in &mut uploads {
        stream.write_all(&vec![7; LENGTH / 32]).await.expect("sent");
    }
    let downloads = under_test.connect_many(CLIENTS, &under_test.head(Method::Get, "large", 0).await).await;
    let small = under_test.measure(Duration::from_secs(2)).await;
    let ((mut uploads, late), (downloads, later)) =
        tokio::join!(count_refused(uploads, ADMITTED), count_refused(downloads, ADMITTED));
    let grown = process_use(&under_test.server).memory.saturating_sub(base.memory);
    print_measurement(&format!(
        "{late} uploads and {later} downloads of {CLIENTS} each got SlowDown; {grown} bytes more; {small}"
    ));
    assert!(grown <= 160 << 20, "{grown} bytes more");
    // Admitted requests keep their memory until they end.
    for stream in &mut uploads {
        stream.write_all(&vec![7; LENGTH - LENGTH / 32]).await.expect("sent");
        assert_eq!(status(stream).await, 200);
    }
    drop((uploads, downloads));
    let large = vec![8; LENGTH];
    under_test.client.put_object().bucket(BUCKET).key("new").body(large.into()).send().await.expect("room again");
    let got = under_test.client.get_object().bucket(BUCKET).key("large").send().await.expect("room again");
    assert_eq!(got.body.collect().await.expect("its content").into_bytes().len(), 32 << 20);
    wait_for_closed_files(&under_test.server, base, Duration::from_secs(20));
}

/// The status of one more request.
async fn one_more(under_test: &ServerUnderTest) -> u16 {
    let mut one = under_test.connect_many(1, &under_test.head(Method::Get, "new", 0).await).await;
    status(&mut one[0]).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_beyond_the_limit_get_slow_down() {
    let under_test = ServerUnderTest::new(&["--s3-max-requests", "4"]).await;
    let head = under_test.head(Method::Put, "new", 1000).await;
    let mut admitted = under_test.connect_many(4, &head.replace("\r\n\r\n", "\r\nexpect: 100-continue\r\n\r\n")).await;
    for stream in &mut admitted {
        assert_eq!(status(stream).await, 100, "the request is admitted");
    }
    let mut more = under_test.connect_many(10, &under_test.head(Method::Get, "new", 0).await).await;
    for stream in &mut more {
        assert_eq!(status(stream).await, 503);
    }
    drop((admitted, more));
    let requests_are_free = async {
        while one_more(&under_test).await == 503 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LIMIT, requests_are_free).await.expect("a closed connection frees its request");
    under_test.put("new", 1000).await;
}
