//! Multipart uploads, from the first request to the attributes of the object.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha2::Digest as _;

use crate::endpoint::{Answer, Endpoint};
use crate::sign::{EMPTY, sign};

const KEY: &str = "/wire/parts";
const LARGE: usize = 5 << 20;

/// The text of the first element called `name`.
fn element(answer: &Answer, name: &str) -> String {
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let found = text.split_once(&format!("<{name}>")).and_then(|(_, rest)| rest.split_once(&format!("</{name}>")));
    found.map(|(value, _)| value.to_owned()).unwrap_or_else(|| panic!("no {name} in {text}"))
}

/// The texts of all elements called `name`.
fn elements(answer: &Answer, name: &str) -> Vec<String> {
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let (begin, end) = (format!("<{name}>"), format!("</{name}>"));
    let values = text.split(&begin).skip(1);
    values.filter_map(|rest| rest.split_once(&end).map(|(value, _)| value.to_owned())).collect()
}

fn crc64(content: &[u8]) -> String {
    BASE64.encode(crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, content).to_be_bytes())
}

/// An unfinished upload.
struct Upload<'a> {
    endpoint: &'a Endpoint,
    id: String,
}

impl<'a> Upload<'a> {
    fn begin(endpoint: &'a Endpoint, headers: &[(&str, &str)]) -> Self {
        let begun = endpoint.send("POST", KEY, "uploads=", headers, b"");
        assert_eq!(begun.code(), "OK");
        Self { endpoint, id: element(&begun, "UploadId") }
    }

    fn query(&self) -> String {
        format!("uploadId={}", self.id)
    }

    fn part(&self, number: u32, headers: &[(&str, &str)], content: &[u8]) -> Answer {
        self.endpoint.send("PUT", KEY, &format!("partNumber={number}&{}", self.query()), headers, content)
    }

    fn stored(&self, number: u32, content: &[u8]) -> (u32, String) {
        let answer = self.part(number, &[], content);
        assert_eq!(answer.header("x-amz-checksum-crc64nvme"), Some(&*crc64(content)), "{}", answer.head);
        (number, answer.header("etag").unwrap().to_owned())
    }

    fn complete(&self, headers: &[(&str, &str)], parts: &[(u32, String)]) -> Answer {
        let named: String = parts
            .iter()
            .map(|(number, etag)| format!("<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>"))
            .collect();
        let xml = format!("<CompleteMultipartUpload>{named}</CompleteMultipartUpload>");
        self.endpoint.send("POST", KEY, &self.query(), headers, xml.as_bytes())
    }
}

/// Headers and parts of a completion, and the expected answer.
type Case<'a> = (&'a [(&'a str, &'a str)], Vec<(u32, String)>, &'a str);

/// The content of parts 2 and 7.
fn contents() -> [Vec<u8>; 2] {
    [LARGE, 70_000].map(|len| (0..len).map(|index| (index * 31 % 251) as u8).collect())
}

#[test]
fn an_object_keeps_the_parts_it_was_uploaded_in() {
    let endpoint = Endpoint::start();
    let [first, last] = contents();
    let upload = Upload::begin(&endpoint, &[("content-type", "text/plain"), ("x-amz-tagging", "a=1")]);
    let parts = [upload.stored(2, &first), upload.stored(7, &last)];
    let done = upload.complete(&[], &parts);
    assert_eq!(done.code(), "OK");
    let whole = [first.clone(), last.clone()].concat();
    assert_eq!(element(&done, "ChecksumCRC64NVME"), crc64(&whole));
    assert_eq!(element(&done, "ChecksumType"), "FULL_OBJECT");

    let get = |query: &str, headers: &[(&str, &str)]| endpoint.send("GET", KEY, query, headers, b"");
    let read = get("", &[("x-amz-checksum-mode", "ENABLED")]);
    assert!(read.status == 200 && read.body == whole, "{}", read.head);
    assert_eq!(read.header("x-amz-checksum-crc64nvme"), Some(&*crc64(&whole)));
    assert_eq!((read.header("content-type"), read.header("x-amz-tagging-count")), (Some("text/plain"), Some("1")));
    assert_eq!(read.header("x-amz-mp-parts-count"), None);

    let span = format!("bytes {LARGE}-{}/{}", whole.len() - 1, whole.len());
    let part = get("partNumber=7", &[("x-amz-checksum-mode", "ENABLED")]);
    assert!(part.status == 206 && part.body == last, "{}", part.head);
    assert_eq!((part.header("content-range"), part.header("x-amz-mp-parts-count")), (Some(&*span), Some("2")));
    assert_eq!(part.header("x-amz-checksum-crc64nvme"), Some(&*crc64(&last)));
    let head = endpoint.send("HEAD", KEY, "partNumber=2", &[], b"");
    assert_eq!((head.status, head.header("content-length")), (206, Some(&*LARGE.to_string())));
    // A range that equals a part has the part's checksum; any other range has none.
    let range = format!("bytes={LARGE}-");
    let same = get("", &[("range", &range), ("x-amz-checksum-mode", "ENABLED")]);
    assert_eq!(same.header("x-amz-checksum-crc64nvme"), Some(&*crc64(&last)));
    let other = get("", &[("range", "bytes=1-"), ("x-amz-checksum-mode", "ENABLED")]);
    assert_eq!((other.status, other.header("x-amz-checksum-crc64nvme")), (206, None));

    for number in [1, 3, 8] {
        let none = get(&format!("partNumber={number}"), &[]);
        assert_eq!((none.status, none.code().as_str()), (416, "InvalidPartNumber"), "{number}");
    }
    assert_eq!(get("partNumber=2", &[("range", "bytes=0-1")]).code(), "InvalidRequest");
    assert_eq!(get("partNumber=10001", &[]).code(), "InvalidArgument");
}

