//! A writer of keys without versioning.

use std::collections::BTreeMap;

use aws_sdk_s3::Client;
use aws_sdk_s3::operation::get_object::GetObjectError;
use aws_sdk_s3::types::{CompletedMultipartUpload, CompletedPart, Delete, ObjectIdentifier};

use super::{Answer, Content, ExpectedEnd, REQUEST_LIMIT, answer};
use crate::support::Rng;

const KEYS: usize = 12;
/// The smallest size of a part that is not the last (S3 API, CompleteMultipartUpload).
const PART: usize = 5 << 20;

/// The possible states of each key: one, or two while a request is in progress. `None`: no object.
type States = BTreeMap<String, Vec<Option<Content>>>;

/// A request.
enum Change {
    Put(String, Content),
    Upload(String, Content),
    Copy { from: String, to: String, content: Content },
    Delete(Vec<String>),
}

/// The writer.
pub struct Keys {
    bucket: &'static str,
    number: u64,
    states: States,
    done: usize,
}

impl Keys {
    /// A writer with its own keys in a bucket.
    pub fn new(bucket: &'static str, number: u64) -> Self {
        Self { bucket, number, states: States::new(), done: 0 }
    }

    /// The number of keys that may have the old or the new state.
    pub fn open(&self) -> usize {
        self.states.values().filter(|states| states.len() > 1).count()
    }

    /// The number of requests acknowledged since the last call.
    pub fn take_done(&mut self) -> usize {
        std::mem::take(&mut self.done)
    }

    /// Writes until the server ends.
    pub async fn work(self, client: Client, rng: Rng, expected_end: ExpectedEnd) -> Self {
        self.work_while(client, rng, expected_end, || true).await
    }

    /// Writes until the server ends, or `going` returns false.
    pub async fn work_while(
        mut self,
        client: Client,
        mut rng: Rng,
        expected_end: ExpectedEnd,
        going: impl Fn() -> bool,
    ) -> Self {
        while going() {
            let change = self.generate(&mut rng);
            let (keys, content) = change.outcome();
            for key in &keys {
                self.states.entry(key.clone()).or_insert_with(|| vec![None]).push(content);
            }
            let request = tokio::time::timeout(REQUEST_LIMIT, change.request(&client, self.bucket, expected_end)).await;
            match request.expect("a request is answered, or its connection ends") {
                Answer::Acknowledged if !expected_end.is_cut() => self.done += 1,
                _ => return self,
            }
            for key in keys {
                self.states.insert(key, vec![content]);
            }
        }
        self
    }

    fn key(&self, number: usize) -> String {
        format!("w{}/d{}/k{}", self.number, number % 3, number % KEYS)
    }

    fn generate(&self, rng: &mut Rng) -> Change {
        let first = rng.below(KEYS);
        let key = self.key(first);
        let what = rng.below(100);
        let source = self.states.iter().find_map(|(from, states)| match states[..] {
            [Some(content)] if *from != key && what.is_multiple_of(2) => Some((from.clone(), content)),
            _ => None,
        });
        match (what, source) {
            (0..5, _) => Change::Delete((first..first + 3).map(|number| self.key(number)).collect()),
            (5..22, _) => Change::Delete(vec![key]),
            (22..40, Some((from, content))) => Change::Copy { from, to: key, content },
            (40..44, _) => Change::Upload(key, Content { len: PART + 1 + rng.below(1 << 16), seed: rng.roll() }),
            _ => Change::Put(key, Content { len: len(rng), seed: rng.roll() }),
        }
    }

    /// Asserts that each key has one of its possible states, which is its state from now on, and that the listing
    /// agrees. All writers are of one bucket. Fails if the server ends meanwhile; the call can then be repeated.
    pub async fn compare(client: &Client, all: &mut [Self], cycle: usize) -> Result<(), Answer> {
        let mut expected = BTreeMap::new();
        let Some(bucket) = all.first().map(|keys| keys.bucket) else { return Ok(()) };
        for (key, states) in all.iter_mut().flat_map(|keys| keys.states.iter_mut()) {
            let seen = read(client, bucket, key).await?;
            let found = states.iter().find(|state| state.map(Content::bytes) == seen);
            let len = seen.as_ref().map(Vec::len);
            let state =
                *found.unwrap_or_else(|| panic!("cycle {cycle}: {key} has {len:?} bytes; possible are {states:?}"));
            *states = vec![state];
            expected.extend(state.map(|content| (key.clone(), content.len)));
        }
        let listed = client.list_objects_v2().bucket(bucket).prefix("w").send().await;
        let listed = answer(listed, ExpectedEnd::Killed)?;
        let objects = listed.contents().iter().filter(|object| object.key().is_some_and(|key| !key.ends_with('/')));
        let sizes = objects.map(|object| {
            let size = usize::try_from(object.size().expect("a size")).expect("small");
            (object.key().expect("a key").to_owned(), size)
        });
        assert_eq!(sizes.collect::<BTreeMap<_, _>>(), expected, "the listing after cycle {cycle}");
        Ok(())
    }
}

