//! Presigned URLs: what they allow, for how long, and every alteration of them.

use std::time::Duration;

use super::changes::Change;
use super::request::{Payload, Request};
use super::world::BUCKET;
use super::{DENIED, MALFORMED, MISMATCH, Refusals, Signer, Wire, World, assert_no_faults};

const MINUTE: Duration = Duration::from_secs(60);
const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

const BAD_QUERY: Refusals = &[(400, "AuthorizationQueryParametersError")];
const NOT_YET: Refusals = &[(403, "AccessDenied"), (403, "RequestTimeTooSkewed")];
const UNKNOWN_KEY: Refusals = &[(403, "InvalidAccessKeyId")];

fn request(method: &'static str, key: &str) -> Request {
    Request::new(method, format!("/{BUCKET}/{key}")).payload(Payload::Unsigned)
}

/// Valid URLs, each with the status of its answer.
fn cases() -> Vec<(&'static str, Request, u16)> {
    let typed = "response-content-type=text%2Fplain&response-cache-control=no-store";
    vec![
        ("GET", request("GET", "k"), 200),
        ("GET with overrides", request("GET", "k").query(typed), 200),
        ("GET of a key to encode", request("GET", "photos/%C3%A9%201"), 200),
        ("HEAD", request("HEAD", "k"), 200),
        ("PUT", request("PUT", "by%20url").body("by a URL"), 200),
        ("PUT with signed headers", request("PUT", "typed").header("content-type", "text/x").body("typed"), 200),
        ("PUT with metadata", request("PUT", "meta").header("x-amz-meta-a", "1").body("meta"), 200),
        ("list", Request::new("GET", format!("/{BUCKET}")).payload(Payload::Unsigned).query("list-type=2"), 200),
        ("DELETE", request("DELETE", "doomed%20by%20url"), 204),
    ]
}

#[tokio::test]
async fn a_url_allows_one_request_and_no_other() {
    let world = World::new().await;
    let (mut wrong, mut count) = (Vec::new(), 0);
    for (name, request, status) in cases() {
        let mut before = world.state().await;
        for Change { what, wire, expected } in changes(&world.signer(), &request) {
            count += 1;
            wrong.extend(world.refused(&mut before, &format!("{name}: {what}"), &wire, expected).await);
        }
        count += 1;
        let answer = world.send(&world.signer().presign(&request, MINUTE));
        if answer.status != status {
            wrong.push(format!("{name}: {answer}; expected {status}"));
        }
    }
    assert_no_faults(count, &wrong);
}

fn changes(signer: &Signer, request: &Request) -> Vec<Change> {
    let wire = signer.presign(request, MINUTE);
    let mut changes = times(signer, request);
    changes.extend(params(&wire));
    changes.extend(signers(signer, request));
    let method = if wire.method == "PUT" { "DELETE" } else { "PUT" };
    let unsigned = wire.clone().and_header("x-amz-meta-evil", "1");
    let mut more = wire.clone();
    more.add_query("versionId", "null");
    let both = wire.clone().and_header("authorization", "AWS4-HMAC-SHA256 Credential=a/b, Signature=c");
    for (what, wire, expected) in [
        ("as another method", Wire { method: method.to_owned(), ..wire.clone() }, MISMATCH),
        ("another path", Wire { path: format!("{}x", wire.path), ..wire.clone() }, MISMATCH),
        ("another host", wire.clone().with_header("host", "elsewhere.example"), MISMATCH),
        ("a parameter more", more, MISMATCH),
        ("a header of S3 unsigned", unsigned, DENIED),
        ("a signature in the headers as well", both, MALFORMED),
    ] {
        changes.push(Change { what: what.to_owned(), wire, expected });
    }
    for (name, value) in &request.headers {
        let dropped = wire.clone().without_header(name);
        changes.push(Change { what: format!("without {name}"), wire: dropped, expected: MALFORMED });
        let other = wire.clone().with_header(name, format!("{value}1"));
        changes.push(Change { what: format!("another {name}"), wire: other, expected: MISMATCH });
    }
    changes
}

