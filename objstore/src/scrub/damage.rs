//! Known damage: recording, listing and clearing.

use prost::Message;

use crate::clock::Timestamp;
use crate::core::Core;
use crate::error::Result;
use crate::meta::{Durability, Read};
use crate::record::damage::Damaged;
use crate::record::decode;
use crate::record::key::{self, tag};
use crate::store::Store;

/// Damaged, quarantined content: reading it answers an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The blob.
    pub blob: u64,
    /// When it was found.
    pub found: Timestamp,
    /// What is wrong.
    pub why: String,
    /// The owners at that time.
    pub who: Vec<String>,
}

/// All known damage that is still referenced.
///
/// # Errors
/// [`crate::Error::Corrupt`] if its records are unreadable.
pub fn damage(store: &Store) -> Result<Vec<Damage>> {
    let snapshot = store.core.meta.snapshot();
    let mut known = Vec::new();
    for pair in crate::store::all(&*snapshot, &[tag::DAMAGED])? {
        let Some(blob) = key::u64_at(&pair.key, 1) else { continue };
        if snapshot.get(&key::by_id(tag::BLOB, blob))?.is_some() {
            let Damaged { found, why, who, .. } = decode("quarantined content", &pair.value)?;
            known.push(Damage { blob, found: Timestamp(found), why, who });
        }
    }
    Ok(known)
}

/// Whether a blob is known to be damaged.
pub(super) fn is_known(read: &dyn Read, blob: u64) -> Result<bool> {
    Ok(read.get(&key::by_id(tag::DAMAGED, blob))?.is_some())
}

/// Records that a blob is damaged, unless it is gone or already recorded. Returns whether it is new.
pub(super) fn note(core: &Core, blob: u64, why: String, who: Vec<String>) -> Result<bool> {
    let found = core.clock.now().0;
    let noted = core.meta.write(Durability::Synced, move |txn| {
        if txn.get(&key::by_id(tag::BLOB, blob))?.is_none() || is_known(&*txn, blob)? {
            return Ok(false);
        }
        let record = Damaged { found, why, quarantine: Vec::new(), who };
        txn.put(key::by_id(tag::DAMAGED, blob), record.encode_to_vec());
        Ok(true)
    });
    noted.wait()
}

/// Clears the damage of a blob that reads well, unless it stands for quarantined records.
pub(super) fn forget(core: &Core, blob: u64) -> Result<bool> {
    let forgotten = core.meta.write(Durability::Buffered, move |txn| {
        let at = key::by_id(tag::DAMAGED, blob);
        let Some(value) = txn.get(&at)? else { return Ok(false) };
        let sound = decode::<Damaged>("quarantined content", &value)?.quarantine.is_empty();
        if sound {
            txn.delete(at);
        }
        Ok(sound)
    });
    forgotten.wait()
}

/// Clears the damage of blobs that are gone.
pub(super) fn sweep(core: &Core) -> Result<()> {
    let snapshot = core.meta.snapshot();
    for pair in crate::store::all(&*snapshot, &[tag::DAMAGED])? {
        let gone = [&[tag::BLOB], &pair.key[1..]].concat();
        if snapshot.get(&gone)?.is_none() {
            // Ids are never reused, so it stays gone.
            let swept = core.meta.write(Durability::Buffered, move |txn| {
                txn.delete(pair.key.to_vec());
                Ok(())
            });
            swept.wait()?;
        }
    }
    Ok(())
}
