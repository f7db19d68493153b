//! The Container Object Storage Interface: buckets and keys for Kubernetes, on the store.
//!
//! - The backend bucket has the name it was requested by: the Secret that the v1alpha1 sidecar writes carries that
//!   name and no other.
//! - Buckets belong to the account [`OWNER`]; each access is an account of its own, named [`ACCESS_PREFIX`] and the
//!   requested name. Access may be granted to any bucket; only buckets and accounts that this driver made are deleted
//!   here (`made.rs`).
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
mod made;
mod pace;
mod parameters;
mod rpc;
pub mod size;
mod status;
pub mod v1alpha1;

use std::sync::Arc;
use std::time::Duration;

use objstore::Store;
use tonic::service::Routes;

use pace::Pace;

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
    /// How old a new bucket is when its creation is answered (`pace.rs`); zero: no wait.
    pub answer_delay: Duration,
}

/// The services of every version, for one socket.
pub fn routes(store: Store, config: Config) -> Routes {
    v1alpha1::routes(&Driver::new(store, config))
}

/// The operations behind every version.
#[derive(Clone)]
struct Driver {
    store: Store,
    config: Arc<Config>,
    pace: Arc<Pace>,
}

impl Driver {
    fn new(store: Store, config: Config) -> Self {
        let pace = Arc::new(Pace::new(config.answer_delay));
        Self { store, config: Arc::new(config), pace }
    }
}
