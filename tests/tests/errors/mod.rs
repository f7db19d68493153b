//! Errors as clients of AWS know them: code, status, sentence and elements, compared letter by letter over the wire.
//!
//! - Each case is one raw request; its response is compared with AWS's.
//! - Every error response names the resource and the request.

mod answer;
mod cases;
mod signature;

use answer::ErrorElements;

use crate::signatures::{Request, Signer};
use crate::support::*;

/// A server with a bucket `shelf`, which has the object `k` of ten bytes.
struct Shelf {
    _server: Server,
    signer: Signer,
}

impl Shelf {
    fn start() -> Self {
        let server = Server::start();
        let shelf = Self { signer: Signer::new(&server), _server: server };
        for request in [
            Request::new("PUT", "/shelf"),
            Request::new("PUT", "/locked").header("x-amz-bucket-object-lock-enabled", "true"),
            Request::new("PUT", "/shelf/k").body("0123456789"),
        ] {
            assert_eq!(shelf.send(&request).status, 200, "{request:?}");
        }
        shelf
    }

    fn send(&self, request: &Request) -> ErrorElements {
        ErrorElements::of(&self.signer.now().sign(request).send(&self.signer.host))
    }
}

#[test]
fn each_error_is_that_of_aws() {
    let shelf = Shelf::start();
    let cases = cases::all();
    assert!(cases.len() >= 40, "{}", cases.len());
    let wrong: Vec<String> = cases.iter().filter_map(|case| case.differs(&shelf.send(&case.request))).collect();
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn an_error_names_its_resource_and_its_request_and_a_head_has_no_body() {
    let shelf = Shelf::start();
    let answer = shelf.send(&Request::new("GET", "/shelf/a%26b%3Cc%3E"));
    assert_eq!(answer.element("Key").as_deref(), Some("a&b<c>"));
    assert_eq!(answer.element("Resource").as_deref(), Some("/shelf/a%26b%3Cc%3E"));
    assert_eq!(answer.element("RequestId"), answer.header("x-amz-request-id"));
    assert_eq!(answer.element("HostId"), answer.header("x-amz-id-2"));
    assert_eq!(answer.header("content-type").as_deref(), Some("application/xml"));
    let head = shelf.send(&Request::new("HEAD", "/shelf/absent"));
    assert_eq!((head.status, head.body.as_str()), (404, ""));
}

#[test]
fn keys_of_a_bulk_delete_are_refused_with_the_same_sentences() {
    let shelf = Shelf::start();
    let body = "<Delete><Object><Key>k</Key><ETag>\"0\"</ETag></Object></Delete>";
    let answer = shelf.send(&Request::new("POST", "/shelf").query("delete=").body(body));
    assert_eq!(
        (answer.status, answer.element("Code").as_deref()),
        (200, Some("PreconditionFailed")),
        "{}",
        answer.body
    );
    let sentence = "At least one of the pre-conditions you specified did not hold";
    assert_eq!(answer.element("Message").as_deref(), Some(sentence));
    assert_eq!(answer.element("Key").as_deref(), Some("k"));
}
