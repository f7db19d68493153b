//! S3 writers that know what each of their keys may contain, for servers that crash, are cut off or run full.
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
use versions::Histories;

/// The bucket without versions.
pub const BUCKET: &str = "load";
/// The bucket that keeps them.
pub const KEPT: &str = "kept";
/// Far above what a request takes that is answered at all.
const REQUEST_LIMIT: Duration = Duration::from_secs(60);

/// What a writer expects to end it.
#[derive(Clone, Copy, Debug)]
pub enum Ended {
    /// The server dies: a refusal is a failure of the test.
    ByDeath,
    /// The disk goes once this is set, and the server refuses or dies. What is answered from then on counts for nothing:
    /// without power there would be no answer.
    ByCut(&'static AtomicBool),
}

impl Ended {
    fn is_cut(self) -> bool {
        matches!(self, Self::ByCut(cut) if cut.load(Ordering::SeqCst))
    }
}

/// How a request ended.
pub enum Answer {
    /// It was done.
    Acknowledged,
    /// Nobody knows.
    Lost,
}

/// How much was asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Requests that were acknowledged.
    pub done: usize,
    /// Keys of which nobody knew whether they are old or new.
    pub open: usize,
}

/// All writers and what they know.
pub struct Load {
    keys: Vec<Keys>,
    histories: Vec<Histories>,
    /// Over all rounds.
    pub counts: Counts,
}

/// Writers at work.
pub struct Round {
    keys: Vec<JoinHandle<Keys>>,
    histories: Vec<JoinHandle<Histories>>,
}

impl Load {
    /// Makes the buckets, and so many writers to each.
    pub fn new(server: &Server, keys: u64, histories: u64) -> Self {
        make_bucket(server, BUCKET, &[]);
        make_bucket(server, KEPT, &["--versioning"]);
        let histories = (0..histories).map(Histories::new).collect();
        Self { keys: (0..keys).map(|number| Keys::new(BUCKET, number)).collect(), histories, counts: Counts::default() }
    }

    /// Lets all write until the server is gone, or refuses.
    pub fn begin(&mut self, client: &Client, rng: &mut Rng, ended: Ended) -> Round {
        let mut fork = || fork(rng);
        let mut round = Round { keys: Vec::new(), histories: Vec::new() };
        for keys in self.keys.drain(..) {
            round.keys.push(tokio::spawn(keys.work(client.clone(), fork(), ended)));
        }
        for histories in self.histories.drain(..) {
            round.histories.push(tokio::spawn(histories.work(client.clone(), fork(), ended)));
        }
        round
    }

    /// Waits until all ended.
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
        self.counts.done += done + self.histories.iter_mut().map(Histories::take_done).sum::<usize>();
    }

    /// Compares all there is with what may be, and goes on from there.
    pub async fn compare(&mut self, client: &Client, cycle: usize) {
        let compared = Keys::compare(client, &mut self.keys, cycle).await;
        assert!(compared.is_ok(), "cycle {cycle}: an answer was cut off");
        for histories in &mut self.histories {
            histories.compare(client, cycle).await;
        }
    }
}

/// One writer that goes on through the deaths of its server, until it is told to stop: what was under way is looked at
/// once the next server answers.
pub async fn write_through(client: Client, bucket: &'static str, mut rng: Rng, going: &AtomicBool) -> usize {
    let mut keys = Keys::new(bucket, 0);
    let mut done = 0;
    while going.load(Ordering::Relaxed) {
        keys = keys.work_while(client.clone(), fork(&mut rng), Ended::ByDeath, || going.load(Ordering::Relaxed)).await;
        done += keys.take_done();
        // The next death may come before all is compared.
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

/// What came of a request. Fails on a refusal that nothing explains.
fn answer<T, E: std::fmt::Debug>(answer: Result<T, SdkError<E>>, ended: Ended) -> Result<T, Answer> {
    match answer {
        Ok(value) => Ok(value),
        Err(SdkError::DispatchFailure(_) | SdkError::ResponseError(_) | SdkError::TimeoutError(_)) => Err(Answer::Lost),
        Err(SdkError::ServiceError(error)) if ended.is_cut() && error.raw().status().is_server_error() => {
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
