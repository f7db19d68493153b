//! Sessions of roles: their token in headers, URLs and chunks, their end, and what their policy leaves.

use std::time::Duration;

use objstore::store::{Creator, Mode, NewRole, NewRoleSession, TrustedIdentity};

use crate::endpoint::Endpoint;
use crate::sign::{Key, Scope, presign_with, sign};

const TOKEN: &str = "x-amz-security-token";

/// The key of a session, with its token.
struct Session {
    key: Key,
    token: String,
}

/// A session of a role of `bob`, who may read and write the bucket.
fn session(endpoint: &Endpoint, role: &str, seconds: u32, policy: Option<&str>) -> Session {
    let identity = TrustedIdentity { issuer: "https://i".into(), subject: "s".into(), audience: None };
    let asked = NewRole {
        account: "bob".into(),
        name: role.into(),
        creator: Creator::Administrator,
        identities: vec![identity],
        accounts: Vec::new(),
    };
    let (role, _) = endpoint.block_on(endpoint.store.create_role(asked)).unwrap();
    let asked = NewRoleSession { name: "session-1".into(), seconds, policy: policy.map(str::to_owned) };
    let made = endpoint.store.begin_role_session(&role, asked).unwrap();
    let key = Key { id: made.access_key_id, secret: made.secret.reveal().to_owned() };
    Session { key, token: made.token.reveal().to_owned() }
}

fn get(endpoint: &Endpoint, session: &Session, path: &str) -> String {
    endpoint.send_as(&session.key, "GET", path, "", &[(TOKEN, &session.token)], b"").code()
}

#[test]
fn a_session_ends_in_time_also_where_it_is_cached() {
    let endpoint = Endpoint::start();
    endpoint.account("bob", Some(Mode::ReadWrite));
    endpoint.send("PUT", "/wire/k", "", &[], b"1");
    let brief = session(&endpoint, "web", 3, None);
    assert_eq!(get(&endpoint, &brief, "/wire/k"), "OK");
    assert_eq!(get(&endpoint, &brief, "/wire/k"), "OK");
    std::thread::sleep(Duration::from_millis(3100));
    assert_eq!(get(&endpoint, &brief, "/wire/k"), "ExpiredToken");
    assert_eq!(get(&endpoint, &brief, "/wire/k"), "ExpiredToken");
}

#[test]
fn a_cached_session_still_needs_its_token() {
    let endpoint = Endpoint::start();
    endpoint.account("bob", Some(Mode::ReadWrite));
    endpoint.send("PUT", "/wire/k", "", &[], b"1");
    let [mine, other] = [(); 2].map(|()| session(&endpoint, "web", 900, None));
    for _ in 0..2 {
        assert_eq!(get(&endpoint, &mine, "/wire/k"), "OK");
        let swapped = Session { key: mine.key.clone(), token: other.token.clone() };
        assert_eq!(get(&endpoint, &swapped, "/wire/k"), "InvalidToken");
        assert_eq!(endpoint.send_as(&mine.key, "GET", "/wire/k", "", &[], b"").code(), "InvalidAccessKeyId");
        let root = Session { key: endpoint.root.clone(), token: mine.token.clone() };
        assert_eq!(get(&endpoint, &root, "/wire/k"), "InvalidToken");
    }
    endpoint.block_on(endpoint.store.delete_role("bob", "web")).unwrap();
    assert_eq!(get(&endpoint, &mine, "/wire/k"), "InvalidToken");
}

#[test]
fn a_token_is_covered_by_the_signature() {
    let endpoint = Endpoint::start();
    endpoint.account("bob", Some(Mode::ReadWrite));
    endpoint.send("PUT", "/wire/k", "", &[], b"1");
    let mine = session(&endpoint, "web", 900, None);
    let unsigned = sign(&mine.key, "GET", "/wire/k", "", &[], "UNSIGNED-PAYLOAD").with(TOKEN, &mine.token);
    assert_eq!(endpoint.send_signed("GET", "/wire/k", "", &unsigned, b"").code(), "AccessDenied");
    let more = format!("X-Amz-Security-Token={}", mine.token);
    let before = presign_with(Scope::HERE, &mine.key, "GET", "/wire/k", "");
    let bare = crate::sign::Signed::bare(&[("host", "localhost")]);
    let ask = |query: &str| endpoint.send_signed("GET", "/wire/k", query, &bare, b"").code();
    assert_eq!(ask(&before), "InvalidAccessKeyId");
    assert_eq!(ask(&format!("{before}&{more}")), "SignatureDoesNotMatch", "it was added behind the signature");
    assert_eq!(ask(&format!("{before}&{more}&{more}")), "InvalidToken");
}

