//! Requests that wait for `100 Continue` before they send a body.

use std::io::{Read as _, Write as _};

use objstore::store::Mode;

use crate::endpoint::{EXPECT, Endpoint, closes, goes_on, head, receive};
use crate::sign::{Key, Signed, sha256, sign};

const BODY: &[u8] = b"the body";

fn put(key: &Key, path: &str) -> Signed {
    sign(key, "PUT", path, "", &[EXPECT], &sha256(BODY))
}

#[test]
fn a_request_that_may_goes_on() {
    let endpoint = Endpoint::start();
    let mut stream = endpoint.connect();
    for _ in 0..2 {
        let signed = put(&endpoint.root, "/wire/k");
        stream.write_all(head("PUT", "/wire/k", "", &signed.headers, BODY.len()).as_bytes()).unwrap();
        goes_on(&mut stream);
        stream.write_all(BODY).unwrap();
        let answer = receive(&mut stream, "PUT");
        assert_eq!((answer.code().as_str(), answer.header("connection")), ("OK", None), "the connection stays open");
    }
    assert_eq!(endpoint.send("GET", "/wire/k", "", &[], b"").body, BODY);
}

#[test]
fn an_anonymous_request_goes_on_once_the_bucket_is_open_to_it() {
    let endpoint = Endpoint::start_with(|config| config.block_public_access = false);
    let anonymous = Signed::bare(&[("host", "localhost"), EXPECT]);
    let ask = || {
        let mut stream = endpoint.connect();
        stream.write_all(head("PUT", "/wire/k", "", &anonymous.headers, BODY.len()).as_bytes()).unwrap();
        let mut told = [0; 12];
        stream.read_exact(&mut told).unwrap();
        String::from_utf8(told.to_vec()).unwrap()
    };
    assert_eq!(ask(), "HTTP/1.1 403");
    let policy = br#"{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": "*",
        "Action": "s3:PutObject", "Resource": "arn:aws:s3:::wire/*"}]}"#;
    assert_eq!(endpoint.send("PUT", "/wire", "policy=", &[], policy).code(), "OK");
    assert_eq!(ask(), "HTTP/1.1 100");
}

#[test]
fn a_request_that_is_refused_never_hears_100_and_the_connection_ends() {
    let endpoint = Endpoint::start();
    let forger = Key { id: endpoint.root.id.clone(), secret: "guess".into() };
    let stranger = endpoint.account("stranger", None);
    let reader = endpoint.account("reader", Some(Mode::Read));
    let anonymous = Signed::bare(&[("host", "localhost"), EXPECT]);
    for (signed, path, status) in [
        (put(&forger, "/wire/k"), "/wire/k", 403),
        (put(&stranger, "/wire/k"), "/wire/k", 403),
        (put(&reader, "/wire/k"), "/wire/k", 403),
        (put(&endpoint.root, "/none/k"), "/none/k", 404),
        (anonymous, "/wire/k", 403),
    ] {
        let mut stream = endpoint.connect();
        stream.write_all(head("PUT", path, "", &signed.headers, BODY.len()).as_bytes()).unwrap();
        let refused = receive(&mut stream, "PUT");
        assert_eq!((refused.status, refused.header("connection")), (status, Some("close")), "{}", refused.head);
        assert!(
            closes(&mut stream),
            "the server closes the connection: it could not distinguish a late body from the next request"
        );
    }
    assert_eq!(endpoint.send("HEAD", "/wire/k", "", &[], b"").status, 404);
}
