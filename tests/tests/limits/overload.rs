//! More uploads and downloads than there is memory for: those that fit proceed, the others get SlowDown.

use std::time::Duration;

use tests::prelude::*;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::many_clients::{BUCKET, Method, Stage, say, status};
use super::process::{files_are_given_back, held, open_files};

/// How many uploads, and how many downloads, fit the memory limit of 16 MiB: each takes 1 MiB.
const PLACES: usize = 16;
const CROWD: usize = 120;
const LENGTH: usize = 8 << 20;
const LIMIT: Duration = Duration::from_secs(20);

/// The number of answers with each status so far.
async fn told(crowd: Vec<TcpStream>, places: usize) -> (Vec<TcpStream>, usize) {
    let asked = crowd.into_iter().map(|mut stream| async move {
        // An admitted upload has no answer yet, since its body is incomplete.
        let status = tokio::time::timeout(LIMIT, status(&mut stream)).await.ok();
        (stream, status)
    });
    let answers = futures::future::join_all(asked).await;
    let refused = answers.iter().filter(|(_, status)| *status == Some(503)).count();
    let others: Vec<_> = answers.iter().filter_map(|(_, status)| status.filter(|status| *status != 503)).collect();
    assert!(others.iter().all(|status| *status == 200), "{others:?}");
    assert_eq!(CROWD - refused, places, "as many requests are admitted as fit the memory");
    (answers.into_iter().filter(|(_, status)| *status != Some(503)).map(|(stream, _)| stream).collect(), refused)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_beyond_the_memory_limit_get_slow_down() {
    need!(open_files(4_000));
    let stage = Stage::new(&["--s3-body-memory", "16Mi", "--s3-answer-memory", "16Mi"]).await;
    stage.put("large", 32 << 20).await;
    let base = held(&stage.server);
    let mut uploads = stage.crowd(CROWD, &stage.head(Method::Put, "new", LENGTH).await).await;
    for stream in &mut uploads {
        stream.write_all(&vec![7; LENGTH / 32]).await.expect("sent");
    }
    let downloads = stage.crowd(CROWD, &stage.head(Method::Get, "large", 0).await).await;
    let small = stage.measure(Duration::from_secs(2)).await;
    let ((mut uploads, late), (downloads, later)) = tokio::join!(told(uploads, PLACES), told(downloads, PLACES));
    let grown = held(&stage.server).memory.saturating_sub(base.memory);
    say(&format!("{late} uploads and {later} downloads of {CROWD} each got SlowDown; {grown} bytes more; {small}"));
    assert!(grown <= 160 << 20, "{grown} bytes more");
    // Admitted requests keep their memory until they end.
    for stream in &mut uploads {
        stream.write_all(&vec![7; LENGTH - LENGTH / 32]).await.expect("sent");
        assert_eq!(status(stream).await, 200);
    }
    drop((uploads, downloads));
    let large = vec![8; LENGTH];
    stage.client.put_object().bucket(BUCKET).key("new").body(large.into()).send().await.expect("room again");
    let got = stage.client.get_object().bucket(BUCKET).key("large").send().await.expect("room again");
    assert_eq!(got.body.collect().await.expect("its content").into_bytes().len(), 32 << 20);
    files_are_given_back(&stage.server, base, Duration::from_secs(20));
}

/// The status of one more request.
async fn one_more(stage: &Stage) -> u16 {
    let mut one = stage.crowd(1, &stage.head(Method::Get, "new", 0).await).await;
    status(&mut one[0]).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_beyond_the_limit_get_slow_down() {
    let stage = Stage::new(&["--s3-max-requests", "4"]).await;
    let head = stage.head(Method::Put, "new", 1000).await;
    let mut held = stage.crowd(4, &head.replace("\r\n\r\n", "\r\nexpect: 100-continue\r\n\r\n")).await;
    for stream in &mut held {
        assert_eq!(status(stream).await, 100, "the request is admitted");
    }
    let mut more = stage.crowd(10, &stage.head(Method::Get, "new", 0).await).await;
    for stream in &mut more {
        assert_eq!(status(stream).await, 503);
    }
    drop((held, more));
    let places_are_free = async {
        while one_more(&stage).await == 503 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LIMIT, places_are_free).await.expect("a closed connection frees its request");
    stage.put("new", 1000).await;
}
