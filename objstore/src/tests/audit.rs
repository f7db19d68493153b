//! An audit of a store: recounts everything that the store counts.
//!
//! It reads the records alone, so its result does not depend on the code that maintains the counts.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::branch::{Ancestry, LiveBranches};
use crate::meta::{Pair, Read};
use crate::record::blob::{Blob, Segment};
use crate::record::bucket::{Branch as BranchRecord, Bucket, Snapshot, Usage};
use crate::record::decode;
use crate::record::inode::{Content, Dirent, Extent, Inode, InodeKind};
use crate::record::key::{self, CloneGroup, tag};
use crate::record::listed::{ListedDirent, ListingEntry};
use crate::record::upload::{ObjectParts, Part};
use crate::record::version::Version;
use crate::store::{Store, all};
use crate::volume::ROOT_INO;

/// The decoded records of one branch with its ancestry.
struct Seen {
    what: String,
    inodes: BTreeMap<u64, Inode>,
    /// Directory entries by directory and sort name.
    dirents: BTreeMap<(u64, String), Dirent>,
    /// The copies of attributes in directory entries, by the inode they lead to.
    shown: Vec<(u64, ListingEntry)>,
    orphans: BTreeSet<u64>,
    /// Versions by key, in order.
    versions: BTreeMap<String, Vec<(u64, Version)>>,
    extents: BTreeMap<u64, Vec<(u64, Extent)>>,
    parts: BTreeMap<u64, ObjectParts>,
}

/// All inconsistencies of a store that no one changes meanwhile.
pub(crate) fn faults(store: &Store) -> Vec<String> {
    // Read before the records, since the collector removes files after their records.
    let files: BTreeSet<u64> = store.core.blobs.file_ids().unwrap().iter().map(|id| id.0).collect();
    let snapshot = store.core.meta.snapshot();
    let read: &dyn Read = &*snapshot;
    let mut faults = Vec::new();
    for pair in records(read, tag::BUCKET) {
        let bucket: Bucket = decode("a bucket", &pair.value).unwrap();
        let ancestry = store.core.lines.ancestry(read, bucket.clone_group, bucket.branch).unwrap();
        let seen = Seen::read(read, &ancestry, format!("bucket {}", String::from_utf8_lossy(&pair.key[1..])));
        seen.audit(&mut faults);
        seen.audit_usage(usage(read, &ancestry), uploaded(read, bucket.id), &mut faults);
    }
    for pair in records(read, tag::SNAPSHOT) {
        let snapshot: Snapshot = decode("a snapshot", &pair.value).unwrap();
        let ancestry = store.core.lines.ancestry(read, snapshot.clone_group, snapshot.branch).unwrap();
        let seen = Seen::read(read, &ancestry, format!("snapshot {}", String::from_utf8_lossy(&pair.key[1..])));
        seen.audit(&mut faults);
        seen.audit_usage(usage(read, &ancestry), 0, &mut faults);
    }
    audit_blobs(&files, read, &mut faults);
    // The result of `amphora check` for the same records.
    faults.extend(crate::check::records_of(&store.core).unwrap().problems);
    faults
}

fn records(read: &dyn Read, kind: u8) -> Vec<Pair> {
    all(read, &[kind]).unwrap()
}

fn usage(read: &dyn Read, ancestry: &Ancestry) -> Usage {
    let value = read.get(&key::of_branch(tag::USAGE, ancestry.clone_group, ancestry.branch())).unwrap();
    Usage::recorded(value).unwrap()
}

fn uploaded(read: &dyn Read, bucket: u64) -> u64 {
    let uploads = all(read, &key::by_id(tag::UPLOAD, bucket)).unwrap();
    let parts = uploads.iter().flat_map(|upload| {
        let name = key::text_at(&upload.key, 9).unwrap();
        let id = std::str::from_utf8(&upload.key[9 + name.len() + 1..]).unwrap();
        all(read, &key::parts(id)).unwrap()
    });
    parts.map(|part| decode::<Part>("a part", &part.value).unwrap().size).sum()
}

