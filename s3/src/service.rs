//! The arguments of every operation: the service, and the request that it serves.

use std::ops::Deref;
use std::sync::Arc;

use objstore::Store;
use s3s::S3Result;

use crate::authorization::{Callers, Reader};
use crate::blocking::blocking;
use crate::request::Request;

/// The state that all requests share.
pub(crate) struct Service {
    /// The store.
    pub(crate) store: Store,
    /// The region buckets are in.
    pub(crate) region: Arc<str>,
    /// Whether presigned URLs of Signature Version 2 are accepted.
    pub(crate) presigned_v2: bool,
    /// The issuers of OpenID Connect whose tokens STS accepts.
    pub(crate) issuers: s3_oidc::Issuers,
    /// Reads callers' access to buckets.
    pub(crate) bucket_access: Arc<Reader>,
    /// The credential cache.
    pub(crate) callers: Callers,
}

impl Service {
    /// Runs blocking work on the store, off the async workers.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store) -> S3Result<T> + Send + 'static,
    ) -> S3Result<T> {
        blocking(&self.store, work).await
    }
}

/// The call of an operation: the service, and the request that is served. A cheap handle.
#[derive(Clone)]
pub(crate) struct Call {
    /// The state that all requests share.
    pub(crate) service: Arc<Service>,
    /// The context of the request.
    pub(crate) request: Arc<Request>,
}

impl Deref for Call {
    type Target = Service;

    fn deref(&self) -> &Service {
        &self.service
    }
}