impl Change {
    /// The keys that the request changes, and their content afterwards.
    fn outcome(&self) -> (Vec<String>, Option<Content>) {
        match self {
            Self::Put(key, content) | Self::Upload(key, content) => (vec![key.clone()], Some(*content)),
            Self::Copy { to, content, .. } => (vec![to.clone()], Some(*content)),
            Self::Delete(keys) => (keys.clone(), None),
        }
    }

    async fn request(&self, client: &Client, bucket: &str, expected_end: ExpectedEnd) -> Answer {
        match self {
            Self::Put(key, content) => {
                let put = client.put_object().bucket(bucket).key(key).body(content.bytes().into());
                answer(put.send().await, expected_end).into()
            }
            Self::Upload(key, content) => upload(client, (bucket, key), *content, expected_end).await.into(),
            Self::Copy { from, to, .. } => {
                let copy = client.copy_object().bucket(bucket).key(to).copy_source(format!("{bucket}/{from}"));
                answer(copy.send().await, expected_end).into()
            }
            Self::Delete(keys) => match &keys[..] {
                [key] => answer(client.delete_object().bucket(bucket).key(key).send().await, expected_end).into(),
                keys => match answer(delete_all(client, bucket, keys).await, expected_end) {
                    // Each key has its own result in the answer.
                    Ok(deleted) if deleted.errors().is_empty() => Answer::Acknowledged,
                    Ok(deleted) => {
                        assert!(expected_end.is_cut(), "refused: {:?}", deleted.errors());
                        Answer::Lost
                    }
                    Err(lost) => lost,
                },
            },
        }
    }
}

/// A length for each place of content: the record, a segment, a file.
fn len(rng: &mut Rng) -> usize {
    let longest = match rng.below(20) {
        0..8 => 4096,
        8..14 => 128 << 10,
        _ => 1 << 20,
    };
    1 + rng.below(longest)
}

async fn delete_all(
    client: &Client,
    bucket: &str,
    keys: &[String],
) -> Result<
    aws_sdk_s3::operation::delete_objects::DeleteObjectsOutput,
    aws_sdk_s3::error::SdkError<aws_sdk_s3::operation::delete_objects::DeleteObjectsError>,
> {
    let objects = keys.iter().map(|key| ObjectIdentifier::builder().key(key).build().expect("a key"));
    let delete = Delete::builder().set_objects(Some(objects.collect())).quiet(true).build().expect("objects");
    client.delete_objects().bucket(bucket).delete(delete).send().await
}

async fn upload(
    client: &Client,
    (bucket, key): (&str, &str),
    content: Content,
    expected_end: ExpectedEnd,
) -> Result<(), Answer> {
    let create = client.create_multipart_upload().bucket(bucket).key(key).send().await;
    let id = answer(create, expected_end)?.upload_id.expect("an id");
    let mut parts = CompletedMultipartUpload::builder();
    for (number, bytes) in (1..).zip(content.bytes().chunks(PART)) {
        let part = client.upload_part().bucket(bucket).key(key).upload_id(&id).part_number(number);
        let part = answer(part.body(bytes.to_vec().into()).send().await, expected_end)?;
        parts = parts.parts(CompletedPart::builder().part_number(number).set_e_tag(part.e_tag).build());
    }
    let complete = client.complete_multipart_upload().bucket(bucket).key(key).upload_id(&id);
    answer(complete.multipart_upload(parts.build()).send().await, expected_end).map(drop)
}

async fn read(client: &Client, bucket: &str, key: &str) -> Result<Option<Vec<u8>>, Answer> {
    let object = match client.get_object().bucket(bucket).key(key).send().await {
        Err(error) if error.as_service_error().is_some_and(GetObjectError::is_no_such_key) => return Ok(None),
        asked => answer(asked, ExpectedEnd::Killed)?,
    };
    // The body ends early if the server ended or found damage; damage ends the next read early too.
    object.body.collect().await.map(|body| Some(body.to_vec())).map_err(|_| Answer::Lost)
}
