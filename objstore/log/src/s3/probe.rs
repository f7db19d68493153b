//! Whether the store honours conditions: without them two owners could overwrite each other.
//!
//! A crash leaves an object of a few bytes below `probe/`, which nothing reads.

use bytes::Bytes;
use objstore_bucket::Error as BucketError;

use super::{S3, random, unavailable, unknown};
use crate::error::{Error, Result};

/// An entity tag that no object has.
const OTHER: &str = "\"00000000000000000000000000000000\"";

impl S3 {
    pub(super) fn probe(&self) -> Result<()> {
        let key = format!("probe/{:032x}", u128::from_be_bytes(random()?));
        let outcome = self.probe_at(&key);
        if let Err(error) = self.records.remove(&[key]) {
            tracing::debug!(%error, "a probe of the log's bucket was not removed");
        }
        outcome
    }

    fn probe_at(&self, key: &str) -> Result<()> {
        let write = |text: &'static str| self.records.put(key, Bytes::from_static(text.as_bytes()));
        let refused = |outcome: objstore_bucket::Result<String>, condition: &str| match outcome {
            Err(BucketError::Conflict { .. }) => Ok(()),
            Ok(_) => Err(self.ignores(condition)),
            Err(error) => Err(unavailable(error)),
        };
        let etag = write("first").map_err(unknown)?;
        refused(write("second"), "If-None-Match: *")?;
        let replace =
            |text: &'static str, etag: &str| self.records.replace(key, Bytes::from_static(text.as_bytes()), etag);
        refused(replace("third", OTHER), "If-Match")?;
        let next = replace("fourth", &etag).map_err(unknown)?;
        refused(replace("fifth", &etag), "If-Match")?;
        if next == etag {
            return Err(self.ignores("If-Match (the entity tag of an object does not change with its content)"));
        }
        let there = self.records.get(key, 64).map_err(unavailable)?;
        if there.etag == next && there.bytes == "fourth" { Ok(()) } else { Err(self.ignores("If-Match")) }
    }

    fn ignores(&self, condition: &str) -> Error {
        let why = format!(
            "the S3 store at {} ignores the condition {condition} of PutObject, so two servers could overwrite each other's \
             log: use a version or a product that supports conditional writes, or keep the log in PostgreSQL",
            self.place
        );
        Error::Unusable { why }
    }
}
