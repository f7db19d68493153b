//! Content that is known to be damaged.

use crate::error::{Error, Result};
use crate::meta::Read;
use crate::record::damage::Damaged;
use crate::record::decode;
use crate::record::key::{self, tag};

/// Refuses to read quarantined content as if it was intact.
pub(crate) fn refuse_damaged(read: &dyn Read, blob: u64) -> Result<()> {
    match read.get(&key::by_id(tag::DAMAGED, blob))? {
        None => Ok(()),
        Some(value) => {
            let why = decode::<Damaged>("quarantined content", &value)?.why;
            Err(Error::corrupt(format!("blob {blob:016x}"), "its content", format!("quarantined content: {why}")))
        }
    }
}
