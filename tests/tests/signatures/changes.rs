//! Every way to alter a header-signed request, each with its possible refusals.

use std::time::Duration;

use super::request::Payload;
use super::{DENIED, MALFORMED, MISMATCH, Refusals, Request, Signer, Wire};

/// The refusals of another method or subresource. If it does not exist, that is answered before the signature is
/// checked.
const OTHER_OPERATION: Refusals = &[MISMATCH[0], (405, "MethodNotAllowed"), (412, "PreconditionFailed")];

/// A request that must be refused.
pub struct Change {
    pub what: String,
    pub wire: Wire,
    pub expected: Refusals,
}

const SKEWED: Refusals = &[(403, "RequestTimeTooSkewed")];
const SCOPE: Refusals = &[(400, "AuthorizationHeaderMalformed")];
const UNKNOWN_KEY: Refusals = &[(403, "InvalidAccessKeyId")];
const OTHER_BODY: Refusals = &[(400, "XAmzContentSHA256Mismatch"), (400, "BadDigest")];
/// The refusals of a missing header: AWS uses different codes, and names the header.
const MISSING: Refusals =
    &[(403, "AccessDenied"), (403, "SignatureDoesNotMatch"), (400, "InvalidRequest"), (400, "MissingSecurityHeader")];
/// More than the clock difference that AWS accepts, 15 minutes.
const SKEW: Duration = Duration::from_secs(16 * 60);

/// All changes of a request.
pub fn of(signer: &Signer, request: &Request) -> Vec<Change> {
    let wire = signer.sign(request);
    let mut changes = target(&wire);
    changes.extend(headers(&wire));
    changes.extend(authorization(&wire));
    changes.extend(signers(signer, request));
    if request.payload == Payload::Hashed && !request.body.is_empty() {
        let mut other = wire;
        other.body[0] ^= 1;
        changes.push(change("another body of the same length", other, OTHER_BODY));
    }
    changes
}

fn change(what: impl Into<String>, wire: Wire, expected: Refusals) -> Change {
    Change { what: what.into(), wire, expected }
}

/// Changes of method, path and query.
fn target(wire: &Wire) -> Vec<Change> {
    let method = match wire.method.as_str() {
        "GET" | "HEAD" => "PUT",
        "PUT" => "DELETE",
        _ => "GET",
    };
    let mut changes = vec![
        change(format!("as {method}"), Wire { method: method.to_owned(), ..wire.clone() }, OTHER_OPERATION),
        change("another path", Wire { path: format!("{}xyz", wire.path), ..wire.clone() }, MISMATCH),
    ];
    let mut more = wire.clone();
    more.add_query("x-id", "More");
    changes.push(change("a parameter more", more, MISMATCH));
    let params = wire.params();
    for (index, (name, value)) in params.iter().enumerate() {
        let mut others = params.clone();
        others.remove(index);
        changes.push(change(format!("without the parameter {name}"), wire.with_params(&others), OTHER_OPERATION));
        let value = format!("{value}1");
        let mut others = params.clone();
        others[index] = (name, &value);
        changes.push(change(format!("another value of {name}"), wire.with_params(&others), MISMATCH));
    }
    changes
}

/// Drops, changes and doubles each signed header; adds others.
fn headers(wire: &Wire) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut names: Vec<_> = wire.headers.iter().map(|(name, _)| name.to_lowercase()).collect();
    names.dedup();
    for name in names.iter().filter(|name| *name != "authorization") {
        if name != "host" {
            changes.push(change(format!("without {name}"), wire.clone().without_header(name), MISSING));
        }
        let other = other_value(name, wire.header(name).expect("it is there"));
        changes.push(change(format!("another {name}"), wire.clone().with_header(name, &other), MISMATCH));
        let doubled = wire.clone().and_header(name, other);
        changes.push(change(format!("a second {name}"), doubled, MALFORMED));
    }
    for (name, value) in [("x-amz-meta-evil", "1"), ("x-amz-acl", "public-read"), ("x-amz-copy-source", "/other/key")] {
        if wire.header(name).is_none() {
            changes.push(change(format!("{name} unsigned"), wire.clone().and_header(name, value), DENIED));
        }
    }
    changes
}

