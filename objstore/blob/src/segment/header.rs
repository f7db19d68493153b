//! The byte format of a segment: a file header, then records, each a header, its data and zeros up to a multiple of 8.
//!
//! - All numbers are little-endian; each header ends with the CRC-32C of the bytes before it.
//! - A record names its segment and its blob, so a misplaced read is detected.
//! - A record names its group: the offset where the write that carried it began. A group is synced before the next one
//!   is written, so damage in front of a record of a later group is not a torn write.
//!
//! ```text
//! file    0 magic, 8 version u32, 12 zero, 16 segment u64, 24 zero, 28 crc u32
//! record  0 magic, 4 length u32, 8 blob u64, 16 batch u64, 24 group u64, 32 segment u64, 40 data crc u32, 44 crc u32
//! ```

use super::super::id::BlobId;

/// The size of the file header, in bytes.
pub(super) const FILE_HEADER: usize = 32;
/// The size of a record's header, in bytes.
pub(super) const RECORD_HEADER: usize = 48;
/// Records begin at multiples of this.
pub(super) const ALIGN: usize = 8;

const FILE_MAGIC: [u8; 8] = *b"AMPHSEGM";
const RECORD_MAGIC: [u8; 4] = *b"Ampr";
const VERSION: u32 = 1;

/// The header of a segment file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FileHeader {
    pub(super) segment: u64,
}

impl FileHeader {
    pub(super) fn encode(self) -> [u8; FILE_HEADER] {
        let mut bytes = [0; FILE_HEADER];
        bytes[..8].copy_from_slice(&FILE_MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.segment.to_le_bytes());
        seal(&mut bytes);
        bytes
    }

    pub(super) fn decode(bytes: &[u8; FILE_HEADER]) -> Option<Self> {
        let known = bytes[..8] == FILE_MAGIC && u32_at(bytes, 8) == VERSION && is_sealed(bytes);
        known.then(|| Self { segment: u64_at(bytes, 16) })
    }
}

/// The header of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RecordHeader {
    /// The length of the data, in bytes.
    pub(super) length: u32,
    pub(super) id: BlobId,
    /// The metadata engine's last synced batch when the record was written.
    pub(super) batch: u64,
    /// The offset of the write that contained the record.
    pub(super) group: u64,
    pub(super) segment: u64,
    pub(super) data_crc: u32,
}

impl RecordHeader {
    pub(super) fn encode(&self) -> [u8; RECORD_HEADER] {
        let mut bytes = [0; RECORD_HEADER];
        bytes[..4].copy_from_slice(&RECORD_MAGIC);
        bytes[4..8].copy_from_slice(&self.length.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.id.0.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.batch.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.group.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.segment.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.data_crc.to_le_bytes());
        seal(&mut bytes);
        bytes
    }

    /// Decodes a header; `None` if the bytes are not a whole, valid one.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; RECORD_HEADER] = bytes.get(..RECORD_HEADER)?.try_into().ok()?;
        if bytes[..4] != RECORD_MAGIC || !is_sealed(bytes) {
            return None;
        }
        Some(Self {
            length: u32_at(bytes, 4),
            id: BlobId(u64_at(bytes, 8)),
            batch: u64_at(bytes, 16),
            group: u64_at(bytes, 24),
            segment: u64_at(bytes, 32),
            data_crc: u32_at(bytes, 40),
        })
    }

    /// The number of bytes that the record takes, including padding.
    pub(super) fn size(&self) -> u64 {
        record_size(self.length as usize) as u64
    }
}

/// The number of bytes that a record of `length` bytes takes, including header and padding.
pub(super) fn record_size(length: usize) -> usize {
    (RECORD_HEADER + length).next_multiple_of(ALIGN)
}

fn seal(bytes: &mut [u8]) {
    let (body, crc) = bytes.split_at_mut(bytes.len() - 4);
    crc.copy_from_slice(&crc_fast::crc32_iscsi(body).to_le_bytes());
}

fn is_sealed(bytes: &[u8]) -> bool {
    let (body, crc) = bytes.split_at(bytes.len() - 4);
    crc == crc_fast::crc32_iscsi(body).to_le_bytes()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u64_of(&bytes[at..at + 4]) as u32
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64_of(&bytes[at..at + 8])
}

fn u64_of(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    prop_compose! {
        fn header()(length: u32, id: u64, batch: u64, group: u64, segment: u64, data_crc: u32) -> RecordHeader {
            RecordHeader { length, id: BlobId(id), batch, group, segment, data_crc }
        }
    }

    proptest! {
        #[test]
        fn record_headers_survive_the_round_trip(header in header()) {
            prop_assert_eq!(RecordHeader::decode(&header.encode()), Some(header));
        }

        #[test]
        fn a_mutated_byte_of_a_record_header_is_noticed(header in header(), at in 0..RECORD_HEADER, flip in 1..=255u8) {
            let mut bytes = header.encode();
            bytes[at] ^= flip;
            prop_assert_eq!(RecordHeader::decode(&bytes), None);
        }
    }

    #[test]
    fn file_headers_survive_the_round_trip_and_no_mutated_byte() {
        let header = FileHeader { segment: 0x1234_5678_9abc_def0 };
        let bytes = header.encode();
        assert_eq!(FileHeader::decode(&bytes), Some(header));
        for at in 0..FILE_HEADER {
            let mut bytes = bytes;
            bytes[at] ^= 0x40;
            assert_eq!(FileHeader::decode(&bytes), None, "byte {at}");
        }
    }

    #[test]
    fn the_layout_does_not_drift() {
        let record = RecordHeader { length: 1, id: BlobId(2), batch: 3, group: 4, segment: 5, data_crc: 6 };
        let bytes = record.encode();
        assert_eq!(bytes[..5], *b"Ampr\x01");
        assert_eq!([bytes[8], bytes[16], bytes[24], bytes[32], bytes[40]], [2, 3, 4, 5, 6]);
        assert_eq!(FileHeader { segment: 9 }.encode()[..17], *b"AMPHSEGM\x01\0\0\0\0\0\0\0\x09");
        assert_eq!(RecordHeader::decode(&bytes[..47]), None);
        assert_eq!((FILE_HEADER % ALIGN, record_size(0), record_size(1), record_size(8)), (0, 48, 56, 56));
    }
}
