//! Blocking calls of the store, off the async workers.

use objstore::Store;
use s3s::S3Result;

use crate::error::lost;

/// Runs blocking work on the store, off the async workers.
pub(crate) async fn blocking<T: Send + 'static>(
    store: &Store,
    work: impl FnOnce(&Store) -> S3Result<T> + Send + 'static,
) -> S3Result<T> {
    let store = store.clone();
    tokio::task::spawn_blocking(move || work(&store)).await.map_err(|error| lost(&error))?
}
