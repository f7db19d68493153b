//! Memory that callers without rights can make the server use: none for a body that they could never be allowed to
//! send.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use crate::signatures::{Request, Signer};
use crate::support::*;

/// The number of connections that send a document at the same time.
const CONNECTIONS: usize = 49;
/// The memory limit of the server: far below what so many documents would take if they were read.
const MEMORY_BYTES: u64 = 400 << 20;
/// The time limit of one answer.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Sends a document without a signature; returns the status, or `None` if the connection ended before.
fn send(address: &str, target: &str, document: &[u8]) -> Option<u16> {
    let mut socket = TcpStream::connect(address).ok()?;
    socket.set_read_timeout(Some(TIMEOUT)).ok()?;
    socket.set_write_timeout(Some(TIMEOUT)).ok()?;
    let head = format!("{target} HTTP/1.1\r\nhost: {address}\r\ncontent-length: {}\r\n\r\n", document.len());
    // The server may refuse before it has read everything.
    let _ = socket.write_all(head.as_bytes()).and_then(|()| socket.write_all(document));
    let mut answer = [0; 12];
    socket.read_exact(&mut answer).ok()?;
    std::str::from_utf8(&answer[9..]).ok()?.parse().ok()
}

#[test]
fn documents_of_unauthorized_callers_take_no_memory() {
    need!(required("prlimit"));
    let limit = format!("--data={MEMORY_BYTES}");
    let server = Options::default().under(["prlimit", &limit]).args(["--s3-block-public-access", "false"]).start();
    make_bucket(&server, "vessel", &[]);
    let signer = Signer::new(&server);
    // With a policy, for which the server needs more than the head of the request, and which lets anyone read.
    let policy = r#"{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Principal": "*",
        "Action": "s3:GetObject", "Resource": "arn:aws:s3:::vessel/*"}}"#;
    let put = signer.sign(&Request::new("PUT", "/vessel").query("policy=").body(policy)).send(&signer.host);
    assert_eq!(put.status, 204, "{put}");
    // As long as a document may be; small elements become records of hundreds of bytes when they are parsed.
    let blank = " ".repeat(7 << 20);
    let document = format!("<Tagging>{blank}<TagSet>{}</TagSet></Tagging>", "<Tag/>".repeat(99_000)).into_bytes();
    for target in [
        "PUT /vessel/k?x-id=PutObjectTagging",
        "PUT /vessel/k?tagging",
        "PUT /vessel/k?tagging&x-id=PutObject",
        "POST /vessel?delete",
        "POST /vessel/k?uploadId=u",
    ] {
        let statuses: Vec<_> = std::thread::scope(|scope| {
            let one = || scope.spawn(|| send(&signer.host, target, &document));
            let sending: Vec<_> = (0..CONNECTIONS).map(|_| one()).collect();
            sending.into_iter().map(|sent| sent.join().expect("it ends")).collect()
        });
        // A request that is refused while it arrives may end with its connection.
        assert!(statuses.iter().flatten().all(|status| *status == 403), "{target}: {statuses:?}");
        let got = signer.sign(&Request::new("GET", "/vessel").query("list-type=2")).send(&signer.host);
        assert_eq!(got.status, 200, "{target}: the server still answers: {got}");
    }
}
