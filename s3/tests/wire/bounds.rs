//! Limits on the memory that a body can make the server hold.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::endpoint::{EXPECT, Endpoint, goes_on, head, receive};
use crate::sign::{EMPTY, Signed, sha256, sign};

const SHORT: Duration = Duration::from_millis(400);
/// How long a request waits for memory: long enough for another upload to reach a slow disk.
const WAIT: Duration = Duration::from_secs(4);

#[test]
fn a_document_has_no_more_elements_than_mean_something() {
    let endpoint = Endpoint::start();
    let complete = |part: &str, times: usize| {
        let body = format!("<CompleteMultipartUpload>{}</CompleteMultipartUpload>", part.repeat(times));
        endpoint.send("POST", "/wire/k", "uploadId=none", &[], body.as_bytes()).code()
    };
    assert_eq!(complete("<Part/>", 300_000), "MalformedXML");
    let part = "<Part><PartNumber>1</PartNumber><ETag>e</ETag><ChecksumCRC32>c</ChecksumCRC32></Part>";
    assert_eq!(complete(part, 10_000), "NoSuchUpload");
    // The limit holds for documents, not for the content of objects.
    assert_eq!(endpoint.send("PUT", "/wire/k", "", &[], &b"<Part/>".repeat(300_000)).code(), "OK");
}

/// An endpoint with memory for one upload.
fn narrow() -> Endpoint {
    Endpoint::start_with(|config| {
        config.limits.body_memory_bytes = 1 << 20;
        config.limits.memory_wait = WAIT;
    })
}

/// Begins an upload of `body`: the request has its share of the memory, and its first `sent` bytes are sent.
fn begin(endpoint: &Endpoint, body: &[u8], sent: usize) -> TcpStream {
    let signed = sign(&endpoint.root, "PUT", "/wire/slow", "", &[EXPECT], &sha256(body));
    let mut stream = endpoint.connect();
    stream.write_all(head("PUT", "/wire/slow", "", &signed.headers, body.len()).as_bytes()).unwrap();
    goes_on(&mut stream);
    stream.write_all(&body[..sent]).unwrap();
    stream
}

#[test]
fn bodies_beyond_the_memory_for_them_wait_and_then_come_again_later() {
    let endpoint = narrow();
    let (large, small) = (vec![7; 2 << 20], vec![7; 200_000]);
    let put = |body: &[u8]| endpoint.send("PUT", "/wire/k", "", &[], body);
    let mut slow = begin(&endpoint, &large, large.len() / 2);
    let asked = Instant::now();
    let told = put(&small);
    assert_eq!((told.status, told.code().as_str()), (503, "SlowDown"));
    assert_eq!(told.header("retry-after"), Some("1"));
    assert!(asked.elapsed() >= WAIT, "the request waited for memory");
    assert_eq!(put(b"1").code(), "OK", "a body that fits the connection's buffer needs no share");
    assert_eq!(endpoint.send("GET", "/wire/k", "", &[], b"").body, b"1");

    let waiting = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| put(&small).code());
        std::thread::sleep(SHORT / 4);
        slow.write_all(&large[large.len() / 2..]).unwrap();
        assert_eq!(receive(&mut slow, "PUT").code(), "OK");
        waiting.join().unwrap()
    });
    assert_eq!(waiting, "OK", "the waiting request got the memory");
    assert_eq!(put(&large).code(), "OK", "all memory is free again");
}

#[test]
fn a_body_that_hardly_moves_gives_its_place_to_others() {
    let endpoint = Endpoint::start_with(|config| config.limits.body_memory_bytes = 1 << 20);
    let content = vec![7; 2 << 20];
    let mut slow = begin(&endpoint, &content, 1000);
    let asked = Instant::now();
    assert_eq!(
        endpoint.send("PUT", "/wire/k", "", &[], &content).code(),
        "OK",
        "the upload got the memory of the slow one"
    );
    assert!(asked.elapsed() > SHORT, "{:?}", asked.elapsed());
    let told = receive(&mut slow, "PUT");
    assert_eq!((told.status, told.code().as_str()), (400, "RequestTimeout"));
}

