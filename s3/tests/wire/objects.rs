//! What is acknowledged is there, and requests under way end well.

use std::io::Write as _;

use crate::endpoint::{EXPECT, Endpoint, goes_on, head, receive};
use crate::sign::{sha256, sign};

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

#[test]
fn keys_xml_cannot_carry_are_listed_encoded_or_not_at_all() {
    let endpoint = Endpoint::start();
    assert_eq!(endpoint.send("PUT", "/wire/a%01b", "", &[], b"").code(), "OK");
    let listing = endpoint.send("GET", "/wire", "encoding-type=url&list-type=2", &[], b"");
    let xml = String::from_utf8(listing.body).unwrap();
    assert!(xml.contains("<Key>a%01b</Key>"), "{xml}");
    let plain = endpoint.send("GET", "/wire", "list-type=2", &[], b"");
    assert_eq!(plain.code(), "InvalidRequest");
    assert_eq!(endpoint.send("POST", "/wire/a%01c", "uploads=", &[], b"").code(), "InvalidArgument");
    assert_eq!(endpoint.send("GET", "/wire/none%01", "", &[], b"").code(), "NoSuchKey");
}
