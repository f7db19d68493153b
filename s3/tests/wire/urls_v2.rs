//! Presigned URLs of Signature Version 2: they allow only the request that was signed.

use crate::endpoint::{Answer, Endpoint};
use crate::sign::{Key, Scope, Signed, presign, presign_v2, sign};

const KEY: &str = "/wire/k";
const NONE: [&str; 3] = ["", "", ""];

fn send(endpoint: &Endpoint, method: &str, path: &str, query: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    let headers = [&[("host", "localhost")], headers].concat();
    endpoint.send_signed(method, path, query, &Signed::bare(&headers), body)
}

fn code(endpoint: &Endpoint, method: &str, query: &str, body: &[u8]) -> String {
    send(endpoint, method, KEY, query, &[], body).code()
}

#[test]
fn a_url_opens_one_request() {
    let endpoint = Endpoint::start();
    let root = endpoint.root.clone();
    let put = presign_v2(&root, "PUT", NONE, KEY, 60);
    assert_eq!(code(&endpoint, "PUT", &put, b"content"), "OK");
    let get = presign_v2(&root, "GET", NONE, KEY, 60);
    assert_eq!(send(&endpoint, "GET", KEY, &get, &[], b"").body, b"content");
    assert_eq!(send(&endpoint, "GET", KEY, &get, &[("range", "bytes=0-2")], b"").body, b"con");
    let resource = format!("{KEY}?response-cache-control=no-cache&response-content-type=a/b");
    let overridden = presign_v2(&root, "GET", NONE, &resource, 60);
    let query = format!("response-content-type=a%2Fb&{overridden}&response-cache-control=no-cache");
    let answer = send(&endpoint, "GET", KEY, &query, &[], b"");
    assert_eq!([answer.header("content-type"), answer.header("cache-control")], [Some("a/b"), Some("no-cache")]);

    let mismatch = "SignatureDoesNotMatch";
    assert_eq!(code(&endpoint, "DELETE", &get, b""), mismatch);
    assert_eq!(code(&endpoint, "PUT", &get, b"other"), mismatch);
    assert_eq!(code(&endpoint, "GET", &put, b""), mismatch);
    assert_eq!(send(&endpoint, "GET", "/wire/other", &get, &[], b"").code(), mismatch);
    for more in ["versionId=null", "acl", "tagging", "retention", "legal-hold", "attributes", "response-content-type=x"]
    {
        assert_eq!(code(&endpoint, "GET", &format!("{get}&{more}"), b""), mismatch, "{more}");
        assert_eq!(code(&endpoint, "GET", &format!("{query}&{more}"), b""), mismatch, "{more}");
    }
    for more in ["versionId=null&versionId=null", "uploadId=u&partNumber=1", "x-amz-meta-a=1", "content-type=a%2Fb"] {
        assert_eq!(code(&endpoint, "PUT", &format!("{put}&{more}"), b"other"), mismatch, "{more}");
    }
    for header in [("x-amz-copy-source", "/wire/x"), ("x-amz-meta-a", "1"), ("content-type", "a/b")] {
        assert_eq!(send(&endpoint, "PUT", KEY, &put, &[header], b"other").code(), mismatch, "{header:?}");
    }
    assert_eq!(endpoint.send("GET", KEY, "", &[], b"").body, b"content");
}

/// Some subresources that change a bucket are newer than Signature Version 2, whose signatures therefore do not cover
/// them.
#[test]
fn a_url_that_makes_a_bucket_changes_no_setting() {
    let endpoint = Endpoint::start();
    let url = presign_v2(&endpoint.root, "PUT", NONE, "/made", 60);
    for setting in ["policy", "publicAccessBlock", "ownershipControls", "encryption", "object-lock"] {
        let answer = send(&endpoint, "PUT", "/made", &format!("{setting}&{url}"), &[], b"<a/>");
        assert_eq!(answer.code(), "SignatureDoesNotMatch", "{setting}");
    }
    assert_eq!(send(&endpoint, "PUT", "/made", &url, &[], b"").code(), "OK");
}

