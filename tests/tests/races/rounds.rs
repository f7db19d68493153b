//! The races: 64 clients per round, on one key.

use std::sync::Arc;

use tokio::sync::Barrier;

use super::checker::linearize;
use super::client::{Condition, Racer, Ready};
use super::history::Shown;
use super::{Effect, History};
use crate::support::access::root_client;
use crate::support::*;

const CLIENTS: usize = 64;
const ROUNDS: usize = 5;
const BUCKET: &str = "races";

/// A server, and clients that start together.
struct Race {
    _server: Server,
    clients: Vec<aws_sdk_s3::Client>,
}

impl Race {
    async fn new() -> Self {
        let server = Server::start();
        // Separate clients, so that each has its own connections.
        let clients: Vec<_> = (0..CLIENTS).map(|_| root_client(&server)).collect();
        clients[0].create_bucket().bucket(BUCKET).send().await.expect("made");
        Self { _server: server, clients }
    }

    /// A client for preparation, whose history is not checked.
    fn observer(&self, key: &str) -> Racer {
        let history = Arc::new(History::default());
        Racer { s3: self.clients[0].clone(), number: CLIENTS, bucket: BUCKET.to_owned(), key: key.to_owned(), history }
    }

    /// Has all clients do `work` on `key` at once, checks the history, and returns the result of each.
    async fn run<T, F>(&self, key: &str, first: Option<String>, work: impl Fn(Racer) -> F) -> Vec<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let history = Arc::new(History::default());
        let gate = Arc::new(Barrier::new(CLIENTS));
        let tasks: Vec<_> = (self.clients.iter().enumerate())
            .map(|(number, s3)| {
                let (bucket, key) = (BUCKET.to_owned(), key.to_owned());
                let racer = Racer { s3: s3.clone(), number, bucket, key, history: history.clone() };
                let (gate, work) = (gate.clone(), work(racer));
                tokio::spawn(async move {
                    gate.wait().await;
                    work.await
                })
            })
            .collect();
        let mut results = Vec::new();
        for task in tasks {
            results.push(task.await.expect("S3 gives such an answer"));
        }
        check(&first, &history);
        results
    }

    /// Uploads for all clients, prepared before the race. All contents differ, so an ETag identifies its writer.
    async fn uploads(&self, key: &str, what: &str) -> Vec<Ready> {
        let mut uploads = Vec::new();
        for number in 0..CLIENTS {
            uploads.push(self.observer(key).upload(format!("{key} {what} upload {number}")).await);
        }
        uploads
    }
}

#[track_caller]
fn check(first: &Option<String>, history: &History) {
    let operations = history.take();
    if let Err(longest) = linearize(first, &operations) {
        let order: Vec<_> = longest.iter().map(|index| operations[*index].clone()).collect();
        panic!(
            "this history is not linearizable from the state {first:?}:\n{}\nthe longest prefix of an order:\n{}",
            Shown(&operations),
            Shown(&order)
        );
    }
    let conflicts = operations.iter().filter(|operation| operation.effect == Effect::Nothing).count();
    // A client may retry after a 409, but with too many of them the clients would make no progress.
    assert!(conflicts * 2 < operations.len(), "{conflicts} of {} answers were 409", operations.len());
}

fn winner(etags: Vec<Option<String>>) -> String {
    let won: Vec<_> = etags.into_iter().flatten().collect();
    assert_eq!(won.len(), 1, "one of {CLIENTS} wins: {won:?}");
    won.into_iter().next().expect("one")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_many_creators_swappers_and_deleters_wins() {
    let race = Race::new().await;
    for round in 0..ROUNDS {
        let key = &format!("put {round}");
        let content = |racer: &Racer, what: &str| format!("{} {what} {}", racer.key, racer.number);
        let created = race
            .run(key, None, |racer| async move { racer.put(&Condition::Absent, content(&racer, "created by")).await });
        let created = winner(created.await);
        let swapped = race.run(key, Some(created.clone()), |racer| {
            let condition = Condition::Match(created.clone());
            async move { racer.put(&condition, content(&racer, "swapped by")).await }
        });
        let swapped = winner(swapped.await);
        let deleted = race.run(key, Some(swapped.clone()), |racer| {
            let etag = swapped.clone();
            async move { racer.delete(&etag).await.then(|| etag.clone()) }
        });
        winner(deleted.await);
        assert_eq!(race.observer(key).get().await, None, "{key} is gone");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_many_completions_wins() {
    let race = Race::new().await;
    for round in 0..ROUNDS {
        let key = &format!("upload {round}");
        let uploads = race.uploads(key, "created by").await;
        let created = race.run(key, None, |racer| {
            let upload = uploads[racer.number].clone();
            async move { racer.complete(&upload, &Condition::Absent).await }
        });
        let created = winner(created.await);
        let uploads = race.uploads(key, "swapped by").await;
        let swapped = race.run(key, Some(created.clone()), |racer| {
            let (upload, condition) = (uploads[racer.number].clone(), Condition::Match(created.clone()));
            async move { racer.complete(&upload, &condition).await }
        });
        let swapped = winner(swapped.await);
        assert_eq!(race.observer(key).get().await, Some(swapped));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_mix_of_requests_has_an_order() {
    let race = Race::new().await;
    let rng = Rng::new("races::rounds::every_mix");
    for round in 0..ROUNDS {
        let key = &format!("mix {round}");
        let uploads = race.uploads(key, "mixed by").await;
        race.run(key, None, |racer| {
            let rng = rng.fork((round * CLIENTS + racer.number) as u64);
            mix(racer.clone(), rng, uploads[racer.number].clone())
        })
        .await;
    }
}

/// A few requests one after another, each conditional on the state that the last one showed.
async fn mix(racer: Racer, mut rng: Rng, upload: Ready) {
    let mut upload = Some(upload);
    let mut seen: Option<String> = None;
    for step in 0..6 {
        let condition = seen.clone().map_or(Condition::Absent, Condition::Match);
        let content = format!("{} {} {step}", racer.key, racer.number);
        match (rng.below(10), &seen) {
            (0..=4, _) => seen = racer.put(&condition, content).await,
            (5, Some(etag)) => {
                racer.delete(etag).await;
                seen = None;
            }
            // Each upload is completed once: after success it no longer exists, and after a refusal it stays.
            (6..=7, _) if upload.is_some() => {
                seen = racer.complete(upload.as_ref().expect("checked"), &condition).await;
                if seen.is_some() {
                    upload = None;
                }
            }
            _ => seen = racer.get().await,
        }
    }
}