/// A different, well-formed value, so that only the signature is wrong.
fn other_value(name: &str, value: &str) -> String {
    match name {
        "host" => "elsewhere.example:9000".to_owned(),
        // A second earlier or later, well within the accepted clock difference.
        "x-amz-date" => {
            let (start, second) = value.split_at(value.len() - 2);
            format!("{start}{}Z", if second == "0Z" { '1' } else { '0' })
        }
        "x-amz-content-sha256" if value == "UNSIGNED-PAYLOAD" => "0".repeat(64),
        "x-amz-content-sha256" => "UNSIGNED-PAYLOAD".to_owned(),
        "content-md5" => "AAAAAAAAAAAAAAAAAAAAAA==".to_owned(),
        "range" => "bytes=1-9".to_owned(),
        "if-none-match" if value == "*" => "\"other\"".to_owned(),
        "if-none-match" => "\"another\"".to_owned(),
        "x-amz-storage-class" => "STANDARD_IA".to_owned(),
        "x-amz-copy-source" => format!("{value}/other"),
        _ => format!("{value}1"),
    }
}

/// Changes of the `Authorization` header.
fn authorization(wire: &Wire) -> Vec<Change> {
    let good = wire.header("authorization").expect("it is signed").to_owned();
    let (start, signature) = good.rsplit_once('=').expect("a signature");
    let with = |value: String| wire.clone().with_header("authorization", value);
    let flipped = if signature.ends_with('0') { "1" } else { "0" };
    let mut query = wire.clone();
    query.add_query("X-Amz-Algorithm", "AWS4-HMAC-SHA256");
    vec![
        change("no signature at all", wire.clone().without_header("authorization"), DENIED),
        change("a digit of the signature", with(format!("{start}={}{flipped}", &signature[..63])), MISMATCH),
        change("a signature cut short", with(format!("{start}={}", &signature[..32])), MALFORMED),
        change("an empty signature", with(format!("{start}=")), MALFORMED),
        change("no list of signed headers", with(without_list(&good)), MALFORMED),
        change("a day before in the scope", with(good.replacen("/us-east-1/", "1/us-east-1/", 1)), MALFORMED),
        change("two signatures", wire.clone().and_header("authorization", good.clone()), MALFORMED),
        change("a signature in the query as well", query, MALFORMED),
    ]
}

fn without_list(authorization: &str) -> String {
    let parts = authorization.split(", ").filter(|part| !part.starts_with("SignedHeaders="));
    parts.collect::<Vec<_>>().join(", ")
}

/// The request with a valid signature by another key, region, service, host or time.
fn signers(signer: &Signer, request: &Request) -> Vec<Change> {
    let [secret, foreign, region, service] = signer.wrong();
    let host = Signer { host: "examplebucket.s3.amazonaws.com".to_owned(), ..signer.clone() };
    let here = |wire: Wire| wire.with_header("host", &signer.host);
    let hostless = Signer { excluded: vec!["host"], ..signer.clone() };
    vec![
        change("another secret", secret.sign(request), MISMATCH),
        change("an unknown access key id", foreign.sign(request), UNKNOWN_KEY),
        change("another region", region.sign(request), SCOPE),
        change("another service", service.sign(request), SCOPE),
        change("signed for another host", here(host.sign(request)), MISMATCH),
        change("signed without the host", hostless.sign(request), MALFORMED),
        change("signed 16 minutes ago", signer.earlier(SKEW).sign(request), SKEWED),
        change("signed in 16 minutes", signer.later(SKEW).sign(request), SKEWED),
    ]
}
