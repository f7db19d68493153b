//! The living branches of a clone group, and which versions of a record they need.
//!
//! - Living branches, which are live ones and snapshots, are numbered so that the descendants of any one branch are
//!   consecutive: a *run*. Which versions of a record are needed then follows from its versions alone, however many
//!   branches exist.
//! - A branch that is deleted later only keeps too much, and leaves its own mark for the collector. A branch created
//!   later has to be known: [`LiveBranches::renewed`].

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use crate::error::{Error, Result};
use crate::meta::Read;
use crate::record::bucket::{Branch as BranchRecord, BranchKind, CloneGroup as FamilyRecord};
use crate::record::decode;
use crate::record::key::{self, Branch, CloneGroup, tag};

/// The living branches of a clone group at one moment.
pub struct LiveBranches {
    clone_group: CloneGroup,
    /// The id of the next branch: while it is unchanged, no branch was created.
    next: Option<Branch>,
    /// For each branch, the range of living branches at and below it.
    runs: HashMap<Branch, Range<u32>>,
}

impl LiveBranches {
    /// The current living branches.
    pub fn of(read: &dyn Read, clone_group: CloneGroup) -> Result<Self> {
        let mut branches = Vec::new();
        for pair in crate::scan::all(read, &key::by_id(tag::BRANCH, clone_group))? {
            let Some((_, branch)) = key::unbranched(&pair.key) else { continue };
            branches.push((branch, decode("a branch", &pair.value)?));
        }
        Ok(Self { clone_group, next: next_branch(read, clone_group)?, runs: runs(clone_group, &branches)? })
    }

    /// These, or the current ones if a branch was created since.
    pub fn renewed(self, read: &dyn Read) -> Result<Self> {
        if next_branch(read, self.clone_group)? == self.next { Ok(self) } else { Self::of(read, self.clone_group) }
    }

    /// Whether no branch is alive.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The versions of one record that no living branch needs, given its versions by branch in rising order with
    /// whether each is a tombstone. A tombstone is needed only while it hides a value that another branch needs.
    pub fn collectable(&self, versions: &[(Branch, bool)]) -> Vec<Branch> {
        // Descendants come first: what one of them shows, no ancestor does.
        let mut shown = Runs::default();
        let mut sees = |branch| self.runs.get(branch).is_some_and(|run| shown.add(run));
        let versions: Vec<_> = versions.iter().map(|(branch, gone)| (*branch, *gone, sees(branch))).collect();
        let (mut values, mut collectable) = (Runs::default(), Vec::new());
        for (branch, gone, seen) in versions.into_iter().rev() {
            let Some(run) = self.runs.get(&branch).filter(|_| seen) else {
                collectable.push(branch);
                continue;
            };
            match (gone, values.holds(run.start)) {
                (true, false) => collectable.push(branch),
                (false, false) => _ = values.add(run),
                (_, true) => {}
            }
        }
        collectable
    }
}

fn next_branch(read: &dyn Read, clone_group: CloneGroup) -> Result<Option<Branch>> {
    let Some(value) = read.get(&key::by_id(tag::CLONE_GROUP, clone_group))? else { return Ok(None) };
    Ok(Some(decode::<FamilyRecord>("a clone group", &value)?.next_branch))
}

/// The ranges of all branches, given in rising order: each before its parent.
fn runs(clone_group: CloneGroup, branches: &[(Branch, BranchRecord)]) -> Result<HashMap<Branch, Range<u32>>> {
    let own = |record: &BranchRecord| u32::from(matches!(record.kind(), BranchKind::Live | BranchKind::Snapshot));
    let mut counts: HashMap<Branch, u32> = HashMap::new();
    for (branch, record) in branches {
        let count = counts.entry(*branch).or_default();
        *count += own(record);
        let count = *count;
        *counts.entry(record.parent).or_default() += count;
    }
    // The start of the next range below each branch.
    let mut nexts = HashMap::from([(0, 0)]);
    let mut runs = HashMap::new();
    for (branch, record) in branches.iter().rev() {
        let count = counts[branch];
        if count > 0 {
            let next = nexts.get_mut(&record.parent).ok_or_else(|| no_parent(clone_group, *branch, record))?;
            let run = *next..*next + count;
            *next = run.end;
            nexts.insert(*branch, run.start + own(record));
            runs.insert(*branch, run);
        }
    }
    Ok(runs)
}

fn no_parent(clone_group: CloneGroup, branch: Branch, record: &BranchRecord) -> Error {
    let what = format!("branch {branch} of clone group {clone_group}");
    Error::corrupt(what, "a parent with a larger id", record.parent.to_string())
}

/// Disjoint ranges, by their start.
#[derive(Default)]
struct Runs(BTreeMap<u32, u32>);

impl Runs {
    /// Adds a range that contains those it overlaps. Returns whether they leave any of it.
    fn add(&mut self, run: &Range<u32>) -> bool {
        let met: Vec<u32> = self.0.range(run.clone()).map(|(start, _)| *start).collect();
        let held: u32 = met.iter().filter_map(|start| Some(self.0.remove(start)? - start)).sum();
        self.0.insert(run.start, run.end);
        held < run.end - run.start
    }

    fn holds(&self, number: u32) -> bool {
        self.0.range(..=number).next_back().is_some_and(|(_, end)| *end > number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::branch::{first_branch, kill_branch, snapshot_branch};
    use crate::clock::Timestamp;
    use crate::meta::{Durability, Meta, memory};

    const CLONE_GROUP: CloneGroup = 7;

    /// Ten thousand snapshots, and a record that was rewritten after each: comparing all pairs would take minutes.
    #[test]
    fn many_snapshots_cost_no_more_than_their_versions() {
        const SNAPSHOTS: u32 = 10_000;
        let meta = Meta::new(memory::open().unwrap());
        let taken = meta.write(Durability::Buffered, |txn| {
            let mut live = first_branch(txn, CLONE_GROUP, Timestamp(0));
            for _ in 0..SNAPSHOTS {
                (_, live) = snapshot_branch(txn, CLONE_GROUP, live, Timestamp(0))?;
            }
            Ok(live)
        });
        let live = taken.wait().unwrap();
        // The bucket wrote as its current live branch: every second id, beside one of which is the snapshot.
        let versions: Vec<_> = (0..=SNAPSHOTS).map(|at| (live + 2 * at, false)).collect();
        let before = LiveBranches::of(&*meta.snapshot(), CLONE_GROUP).unwrap();
        assert_eq!(before.collectable(&versions), []);
        let kill = meta.write(Durability::Buffered, move |txn| {
            (0..SNAPSHOTS).step_by(2).try_for_each(|at| kill_branch(txn, CLONE_GROUP, live + 1 + 2 * at))
        });
        kill.wait().unwrap();
        let before = before.renewed(&*meta.snapshot()).unwrap();
        assert_eq!(before.collectable(&versions), [], "no branch was made: what died is not known");
        let after = LiveBranches::of(&*meta.snapshot(), CLONE_GROUP).unwrap();
        assert_eq!(after.collectable(&versions).len(), SNAPSHOTS as usize / 2);
        let made = meta.write(Durability::Buffered, move |txn| snapshot_branch(txn, CLONE_GROUP, live, Timestamp(0)));
        let (_, next) = made.wait().unwrap();
        let renewed = before.renewed(&*meta.snapshot()).unwrap();
        assert_eq!(renewed.collectable(&[(next, false), (live, false)]), [], "the snapshot sees what the bucket hides");
    }
}
