//! The Container Object Storage Interface: buckets and keys for Kubernetes, on the store.
//!
//! - The backend bucket has the name it was requested by: the Secret that the v1alpha1 sidecar writes carries that
//!   name and no other.
//! - Buckets belong to the account [`OWNER`]; each access is an account of its own, named [`ACCESS_PREFIX`] and the
//!   requested name. Only those accounts can be revoked here.
//! - Every call may come again, and three times at once: the repeated call answers what the first one answered, with
//!   the same secret.
//! - A call runs to its end though its caller leaves, and a call that fails takes back what it made.
//! - What a version of the specification needs beyond this lives in a module of its name; the meaning is in
//!   `bucket.rs` and `access.rs`, for all versions.
//!
//! A crash between two steps leaves an account without a key, or a bucket whose keys are gone; repeating the call
//! completes it.

mod access;
mod bucket;
mod parameters;
mod rpc;
pub mod size;
mod status;
pub mod v1alpha1;

use std::sync::Arc;

use objstore::Store;
use tonic::service::Routes;

/// The account that owns the buckets made here.
pub const OWNER: &str = "cosi";

/// What the name of an account that was made for an access begins with.
pub const ACCESS_PREFIX: &str = "cosi-";

/// What the driver says of itself and of the S3 endpoint.
#[derive(Clone, Debug)]
pub struct Config {
    /// The name in BucketClass and BucketAccessClass, such as `cosi.amphora.dev`.
    pub driver_name: String,
    /// Where workloads reach the S3 endpoint, as the Secrets carry it.
    pub s3_endpoint_url: String,
    /// The region the S3 endpoint answers for.
    pub region: String,
}

/// The services of every version, for one socket.
pub fn routes(store: Store, config: Config) -> Routes {
    v1alpha1::routes(&Driver { store, config: Arc::new(config) })
}

/// The operations behind every version.
#[derive(Clone)]
struct Driver {
    store: Store,
    config: Arc<Config>,
}
