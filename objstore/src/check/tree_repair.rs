//! Repair of the tree: placeholders for unreadable inodes, names for inodes without one, and counts.
//!
//! - An unreadable inode is replaced by a placeholder whose content answers an error. Its names stay, and its owner
//!   decides whether to delete or overwrite it. In a bucket with object lock it is under legal hold, because its
//!   retention is unknown.
//! - An inode without a name gets one in the directory `lost+found` at the top.

use prost::Message;

use super::fix::{Counts, Seat};
use crate::blob::Blobs;
use crate::branch::{Ancestries, Ancestry, Seen};
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::meta::Txn;
use crate::record::blob::Blob;
use crate::record::bucket::{Bucket, CloneGroup, VersioningState};
use crate::record::damage::{Damaged, Quarantined};
use crate::record::decode;
use crate::record::inode::{BlobContent, Content, Dirent, ExtentContent, Inode, InodeKind, NONCURRENT, Object};
use crate::record::key::{self, tag};
use crate::record::listed::{ListedDirent, ListingEntry};
use crate::record::settings::Settings;
use crate::record::version::Version;
use crate::tree::{Tree, dir_name};
use crate::volume::ROOT_INO;

/// The directory for inodes without a name.
const LOST: &str = "lost+found";

/// A tree being repaired in a transaction.
pub(super) struct TreeRepair<'a> {
    pub txn: &'a mut dyn Txn,
    pub blobs: &'a Blobs,
    pub now: Timestamp,
    ancestry: Ancestry,
    bucket: Option<Bucket>,
}

/// A name or version that leads to an inode.
pub(super) struct Name {
    pub parent: u64,
    pub sort_name: String,
    pub kind: InodeKind,
    pub shown: Option<ListingEntry>,
    /// For a noncurrent version: its order number, zero for the version `null`.
    pub version: Option<u64>,
}

impl<'a> TreeRepair<'a> {
    pub(super) fn begin(txn: &'a mut dyn Txn, blobs: &'a Blobs, now: Timestamp, at: &Seat) -> Result<Self> {
        let ancestry = Ancestries::default().ancestry(&*txn, at.clone_group, at.branch)?;
        let mut bucket = None;
        for pair in crate::store::all(&*txn, &[tag::BUCKET])? {
            let Ok(record) = decode::<Bucket>("a bucket", &pair.value) else { continue };
            if (record.clone_group, record.branch) == (at.clone_group, at.branch) {
                bucket = Some(record);
            }
        }
        Ok(Self { txn, blobs, now, ancestry, bucket })
    }

