//! The batches in a file of fjall's journal, in its format 3.
//!
//! - Each has two numbers: fjall's in its head, which has no checksum, and ours, the value of its first item
//!   ([`BATCH_KEY`]), which the items' checksum covers.
//!
//! It writes nothing.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};

use bytes::Bytes;
use xxhash_rust::xxh3::Xxh3;

use crate::backend::{BATCH_KEY, Changes};
use crate::txn::Value;

/// The number of bytes read at a time.
pub(super) const CHUNK: usize = 256 << 10;

// An entry's first byte, and its length without key and value; numbers are little-endian.
const START: u8 = 1;
const START_BYTES: usize = 1 + 4 + 8;
const ITEM: u8 = 2;
const ITEM_BYTES: usize = 1 + 1 + 1 + 8 + 2 + 4 + 4;
const END: u8 = 3;
const END_BYTES: usize = 1 + 8 + 4;

/// The last bytes of each batch.
pub(super) const TRAILER: [u8; 4] = *b"FJL\x03";

/// The number of bytes that a batch of these changes takes in the journal.
pub(super) fn bytes(changes: &Changes) -> u64 {
    let item = |(key, value): (&Bytes, &Option<Value>)| ITEM_BYTES + key.len() + value.as_ref().map_or(0, Bytes::len);
    (START_BYTES + changes.iter().map(item).sum::<usize>() + END_BYTES) as u64
}

/// The two numbers of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Batch {
    pub ours: u64,
    pub fjalls: u64,
}

/// Our number of a batch, of which only the beginning need be present.
pub(super) fn number(batch: &[u8]) -> Option<u64> {
    value_of(batch.get(START_BYTES + ITEM_BYTES..)?)
}

/// Our number, if the bytes are the item that contains it.
fn value_of(item: &[u8]) -> Option<u64> {
    item.strip_prefix(BATCH_KEY)?.first_chunk().map(|number| u64::from_be_bytes(*number))
}

/// A walk over the batches of a file, from its beginning.
pub(super) struct Scan<R> {
    reader: BufReader<R>,
    at: u64,
    sum: Xxh3,
}

impl<R: Read> Scan<R> {
    /// A walk over `reader`, which must be at the beginning of the file.
    pub fn new(reader: R) -> Self {
        Self { reader: BufReader::with_capacity(CHUNK, reader), at: 0, sum: Xxh3::new() }
    }

    /// Where the next batch begins; after the last batch, how far reading went.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Passes over one batch; `None` if the next bytes are not a whole batch with a correct checksum and our number.
    pub fn batch(&mut self) -> io::Result<Option<Batch>> {
        match self.pass() {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
            passed => passed,
        }
    }

    fn pass(&mut self) -> io::Result<Option<Batch>> {
        let start: [u8; START_BYTES] = self.take()?;
        let [START, a, b, c, d, number @ ..] = start else { return Ok(None) };
        self.sum.reset();
        let mut ours = None;
        for item in 0..u32::from_le_bytes([a, b, c, d]) {
            let Some((key, value)) = self.item()? else { return Ok(None) };
            if item == 0 && (key, value) == (BATCH_KEY.len() as u64, 8) {
                ours = self.number()?;
            } else {
                self.skip(key + value)?;
            }
        }
        let found = self.sum.digest();
        let end: [u8; END_BYTES] = self.take()?;
        let [END, sum @ .., f, j, l, version] = end else { return Ok(None) };
        let whole = [f, j, l, version] == TRAILER && u64::from_le_bytes(sum) == found;
        Ok(ours.filter(|_| whole).map(|ours| Batch { ours, fjalls: u64::from_le_bytes(number) }))
    }

    /// Reads the lengths of the next item's key and value.
    fn item(&mut self) -> io::Result<Option<(u64, u64)>> {
        let item: [u8; ITEM_BYTES] = self.take()?;
        self.sum.update(&item);
        // No value is compressed, so the two lengths of a value are equal.
        let [ITEM, _, 0, _, _, _, _, _, _, _, _, key0, key1, lengths @ ..] = item else { return Ok(None) };
        let [a, b, c, d, on_disk @ ..] = lengths;
        let same = [a, b, c, d] == on_disk;
        let lengths = (u64::from(u16::from_le_bytes([key0, key1])), u64::from(u32::from_le_bytes([a, b, c, d])));
        Ok(same.then_some(lengths))
    }

    fn number(&mut self) -> io::Result<Option<u64>> {
        let item: [u8; BATCH_KEY.len() + 8] = self.take()?;
        self.sum.update(&item);
        Ok(value_of(&item))
    }

    fn take<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.at += N as u64;
        self.reader.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn skip(&mut self, mut bytes: u64) -> io::Result<()> {
        self.at += bytes;
        while bytes > 0 {
            let there = self.reader.fill_buf()?;
            let there = &there[..there.len().min(usize::try_from(bytes).unwrap_or(usize::MAX))];
            if there.is_empty() {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            self.sum.update(there);
            let passed = there.len();
            bytes -= passed as u64;
            self.reader.consume(passed);
        }
        Ok(())
    }
}

/// A batch as fjall writes it, with our number and one item for each given length of a value.
#[cfg(test)]
pub(super) fn batch(Batch { ours, fjalls }: Batch, values: &[usize]) -> Vec<u8> {
    let number = ours.to_be_bytes();
    let values = values.iter().map(|len| vec![END; *len]);
    let items: Vec<_> =
        [(BATCH_KEY, number.to_vec())].into_iter().chain(values.map(|value| (&b"key"[..], value))).collect();
    let mut bytes = vec![START];
    bytes.extend((items.len() as u32).to_le_bytes());
    bytes.extend(fjalls.to_le_bytes());
    for (key, value) in items {
        bytes.extend([ITEM, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend((key.len() as u16).to_le_bytes());
        bytes.extend((value.len() as u32).to_le_bytes());
        bytes.extend((value.len() as u32).to_le_bytes());
        bytes.extend(key);
        bytes.extend(value);
    }
    let sum = xxhash_rust::xxh3::xxh3_64(&bytes[START_BYTES..]);
    bytes.push(END);
    bytes.extend(sum.to_le_bytes());
    bytes.extend(TRAILER);
    bytes
}
