//! Check of one tree: every name leads to an inode, every inode has its names, and every count is right.

use std::collections::HashMap;

use super::fix::{Counts, Fix};
use super::reach::Reaches;
use super::{Checked, Report, Root, keys, parts, permissions, versions};
use crate::branch::Ancestry;
use crate::error::Result;
use crate::record::bucket::Usage;
use crate::record::decode;
use crate::record::inode::{Inode, InodeKind};
use crate::record::key::{self, tag};
use crate::record::listed::{ListedDirent, ListingEntry};
use crate::record::version::Version;
use crate::tree::{Tally, Tree, counts_bytes, order_of, tally};
use crate::volume::ROOT_INO;

/// What the names of an inode say about it.
#[derive(Default)]
struct NameReferences {
    names: u32,
    kind: Option<InodeKind>,
    /// The attributes for listings that a name carries.
    shown: Option<ListingEntry>,
    /// Whether the inode exists.
    met: bool,
}

/// The content of a directory.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct DirectoryEntries {
    entries: u64,
    keys: u64,
    directories: u32,
}

/// What all names say.
#[derive(Default)]
struct Names {
    named: HashMap<u64, NameReferences>,
    held: HashMap<u64, DirectoryEntries>,
    reaches: Reaches,
}

/// Checks a tree.
pub(super) fn check(store: &Checked<'_>, root: &Root, report: &mut Report) -> Result<()> {
    let ancestry = match store.lines.ancestry(store.read(), root.clone_group, root.branch) {
        Ok(ancestry) => ancestry,
        Err(error) => {
            report.problem(format!("{}: {error}", root.what));
            return Ok(());
        }
    };
    let tree = Tree { read: store.read(), ancestry: &ancestry };
    parts::check(store, tree, root, report)?;
    versions::check(store, tree, root, report)?;
    let Names { mut named, held, reaches } = names(store, tree, root, report)?;
    let used = inodes(store, tree, root, (&mut named, &held, &reaches), report)?;
    if ancestry.get(store.read(), &key::inode(root.clone_group, ROOT_INO))?.is_none() {
        report.problem(format!("{}: the directory at the top is not there", root.what));
        store.fix(Fix::NoInode { tree: root.seat(), ino: ROOT_INO });
    }
    unmet(store, root, &named, report);
    extents(tree, root, &named, report)?;
    // Damage was reported; objects are counted once it is repaired.
    let tally = tally(tree).ok();
    check_usage(store, &ancestry, root, used, tally, report)
}

/// Reports names that lead to missing inodes.
fn unmet(store: &Checked<'_>, root: &Root, named: &HashMap<u64, NameReferences>, report: &mut Report) {
    let mut lost: Vec<u64> = named.iter().filter(|(_, named)| !named.met).map(|(ino, _)| *ino).collect();
    lost.sort_unstable();
    for ino in lost {
        report.problem(format!("{}: {} names lead to inode {ino}, which is not there", root.what, named[&ino].names));
        store.fix(Fix::NoInode { tree: root.seat(), ino });
    }
}

/// Checks that every extent belongs to an existing inode.
fn extents(tree: Tree<'_>, root: &Root, named: &HashMap<u64, NameReferences>, report: &mut Report) -> Result<()> {
    let mut known = 0;
    for record in tree.ancestry.all(tree.read, tag::EXTENT) {
        let Some(ino) = key::u64_at(&record?.base, key::INODE_AT) else { continue };
        if ino != known && !named.contains_key(&ino) && report.take(tree.inode(ino)).is_some_and(|i| i.is_none()) {
            report.problem(format!("{}: extents of inode {ino}, which is not there", root.what));
        }
        known = ino;
    }
    Ok(())
}

