//! A server with a bucket, and the bucket's state, which a refused request must not change.

use super::{Answer, Refusals, Signer, Wire};
use crate::support::access::{root_client, write};
use crate::support::*;

/// The bucket of every request.
pub const BUCKET: &str = "examplebucket";
/// The content of the object `k`.
pub const CONTENT: &[u8] = b"Welcome to Amazon S3.";

/// A server under test.
pub struct World {
    _server: Server,
    signer: Signer,
    client: aws_sdk_s3::Client,
}

impl World {
    /// A server with the objects that the requests read, copy and delete.
    pub async fn new() -> Self {
        let server = Server::start();
        let client = root_client(&server);
        client.create_bucket().bucket(BUCKET).send().await.expect("made");
        for key in ["k", "doomed", "doomed by url", "J/1", "J/2", "photos/é 1"] {
            write(&client, BUCKET, key, CONTENT).await;
        }
        let signer = Signer::new(&server);
        Self { _server: server, signer, client }
    }

    /// A signer with the root key and the current time, since a URL that is valid for a minute must not expire here.
    pub fn signer(&self) -> Signer {
        self.signer.now()
    }

    /// The bucket's keys with their ETags and times, and its uploads.
    pub async fn state(&self) -> String {
        let objects = self.client.list_objects_v2().bucket(BUCKET).send().await.expect("listed");
        let uploads = self.client.list_multipart_uploads().bucket(BUCKET).send().await.expect("listed");
        let mut state = String::new();
        for object in objects.contents() {
            let part = (object.key(), object.e_tag(), object.last_modified());
            state += &format!("{part:?}\n");
        }
        for upload in uploads.uploads() {
            state += &format!("upload {:?} {:?}\n", upload.key(), upload.upload_id());
        }
        state
    }

    pub fn send(&self, wire: &Wire) -> Answer {
        wire.send(&self.signer.host)
    }

    /// Sends a request that must be refused; returns the fault of the refusal, if there is one. `before` is the
    /// bucket's state before the request.
    pub async fn refused(&self, before: &mut String, what: &str, wire: &Wire, expected: Refusals) -> Option<String> {
        let answer = self.send(wire);
        let after = self.state().await;
        if after != *before {
            // The next request is compared with the state after this one.
            let before = std::mem::replace(before, after.clone());
            return Some(format!("{what}: {answer}; the bucket changed from\n{before}to\n{after}"));
        }
        (!refusal_fits(wire, &answer, expected)).then(|| format!("{what}: {answer}; expected one of {expected:?}"))
    }

    /// The content of an object; `None` if there is none.
    pub async fn content(&self, key: &str) -> Option<Vec<u8>> {
        let object = self.client.get_object().bucket(BUCKET).key(key).send().await.ok()?;
        Some(object.body.collect().await.expect("its content").to_vec())
    }
}

/// Whether the refusal is an expected one. The answer to HEAD has no body, so only its status is compared.
fn refusal_fits(wire: &Wire, answer: &Answer, expected: Refusals) -> bool {
    let status = |(status, _): &(u16, &str)| *status == answer.status;
    match wire.method.as_str() {
        "HEAD" => expected.iter().any(status),
        _ => expected.contains(&(answer.status, answer.code.as_str())),
    }
}

/// Fails with all faults at once, so that one run shows every one.
#[track_caller]
pub fn assert_no_faults(count: usize, wrong: &[String]) {
    assert!(wrong.is_empty(), "{} of {count} went wrong:\n{}", wrong.len(), wrong.join("\n"));
}
