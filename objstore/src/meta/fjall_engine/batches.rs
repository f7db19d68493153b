//! The batches in a file of fjall's journal, in its format 3.
//!
//! It writes nothing.

use std::io::{self, BufReader, ErrorKind, Read, Seek};

use xxhash_rust::xxh3::xxh3_64;

/// Bytes read at a time.
pub(super) const CHUNK: usize = 256 << 10;

// Of an entry, the first byte, and how long it is without key and value; numbers are little-endian.
const START: u8 = 1;
const START_BYTES: usize = 1 + 4 + 8;
const ITEM: u8 = 2;
const ITEM_BYTES: usize = 1 + 1 + 1 + 8 + 2 + 4 + 4;
const END: u8 = 3;
const END_BYTES: usize = 1 + 8 + 4;

/// Walks over batches, from the beginning.
pub(super) struct Scan<R> {
    reader: BufReader<R>,
    at: u64,
}

impl<R: Read + Seek> Scan<R> {
    /// `reader` stands at the beginning.
    pub fn new(reader: R) -> Self {
        Self { reader: BufReader::with_capacity(CHUNK, reader), at: 0 }
    }

    /// Where the next batch begins, after one.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Passes a batch and gives its number, of fjall's; `None` if there is none, or anything else. What its keys and values
    /// hold is not looked at.
    pub fn batch(&mut self) -> io::Result<Option<u64>> {
        match self.pass() {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
            passed => passed,
        }
    }

    fn pass(&mut self) -> io::Result<Option<u64>> {
        let start: [u8; START_BYTES] = self.take()?;
        let [START, a, b, c, d, number @ ..] = start else { return Ok(None) };
        for _ in 0..u32::from_le_bytes([a, b, c, d]) {
            let item: [u8; ITEM_BYTES] = self.take()?;
            // No value is compressed.
            let [ITEM, _, 0, _, _, _, _, _, _, _, _, key0, key1, _, _, _, _, a, b, c, d] = item else {
                return Ok(None);
            };
            self.skip(u64::from(u16::from_le_bytes([key0, key1])) + u64::from(u32::from_le_bytes([a, b, c, d])))?;
        }
        let end: [u8; END_BYTES] = self.take()?;
        Ok((end[0] == END && end.ends_with(b"FJL\x03")).then(|| u64::from_le_bytes(number)))
    }

    fn take<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.reader.read_exact(&mut bytes)?;
        self.at += N as u64;
        Ok(bytes)
    }

    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        self.at += bytes;
        // Of 33 bits.
        self.reader.seek_relative(bytes as i64)
    }
}

/// Whether a batch that was passed has the checksum it says.
pub(super) fn is_whole(batch: &[u8]) -> bool {
    let items = batch.get(START_BYTES..batch.len().saturating_sub(END_BYTES)).unwrap_or_default();
    batch.len() > END_BYTES && batch[batch.len() - END_BYTES + 1..].starts_with(&xxh3_64(items).to_le_bytes())
}

/// A batch as fjall writes it, with one item for each length of a value.
#[cfg(test)]
pub(super) fn batch(number: u64, values: &[usize]) -> Vec<u8> {
    let mut bytes = vec![START];
    bytes.extend((values.len() as u32).to_le_bytes());
    bytes.extend(number.to_le_bytes());
    for len in values {
        bytes.extend([ITEM, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 3, 0]);
        bytes.extend((*len as u32).to_le_bytes());
        bytes.extend((*len as u32).to_le_bytes());
        bytes.extend(b"key");
        bytes.extend(vec![END; *len]);
    }
    let sum = xxh3_64(&bytes[START_BYTES..]);
    bytes.push(END);
    bytes.extend(sum.to_le_bytes());
    bytes.extend(b"FJL\x03");
    bytes
}
