//! Collection of record versions that no living branch sees.
//!
//! - All tree records of a clone group with a dead branch are scanned, a bounded number per transaction; a version that
//!   no living branch needs is removed with its references.
//! - The mark of the dead branch is removed last: after a crash the scan starts again, which does no harm.
//! - A branch that overrides an ancestor's version leaves a mark at the record: only its versions are examined then.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use crate::branch::LiveBranches;
use crate::content::release;
use crate::core::Core;
use crate::error::Result;
use crate::meta::{Durability, Pair, Read, Txn};
use crate::record::decode;
use crate::record::inode::{Content, Extent, Inode};
use crate::record::key::{self, Branch, CloneGroup, tag};

/// Records examined in one transaction.
const STEP: usize = 512;

/// The kinds of records that belong to branches.
const KINDS: [u8; 6] = [tag::DIRENT, tag::EXTENT, tag::VERSION, tag::ORPHAN, tag::OBJECT_PARTS, tag::INODE];

/// Collects the records of dead branches; returns how many were removed.
pub(super) fn collect(core: &Arc<Core>, stopping: &dyn Fn() -> bool) -> Result<u64> {
    let mut removed = 0;
    let marks = crate::scan::all(&*core.meta.snapshot(), &[tag::DEAD])?;
    let mut clone_groups: Vec<CloneGroup> = marks.iter().filter_map(|mark| key::u64_at(&mark.key, 1)).collect();
    clone_groups.dedup();
    for clone_group in clone_groups {
        let dead: Vec<Pair> =
            marks.iter().filter(|mark| key::u64_at(&mark.key, 1) == Some(clone_group)).cloned().collect();
        let mut living = LiveBranches::of(&*core.meta.snapshot(), clone_group)?;
        for kind in KINDS {
            let (then, count) = collect_kind(core, living, (kind, clone_group), stopping)?;
            (living, removed) = (then, removed + count);
            if stopping() {
                return Ok(removed);
            }
        }
        finish(core, clone_group, dead)?;
    }
    Ok(removed)
}

/// Collects overridden records; returns how many were removed.
pub(super) fn collect_overridden(core: &Arc<Core>, stopping: &dyn Fn() -> bool) -> Result<u64> {
    let (mut removed, mut known) = (0, HashMap::new());
    while !stopping() {
        let marks = core.meta.snapshot().scan(&[tag::OVERRIDDEN], &[tag::OVERRIDDEN + 1], STEP)?;
        if marks.is_empty() {
            break;
        }
        know(&*core.meta.snapshot(), &marks, &mut known)?;
        let step = core.meta.write(Durability::Buffered, move |txn| look_at(txn, known, &marks));
        let (then, count) = step.wait()?;
        (known, removed) = (then, removed + count);
    }
    Ok(removed)
}

/// Reads the living branches of the marks' clone groups, outside of the transaction, because there may be many.
fn know(read: &dyn Read, marks: &[Pair], known: &mut HashMap<CloneGroup, LiveBranches>) -> Result<()> {
    for clone_group in marks.iter().filter_map(|mark| key::u64_at(&mark.key, 2)) {
        if let Entry::Vacant(entry) = known.entry(clone_group) {
            entry.insert(LiveBranches::of(read, clone_group)?);
        }
    }
    Ok(())
}

fn look_at(
    txn: &mut dyn Txn,
    known: HashMap<CloneGroup, LiveBranches>,
    marks: &[Pair],
) -> Result<(HashMap<CloneGroup, LiveBranches>, u64)> {
    let known = known.into_iter().map(|(clone_group, living)| Ok((clone_group, living.renewed(&*txn)?)));
    let known: HashMap<CloneGroup, LiveBranches> = known.collect::<Result<_>>()?;
    let mut removed = 0;
    for mark in marks {
        txn.delete(mark.key.to_vec());
        let base = &mark.key[1..];
        let living = key::u64_at(base, 1).and_then(|clone_group| known.get(&clone_group));
        let (Some(kind), Some(living)) = (base.first(), living) else { continue };
        let versions = crate::scan::all(&*txn, base)?;
        let versions: Vec<Pair> = versions.into_iter().filter(|pair| self::base(pair) == base).collect();
        removed += drop_unneeded(txn, living, *kind, &versions)?;
    }
    Ok((known, removed))
}

