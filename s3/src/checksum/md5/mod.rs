//! MD5 (RFC 1321), from which S3 makes entity tags: of one content, and of several in parallel.
//!
//! - MD5 is the largest cost of a PUT. One content cannot be hashed faster, because its steps form one chain. Several
//!   together can: in the lanes of a vector register, eight take little longer than one ([`lanes`]).
//! - Contents that are hashed at the same time share worker threads ([`workers`]); none waits for another to arrive.

mod lanes;
mod rounds;
mod workers;

use bytes::Bytes;
use tokio::sync::oneshot::error::RecvError;

use rounds::{BLOCK, START, State};

/// A running MD5.
#[derive(Clone)]
pub(crate) struct Md5 {
    state: State,
    /// Bytes added so far, including those in `open`.
    length: u64,
    /// The bytes after the last whole block.
    open: [u8; BLOCK],
}

impl Md5 {
    /// Starts with no bytes.
    pub(crate) fn new() -> Self {
        Self { state: START, length: 0, open: [0; BLOCK] }
    }

    /// Adds bytes.
    pub(crate) fn update(&mut self, data: &[u8]) {
        let data = &data[self.close(data)..];
        let (whole, rest) = data.split_at(data.len() / BLOCK * BLOCK);
        rounds::run(&mut self.state, whole);
        self.length += whole.len() as u64;
        self.keep(rest);
    }

    /// Adds bytes on another thread, together with other contents'.
    pub(crate) async fn update_beside(mut self, data: Bytes) -> Result<Self, RecvError> {
        let from = self.close(&data);
        let to = from + (data.len() - from) / BLOCK * BLOCK;
        self.state = workers::hash(self.state, data.slice(from..to)).await?;
        self.length += (to - from) as u64;
        self.keep(&data[to..]);
        Ok(self)
    }

    /// Finishes and returns the MD5.
    pub(crate) fn finish(mut self) -> [u8; 16] {
        let bits = self.length.wrapping_mul(8);
        let room = if self.held() < BLOCK - 8 { BLOCK } else { 2 * BLOCK };
        let mut end = [0; 2 * BLOCK];
        end[0] = 0x80;
        let padding = room - 8 - self.held();
        end[padding..padding + 8].copy_from_slice(&bits.to_le_bytes());
        self.update(&end[..padding + 8]);
        let mut sum = [0; 16];
        for (bytes, word) in sum.chunks_exact_mut(4).zip(self.state) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        sum
    }

    /// Number of bytes in the open block.
    fn held(&self) -> usize {
        (self.length % BLOCK as u64) as usize
    }

    /// Completes the open block if there is one. Returns how many bytes of `data` that took.
    fn close(&mut self, data: &[u8]) -> usize {
        if self.held() == 0 {
            return 0;
        }
        let taken = data.len().min(BLOCK - self.held());
        self.keep(&data[..taken]);
        if self.held() == 0 {
            let block = self.open;
            rounds::run(&mut self.state, &block);
        }
        taken
    }

    /// Keeps the bytes after the last whole block.
    fn keep(&mut self, data: &[u8]) {
        let held = self.held();
        self.open[held..held + data.len()].copy_from_slice(data);
        self.length += data.len() as u64;
    }
}

#[cfg(test)]
mod tests {
    use s3s::crypto::{Checksum as _, Md5 as Known};

    use super::*;

    pub(super) fn content(len: usize, seed: usize) -> Vec<u8> {
        (0..len).map(|at| (at * 7 + at / 251 + seed) as u8).collect()
    }

    #[test]
    fn sums_of_all_lengths_in_pieces_are_those_of_another_implementation() {
        let data = content(300, 1);
        for len in 0..data.len() {
            for piece in [1, 63, 64, 65, 200] {
                let mut md5 = Md5::new();
                data[..len].chunks(piece).for_each(|piece| md5.update(piece));
                assert_eq!(md5.finish(), Known::checksum(&data[..len]), "{len} bytes in pieces of {piece}");
            }
        }
    }

    #[tokio::test]
    async fn sums_beside_others_are_the_same_as_alone() {
        let lengths = [0, 1, 64, 100_000, 1 << 20, 300_001, 65_536, 64 * 1024 + 63, 2_000_000, 777_777];
        let hash = |(at, len): (usize, usize)| async move {
            let (data, mut md5) = (Bytes::from(content(len, at)), Md5::new());
            for from in (0..len).step_by(400_010) {
                md5 = md5.update_beside(data.slice(from..len.min(from + 400_010))).await.unwrap();
            }
            assert_eq!(md5.finish(), Known::checksum(&data), "{len} bytes");
        };
        let all: Vec<_> = lengths.into_iter().cycle().take(40).enumerate().map(|job| tokio::spawn(hash(job))).collect();
        for one in all {
            one.await.unwrap();
        }
    }
}
