//! Reading many inodes at once.
//!
//! - One scan reads inodes whose numbers are close to each other, as those of objects written one after the other are:
//!   a scan step costs a fraction of a look-up. Others are looked up one by one.

use prost::Message;

use super::read::Tree;
use crate::branch::Seen;
use crate::error::{Error, Result};
use crate::record::decode_shared;
use crate::record::key;
use crate::record::listed::ListedInode;

/// The largest gap between two numbers of a scan: skipping a few records costs less than a look-up.
const GAP_MAX: u64 = 4;
/// The number of inodes from which a scan is cheaper than look-ups.
const RUN_MIN: usize = 4;

impl Tree<'_> {
    /// The inode that a name leads to.
    pub fn listed_inode(&self, ino: u64) -> Result<ListedInode> {
        self.inode_as(ino)?.ok_or_else(|| lost(ino))
    }

    /// The inodes that names lead to, in the given order.
    pub fn listed_inodes(&self, inos: &[u64]) -> Result<Vec<ListedInode>> {
        let found = self.inodes_as(inos)?.into_iter().zip(inos);
        found.map(|(inode, ino)| inode.ok_or_else(|| lost(*ino))).collect()
    }

    /// The inodes with these numbers, in the given order; `None` where there is none.
    pub fn inodes_as<M: Message + Default + Clone>(&self, inos: &[u64]) -> Result<Vec<Option<M>>> {
        let mut sorted = inos.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let mut found = Vec::with_capacity(sorted.len());
        for run in sorted.chunk_by(|before, after| after - before <= GAP_MAX) {
            match run {
                [first, .., last] if run.len() >= RUN_MIN => self.scan_run((*first, *last), run, &mut found)?,
                _ => run.iter().try_for_each(|ino| self.inode_as(*ino).map(|inode| found.push(inode)))?,
            }
        }
        // The numbers are sorted; only hard links repeat one.
        let once = sorted.len() == inos.len();
        let place = |ino: &u64| {
            let slot = sorted.binary_search(ino).ok().and_then(|at| found.get_mut(at));
            slot.and_then(|slot| if once { slot.take() } else { slot.clone() })
        };
        Ok(inos.iter().map(place).collect())
    }

    fn inode_as<M: Message + Default>(&self, ino: u64) -> Result<Option<M>> {
        let seen = self.ancestry.get(self.read, &key::inode(self.ancestry.clone_group, ino))?;
        seen.map(|(_, value)| decode_shared("an inode", &value)).transpose()
    }

    fn scan_run<M: Message + Default>(
        &self,
        (first, last): (u64, u64),
        run: &[u64],
        found: &mut Vec<Option<M>>,
    ) -> Result<()> {
        let clone_group = self.ancestry.clone_group;
        let end = key::after_prefix(&key::inode(clone_group, last));
        let seen = self.ancestry.scan(self.read, &key::inode(clone_group, first), &end, usize::MAX)?;
        let number = |record: &Seen| key::u64_at(&record.base, key::INODE_AT).unwrap_or_default();
        let mut seen = seen.iter().peekable();
        for ino in run {
            while seen.next_if(|record| number(record) < *ino).is_some() {}
            let record = seen.next_if(|record| number(record) == *ino);
            found.push(record.map(|record| decode_shared("an inode", &record.value)).transpose()?);
        }
        Ok(())
    }
}

fn lost(ino: u64) -> Error {
    Error::corrupt(format!("inode {ino}"), "a record, since a name leads to it", "none")
}
