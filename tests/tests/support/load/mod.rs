//! S3 writers that know the possible states of each of their keys, for servers that crash, lose power or run full.
//!
//! - Each writer has its own keys and one request in progress: at the end one of its keys may be old or new, and all
//!   others are known.
//! - Keys of one bucket are put, copied, uploaded in parts and deleted; another bucket has versioning.

mod content;
mod keys;
mod versions;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::error::SdkError;
use tokio::task::JoinHandle;

use super::{Rng, make_bucket};
use tests::prelude::*;

pub use content::Content;
use keys::Keys;
use versions::VersionedKeys;

/// The bucket without versioning.
pub const BUCKET: &str = "load";
/// The bucket with versioning.
pub const VERSIONED_BUCKET: &str = "kept";
/// The time limit of a request, far above the usual time.
const REQUEST_LIMIT: Duration = Duration::from_secs(60);

/// How a writer expects the server to end.
#[derive(Clone, Copy, Debug)]
pub enum ExpectedEnd {
    /// The server is killed: a refusal fails the test.
    Killed,
    /// The disk fails once this is set, and the server refuses or ends. Later answers do not count: without power there
    /// would be none.
    PowerCut(&'static AtomicBool),
}

impl ExpectedEnd {
    fn is_cut(self) -> bool {
        matches!(self, Self::PowerCut(cut) if cut.load(Ordering::SeqCst))
    }
}

/// The outcome of a request.
pub enum Answer {
    /// The request succeeded.
    Acknowledged,
    /// No answer: the request may have had its effect or not.
    Lost,
}

/// Numbers of requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Acknowledged requests.
    pub done: usize,
    /// Keys that could have the old or the new state.
    pub open: usize,
}

/// All writers.
pub struct Load {
    keys: Vec<Keys>,
    histories: Vec<VersionedKeys>,
    /// The sums over all rounds.
    pub counts: Counts,
}

/// Running writers.
pub struct Round {
    keys: Vec<JoinHandle<Keys>>,
    histories: Vec<JoinHandle<VersionedKeys>>,
}

impl Load {
    /// Creates both buckets, `keys` writers for the first and `histories` for the second.
    pub fn new(server: &Server, keys: u64, histories: u64) -> Self {
        make_bucket(server, BUCKET, &[]);
        make_bucket(server, VERSIONED_BUCKET, &["--versioning"]);
        let histories = (0..histories).map(VersionedKeys::new).collect();
        Self { keys: (0..keys).map(|number| Keys::new(BUCKET, number)).collect(), histories, counts: Counts::default() }
    }

    /// Starts all writers; each writes until the server ends, or refuses.
    pub fn begin(&mut self, client: &Client, rng: &mut Rng, expected_end: ExpectedEnd) -> Round {
        let mut fork = || fork(rng);
        let mut round = Round { keys: Vec::new(), histories: Vec::new() };
        for keys in self.keys.drain(..) {
            round.keys.push(tokio::spawn(keys.work(client.clone(), fork(), expected_end)));
        }
        for histories in self.histories.drain(..) {
            round.histories.push(tokio::spawn(histories.work(client.clone(), fork(), expected_end)));
        }
        round
    }

    /// Waits until all writers have ended.
    pub async fn end(&mut self, round: Round) {
        for writer in round.keys {
            let keys = writer.await.expect("no request was refused");
            self.counts.open += keys.open();
            self.keys.push(keys);
        }
        for writer in round.histories {
            let histories = writer.await.expect("no request was refused");
            self.counts.open += histories.open();
            self.histories.push(histories);
        }
        let done = self.keys.iter_mut().map(Keys::take_done).sum::<usize>();
        self.counts.done += done + self.histories.iter_mut().map(VersionedKeys::take_done).sum::<usize>();
    }

    /// Asserts that every key has a possible state, which is its known state from now on.
    pub async fn compare(&mut self, client: &Client, cycle: usize) {
        let compared = Keys::compare(client, &mut self.keys, cycle).await;
        assert!(compared.is_ok(), "cycle {cycle}: an answer ended early");
        for histories in &mut self.histories {
            histories.compare(client, cycle).await;
        }
    }
}

/// One writer that continues across crashes of its server until `going` is false. It compares its keys once the next
/// server answers.
pub async fn write_through(client: Client, bucket: &'static str, mut rng: Rng, going: &AtomicBool) -> usize {
    let mut keys = Keys::new(bucket, 0);
    let mut done = 0;
    while going.load(Ordering::Relaxed) {
        keys = keys
            .work_while(client.clone(), fork(&mut rng), ExpectedEnd::Killed, || going.load(Ordering::Relaxed))
            .await;
        done += keys.take_done();
        // The next crash may come before all keys are compared.
        while Keys::compare(&client, std::slice::from_mut(&mut keys), done).await.is_err() {
            if !going.load(Ordering::Relaxed) {
                return done;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    done
}

fn fork(rng: &mut Rng) -> Rng {
    let number = rng.roll();
    rng.fork(number)
}

/// The outcome of a request. Panics on an unexpected refusal.
fn answer<T, E: std::fmt::Debug>(answer: Result<T, SdkError<E>>, expected_end: ExpectedEnd) -> Result<T, Answer> {
    match answer {
        Ok(value) => Ok(value),
        Err(SdkError::DispatchFailure(_) | SdkError::ResponseError(_) | SdkError::TimeoutError(_)) => Err(Answer::Lost),
        Err(SdkError::ServiceError(error)) if expected_end.is_cut() && error.raw().status().is_server_error() => {
            Err(Answer::Lost)
        }
        Err(error) => panic!("refused: {error:?}"),
    }
}

impl<T> From<Result<T, Self>> for Answer {
    fn from(answer: Result<T, Self>) -> Self {
        answer.map_or_else(|lost| lost, |_| Self::Acknowledged)
    }
}
