//! Invalid signatures: older versions, garbage, foreign tokens, chunks under the wrong flag.

use super::request::{Payload, Request};
use super::world::BUCKET;
use super::{DENIED, MALFORMED, Refusals, Wire, World, assert_no_faults};

const INVALID: Refusals = &[(400, "InvalidRequest"), (400, "InvalidArgument"), (400, "AuthorizationHeaderMalformed")];
const TOKEN: Refusals = &[(400, "InvalidToken"), (403, "InvalidAccessKeyId")];
const HASH: Refusals = &[(400, "InvalidArgument"), (400, "InvalidRequest"), (400, "XAmzContentSHA256Mismatch")];

#[tokio::test]
async fn malformed_signatures_are_refused_by_their_fault() {
    let world = World::new().await;
    let mut before = world.state().await;
    let mut wrong = Vec::new();
    let cases = cases(&world);
    for (what, wire, expected) in &cases {
        wrong.extend(world.refused(&mut before, what, wire, expected).await);
    }
    assert_no_faults(cases.len(), &wrong);
}

fn cases(world: &World) -> Vec<(&'static str, Wire, Refusals)> {
    let signer = world.signer();
    let put = || Request::new("PUT", format!("/{BUCKET}/k")).body("forged");
    let bare = signer.unsigned(&put());
    let good = signer.sign(&put());
    let key = &signer.key.access_key_id;
    let mut version2 = bare.clone();
    version2.query = format!("AWSAccessKeyId={key}&Expires=2000000000&Signature=c2ln");
    let rubbish = |text: &str| good.clone().with_header("authorization", text);
    let framed = put().payload(Payload::Unsigned).header("content-encoding", "aws-chunked");
    let framed = signer.sign(&framed.header("x-amz-decoded-content-length", "6"));
    let token = |name| signer.sign(&put().header(name, "token"));
    let hash = |text: &str| signer.sign(&put()).with_header("x-amz-content-sha256", text);
    vec![
        ("Signature Version 2", bare.clone().and_header("authorization", format!("AWS {key}:c2ln")), INVALID),
        ("a URL of Signature Version 2 that is good for years", version2, DENIED),
        ("rubbish", rubbish("AWS4-HMAC-SHA256 rubbish"), MALFORMED),
        ("an empty header", rubbish(""), MALFORMED),
        ("another algorithm", rubbish("AWS4-HMAC-MD5 Credential=a/20200101/us-east-1/s3/aws4_request"), MALFORMED),
        ("a scope without a region", rubbish(SHORT_SCOPE), MALFORMED),
        ("a bearer token", rubbish("Bearer abc"), MALFORMED),
        ("a session token", token("x-amz-security-token"), TOKEN),
        ("two hosts", good.clone().and_header("host", "elsewhere"), MALFORMED),
        ("frames under an unsigned payload", Wire { body: b"6\r\nforged\r\n0\r\n\r\n".to_vec(), ..framed }, MALFORMED),
        ("a hash that is none", hash("rubbish"), HASH_OR_SIGNATURE),
        ("an unknown kind of stream", hash("STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD"), HASH_OR_SIGNATURE),
    ]
}

const SHORT_SCOPE: &str = "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20200101/s3/aws4_request, \
                           SignedHeaders=host, Signature=00";

const HASH_OR_SIGNATURE: Refusals =
    &[HASH[0], HASH[1], HASH[2], (403, "SignatureDoesNotMatch"), (501, "NotImplemented")];
