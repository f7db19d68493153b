//! A branch and its ancestors, and reading and writing through them.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::RwLock;

use crate::error::{Error, Result};
use crate::meta::{Pair, Read, Txn, Value};
use crate::record::bucket;
use crate::record::decode;
use crate::record::key::{self, BRANCH_BYTES, Branch, Family, tag};

/// Branches that all kept lines name at most, 4 bytes each: a bucket with many snapshots has long ones.
const KEPT_MAX: usize = 4 << 20;
/// Pairs taken from the engine at a time.
const CHUNK: usize = 256;

/// A branch of a family with its ancestors.
#[derive(Clone, Debug)]
pub struct Line {
    /// The family.
    pub family: Family,
    /// The branch and its ancestors: itself first, rising.
    chain: Arc<[Branch]>,
}

/// A record a branch sees.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The key without its branch.
    pub base: Bytes,
    /// The branch that wrote it.
    pub branch: Branch,
    /// The value; never empty.
    pub value: Value,
}

impl Line {
    /// A line of `chain`: the branch itself first, then its ancestors.
    pub fn new(family: Family, chain: impl Into<Arc<[Branch]>>) -> Self {
        Self { family, chain: chain.into() }
    }

    /// The branch that reads and writes.
    pub fn branch(&self) -> Branch {
        self.chain[0]
    }

    /// Whether a version written by `branch` is on this line.
    pub fn sees(&self, branch: Branch) -> bool {
        self.chain.binary_search(&branch).is_ok()
    }

    /// The line of a child that this branch is about to get.
    pub fn child(&self, branch: Branch) -> Self {
        Self::new(self.family, std::iter::once(branch).chain(self.chain.iter().copied()).collect::<Vec<_>>())
    }

    fn alone(&self) -> bool {
        self.chain.len() == 1
    }

    /// The version of `base` this branch sees.
    pub fn get(&self, read: &dyn Read, base: &[u8]) -> Result<Option<(Branch, Value)>> {
        if let Some(value) = read.get(&key::branched(base, self.branch()))? {
            return Ok((!value.is_empty()).then_some((self.branch(), value)));
        }
        self.inherited(read, base)
    }

    /// The version of `base` an ancestor shows.
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

    /// Up to `limit` records this branch sees with `from` <= base < `to`, in order.
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

    /// Takes the first version of each base that is on the line: its nearest.
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

    /// The last record this branch sees with `from` <= base < `to`.
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

    /// Call before [`Line::put`] where an ancestor may show a version: once this branch hides it, perhaps nobody sees it,
    /// and the collector has to look.
    pub fn shadow(&self, txn: &mut dyn Txn, base: &[u8]) -> Result<()> {
        if self.alone() || txn.get(&key::branched(base, self.branch()))?.is_some() {
            return Ok(());
        }
        if self.inherited(&*txn, base)?.is_some() {
            txn.put(key::shadowed(base), vec![1]);
        }
        Ok(())
    }

    /// Deletes `base` as this branch sees it.
    pub fn remove(&self, txn: &mut dyn Txn, base: &[u8]) -> Result<()> {
        let mine = key::branched(base, self.branch());
        if self.inherited(&*txn, base)?.is_some() {
            txn.put(mine, Vec::new());
            txn.put(key::shadowed(base), vec![1]);
        } else {
            txn.delete(mine);
        }
        Ok(())
    }
}

/// The smallest key above `key`.
fn next(key: &[u8]) -> Vec<u8> {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next
}

/// The lines of all branches, kept once read: a branch's ancestors never change.
#[derive(Default)]
pub struct Lines {
    known: RwLock<Known>,
}

#[derive(Default)]
struct Known {
    lines: HashMap<(Family, Branch), Line>,
    /// Branches that they name.
    named: usize,
}

impl Lines {
    /// The line of a branch.
    pub fn line(&self, read: &dyn Read, family: Family, branch: Branch) -> Result<Line> {
        if let Some(line) = self.known.read().lines.get(&(family, branch)) {
            return Ok(line.clone());
        }
        let line = Line::new(family, ancestry(read, family, branch)?);
        let mut known = self.known.write();
        if known.named >= KEPT_MAX {
            *known = Known::default();
        }
        if known.lines.insert((family, branch), line.clone()).is_none() {
            known.named += line.chain.len();
        }
        Ok(line)
    }

    /// Forgets the lines of a family that is gone.
    pub fn forget(&self, family: Family) {
        let mut known = self.known.write();
        known.lines.retain(|(of, _), _| *of != family);
        known.named = known.lines.values().map(|line| line.chain.len()).sum();
    }
}

fn ancestry(read: &dyn Read, family: Family, branch: Branch) -> Result<Vec<Branch>> {
    let mut chain = Vec::new();
    let mut at = branch;
    while at != 0 {
        let what = format!("branch {at} of family {family}");
        let record = read.get(&key::of_branch(tag::BRANCH, family, at))?;
        let record = record.ok_or_else(|| Error::corrupt(what.clone(), "a record", "none"))?;
        let parent = decode::<bucket::Branch>(&what, &record)?.parent;
        if parent != 0 && parent <= at {
            return Err(Error::corrupt(what, "a parent with a larger id", parent.to_string()));
        }
        chain.push(at);
        at = parent;
    }
    Ok(chain)
}

const _: () = assert!(BRANCH_BYTES == size_of::<Branch>());