impl Seen {
    fn read(read: &dyn Read, ancestry: &Ancestry, what: String) -> Self {
        let kind = |kind: u8| {
            let prefix = key::by_id(kind, ancestry.clone_group);
            ancestry.scan(read, &prefix, &key::after_prefix(&prefix), usize::MAX).unwrap()
        };
        let number = |base: &[u8]| key::u64_at(base, 9).unwrap();
        let mut extents: BTreeMap<u64, Vec<(u64, Extent)>> = BTreeMap::new();
        for seen in kind(tag::EXTENT) {
            let offset = key::u64_at(&seen.base, key::EXTENT_OFFSET_AT).unwrap();
            let extent = decode("an extent", &seen.value).unwrap();
            extents.entry(number(&seen.base)).or_default().push((offset, extent));
        }
        let (mut dirents, mut shown) = (BTreeMap::new(), Vec::new());
        for seen in kind(tag::DIRENT) {
            let name = key::text_at(&seen.base, key::DIRENT_NAME_AT).unwrap().to_owned();
            let listed: ListedDirent = decode("a dirent", &seen.value).unwrap();
            dirents.insert((number(&seen.base), name), listed.dirent());
            shown.extend(listed.shown.map(|shown| (listed.ino, shown)));
        }
        let inodes = kind(tag::INODE).into_iter();
        let mut versions: BTreeMap<String, Vec<(u64, Version)>> = BTreeMap::new();
        for seen in kind(tag::VERSION) {
            let name = key::text_at(&seen.base, key::VERSION_KEY_AT).unwrap().to_owned();
            let order = key::u64_at(&seen.base, key::VERSION_KEY_AT + name.len() + 1).unwrap();
            versions.entry(name).or_default().push((order, decode("a version", &seen.value).unwrap()));
        }
        let parts = kind(tag::OBJECT_PARTS).into_iter();
        Self {
            parts: parts.map(|seen| (number(&seen.base), decode("parts", &seen.value).unwrap())).collect(),
            what,
            inodes: inodes.map(|seen| (number(&seen.base), decode("an inode", &seen.value).unwrap())).collect(),
            dirents,
            shown,
            orphans: kind(tag::ORPHAN).iter().map(|seen| number(&seen.base)).collect(),
            versions,
            extents,
        }
    }

    fn audit(&self, faults: &mut Vec<String>) {
        let before = faults.len();
        self.audit_names(faults);
        for (ino, shown) in &self.shown {
            let inode = &self.inodes[ino];
            if !inode.shown || inode.nlink != 1 || *shown != ListingEntry::of(*ino, inode) {
                faults.push(format!("the name of inode {ino} shows {shown:?} of {inode:?}"));
            }
        }
        for (ino, inode) in &self.inodes {
            if inode.is_dir() {
                self.audit_directory(*ino, inode, faults);
            }
            self.audit_extents(*ino, inode, faults);
        }
        self.audit_parts(faults);
        self.audit_versions(faults);
        for ino in self.extents.keys().filter(|ino| !self.inodes.contains_key(ino)) {
            faults.push(format!("extents of inode {ino}, which is not there"));
        }
        for ino in self.orphans.iter().filter(|ino| self.inodes.get(ino).is_none_or(|inode| inode.nlink > 0)) {
            faults.push(format!("inode {ino} is marked an orphan and is none"));
        }
        for fault in &mut faults[before..] {
            *fault = format!("{}: {fault}", self.what);
        }
    }

