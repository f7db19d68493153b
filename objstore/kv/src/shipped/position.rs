//! Where a copy stands in its log: what it records about itself, under keys of the engine's own.
//!
//! - The record is written with each batch: the log's identity, the content of the last entry, and the first number
//!   whose entry the copy may still keep.
//! - It has 40 bytes: 16, 16, and a number, big-endian. Its key follows the batch number's, which is the first of a batch.

use std::collections::VecDeque;

use bytes::{BufMut as _, Bytes, BytesMut};
use objstore_base::error::{Error, Result};
use objstore_log::LogId;

use super::entry::Chain;
use crate::backend::{BATCH_KEY, Changes, decode_batch, encode_batch};
use crate::txn::{Read, Value};

const RECORD_KEY: &[u8] = b"\0log";
const UNSHIPPED_KEY: &[u8] = b"\0unshipped";

/// The key under which the copy keeps the entry `number`.
pub(super) fn unshipped_key(number: u64) -> Bytes {
    [UNSHIPPED_KEY, &number.to_be_bytes()].concat().into()
}

/// Where a copy stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub id: LogId,
    /// The number of the last batch, 0 if there is none.
    pub last: u64,
    /// The content of its entry.
    pub chain: Chain,
    /// The numbers of the entries that it keeps, rising.
    pub unshipped: VecDeque<u64>,
}

impl Position {
    /// The beginning of the log `id`.
    pub fn begin(id: LogId) -> Self {
        Self { id, last: 0, chain: Chain::FIRST, unshipped: VecDeque::new() }
    }

    /// What `view` says of itself: `None` if it has no batch.
    ///
    /// # Errors
    /// - [`Error::Unusable`]: it is the store of a server without a log.
    /// - [`Error::Corrupt`]: the record is damaged.
    pub fn read(view: &dyn Read) -> Result<Option<Self>> {
        let last = decode_batch(view.get(BATCH_KEY)?.as_deref())?;
        if last == 0 {
            return Ok(None);
        }
        let Some(record) = view.get(RECORD_KEY)? else {
            let why = "the folder has the metadata of a store without a log, which the log does not replace: use \
                       another folder";
            return Err(Error::Unusable { why: why.into() });
        };
        let (id, chain, first) = decode(&record).ok_or_else(|| {
            Error::corrupt("the metadata's record of its log", "40 bytes", format!("{} bytes", record.len()))
        })?;
        let mut unshipped = VecDeque::new();
        for number in first..=last {
            if view.get(&unshipped_key(number))?.is_some() {
                unshipped.push_back(number);
            }
        }
        Ok(Some(Self { id, last, chain, unshipped }))
    }

    /// The record, with its key.
    pub fn record(&self) -> (Bytes, Value) {
        let mut record = BytesMut::with_capacity(40);
        record.put_slice(&self.id.0);
        record.put_slice(&self.chain.0);
        record.put_u64(self.unshipped.front().copied().unwrap_or(self.last + 1));
        (Bytes::from_static(RECORD_KEY), record.freeze())
    }

    /// Takes out the kept entries up to `acknowledged`, at most `limit`.
    pub fn forget(&mut self, acknowledged: u64, limit: usize) -> Vec<u64> {
        let old = self.unshipped.iter().take(limit).take_while(|number| **number <= acknowledged).count();
        self.unshipped.drain(..old).collect()
    }
}

/// Refuses a copy where a store without a log is opened: what it would write, the log would not have.
pub(crate) fn refuse_copy(view: &dyn Read) -> Result<()> {
    if view.get(RECORD_KEY)?.is_none() {
        return Ok(());
    }
    let why =
        "the folder has a copy of a store whose metadata is in PostgreSQL: give --metadata-url, or use another folder";
    Err(Error::Unusable { why: why.into() })
}

/// The changes that make a store without a log of a copy at the position that `view` shows; `None` if it is one already.
pub(crate) fn detached(view: &dyn Read) -> Result<Option<Changes>> {
    if view.get(RECORD_KEY)?.is_none() {
        return Ok(None);
    }
    let Some(position) = Position::read(view)? else { return Ok(None) };
    let kept = position.unshipped.iter().map(|number| (unshipped_key(*number), None));
    let mut changes: Changes = kept.collect();
    changes.insert(Bytes::from_static(RECORD_KEY), None);
    changes.insert(Bytes::from_static(BATCH_KEY), Some(encode_batch(position.last + 1)));
    Ok(Some(changes))
}

fn decode(record: &[u8]) -> Option<(LogId, Chain, u64)> {
    let (id, rest) = record.split_first_chunk()?;
    let (chain, rest) = rest.split_first_chunk()?;
    let first = u64::from_be_bytes(rest.try_into().ok()?);
    Some((LogId(*id), Chain(*chain), first))
}

#[cfg(test)]
pub(super) mod tests {
    use objstore_log::Log as _;
    use objstore_log::memory::Memory;

    use super::*;
    use crate::backend::Backend as _;
    use crate::engine::Durability;
    use crate::memory::Map;

    /// The record of a copy of `log` that ends with an entry of this content.
    pub(in crate::shipped) fn record(log: &Memory, last: u64, content: u8) -> Value {
        let id = log.tail().unwrap().id;
        Position { last, chain: Chain([content; 16]), ..Position::begin(id) }.record().1
    }

    #[test]
    fn a_copy_knows_its_position_and_refuses_other_records() {
        let map = Map::default();
        let put = |pairs: &[(&[u8], Value)]| {
            let changes = pairs.iter().map(|(key, value)| (Bytes::copy_from_slice(key), Some(value.clone())));
            map.commit(changes.collect(), Durability::Buffered).unwrap();
        };
        assert_eq!(Position::read(&*map.snapshot()).unwrap(), None);
        put(&[(BATCH_KEY, encode_batch(9))]);
        assert!(matches!(Position::read(&*map.snapshot()), Err(Error::Unusable { .. })));
        let mut position = Position { last: 9, chain: Chain([7; 16]), ..Position::begin(LogId([3; 16])) };
        position.unshipped = [5, 8].into();
        for number in [2, 5, 8] {
            put(&[(&unshipped_key(number)[..], Bytes::new())]);
        }
        let (key, record) = position.record();
        put(&[(&key[..], record.clone())]);
        assert_eq!(Position::read(&*map.snapshot()).unwrap().as_ref(), Some(&position));
        put(&[(&key[..], record.slice(1..))]);
        assert!(matches!(Position::read(&*map.snapshot()), Err(Error::Corrupt { .. })));
        put(&[(&key[..], record)]);
        map.commit(detached(&*map.snapshot()).unwrap().unwrap(), Durability::Synced).unwrap();
        let view = map.snapshot();
        assert_eq!(decode_batch(view.get(BATCH_KEY).unwrap().as_deref()).unwrap(), 10);
        assert_eq!([5, 8].map(|number| view.get(&unshipped_key(number)).unwrap()), [None, None]);
        refuse_copy(&*view).unwrap();
        assert_eq!(detached(&*view).unwrap(), None);
        assert_eq!((position.forget(8, 1), position.forget(7, 9), position.forget(8, 9)), (vec![5], vec![], vec![8]));
        assert_eq!(decode(&position.record().1).unwrap().2, 10);
    }
}
