//! Versions, delete markers and object lock, over HTTP.

use crate::endpoint::{Answer, Endpoint};

const KEY: &str = "/wire/versioned";
const LOCKED: &str = "/locked/k";
/// Content-MD5 of `x`.
const MD5: (&str, &str) = ("content-md5", "ndTkYSaMgDT1yFZOFVxnpg==");
const LATER: (&str, &str) = ("x-amz-object-lock-retain-until-date", "2096-10-02T07:06:40Z");
const GOVERNANCE: (&str, &str) = ("x-amz-object-lock-mode", "GOVERNANCE");

/// A path, headers of a PUT, and the expected answer.
type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str);

fn versioning(endpoint: &Endpoint, bucket: &str, status: &str) -> String {
    let body = format!("<VersioningConfiguration><Status>{status}</Status></VersioningConfiguration>");
    endpoint.send("PUT", bucket, "versioning=", &[], body.as_bytes()).code()
}

fn put(endpoint: &Endpoint, path: &str) -> Option<String> {
    let answer = endpoint.send("PUT", path, "", &[], b"x");
    assert_eq!(answer.code(), "OK");
    answer.header("x-amz-version-id").map(str::to_owned)
}

fn version(answer: &Answer) -> Option<&str> {
    answer.header("x-amz-version-id")
}

#[test]
fn a_delete_marker_says_so() {
    let endpoint = Endpoint::start();
    assert_eq!(versioning(&endpoint, "/wire", "Enabled"), "OK");
    let first = put(&endpoint, KEY).unwrap();
    let deleted = endpoint.send("DELETE", KEY, "", &[], b"");
    assert_eq!((deleted.status, deleted.header("x-amz-delete-marker")), (204, Some("true")));
    let marker = version(&deleted).unwrap().to_owned();
    for method in ["GET", "HEAD"] {
        let hidden = endpoint.send(method, KEY, "", &[], b"");
        let said = (hidden.status, hidden.header("x-amz-delete-marker"), version(&hidden));
        assert_eq!(said, (404, Some("true"), Some(marker.as_str())));
        let named = endpoint.send(method, KEY, &format!("versionId={marker}"), &[], b"");
        assert_eq!((named.status, named.header("allow")), (405, Some("DELETE")), "{}", named.head);
        assert!(named.header("last-modified").is_some() && named.header("x-amz-delete-marker") == Some("true"));
        assert_eq!(endpoint.send(method, KEY, &format!("versionId={first}"), &[], b"").status, 200);
    }
    assert_eq!(endpoint.send("GET", "/wire/never", "", &[], b"").header("x-amz-delete-marker"), None);
    for bad in ["versionId=", "versionId=x", "versionId=00"] {
        for method in ["GET", "DELETE"] {
            assert_eq!(endpoint.send(method, KEY, bad, &[], b"").code(), "InvalidArgument", "{method} {bad}");
        }
    }
    assert_eq!(endpoint.send("GET", KEY, "versionId=0123456789abcdef", &[], b"").code(), "NoSuchVersion");
    let copy = |version: &str| {
        let source = format!("wire/versioned?versionId={version}");
        endpoint.send("PUT", "/wire/copy", "", &[("x-amz-copy-source", &source)], b"")
    };
    assert_eq!(copy(&marker).code(), "InvalidRequest");
    assert_eq!(copy(&first).header("x-amz-copy-source-version-id"), Some(first.as_str()));
}

