//! Valid signatures used for another request or scope.

use crate::endpoint::{Answer, Endpoint};
use crate::sign::{EMPTY, Scope, Signed, presign, sign, sign_for};

const KEY: &str = "/wire/k";

/// Scopes other than the endpoint's, with the error codes of a header and of a URL that use them.
fn scopes() -> [(Scope<'static>, &'static str, &'static str); 4] {
    let (header, url) = ("AuthorizationHeaderMalformed", "AuthorizationQueryParametersError");
    [
        (Scope { region: "eu-west-1", ..Scope::HERE }, header, url),
        (Scope { service: "ec2", ..Scope::HERE }, header, url),
        (Scope { day: Some("20200101"), ..Scope::HERE }, header, url),
        (Scope { host: false, ..Scope::HERE }, "AccessDenied", "AccessDenied"),
    ]
}

fn start() -> Endpoint {
    let endpoint = Endpoint::start();
    assert_eq!(endpoint.send("PUT", KEY, "", &[], b"here").code(), "OK");
    endpoint
}

/// Requests a presigned URL.
fn open(endpoint: &Endpoint, query: &str, headers: &[(&str, &str)]) -> Answer {
    let headers = [&[("host", "localhost"), ("accept", "*/*")], headers].concat();
    endpoint.send_signed("GET", KEY, query, &Signed::bare(&headers), b"")
}

#[test]
fn a_signature_opens_this_endpoint_and_no_other() {
    let endpoint = start();
    let get = |scope| {
        let signed = sign_for(scope, &endpoint.root, "GET", KEY, "", &[], EMPTY);
        endpoint.send_signed("GET", KEY, "", &signed, b"")
    };
    let url = |scope| open(&endpoint, &presign(scope, &endpoint.root, "GET", KEY), &[]);
    assert_eq!((get(Scope::HERE).body, url(Scope::HERE).body), (b"here".to_vec(), b"here".to_vec()));
    for (scope, header, query) in scopes() {
        assert_eq!((get(scope).code().as_str(), url(scope).code().as_str()), (header, query));
    }
}

#[test]
fn another_region_is_told_the_right_one() {
    let endpoint = start();
    let scope = Scope { region: "eu-west-1", ..Scope::HERE };
    let signed = sign_for(scope, &endpoint.root, "PUT", "/new", "", &[], EMPTY);
    let by_header = endpoint.send_signed("PUT", "/new", "", &signed, b"");
    let by_url = open(&endpoint, &presign(scope, &endpoint.root, "GET", KEY), &[]);
    for told in [by_header, by_url] {
        let text = String::from_utf8_lossy(&told.body);
        assert!(text.contains("<Region>us-east-1</Region>"), "{text}");
        assert_eq!((told.status, told.header("x-amz-bucket-region")), (400, Some("us-east-1")));
        assert_eq!(told.header("content-type"), Some("application/xml"));
    }
}

#[test]
fn a_request_is_signed_in_one_place() {
    let endpoint = start();
    let good = presign(Scope::HERE, &endpoint.root, "GET", KEY);
    for header in ["rubbish", "AWS4-HMAC-SHA256 Credential=a/b, SignedHeaders=host, Signature=0"] {
        let both = open(&endpoint, &good, &[("authorization", header)]);
        assert_eq!((both.status, both.code().as_str()), (400, "InvalidArgument"), "{header}");
    }
    let signed = sign(&endpoint.root, "GET", KEY, "", &[], EMPTY);
    let authorization = signed.headers.iter().find(|(name, _)| name == "authorization").unwrap().1.clone();
    let twice = endpoint.send_signed("GET", KEY, "", &signed.with("authorization", &authorization), b"");
    assert_eq!(twice.code(), "InvalidArgument");
}

#[test]
fn a_parameter_in_another_spelling_is_the_same() {
    let endpoint = start();
    let spelled = |query: String| query.replace("X-Amz-", "X%2DAmz%2D");
    let bare = spelled(presign(Scope { host: false, ..Scope::HERE }, &endpoint.root, "GET", KEY));
    assert_eq!(open(&endpoint, &bare, &[]).code(), "AccessDenied");
    let good = spelled(presign(Scope::HERE, &endpoint.root, "GET", KEY));
    assert_eq!(open(&endpoint, &good, &[]).body, b"here");
}

#[test]
fn parameters_of_one_name_are_signed_in_the_order_of_their_values() {
    let endpoint = start();
    let signed = sign(&endpoint.root, "GET", KEY, "p=V1&p=v2", &[], EMPTY);
    for query in ["p=V1&p=v2", "p=v2&p=V1"] {
        assert_eq!(endpoint.send_signed("GET", KEY, query, &signed, b"").code(), "OK", "{query}");
    }
    assert_eq!(endpoint.send_signed("GET", KEY, "p=V1&p=v3", &signed, b"").code(), "SignatureDoesNotMatch");
}
