//! Tags of objects and buckets, over HTTP.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::endpoint::{Answer, Endpoint};

const KEY: &str = "/wire/tagged";

fn xml(pairs: &[(&str, &str)]) -> Vec<u8> {
    let tags: String =
        pairs.iter().map(|(key, value)| format!("<Tag><Key>{key}</Key><Value>{value}</Value></Tag>")).collect();
    format!("<Tagging><TagSet>{tags}</TagSet></Tagging>").into_bytes()
}

/// The tags in an answer's XML.
fn tags(answer: &Answer) -> String {
    assert_eq!(answer.code(), "OK");
    let text = String::from_utf8(answer.body.clone()).unwrap();
    let set = text.split_once("<TagSet>").and_then(|(_, rest)| rest.split_once("</TagSet>")).map(|(set, _)| set);
    set.unwrap_or_default().replace("<Tag><Key>", "").replace("</Key><Value>", "=").replace("</Value></Tag>", ";")
}

#[test]
fn object_tags_are_replaced_whole_and_removed() {
    let endpoint = Endpoint::start();
    let ask = |method: &str, body: &[u8]| endpoint.send(method, KEY, "tagging=", &[], body);
    assert_eq!(ask("GET", b"").code(), "NoSuchKey");
    assert_eq!(ask("PUT", &xml(&[("a", "1")])).code(), "NoSuchKey");
    assert_eq!(endpoint.send("PUT", KEY, "", &[("x-amz-tagging", "who=me&what")], b"x").code(), "OK");
    let before = endpoint.send("HEAD", KEY, "", &[], b"");
    assert_eq!(tags(&ask("GET", b"")), "what=;who=me;");
    assert_eq!(ask("PUT", &xml(&[("é ü", "a/b:c"), ("2", "")])).status, 200);
    assert_eq!(tags(&ask("GET", b"")), "2=;é ü=a/b:c;");
    let after = endpoint.send("HEAD", KEY, "", &[], b"");
    for header in ["etag", "last-modified"] {
        assert_eq!(before.header(header), after.header(header), "{header}");
    }
    assert_eq!(ask("DELETE", b"").status, 204);
    assert_eq!(tags(&ask("GET", b"")), "");
}

#[test]
fn each_version_has_its_own_tags() {
    let endpoint = Endpoint::start();
    let versioning = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
    assert_eq!(endpoint.send("PUT", "/wire", "versioning=", &[], versioning).code(), "OK");
    let put = || endpoint.send("PUT", KEY, "", &[], b"x").header("x-amz-version-id").unwrap().to_owned();
    let (first, second) = (put(), put());
    let ask = |method: &str, version: &str, body: &[u8]| {
        endpoint.send(method, KEY, &format!("tagging=&versionId={version}"), &[], body)
    };
    assert_eq!(ask("PUT", &first, &xml(&[("of", "first")])).header("x-amz-version-id"), Some(first.as_str()));
    let current = endpoint.send("PUT", KEY, "tagging=", &[], &xml(&[("of", "second")]));
    assert_eq!(current.header("x-amz-version-id"), Some(second.as_str()));
    assert_eq!(tags(&ask("GET", &first, b"")), "of=first;");
    let read = ask("GET", &second, b"");
    assert_eq!((tags(&read).as_str(), read.header("x-amz-version-id")), ("of=second;", Some(second.as_str())));
    let deleted = ask("DELETE", &first, b"");
    assert_eq!((deleted.status, deleted.header("x-amz-version-id")), (204, Some(first.as_str())));
    assert_eq!((tags(&ask("GET", &first, b"")).as_str(), tags(&ask("GET", &second, b"")).as_str()), ("", "of=second;"));
    assert_eq!(endpoint.send("DELETE", KEY, "", &[], b"").status, 204);
    assert_eq!(endpoint.send("GET", KEY, "tagging=", &[], b"").status, 404);
    assert_eq!(tags(&ask("GET", &second, b"")), "of=second;");
}

#[test]
fn bucket_tags_are_kept_beside_what_else_the_bucket_is_told() {
    let endpoint = Endpoint::start();
    let ask = |method: &str, body: &[u8]| endpoint.send(method, "/wire", "tagging=", &[], body);
    assert_eq!(ask("GET", b"").code(), "NoSuchTagSet");
    assert_eq!(ask("PUT", &xml(&[("Hello", "World")])).code(), "OK");
    assert_eq!(tags(&ask("GET", b"")), "Hello=World;");
    let many: Vec<String> = (0..51).map(|n| format!("k{n}")).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|key| (key.as_str(), "")).collect();
    assert_eq!(ask("PUT", &xml(&many)).code(), "InvalidTag");
    assert_eq!(ask("PUT", &xml(&[("AWS:mine", "")])).code(), "InvalidTag");
    assert_eq!(tags(&ask("GET", b"")), "Hello=World;");
    assert_eq!(ask("PUT", &xml(&many[..50])).code(), "OK");
    assert_eq!(ask("DELETE", b"").status, 204);
    assert_eq!(ask("GET", b"").code(), "NoSuchTagSet");
}

#[test]
fn bad_tags_are_refused_and_change_nothing() {
    let endpoint = Endpoint::start();
    assert_eq!(endpoint.send("PUT", KEY, "", &[("x-amz-tagging", "kept=1")], b"x").code(), "OK");
    let (long, longer) = ("k".repeat(129), "v".repeat(257));
    let many: Vec<String> = (0..11).map(|n| format!("k{n}")).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|key| (key.as_str(), "")).collect();
    let table = [
        (xml(&many), "InvalidTag"),
        (xml(&[("a", "1"), ("a", "2")]), "InvalidTag"),
        (xml(&[("", "1")]), "InvalidTag"),
        (xml(&[(&long, "")]), "InvalidTag"),
        (xml(&[("a", &longer)]), "InvalidTag"),
        (xml(&[("a", "line\nbreak")]), "InvalidTag"),
        (b"<Tagging></Tagging>".to_vec(), "MalformedXML"),
        (b"tags".to_vec(), "MalformedXML"),
    ];
    for (body, code) in table {
        let found = endpoint.send("PUT", KEY, "tagging=", &[], &body).code();
        assert_eq!(found, code, "{}", String::from_utf8_lossy(&body));
    }
    let digest = BASE64.encode([0; 16]);
    let lying = endpoint.send("PUT", KEY, "tagging=", &[("content-md5", &digest)], &xml(&[("a", "1")]));
    assert_eq!(lying.code(), "BadDigest");
    assert_eq!(tags(&endpoint.send("GET", KEY, "tagging=", &[], b"")), "kept=1;");
}
