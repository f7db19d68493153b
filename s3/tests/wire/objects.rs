//! Objects: acknowledged ones survive the end of the server, requests in progress complete, and all keys are listed.

use std::io::Write as _;

use crate::endpoint::{EXPECT, Endpoint, goes_on, head, receive};
use crate::sign::{sha256, sign, with};

#[test]
fn acknowledged_content_reads_back_whole_and_in_ranges() {
    let endpoint = Endpoint::start();
    let block: usize = 1 << 20;
    for len in [0, 1, 4096, 4097, 128 * 1024, 128 * 1024 + 1, block - 1, block, block + 1, 3 * block + 7] {
        let content: Vec<u8> = (0..len).map(|index| (index * 31 % 251) as u8).collect();
        assert_eq!(endpoint.send("PUT", "/wire/k", "", &[], &content).code(), "OK", "{len}");
        let whole = endpoint.send("GET", "/wire/k", "", &[], b"");
        assert!(whole.status == 200 && whole.body == content, "{len}: {}", whole.head);
        for (first, last) in [(0, 0), (block - 1, block), (block, 2 * block), (len.saturating_sub(1), len + 5)] {
            let range = format!("bytes={first}-{last}");
            let answer = endpoint.send("GET", "/wire/k", "", &[("range", &range)], b"");
            if first >= len {
                assert_eq!((answer.status, answer.code().as_str()), (416, "InvalidRange"), "{range} of {len}");
                continue;
            }
            let end = len.min(last + 1);
            let told = format!("bytes {first}-{}/{len}", end - 1);
            assert!(answer.status == 206 && answer.body == content[first..end], "{range} of {len}");
            assert_eq!(answer.header("content-range"), Some(&*told));
            assert_eq!(endpoint.send("HEAD", "/wire/k", "", &[("range", &range)], b"").status, 206);
        }
    }
}

#[test]
fn of_racing_creators_one_wins() {
    let endpoint = Endpoint::start();
    let won: usize = std::thread::scope(|scope| {
        let racers: Vec<_> = (0..8)
            .map(|racer| {
                let endpoint = &endpoint;
                let create = move || {
                    let body = format!("{racer}").repeat(2_000);
                    let answer = endpoint.send("PUT", "/wire/race", "", &[("if-none-match", "*")], body.as_bytes());
                    assert!(matches!(answer.code().as_str(), "OK" | "PreconditionFailed"), "{}", answer.code());
                    usize::from(answer.status == 200)
                };
                scope.spawn(create)
            })
            .collect();
        racers.into_iter().map(|racer| racer.join().unwrap()).sum()
    });
    assert_eq!(won, 1);
}

#[test]
fn a_request_under_way_ends_well_at_shutdown() {
    let mut endpoint = Endpoint::start();
    let content = vec![7; 300_000];
    let signed = sign(&endpoint.root, "PUT", "/wire/late", "", &[EXPECT], &sha256(&content));
    let mut stream = endpoint.connect();
    stream.write_all(head("PUT", "/wire/late", "", &signed.headers, content.len()).as_bytes()).unwrap();
    goes_on(&mut stream);
    stream.write_all(&content[..100_000]).unwrap();
    endpoint.stop();
    std::thread::sleep(std::time::Duration::from_millis(200));
    stream.write_all(&content[100_000..]).unwrap();
    assert_eq!(receive(&mut stream, "PUT").code(), "OK");
    endpoint.stopped();
    let stored = endpoint.store.head_object(&"wire".parse().unwrap(), &"late".parse().unwrap(), None).unwrap();
    assert_eq!(stored.size, 300_000);
}

/// The characters that a signature encodes: all but letters, digits and these four.
const SIGNED: &percent_encoding::AsciiSet =
    &percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The texts of all elements of a name.
fn texts(xml: &str, name: &str) -> Vec<String> {
    let (begin, end) = (format!("<{name}>"), format!("</{name}>"));
    xml.split(&begin).skip(1).map(|rest| rest.split(&end).next().unwrap().to_owned()).collect()
}