#[test]
fn a_download_that_nobody_takes_gives_its_place_to_others() {
    let endpoint = Endpoint::start_with(|config| {
        config.limits.answer_memory_bytes = 1 << 20;
        config.limits.wanted_answer_stall = SHORT;
    });
    // More than the socket buffers of both ends hold.
    let content = vec![7; 24 << 20];
    assert_eq!(endpoint.send("PUT", "/wire/k", "", &[], &content).code(), "OK");
    let signed = sign(&endpoint.root, "GET", "/wire/k", "", &[], EMPTY);
    let mut silent = endpoint.connect();
    silent.write_all(head("GET", "/wire/k", "", &signed.headers, 0).as_bytes()).unwrap();
    // The answer has begun, and holds all the memory.
    silent.read_exact(&mut [0; 12]).unwrap();
    let asked = Instant::now();
    let got = endpoint.send("GET", "/wire/k", "", &[], b"");
    assert!(got.status == 200 && got.body == content, "{}: the download got the memory of the silent one", got.status);
    assert!(asked.elapsed() > SHORT, "{:?}", asked.elapsed());
    let mut rest = Vec::new();
    let _ = silent.read_to_end(&mut rest);
    assert!(rest.len() < content.len(), "the silent download ended early");
}

#[test]
fn who_may_not_send_a_body_takes_no_memory_from_others() {
    let endpoint = narrow();
    let form = Signed::bare(&[("host", "localhost"), ("content-type", "multipart/form-data; boundary=b")]);
    let mut fields = endpoint.connect();
    fields.write_all(head("POST", "/wire", "", &form.headers, 2 << 20).as_bytes()).unwrap();
    fields.write_all(b"--b\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\nk").unwrap();
    let unsigned = Signed::bare(&[("host", "localhost")]);
    let mut nobody = endpoint.connect();
    nobody.write_all(head("PUT", "/wire/k", "", &unsigned.headers, 2 << 20).as_bytes()).unwrap();
    std::thread::sleep(SHORT);
    assert_eq!(endpoint.send("PUT", "/wire/k", "", &[], &vec![7; 2 << 20]).code(), "OK");
}

#[test]
fn a_signed_chunk_is_no_larger_than_is_held() {
    let endpoint = Endpoint::start();
    let content = vec![7; (4 << 20) + 1];
    let length = content.len().to_string();
    let headers = [("content-encoding", "aws-chunked"), ("x-amz-decoded-content-length", &*length)];
    for (size, code) in [(4 << 20, "OK"), (content.len(), "EntityTooLarge")] {
        let signed = sign(&endpoint.root, "PUT", "/wire/k", "", &headers, "STREAMING-AWS4-HMAC-SHA256-PAYLOAD");
        // The server refuses and closes before the end of the body, so only the beginning of a chunk is sent.
        let body = signed.chunks(&content, size, None);
        let sent = if code == "OK" { body.len() } else { 1000 };
        let mut stream = endpoint.connect();
        stream.write_all(head("PUT", "/wire/k", "", &signed.headers, body.len()).as_bytes()).unwrap();
        stream.write_all(&body[..sent]).unwrap();
        assert_eq!(receive(&mut stream, "PUT").code(), code, "{size}");
    }
}

#[test]
fn only_content_comes_in_chunks() {
    let endpoint = Endpoint::start();
    let payload = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD";
    for (path, query) in [("/wire", "cors="), ("/wire/k", "tagging=")] {
        let signed = sign(&endpoint.root, "PUT", path, query, &[("x-amz-decoded-content-length", "5")], payload);
        let answer = endpoint.send_signed("PUT", path, query, &signed, b"5\r\nhello\r\n0\r\n\r\n");
        assert_eq!((answer.status, answer.code().as_str()), (400, "InvalidRequest"), "{path}?{query}");
    }
}

#[test]
fn a_document_is_one_however_its_parameter_is_written() {
    let endpoint = Endpoint::start();
    assert_eq!(endpoint.send("PUT", "/wire/k", "", &[], b"1").code(), "OK");
    let xml = b"<Tagging><TagSet/></Tagging>";
    // The checksums of `xml` and of "other".
    let (right, wrong) = ("MiK6ZqQ1QvDEa+XYsdLcQg==", "eV8yArF8trw9S3cdjGyerw==");
    let put = |hash: &str, md5: &str| {
        let signed = sign(&endpoint.root, "PUT", "/wire/k", "tagging=", &[("content-md5", md5)], hash);
        let answer = endpoint.send_signed("PUT", "/wire/k", "%74agging=", &signed, xml);
        (answer.status, answer.code())
    };
    assert_eq!(put(&sha256(b"other"), right), (400, "XAmzContentSHA256Mismatch".into()));
    assert_eq!(put(&sha256(xml), wrong), (400, "BadDigest".into()));
    assert_eq!(put(&sha256(xml), right), (200, "OK".into()));
}
