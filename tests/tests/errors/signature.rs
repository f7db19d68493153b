//! Refused signatures: the response shows what was compared, and nothing secret.

use std::time::Duration;

use super::Shelf;
use super::answer::ErrorElements;
use crate::signatures::{Payload, Request, Signer};

const MISMATCH: &str = "The request signature we calculated does not match the signature you provided. Check your key and \
                        signing method.";
const MINUTE: Duration = Duration::from_secs(60);

fn send(signer: &Signer, wire: &crate::signatures::Wire) -> ErrorElements {
    ErrorElements::of(&wire.send(&signer.host))
}

/// The bytes of a text as AWS writes them in an error, in hexadecimal digits.
fn bytes(text: &str) -> Option<String> {
    Some(text.bytes().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" "))
}

/// The string to sign in the answer equals the one that results from signing the same request with the correct key.
#[test]
fn a_wrong_signature_is_answered_with_the_string_to_sign() {
    let shelf = Shelf::start();
    let right = shelf.signer.now();
    let [wrong, ..] = right.wrong();
    let request = Request::new("PUT", "/shelf/a%20b").query("partNumber=1&uploadId=%2B").body("content");
    let unsigned = Request::new("GET", "/shelf/k").payload(Payload::Unsigned);
    for (wire, last) in [
        (wrong.sign(&request), "ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73"),
        (wrong.sign(&unsigned), "UNSIGNED-PAYLOAD"),
        (wrong.presign(&unsigned, MINUTE), "UNSIGNED-PAYLOAD"),
    ] {
        let answer = send(&right, &wire);
        let element = |name: &str| answer.element(name);
        assert_eq!(
            (answer.status, element("Code").as_deref()),
            (403, Some("SignatureDoesNotMatch")),
            "{}",
            answer.body
        );
        assert_eq!(element("Message").as_deref(), Some(MISMATCH));
        assert_eq!(element("AWSAccessKeyId").as_deref(), Some(&*right.key.access_key_id));
        let canonical = element("CanonicalRequest").unwrap_or_default();
        assert!(canonical.starts_with(&format!("{}\n{}\n", wire.method, wire.path)), "{canonical}");
        assert!(canonical.ends_with(&format!("\n{last}")), "{canonical}");
        assert!(canonical.contains(&format!("\nhost:{}\n", right.host)), "{canonical}");
        let string = element("StringToSign").unwrap_or_default();
        assert!(string.starts_with("AWS4-HMAC-SHA256\n"), "{string}");
        assert_eq!(element("StringToSignBytes"), bytes(&string));
        assert_eq!(element("CanonicalRequestBytes"), bytes(&canonical));
        let provided = element("SignatureProvided").unwrap_or_default();
        assert!(format!("{wire:?}").contains(&provided) && provided.len() == 64, "{provided}");
    }
}

#[test]
fn a_wrong_signature_reveals_neither_the_right_one_nor_secret_headers() {
    let shelf = Shelf::start();
    let right = shelf.signer.now();
    let [wrong, ..] = right.wrong();
    let request = Request::new("GET", "/shelf/k").header("cookie", "session=hidden");
    let answer = send(&right, &wrong.sign(&request));
    assert_eq!(answer.element("Code").as_deref(), Some("SignatureDoesNotMatch"));
    assert!(answer.body.contains("\ncookie:REDACTED\n"), "{}", answer.body);
    assert!(!answer.body.contains("hidden") && !answer.body.contains(&bytes("hidden").unwrap_or_default()));
    let good = right.sign(&request);
    let signature = good.header("authorization").and_then(|value| value.rsplit_once('=')).map(|(_, value)| value);
    assert!(!answer.body.contains(signature.unwrap_or("?")), "the answer shows the correct signature");
}

#[test]
fn a_wrong_clock_an_old_url_and_unsigned_headers_are_refused_with_the_compared_values() {
    let shelf = Shelf::start();
    let now = shelf.signer.now();
    let request = Request::new("GET", "/shelf/k");
    let answer = send(&now, &now.earlier(20 * MINUTE).sign(&request));
    assert_eq!(answer.element("Code").as_deref(), Some("RequestTimeTooSkewed"));
    let sentence = "The difference between the request time and the current time is too large.";
    assert_eq!(answer.element("Message").as_deref(), Some(sentence));
    assert_eq!(answer.element("MaxAllowedSkewMilliseconds").as_deref(), Some("900000"));
    assert!(
        answer.element("RequestTime").is_some_and(|time| time.len() == 16 && time.ends_with('Z')),
        "{}",
        answer.body
    );
    assert!(
        answer.element("ServerTime").is_some_and(|time| time.len() == 20 && time.ends_with('Z')),
        "{}",
        answer.body
    );

    let answer = send(&now, &now.earlier(2 * MINUTE).presign(&request, MINUTE));
    assert_eq!((answer.status, answer.element("Message").as_deref()), (403, Some("Request has expired")));
    assert_eq!(answer.element("X-Amz-Expires").as_deref(), Some("60"));
    let times = [answer.element("Expires"), answer.element("ServerTime")].map(Option::unwrap_or_default);
    assert!(times[0].len() == 20 && times[0] < times[1], "{times:?}");

    let answer = send(&now, &now.sign(&request).and_header("x-amz-meta-a", "1"));
    let sentence = "There were headers present in the request which were not signed";
    assert_eq!((answer.status, answer.element("Message").as_deref()), (403, Some(sentence)));
    assert_eq!(answer.element("HeadersNotSigned").as_deref(), Some("x-amz-meta-a"));
}

#[test]
fn unknown_keys_regions_and_schemes_are_refused_by_name() {
    let shelf = Shelf::start();
    let now = shelf.signer.now();
    let [_, foreign, region, _] = now.wrong();
    let request = Request::new("GET", "/shelf/k");
    let answer = send(&now, &foreign.sign(&request));
    let sentence = "The AWS Access Key Id you provided does not exist in our records.";
    assert_eq!((answer.status, answer.element("Message").as_deref()), (403, Some(sentence)));
    assert_eq!(answer.element("AWSAccessKeyId"), Some(foreign.key.access_key_id.clone()));
    let answer = send(&now, &region.sign(&request));
    let sentence = "The authorization header is malformed; the region 'eu-west-1' is wrong; expecting 'us-east-1'";
    assert_eq!((answer.status, answer.element("Message").as_deref()), (400, Some(sentence)));
    assert_eq!(answer.element("Region").as_deref(), Some("us-east-1"));
    let answer = send(&now, &now.unsigned(&request).and_header("authorization", "Basic YTpi"));
    assert_eq!((answer.status, answer.element("Message").as_deref()), (400, Some("Unsupported Authorization Type")));
    let argument = ["ArgumentName", "ArgumentValue"].map(|name| answer.element(name).unwrap_or_default());
    assert_eq!(argument, ["Authorization", "Basic"]);
    let answer = send(&now, &now.unsigned(&request));
    assert_eq!((answer.status, answer.element("Message").as_deref()), (403, Some("Access Denied")));
}
