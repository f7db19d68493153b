//! Forms and preflights, which are not operations of the table: whose signature allows a file.

use aws_sigv4::sign::v4::{calculate_signature, generate_signing_key};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::callers::{BUCKET, CALLERS, Caller, World};
use super::state;
use super::table::Needs;
use crate::signatures::Request;

const VALID: &str = "2090-01-01T00:00:00Z";
const PAST: &str = "2020-01-01T00:00:00Z";

/// A form with a policy, signed by this caller.
fn form(world: &World, caller: Caller) -> Request {
    let mut body = String::new();
    let fields = if caller == Caller::Anonymous { Vec::new() } else { signed(world, caller) };
    for (name, value) in std::iter::once(("key", "formed".to_owned())).chain(fields) {
        body += &format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
    }
    body += "--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nfrom a form\r\n--b--\r\n";
    Request::new("POST", format!("/{BUCKET}")).header("content-type", "multipart/form-data; boundary=b").body(body)
}

fn signed(world: &World, caller: Caller) -> Vec<(&'static str, String)> {
    let owned = matches!(caller, Caller::Expired | Caller::OldSignature);
    let signer = world.signer(if owned { Caller::Owner } else { caller });
    let date = signer.sign(&Request::new("GET", "/")).header("x-amz-date").expect("it is dated").to_owned();
    let credential = format!("{}/{}/us-east-1/s3/aws4_request", signer.key.access_key_id, &date[..8]);
    let policy = serde_json::json!({"expiration": if owned { PAST } else { VALID }, "conditions": [
        {"bucket": BUCKET}, {"key": "formed"}, {"x-amz-algorithm": "AWS4-HMAC-SHA256"},
        {"x-amz-credential": credential}, {"x-amz-date": date},
    ]});
    let policy = STANDARD.encode(policy.to_string());
    let key = generate_signing_key(&signer.key.secret_access_key, signer.time, "us-east-1", "s3");
    let signature = calculate_signature(key, policy.as_bytes());
    vec![
        ("x-amz-algorithm", "AWS4-HMAC-SHA256".to_owned()),
        ("x-amz-credential", credential),
        ("x-amz-date", date),
        ("policy", policy),
        ("x-amz-signature", signature),
    ]
}

#[test]
fn a_form_allows_what_its_signer_may_put() {
    let world = World::new();
    let host = world.signer(Caller::Root).host;
    let before = state::of(&world, None);
    for caller in CALLERS.into_iter().filter(|caller| !Needs::Write.met_by(*caller)) {
        let answer = world.signer(Caller::Root).unsigned(&form(&world, caller)).send(&host);
        // A form expires by the date in its policy, even if its signature is late.
        let expected = if caller == Caller::OldSignature { Caller::Expired.refusal() } else { caller.refusal() };
        assert_eq!((answer.status, answer.code.as_str()), expected, "{caller:?}: {answer}");
    }
    assert_eq!(state::of(&world, None), before);
    for caller in CALLERS.into_iter().filter(|caller| Needs::Write.met_by(*caller)) {
        let answer = world.signer(Caller::Root).unsigned(&form(&world, caller)).send(&host);
        assert_eq!(answer.status, 204, "{caller:?}: {answer}");
    }
}

/// Every caller may send a preflight; the answer depends on the CORS rules and shows nothing of the content.
#[test]
fn a_preflight_reveals_nothing_about_objects() {
    let world = World::new();
    let host = world.signer(Caller::Root).host;
    let before = state::of(&world, None);
    for path in [format!("/{BUCKET}/k"), format!("/{BUCKET}/absent"), "/no-such-bucket/k".to_owned()] {
        let asked = Request::new("OPTIONS", path.clone())
            .header("origin", "https://app.example.org")
            .header("access-control-request-method", "GET");
        let answer = world.signer(Caller::Root).unsigned(&asked).send(&host);
        assert!([403, 404].contains(&answer.status), "{path}: {answer}");
        assert!(!answer.text.contains("content of"), "{path}: {answer}");
    }
    assert_eq!(state::of(&world, None), before);
}