    pub(super) fn tree(&self) -> Tree<'_> {
        Tree { read: &*self.txn, ancestry: &self.ancestry }
    }

    pub(super) fn ancestry(&self) -> &Ancestry {
        &self.ancestry
    }

    /// Creates a placeholder for an unreadable or missing inode. Returns what was done, if it was necessary.
    pub(super) fn stand_in(&mut self, unreadable: Option<&[u8]>, ino: u64, why: &str) -> Result<Option<&'static str>> {
        let base = key::inode(self.ancestry.clone_group, ino);
        let at = unreadable.map_or_else(|| key::branched(&base, self.ancestry.branch()), <[u8]>::to_vec);
        let value = self.txn.get(&at)?;
        let is_valid = |value: &[u8]| !value.is_empty() && Inode::decode(value).is_ok();
        if value.as_deref().is_some_and(is_valid) {
            return Ok(None);
        }
        let names = self.names_of(ino)?;
        // One without a name gets one in `lost+found` later, except the root.
        let (parent, kind) = if ino == ROOT_INO { (ROOT_INO, InodeKind::Directory) } else { (0, InodeKind::File) };
        let nameless = || Name { parent, sort_name: String::new(), kind, shown: None, version: None };
        let quarantine = value.filter(|value| !value.is_empty());
        let quarantine: Vec<Quarantined> =
            quarantine.into_iter().map(|value| Quarantined { key: at.clone(), value: value.to_vec() }).collect();
        if names.is_empty() && quarantine.is_empty() && ino != ROOT_INO {
            return Ok(None);
        }
        let count = u32::try_from(names.len()).unwrap_or(u32::MAX);
        let first = names.into_iter().next().unwrap_or_else(nameless);
        let inode = self.substitute(&first, count.max(1), why, quarantine)?;
        self.txn.put(at, inode.encode_to_vec());
        Ok(Some(if inode.is_dir() {
            "it was replaced by a directory owned by root: set owner, mode and attributes again"
        } else {
            "it was quarantined"
        }))
    }

    /// A placeholder inode for a name about which nothing else is known; reading a file's content answers an error.
    pub(super) fn substitute(
        &mut self,
        name: &Name,
        nlink: u32,
        why: &str,
        quarantine: Vec<Quarantined>,
    ) -> Result<Inode> {
        let mut inode = Inode::new(name.kind, self.now);
        (inode.parent, inode.name) = (name.parent, crate::tree::shown_name(&name.sort_name).to_owned());
        inode.mode = 0o600;
        if inode.is_dir() {
            inode.mode = 0o700;
        } else {
            inode.nlink = nlink;
            inode.content = Some(stub_content(self.stub(why, quarantine)));
            self.describe(&mut inode, name)?;
        }
        Ok(inode)
    }

    /// Fills in what is known of a file without its inode: the attributes from listings, and its version.
    fn describe(&mut self, inode: &mut Inode, name: &Name) -> Result<()> {
        // An empty file would read as empty instead of answering an error.
        inode.size = name.shown.as_ref().map_or(1, |shown| shown.size.max(1));
        let mut object = Object::default();
        if let Some(shown) = &name.shown {
            (inode.mtime, inode.changed) = (shown.mtime, shown.mtime);
            (object.etag, object.checksums) = (shown.etag.clone(), shown.checksums.clone());
        }
        object.version = match name.version {
            Some(order) => order,
            None if self.keeps_versions() => self.next(|clone_group| {
                clone_group.next_version -= 1;
                clone_group.next_version
            })?,
            None => 0,
        };
        object.legal_hold = self.is_locked()?;
        inode.object = Some(object);
        Ok(())
    }

    fn keeps_versions(&self) -> bool {
        self.bucket.as_ref().is_some_and(|bucket| bucket.versioning() == VersioningState::Enabled)
    }

    /// Whether the bucket may have object lock; unreadable settings count as a lock.
    fn is_locked(&self) -> Result<bool> {
        let Some(bucket) = &self.bucket else { return Ok(false) };
        let Some(value) = self.txn.get(&key::by_id(tag::SETTINGS, bucket.id))? else { return Ok(false) };
        Ok(decode::<Settings>("settings", &value).map_or(true, |settings| settings.object_lock.is_some()))
    }

    /// Creates a stub blob, which stands for lost content.
    fn stub(&mut self, why: &str, quarantine: Vec<Quarantined>) -> u64 {
        let id = self.blobs.next_id().0;
        put_stub(self.txn, id, 1, why, (self.now, quarantine));
        id
    }

    /// Gives an inode without a name one. Returns whether it was necessary.
    pub(super) fn find_again(&mut self, ino: u64) -> Result<bool> {
        let Some((branch, mut inode)) = self.tree().inode(ino)? else { return Ok(false) };
        if !self.names_of(ino)?.is_empty() {
            return Ok(false);
        }
        let parent = self.lost_and_found()?;
        let name = ino.to_string();
        let sort_name = if inode.is_dir() { dir_name(&name) } else { name.clone() };
        let base = key::dirent(self.ancestry.clone_group, parent, &sort_name);
        if self.ancestry.get(&*self.txn, &base)?.is_some() {
            return Ok(false);
        }
        (inode.parent, inode.name, inode.shown) = (parent, name, false);
        if !inode.is_dir() {
            inode.nlink = 1;
        }
        let dirent = Dirent::new(ino, inode.kind());
        self.ancestry.put(self.txn, &base, dirent.encode_to_vec());
        self.save(ino, branch, inode);
        Ok(true)
    }

    fn lost_and_found(&mut self) -> Result<u64> {
        if let Some(found) = self.tree().dirent(ROOT_INO, &dir_name(LOST))? {
            return Ok(found.ino);
        }
        let ino = self.next(|clone_group| {
            clone_group.next_ino += 1;
            clone_group.next_ino - 1
        })?;
        let mut dir = Inode::new(InodeKind::Directory, self.now);
        (dir.parent, dir.name, dir.mode) = (ROOT_INO, LOST.to_owned(), 0o700);
        self.ancestry.put(self.txn, &key::inode(self.ancestry.clone_group, ino), dir.encode_to_vec());
        let name = Dirent::new(ino, InodeKind::Directory);
        self.ancestry.put(
            self.txn,
            &key::dirent(self.ancestry.clone_group, ROOT_INO, &dir_name(LOST)),
            name.encode_to_vec(),
        );
        Ok(ino)
    }

    /// Writes recounted numbers to an inode. Returns whether it was necessary.
    pub(super) fn recount(&mut self, ino: u64, counts: Counts) -> Result<bool> {
        let Some((branch, mut inode)) = self.tree().inode(ino)? else { return Ok(false) };
        let before = inode.clone();
        let Counts { kind, nlink, entries, keys } = counts;
        inode.nlink = nlink;
        if kind == InodeKind::Directory {
            (inode.entries, inode.keys) = (entries, keys);
            inode.implicit &= entries > 0;
        }
        if inode == before {
            return Ok(false);
        }
        self.save(ino, branch, inode);
        Ok(true)
    }

    /// Raises the bound of the paths below a directory; whether that was needed.
    pub(super) fn reach_to(&mut self, ino: u64, length: u32) -> Result<bool> {
        let Some((branch, mut inode)) = self.tree().inode(ino)? else { return Ok(false) };
        if inode.reach == 0 || inode.reach >= length {
            return Ok(false);
        }
        inode.reach = length;
        self.save(ino, branch, inode);
        Ok(true)
    }

    /// Removes the attributes for listings from an inode's names, so that listings read the inode.
    pub(super) fn hide(&mut self, ino: u64) -> Result<bool> {
        let Some((branch, mut inode)) = self.tree().inode(ino)? else { return Ok(false) };
        for name in self.names_of(ino)?.into_iter().filter(|name| name.version.is_none()) {
            let base = key::dirent(self.ancestry.clone_group, name.parent, &name.sort_name);
            self.ancestry.put(self.txn, &base, Dirent::new(ino, name.kind).encode_to_vec());
        }
        inode.shown = false;
        self.save(ino, branch, inode);
        Ok(true)
    }

    /// Writes this branch's version of an inode. One inherited from an ancestor loses its in-place blob; references are
    /// recounted afterwards.
    fn save(&mut self, ino: u64, branch: key::Branch, mut inode: Inode) {
        if branch != self.ancestry.branch() {
            match &mut inode.content {
                Some(Content::Blob(content)) => content.in_place = false,
                Some(Content::Extents(content)) => *content = ExtentContent { in_place: None },
                _ => {}
            }
        }
        self.ancestry.put(self.txn, &key::inode(self.ancestry.clone_group, ino), inode.encode_to_vec());
    }

    pub(super) fn next(&mut self, change: impl FnOnce(&mut CloneGroup) -> u64) -> Result<u64> {
        let clone_group_key = key::by_id(tag::CLONE_GROUP, self.ancestry.clone_group);
        let value = self.txn.get(&clone_group_key)?;
        let what = format!("clone group {}", self.ancestry.clone_group);
        let value = value.ok_or_else(|| Error::corrupt(what.clone(), "a record", "none"))?;
        let mut clone_group: CloneGroup = decode(&what, &value)?;
        let number = change(&mut clone_group);
        self.txn.put(clone_group_key, clone_group.encode_to_vec());
        Ok(number)
    }

    /// All names of an inode, and its versions.
    pub(super) fn names_of(&self, ino: u64) -> Result<Vec<Name>> {
        let mut names = Vec::new();
        for record in self.ancestry.all(&*self.txn, tag::DIRENT) {
            let Seen { base, value, .. } = record?;
            let Ok(entry) = ListedDirent::decode(&*value) else { continue };
            if let Some((parent, name)) = key::u64_at(&base, 9).zip(key::text_at(&base, key::DIRENT_NAME_AT))
                && entry.ino == ino
            {
                let kind = entry.dirent().kind();
                names.push(Name { parent, sort_name: name.to_owned(), kind, shown: entry.shown, version: None });
            }
        }
        for record in self.ancestry.all(&*self.txn, tag::VERSION) {
            let Seen { base, value, .. } = record?;
            let Ok(version) = Version::decode(&*value) else { continue };
            let Some(name) = key::text_at(&base, key::VERSION_KEY_AT).filter(|_| version.ino == ino) else { continue };
            let order = key::u64_at(&base, key::VERSION_KEY_AT + name.len() + 1).unwrap_or_default();
            let version = Some(if version.null { 0 } else { order });
            let kind = InodeKind::File;
            names.push(Name { parent: NONCURRENT, sort_name: name.to_owned(), kind, shown: None, version });
        }
        Ok(names)
    }
}

/// The content of a file whose blob is a stub.
pub(super) fn stub_content(id: u64) -> Content {
    Content::Blob(BlobContent { id, in_place: false })
}

/// Writes a quarantined blob without content: reading it answers an error, and releasing it leaves nothing.
pub(crate) fn put_stub(
    txn: &mut dyn Txn,
    id: u64,
    refs: u32,
    why: &str,
    (found, quarantine): (Timestamp, Vec<Quarantined>),
) {
    let blob = Blob { refs, length: 0, packed: None, sums: false };
    txn.put(key::by_id(tag::BLOB, id), blob.encode_to_vec());
    let damaged = Damaged { found: found.0, why: why.to_owned(), quarantine, who: Vec::new() };
    txn.put(key::by_id(tag::DAMAGED, id), damaged.encode_to_vec());
}
