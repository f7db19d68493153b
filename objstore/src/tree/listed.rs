//! Many inodes at once, as a listing shows them.
//!
//! - Numbers that lie close together are read by one scan, since objects written one after the other have such: a step
//!   of a scan costs a fraction of a search. Others are searched for one by one.

use super::read::Tree;
use crate::error::{Error, Result};
use crate::record::decode;
use crate::record::key;
use crate::record::listed::ListedInode;

/// Numbers between two of a run, at most: passing over a few records costs less than a search.
const GAP_MAX: u64 = 4;
/// From so many numbers on, a scan pays for where it begins.
const RUN_MIN: usize = 4;

impl Tree<'_> {
    /// The inode that a name leads to.
    pub fn listed_inode(&self, ino: u64) -> Result<ListedInode> {
        match self.line.get(self.read, &key::inode(self.line.family, ino))? {
            Some((_, value)) => decode("an inode", &value),
            None => Err(lost(ino)),
        }
    }

    /// The inodes that names lead to, in the order asked.
    pub fn listed_inodes(&self, inos: &[u64]) -> Result<Vec<ListedInode>> {
        let mut sorted = inos.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let mut found = Vec::with_capacity(sorted.len());
        for run in sorted.chunk_by(|before, after| after - before <= GAP_MAX) {
            match run {
                [first, .., last] if run.len() >= RUN_MIN => self.scan_run((*first, *last), run, &mut found)?,
                _ => run.iter().try_for_each(|ino| self.listed_inode(*ino).map(|inode| found.push(inode)))?,
            }
        }
        // Each number has one inode by now, in the order of the numbers; only hard links ask for one twice.
        let once = sorted.len() == inos.len();
        let mut found: Vec<Option<ListedInode>> = found.into_iter().map(Some).collect();
        let place = |ino: &u64| {
            let slot = sorted.binary_search(ino).ok().and_then(|at| found.get_mut(at));
            let inode = slot.and_then(|slot| if once { slot.take() } else { slot.clone() });
            inode.ok_or_else(|| lost(*ino))
        };
        inos.iter().map(place).collect()
    }

    fn scan_run(&self, (first, last): (u64, u64), run: &[u64], found: &mut Vec<ListedInode>) -> Result<()> {
        let family = self.line.family;
        let end = key::after_prefix(&key::inode(family, last));
        let seen = self.line.scan(self.read, &key::inode(family, first), &end, usize::MAX)?;
        let mut seen = seen.iter();
        for ino in run {
            let Some(record) = seen.by_ref().find(|record| key::u64_at(&record.base, key::INODE_AT) == Some(*ino))
            else {
                return Err(lost(*ino));
            };
            found.push(decode("an inode", &record.value)?);
        }
        Ok(())
    }
}

fn lost(ino: u64) -> Error {
    Error::corrupt(format!("inode {ino}"), "a record, since a name leads to it", "none")
}