#[test]
fn versions_and_delete_markers_are_listed_in_one_order() {
    let endpoint = Endpoint::start();
    assert_eq!(versioning(&endpoint, "/wire", "Enabled"), "OK");
    for path in ["/wire/a", "/wire/b"] {
        put(&endpoint, path);
        assert_eq!(endpoint.send("DELETE", path, "", &[], b"").status, 204);
        put(&endpoint, path);
    }
    let listed = endpoint.send("GET", "/wire", "versions=", &[], b"");
    let text = String::from_utf8(listed.body).unwrap();
    let kinds: Vec<&str> = text
        .match_indices(['<'])
        .filter_map(|(at, _)| ["Version>", "DeleteMarker>"].into_iter().find(|kind| text[at + 1..].starts_with(kind)))
        .collect();
    let of_one = ["Version>", "DeleteMarker>", "Version>"];
    assert_eq!(kinds, [of_one, of_one].concat(), "{text}");
    assert_eq!(text.matches("<IsLatest>true<").count(), 2);
    assert!(listed.head.to_lowercase().contains("content-type: application/xml"), "{}", listed.head);
}

#[test]
fn where_versions_are_suspended_a_write_tells_none() {
    let endpoint = Endpoint::start();
    assert_eq!(put(&endpoint, KEY), None);
    assert_eq!(endpoint.send("DELETE", KEY, "versionId=null", &[], b"").status, 204);
    assert_eq!(endpoint.send("GET", KEY, "", &[], b"").status, 404);
    assert_eq!(versioning(&endpoint, "/wire", "Suspended"), "OK");
    assert_eq!(put(&endpoint, KEY), None);
    assert_eq!(version(&endpoint.send("GET", KEY, "", &[], b"")), Some("null"));
    let deleted = endpoint.send("DELETE", KEY, "", &[], b"");
    assert_eq!((version(&deleted), deleted.header("x-amz-delete-marker")), (Some("null"), Some("true")));
}

#[test]
fn a_deletion_meets_its_condition_or_deletes_nothing() {
    let endpoint = Endpoint::start();
    let delete = |header: (&str, &str)| endpoint.send("DELETE", KEY, "", &[header], b"");
    assert_eq!(delete(("if-match", "*")).code(), "NoSuchKey");
    assert_eq!(delete(("x-amz-if-match-size", "1")).status, 204);
    put(&endpoint, KEY);
    for failing in [
        ("if-match", "\"9dd4e461268c8034f5c8564e155c67a7\""),
        ("x-amz-if-match-size", "2"),
        ("x-amz-if-match-last-modified-time", "Thu, 01 Jan 1970 00:00:00 GMT"),
    ] {
        assert_eq!(delete(failing).code(), "PreconditionFailed", "{failing:?}");
    }
    assert_eq!(delete(("x-amz-mfa", "20899872 301749")).code(), "NotImplemented");
    assert_eq!(delete(("if-match", "\"9dd4e461268c8034f5c8564e155c67a6\"")).status, 204);
    assert_eq!(endpoint.send("HEAD", KEY, "", &[], b"").status, 404);
}

#[test]
fn a_locked_version_is_kept_and_told_of() {
    let endpoint = Endpoint::start();
    let made = endpoint.send("PUT", "/locked", "", &[("x-amz-bucket-object-lock-enabled", "true")], b"");
    assert_eq!((made.status, made.header("location")), (200, Some("/locked")));
    assert_eq!(versioning(&endpoint, "/locked", "Suspended"), "InvalidBucketState");
    let hold = ("x-amz-object-lock-legal-hold", "ON");
    let stored = endpoint.send("PUT", LOCKED, "", &[MD5, GOVERNANCE, LATER, hold], b"x");
    let query = format!("versionId={}", version(&stored).unwrap());
    let head = endpoint.send("HEAD", LOCKED, "", &[], b"");
    assert_eq!(head.header("x-amz-object-lock-mode"), Some("GOVERNANCE"), "{}", head.head);
    assert_eq!(head.header("x-amz-object-lock-legal-hold"), Some("ON"));
    assert_eq!(head.header(LATER.0), Some("2096-10-02T07:06:40.000Z"));

    let bypass = ("x-amz-bypass-governance-retention", "true");
    let off = b"<LegalHold><Status>OFF</Status></LegalHold>";
    assert_eq!(endpoint.send("DELETE", LOCKED, &query, &[bypass], b"").code(), "AccessDenied");
    assert_eq!(endpoint.send("PUT", LOCKED, "legal-hold=", &[], off).code(), "OK");
    assert_eq!(endpoint.send("HEAD", LOCKED, "", &[], b"").header(hold.0), Some("OFF"));
    assert_eq!(endpoint.send("DELETE", LOCKED, &query, &[], b"").code(), "AccessDenied");
    assert_eq!(endpoint.send("PUT", LOCKED, "retention=", &[], b"<Retention></Retention>").code(), "AccessDenied");
    assert_eq!(endpoint.send("DELETE", LOCKED, &query, &[bypass], b"").status, 204);

    put(&endpoint, LOCKED);
    assert_eq!(endpoint.send("GET", LOCKED, "retention=", &[], b"").code(), "NoSuchObjectLockConfiguration");
    assert_eq!(endpoint.send("GET", LOCKED, "legal-hold=", &[], b"").code(), "NoSuchObjectLockConfiguration");
}

