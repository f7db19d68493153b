//! Correctly signed requests: AWS's examples for S3, and the shapes of its signing test suite that apply to S3.

use super::request::{Payload, Request};
use super::world::BUCKET;
use super::{World, assert_no_faults, changes};

/// A request, and the answer to it if its signature is valid.
pub struct Case {
    pub name: &'static str,
    pub request: Request,
    pub status: u16,
    /// The S3 error code if the accepted request is about a setting or object that does not exist, else empty.
    pub code: &'static str,
}

fn case(name: &'static str, request: Request, status: u16) -> Case {
    Case { name, request, status, code: "" }
}

fn key(key: &str) -> String {
    format!("/{BUCKET}/{key}")
}

fn bucket(method: &'static str, query: &str) -> Request {
    Request::new(method, format!("/{BUCKET}")).query(query)
}

/// The examples of "Signature Calculations for the Authorization Header" in the S3 API reference, and like them.
fn examples() -> Vec<Case> {
    let get = || Request::new("GET", key("k"));
    let put = |name: &str| Request::new("PUT", key(name)).body("Welcome to Amazon S3.");
    let lifecycle = bucket("GET", "lifecycle=");
    let code = "NoSuchLifecycleConfiguration";
    let delete = "<Delete><Object><Key>absent</Key></Object></Delete>";
    vec![
        case("GET object with a range", get().header("range", "bytes=0-9"), 206),
        case("GET object with conditions", get().header("if-none-match", "\"no\""), 200),
        case("GET object with overrides", get().query("response-content-type=text%2Fplain%3B%20charset%3Dutf-8"), 200),
        case("HEAD object", Request::new("HEAD", key("k")), 200),
        case("PUT object", put("test%24file.text").header("x-amz-storage-class", "STANDARD"), 200),
        case("PUT object with Content-MD5", put("md5").header("content-md5", "1EfQ6PKJ8WoS/2AnznfCWA=="), 200),
        case("PUT object with metadata", put("m").header("x-amz-meta-a", "1").header("content-type", "text/x"), 200),
        case("PUT object with a condition", put("once").header("if-none-match", "*"), 200),
        case("PUT object, unsigned payload", put("unsigned").payload(Payload::Unsigned), 200),
        case("PUT object, no body", Request::new("PUT", key("empty")), 200),
        case("copy", Request::new("PUT", key("copy")).header("x-amz-copy-source", key("k")), 200),
        case("DELETE object", Request::new("DELETE", key("doomed")), 204),
        Case { name: "GET bucket lifecycle", request: lifecycle, status: 404, code },
        case("list objects", bucket("GET", "max-keys=2&prefix=J"), 200),
        case("list objects, version 2", bucket("GET", "delimiter=%2F&list-type=2&prefix=photos%2F%C3%A9%20"), 200),
        case("bucket location", bucket("GET", "location="), 200),
        case("list buckets", Request::new("GET", "/"), 200),
        case("delete objects", bucket("POST", "delete=").body(delete).header("content-md5", MD5_OF_DELETE), 200),
        case("begin an upload", Request::new("POST", key("parts")).query("uploads="), 200),
        case("list uploads", bucket("GET", "encoding-type=url&uploads="), 200),
    ]
}

/// The MD5 of the body of "delete objects".
const MD5_OF_DELETE: &str = "+5aJ0fE0eq1qzfAS+X6CHg==";

/// The variations of the signing test suite: paths, queries and headers that can be written in more than one way.
fn shapes() -> Vec<Case> {
    let get = |path: &str| Request::new("GET", key(path));
    let put = |path: &str| Request::new("PUT", key(path)).body("x");
    let repeated = put("repeated").header("my-header1", "value2").header("my-header1", "value2");
    vec![
        case("vanilla", get("k"), 200),
        case("a space", put("a%20space"), 200),
        case("UTF-8", put("%E1%88%B4"), 200),
        case(
            "every unreserved character",
            put("-._~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"),
            200,
        ),
        case("reserved characters, encoded", put("%21%22%23%24%25%26%27%28%29%2A%2B%2C%3A%3B%3D%3F%40%5B%5D"), 200),
        case("characters that look encoded twice", put("a%252Fb%2520c"), 200),
        case("slashes, not normalized", put("slashes//x"), 200),
        case("dots, not normalized", put("dots/./../x"), 200),
        case("a trailing slash", put("folder/"), 200),
        case("parameters out of order", bucket("GET", "prefix=x&list-type=2&max-keys=3"), 200),
        case("an unknown parameter", get("k").query("Param1=value1&%E1%88%B4=bar&x=%20%2B%2F"), 200),
        case("parameters by case", get("k").query("param2=a&Param2=b&aa=1&A=2"), 200),
        case("a parameter twice", get("k").query("Param1=value2&Param1=Value1"), 200),
        case("a parameter without a value", bucket("GET", "versioning"), 200),
        case("header values with spaces", put("spaces").header("x-amz-meta-a", "a   b   c"), 200),
        case("header values in quotes", put("quotes").header("x-amz-meta-a", "\"a   b   c\""), 200),
        case("a header three times", repeated.header("my-header1", "value1"), 200),
        case("header values out of order", put("order").header("my-header1", "value4,value1,value3,value2"), 200),
        case("header names by case", put("case").header("X-Amz-Meta-UPPER", "VALUE"), 200),
        case("headers out of order", put("sorted").header("x-amz-meta-b", "1").header("x-amz-meta-a", "2"), 200),
        case("a form's content type", put("form").header("content-type", "application/x-www-form-urlencoded"), 200),
    ]
}

/// For each case: asserts that every alteration is refused, then that the request as signed is accepted.
async fn run(cases: Vec<Case>) {
    let world = World::new().await;
    let (mut wrong, mut count) = (Vec::new(), 0);
    for Case { name, request, status, code } in cases {
        let mut before = world.state().await;
        for change in changes::of(&world.signer(), &request) {
            count += 1;
            let what = format!("{name}: {}", change.what);
            wrong.extend(world.refused(&mut before, &what, &change.wire, change.expected).await);
        }
        count += 1;
        let answer = world.send(&world.signer().sign(&request));
        if (answer.status, answer.code.as_str()) != (status, code) {
            wrong.push(format!("{name}: {answer}; expected {status} {code}"));
        }
    }
    assert_no_faults(count, &wrong);
}

#[tokio::test]
async fn the_examples_of_aws_are_accepted_and_refused_once_changed() {
    run(examples()).await;
}

#[tokio::test]
async fn the_cases_of_the_signing_suite_are_accepted_and_refused_once_changed() {
    run(shapes()).await;
}

/// Accepted requests use the right key: an object is read back under the key that it was written to.
#[tokio::test]
async fn paths_are_exact_keys() {
    let world = World::new().await;
    for (path, name) in [
        ("test%24file.text", "test$file.text"),
        ("a%252Fb%2520c", "a%2Fb%20c"),
        ("slashes//x", "slashes//x"),
        ("dots/./../x", "dots/./../x"),
        ("plus+plus", "plus+plus"),
        ("%E1%88%B4", "\u{1234}"),
    ] {
        let answer = world.send(&world.signer().sign(&Request::new("PUT", key(path)).body(name)));
        assert_eq!(answer.status, 200, "{path}: {answer}");
        assert_eq!(world.content(name).await.as_deref(), Some(name.as_bytes()), "{path}");
    }
}
