//! A disk of 64 MiB, filled by S3 and by another program.
//!
//! - Additions are refused with 507 `InsufficientStorage` while a part of the disk is still free; deletions work and
//!   free space.
//! - Objects of every size are put until they are refused, so that the disk fills up at every step of a PUT.

use std::path::Path;
use std::time::Duration;

use aws_sdk_s3::Client;

use super::sample::{BUCKET, Refusal, Sample};
use crate::support::access::root_client;
use crate::support::cli::check_store;
use crate::support::*;

pub const DISK_BYTES: u64 = 64 << 20;
/// How long it may take until the space of deleted objects is free.
const COLLECTED: Duration = Duration::from_secs(20);
const SIZES: [usize; 7] = [6 << 20, 1 << 20, 200_000, 100_000, 20_000, 3_000, 100];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_writes_and_allows_deletes() {
    need!(loop_devices(Kind::Ext4));
    let mut server = Options::default().image(Kind::Ext4, DISK_BYTES).start();
    make_bucket(&server, BUCKET, &[]);
    let client = root_client(&server);
    let mut sample = Sample::default();
    for round in 0..amount(2, 10) {
        fill(&client, &mut sample, round).await;
        sample.whole(&client).await;
        assert!(is_ready(&server).await, "the server is ready on a full disk");
        for key in sample.keys().iter().filter(|key| key.contains("/0/")) {
            sample.delete(&client, key).await.unwrap_or_else(|refusal| panic!("deleting {key}: {refusal:?}"));
        }
        let again = format!("{round}/again/0/k");
        retried(&client, &mut sample, &again, 3 << 20).await;
        if round == 0 {
            server.kill9();
            check_store(&server);
            server.restart();
        }
        sample.whole(&client).await;
    }
    assert_eq!(server.terminate().code(), Some(0), "{}", server.log());
    check_store(&server);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_others_fill_is_survived() {
    need!(loop_devices(Kind::Ext4));
    let mut server = Options::default().image(Kind::Ext4, DISK_BYTES).start();
    make_bucket(&server, BUCKET, &[]);
    let client = root_client(&server);
    let mut sample = Sample::default();
    for len in SIZES {
        sample.put(&client, &format!("before/{len}"), len).await.expect("there is room");
    }
    let ballast = server.image().dir().join("ballast");
    fill_up(&ballast);
    for len in SIZES {
        full(sample.put(&client, &format!("during/{len}"), len).await);
    }
    full(sample.copy(&client, "before/3000", "during/copy").await);
    // Not a byte is free except what is reserved for deletions.
    sample.delete(&client, "before/100").await.expect("deletions work on a full disk");
    sample.whole(&client).await;
    server.kill9();
    server.restart();
    sample.whole(&client).await;
    full(sample.put(&client, "during/start", 100).await);
    std::fs::remove_file(&ballast).expect("there");
    for key in ["after", "during/3000"] {
        retried(&client, &mut sample, key, 1 << 20).await;
    }
    sample.delete(&client, "before/3000").await.expect("there is room");
    sample.whole(&client).await;
    assert_eq!(server.terminate().code(), Some(0), "{}", server.log());
    check_store(&server);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_starts_reads_and_deletes_on_a_disk_without_a_free_byte() {
    for (kind, bytes) in [(Kind::Ext4, DISK_BYTES), (Kind::Xfs, 320 << 20)] {
        need!(loop_devices(kind));
        let mut server = Options::default().image(kind, bytes).start();
        make_bucket(&server, BUCKET, &[]);
        let client = root_client(&server);
        let mut sample = Sample::default();
        for (round, len) in (0..4).flat_map(|round| SIZES.map(|len| (round, len))) {
            sample.put(&client, &format!("{round}/{len}"), len).await.expect("there is room");
        }
        let status = |server: &Server| crate::support::cli::json(server, &["status"]);
        assert_eq!(status(&server)["diskFull"], false);
        let ballast = server.image().dir().join("ballast");
        for round in 0..2 {
            // Another program fills the freed space as well.
            fill_up(&ballast.with_extension(round.to_string()));
            if round == 0 {
                server.kill9();
            } else {
                server.terminate();
            }
            server.restart();
            sample.whole(&client).await;
            assert!(is_ready(&server).await, "the server still reads and deletes");
            assert_eq!(status(&server)["diskFull"], true);
            full(sample.put(&client, "during", 100).await);
            full(sample.put(&client, "during", 1 << 20).await);
            for len in SIZES {
                sample.delete(&client, &format!("{round}/{len}")).await.expect("deletions work on a full disk");
            }
            sample.whole(&client).await;
        }
        (0..2).for_each(|round| std::fs::remove_file(ballast.with_extension(round.to_string())).expect("there"));
        retried(&client, &mut sample, "after", 1 << 20).await;
        assert_eq!(status(&server)["diskFull"], false);
        sample.whole(&client).await;
        assert_eq!(server.terminate().code(), Some(0), "{}", server.log());
        check_store(&server);
    }
}

/// Puts objects of each size, copies and parts, until each is refused.
async fn fill(client: &Client, sample: &mut Sample, round: usize) {
    let mut put = 0;
    for len in SIZES {
        for number in 0.. {
            // Objects in a folder `0` are deleted later.
            let key = format!("{round}/{len}/{}/{number}", number % 2);
            if let Err(refusal) = sample.put(client, &key, len).await {
                full(Err(refusal));
                break;
            }
            put += 1;
            assert!(put < 5_000, "a disk of {DISK_BYTES} bytes took {put} objects");
        }
    }
    let from = sample.keys().first().expect("something was put").clone();
    for number in 0.. {
        // Refused or deleted objects may have freed space since.
        if let Err(refusal) = sample.copy(client, &from, &format!("{round}/copy/{number}")).await {
            full(Err(refusal));
            break;
        }
        assert!(number < 5_000, "a full disk took {number} copies");
    }
    let create = client.create_multipart_upload().bucket(BUCKET).key("upload").send().await;
    if let Ok(upload) = create {
        let id = upload.upload_id.expect("an id");
        let part = client.upload_part().bucket(BUCKET).key("upload").upload_id(&id).part_number(1);
        full(part.body(vec![1; 5 << 20].into()).send().await.map(drop).map_err(|error| Refusal::of(&error)));
        let abort = client.abort_multipart_upload().bucket(BUCKET).key("upload").upload_id(&id).send().await;
        abort.expect("deletions work on a full disk");
    }
}

/// Puts an object once the content of deleted ones has been freed.
async fn retried(client: &Client, sample: &mut Sample, key: &str, len: usize) {
    let begin = std::time::Instant::now();
    while let Err(refusal) = sample.put(client, key, len).await {
        full(Err(refusal));
        assert!(begin.elapsed() < COLLECTED, "there is no room for {key} yet");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[track_caller]
fn full(answer: Result<(), Refusal>) {
    let refusal = answer.expect_err("there is no room");
    assert_eq!((refusal.code.as_str(), refusal.status), ("InsufficientStorage", 507));
}

/// Fills a file system completely.
pub fn fill_up(file: &Path) {
    let mut ballast = std::fs::File::create(file).expect("made");
    for step in [1 << 20, 4096, 1] {
        while std::io::Write::write_all(&mut ballast, &vec![1; step]).is_ok() {}
    }
    // Takes space that was preallocated for content that is not written yet.
    let _ = rustix::fs::fsync(&ballast);
    while std::io::Write::write_all(&mut ballast, &[1; 512]).is_ok() {}
}

pub async fn is_ready(server: &Server) -> bool {
    let address = server.ready().address("http");
    let answer = tokio::task::spawn_blocking(move || {
        let mut stream = std::net::TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(20)))?;
        std::io::Write::write_all(&mut stream, b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
        let mut answer = [0; 12];
        std::io::Read::read_exact(&mut stream, &mut answer).map(|()| answer)
    });
    let answer = answer.await.expect("no panic").expect("an answer");
    match &answer[9..] {
        b"200" => true,
        b"503" => false,
        other => panic!("/readyz answered {}", other.escape_ascii()),
    }
}