#[test]
fn signed_chunks_and_documents_of_a_session_are_taken() {
    let endpoint = Endpoint::start();
    endpoint.account("bob", Some(Mode::ReadWrite));
    let mine = session(&endpoint, "web", 900, None);
    let headers = [(TOKEN, mine.token.as_str()), ("x-amz-decoded-content-length", "100000")];
    let signed = sign(&mine.key, "PUT", "/wire/k", "", &headers, "STREAMING-AWS4-HMAC-SHA256-PAYLOAD");
    let body = signed.chunks(&[7; 100_000], 64 * 1024, None);
    assert_eq!(endpoint.send_signed("PUT", "/wire/k", "", &signed, &body).code(), "OK");
    let delete = b"<Delete><Object><Key>k</Key></Object></Delete>";
    let headers = [(TOKEN, mine.token.as_str())];
    let answer = endpoint.send_as(&mine.key, "POST", "/wire", "delete=", &headers, delete);
    assert_eq!(answer.code(), "OK", "{}", String::from_utf8_lossy(&answer.body));
}

#[test]
fn a_session_policy_leaves_what_it_allows() {
    let endpoint = Endpoint::start();
    endpoint.account("bob", Some(Mode::Owner));
    endpoint.send("PUT", "/wire/in/k", "", &[], b"1");
    endpoint.send("PUT", "/wire/out/k", "", &[], b"1");
    let policy = r#"{"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Action": ["s3:GetObject", "s3:PutObject"], "Resource": "arn:aws:s3:::wire/in/*"},
        {"Effect": "Allow", "Action": "s3:GetBucketPolicy", "Resource": "arn:aws:s3:::wire"}]}"#;
    let mine = session(&endpoint, "web", 900, Some(policy));
    let token = (TOKEN, mine.token.as_str());
    let ask = |method: &str, path: &str, query: &str, more: &[(&str, &str)], body: &[u8]| {
        let headers: Vec<_> = std::iter::once(token).chain(more.iter().copied()).collect();
        endpoint.send_as(&mine.key, method, path, query, &headers, body).code()
    };
    assert_eq!(ask("GET", "/wire/in/k", "", &[], b""), "OK");
    assert_eq!(ask("PUT", "/wire/in/new", "", &[], b"1"), "OK");
    assert_eq!(ask("GET", "/wire", "policy=", &[], b""), "NoSuchBucketPolicy");
    for (method, path, query) in [
        ("GET", "/wire/out/k", ""),
        ("HEAD", "/wire/out/k", ""),
        ("GET", "/wire/in/k", "tagging="),
        ("GET", "/wire/in/k", "versionId=null"),
        ("DELETE", "/wire/in/k", ""),
        ("GET", "/wire", ""),
        ("GET", "/wire", "versions="),
        ("GET", "/wire", "acl="),
        ("GET", "/wire", "location="),
        ("HEAD", "/wire", ""),
        ("DELETE", "/wire", "policy="),
        ("DELETE", "/wire", ""),
        ("GET", "/", ""),
        ("POST", "/wire/out/k", "uploads="),
    ] {
        let code = ask(method, path, query, &[], b"");
        assert!(code == "AccessDenied" || method == "HEAD" && code.is_empty(), "{method} {path} {query}: {code}");
    }
    let tagged = [("x-amz-tagging", "a=b")];
    assert_eq!(ask("PUT", "/wire/in/new", "", &tagged, b"1"), "AccessDenied", "tags are an action of their own");
    let copy = [("x-amz-copy-source", "/wire/out/k")];
    assert_eq!(ask("PUT", "/wire/in/new", "", &copy, b""), "AccessDenied", "the source of a copy");
    assert_eq!(ask("PUT", "/wire", "policy=", &[], b"{}"), "AccessDenied");
}