#[test]
fn an_object_put_whole_is_its_own_part_1() {
    let endpoint = Endpoint::start();
    for content in [&b""[..], b"whole"] {
        assert_eq!(endpoint.send("PUT", KEY, "", &[], content).code(), "OK");
        let part = endpoint.send("GET", KEY, "partNumber=1", &[], b"");
        assert_eq!((part.status, part.body.as_slice()), (if content.is_empty() { 200 } else { 206 }, content));
        assert_eq!(part.header("x-amz-mp-parts-count"), None);
        assert_eq!(endpoint.send("GET", KEY, "partNumber=2", &[], b"").code(), "InvalidPartNumber");
    }
}

#[test]
fn attributes_are_told_in_pages_of_parts() {
    let endpoint = Endpoint::start();
    let [first, last] = contents();
    let headers = [("x-amz-checksum-algorithm", "SHA256")];
    let upload = Upload::begin(&endpoint, &headers);
    let sums: Vec<String> = [&first, &last].map(|content| BASE64.encode(sha2::Sha256::digest(content))).into();
    let mut parts = Vec::new();
    for (number, content, sum) in [(2, &first, &sums[0]), (7, &last, &sums[1])] {
        let answer = upload.part(number, &[("x-amz-checksum-sha256", sum)], content);
        parts.push((number, answer.header("etag").unwrap().to_owned()));
    }
    assert_eq!(upload.part(9, &[("x-amz-checksum-crc32", "AAAAAA==")], b"x").code(), "InvalidRequest");
    let done = upload.complete(&[("x-amz-checksum-type", "COMPOSITE")], &parts);
    let composite = element(&done, "ChecksumSHA256");
    assert!(composite.ends_with("-2"), "{composite}");

    let asked = ("x-amz-object-attributes", "ETag,Checksum,ObjectParts,StorageClass,ObjectSize");
    let told = endpoint.send("GET", KEY, "attributes=", &[asked, ("x-amz-max-parts", "1")], b"");
    assert_eq!(told.code(), "OK");
    assert_eq!(element(&told, "ETag"), element(&done, "ETag").replace("&quot;", "").replace('"', ""));
    assert_eq!(
        (element(&told, "ObjectSize"), element(&told, "PartsCount")),
        ((LARGE + 70_000).to_string(), "2".into())
    );
    assert_eq!((element(&told, "IsTruncated"), element(&told, "NextPartNumberMarker")), ("true".into(), "2".into()));
    assert_eq!(elements(&told, "ChecksumSHA256"), [composite.clone(), sums[0].clone()]);
    let next = endpoint.send("GET", KEY, "attributes=", &[asked, ("x-amz-part-number-marker", "2")], b"");
    assert_eq!((elements(&next, "PartNumber"), elements(&next, "Size")), (vec!["7".into()], vec!["70000".into()]));
    let bad = endpoint.send("GET", KEY, "attributes=", &[("x-amz-object-attributes", "Owner")], b"");
    assert_eq!(bad.code(), "InvalidArgument");

    // A copy has one part: a composite checksum is not valid for it, and a checksum of its bytes can be requested.
    let copy = |headers: &[(&str, &str)]| {
        let headers = [headers, &[("x-amz-copy-source", KEY)]].concat();
        assert_eq!(endpoint.send("PUT", "/wire/copy", "", &headers, b"").code(), "OK");
        endpoint.send("HEAD", "/wire/copy", "", &[("x-amz-checksum-mode", "ENABLED")], b"")
    };
    assert_eq!(copy(&[]).header("x-amz-checksum-sha256"), None);
    let whole = BASE64.encode(sha2::Sha256::digest([first, last].concat()));
    let copied = copy(&headers);
    assert_eq!(copied.header("x-amz-checksum-sha256"), Some(&*whole));
    assert_eq!(copied.header("x-amz-checksum-type"), Some("FULL_OBJECT"));
    assert_eq!(endpoint.send("GET", "/wire/copy", "partNumber=2", &[], b"").code(), "InvalidPartNumber");
}