#[test]
fn what_the_query_says_is_done() {
    let endpoint = Endpoint::start();
    let lines = ["CY9rzUYh03PK3k6DJie09g==", "text/plain", "x-amz-meta-a:b c\nx-amz-tagging:t=1\n"];
    let url = presign_v2(&endpoint.root, "PUT", lines, KEY, 60);
    let more =
        "content-md5=CY9rzUYh03PK3k6DJie09g%3D%3D&content-type=text%2Fplain&x-amz-meta-a=b%20c&X-Amz-Tagging=t%3D1";
    assert_eq!(code(&endpoint, "PUT", &format!("{url}&{more}"), b"other"), "BadDigest");
    assert_eq!(code(&endpoint, "PUT", &format!("{url}&{more}"), b"test"), "OK");
    let kept = endpoint.send("GET", KEY, "", &[], b"");
    let headers = ["content-type", "x-amz-meta-a", "x-amz-tagging-count"].map(|name| kept.header(name));
    assert_eq!((kept.body.as_slice(), headers), (&b"test"[..], [Some("text/plain"), Some("b c"), Some("1")]));
    assert_eq!(
        code(&endpoint, "PUT", &format!("{url}&{}", more.replace("=b%20c", "=d")), b"x"),
        "SignatureDoesNotMatch"
    );
}

#[test]
fn a_url_ends_and_is_whole() {
    let endpoint = Endpoint::start();
    let root = endpoint.root.clone();
    assert_eq!(code(&endpoint, "PUT", &presign_v2(&root, "PUT", NONE, KEY, 60), b"content"), "OK");
    let get = |key: &Key, seconds| presign_v2(key, "GET", NONE, KEY, seconds);
    assert_eq!(code(&endpoint, "GET", &get(&root, -2), b""), "AccessDenied");
    assert_eq!(code(&endpoint, "GET", &get(&root, 8 * 24 * 3600), b""), "AccessDenied");
    let (good, forger) = (get(&root, 60), Key { id: root.id.clone(), secret: "guess".into() });
    assert_eq!(code(&endpoint, "GET", &get(&forger, 60), b""), "SignatureDoesNotMatch");
    assert_eq!(code(&endpoint, "GET", &get(&Key { id: "NOBODY".into(), ..forger }, 60), b""), "InvalidAccessKeyId");
    let later = good.replace("Expires=", "Expires=1&Expires=");
    for (query, expected) in [
        (good.replace("Expires=", "expires="), "AccessDenied"),
        (good.replace("Expires=", "Expires=0"), "SignatureDoesNotMatch"),
        (good.replace("AWSAccessKeyId=", "awsaccesskeyid="), "AccessDenied"),
        (good.replace("Signature=", "signature="), "AccessDenied"),
        (good.split("&Sig").next().unwrap().to_owned(), "AccessDenied"),
        (later, "AccessDenied"),
        (format!("{good}&Signature=x"), "AccessDenied"),
        (format!("{good}&{}", presign(Scope::HERE, &root, "GET", KEY)), "InvalidArgument"),
        (format!("{good}&X-Amz-Security-Token=t"), "InvalidToken"),
    ] {
        assert_eq!(code(&endpoint, "GET", &query, b""), expected, "{query}");
    }
    let signed = sign(&root, "GET", KEY, &good, &[], crate::sign::EMPTY);
    assert_eq!(endpoint.send_signed("GET", KEY, &good, &signed, b"").code(), "InvalidArgument");
    let header = [("authorization", "AWS ROOTKEY:c2ln"), ("date", "Tue, 27 Mar 2007 19:36:42 +0000")];
    assert_eq!(send(&endpoint, "GET", KEY, "", &header, b"").code(), "InvalidRequest");
    assert_eq!(code(&endpoint, "GET", &good, b""), "OK");
}

