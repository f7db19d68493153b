//! Checksums over blocks of content.
//!
//! - There is one CRC-32C (CRC-32/ISCSI) per [`SUM_BLOCK`] bytes, counted from the start of the blob; the last block
//!   may be shorter.
//! - So a range can be verified by reading only the blocks that it touches.

use crc_fast::CrcAlgorithm::Crc32Iscsi;
use crc_fast::{Digest, crc32_iscsi};

use objstore_base::error::{Error, Result};

/// The number of bytes that one checksum covers.
pub const SUM_BLOCK: usize = 64 * 1024;

/// The checksums of `data`, which begins at the start of a block.
pub fn sums(data: &[u8]) -> Vec<u32> {
    data.chunks(SUM_BLOCK).map(crc32_iscsi).collect()
}

/// Computes checksums by blocks over content that arrives in pieces of any size.
#[derive(Default)]
pub struct Summer {
    full: Vec<u32>,
    open: Option<Digest>,
    open_bytes: usize,
}

impl Summer {
    /// Adds the next piece.
    pub fn add(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            let (head, rest) = data.split_at(data.len().min(SUM_BLOCK - self.open_bytes));
            data = rest;
            if head.len() == SUM_BLOCK {
                self.full.push(crc32_iscsi(head));
                continue;
            }
            self.open.get_or_insert_with(|| Digest::new(Crc32Iscsi)).update(head);
            self.open_bytes += head.len();
            if self.open_bytes == SUM_BLOCK {
                self.close();
            }
        }
    }

    /// The checksums of everything that was added.
    pub fn finish(mut self) -> Vec<u32> {
        self.close();
        self.full
    }

    fn close(&mut self) {
        // A CRC-32 is in the low half.
        self.full.extend(self.open.take().map(|digest| digest.finalize() as u32));
        self.open_bytes = 0;
    }
}

/// Compares `data`, which begins at the block `first`, with the `expected` checksums; `what` names the blob in errors.
pub(super) fn verify(what: &str, data: &[u8], first: usize, expected: &[u32]) -> Result<()> {
    if data.len().div_ceil(SUM_BLOCK) != expected.len() {
        let blocks = data.len().div_ceil(SUM_BLOCK);
        return Err(Error::corrupt(what, format!("{blocks} checksums from block {first}"), expected.len().to_string()));
    }
    for (index, (block, expected)) in data.chunks(SUM_BLOCK).zip(expected).enumerate() {
        let found = crc32_iscsi(block);
        if found != *expected {
            let what = format!("{what}, block {}", first + index);
            return Err(Error::corrupt(what, format!("checksum {expected:08x}"), format!("{found:08x}")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn pieces_of_any_size_sum_like_the_whole(len in 0..4 * SUM_BLOCK, piece in 1..3 * SUM_BLOCK) {
            let data: Vec<u8> = (0..len).map(|at| (at * 31 % 251) as u8).collect();
            let mut summer = Summer::default();
            for piece in data.chunks(piece) {
                summer.add(piece);
            }
            prop_assert_eq!(summer.finish(), sums(&data));
        }
    }

    #[test]
    fn a_changed_byte_and_a_missing_sum_are_noticed() {
        let mut data = vec![7; SUM_BLOCK + 10];
        let expected = sums(&data);
        verify("blob", &data, 0, &expected).unwrap();
        assert!(matches!(verify("blob", &data, 0, &expected[..1]), Err(Error::Corrupt { .. })));
        data[SUM_BLOCK + 3] ^= 1;
        let error = verify("blob", &data, 4, &expected).unwrap_err();
        assert!(error.to_string().contains("block 5"), "{error}");
    }
}
