//! Backup and restore operations of the admin service; the server reads and writes the folder itself.

use std::sync::Arc;

use objstore::Store;
use objstore::backup::{self, Backup, Folder, Progress};
use proto::amphora::admin::v1 as api;
use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::TrySendError;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::bucket::name;
use super::mount::directory;
use super::{Service, finished, refused};
use crate::backups::Backups;

/// The most progress messages that wait for a slow client; further ones are dropped.
const WAITING_MAX: usize = 16;

/// The stream of progress messages of a backup or restore.
pub(super) type ProgressStream = ReceiverStream<Result<api::BackupProgress, Status>>;

/// Backs a bucket up.
pub(super) async fn create(service: &Service, request: api::BackupRequest) -> Result<ProgressStream, Status> {
    let (bucket, dir) = (name(&request.bucket)?, directory(&request.dir)?);
    let folder = Arc::new(looked(move || Folder::for_writing(&dir)).await?);
    let (answers, stream) = tokio::sync::mpsc::channel(WAITING_MAX);
    let (store, backups) = (service.store.clone(), service.backups.clone());
    tokio::spawn(async move {
        let made = backup::create(&store, &bucket, &folder, &teller(answers.clone())).await;
        // Closed before the answer, because the client may begin the next backup then.
        drop(folder);
        let made = note(made, store, backups).await;
        end(&answers, made).await;
    });
    Ok(ReceiverStream::new(stream))
}

/// Records the outcome of a backup for metrics.
async fn note(made: objstore::Result<Backup>, store: Store, backups: Arc<Backups>) -> objstore::Result<Backup> {
    let noted = match &made {
        Ok(done) => {
            let (bucket, at) = (done.bucket.clone(), done.created);
            tokio::task::spawn_blocking(move || backups.succeeded(&store, &bucket, at))
        }
        Err(_) => tokio::task::spawn_blocking(move || backups.failed()),
    };
    if let Err(error) = noted.await {
        tracing::error!(%error, "cannot record the time of a backup");
    }
    made
}

/// Restores a bucket.
pub(super) async fn restore(service: &Service, request: api::RestoreRequest) -> Result<ProgressStream, Status> {
    let dir = directory(&request.dir)?;
    let to = name(if request.name.is_empty() { &request.bucket } else { &request.name })?;
    let bucket = request.bucket;
    let (folder, bucket, id) = looked(move || {
        let folder = Folder::for_reading(&dir)?;
        let id = request.id.map_or_else(|| backup::newest(&folder, &bucket), Ok)?;
        Ok((Arc::new(folder), bucket, id))
    })
    .await?;
    let (answers, stream) = tokio::sync::mpsc::channel(WAITING_MAX);
    let store = service.store.clone();
    tokio::spawn(async move {
        let restored = backup::restore(&store, &folder, (&bucket, &id), &to, &teller(answers.clone())).await;
        end(&answers, restored).await;
    });
    Ok(ReceiverStream::new(stream))
}

/// Runs a blocking read of a backup folder.
async fn looked<T: Send + 'static>(look: impl FnOnce() -> objstore::Result<T> + Send + 'static) -> Result<T, Status> {
    finished(tokio::task::spawn_blocking(look).await)?.map_err(|error| refused(&error))
}

/// Sends progress to the client; if it disconnects, the operation ends.
fn teller(answers: Sender<Result<api::BackupProgress, Status>>) -> backup::ProgressSink {
    Arc::new(move |progress| match answers.try_send(Ok(shown(progress, None))) {
        Ok(()) | Err(TrySendError::Full(_)) => Ok(()),
        Err(TrySendError::Closed(_)) => {
            Err(objstore::Error::Engine { why: "the command that requested it has ended".into() })
        }
    })
}

async fn end(answers: &Sender<Result<api::BackupProgress, Status>>, done: objstore::Result<Backup>) {
    let last = match done {
        Ok(done) => Ok(shown(Progress::default(), Some(done))),
        Err(error) => {
            tracing::warn!(error = crate::failure::with_causes(&error), "a backup or restore failed");
            Err(refused(&error))
        }
    };
    let _ = answers.send(last).await;
}

fn shown(progress: Progress, result: Option<Backup>) -> api::BackupProgress {
    let Progress { bucket, done_bytes, total_bytes, sent_bytes } = progress;
    let result = result.map(|done| api::BackupInfo {
        id: done.id,
        bucket: done.bucket,
        created_unix_ms: done.created.millis(),
        objects: done.objects,
        size_bytes: done.bytes,
        sent_bytes: done.sent_bytes,
        damaged: done.damaged,
    });
    api::BackupProgress { bucket, done_bytes, total_bytes, sent_bytes, result }
}