#[test]
fn a_url_at_the_host_of_a_bucket_is_signed_for_it() {
    let endpoint = Endpoint::start_with(|config| config.domains = ["s3.test".parse().unwrap()].into_iter().collect());
    let put = presign_v2(&endpoint.root, "PUT", NONE, KEY, 60);
    let at = |host: &str, query: &str| {
        let headers = Signed::bare(&[("host", host)]);
        endpoint.send_signed("PUT", "/k", query, &headers, b"content").code()
    };
    assert_eq!(at("wire.s3.test", &put), "OK");
    assert_eq!(at("other.s3.test", &put), "SignatureDoesNotMatch");
    assert_eq!(endpoint.send("GET", KEY, "", &[], b"").body, b"content");
}

#[test]
fn a_server_may_refuse_them_and_a_policy_knows_them() {
    let endpoint = Endpoint::start_with(|config| config.presigned_v2 = false);
    assert_eq!(endpoint.send("PUT", KEY, "", &[], b"content").code(), "OK");
    assert_eq!(code(&endpoint, "GET", &presign_v2(&endpoint.root, "GET", NONE, KEY, 60), b""), "InvalidRequest");

    let endpoint = Endpoint::start();
    assert_eq!(endpoint.send("PUT", KEY, "", &[], b"content").code(), "OK");
    for (condition, v2, v4) in [
        (r#""StringEquals": {"s3:signatureversion": "AWS"}"#, "AccessDenied", "OK"),
        (r#""StringNotEquals": {"s3:signatureversion": "AWS4-HMAC-SHA256"}"#, "AccessDenied", "OK"),
        (r#""StringEquals": {"s3:authType": "REST-QUERY-STRING"}"#, "AccessDenied", "AccessDenied"),
        (r#""NumericGreaterThan": {"s3:signatureAge": "600000"}"#, "AccessDenied", "OK"),
        (r#""StringEquals": {"s3:x-amz-content-sha256": "UNSIGNED-PAYLOAD"}"#, "AccessDenied", "AccessDenied"),
        (r#""StringEquals": {"s3:authType": "REST-HEADER"}"#, "OK", "OK"),
    ] {
        let policy = format!(
            r#"{{"Version": "2012-10-17", "Statement": {{"Effect": "Deny", "Principal": "*", "Action": "s3:GetObject",
                "Resource": "arn:aws:s3:::wire/*", "Condition": {{{condition}}}}}}}"#
        );
        assert_eq!(endpoint.send("PUT", "/wire", "policy=", &[], policy.as_bytes()).code(), "OK", "{condition}");
        let urls = [presign_v2(&endpoint.root, "GET", NONE, KEY, 60), presign(Scope::HERE, &endpoint.root, "GET", KEY)];
        let found = urls.map(|url| code(&endpoint, "GET", &url, b""));
        assert_eq!(found, [v2, v4], "{condition}");
    }
}

#[test]
fn a_url_has_the_rights_of_its_key() {
    let endpoint = Endpoint::start();
    let reader = endpoint.account("reader", Some(objstore::store::Mode::Read));
    assert_eq!(endpoint.send("PUT", KEY, "", &[], b"content").code(), "OK");
    let get = presign_v2(&reader, "GET", NONE, KEY, 60);
    assert_eq!(code(&endpoint, "GET", &get, b""), "OK");
    assert_eq!(code(&endpoint, "PUT", &presign_v2(&reader, "PUT", NONE, KEY, 60), b"other"), "AccessDenied");
    assert_eq!(code(&endpoint, "DELETE", &presign_v2(&reader, "DELETE", NONE, KEY, 60), b""), "AccessDenied");
    endpoint.revoke(&reader);
    assert_eq!(code(&endpoint, "GET", &get, b""), "InvalidAccessKeyId");
}
