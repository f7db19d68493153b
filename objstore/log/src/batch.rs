//! What is appended and read: entries with consecutive numbers, in bounded batches.

use bytes::Bytes;

use crate::error::{Error, Result};
use crate::owner::Epoch;

/// The size limit of one entry's body, in bytes.
pub const MAX_ENTRY_BYTES: usize = 64 << 20;

/// The largest number of entries in one batch.
pub const MAX_BATCH_ENTRIES: usize = 256;

/// The size, in bytes, at which a batch takes no further entry.
pub const MAX_BATCH_BYTES: usize = 4 << 20;

/// The largest number of appends that an owner has under way. An engine relies on it: behind a gap lie fewer than
/// `MAX_UNDER_WAY * MAX_BATCH_ENTRIES` numbers.
pub const MAX_UNDER_WAY: usize = 4;

/// Entries to append: they are inserted together or not at all.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The epoch of the owner that appends.
    pub epoch: Epoch,
    /// The number of the first entry; the others follow it without a gap.
    pub first: u64,
    /// The bodies, at least one.
    pub bodies: Vec<Bytes>,
}

impl Batch {
    /// The number of the last entry.
    pub fn last(&self) -> u64 {
        self.first + (self.bodies.len() as u64).saturating_sub(1)
    }

    /// The numbers and bodies of its entries.
    pub fn numbered(&self) -> impl Iterator<Item = (u64, &Bytes)> {
        (self.first..).zip(&self.bodies)
    }

    /// Refuses a batch that no engine accepts.
    ///
    /// # Errors
    /// [`Error::Invalid`]: it has no entry or too many, one is too large, or the numbers are out of range.
    pub fn check(&self) -> Result<()> {
        let why = match self.bodies.len() {
            0 => "a batch has at least one entry".to_owned(),
            len if len > MAX_BATCH_ENTRIES => {
                format!("a batch has at most {MAX_BATCH_ENTRIES} entries, this one {len}")
            }
            _ if self.first == 0 || self.last() >= i64::MAX as u64 => {
                format!("{} is not a number of an entry", self.first)
            }
            _ => match self.bodies.iter().find(|body| body.len() > MAX_ENTRY_BYTES) {
                None => return Ok(()),
                Some(body) => format!("an entry has at most {MAX_ENTRY_BYTES} bytes, this one {}", body.len()),
            },
        };
        Err(Error::Invalid { why })
    }
}

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its number; the first entry of a log has the number 1.
    pub number: u64,
    /// The epoch of the owner that appended it.
    pub epoch: Epoch,
    /// Its body.
    pub body: Bytes,
}

/// How much a read returns at most. The first entry is returned also if it is larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The number of entries, at least 1.
    pub entries: usize,
    /// The bytes of all bodies.
    pub bytes: usize,
}

impl Default for Limit {
    fn default() -> Self {
        Self { entries: 4096, bytes: 8 << 20 }
    }
}
