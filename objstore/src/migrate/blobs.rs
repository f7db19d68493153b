//! The blobs of a store, one after the other, as its records name them.

use std::collections::{HashSet, VecDeque};

use crate::error::Result;
use crate::meta::{Pair, Read, Snapshot};
use crate::record::blob::{Blob, Segment};
use crate::record::decode;
use crate::record::key::{self, tag};

/// Records read at a time.
const PAGE: usize = 512;

/// The records of one kind, in order.
pub(super) struct Walk {
    snapshot: Box<dyn Snapshot>,
    kind: u8,
    page: VecDeque<Pair>,
    from: Option<Vec<u8>>,
}

impl Walk {
    /// The records with the tag `kind`, each of which has an id.
    pub fn new(snapshot: Box<dyn Snapshot>, kind: u8) -> Self {
        Self { snapshot, kind, page: VecDeque::new(), from: Some(vec![kind]) }
    }

    fn next_pair(&mut self) -> Result<Option<Pair>> {
        if self.page.is_empty()
            && let Some(from) = self.from.take()
        {
            self.page = self.snapshot.scan(&from, &key::after_prefix(&[self.kind]), PAGE)?.into();
            let last = self.page.back().filter(|_| self.page.len() == PAGE);
            self.from = last.map(|last| [&last.key[..], &[0]].concat());
        }
        Ok(self.page.pop_front())
    }

    /// The next blob.
    pub fn next_blob(&mut self) -> Result<Option<(u64, Blob)>> {
        let Some(pair) = self.next_pair()? else { return Ok(None) };
        Ok(Some((key::u64_at(&pair.key, 1).unwrap_or_default(), decode("a blob", &pair.value)?)))
    }

    /// The next segment to which a blob refers.
    pub fn next_segment(&mut self) -> Result<Option<u64>> {
        while let Some(pair) = self.next_pair()? {
            let segment: Segment = decode("a segment", &pair.value)?;
            if segment.live_bytes > 0 {
                return Ok(key::u64_at(&pair.key, 1));
            }
        }
        Ok(None)
    }
}

/// The number of blobs.
pub(super) fn count(snapshot: Box<dyn Snapshot>) -> Result<u64> {
    let (mut walk, mut count) = (Walk::new(snapshot, tag::BLOB), 0);
    while walk.next_pair()?.is_some() {
        count += 1;
    }
    Ok(count)
}

/// The blobs that are quarantined: their damage is known.
pub(super) fn quarantined(read: &dyn Read) -> Result<HashSet<u64>> {
    let pairs = crate::scan::all(read, &[tag::DAMAGED])?;
    Ok(pairs.iter().filter_map(|pair| key::u64_at(&pair.key, 1)).collect())
}
