//! A branch with its ancestry, and reading and writing records through it.
//!
//! - The cost of a look-up depends on how many branches wrote the record, not on the number of ancestors. Ancestors
//!   cost memory, shared by all branches below them, and time when they are read first; so their number is bounded.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::RwLock;

use crate::error::{Error, Result};
use crate::meta::{Pair, Read, Txn, Value};
use crate::record::bucket;
use crate::record::decode;
use crate::record::key::{self, BRANCH_BYTES, Branch, CloneGroup, tag};

/// The most cached branch ids, 4 bytes each: a bucket with many snapshots has a long ancestry.
const KEPT_MAX: usize = 4 << 20;
/// The most ancestors of a branch: a snapshot per hour for seven years.
pub const DEPTH_MAX: usize = 65_536;
/// Pairs taken from the engine at a time.
const CHUNK: usize = 256;

/// A branch with its ancestry.
#[derive(Clone, Debug)]
pub struct Ancestry {
    /// The clone group.
    pub clone_group: CloneGroup,
    branch: Branch,
    /// Branch ids in rising order; those from `above` on are the ancestors.
    chain: Arc<[Branch]>,
    above: usize,
}

/// A record visible to a branch.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The key without its branch.
    pub base: Bytes,
    /// The branch that wrote the visible version.
    pub branch: Branch,
    /// The value; never empty.
    pub value: Value,
}

impl Ancestry {
    /// The ancestry in `chain`: the branch itself first, then its ancestors.
    pub fn new(clone_group: CloneGroup, chain: impl Into<Arc<[Branch]>>) -> Self {
        let chain = chain.into();
        Self { clone_group, branch: chain[0], chain, above: 1 }
    }

    /// The branch that reads and writes.
    pub fn branch(&self) -> Branch {
        self.branch
    }

    /// Whether a version written by `branch` is visible from here.
    pub fn sees(&self, branch: Branch) -> bool {
        branch == self.branch || self.ancestors().binary_search(&branch).is_ok()
    }

    /// The ancestry of a child that this branch is about to get.
    pub fn child(&self, branch: Branch) -> Result<Self> {
        if self.ancestors().len() >= DEPTH_MAX {
            return Err(Error::TooDeep { limit: DEPTH_MAX as u64 });
        }
        let chain: Vec<_> = [branch, self.branch].into_iter().chain(self.ancestors().iter().copied()).collect();
        Ok(Self::new(self.clone_group, chain))
    }

    fn ancestors(&self) -> &[Branch] {
        &self.chain[self.above..]
    }

    fn alone(&self) -> bool {
        self.ancestors().is_empty()
    }

    /// How many branch ids are stored for it.
    fn weight(&self) -> usize {
        if self.chain.first() == Some(&self.branch) { self.chain.len() } else { 1 }
    }

    /// The version of `base` that this branch sees.
    pub fn get(&self, read: &dyn Read, base: &[u8]) -> Result<Option<(Branch, Value)>> {
        if let Some(value) = read.get(&key::branched(base, self.branch()))? {
            return Ok((!value.is_empty()).then_some((self.branch(), value)));
        }
        self.inherited(read, base)
    }

    /// The version of `base` that an ancestor shows.
    fn inherited(&self, read: &dyn Read, base: &[u8]) -> Result<Option<(Branch, Value)>> {
        let Some(above) = self.branch().checked_add(1).filter(|_| !self.alone()) else { return Ok(None) };
        let end = key::after_prefix(base);
        let mut from = key::branched(base, above);
        loop {
            let pairs = read.scan(&from, &end, 16)?;
            for pair in &pairs {
                let Some((found, branch)) = key::unbranched(&pair.key) else { continue };
                if found == base && self.sees(branch) {
                    return Ok((!pair.value.is_empty()).then(|| (branch, pair.value.clone())));
                }
            }
            match pairs.last() {
                Some(last) if pairs.len() == 16 => from = next(&last.key),
                _ => return Ok(None),
            }
        }
    }

