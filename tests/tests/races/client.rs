//! One client: each call sends a request, and records what the response says about the key.

use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_sdk_s3::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_s3::types::{CompletedMultipartUpload, CompletedPart};

use super::{Effect, History, Operation};

/// The time limit of a request, far above the usual time.
const LIMIT: Duration = Duration::from_secs(30);

/// A client of one key, in one round.
#[derive(Clone)]
pub struct Racer {
    pub s3: aws_sdk_s3::Client,
    pub number: usize,
    pub bucket: String,
    pub key: String,
    pub history: Arc<History>,
}

/// An upload with its one part, ready to be completed.
#[derive(Clone)]
pub struct Ready {
    id: String,
    part: CompletedPart,
}

/// A condition on what the key holds.
#[derive(Clone, Debug)]
pub enum Condition {
    Absent,
    Match(String),
}

impl Condition {
    fn none_match(&self) -> Option<String> {
        matches!(self, Self::Absent).then(|| "*".to_owned())
    }

    fn etag(&self) -> Option<String> {
        match self {
            Self::Absent => None,
            Self::Match(etag) => Some(etag.clone()),
        }
    }

    /// The effect that an answer with this status states. `written` is the ETag of the written object.
    fn effect(&self, what: &str, status: u16, code: &str, written: Option<String>) -> Effect {
        match (self, status, code) {
            (Self::Absent, 200, _) => Effect::Created(written.expect("an ETag")),
            (Self::Absent, 412, "PreconditionFailed") => Effect::FoundOther(None),
            (Self::Match(from), 200, _) => Effect::Swapped { from: from.clone(), to: written.expect("an ETag") },
            (Self::Match(etag), 412, "PreconditionFailed") => Effect::FoundOther(Some(etag.clone())),
            (Self::Match(_), 404, "NoSuchKey") => Effect::Found(None),
            (_, 409, "ConditionalRequestConflict") => Effect::Nothing,
            _ => panic!("{what} with {self:?} was answered {status} {code}, which is no answer of S3 to it"),
        }
    }
}

impl Racer {
    /// PutObject; returns the ETag if the object was written.
    pub async fn put(&self, condition: &Condition, content: String) -> Option<String> {
        let call = self.s3.put_object().bucket(&self.bucket).key(&self.key).body(content.into_bytes().into());
        let call = call.set_if_none_match(condition.none_match()).set_if_match(condition.etag());
        let start = Instant::now();
        let (status, code, etag) = outcome(call.send(), |put| put.e_tag).await;
        self.record("PUT", start, condition.effect("a PUT", status, &code, etag.clone()));
        etag
    }

    /// DeleteObject with If-Match; returns whether the object was deleted.
    pub async fn delete(&self, etag: &str) -> bool {
        let call = self.s3.delete_object().bucket(&self.bucket).key(&self.key).if_match(etag);
        let start = Instant::now();
        let (status, code, _) = outcome(call.send(), |_| None).await;
        let effect = match (status, code.as_str()) {
            (200, _) => Effect::Removed(etag.to_owned()),
            (412, "PreconditionFailed") => Effect::FoundOther(Some(etag.to_owned())),
            (404, "NoSuchKey") => Effect::Found(None),
            (409, "ConditionalRequestConflict") => Effect::Nothing,
            _ => panic!("a DELETE with If-Match was answered {status} {code}, which is no answer of S3 to it"),
        };
        self.record("DELETE", start, effect);
        status == 200
    }

    /// GetObject; returns the ETag of the object, if there is one.
    pub async fn get(&self) -> Option<String> {
        let call = self.s3.get_object().bucket(&self.bucket).key(&self.key);
        let start = Instant::now();
        let (status, code, etag) = outcome(call.send(), |object| object.e_tag).await;
        assert!(status == 200 || code == "NoSuchKey", "a GET was answered {status} {code}");
        self.record("GET", start, Effect::Found(etag.clone()));
        etag
    }

    /// CreateMultipartUpload and UploadPart, which neither read nor change the key.
    pub async fn upload(&self, content: String) -> Ready {
        let begun = self.s3.create_multipart_upload().bucket(&self.bucket).key(&self.key).send().await;
        let id = begun.expect("begun").upload_id.expect("an id");
        let call = self.s3.upload_part().bucket(&self.bucket).key(&self.key).upload_id(&id).part_number(1);
        let part = call.body(content.into_bytes().into()).send().await.expect("stored");
        Ready { id, part: CompletedPart::builder().part_number(1).set_e_tag(part.e_tag).build() }
    }

    /// CompleteMultipartUpload; returns the ETag if the object was created.
    pub async fn complete(&self, upload: &Ready, condition: &Condition) -> Option<String> {
        let parts = CompletedMultipartUpload::builder().parts(upload.part.clone()).build();
        let call = self.s3.complete_multipart_upload().bucket(&self.bucket).key(&self.key);
        let call = call.upload_id(&upload.id).multipart_upload(parts);
        let call = call.set_if_none_match(condition.none_match()).set_if_match(condition.etag());
        let start = Instant::now();
        let (status, code, etag) = outcome(call.send(), |done| done.e_tag).await;
        self.record("complete", start, condition.effect("a completion", status, &code, etag.clone()));
        etag
    }

    fn record(&self, what: &'static str, start: Instant, effect: Effect) {
        self.history.add(Operation { client: self.number, what, start, end: Instant::now(), effect });
    }
}

/// Status, code and ETag of an answer; 200 for every kind of success.
async fn outcome<T, E: ProvideErrorMetadata + std::fmt::Debug>(
    call: impl Future<Output = Result<T, SdkError<E>>>,
    etag: impl FnOnce(T) -> Option<String>,
) -> (u16, String, Option<String>) {
    match tokio::time::timeout(LIMIT, call).await.expect("an answer in time") {
        Ok(answer) => (200, String::new(), etag(answer)),
        Err(error) => {
            let status = error.raw_response().map(|answer| answer.status().as_u16());
            let status = status.unwrap_or_else(|| panic!("no answer: {error:?}"));
            (status, error.code().unwrap_or_default().to_owned(), None)
        }
    }
}