/// Alterations of the time of signing and of the lifetime.
fn times(signer: &Signer, request: &Request) -> Vec<Change> {
    let good = signer.presign(request, MINUTE);
    let for_seconds = |text: &str| {
        let params: Vec<_> = good.params();
        let params: Vec<_> =
            params.iter().map(|(name, value)| (*name, if *name == "X-Amz-Expires" { text } else { value })).collect();
        good.with_params(&params)
    };
    let over_a_week = signer.presign(request, WEEK + Duration::from_secs(1));
    [
        ("expired a second ago", signer.earlier(MINUTE + Duration::from_secs(1)).presign(request, MINUTE), DENIED),
        ("expired a day ago", signer.earlier(WEEK + 24 * 60 * MINUTE).presign(request, WEEK), DENIED),
        ("for over a week", over_a_week, BAD_QUERY),
        ("of tomorrow", signer.later(24 * 60 * MINUTE).presign(request, MINUTE), NOT_YET),
        ("for a negative time", for_seconds("-1"), BAD_QUERY),
        ("for no number of seconds", for_seconds("soon"), BAD_QUERY),
        ("for longer than was signed", for_seconds("61"), MISMATCH),
    ]
    .map(|(what, wire, expected)| Change { what: what.to_owned(), wire, expected })
    .into()
}

/// Drops, changes and doubles each parameter of the signature.
fn params(wire: &Wire) -> Vec<Change> {
    let mut changes = Vec::new();
    let params = wire.params();
    for (index, (name, value)) in params.iter().enumerate().filter(|(_, (name, _))| name.starts_with("X-Amz-")) {
        let mut others = params.clone();
        others.remove(index);
        // A URL with all parameters but the signature must not count as an unsigned request.
        let expected = if *name == "X-Amz-Algorithm" { NOT_A_SIGNATURE } else { MALFORMED };
        changes.push(Change { what: format!("without {name}"), wire: wire.with_params(&others), expected });
        let other = format!("{value}1");
        let mut others = params.clone();
        others[index] = (name, &other);
        let what = format!("another {name}");
        changes.push(Change { what, wire: wire.with_params(&others), expected: OTHER_PARAM });
        let doubled: Vec<_> = params.iter().copied().chain([(*name, *value)]).collect();
        changes.push(Change { what: format!("{name} twice"), wire: wire.with_params(&doubled), expected: MALFORMED });
    }
    changes
}

const NOT_A_SIGNATURE: Refusals = &[(400, "AuthorizationQueryParametersError"), (403, "AccessDenied")];
const OTHER_PARAM: Refusals = &[
    (403, "SignatureDoesNotMatch"),
    (403, "AccessDenied"),
    (403, "InvalidAccessKeyId"),
    (400, "AuthorizationQueryParametersError"),
    (400, "InvalidRequest"),
];

/// The URL with a valid signature by another key, region, service or host.
fn signers(signer: &Signer, request: &Request) -> Vec<Change> {
    let [secret, foreign, region, service] = signer.wrong();
    [
        ("another secret", secret, MISMATCH),
        ("an unknown access key id", foreign, UNKNOWN_KEY),
        ("another region", region, BAD_QUERY),
        ("another service", service, BAD_QUERY),
    ]
    .map(|(what, by, expected)| Change { what: what.to_owned(), wire: by.presign(request, MINUTE), expected })
    .into()
}

#[tokio::test]
async fn a_url_expires_exactly_on_time() {
    let world = World::new().await;
    let get = request("GET", "k");
    let signer = world.signer();
    for (what, wire) in [
        ("a week", signer.presign(&get, WEEK)),
        ("the last minute of a week", signer.earlier(WEEK - MINUTE).presign(&get, WEEK)),
        ("signed by a clock ten minutes ahead", signer.later(10 * MINUTE).presign(&get, MINUTE)),
    ] {
        let answer = world.send(&wire);
        assert_eq!(answer.status, 200, "{what}: {answer}");
    }
    let put = request("PUT", "by%20url").body("by a URL");
    assert_eq!(world.send(&signer.presign(&put, MINUTE)).status, 200);
    assert_eq!(world.content("by url").await.as_deref(), Some(&b"by a URL"[..]));
}
