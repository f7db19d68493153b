//! The interface between the writer and an engine: snapshots, an atomic commit, a sync. Engines differ here only.

use std::collections::BTreeMap;

use bytes::Bytes;
use objstore_base::error::{Error, Result};

use super::engine::Durability;
use super::stats::LogStats;
use super::txn::{Snapshot, Value};

/// The engine's own key for the last committed batch's number, 8 bytes big-endian.
pub(super) const BATCH_KEY: &[u8] = b"\0batch";

/// The smallest key that does not belong to the engine.
const FIRST_KEY: &[u8] = &[1];

/// The longest key that every engine must accept, in bytes.
const MAX_KEY_BYTES: usize = 65_535;

/// The changes of one batch: each key's new value, or `None` if the key is deleted.
pub(super) type Changes = BTreeMap<Bytes, Option<Value>>;

/// The store beneath the writer. Commits run one after another, and so do syncs, but a commit may run during a sync.
///
/// After an error from [`Backend::commit`] or [`Backend::sync`] the writer calls neither again.
pub(super) trait Backend: Send + Sync + 'static {
    /// A snapshot of the store after the last commit.
    fn snapshot(&self) -> Box<dyn Snapshot>;

    /// Applies all of `changes` at once and returns when they are as durable as `durability` asks. A synced commit also
    /// makes every earlier commit durable.
    fn commit(&self, changes: Changes, durability: Durability) -> Result<()>;

    /// Refuses an operation before it is queued, because earlier ones wait for too long.
    fn accepts(&self) -> Result<()> {
        Ok(())
    }

    /// The log on other machines, if one keeps the batches.
    fn log(&self) -> Option<LogStats> {
        None
    }

    /// Gives up the ownership of what is shared with other servers; after the last commit and sync.
    fn release(&self) {}

    /// Leaves the ownership to the next program of this process: [`Backend::release`] and dropping do not end it.
    fn leave(&self) {}

    /// Refuses a commit for which the disk is too full, before it begins: a commit that fails part way would poison the
    /// store.
    fn room(&self) -> Result<()> {
        Ok(())
    }

    /// Returns once every commit that returned before this call is on disk.
    fn sync(&self) -> Result<()>;
}

/// The part of `from..to` outside the engine's own keys; `None` if it is empty.
pub(super) fn span<'a>(from: &'a [u8], to: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
    let from = from.max(FIRST_KEY);
    (from < to).then_some((from, to))
}

/// Refuses a key that callers may not write: empty, too long, or one of the engine's own.
pub(super) fn check_key(key: &[u8]) -> Result<()> {
    let why = match key {
        [] => "a key has at least one byte".into(),
        [0, ..] => "keys that begin with the byte 0x00 are the engine's own".into(),
        _ if key.len() > MAX_KEY_BYTES => format!("a key has at most {MAX_KEY_BYTES} bytes, this one {}", key.len()),
        _ => return Ok(()),
    };
    Err(Error::invalid("metadata key", key[..key.len().min(64)].escape_ascii().to_string(), why))
}

/// Encodes a batch number as a stored value.
pub(super) fn encode_batch(number: u64) -> Value {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

/// Decodes a stored batch number; 0 if there is none, as nothing was committed yet.
pub(super) fn decode_batch(value: Option<&[u8]>) -> Result<u64> {
    let Some(value) = value else { return Ok(0) };
    let bytes = value
        .try_into()
        .map_err(|_| Error::corrupt("the metadata's batch number", "8 bytes", format!("{} bytes", value.len())))?;
    Ok(u64::from_be_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batch_number_round_trips_and_a_mutilated_one_is_corrupt() {
        assert_eq!(decode_batch(None).unwrap(), 0);
        assert_eq!(decode_batch(Some(&encode_batch(258))).unwrap(), 258);
        assert_eq!(&encode_batch(258)[..], [0, 0, 0, 0, 0, 0, 1, 2]);
        assert!(matches!(decode_batch(Some(&encode_batch(258)[1..])), Err(Error::Corrupt { .. })));
    }

    #[test]
    fn keys_callers_may_not_write_are_refused() {
        for key in [&b""[..], b"\0", BATCH_KEY, &[b'k'; MAX_KEY_BYTES + 1]] {
            assert!(matches!(check_key(key), Err(Error::Invalid { .. })));
        }
        check_key(&[1]).unwrap();
        check_key(&[b'k'; MAX_KEY_BYTES]).unwrap();
    }
}