    /// Up to `limit` visible records with `from` <= base < `to`, in order.
    pub fn scan(&self, read: &dyn Read, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Seen>> {
        let mut seen = Vec::new();
        let mut settled: Option<Vec<u8>> = None;
        let mut from = from.to_vec();
        while seen.len() < limit {
            let want = (limit - seen.len()).saturating_add(1).min(CHUNK);
            let pairs = read.scan(&from, to, want)?;
            let more = pairs.len() == want;
            if let Some(last) = pairs.last() {
                from = next(&last.key);
            }
            for pair in pairs {
                if seen.len() < limit {
                    self.take(pair, &mut settled, &mut seen);
                }
            }
            if !more {
                break;
            }
        }
        Ok(seen)
    }

    /// The visible records with `from` <= base < `to`, in order, read in chunks as needed.
    pub fn records<'a>(
        &'a self,
        read: &'a dyn Read,
        from: &[u8],
        to: &[u8],
    ) -> impl Iterator<Item = Result<Seen>> + use<'a> {
        let (mut from, to, mut more) = (from.to_vec(), to.to_vec(), true);
        let mut chunk = Vec::new().into_iter();
        std::iter::from_fn(move || {
            if chunk.len() == 0 && more {
                let seen = match self.scan(read, &from, &to, CHUNK) {
                    Ok(seen) => seen,
                    Err(error) => {
                        more = false;
                        return Some(Err(error));
                    }
                };
                more = seen.len() == CHUNK;
                if let Some(last) = seen.last() {
                    from = key::after_prefix(&last.base);
                }
                chunk = seen.into_iter();
            }
            chunk.next().map(Ok)
        })
    }

    /// All visible records of a kind.
    pub fn all<'a>(&'a self, read: &'a dyn Read, kind: u8) -> impl Iterator<Item = Result<Seen>> + use<'a> {
        let prefix = key::by_id(kind, self.clone_group);
        self.records(read, &prefix, &key::after_prefix(&prefix))
    }

    /// Takes the first visible version of each base, which is the nearest.
    fn take(&self, pair: Pair, settled: &mut Option<Vec<u8>>, seen: &mut Vec<Seen>) {
        let Some((base, branch)) = key::unbranched(&pair.key) else { return };
        if settled.as_deref() == Some(base) || !self.sees(branch) {
            return;
        }
        if !self.alone() {
            *settled = Some(base.to_vec());
        }
        if !pair.value.is_empty() {
            let base = pair.key.slice(..base.len());
            seen.push(Seen { base, branch, value: pair.value });
        }
    }

    /// The last visible record with `from` <= base < `to`.
    pub fn last(&self, read: &dyn Read, from: &[u8], to: &[u8]) -> Result<Option<Seen>> {
        let mut to = to.to_vec();
        loop {
            let pairs = read.scan_back(from, &to, 1)?;
            let Some(pair) = pairs.into_iter().next() else { return Ok(None) };
            let Some((base, _)) = key::unbranched(&pair.key) else { return Ok(None) };
            if let Some((branch, value)) = self.get(read, base)? {
                return Ok(Some(Seen { base: pair.key.slice(..base.len()), branch, value }));
            }
            to = base.to_vec();
        }
    }

    /// Writes this branch's version of `base`.
    pub fn put(&self, txn: &mut dyn Txn, base: &[u8], value: Vec<u8>) {
        debug_assert!(!value.is_empty(), "an empty value is a tombstone");
        txn.put(key::branched(base, self.branch()), value);
    }

    /// Must be called before [`Ancestry::put`] where an ancestor may show a version: once this branch overrides it,
    /// possibly no branch sees it, and the collector has to check.
    pub fn shadow(&self, txn: &mut dyn Txn, base: &[u8]) -> Result<()> {
        if self.alone() || txn.get(&key::branched(base, self.branch()))?.is_some() {
            return Ok(());
        }
        if self.inherited(&*txn, base)?.is_some() {
            txn.put(key::overridden(base), vec![1]);
        }
        Ok(())
    }

    /// Deletes `base` for this branch.
    pub fn remove(&self, txn: &mut dyn Txn, base: &[u8]) -> Result<()> {
        let mine = key::branched(base, self.branch());
        if self.inherited(&*txn, base)?.is_some() {
            txn.put(mine, Vec::new());
            txn.put(key::overridden(base), vec![1]);
        } else {
            txn.delete(mine);
        }
        Ok(())
    }
}

/// The smallest key greater than `key`.
fn next(key: &[u8]) -> Vec<u8> {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next
}

/// The ancestries of all branches, cached: a branch's ancestors never change.
#[derive(Default)]
pub struct Ancestries {
    known: RwLock<CachedAncestry>,
}

#[derive(Default)]
struct CachedAncestry {
    lines: HashMap<(CloneGroup, Branch), Ancestry>,
    /// The ancestors read last for each clone group, which the snapshots of a bucket share.
    trunks: HashMap<CloneGroup, Arc<[Branch]>>,
    /// Number of branch ids in them.
    named: usize,
}