/// Visits all names.
fn names(store: &Checked<'_>, tree: Tree<'_>, root: &Root, report: &mut Report) -> Result<Names> {
    let Names { mut named, mut held, mut reaches } = Names::default();
    let mut folders = Vec::new();
    for entry in tree.ancestry.all(tree.read, tag::DIRENT) {
        let entry = entry?;
        let parent = key::u64_at(&entry.base, 9);
        let Some((parent, name)) = parent.zip(key::text_at(&entry.base, key::DIRENT_NAME_AT)) else { continue };
        let what = format!("{}: the name \"{}\" in directory {parent}", root.what, name.escape_debug());
        let Some(dirent) = report.take(decode::<ListedDirent>(&what, &entry.value)) else {
            let key = key::branched(&entry.base, entry.branch);
            store.fix(Fix::Name { key, tree: root.seat(), parent, sort_name: name.to_owned() });
            continue;
        };
        let (dirent, shown) = (dirent.dirent(), dirent.shown);
        reaches.add(parent, name, (dirent.kind() == InodeKind::Directory).then_some(dirent.ino));
        let target = named.entry(dirent.ino).or_default();
        target.names += 1;
        target.shown = shown.or(target.shown.take());
        if *target.kind.get_or_insert(dirent.kind()) != dirent.kind() {
            report.problem(format!("{}: the names of inode {} disagree on its type", root.what, dirent.ino));
        }
        let dir = held.entry(parent).or_default();
        dir.entries += 1;
        match dirent.kind() {
            InodeKind::File => dir.keys += 1,
            InodeKind::Directory => folders.push((parent, dirent.ino)),
            _ => {}
        }
        dir.directories += u32::from(dirent.kind() == InodeKind::Directory);
    }
    let files: HashMap<u64, u64> = held.iter().map(|(dir, held)| (*dir, held.keys)).collect();
    for parent in keys::parents_of_leading(tree, &folders, &files) {
        held.entry(parent).or_default().keys += 1;
    }
    version_links(tree, &mut named)?;
    reaches.climb();
    Ok(Names { named, held, reaches })
}

/// Counts noncurrent versions: each holds one of its inode's links.
fn version_links(tree: Tree<'_>, named: &mut HashMap<u64, NameReferences>) -> Result<()> {
    for record in tree.ancestry.all(tree.read, tag::VERSION) {
        let version = decode::<Version>("a version", &record?.value).ok();
        if let Some(version) = version.filter(|version| version.ino != 0) {
            let target = named.entry(version.ino).or_default();
            target.names += 1;
            target.kind.get_or_insert(InodeKind::File);
        }
    }
    Ok(())
}

/// Visits all inodes and compares each with its names. Returns their usage.
fn inodes(
    store: &Checked<'_>,
    tree: Tree<'_>,
    root: &Root,
    (named, held, reaches): (&mut HashMap<u64, NameReferences>, &HashMap<u64, DirectoryEntries>, &Reaches),
    report: &mut Report,
) -> Result<Usage> {
    let mut used = Usage::default();
    for record in tree.ancestry.all(tree.read, tag::INODE) {
        let record = record?;
        let Some(ino) = key::u64_at(&record.base, 9) else { continue };
        let what = format!("{}: inode {ino}", root.what);
        if let Some(named) = named.get_mut(&ino) {
            named.met = true;
        }
        let inode = match decode::<Inode>(&what, &record.value) {
            Ok(inode) => inode,
            Err(error) => {
                let (at, why) = (key::branched(&record.base, record.branch), error.to_string());
                store.unreadable(&at.clone().into(), &error, report);
                store.fix(Fix::Unreadable { key: at, tree: root.seat(), ino, why });
                continue;
            }
        };
        report.inodes += 1;
        store.note_version(root.clone_group, order_of(&inode));
        if ino != ROOT_INO {
            used.inodes += 1;
        }
        if counts_bytes(inode.kind()) {
            used.bytes += inode.charged();
        }
        check_inode(store, root, &what, ino, &inode, named.get(&ino), report)?;
        check_directory(store, root, (ino, &what), &inode, held.get(&ino), report);
        reaches.check(store, root, ino, &inode, report);
        permissions::check(&what, &inode, report);
    }
    Ok(used)
}

