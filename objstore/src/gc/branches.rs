//! What nobody sees any more: only dead branches did, or every living one hid it.
//!
//! - All tree records of a family that has a dead branch are looked through, a bounded number a transaction; a version
//!   that no living line needs goes, with its references.
//! - The mark of the dead branch goes last: a crash begins the walk anew, which does no harm.
//! - A branch that hides what an ancestor held leaves a mark at the record: only its versions are looked at then.

use std::sync::Arc;

use crate::branch::{Line, collectable, living_lines};
use crate::content::release;
use crate::core::Core;
use crate::error::Result;
use crate::meta::{Durability, Pair, Txn};
use crate::record::decode;
use crate::record::inode::{Content, Extent, Inode};
use crate::record::key::{self, Branch, Family, tag};

/// Records looked through in one transaction.
const STEP: usize = 512;

/// Kinds of records that carry branches.
const KINDS: [u8; 6] = [tag::DIRENT, tag::EXTENT, tag::VERSION, tag::ORPHAN, tag::OBJECT_PARTS, tag::INODE];

/// Collects after all branches that died; how many records went.
pub(super) fn collect(core: &Arc<Core>, stopping: &dyn Fn() -> bool) -> Result<u64> {
    let mut removed = 0;
    let marks = crate::store::all(&*core.meta.snapshot(), &[tag::DEAD])?;
    let mut families: Vec<Family> = marks.iter().filter_map(|mark| key::u64_at(&mark.key, 1)).collect();
    families.dedup();
    for family in families {
        let dead: Vec<Pair> = marks.iter().filter(|mark| key::u64_at(&mark.key, 1) == Some(family)).cloned().collect();
        for kind in KINDS {
            removed += collect_kind(core, family, kind, stopping)?;
            if stopping() {
                return Ok(removed);
            }
        }
        finish(core, family, dead)?;
    }
    Ok(removed)
}

/// Collects what was hidden since; how many records went.
pub(super) fn collect_shadowed(core: &Arc<Core>, stopping: &dyn Fn() -> bool) -> Result<u64> {
    let mut removed = 0;
    while !stopping() {
        let marks = core.meta.snapshot().scan(&[tag::SHADOWED], &[tag::SHADOWED + 1], STEP)?;
        if marks.is_empty() {
            break;
        }
        let shared = core.clone();
        let step = core.meta.write(Durability::Buffered, move |txn| look_at(txn, &shared, &marks));
        removed += step.wait()?;
    }
    Ok(removed)
}

fn look_at(txn: &mut dyn Txn, core: &Core, marks: &[Pair]) -> Result<u64> {
    let mut removed = 0;
    let mut known: Option<(Family, Vec<Line>)> = None;
    for mark in marks {
        txn.delete(mark.key.to_vec());
        let base = &mark.key[1..];
        let (Some(kind), Some(family)) = (base.first(), key::u64_at(base, 1)) else { continue };
        let living = match known.take().filter(|(known, _)| *known == family) {
            Some((_, living)) => living,
            None => living_lines(&*txn, &core.lines, family)?,
        };
        let versions = crate::store::all(&*txn, base)?;
        let versions: Vec<Pair> = versions.into_iter().filter(|pair| self::base(pair) == base).collect();
        removed += drop_unneeded(txn, &living, *kind, &versions)?;
        known = Some((family, living));
    }
    Ok(removed)
}

fn collect_kind(core: &Arc<Core>, family: Family, kind: u8, stopping: &dyn Fn() -> bool) -> Result<u64> {
    let prefix = key::by_id(kind, family);
    let end = key::after_prefix(&prefix);
    let mut from = prefix;
    let mut removed = 0;
    while !stopping() {
        let (shared, to) = (core.clone(), end.clone());
        let step = core.meta.write(Durability::Buffered, move |txn| {
            let living = living_lines(&*txn, &shared.lines, family)?;
            step(txn, &living, kind, &from, &to)
        });
        let (next, count) = step.wait()?;
        removed += count;
        match next {
            Some(next) => from = next,
            None => break,
        }
    }
    Ok(removed)
}

/// Looks through some records; where to go on, and how many went.
fn step(txn: &mut dyn Txn, living: &[Line], kind: u8, from: &[u8], to: &[u8]) -> Result<(Option<Vec<u8>>, u64)> {
    let mut pairs = txn.scan(from, to, STEP)?;
    let next = if pairs.len() == STEP { whole_groups(txn, &mut pairs, to)? } else { None };
    let mut removed = 0;
    for group in pairs.chunk_by(|a, b| base(a) == base(b)) {
        removed += drop_unneeded(txn, living, kind, group)?;
    }
    Ok((next, removed))
}

/// Drops those of all versions of one record that no living line needs; how many.
fn drop_unneeded(txn: &mut dyn Txn, living: &[Line], kind: u8, group: &[Pair]) -> Result<u64> {
    let versions: Vec<(Branch, bool)> =
        group.iter().filter_map(|pair| Some((key::unbranched(&pair.key)?.1, pair.value.is_empty()))).collect();
    let mut removed = 0;
    for branch in collectable(living, &versions) {
        let pair = group.iter().find(|pair| key::unbranched(&pair.key).is_some_and(|(_, b)| b == branch));
        if let Some(pair) = pair {
            drop_references(txn, kind, &pair.value)?;
            txn.delete(pair.key.to_vec());
            removed += 1;
        }
    }
    Ok(removed)
}

/// Completes the last group with its further versions; where to go on after it.
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
            Some(Content::Extents(content)) => content.home.map_or(Ok(()), |home| release(txn, home)),
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Forgets the dead branches, and the whole family if nothing of it lives.
fn finish(core: &Arc<Core>, family: Family, dead: Vec<Pair>) -> Result<()> {
    let shared = core.clone();
    let done = core.meta.write(Durability::Buffered, move |txn| {
        for mark in dead {
            txn.delete(mark.key.to_vec());
        }
        if living_lines(&*txn, &shared.lines, family)?.is_empty() {
            for branch in crate::store::all(&*txn, &key::by_id(tag::BRANCH, family))? {
                txn.delete(branch.key.to_vec());
            }
            txn.delete(key::by_id(tag::FAMILY, family));
            shared.lines.forget(family);
        }
        Ok(())
    });
    done.wait()
}