impl Ancestries {
    /// The ancestry of a branch.
    pub fn ancestry(&self, read: &dyn Read, clone_group: CloneGroup, branch: Branch) -> Result<Ancestry> {
        let trunk = {
            let known = self.known.read();
            if let Some(ancestry) = known.lines.get(&(clone_group, branch)) {
                return Ok(ancestry.clone());
            }
            known.trunks.get(&clone_group).cloned()
        };
        let ancestry = find(read, clone_group, branch, trunk.as_ref())?;
        let mut known = self.known.write();
        if known.named >= KEPT_MAX {
            *known = CachedAncestry::default();
        }
        known.trunks.insert(clone_group, ancestry.chain.clone());
        if known.lines.insert((clone_group, branch), ancestry.clone()).is_none() {
            known.named += ancestry.weight();
        }
        Ok(ancestry)
    }

    /// Removes the ancestries of a deleted clone group.
    pub fn forget(&self, clone_group: CloneGroup) {
        let mut known = self.known.write();
        known.lines.retain(|(of, _), _| *of != clone_group);
        known.trunks.remove(&clone_group);
        known.named = known.lines.values().map(Ancestry::weight).sum();
    }
}

/// Reads the ancestry of a branch, up to ancestors that are in `trunk`.
fn find(read: &dyn Read, clone_group: CloneGroup, branch: Branch, trunk: Option<&Arc<[Branch]>>) -> Result<Ancestry> {
    let mut chain = vec![branch];
    let mut at = parent(read, clone_group, branch)?;
    while at != 0 {
        match trunk.and_then(|trunk| Some((trunk, trunk.binary_search(&at).ok()?))) {
            Some((trunk, above)) if chain.len() == 1 => {
                return Ok(Ancestry { clone_group, branch, chain: trunk.clone(), above });
            }
            Some((trunk, above)) => {
                chain.extend(&trunk[above..]);
                break;
            }
            None => chain.push(at),
        }
        at = parent(read, clone_group, at)?;
    }
    Ok(Ancestry::new(clone_group, chain))
}

fn parent(read: &dyn Read, clone_group: CloneGroup, branch: Branch) -> Result<Branch> {
    let what = format!("branch {branch} of clone group {clone_group}");
    let record = read.get(&key::of_branch(tag::BRANCH, clone_group, branch))?;
    let record = record.ok_or_else(|| Error::corrupt(what.clone(), "a record", "none"))?;
    let parent = decode::<bucket::Branch>(&what, &record)?.parent;
    if parent != 0 && parent <= branch {
        return Err(Error::corrupt(what, "a parent with a larger id", parent.to_string()));
    }
    Ok(parent)
}

const _: () = assert!(BRANCH_BYTES == size_of::<Branch>());

#[cfg(test)]
mod tests {
    use super::*;
    use crate::branch::{first_branch, snapshot_branch};
    use crate::clock::Timestamp;
    use crate::meta::{Durability, Meta, memory};

    const CLONE_GROUP: CloneGroup = 7;

    /// The branch of a bucket after this many snapshots.
    fn snapshots(meta: &Meta, count: usize) -> Branch {
        let take = meta.write(Durability::Buffered, move |txn| {
            let mut live = first_branch(txn, CLONE_GROUP, Timestamp(0));
            for _ in 0..count {
                (_, live) = snapshot_branch(txn, CLONE_GROUP, live, Timestamp(0))?;
            }
            Ok(live)
        });
        take.wait().unwrap()
    }

    #[test]
    fn snapshots_share_their_ancestors_with_the_bucket() {
        let meta = Meta::new(memory::open().unwrap());
        let live = snapshots(&meta, 3000);
        let (lines, snapshot) = (Ancestries::default(), meta.snapshot());
        // Each snapshot and the live branch after it were created together.
        let ids = std::iter::once(live).chain((live + 1..Branch::MAX).step_by(2));
        let living: Vec<Ancestry> =
            ids.map(|branch| lines.ancestry(&*snapshot, CLONE_GROUP, branch).unwrap()).collect();
        assert_eq!(living.len(), 3001);
        assert!(living.iter().all(|ancestry| Arc::ptr_eq(&ancestry.chain, &living[0].chain)));
        assert_eq!(
            living.iter().map(|ancestry| ancestry.ancestors().len()).collect::<Vec<_>>()[..4],
            [3000, 3000, 2999, 2998]
        );
        assert_eq!(lines.known.read().named, 3001 + 3000);
    }

    #[test]
    fn there_are_only_so_many_ancestors() {
        let meta = Meta::new(memory::open().unwrap());
        let live = snapshots(&meta, DEPTH_MAX - 1);
        let ancestry = Ancestries::default().ancestry(&*meta.snapshot(), CLONE_GROUP, live).unwrap();
        assert!(
            ancestry.sees(Branch::MAX) && !ancestry.sees(live + 1),
            "it sees the first branch, and not the last snapshot"
        );
        let last = ancestry.child(live - 1).unwrap();
        assert!(matches!(last.child(live - 2), Err(Error::TooDeep { .. })));
    }
}
