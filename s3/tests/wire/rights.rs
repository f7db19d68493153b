//! Attempts to circumvent a policy or a lock.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use objstore::store::Mode;

use crate::endpoint::{Answer, Endpoint};
use crate::sign::{Key, Signed};

const TAGGED: (&str, &str) = ("x-amz-tagging", "public=yes");

fn statement(effect: &str, principal: &str, action: &str, resource: &str, more: &str) -> String {
    format!(
        r#"{{"Effect": "{effect}", "Principal": {principal}, "Action": {action},
        "Resource": "arn:aws:s3:::{resource}"{more}}}"#
    )
}

fn put_policy(endpoint: &Endpoint, bucket: &str, statements: &[String]) {
    let text = format!(r#"{{"Version": "2012-10-17", "Statement": [{}]}}"#, statements.join(", "));
    let answer = endpoint.send("PUT", &format!("/{bucket}"), "policy=", &[], text.as_bytes());
    assert_eq!(answer.code(), "OK", "{}", String::from_utf8_lossy(&answer.body));
}

fn put(endpoint: &Endpoint, path: &str, headers: &[(&str, &str)], body: &[u8]) {
    assert_eq!(endpoint.send("PUT", path, "", headers, body).code(), "OK");
}

fn unsigned(endpoint: &Endpoint, method: &str, path: &str) -> Answer {
    endpoint.send_signed(method, path, "", &Signed::bare(&[("host", "localhost")]), b"")
}

/// A policy condition: the object has the tag `public`.
fn is_public() -> &'static str {
    r#", "Condition": {"StringEquals": {"s3:ExistingObjectTag/public": "yes"}}"#
}