#[test]
fn a_completion_is_refused_for_its_reason_and_answered_again() {
    let endpoint = Endpoint::start();
    let [first, last] = contents();
    let upload = Upload::begin(&endpoint, &[]);
    let parts = [upload.stored(1, &first), upload.stored(2, &last), upload.stored(3, b"end")];
    let named = |chosen: &[usize]| chosen.iter().map(|at| parts[*at].clone()).collect::<Vec<_>>();
    let good = named(&[0, 1]);
    let size = (LARGE + 70_000).to_string();
    let other = vec![(1, parts[1].1.clone())];
    let table: [Case; 10] = [
        (&[], vec![], "MalformedXML"),
        (&[], named(&[1, 0]), "InvalidPartOrder"),
        (&[], named(&[0, 1, 2]), "EntityTooSmall"),
        (&[], other, "InvalidPart"),
        (&[], vec![(4, parts[0].1.clone())], "InvalidPart"),
        (&[("x-amz-mp-object-size", "1")], good.clone(), "InvalidRequest"),
        (&[("x-amz-checksum-crc64nvme", "AAAAAAAAAAA=")], good.clone(), "BadDigest"),
        (&[("x-amz-checksum-type", "COMPOSITE")], good.clone(), "InvalidRequest"),
        (&[("if-match", "*")], good.clone(), "NoSuchKey"),
        (&[("content-md5", "1B2M2Y8AsgTpgAmY7PhCfg==")], good.clone(), "BadDigest"),
    ];
    for (headers, parts, code) in table {
        assert_eq!(upload.complete(headers, &parts).code(), code, "{headers:?}");
    }
    let done = upload.complete(&[("x-amz-mp-object-size", &size), ("if-none-match", "*")], &good);
    assert_eq!(done.code(), "OK");
    let again = upload.complete(&[("if-none-match", "*")], &good);
    assert_eq!((again.code().as_str(), again.body), ("OK", done.body));
    assert_eq!(upload.complete(&[], &named(&[0])).code(), "NoSuchUpload");
    assert_eq!(upload.part(1, &[], b"late").code(), "NoSuchUpload");
    assert_eq!(endpoint.send("DELETE", KEY, &upload.query(), &[], b"").code(), "NoSuchUpload");
}

#[test]
fn a_copied_part_has_its_checksum_and_its_range_is_checked() {
    let endpoint = Endpoint::start();
    let [first, _] = contents();
    assert_eq!(endpoint.send("PUT", "/wire/from", "", &[], &first).code(), "OK");
    let upload = Upload::begin(&endpoint, &[("x-amz-checksum-algorithm", "CRC64NVME")]);
    let copy = |range: &str| {
        let headers = [("x-amz-copy-source", "/wire/from"), ("x-amz-copy-source-range", range)];
        upload.part(1, &headers, b"")
    };
    for (range, code) in [
        ("bytes=0-5242880", "InvalidRange"),
        ("bytes=5242880-5242881", "InvalidRange"),
        ("0-2", "InvalidArgument"),
        ("bytes=0", "InvalidArgument"),
        ("bytes=0-2,3-5", "InvalidArgument"),
    ] {
        assert_eq!(copy(range).code(), code, "{range}");
    }
    let copied = copy("bytes=100-200099");
    let part = &first[100..200_100];
    assert_eq!(element(&copied, "ChecksumCRC64NVME"), crc64(part));
    let listed = endpoint.send("GET", KEY, &upload.query(), &[], b"");
    assert_eq!((element(&listed, "ChecksumCRC64NVME"), element(&listed, "Size")), (crc64(part), "200000".into()));
    let etag = element(&copied, "ETag").replace("&quot;", "\"");
    assert_eq!(element(&upload.complete(&[], &[(1, etag)]), "ChecksumCRC64NVME"), crc64(part));
    assert_eq!(endpoint.send("GET", KEY, "", &[], b"").body, part);
}

#[test]
fn a_range_that_is_none_is_ignored() {
    let endpoint = Endpoint::start();
    assert_eq!(endpoint.send("PUT", KEY, "", &[], b"0123456789").code(), "OK");
    for odd in ["bytes=0-1,4-5", "lines=0-1", "bytes=x-", "bytes=5-1", ""] {
        let signed = sign(&endpoint.root, "GET", KEY, "", &[], EMPTY).with("range", odd);
        let answer = endpoint.send_signed("GET", KEY, "", &signed, b"");
        assert_eq!((answer.status, answer.body.as_slice()), (200, &b"0123456789"[..]), "{odd}");
    }
}
