//! The announced expiration of an object (S3 API, GetObject, `x-amz-expiration`).

use super::Day;
use super::rules::{Rules, Subject};
use crate::clock::Timestamp;
use crate::core::Core;
use crate::error::Result;
use crate::meta::Read;
use crate::record::bucket::Bucket;
use crate::record::inode::Inode;

/// The expiration of a key's current object, in calendar days.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expiration {
    /// The time from which it is due.
    pub at: Timestamp,
    /// The id of the rule.
    pub rule: String,
}

/// The expiration of a key's current object, by the settings that belong to its bucket's record.
pub(crate) fn of(
    read: &dyn Read,
    core: &Core,
    bucket: &Bucket,
    key: &str,
    inode: &Inode,
) -> Result<Option<Expiration>> {
    // Nothing is read for a bucket whose settings were never changed.
    if bucket.settings == 0 {
        return Ok(None);
    }
    let found = core.settings.of(read, bucket)?;
    let rules = Rules { rules: &found.lifecycle, day: Day::default(), now: Timestamp::default() };
    let expiry = rules.expiry(Subject::object(key, inode), inode.written());
    Ok(expiry.map(|(at, rule)| Expiration { at, rule: rule.id.clone() }))
}