#[test]
fn what_a_policy_denies_is_denied_on_snapshots_too() {
    let endpoint = Endpoint::start();
    let (bob, eve) = (endpoint.account("bob", Some(Mode::Read)), endpoint.account("eve", None));
    put(&endpoint, "/wire/secret/x", &[], b"1");
    put(&endpoint, "/wire/open/x", &[], b"1");
    let bobs = r#"{"AWS": "bob"}"#;
    put_policy(
        &endpoint,
        "wire",
        &[
            statement("Deny", bobs, r#""s3:*""#, "wire/secret/*", ""),
            statement("Allow", r#"{"AWS": "eve"}"#, r#""s3:GetObject""#, "wire/*", ""),
        ],
    );
    endpoint.block_on(endpoint.store.create_snapshot(&"wire".parse().unwrap(), &"snap".parse().unwrap())).unwrap();
    let get = |key: &Key, path: &str| endpoint.send_as(key, "GET", path, "", &[], b"").code();
    for bucket in ["wire", "snap"] {
        assert_eq!(get(&bob, &format!("/{bucket}/secret/x")), "AccessDenied", "{bucket}");
        assert_eq!(get(&bob, &format!("/{bucket}/open/x")), "OK", "{bucket}");
        assert_eq!(get(&endpoint.root, &format!("/{bucket}/secret/x")), "OK", "{bucket}");
    }
    let copy = [("x-amz-copy-source", "/snap/secret/x")];
    endpoint.block_on(endpoint.store.add_grant(&"wire".parse().unwrap(), "bob", Mode::ReadWrite)).unwrap();
    assert_eq!(endpoint.send_as(&bob, "PUT", "/wire/copy", "", &copy, b"").code(), "AccessDenied");
    assert_eq!(get(&eve, "/wire/open/x"), "OK");
    assert_eq!(get(&eve, "/snap/open/x"), "AccessDenied", "the bucket's policy allows nothing on its snapshot");

    // The bucket's current policy counts, not the one at the time of the snapshot.
    assert_eq!(endpoint.send("DELETE", "/wire", "policy=", &[], b"").code(), "OK");
    assert_eq!(get(&bob, "/snap/secret/x"), "OK");
}

#[test]
fn a_copy_gives_only_the_tags_one_may_give() {
    let endpoint = Endpoint::start_with(|config| config.block_public_access = false);
    assert_eq!(endpoint.send("PUT", "/other", "", &[], b"").code(), "OK");
    let bob = endpoint.account("bob", None);
    endpoint.block_on(endpoint.store.add_grant(&"other".parse().unwrap(), "bob", Mode::ReadWrite)).unwrap();
    let bobs = r#"{"AWS": "bob"}"#;
    let public = statement("Allow", r#""*""#, r#""s3:GetObject""#, "wire/*", is_public());
    put_policy(&endpoint, "wire", &[statement("Allow", bobs, r#""s3:PutObject""#, "wire/*", ""), public.clone()]);
    let send = |path: &str, headers: &[(&str, &str)]| endpoint.send_as(&bob, "PUT", path, "", headers, b"").code();
    assert_eq!((send("/other/tagged", &[TAGGED]), send("/other/plain", &[])), ("OK".into(), "OK".into()));
    assert_eq!(send("/wire/k", &[TAGGED]), "AccessDenied");
    assert_eq!(send("/wire/k", &[("x-amz-copy-source", "/other/tagged")]), "AccessDenied");
    assert_eq!(send("/wire/k", &[("x-amz-copy-source", "/other/plain")]), "OK");
    let replaced = [("x-amz-copy-source", "/other/tagged"), ("x-amz-tagging-directive", "REPLACE")];
    assert_eq!(send("/wire/k", &replaced), "OK");
    assert_eq!(unsigned(&endpoint, "GET", "/wire/k").status, 403);

    // A condition sees the tags that are written: a copy that takes the source's tags ignores those of the header.
    let red = r#", "Condition": {"StringEquals": {"s3:RequestObjectTag/public": "yes"}}"#;
    let may_tag = r#"["s3:PutObject", "s3:PutObjectTagging"]"#;
    put_policy(&endpoint, "wire", &[statement("Allow", bobs, may_tag, "wire/*", red), public]);
    assert_eq!(send("/wire/k", &[TAGGED]), "OK");
    assert_eq!(send("/wire/k", &[TAGGED, ("x-amz-copy-source", "/other/tagged")]), "OK");
    assert_eq!(unsigned(&endpoint, "GET", "/wire/k").status, 200);
    assert_eq!(send("/wire/k", &[TAGGED, ("x-amz-copy-source", "/other/plain")]), "AccessDenied");
}

#[test]
fn what_takes_the_place_of_a_public_object_is_not_read() {
    let endpoint = Endpoint::start_with(|config| config.block_public_access = false);
    put_policy(&endpoint, "wire", &[statement("Allow", r#""*""#, r#""s3:GetObject""#, "wire/*", is_public())]);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = || {
            let mut seen = [0, 0];
            while !stop.load(Ordering::Relaxed) {
                let answer = unsigned(&endpoint, "GET", "/wire/race");
                assert_ne!(answer.body, b"SECRET");
                seen[usize::from(answer.status == 200)] += 1;
            }
            seen
        };
        let readers = [scope.spawn(reader), scope.spawn(reader), scope.spawn(reader)];
        let until = Instant::now() + Duration::from_secs(3);
        while Instant::now() < until {
            put(&endpoint, "/wire/race", &[TAGGED], b"open");
            put(&endpoint, "/wire/race", &[], b"SECRET");
        }
        stop.store(true, Ordering::Relaxed);
        for reader in readers {
            let seen = reader.join().unwrap();
            assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
        }
    });
}

#[test]
fn no_policy_takes_long_whatever_it_is_asked() {
    let endpoint = Endpoint::start();
    let (bob, carol) = (endpoint.account("bob", None), endpoint.account("carol", None));
    let keys: String = (0..500).map(|n| format!("<Object><Key>{n}</Key></Object>")).collect();
    let keys = format!("<Delete>{keys}</Delete>").into_bytes();
    let many: Vec<String> = (0..2000).map(|n| format!(r#""*?{n}""#)).collect();
    let run = format!(r#""*{}b""#, "a".repeat(1900));
    for (values, agent) in [(run, "a".repeat(2000)), (many.join(","), "a".repeat(2000))] {
        let like = format!(r#", "Condition": {{"StringLike": {{"aws:UserAgent": [{values}]}}}}"#);
        put_policy(
            &endpoint,
            "wire",
            &[
                statement("Deny", r#"{"AWS": "bob"}"#, r#""s3:*""#, "wire/*", &like),
                statement("Allow", r#"{"AWS": ["bob", "carol"]}"#, r#""s3:DeleteObject""#, "wire/*", ""),
            ],
        );
        let began = Instant::now();
        let answer = endpoint.send_as(&bob, "POST", "/wire", "delete=", &[("user-agent", &agent)], &keys);
        let deleted = String::from_utf8(answer.body).unwrap().matches("<Deleted>").count();
        assert_eq!(deleted, 500);
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());

        // A value too long to compare is refused only where a condition uses it.
        let long = "a".repeat(2049);
        let delete = |key: &Key| endpoint.send_as(key, "DELETE", "/wire/k", "", &[("user-agent", &long)], b"").code();
        assert_eq!((delete(&bob), delete(&carol)), ("AccessDenied".into(), "OK".into()));
    }
}

#[test]
fn a_writer_neither_retains_nor_holds_nor_lifts_a_hold() {
    let endpoint = Endpoint::start();
    let lock = [("x-amz-bucket-object-lock-enabled", "true")];
    assert_eq!(endpoint.send("PUT", "/locked", "", &lock, b"").code(), "OK");
    let bob = endpoint.account("bob", None);
    endpoint.block_on(endpoint.store.add_grant(&"locked".parse().unwrap(), "bob", Mode::ReadWrite)).unwrap();
    let begun = [("x-amz-object-lock-legal-hold", "ON"), ("content-md5", "xMpCOKC5I4INzFCab3WEmw==")];
    assert_eq!(endpoint.send_as(&bob, "PUT", "/locked/k", "", &begun, b"1").code(), "OK");
    let retain = |key: &Key| {
        let xml =
            b"<Retention><Mode>GOVERNANCE</Mode><RetainUntilDate>2096-01-01T00:00:00Z</RetainUntilDate></Retention>";
        endpoint.send_as(key, "PUT", "/locked/k", "retention=", &[], xml).code()
    };
    let hold = |key: &Key, status: &str| {
        let xml = format!("<LegalHold><Status>{status}</Status></LegalHold>");
        endpoint.send_as(key, "PUT", "/locked/k", "legal-hold=", &[], xml.as_bytes()).code()
    };
    let all = |key: &Key| [hold(key, "ON"), hold(key, "OFF"), retain(key)];
    assert_eq!(all(&bob), ["AccessDenied"; 3]);
    put_policy(&endpoint, "locked", &[statement("Deny", r#"{"AWS": "bob"}"#, r#""s3:DeleteObject""#, "locked/*", "")]);
    assert_eq!(all(&bob), ["AccessDenied"; 3]);
    let both = r#"["s3:PutObjectLegalHold", "s3:PutObjectRetention"]"#;
    put_policy(&endpoint, "locked", &[statement("Allow", r#"{"AWS": "bob"}"#, both, "locked/*", "")]);
    assert_eq!(all(&bob), ["OK"; 3]);
    assert_eq!(all(&endpoint.root), ["OK"; 3]);
}