    /// Each name leads to an inode of its type; each inode has as many names as it counts.
    fn audit_names(&self, faults: &mut Vec<String>) {
        let mut names: HashMap<u64, u32> = HashMap::new();
        for ((parent, name), dirent) in &self.dirents {
            *names.entry(dirent.ino).or_default() += 1;
            match self.inodes.get(&dirent.ino) {
                None => faults.push(format!("{name:?} in {parent} leads to inode {}, which is not there", dirent.ino)),
                Some(inode) if inode.kind() != dirent.kind() => {
                    faults.push(format!("{name:?} in {parent}: other kind"));
                }
                Some(inode) if inode.is_dir() != name.ends_with('/') => faults.push(format!("{name:?}: bad sort name")),
                Some(inode) if inode.is_dir() && format!("{}/", inode.name) != *name => {
                    faults.push(format!("{name:?} in {parent} says {:?}", inode.name));
                }
                Some(inode) if inode.is_dir() && inode.parent != *parent => {
                    faults.push(format!("{name:?} lies in {parent} and says in {}", inode.parent));
                }
                Some(_) => {}
            }
            if !self.inodes.get(parent).is_some_and(Inode::is_dir) {
                faults.push(format!("{name:?} lies in {parent}, which is no directory"));
            }
        }
        // A noncurrent version counts as one of its inode's links.
        for (_, version) in self.versions.values().flatten().filter(|(_, version)| version.ino != 0) {
            *names.entry(version.ino).or_default() += 1;
        }
        for (ino, inode) in &self.inodes {
            let found = names.get(ino).copied().unwrap_or(0);
            let used = self.orphans.contains(ino) || *ino == ROOT_INO;
            if found == 0 && !used {
                faults.push(format!("inode {ino} is leaked: {:?}", inode.kind()));
            }
            let wrong = if inode.is_dir() { found > 1 } else { found != inode.nlink };
            if wrong {
                faults.push(format!("inode {ino} says {} links and has {found} names", inode.nlink));
            }
        }
    }

    fn audit_directory(&self, ino: u64, dir: &Inode, faults: &mut Vec<String>) {
        let range = (ino, String::new())..(ino + 1, String::new());
        let entries: Vec<&Dirent> = self.dirents.range(range).map(|(_, dirent)| dirent).collect();
        let keys = entries.iter().filter(|dirent| self.leads_to_a_key(dirent)).count() as u64;
        let dirs = entries.iter().filter(|dirent| dirent.kind() == InodeKind::Directory).count();
        let counted = (dir.entries, dir.keys);
        if counted != (entries.len() as u64, keys) {
            faults.push(format!("directory {ino} counts {counted:?}, not {:?}", (entries.len(), keys)));
        }
        if !self.orphans.contains(&ino) && dir.nlink as usize != 2 + dirs {
            faults.push(format!("directory {ino} says {} links and holds {dirs} directories", dir.nlink));
        }
        if dir.implicit && entries.is_empty() && !self.orphans.contains(&ino) {
            faults.push(format!("directory {ino} is implied by nothing"));
        }
    }

    /// Whether a name is a key, or a directory that is one or contains one at any depth.
    fn leads_to_a_key(&self, dirent: &Dirent) -> bool {
        let mut below = vec![*dirent];
        while let Some(dirent) = below.pop() {
            let explicit = |dir: &Inode| !dir.implicit;
            match dirent.kind() {
                InodeKind::File => return true,
                InodeKind::Directory if self.inodes.get(&dirent.ino).is_some_and(explicit) => return true,
                InodeKind::Directory => {
                    let range = (dirent.ino, String::new())..(dirent.ino + 1, String::new());
                    below.extend(self.dirents.range(range).map(|(_, dirent)| *dirent));
                }
                _ => {}
            }
        }
        false
    }

    fn audit_extents(&self, ino: u64, inode: &Inode, faults: &mut Vec<String>) {
        let Some(extents) = self.extents.get(&ino) else { return };
        if !matches!(inode.content, Some(Content::Extents(_))) {
            faults.push(format!("inode {ino} has extents and does not say so"));
        }
        let mut end = 0;
        for (offset, extent) in extents {
            if *offset < end || extent.length == 0 || offset + extent.length > inode.size {
                faults.push(format!("inode {ino} of {} bytes: extent {extent:?} at {offset} after {end}", inode.size));
            }
            end = offset + extent.length;
        }
    }

