//! An S3 client that writes to the bucket while the mount's server changes.

use std::sync::atomic::AtomicBool;

use aws_sdk_s3::Client;

use super::BUCKET;
use crate::support::Rng;
use crate::support::load::write_through;

/// Writes until `going` is false, and compares after each kill. Unlike a program, a client notices that its connection
/// ended.
pub fn write(client: Client, rng: Rng, going: &AtomicBool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let done = runtime.block_on(write_through(client, BUCKET, rng, going));
    assert!(done > 5, "only {done} requests were acknowledged: too little load");
}
