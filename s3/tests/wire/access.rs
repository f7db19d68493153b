//! Authorization: which callers get access, and the responses to all others.

use objstore::store::Mode;

use crate::endpoint::Endpoint;
use crate::sign::{EMPTY, Key, Signed, sign};

#[test]
fn nobody_gets_further_than_their_grant() {
    let endpoint = Endpoint::start();
    assert_eq!(endpoint.send("PUT", "/wire/k", "", &[], b"1").code(), "OK");
    let grants = [("none", None), ("ro", Some(Mode::Read)), ("wo", Some(Mode::Write)), ("rw", Some(Mode::ReadWrite))];
    for (name, mode) in grants {
        let key = endpoint.account(name, mode);
        let (reads, writes) = (mode.is_some_and(Mode::reads), mode.is_some_and(Mode::writes));
        let told = |allowed: bool| if allowed { "OK" } else { "AccessDenied" };
        let ask = |method: &str, path: &str, query: &str, headers: &[(&str, &str)], body: &[u8]| {
            endpoint.send_as(&key, method, path, query, headers, body).code()
        };
        assert_eq!(ask("GET", "/wire/k", "", &[], b""), told(reads), "{name}");
        assert_eq!(ask("GET", "/wire", "list-type=2", &[], b""), told(reads), "{name}");
        assert_eq!(ask("PUT", "/wire/by", "", &[], b"x"), told(writes), "{name}");
        assert_eq!(ask("DELETE", "/wire/by", "", &[], b""), told(writes), "{name}");
        let copy = [("x-amz-copy-source", "/wire/k")];
        assert_eq!(ask("PUT", "/wire/copy", "", &copy, b""), told(reads && writes), "{name}");
        assert_eq!(ask("DELETE", "/wire", "", &[], b""), "AccessDenied", "{name}");
        assert_eq!(ask("PUT", "/another", "", &[], b""), "AccessDenied", "{name}");
        assert_eq!(ask("GET", "/no-such-bucket/k", "", &[], b""), "NoSuchBucket", "{name}");
        let listed = String::from_utf8(endpoint.send_as(&key, "GET", "/", "", &[], b"").body).unwrap();
        assert_eq!(listed.contains("<Name>wire</Name>"), mode.is_some(), "{name}: {listed}");
        endpoint.revoke(&key);
        assert_eq!(ask("GET", "/wire/k", "", &[], b""), "InvalidAccessKeyId", "{name}");
    }
}

#[test]
fn each_change_of_rights_counts_from_the_next_request_on() {
    let endpoint = Endpoint::start();
    let (store, bucket) = (&endpoint.store, "wire".parse().unwrap());
    assert_eq!(endpoint.send("PUT", "/wire/k", "", &[], b"1").code(), "OK");
    let key = endpoint.account("bob", None);
    let ask = |method: &str| endpoint.send_as(&key, method, "/wire/k", "", &[], b"2").code();
    for round in 0..20 {
        assert_eq!((ask("GET"), ask("GET")), ("AccessDenied".into(), "AccessDenied".into()), "{round}");
        endpoint.block_on(store.add_grant(&bucket, "bob", Mode::Read)).unwrap();
        assert_eq!((ask("GET"), ask("PUT")), ("OK".into(), "AccessDenied".into()), "{round}");
        endpoint.block_on(store.add_grant(&bucket, "bob", Mode::ReadWrite)).unwrap();
        assert_eq!((ask("GET"), ask("PUT")), ("OK".into(), "OK".into()), "{round}");
        endpoint.block_on(store.remove_grant(&bucket, "bob")).unwrap();
    }
    endpoint.block_on(store.add_grant(&bucket, "bob", Mode::Read)).unwrap();
    assert_eq!(ask("GET"), "OK");
    endpoint.forget("bob");
    assert_eq!(ask("GET"), "InvalidAccessKeyId");
}

#[test]
fn strangers_and_forgers_are_refused() {
    let endpoint = Endpoint::start();
    assert_eq!(endpoint.send("PUT", "/wire/k", "", &[], b"1").code(), "OK");
    let get = |signed: &Signed, path: &str| endpoint.send_signed("GET", path, "", signed, b"").code();
    let bare = Signed::bare(&[("host", "localhost")]);
    assert_eq!(get(&bare, "/wire/k"), "AccessDenied");
    assert_eq!(
        get(&Signed::bare(&[("host", "localhost"), ("authorization", "AWS ROOTKEY:c2ln")]), "/wire/k"),
        "InvalidRequest"
    );
    let good = || sign(&endpoint.root, "GET", "/wire/k", "", &[], EMPTY);
    assert_eq!(get(&good(), "/wire/k"), "OK");
    assert_eq!(get(&good(), "/wire/other"), "SignatureDoesNotMatch");
    assert_eq!(get(&good().with("host", "another"), "/wire/k"), "InvalidRequest");
    assert_eq!(get(&good().with("x-amz-meta-a", "1"), "/wire/k"), "AccessDenied");
    assert_eq!(get(&good().with("x-amz-security-token", "t"), "/wire/k"), "InvalidToken");
    let forger = Key { id: endpoint.root.id.clone(), secret: "guess".into() };
    assert_eq!(get(&sign(&forger, "GET", "/wire/k", "", &[], EMPTY), "/wire/k"), "SignatureDoesNotMatch");
    let unknown = Key { id: "NOBODY".into(), secret: "guess".into() };
    assert_eq!(get(&sign(&unknown, "GET", "/wire/k", "", &[], EMPTY), "/wire/k"), "InvalidAccessKeyId");
}

#[test]
fn what_is_not_offered_is_named_and_every_answer_has_its_id() {
    let endpoint = Endpoint::start();
    for (method, query, name) in [
        ("GET", "session=", "CreateSession"),
        ("PUT", "replication=", "PutBucketReplication"),
        ("PUT", "encryption=", "PutBucketEncryption"),
    ] {
        let answer = endpoint.send(method, "/wire", query, &[], b"");
        let id = answer.header("x-amz-request-id").unwrap().to_owned();
        let xml = String::from_utf8(answer.body).unwrap();
        assert_eq!(answer.status, 501);
        assert!(xml.contains(&format!("<Hint>{name} is not offered by Amphora.</Hint>")), "{xml}");
        assert!(xml.contains(&format!("<RequestId>{id}</RequestId>")), "{xml}");
    }
}

#[test]
fn bad_parameters_are_refused() {
    let endpoint = Endpoint::start();
    for (path, query, code) in [
        ("/wire", "max-keys=-1", "InvalidArgument"),
        ("/wire", "max-keys=many", "InvalidArgument"),
        ("/wire", "encoding-type=xml", "InvalidArgument"),
        ("/wire", "continuation-token=bm90IG91cnM&list-type=2", "InvalidArgument"),
        ("/wire", "uploads=&max-uploads=-1", "InvalidArgument"),
        ("/", "max-buckets=0", "InvalidArgument"),
        ("/Bad_Name", "", "InvalidBucketName"),
        ("/wire/a%00b", "", "InvalidArgument"),
        ("/wire/%ff", "", "InvalidURI"),
        ("/wire/k", "uploadId=none", "NoSuchUpload"),
    ] {
        let query: Vec<&str> = query.split('&').collect();
        let mut sorted = query.clone();
        sorted.sort_unstable();
        assert_eq!(endpoint.send("GET", path, &sorted.join("&"), &[], b"").code(), code, "{path} {query:?}");
    }
    let long = format!("/wire/{}", "k".repeat(1025));
    assert_eq!(endpoint.send("GET", &long, "", &[], b"").code(), "KeyTooLongError");
}