#[test]
fn a_lock_is_asked_for_whole_or_refused() {
    let endpoint = Endpoint::start();
    assert_eq!(endpoint.send("PUT", "/locked", "", &[("x-amz-bucket-object-lock-enabled", "true")], b"").code(), "OK");
    let past = (LATER.0, "2001-01-01T00:00:00Z");
    let table: [Case<'_>; 7] = [
        (LOCKED, &[GOVERNANCE, LATER], "InvalidRequest"),
        (LOCKED, &[MD5, GOVERNANCE], "InvalidArgument"),
        (LOCKED, &[MD5, LATER], "InvalidArgument"),
        (LOCKED, &[MD5, GOVERNANCE, past], "InvalidArgument"),
        (LOCKED, &[MD5, ("x-amz-object-lock-legal-hold", "on")], "InvalidArgument"),
        (KEY, &[MD5, GOVERNANCE, LATER], "InvalidRequest"),
        ("/locked/dir/", &[MD5, GOVERNANCE, LATER], "InvalidRequest"),
    ];
    for (path, headers, code) in table {
        assert_eq!(endpoint.send("PUT", path, "", headers, b"x").code(), code, "{path} {headers:?}");
        assert_eq!(endpoint.send("HEAD", path, "", &[], b"").status, 404);
    }
    let missing = "ObjectLockConfigurationNotFoundError";
    assert_eq!(endpoint.send("GET", "/wire", "object-lock=", &[], b"").code(), missing);
    let configuration =
        b"<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled></ObjectLockConfiguration>";
    assert_eq!(endpoint.send("PUT", "/wire", "object-lock=", &[], configuration).code(), "InvalidBucketState");
    assert_eq!(versioning(&endpoint, "/wire", "Enabled"), "OK");
    assert_eq!(endpoint.send("PUT", "/wire", "object-lock=", &[], configuration).code(), "OK");
    assert_eq!(endpoint.send("PUT", KEY, "", &[MD5, GOVERNANCE, LATER], b"x").code(), "OK");
}

#[test]
fn a_bucket_is_made_with_its_tags() {
    let endpoint = Endpoint::start();
    let body =
        "<CreateBucketConfiguration><Tags><Tag><Key>a</Key><Value>1</Value></Tag></Tags></CreateBucketConfiguration>";
    assert_eq!(endpoint.send("PUT", "/tagged", "", &[], body.as_bytes()).code(), "OK");
    let tags = endpoint.send("GET", "/tagged", "tagging=", &[], b"");
    assert!(String::from_utf8_lossy(&tags.body).contains("<Key>a</Key><Value>1</Value>"), "{tags:?}");
    let bad = body.replace("<Key>a<", "<Key>aws:a<");
    assert_eq!(endpoint.send("PUT", "/refused", "", &[], bad.as_bytes()).code(), "InvalidTag");
    assert_eq!(endpoint.send("HEAD", "/refused", "", &[], b"").status, 404);
}