    /// Exactly the inodes that say that their parts are recorded have such a record; the parts make up the object,
    /// unless it was changed since.
    fn audit_parts(&self, faults: &mut Vec<String>) {
        let objects = self.inodes.iter().filter_map(|(ino, inode)| Some((*ino, inode.size, inode.object.as_ref()?)));
        let claimed: BTreeMap<u64, _> = objects.filter(|(_, _, object)| object.part_table).map(|o| (o.0, o)).collect();
        if !claimed.keys().eq(self.parts.keys()) {
            faults.push(format!("parts of {:?}, kept of {:?}", claimed.keys(), self.parts.keys()));
        }
        for (ino, size, object) in claimed.values().filter(|(_, _, object)| object.parts > 0) {
            let Some(ObjectParts { parts }) = self.parts.get(ino) else { continue };
            let found = (parts.len(), parts.iter().map(|part| part.size).sum::<u64>());
            if found != (object.parts as usize, *size) {
                faults.push(format!("inode {ino} of {size} bytes in {} parts: {found:?}", object.parts));
            }
        }
    }

    /// Each version leads to an inode with the same order, except `null`, of which a key has at most one.
    fn audit_versions(&self, faults: &mut Vec<String>) {
        for (key, versions) in &self.versions {
            if versions.iter().filter(|(_, version)| version.null).count() > 1 {
                faults.push(format!("{key:?} has several null versions"));
            }
            for (order, version) in versions.iter().filter(|(_, version)| version.ino != 0) {
                let said = self.inodes.get(&version.ino).map(|inode| inode.object.as_ref().map_or(0, |o| o.version));
                if said != Some(if version.null { 0 } else { *order }) {
                    faults.push(format!("version {order:x} of {key:?} is of an inode that says {said:x?}"));
                }
            }
        }
    }

    fn audit_usage(&self, said: Usage, upload_bytes: u64, faults: &mut Vec<String>) {
        let counted =
            self.inodes.values().filter(|inode| matches!(inode.kind(), InodeKind::File | InodeKind::Directory));
        let bytes = counted.map(Inode::charged).sum();
        let inodes = self.inodes.len() as u64 - 1;
        // Objects are counted by `amphora check`.
        let found = Usage { bytes, inodes, upload_bytes, counted: true, ..said };
        if said != found {
            faults.push(format!("{}: usage says {said:?}, found {found:?}", self.what));
        }
    }
}

/// References, checksums, segments and files.
fn audit_blobs(files: &BTreeSet<u64>, read: &dyn Read, faults: &mut Vec<String>) {
    let found = references(read);
    let mut dirty: HashMap<u64, u64> = HashMap::new();
    let mut blobs = BTreeMap::new();
    for pair in records(read, tag::BLOB) {
        let (id, blob) = (key::u64_at(&pair.key, 1).unwrap(), decode::<Blob>("a blob", &pair.value).unwrap());
        blobs.insert(id, blob.refs);
        let sums = all(read, &key::by_id(tag::SUMS, id)).unwrap().len();
        if (sums > 0) != (blob.sums && blob.length > 0) {
            faults.push(format!("blob {id:016x}: {sums} records of checksums, {blob:?}"));
        }
        match blob.packed {
            Some(at) => *dirty.entry(at.segment).or_default() += blob.length,
            None if !files.contains(&id) => faults.push(format!("blob {id:016x} has no file")),
            None => {}
        }
    }
    if blobs != found {
        faults.push(format!("references: said {blobs:x?}, found {found:x?}"));
    }
    for pair in records(read, tag::SUMS) {
        let id = key::u64_at(&pair.key, 1).unwrap();
        if !blobs.contains_key(&id) {
            faults.push(format!("checksums of blob {id:016x}, which is not there"));
        }
    }
    for pair in records(read, tag::SEGMENT) {
        let (id, segment) = (key::u64_at(&pair.key, 1).unwrap(), decode::<Segment>("a segment", &pair.value).unwrap());
        let found = dirty.remove(&id).unwrap_or(0);
        if segment.live_bytes != found {
            faults.push(format!("segment {id:016x} says {} live bytes, found {found}", segment.live_bytes));
        }
    }
    faults.extend(dirty.keys().map(|id| format!("segment {id:016x} has no record")));
}

