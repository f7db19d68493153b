//! S3 writers, and a server that is killed under them.
//!
//! - Each writer has keys of its own, and one request under way: after a kill one of its keys may be old or new, and
//!   all others are known.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::error::SdkError;
use aws_sdk_s3::operation::get_object::GetObjectError;
use aws_sdk_s3::types::{CompletedMultipartUpload, CompletedPart, Delete, ObjectIdentifier};

use crate::support::access::client_of;
use crate::support::cli::check_store;
use crate::support::*;

const BUCKET: &str = "load";
const CYCLES: usize = 20;
const WRITERS: u64 = 6;
const KEYS: usize = 12;
/// The least size of a part that is not the last (S3 API, CompleteMultipartUpload).
const PART: usize = 5 << 20;
/// Far above what a request takes that is answered at all.
const REQUEST_LIMIT: Duration = Duration::from_secs(60);

/// What a key may hold: one state, or while a request is under way two. `None`: no object.
type Held = BTreeMap<String, Vec<Option<Content>>>;

/// Content that a length and a seed give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Content {
    len: usize,
    seed: u64,
}

/// How a request ended.
enum Answer {
    Acknowledged,
    /// The connection broke: nobody knows.
    Lost,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_objects_survive_kills() {
    let mut dice = Dice::new("kill::objects");
    let mut server = Server::start();
    make_bucket(&server, BUCKET, &[]);
    let mut all: Vec<Held> = (0..WRITERS).map(|_| Held::new()).collect();
    let (mut written, mut lost) = (0, 0);
    for cycle in 0..CYCLES {
        let client = client_of(&server, &server.credentials());
        let writers: Vec<_> = (0..WRITERS)
            .zip(all.drain(..))
            .map(|(number, held)| {
                let dice = dice.fork(cycle as u64 * WRITERS + number + 1);
                tokio::spawn(Writer { client: client.clone(), number, held, dice, done: 0 }.work())
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(150 + dice.below(450) as u64)).await;
        server.kill9();
        for writer in writers {
            let (held, done) = writer.await.expect("no request was refused");
            (written, lost) = (written + done, lost + held.values().filter(|states| states.len() > 1).count());
            all.push(held);
        }
        if cycle % 5 == 4 {
            check_store(&server);
        }
        server.restart();
        compare(&client_of(&server, &server.credentials()), &mut all, cycle).await;
    }
    assert!(written > CYCLES * 10 && lost > CYCLES / 2, "{written} acknowledged, {lost} lost: no load to speak of");
    assert_eq!(server.terminate().code(), Some(0));
    check_store(&server);
}

struct Writer {
    client: Client,
    number: u64,
    held: Held,
    dice: Dice,
    done: usize,
}

impl Writer {
    /// Writes until the server is gone.
    async fn work(mut self) -> (Held, usize) {
        loop {
            let keys = match self.dice.below(20) {
                0 => 3,
                _ => 1,
            };
            let first = self.dice.below(KEYS);
            let keys: Vec<_> =
                (first..first + keys).map(|key| format!("w{}/d{}/k{}", self.number, key % 3, key % KEYS)).collect();
            let content = self.draw(keys.len());
            for key in &keys {
                self.held.entry(key.clone()).or_insert_with(|| vec![None]).push(content);
            }
            let answer = tokio::time::timeout(REQUEST_LIMIT, self.request(&keys, content)).await;
            match answer.expect("a request is answered, or its connection ends") {
                Answer::Lost => return (self.held, self.done),
                Answer::Acknowledged => self.done += 1,
            }
            for key in &keys {
                self.held.insert(key.clone(), vec![content]);
            }
        }
    }

    /// What the keys are to hold: content, or nothing.
    fn draw(&mut self, keys: usize) -> Option<Content> {
        if keys > 1 || self.dice.chance(20) {
            return None;
        }
        let len = match self.dice.below(20) {
            0..8 => 1 + self.dice.below(4096),
            8..14 => 1 + self.dice.below(128 << 10),
            14..19 => 1 + self.dice.below(1 << 20),
            _ => PART + 1 + self.dice.below(1 << 16),
        };
        Some(Content { len, seed: self.dice.roll() })
    }

    async fn request(&self, keys: &[String], content: Option<Content>) -> Answer {
        match (keys, content) {
            ([key], Some(content)) if content.len > PART => self.upload(key, content).await,
            ([key], Some(content)) => {
                let put = self.client.put_object().bucket(BUCKET).key(key).body(content.bytes().into());
                answer(put.send().await)
            }
            ([key], None) => answer(self.client.delete_object().bucket(BUCKET).key(key).send().await),
            (keys, _) => {
                let objects = keys.iter().map(|key| ObjectIdentifier::builder().key(key).build().expect("a key"));
                let delete = Delete::builder().set_objects(Some(objects.collect())).quiet(true).build();
                let delete = delete.expect("objects");
                answer(self.client.delete_objects().bucket(BUCKET).delete(delete).send().await)
            }
        }
    }

    async fn upload(&self, key: &str, content: Content) -> Answer {
        let create = self.client.create_multipart_upload().bucket(BUCKET).key(key).send().await;
        let id = match create {
            Ok(upload) => upload.upload_id.expect("an id"),
            failed => return answer(failed),
        };
        let mut parts = CompletedMultipartUpload::builder();
        for (number, bytes) in (1..).zip(content.bytes().chunks(PART)) {
            let part = self.client.upload_part().bucket(BUCKET).key(key).upload_id(&id).part_number(number);
            match part.body(bytes.to_vec().into()).send().await {
                Ok(part) => {
                    let done = CompletedPart::builder().part_number(number).set_e_tag(part.e_tag);
                    parts = parts.parts(done.build());
                }
                failed => return answer(failed),
            }
        }
        let complete = self.client.complete_multipart_upload().bucket(BUCKET).key(key).upload_id(&id);
        answer(complete.multipart_upload(parts.build()).send().await)
    }
}

/// Fails on a refusal: a server that is killed has no time for one.
fn answer<T, E: std::fmt::Debug>(answer: Result<T, SdkError<E>>) -> Answer {
    match answer {
        Ok(_) => Answer::Acknowledged,
        Err(SdkError::DispatchFailure(_) | SdkError::ResponseError(_) | SdkError::TimeoutError(_)) => Answer::Lost,
        Err(error) => panic!("refused: {error:?}"),
    }
}

/// Each key holds one of the states it may hold, and from now on that one; the listing shows the same.
async fn compare(client: &Client, all: &mut [Held], cycle: usize) {
    let mut expected = BTreeMap::new();
    for (key, states) in all.iter_mut().flat_map(BTreeMap::iter_mut) {
        let seen = read(client, key).await;
        let found = states.iter().find(|state| state.map(Content::bytes) == seen);
        let len = seen.as_ref().map(Vec::len);
        let state = *found.unwrap_or_else(|| panic!("cycle {cycle}: {key} holds {len:?} bytes, it may be {states:?}"));
        *states = vec![state];
        expected.extend(state.map(|content| (key.clone(), content.len)));
    }
    let listed = client.list_objects_v2().bucket(BUCKET).send().await.expect("a listing");
    let sizes = listed.contents().iter().map(|object| {
        let size = usize::try_from(object.size().expect("a size")).expect("small");
        (object.key().expect("a key").to_owned(), size)
    });
    assert_eq!(sizes.collect::<BTreeMap<_, _>>(), expected, "the listing after cycle {cycle}");
}

async fn read(client: &Client, key: &str) -> Option<Vec<u8>> {
    match client.get_object().bucket(BUCKET).key(key).send().await {
        Ok(object) => Some(object.body.collect().await.unwrap_or_else(|error| panic!("{key}: {error}")).to_vec()),
        Err(error) if error.as_service_error().is_some_and(GetObjectError::is_no_such_key) => None,
        Err(error) => panic!("{key}: {error:?}"),
    }
}

impl Content {
    fn bytes(self) -> Vec<u8> {
        let mut state = self.seed | 1;
        let words = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state ^ (state >> 31)).to_le_bytes()
        });
        let mut bytes: Vec<u8> = words.take(self.len.div_ceil(8)).flatten().collect();
        bytes.truncate(self.len);
        bytes
    }
}
