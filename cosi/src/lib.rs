//! The Container Object Storage Interface: buckets and access keys of the store for Kubernetes.
//!
//! - A bucket has exactly the requested name, because the Secret that the v1alpha1 sidecar writes carries that name
//!   only.
//! - Buckets belong to the account [`OWNER`]. Each access is a separate account, named [`ACCESS_PREFIX`] and the
//!   requested name. Access may be granted to any bucket; only buckets and accounts that this driver created are
//!   deleted (`made.rs`).
//! - An access has an access key, or a role for a ServiceAccount and no key at all (`service_account.rs`).
//! - Every call may be repeated, even several times concurrently: a repeated call returns the same answer as the first,
//!   with the same secret.
//! - A call runs to its end even if its caller disconnects, and a failed call undoes its steps.
//! - Both versions of the specification, v1alpha1 and v1alpha2, are answered on one socket. What differs between them is
//!   in a module of the version's name; `bucket.rs` serves both, `access.rs` the accesses of v1alpha1 to one bucket, and
//!   `multi_bucket.rs` those of v1alpha2.
//!
//! A crash between two steps leaves an account without a key, or a bucket whose keys are gone; repeating the call
//! completes it.

mod access;
mod bucket;
mod made;
mod multi_bucket;
mod parameters;
mod preset;
mod rate;
mod rpc;
mod service_account;
pub mod size;
mod status;
pub mod v1alpha1;
mod v1alpha2;

use std::sync::Arc;
use std::time::Duration;

use ::rpc::driver_name::{self, is_driver_name};
use objstore::{Error, Result, Store};
use tonic::service::Routes;

use rate::CreationRate;

/// The account that owns buckets created by this driver.
pub const OWNER: &str = "cosi";

/// The prefix of account names created for an access.
pub const ACCESS_PREFIX: &str = "cosi-";

/// The driver's identity, and the address of the S3 endpoint.
#[derive(Clone, Debug)]
pub struct Config {
    /// The name in BucketClass and BucketAccessClass, such as `cosi.amphora.dev`.
    pub driver_name: String,
    /// The URL of the S3 endpoint for workloads, as the Secrets carry it.
    pub s3_endpoint_url: String,
    /// The region of the S3 endpoint.
    pub region: String,
    /// The issuer of the tokens of ServiceAccounts, if STS accepts any.
    pub issuer: Option<String>,
    /// The age of a new bucket at which its creation is answered (`rate.rs`); zero disables the wait.
    pub answer_delay: Duration,
}

impl Config {
    /// Refuses a name that COSI does not allow (COSI v1alpha1 and v1alpha2, DriverGetInfoResponse).
    pub fn check(&self) -> Result<()> {
        match is_driver_name(&self.driver_name) {
            true => Ok(()),
            false => Err(Error::invalid("COSI driver name", &self.driver_name, driver_name::RULE)),
        }
    }
}

/// The services of all versions, for one socket.
pub fn routes(store: Store, config: Config) -> Routes {
    let driver = Driver::new(store, config);
    v1alpha2::routes(v1alpha1::routes(&driver), &driver)
}

/// The operations, for all versions.
#[derive(Clone)]
struct Driver {
    store: Store,
    config: Arc<Config>,
    rate: Arc<CreationRate>,
}

impl Driver {
    fn new(store: Store, config: Config) -> Self {
        let rate = Arc::new(CreationRate::new(config.answer_delay));
        Self { store, config: Arc::new(config), rate }
    }
}
