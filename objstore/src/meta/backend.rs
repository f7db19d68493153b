//! The interface between the writer and an engine: snapshots, an atomic commit, a sync. Engines differ here only.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::engine::Durability;
use super::txn::{Snapshot, Value};
use crate::error::{Error, Result};

/// The key of the last committed batch's number, 8 bytes big-endian.
pub(super) const BATCH_KEY: &[u8] = b"\0batch";

/// The smallest key that is not the engine's own.
const FIRST_KEY: &[u8] = &[1];

/// The longest key an engine must take, in bytes.
const MAX_KEY_BYTES: usize = 65_535;

/// What a batch changes: each key's new value, `None` where it is deleted.
pub(super) type Changes = BTreeMap<Bytes, Option<Value>>;

/// The store under the writer: commits are made one after another, and so are syncs, but one may be made during the other.
///
/// After an error from either the writer calls neither again.
pub(super) trait Backend: Send + Sync + 'static {
    /// The store after the last commit.
    fn snapshot(&self) -> Box<dyn Snapshot>;

    /// Applies all of `changes` at once, and returns when they are as durable as asked. If they are synced, so is
    /// every earlier commit.
    fn commit(&self, changes: Changes, durability: Durability) -> Result<()>;

    /// Refuses a commit that the disk is too full for: one that met its end would be the last.
    fn room(&self) -> Result<()> {
        Ok(())
    }

    /// Returns once every commit that had returned before is on disk.
    fn sync(&self) -> Result<()>;
}

/// The part of `from..to` outside the engine's own keys, or `None` if that is empty.
pub(super) fn span<'a>(from: &'a [u8], to: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
    let from = from.max(FIRST_KEY);
    (from < to).then_some((from, to))
}

/// Refuses a key that callers may not write.
pub(super) fn check_key(key: &[u8]) -> Result<()> {
    let why = match key {
        [] => "a key has at least one byte".into(),
        [0, ..] => "keys that begin with the byte 0x00 are the engine's own".into(),
        _ if key.len() > MAX_KEY_BYTES => format!("a key has at most {MAX_KEY_BYTES} bytes, this one {}", key.len()),
        _ => return Ok(()),
    };
    Err(Error::invalid("metadata key", key[..key.len().min(64)].escape_ascii().to_string(), why))
}

/// A stored batch number.
pub(super) fn encode_batch(number: u64) -> Value {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

/// Reads a stored batch number; a store without one has committed none.
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
