//! The bytes of a log entry: one batch.
//!
//! - A byte with the version of this layout, 16 bytes for the content of the entry before, the changes, and the CRC-32C
//!   of all these, big-endian. A change is a key and a value, each behind its length; a deletion has the length 2^32 - 1.
//! - The changes are those of the batch as it was committed, with its number as the first.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use objstore_base::error::{Error, Result};
use xxhash_rust::xxh3::xxh3_128;

use crate::backend::{BATCH_KEY, Changes, decode_batch};

const VERSION: u8 = 1;
const HEAD_BYTES: usize = 1 + 16;
const SUM_BYTES: usize = 4;

/// The content of an entry, and so of all before it: the hash of its bytes, which include the hash of the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chain(pub [u8; 16]);

impl Chain {
    /// What stands before the first entry.
    pub const FIRST: Self = Self([0; 16]);
}

/// The content of the entry with these bytes.
pub(super) fn chain(body: &[u8]) -> Chain {
    Chain(xxh3_128(body).to_be_bytes())
}

/// The bytes of the entry of `changes`, behind the entry `before`.
pub(super) fn encode(before: Chain, changes: &Changes) -> Bytes {
    let size = |(key, value): (&Bytes, &Option<Bytes>)| 8 + key.len() + value.as_ref().map_or(0, Bytes::len);
    let mut body = BytesMut::with_capacity(HEAD_BYTES + changes.iter().map(size).sum::<usize>() + SUM_BYTES);
    body.put_u8(VERSION);
    body.put_slice(&before.0);
    for (key, value) in changes {
        body.put_u32(key.len() as u32);
        body.put_slice(key);
        body.put_u32(value.as_ref().map_or(u32::MAX, |value| value.len() as u32));
        body.put_slice(value.as_deref().unwrap_or_default());
    }
    let sum = crc_fast::crc32_iscsi(&body);
    body.put_u32(sum);
    body.freeze()
}

/// Decodes the entry `number`: the content of the one before, and the changes.
///
/// # Errors
/// [`Error::Corrupt`]: it is not what was written. [`Error::Unusable`]: a newer program wrote it.
pub(super) fn decode(number: u64, body: &Bytes) -> Result<(Chain, Changes)> {
    let damaged = |found: &str| Error::corrupt(format!("entry {number} of the log"), "a batch", found);
    let (content, sum) = body.split_last_chunk::<SUM_BYTES>().ok_or_else(|| damaged("too few bytes"))?;
    if crc_fast::crc32_iscsi(content) != u32::from_be_bytes(*sum) {
        return Err(damaged("another checksum"));
    }
    if content.first() != Some(&VERSION) {
        let why = format!("entry {number} of the log was written by a newer program: use that one");
        return Err(Error::Unusable { why });
    }
    let head = content[1..].first_chunk().ok_or_else(|| damaged("too few bytes"))?;
    let changes = changes(body.slice(HEAD_BYTES..content.len())).ok_or_else(|| damaged("other lengths"))?;
    let own = changes.keys().filter(|key| key.first().is_none_or(|first| *first == 0)).count();
    let batch = changes.get(BATCH_KEY).and_then(|value| value.as_deref());
    if own != 1 || decode_batch(batch)? != number {
        return Err(damaged("a batch of another number, or with keys of the engine's own"));
    }
    Ok((Chain(*head), changes))
}

fn changes(mut rest: Bytes) -> Option<Changes> {
    let mut changes = Changes::new();
    while !rest.is_empty() {
        let len = rest.try_get_u32().ok()? as usize;
        let key = take(&mut rest, len)?;
        let value = match rest.try_get_u32().ok()? {
            u32::MAX => None,
            len => Some(take(&mut rest, len as usize)?),
        };
        changes.insert(key, value);
    }
    Some(changes)
}

fn take(rest: &mut Bytes, len: usize) -> Option<Bytes> {
    (len <= rest.len()).then(|| rest.split_to(len))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::encode_batch;

    fn batch(number: u64, others: &[(&'static [u8], Option<&'static [u8]>)]) -> Changes {
        let own = (Bytes::from_static(BATCH_KEY), Some(encode_batch(number)));
        let others = others.iter().map(|(key, value)| (Bytes::from_static(key), value.map(Bytes::from_static)));
        others.chain([own]).collect()
    }

    #[test]
    fn an_entry_round_trips_and_a_changed_byte_is_found() {
        let before = Chain([9; 16]);
        for number in [1, 77] {
            let changes =
                batch(number, &[(b"a", Some(b"1")), (b"b", None), (b"c", Some(b"")), (b"d", Some(&[0; 300]))]);
            let body = encode(before, &changes);
            assert_eq!(decode(number, &body).unwrap(), (before, changes));
            assert!(matches!(decode(number + 1, &body), Err(Error::Corrupt { .. })));
            for at in 0..body.len() {
                let mut changed = body.to_vec();
                changed[at] ^= 4;
                assert_ne!(chain(&changed), chain(&body));
                assert!(matches!(decode(number, &changed.into()), Err(Error::Corrupt { .. })), "at {at}");
                assert!(matches!(decode(number, &body.slice(..at)), Err(Error::Corrupt { .. })), "{at} bytes");
            }
        }
    }

    #[test]
    fn hostile_entries_are_refused() {
        let sealed = |content: &[u8]| {
            let sum = crc_fast::crc32_iscsi(content);
            Bytes::from([content, &sum.to_be_bytes()].concat())
        };
        let head = [&[VERSION][..], &[0; 16]].concat();
        let longer = [&head[..], &[0xff; 4], b"key"].concat();
        let newer = [&[VERSION + 1][..], &[0; 16]].concat();
        assert!(matches!(decode(1, &sealed(&head)), Err(Error::Corrupt { .. })), "without a number");
        assert!(matches!(decode(1, &sealed(&longer)), Err(Error::Corrupt { .. })));
        assert!(matches!(decode(1, &sealed(b"")), Err(Error::Unusable { .. } | Error::Corrupt { .. })));
        assert!(matches!(decode(1, &sealed(&newer)), Err(Error::Unusable { .. })));
        for own in [&b"\0log"[..], b""] {
            let mut changes = batch(1, &[]);
            changes.insert(Bytes::from_static(own), None);
            assert!(matches!(decode(1, &encode(Chain::FIRST, &changes)), Err(Error::Corrupt { .. })));
        }
    }
}