/// The number of references to each blob from all kinds of records in all branches.
fn references(read: &dyn Read) -> BTreeMap<u64, u32> {
    let mut found = BTreeMap::new();
    let mut refer = |id: u64| *found.entry(id).or_default() += 1;
    for pair in records(read, tag::INODE).iter().filter(|pair| !pair.value.is_empty()) {
        match decode::<Inode>("an inode", &pair.value).unwrap().content {
            Some(Content::Blob(content)) => refer(content.id),
            Some(Content::Extents(content)) => content.in_place.into_iter().for_each(&mut refer),
            _ => {}
        }
    }
    for pair in records(read, tag::EXTENT).iter().filter(|pair| !pair.value.is_empty()) {
        refer(decode::<Extent>("an extent", &pair.value).unwrap().blob);
    }
    for pair in records(read, tag::PART) {
        let part: Part = decode("a part", &pair.value).unwrap();
        part.pieces.iter().filter(|piece| piece.blob != 0).for_each(|piece| refer(piece.blob));
    }
    found
}

/// What the collector should have removed.
pub(crate) fn leftovers(store: &Store) -> Vec<String> {
    let snapshot = store.core.meta.snapshot();
    let read: &dyn Read = &*snapshot;
    let mut left = Vec::new();
    let named: BTreeSet<u64> = records(read, tag::BLOB).iter().map(|pair| key::u64_at(&pair.key, 1).unwrap()).collect();
    let files = store.core.blobs.file_ids().unwrap().into_iter();
    left.extend(files.filter(|id| !named.contains(&id.0)).map(|id| format!("file of blob {id}")));
    for kind in [tag::TRASH, tag::DEAD, tag::OVERRIDDEN] {
        left.extend(records(read, kind).iter().map(|pair| format!("record {:x?}", pair.key)));
    }
    for kind in [tag::DIRENT, tag::INODE, tag::EXTENT, tag::VERSION, tag::ORPHAN, tag::OBJECT_PARTS] {
        unseen(read, kind, &mut left);
    }
    for kind in [tag::CLONE_GROUP, tag::BRANCH] {
        let records = records(read, kind);
        let unused = records.iter().filter(|pair| living(read, &pair.key).is_empty());
        left.extend(unused.map(|pair| format!("record {:x?}", pair.key)));
    }
    left
}

/// The living branches of the clone group that a key belongs to.
fn living(read: &dyn Read, key: &[u8]) -> LiveBranches {
    LiveBranches::of(read, key::u64_at(key, 1).unwrap()).unwrap()
}

/// Versions that no living branch needs.
fn unseen(read: &dyn Read, kind: u8, left: &mut Vec<String>) {
    let pairs = records(read, kind);
    let base = |pair: &Pair| key::unbranched(&pair.key).unwrap().0.to_vec();
    for group in pairs.chunk_by(|a, b| base(a) == base(b)) {
        let versions: Vec<_> =
            group.iter().map(|pair| (key::unbranched(&pair.key).unwrap().1, pair.value.is_empty())).collect();
        let unseen = living(read, &group[0].key).collectable(&versions);
        left.extend(unseen.iter().map(|branch| format!("record {:x?} of branch {branch:x}", base(&group[0]))));
    }
}

/// The number of branches of a clone group that are not collected.
pub(crate) fn branches(store: &Store, clone_group: CloneGroup) -> usize {
    let snapshot = store.core.meta.snapshot();
    let pairs = all(&*snapshot, &key::by_id(tag::BRANCH, clone_group)).unwrap();
    pairs.iter().filter(|pair| decode::<BranchRecord>("a branch", &pair.value).is_ok()).count()
}
