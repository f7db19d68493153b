//! The bytes of an object of the log: a batch of entries, or a seal.
//!
//! | bytes | field, big-endian |
//! | ---: | --- |
//! | 4 | `ALOG` |
//! | 1 | format: 1 |
//! | 1 | kind: 1 is a batch, 2 a seal |
//! | 16 | the log's id |
//! | 8 | the epoch |
//! | 8 | the number of the first entry, or the one that the seal occupies |
//! | 4 | the number of entries; 0 for a seal |
//! | 4 each | the length of each body |
//! | | the bodies |
//! | 4 | CRC-32C of everything before |
//!
//! - The epoch and number are those of the key, so an object under another key is damage.

use bytes::{BufMut as _, Bytes, BytesMut};

use super::record::Reader;
use crate::batch::{Batch, Entry, MAX_BATCH_BYTES, MAX_BATCH_ENTRIES, MAX_ENTRY_BYTES};
use crate::owner::{Epoch, LogId};

const MAGIC: &[u8; 4] = b"ALOG";
const FORMAT: u8 = 1;
const BATCH: u8 = 1;
const SEAL: u8 = 2;
const HEAD_BYTES: usize = 42;

/// The most bytes of an object.
pub(super) const STORED_BYTES_MAX: usize = HEAD_BYTES + 4 * MAX_BATCH_ENTRIES + MAX_ENTRY_BYTES + MAX_BATCH_BYTES + 4;

/// An object of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    /// Entries, at least one.
    Batch(Vec<Entry>),
    /// The epoch ends here.
    Seal,
}

/// The object of a batch.
pub(super) fn encode(id: LogId, batch: &Batch) -> Bytes {
    let length = batch.bodies.iter().map(|body| body.len() + 4).sum::<usize>() + HEAD_BYTES + 4;
    let mut bytes = BytesMut::with_capacity(length);
    head(&mut bytes, id, BATCH, (batch.epoch, batch.first), batch.bodies.len());
    batch.bodies.iter().for_each(|body| bytes.put_u32(u32::try_from(body.len()).unwrap_or(u32::MAX)));
    batch.bodies.iter().for_each(|body| bytes.put_slice(body));
    summed(bytes)
}

/// The seal of an epoch at a number.
pub(super) fn seal(id: LogId, epoch: Epoch, number: u64) -> Bytes {
    let mut bytes = BytesMut::with_capacity(HEAD_BYTES + 4);
    head(&mut bytes, id, SEAL, (epoch, number), 0);
    summed(bytes)
}

fn head(bytes: &mut BytesMut, id: LogId, kind: u8, (epoch, first): (Epoch, u64), entries: usize) {
    bytes.put_slice(MAGIC);
    bytes.put_u8(FORMAT);
    bytes.put_u8(kind);
    bytes.put_slice(&id.0);
    bytes.put_u64(epoch);
    bytes.put_u64(first);
    bytes.put_u32(u32::try_from(entries).unwrap_or(u32::MAX));
}

fn summed(mut bytes: BytesMut) -> Bytes {
    let sum = crc_fast::crc32_iscsi(&bytes);
    bytes.put_u32(sum);
    bytes.freeze()
}

/// The object of the log `id` at (`epoch`, `first`), or what is wrong with it.
pub(super) fn decode(id: LogId, (epoch, first): (Epoch, u64), bytes: &Bytes) -> Result<Stored, String> {
    let body = bytes.len().checked_sub(4).filter(|body| *body >= HEAD_BYTES).ok_or("it is too short")?;
    if crc_fast::crc32_iscsi(&bytes[..body]).to_be_bytes() != bytes[body..] {
        return Err("its checksum does not match".to_owned());
    }
    let mut head = Reader(&bytes[..body]);
    if head.take(4) != Some(MAGIC) {
        return Err("it is not an object of a log".to_owned());
    }
    match head.byte() {
        Some(FORMAT) => {}
        other => return Err(format!("it has the format {}, and this program reads {FORMAT}", other.unwrap_or(0))),
    }
    let kind = head.byte();
    if head.take(16) != Some(&id.0[..]) {
        return Err("it belongs to another log".to_owned());
    }
    if (head.u64(), head.u64()) != (Some(epoch), Some(first)) {
        return Err("it belongs under another key".to_owned());
    }
    let count = head.u32().unwrap_or(0) as usize;
    match (kind, count) {
        (Some(SEAL), 0) => Ok(Stored::Seal),
        (Some(BATCH), 1..=MAX_BATCH_ENTRIES) => entries(bytes, head, (epoch, first), count).map(Stored::Batch),
        _ => Err("it is neither a batch nor a seal".to_owned()),
    }
}

fn entries(
    bytes: &Bytes,
    mut head: Reader<'_>,
    (epoch, first): (Epoch, u64),
    count: usize,
) -> Result<Vec<Entry>, String> {
    let lengths: Option<Vec<usize>> = (0..count).map(|_| head.u32().map(|length| length as usize)).collect();
    let lengths = lengths.ok_or("it is too short for its entries")?;
    let (mut at, end) = (HEAD_BYTES + 4 * count, bytes.len() - 4);
    let mut entries = Vec::with_capacity(count);
    for (number, length) in (first..).zip(lengths) {
        let next = at.checked_add(length).filter(|next| *next <= end).ok_or("it is too short for its entries")?;
        entries.push(Entry { number, epoch, body: bytes.slice(at..next) });
        at = next;
    }
    if at == end { Ok(entries) } else { Err("it is longer than its entries".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: LogId = LogId([7; 16]);

    #[test]
    fn a_batch_and_a_seal_come_back_and_a_changed_byte_does_not() {
        let bodies = vec![Bytes::from_static(b"one"), Bytes::new(), Bytes::from_static(b"three")];
        let bytes = encode(ID, &Batch { epoch: 3, first: 10, bodies: bodies.clone() });
        let Ok(Stored::Batch(entries)) = decode(ID, (3, 10), &bytes) else { panic!("it is a batch") };
        assert_eq!(entries.iter().map(|entry| entry.body.clone()).collect::<Vec<_>>(), bodies);
        assert_eq!(
            entries.iter().map(|entry| (entry.epoch, entry.number)).collect::<Vec<_>>(),
            [(3, 10), (3, 11), (3, 12)]
        );
        let sealed = seal(ID, 3, 13);
        assert_eq!(decode(ID, (3, 13), &sealed), Ok(Stored::Seal));
        for bytes in [&bytes, &sealed] {
            for at in 0..bytes.len() {
                let mut changed = bytes.to_vec();
                changed[at] ^= 1;
                assert!(decode(ID, (3, if bytes.len() == sealed.len() { 13 } else { 10 }), &changed.into()).is_err());
                assert!(decode(ID, (3, 10), &bytes.slice(..at)).is_err());
            }
        }
        for (id, at) in [(LogId([8; 16]), (3, 10)), (ID, (4, 10)), (ID, (3, 11))] {
            assert!(decode(id, at, &bytes).is_err());
        }
    }
}
