//! Every checksum of S3: computed, verified, stored and returned, for objects in one piece, in parts and copied.

use super::*;

/// The algorithms without full-object checksums of multipart uploads: name, length in bytes, and the published checksum
/// of empty content.
const HASHES: [(&str, usize, &str); 5] = [
    ("SHA512", 64, "z4PhNX7vuL3xVChQ1m2AB9Yg5AULVxXcg/SpIdNs6c5H0NE8XYXysP+DGNKHfuwvY7kxvUdBeoGlODJ6+SfaPg=="),
    ("MD5", 16, "1B2M2Y8AsgTpgAmY7PhCfg=="),
    ("XXHASH64", 8, "70bbN1HY6Zk="),
    ("XXHASH3", 8, "LQaABTjTlMI="),
    ("XXHASH128", 16, "maoG0wFHmNhgAcMkRo1Jfw=="),
];

/// The header of an algorithm. The few names are leaked.
fn name_of(algorithm: &str) -> &'static str {
    format!("x-amz-checksum-{}", algorithm.to_ascii_lowercase()).leak()
}

#[tokio::test]
async fn each_checksum_is_compared_stored_and_returned() {
    let world = World::new().await;
    for (algorithm, len, of_nothing) in HASHES {
        let name = name_of(algorithm);
        let empty = world.send(&request("PUT", "empty", &[(name, of_nothing)]));
        assert_eq!((empty.status, header(&empty, name).as_str()), (200, of_nothing), "{algorithm}: {empty}");
        let other = world.send(&request("PUT", "empty", &[(name, of_nothing)]).body("x"));
        assert_eq!((other.status, other.code.as_str()), (400, "BadDigest"), "{algorithm}");
        let short = world.send(&request("PUT", "empty", &[(name, "AAAA")]));
        assert_eq!((short.status, short.code.as_str()), (400, "InvalidRequest"), "{algorithm}");

        let large = "0123456789".repeat(30_000);
        let asked = world.send(&request("PUT", "k", &[("x-amz-checksum-algorithm", algorithm)]).body(large.clone()));
        let value = header(&asked, name);
        assert_eq!(header(&asked, "x-amz-checksum-type"), "FULL_OBJECT", "{algorithm}: {asked}");
        assert_eq!(decoded(&value), len, "{algorithm}");
        let again = world.send(&request("PUT", "k", &[(name, &value)]).body(large));
        assert_eq!(again.status, 200, "{algorithm}: {again}");

        let asking = [("x-amz-checksum-mode", "ENABLED")];
        for method in ["GET", "HEAD"] {
            assert_eq!(header(&world.send(&request(method, "k", &asking)), name), value, "{algorithm} {method}");
        }
        let attributes = [("x-amz-object-attributes", "Checksum")];
        let shown = world.send(&request("GET", "k", &attributes).query("attributes="));
        let element = format!("<Checksum{algorithm}>{value}</Checksum{algorithm}>");
        assert!(shown.text.contains(&element), "{algorithm}: {}", shown.text);
        let listed = world.send(&Request::new("GET", "/requests").query("list-type=2&prefix=k"));
        let element = format!("<ChecksumAlgorithm>{algorithm}</ChecksumAlgorithm>");
        assert!(listed.text.contains(&element), "{algorithm}: {}", listed.text);
        let copy = [("x-amz-copy-source", "/requests/k")];
        let copied = world.send(&request("PUT", "copy", &copy));
        assert!(copied.text.contains(&value), "{algorithm}: {}", copied.text);
        assert_eq!(header(&world.send(&request("HEAD", "copy", &asking)), name), value, "{algorithm}");
    }
    let unknown = world.send(&request("PUT", "k", &[("x-amz-checksum-rot13", "AAAA")]));
    assert_eq!((unknown.status, unknown.code.as_str()), (400, "InvalidRequest"));
}

#[tokio::test]
async fn a_trailing_checksum_is_compared_too() {
    let world = World::new().await;
    for (algorithm, _, of_nothing) in HASHES {
        let name = name_of(algorithm);
        for (content, status, code) in [("", 200, ""), ("x", 400, "BadDigest")] {
            let chunk =
                if content.is_empty() { String::new() } else { format!("{:x}\r\n{content}\r\n", content.len()) };
            let framed = format!("{chunk}0\r\n{name}:{of_nothing}\r\n\r\n");
            let length = content.len().to_string();
            let headers = [
                ("content-encoding", "aws-chunked"),
                ("x-amz-decoded-content-length", &*length),
                ("x-amz-trailer", name),
            ];
            let request = request("PUT", "trailed", &headers).payload(Payload::UnsignedTrailer).body(framed);
            let answer = world.send(&request);
            assert_eq!((answer.status, answer.code.as_str()), (status, code), "{algorithm}: {answer}");
        }
    }
}

#[tokio::test]
async fn an_upload_in_parts_has_the_checksum_of_its_parts_checksums() {
    let world = World::new().await;
    for (algorithm, _, _) in HASHES {
        let name = name_of(algorithm);
        let begin = |kind: &str| {
            let headers = [("x-amz-checksum-algorithm", algorithm), ("x-amz-checksum-type", kind)];
            world.send(&request("POST", "u", &headers).query("uploads="))
        };
        let refused = begin("FULL_OBJECT");
        assert_eq!((refused.status, refused.code.as_str()), (400, "InvalidRequest"), "{algorithm}: {refused}");
        let begun = begin("COMPOSITE");
        assert_eq!(header(&begun, "x-amz-checksum-algorithm"), algorithm, "{begun}");
        let id = element(&begun.text, "UploadId");
        let part = request("PUT", "u", &[]).query(&format!("partNumber=1&uploadId={id}")).body("a part");
        let sent = world.send(&part);
        let (etag, value) = (header(&sent, "etag"), header(&sent, name));
        assert!(!value.is_empty(), "{algorithm}: {sent}");
        let listed = world.send(&request("GET", "u", &[]).query(&format!("uploadId={id}")));
        assert!(listed.text.contains(&format!("<Checksum{algorithm}>{value}<")), "{algorithm}: {}", listed.text);
        let complete = |value: &str| {
            let document = format!(
                "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag>\
                 <Checksum{algorithm}>{value}</Checksum{algorithm}></Part></CompleteMultipartUpload>"
            );
            world.send(&request("POST", "u", &[]).query(&format!("uploadId={id}")).body(document))
        };
        let wrong = complete("AAAA");
        assert_eq!((wrong.status, wrong.code.as_str()), (400, "InvalidPart"), "{algorithm}: {wrong}");
        let done = complete(&value);
        let composite = element(&done.text, &format!("Checksum{algorithm}"));
        assert!(done.status == 200 && composite.ends_with("-1"), "{algorithm}: {}", done.text);
        let head = world.send(&request("HEAD", "u", &[("x-amz-checksum-mode", "ENABLED")]));
        assert_eq!(header(&head, name), composite, "{algorithm}");
        assert_eq!(header(&head, "x-amz-checksum-type"), "COMPOSITE", "{algorithm}");
    }
}

/// The number of bytes that this base64 encodes.
fn decoded(value: &str) -> usize {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(value).expect("base64").len()
}