fn check_inode(
    store: &Checked<'_>,
    root: &Root,
    what: &str,
    ino: u64,
    inode: &Inode,
    named: Option<&NameReferences>,
    report: &mut Report,
) -> Result<()> {
    let names = named.map_or(0, |named| named.names);
    if ino == ROOT_INO {
        return Ok(());
    }
    if inode.nlink == 0 {
        // A snapshot may contain an inode that was unlinked and in use when it was taken.
        let marked = !store
            .read()
            .scan(&key::orphan(root.clone_group, ino), &key::orphan(root.clone_group, ino + 1), 1)?
            .is_empty();
        if names > 0 {
            report.problem(format!("{what}: it has no links, but {names} names"));
            recount(store, root, ino, Counts::of_file(inode, names));
        } else if !marked && root.bucket.is_some() {
            report.problem(format!("{what}: it has no links, no names and no user"));
            let mark = key::branched(&key::orphan(root.clone_group, ino), root.branch);
            store.fix(Fix::put(mark, vec![1], format!("{what}: to be collected when the store is opened")));
        }
        return Ok(());
    }
    let shown = named.and_then(|named| named.shown.as_ref());
    if shown.is_some_and(|shown| !inode.shown || *shown != ListingEntry::of(ino, inode)) {
        report.problem(format!("{what}: its name shows other attributes in listings"));
        store.fix(Fix::Shown { tree: root.seat(), ino });
    }
    if named.and_then(|named| named.kind).is_some_and(|kind| kind != inode.kind()) {
        report.problem(format!("{what}: its type differs from its name's"));
    }
    let expected = if inode.is_dir() { 1 } else { inode.nlink };
    if names != expected {
        report.problem(format!("{what}: {expected} names expected, {names} found"));
        match names {
            0 => store.fix(Fix::NoName { tree: root.seat(), ino }),
            _ if !inode.is_dir() => recount(store, root, ino, Counts::of_file(inode, names)),
            _ => {}
        }
    }
    Ok(())
}

fn recount(store: &Checked<'_>, root: &Root, ino: u64, counts: Counts) {
    store.fix(Fix::Counts { tree: root.seat(), ino, counts });
}

impl Counts {
    fn of_file(inode: &Inode, names: u32) -> Self {
        Self { kind: inode.kind(), nlink: names, entries: inode.entries, keys: inode.keys }
    }
}

fn check_directory(
    store: &Checked<'_>,
    root: &Root,
    (ino, what): (u64, &str),
    inode: &Inode,
    held: Option<&DirectoryEntries>,
    report: &mut Report,
) {
    if !inode.is_dir() || inode.nlink == 0 {
        if held.is_some() {
            report.problem(format!("{what}: it contains names, but is not a directory"));
        }
        return;
    }
    let nothing = DirectoryEntries::default();
    let held = held.unwrap_or(&nothing);
    let counted =
        DirectoryEntries { entries: inode.entries, keys: inode.keys, directories: inode.nlink.saturating_sub(2) };
    let (mut sound, DirectoryEntries { entries, keys, directories }) = (true, *held);
    if *held != counted {
        report.problem(format!("{what}: it counts {counted:?}, but holds {held:?}"));
        sound = false;
    }
    if inode.implicit && entries == 0 {
        report.problem(format!("{what}: it is implicit, but empty"));
        sound = false;
    }
    if !sound {
        recount(store, root, ino, Counts { kind: InodeKind::Directory, nlink: directories + 2, entries, keys });
    }
}

fn check_usage(
    store: &Checked<'_>,
    ancestry: &Ancestry,
    root: &Root,
    mut used: Usage,
    tally: Option<Tally>,
    report: &mut Report,
) -> Result<()> {
    let value = store.read().get(&key::of_branch(tag::USAGE, ancestry.clone_group, ancestry.branch()))?;
    let kept = value.map_or(Ok(Usage::EMPTY), |value| decode(&format!("the usage of {}", root.what), &value));
    let kept: Option<Usage> = report.take(kept);
    if let Some(Tally { objects, hidden }) = tally {
        used = Usage { objects, hidden, counted: true, ..used };
    } else if let Some(Usage { objects, hidden, counted, .. }) = kept {
        used = Usage { objects, hidden, counted, ..used };
    }
    let mut is_wrong = kept.is_none();
    if let Some(kept) = kept.filter(|kept| kept.counted && (kept.objects, kept.hidden) != (used.objects, used.hidden)) {
        is_wrong = true;
        report.problem(format!(
            "{}: usage says {} objects of which mounts hide {}, but there are {} and {}",
            root.what, kept.objects, kept.hidden, used.objects, used.hidden
        ));
    }
    if let Some(kept) = kept.filter(|kept| (kept.bytes, kept.inodes) != (used.bytes, used.inodes)) {
        is_wrong = true;
        report.problem(format!(
            "{}: usage says {} bytes in {} inodes, but there are {} in {}",
            root.what, kept.bytes, kept.inodes, used.bytes, used.inodes
        ));
    }
    if is_wrong {
        store.fix(Fix::Usage { tree: root.seat(), held: Some(used), uploads: None });
    }
    Ok(())
}
