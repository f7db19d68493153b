//! The test signer compared with the signatures that AWS publishes, so that the server is tested against a correct
//! signer.
//!
//! From "Examples: Signature Calculations in AWS Signature Version 4" and its pages on query parameters and chunks, in
//! the S3 API reference: one key, one bucket and one time throughout.

use std::time::{Duration, SystemTime};

use super::request::{Payload, Request};
use super::signer::Signer;
use crate::support::Credentials;

/// 2013-05-24T00:00:00Z
const MOMENT: Duration = Duration::from_secs(1_369_353_600);

fn signer() -> Signer {
    let key = Credentials {
        access_key_id: "AKIAIOSFODNN7EXAMPLE".to_owned(),
        secret_access_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
    };
    let host = "examplebucket.s3.amazonaws.com".to_owned();
    let (region, service) = ("us-east-1".to_owned(), "s3".to_owned());
    Signer { host, key, region, service, time: SystemTime::UNIX_EPOCH + MOMENT, excluded: Vec::new() }
}

#[test]
fn headers_are_signed_as_in_the_examples_of_aws() {
    let put = Request::new("PUT", "/test%24file.text").body("Welcome to Amazon S3.");
    let put = put.header("date", "Fri, 24 May 2013 00:00:00 GMT").header("x-amz-storage-class", "REDUCED_REDUNDANCY");
    for (request, signature) in [
        (
            Request::new("GET", "/test.txt").header("range", "bytes=0-9"),
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ),
        (put, "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"),
        (
            Request::new("GET", "/").query("lifecycle="),
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
        ),
        (
            Request::new("GET", "/").query("max-keys=2&prefix=J"),
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        ),
    ] {
        assert_eq!(signer().sign_with_seed(&request).1, signature, "{request:?}");
    }
}

#[test]
fn a_url_is_signed_as_in_the_example_of_aws() {
    let request = Request::new("GET", "/test.txt").payload(Payload::Unsigned);
    let url = signer().presign(&request, Duration::from_secs(86_400)).query;
    let signature = "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";
    assert!(url.ends_with(&format!("&X-Amz-Signature={signature}")), "{url}");
}

#[test]
fn chunks_are_signed_as_in_the_example_of_aws() {
    let mut signer = signer();
    "s3.amazonaws.com".clone_into(&mut signer.host);
    let request = Request::new("PUT", "/examplebucket/chunkObject.txt").payload(Payload::Chunks);
    let request = request.header("content-encoding", "aws-chunked").header("content-length", "66824");
    let request = request.header("x-amz-decoded-content-length", "66560");
    let request = request.header("x-amz-storage-class", "REDUCED_REDUNDANCY");
    let (_, seed) = signer.sign_with_seed(&request);
    assert_eq!(seed, "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9");
    let first = signer.chunk(&[b'a'; 65_536], &seed);
    assert_eq!(first, "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648");
    let second = signer.chunk(&[b'a'; 1024], &first);
    assert_eq!(second, "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497");
    assert_eq!(signer.chunk(&[], &second), "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9");
}
