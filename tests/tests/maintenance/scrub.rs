//! `amphora scrub`: damage in a running store is found, logged, counted and recorded.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::FileExt as _;

use super::{flip, largest, printed};
use crate::support::access::{read, root_client, write};
use crate::support::cli::json;
use crate::support::*;

/// The current answer of `/metrics`.
fn metrics(server: &Server) -> String {
    let address = server.ready().address("http");
    let mut stream = std::net::TcpStream::connect(address).expect("connected");
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").expect("asked");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    answer
}

fn metric(metrics: &str, name: &str) -> u64 {
    let line = metrics.lines().find(|line| line.split(' ').next() == Some(name));
    let value = line.unwrap_or_else(|| panic!("no {name} in {metrics}")).split(' ').nth(1).expect("a value");
    value.parse().expect("a number")
}

/// The disk changes a bit that the page cache still has unchanged: only reading the disk shows it.
#[tokio::test]
async fn damage_below_the_page_cache_is_found() {
    need!(loop_devices(Kind::Ext4));
    let server = Options::default().args(["--scrub-interval", "off"]).image(Kind::Ext4, 64 << 20).start();
    json(&server, &["bucket", "create", "docs"]);
    let client = root_client(&server);
    let content: Vec<u8> = (0..1_u32 << 18).flat_map(|word| word.wrapping_mul(0x9e37_79b9).to_be_bytes()).collect();
    write(&client, "docs", "large", &content).await;
    assert_eq!(read(&client, "docs", "large").await, content);
    let disk = std::fs::OpenOptions::new().read(true).write(true).open(server.home().path().join("disk"));
    let disk = disk.expect("the file that the disk is");
    let mut bytes = vec![0; 64 << 20];
    disk.read_exact_at(&mut bytes, 0).expect("read");
    let at = bytes.chunks(1024).position(|block| *block == content[..1024]).expect("it is on disk") * 1024;
    disk.write_all_at(&[content[100] ^ 4], at as u64 + 100).expect("written");
    assert_eq!(read(&client, "docs", "large").await, content, "the page cache still has the undamaged content");
    let (status, found) = printed(&server, &["scrub", "--rate", "1Gi"]);
    assert_eq!((status, super::count(&found["damaged"])), (Some(1), 1), "{found}");
}

#[tokio::test]
async fn damage_in_a_running_store_is_found_and_recorded() {
    let mut server = Options::default().args(["--scrub-interval", "off"]).start();
    json(&server, &["bucket", "create", "docs"]);
    let client = root_client(&server);
    write(&client, "docs", "large", &vec![7; 3 << 20]).await;
    write(&client, "docs", "good", &vec![8; 1 << 20]).await;
    assert_eq!(json(&server, &["scrub", "--rate", "1Gi"]), serde_json::json!({"damaged": []}));
    let before = metrics(&server);
    assert_eq!(metric(&before, "amphora_scrub_read_bytes_total"), 4 << 20);
    assert_eq!(metric(&before, "amphora_damaged_blobs"), 0);
    assert!(metric(&before, "amphora_scrub_completed_timestamp_seconds") > 1_700_000_000);
    for name in ["scrub_passes_total", "scrub_pass_done_bytes", "damaged_blobs"] {
        assert!(
            before.contains(&format!("# HELP amphora_{name} ")) && before.contains(&format!("# TYPE amphora_{name} "))
        );
    }

    flip(&largest(&server), 2 << 20);
    let (status, found) = printed(&server, &["scrub", "--rate", "1Gi"]);
    assert_eq!(status, Some(1));
    assert_eq!(found["damaged"][0]["owners"], serde_json::json!(["bucket \"docs\" key \"large\""]), "{found}");
    assert!(server.log().contains("content does not match its checksum"));
    server.kill9();
    server.restart();
    let status = json(&server, &["status"]);
    assert_eq!((&status["damagedCount"], &status["scrub"]["running"]), (&1.into(), &false.into()), "{status}");
    assert!(status["scrub"]["completedAt"].is_string() && status["lifecycle"]["lookedAt"].is_number(), "{status}");
    assert_eq!(metric(&metrics(&server), "amphora_damaged_blobs"), 1);
    write(&root_client(&server), "docs", "large", b"again").await;
    assert_eq!(json(&server, &["status"])["damagedCount"], 0);
}