#[test]
fn every_plain_listing_shows_every_key() {
    let endpoint = Endpoint::start();
    // In the byte order of the keys, which differs from the order of the shown names.
    let keys = ["a", "a%01", "a%01b", "a%02", "a%0D", "a%20b", "ab", "b%1F/c", "b%1F/d", "z"];
    for key in keys {
        assert_eq!(endpoint.send("PUT", &format!("/wire/{key}"), "", &[], b"").code(), "OK");
    }
    let plain = |query: &str| {
        let answer = endpoint.send("GET", "/wire", query, &[], b"");
        assert_eq!(answer.code(), "OK", "{query}");
        (answer.header("x-amphora-replaced-names").map(str::to_owned), String::from_utf8(answer.body).unwrap())
    };
    let shown =
        ["a", "a\u{fffd}", "a\u{fffd}b", "a\u{fffd}", "a\u{fffd}", "a b", "ab", "b\u{fffd}/c", "b\u{fffd}/d", "z"];
    for query in ["", "list-type=2", "versions="] {
        let (replaced, xml) = plain(query);
        assert_eq!(texts(&xml, "Key"), shown, "{query}");
        assert_eq!(replaced.as_deref(), Some("6"), "{query}");
    }
    let (_, xml) = plain("delimiter=%2F");
    assert!(texts(&xml, "Prefix").contains(&"b\u{fffd}/".to_owned()), "{xml}");
    assert_eq!(plain("prefix=ab").0, None, "nothing was replaced");
    let (_, xml) = plain("encoding-type=url&list-type=2");
    assert_eq!(texts(&xml, "Key")[1..3], ["a%01", "a%01b"]);
    let (_, xml) = plain("prefix=%01&uploads=");
    assert_eq!(texts(&xml, "Prefix"), ["\u{fffd}"]);
    assert_eq!(endpoint.send("GET", "/wire/a%EF%BF%BD", "", &[], b"").code(), "NoSuchKey");
    // Page by page, with each page's own continuation.
    let pages = |query: &str, next: &str, marker: &str| {
        let (mut found, mut more) = (Vec::new(), String::new());
        while found.len() <= keys.len() {
            let (_, xml) = plain(&with(query, &more));
            let key = texts(&xml, "Key").pop().unwrap();
            if xml.contains("<IsTruncated>false<") {
                found.push(key);
                break;
            }
            let after = texts(&xml, next).pop().unwrap_or_else(|| key.clone());
            found.push(key);
            more = format!("{marker}={}", percent_encoding::utf8_percent_encode(&after, SIGNED));
        }
        found
    };
    assert_eq!(pages("max-keys=1", "NextMarker", "marker"), shown);
    assert_eq!(pages("list-type=2&max-keys=1", "NextContinuationToken", "continuation-token"), shown);
    assert_eq!(pages("max-keys=1&versions=", "NextKeyMarker", "key-marker"), shown);
}

#[test]
fn a_key_xml_cannot_carry_is_not_uploaded_in_parts() {
    let endpoint = Endpoint::start();
    assert_eq!(endpoint.send("POST", "/wire/a%01c", "uploads=", &[], b"").code(), "InvalidArgument");
    assert_eq!(endpoint.send("GET", "/wire/none%01", "", &[], b"").code(), "NoSuchKey");
}

#[test]
fn a_key_that_is_not_deleted_is_told_with_the_hint_of_a_single_deletion() {
    let endpoint = Endpoint::start();
    assert_eq!(endpoint.send("PUT", "/wire/k", "", &[], b"x").code(), "OK");
    let single = endpoint.send("DELETE", "/wire/k", "", &[("if-match", "\"other\"")], b"");
    let single = String::from_utf8(single.body).unwrap();
    let document = "<Delete><Object><Key>k</Key><ETag>\"other\"</ETag></Object></Delete>";
    let answer = endpoint.send("POST", "/wire", "delete=", &[], document.as_bytes());
    // XML may contain a quotation mark as it is or escaped.
    let many = String::from_utf8(answer.body).unwrap().replace("&quot;", "\"");
    assert_eq!((answer.status, texts(&many, "Key")), (200, vec!["k".to_owned()]), "{many}");
    for element in ["Code", "Message", "Hint"] {
        assert_eq!(texts(&many, element).len(), 1, "{many}");
        assert_eq!(texts(&many, element), texts(&single, element), "{many}");
    }
}

/// Operations for which AWS defines no conditions ignore them; a multipart upload has its condition at completion.
#[test]
fn operations_that_have_no_conditions_pass_over_them() {
    let endpoint = Endpoint::start();
    assert_eq!(endpoint.send("PUT", "/wire/k", "", &[], b"x").code(), "OK");
    let failing = [("if-match", "\"other\""), ("if-none-match", "*")];
    let begun = endpoint.send("POST", "/wire/k", "uploads=", &failing, b"");
    let upload = texts(&String::from_utf8(begun.body).unwrap(), "UploadId").remove(0);
    let query = format!("partNumber=1&uploadId={upload}");
    let part = endpoint.send("PUT", "/wire/k", &query, &failing, b"part");
    assert_eq!(part.code(), "OK");
    let copy = [failing[0], failing[1], ("x-amz-copy-source", "/wire/k")];
    let second = format!("partNumber=2&uploadId={upload}");
    assert_eq!(endpoint.send("PUT", "/wire/k", &second, &copy, b"").code(), "OK");
    let tags = b"<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>";
    assert_eq!(endpoint.send("PUT", "/wire/k", "tagging=", &failing, tags).code(), "OK");
    let etag = part.header("etag").unwrap();
    let named = format!("<Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>");
    let body = format!("<CompleteMultipartUpload>{named}</CompleteMultipartUpload>");
    for condition in failing {
        let done = endpoint.send("POST", "/wire/k", &format!("uploadId={upload}"), &[condition], body.as_bytes());
        assert_eq!(done.code(), "PreconditionFailed", "{condition:?}");
    }
}
