//! The owners of damaged content: objects, versions and parts that refer to a blob.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::content::Damage;
use super::{Checked, Report, Root};
use crate::core::Core;
use crate::error::Result;
use crate::record::damage::Damaged;
use crate::record::decode;
use crate::record::inode::{Content, Extent, Inode, NONCURRENT};
use crate::record::key::{self, Branch, tag};
use crate::record::upload::Part;
use crate::tree::{Tree, order_of, version_id};

/// The most owners named for one blob; further ones are only counted.
const NAMED_MAX: usize = 8;

/// An inode record that refers to a blob.
struct Owner {
    clone_group: u64,
    ino: u64,
    branch: Branch,
}

/// Reports damage with its owners.
pub(super) fn tell(store: &Checked<'_>, damage: &BTreeMap<u64, Damage>, report: &mut Report) -> Result<()> {
    if damage.is_empty() {
        return Ok(());
    }
    let mut names = named(store, &damage.keys().copied().collect())?;
    for (blob, Damage { why, quarantined }) in damage {
        let mut who = names.remove(blob).unwrap_or_default();
        let more = who.len().saturating_sub(NAMED_MAX);
        who.truncate(NAMED_MAX);
        let others = if more > 0 { format!(" and {more} more") } else { String::new() };
        let who = if who.is_empty() { format!("blob {blob:016x}, which no name shows") } else { who.join(", ") };
        if *quarantined {
            report.quarantined(format!("{who}{others}: {why}"));
        } else {
            let advice = "upload it again, delete it, or restore it from a backup";
            report.problem(format!("{who}{others}: {why}; {advice}"));
        }
    }
    Ok(())
}

/// The names of everything that refers to these blobs.
fn named(store: &Checked<'_>, damage: &BTreeSet<u64>) -> Result<HashMap<u64, Vec<String>>> {
    let roots = super::buckets::roots(store, &mut Report::default())?.shown;
    let (owners, mut names) = owners(store, damage)?;
    for (blob, owners) in owners {
        for owner in owners {
            names.entry(blob).or_default().extend(seen_as(store, &roots, &owner)?);
        }
    }
    for who in names.values_mut() {
        who.sort();
        who.dedup();
    }
    Ok(names)
}

/// The owners of a blob in an open store, in words. It reads all inodes.
pub(crate) fn owners_of(core: &Core, blob: u64) -> Result<Vec<String>> {
    let store = Checked::new(core.meta.snapshot(), core.blobs.clone(), &|_| {});
    Ok(named_shortly(&store, &BTreeSet::from([blob]))?.pop().map(|(_, who)| who).unwrap_or_default())
}

/// Quarantined content without recorded owners, with its owners.
pub(super) fn unnamed(store: &Checked<'_>) -> Result<Vec<(u64, Vec<String>)>> {
    let mut blobs = BTreeSet::new();
    store.each(&[tag::DAMAGED], |pair| {
        let unnamed = decode::<Damaged>("quarantined content", &pair.value).is_ok_and(|damaged| damaged.who.is_empty());
        blobs.extend(key::u64_at(&pair.key, 1).filter(|_| unnamed));
        Ok(())
    })?;
    if blobs.is_empty() { Ok(Vec::new()) } else { named_shortly(store, &blobs) }
}

/// The first names of everything that refers to these blobs.
fn named_shortly(store: &Checked<'_>, damage: &BTreeSet<u64>) -> Result<Vec<(u64, Vec<String>)>> {
    let mut names: Vec<(u64, Vec<String>)> = named(store, damage)?.into_iter().collect();
    names.iter_mut().for_each(|(_, who)| who.truncate(NAMED_MAX));
    Ok(names)
}

/// Everything that refers to damaged blobs: inodes, and uploads in words.
type Owners = (HashMap<u64, Vec<Owner>>, HashMap<u64, Vec<String>>);

fn owners(store: &Checked<'_>, damage: &BTreeSet<u64>) -> Result<Owners> {
    let mut owners: HashMap<u64, Vec<Owner>> = HashMap::new();
    let mut add = |key: &[u8], blob: u64| {
        let at = key::u64_at(key, 1).zip(key::u64_at(key, key::INODE_AT)).zip(key::unbranched(key));
        if let Some(((clone_group, ino), (_, branch))) = at.filter(|_| damage.contains(&blob)) {
            owners.entry(blob).or_default().push(Owner { clone_group, ino, branch });
        }
    };
    store.each(&[tag::INODE], |pair| {
        match decode::<Inode>("an inode", &pair.value).ok().and_then(|inode| inode.content) {
            Some(Content::Blob(content)) => add(&pair.key, content.id),
            Some(Content::Extents(content)) => {
                content.in_place.into_iter().for_each(|in_place| add(&pair.key, in_place));
            }
            _ => {}
        }
        Ok(())
    })?;
    store.each(&[tag::EXTENT], |pair| {
        if let Ok(extent) = decode::<Extent>("an extent", &pair.value) {
            add(&pair.key, extent.blob);
        }
        Ok(())
    })?;
    let mut parts: HashMap<u64, Vec<String>> = HashMap::new();
    store.each(&[tag::PART], |pair| {
        let pieces = decode::<Part>("a part", &pair.value).map(|part| part.pieces).unwrap_or_default();
        for piece in pieces.iter().filter(|piece| damage.contains(&piece.blob)) {
            let upload = key::text_at(&pair.key, 1).unwrap_or_default();
            parts.entry(piece.blob).or_default().push(format!("a part of upload {upload}"));
        }
        Ok(())
    })?;
    Ok((owners, parts))
}

/// The names under which an inode record is visible.
fn seen_as(store: &Checked<'_>, roots: &[Root], owner: &Owner) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for root in roots.iter().filter(|root| root.clone_group == owner.clone_group) {
        let Ok(ancestry) = store.lines.ancestry(store.read(), root.clone_group, root.branch) else { continue };
        let tree = Tree { read: store.read(), ancestry: &ancestry };
        let Ok(Some((branch, inode))) = tree.inode(owner.ino) else { continue };
        // An extent may be of an older branch than the inode that shows it.
        if ancestry.sees(owner.branch) && branch <= owner.branch {
            names.push(format!("{}{}", root.what, name_of(tree, owner.ino, &inode)));
        }
    }
    Ok(names)
}

fn name_of(tree: Tree<'_>, ino: u64, inode: &Inode) -> String {
    let key = match inode.parent {
        NONCURRENT => Some(inode.name.clone()),
        0 => None,
        parent => tree.key_of(parent, &inode.name).ok().flatten().map(|key| key.to_string()),
    };
    let version = match order_of(inode) {
        0 => String::new(),
        order => format!(" version {}", version_id(order)),
    };
    key.map_or_else(|| format!(" inode {ino}"), |key| format!(" key \"{}\"{version}", key.escape_debug()))
}
