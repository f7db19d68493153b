//! Scrub operations of the admin service.

use std::time::Duration;

use objstore::scrub::{Damage, Worker};
use proto::amphora::admin::v1 as api;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::{Service, finished, refused};

/// The interval of progress messages.
const PERIOD: Duration = Duration::from_millis(200);

/// The stream of progress messages of a scrub.
pub(super) type Scrubbed = ReceiverStream<Result<api::ScrubProgress, Status>>;

/// Begins a scrub pass or joins the one in progress, and reports its progress until it ends.
pub(super) fn run(service: &Service, request: &api::ScrubRequest) -> Scrubbed {
    let (answers, stream) = tokio::sync::mpsc::channel(1);
    let (store, scrub) = (service.store.clone(), service.scrub.clone());
    let before = scrub.stats();
    scrub.begin(request.bytes_per_second);
    tokio::spawn(async move {
        loop {
            let stats = scrub.stats();
            // A pass in progress may end just now; then it is the one that was asked for.
            if stats.passes > before.passes {
                let store = store.clone();
                let known = tokio::task::spawn_blocking(move || objstore::scrub::damage(&store)).await;
                let known = finished(known).and_then(|known| known.map_err(|error| refused(&error)));
                return drop(answers.send(known.map(done)).await);
            }
            if stats.errors > before.errors {
                let text = "the scrub was interrupted by an error: see the server's log; it continues in a minute";
                return drop(answers.send(Err(Status::internal(text))).await);
            }
            let (done_bytes, total_bytes) = stats.progress.unwrap_or_default();
            let progress = api::ScrubProgress { done_bytes, total_bytes, ..Default::default() };
            if answers.send(Ok(progress)).await.is_err() {
                return;
            }
            tokio::time::sleep(PERIOD).await;
        }
    });
    ReceiverStream::new(stream)
}

fn done(damage: Vec<Damage>) -> api::ScrubProgress {
    api::ScrubProgress { done: true, damaged: damage.into_iter().map(shown).collect(), ..Default::default() }
}

pub(super) fn shown(damage: Damage) -> api::DamagedContent {
    api::DamagedContent { owners: damage.who, reason: damage.why, found_unix_ms: damage.found.millis() }
}

/// The state of the scrub.
pub(super) fn status(worker: &Worker) -> api::ScrubStatus {
    let stats = worker.stats();
    let (done_bytes, total_bytes) = stats.progress.unwrap_or_default();
    api::ScrubStatus {
        started_unix_ms: stats.started.map(objstore::clock::Timestamp::millis),
        completed_unix_ms: stats.completed.map(objstore::clock::Timestamp::millis),
        running: stats.progress.is_some(),
        done_bytes,
        total_bytes,
        found: stats.found,
        errors: stats.errors,
    }
}
