//! Look-up of the time at which the current object of a key expires.

use super::Store;
use crate::error::Result;
use crate::expiry::{Expiration, expiration};
use crate::name::{BucketName, Key};
use crate::tree::Tree;

impl Store {
    /// The expiration of a key's current object; `None` if there is no object.
    pub fn expiration(&self, bucket: &BucketName, key: &Key) -> Result<Option<Expiration>> {
        let snapshot = self.core.meta.snapshot();
        let Some(record) = self.core.bucket_record(&*snapshot, bucket)? else { return Ok(None) };
        let ancestry = self.core.lines.ancestry(&*snapshot, record.clone_group, record.branch)?;
        match (Tree { read: &*snapshot, ancestry: &ancestry }).object(key)? {
            Some((_, inode)) => expiration::of(&*snapshot, &self.core, &record, key.as_str(), &inode),
            None => Ok(None),
        }
    }
}