fn collect_kind(
    core: &Arc<Core>,
    mut living: LiveBranches,
    (kind, clone_group): (u8, CloneGroup),
    stopping: &dyn Fn() -> bool,
) -> Result<(LiveBranches, u64)> {
    let prefix = key::by_id(kind, clone_group);
    let end = key::after_prefix(&prefix);
    let mut from = prefix;
    let mut removed = 0;
    while !stopping() {
        let to = end.clone();
        let step = core.meta.write(Durability::Buffered, move |txn| {
            let living = living.renewed(&*txn)?;
            let (next, count) = step(txn, &living, kind, &from, &to)?;
            Ok((living, next, count))
        });
        let (then, next, count) = step.wait()?;
        (living, removed) = (then, removed + count);
        match next {
            Some(next) => from = next,
            None => break,
        }
    }
    Ok((living, removed))
}

/// Examines some records; returns where to continue, and how many were removed.
fn step(txn: &mut dyn Txn, living: &LiveBranches, kind: u8, from: &[u8], to: &[u8]) -> Result<(Option<Vec<u8>>, u64)> {
    let mut pairs = txn.scan(from, to, STEP)?;
    let next = if pairs.len() == STEP { whole_groups(txn, &mut pairs, to)? } else { None };
    let mut removed = 0;
    for group in pairs.chunk_by(|a, b| base(a) == base(b)) {
        removed += drop_unneeded(txn, living, kind, group)?;
    }
    Ok((next, removed))
}

/// Removes the versions of one record that no living branch needs; returns how many.
fn drop_unneeded(txn: &mut dyn Txn, living: &LiveBranches, kind: u8, group: &[Pair]) -> Result<u64> {
    let branch_of = |pair: &Pair| key::unbranched(&pair.key).map_or(0, |(_, branch)| branch);
    let versions: Vec<(Branch, bool)> = group.iter().map(|pair| (branch_of(pair), pair.value.is_empty())).collect();
    let mut removed = 0;
    for branch in living.collectable(&versions) {
        if let Ok(at) = group.binary_search_by_key(&branch, branch_of) {
            let pair = &group[at];
            drop_references(txn, kind, &pair.value)?;
            txn.delete(pair.key.to_vec());
            removed += 1;
        }
    }
    Ok(removed)
}

/// Completes the last group with its remaining versions; returns where to continue after it.
fn whole_groups(txn: &dyn Txn, pairs: &mut Vec<Pair>, to: &[u8]) -> Result<Option<Vec<u8>>> {
    let Some(last) = pairs.last().cloned() else { return Ok(None) };
    let after = key::after_prefix(base(&last)).min(to.to_vec());
    let mut from = [&last.key[..], &[0]].concat();
    loop {
        let more = txn.scan(&from, &after, STEP)?;
        let full = more.len() == STEP;
        pairs.extend(more);
        match pairs.last() {
            Some(last) if full => from = [&last.key[..], &[0]].concat(),
            _ => return Ok(Some(after)),
        }
    }
}

fn base(pair: &Pair) -> &[u8] {
    key::unbranched(&pair.key).map_or(&pair.key[..], |(base, _)| base)
}

fn drop_references(txn: &mut dyn Txn, kind: u8, value: &[u8]) -> Result<()> {
    match kind {
        tag::EXTENT if !value.is_empty() => release(txn, decode::<Extent>("an extent", value)?.blob),
        tag::INODE if !value.is_empty() => match decode::<Inode>("an inode", value)?.content {
            Some(Content::Blob(content)) => release(txn, content.id),
            Some(Content::Extents(content)) => content.in_place.map_or(Ok(()), |in_place| release(txn, in_place)),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Removes dead branches, and the whole clone group if none of it is alive.
fn finish(core: &Arc<Core>, clone_group: CloneGroup, dead: Vec<Pair>) -> Result<()> {
    let shared = core.clone();
    let done = core.meta.write(Durability::Buffered, move |txn| {
        for mark in dead {
            txn.delete(mark.key.to_vec());
        }
        if LiveBranches::of(&*txn, clone_group)?.is_empty() {
            for branch in crate::scan::all(&*txn, &key::by_id(tag::BRANCH, clone_group))? {
                txn.delete(branch.key.to_vec());
            }
            txn.delete(key::by_id(tag::CLONE_GROUP, clone_group));
            shared.lines.forget(clone_group);
        }
        Ok(())
    });
    done.wait()
}
