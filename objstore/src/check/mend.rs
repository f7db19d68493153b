//! Repair of the tree: placeholders for unreadable inodes, names for inodes without one, and counts.
//!
//! - An unreadable inode is replaced by a placeholder whose content answers an error. Its names stay, and its owner
//!   decides whether to delete or overwrite it. In a bucket with object lock it is under legal hold, because its
//!   retention is unknown.
//! - An inode without a name gets one in the directory `lost+found` at the top.

use prost::Message;

use super::fix::{Counts, Seat};
use crate::blob::Blobs;
use crate::branch::{Line, Lines, Seen};
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::meta::Txn;
use crate::record::blob::Blob;
use crate::record::bucket::{Bucket, Family, VersioningState};
use crate::record::damage::{Aside, Damaged};
use crate::record::decode;
use crate::record::inode::{BlobContent, Content, Dirent, ExtentContent, Inode, InodeKind, Object, RETIRED};
use crate::record::key::{self, tag};
use crate::record::listed::{ListedDirent, Shown};
use crate::record::settings::Settings;
use crate::record::version::Version;
use crate::tree::{Tree, dir_name};
use crate::volume::ROOT_INO;

/// The directory for inodes without a name.
const LOST: &str = "lost+found";

/// A tree being repaired in a transaction.
pub(super) struct Mend<'a> {
    pub txn: &'a mut dyn Txn,
    pub blobs: &'a Blobs,
    pub now: Timestamp,
    line: Line,
    bucket: Option<Bucket>,
}

/// A name or version that leads to an inode.
pub(super) struct Name {
    pub parent: u64,
    pub sort_name: String,
    pub kind: InodeKind,
    pub shown: Option<Shown>,
    /// For a noncurrent version: its order number, zero for the version `null`.
    pub version: Option<u64>,
}

impl<'a> Mend<'a> {
    pub(super) fn begin(txn: &'a mut dyn Txn, blobs: &'a Blobs, now: Timestamp, at: &Seat) -> Result<Self> {
        let line = Lines::default().line(&*txn, at.family, at.branch)?;
        let mut bucket = None;
        for pair in crate::store::all(&*txn, &[tag::BUCKET])? {
            let Ok(record) = decode::<Bucket>("a bucket", &pair.value) else { continue };
            if (record.family, record.branch) == (at.family, at.branch) {
                bucket = Some(record);
            }
        }
        Ok(Self { txn, blobs, now, line, bucket })
    }

    pub(super) fn tree(&self) -> Tree<'_> {
        Tree { read: &*self.txn, line: &self.line }
    }

    pub(super) fn line(&self) -> &Line {
        &self.line
    }

    /// Creates a placeholder for an unreadable or missing inode. Returns what was done, if it was necessary.
    pub(super) fn stand_in(&mut self, unreadable: Option<&[u8]>, ino: u64, why: &str) -> Result<Option<&'static str>> {
        let base = key::inode(self.line.family, ino);
        let at = unreadable.map_or_else(|| key::branched(&base, self.line.branch()), <[u8]>::to_vec);
        let value = self.txn.get(&at)?;
        let is_sound = |value: &[u8]| !value.is_empty() && Inode::decode(value).is_ok();
        if value.as_deref().is_some_and(is_sound) {
            return Ok(None);
        }
        let names = self.names_of(ino)?;
        // One without a name gets one in `lost+found` later, except the root.
        let (parent, kind) = if ino == ROOT_INO { (ROOT_INO, InodeKind::Directory) } else { (0, InodeKind::File) };
        let nameless = || Name { parent, sort_name: String::new(), kind, shown: None, version: None };
        let aside = value.filter(|value| !value.is_empty());
        let aside: Vec<Aside> =
            aside.into_iter().map(|value| Aside { key: at.clone(), value: value.to_vec() }).collect();
        if names.is_empty() && aside.is_empty() && ino != ROOT_INO {
            return Ok(None);
        }
        let count = u32::try_from(names.len()).unwrap_or(u32::MAX);
        let first = names.into_iter().next().unwrap_or_else(nameless);
        let inode = self.substitute(&first, count.max(1), why, aside)?;
        self.txn.put(at, inode.encode_to_vec());
        Ok(Some(if inode.is_dir() {
            "it was replaced by a directory owned by root: set owner, mode and attributes again"
        } else {
            "it was quarantined"
        }))
    }

    /// A placeholder inode for a name about which nothing else is known; reading a file's content answers an error.
    pub(super) fn substitute(&mut self, name: &Name, nlink: u32, why: &str, aside: Vec<Aside>) -> Result<Inode> {
        let mut inode = Inode::new(name.kind, self.now);
        (inode.parent, inode.name) = (name.parent, crate::tree::shown_name(&name.sort_name).to_owned());
        inode.mode = 0o600;
        if inode.is_dir() {
            inode.mode = 0o700;
        } else {
            inode.nlink = nlink;
            inode.content = Some(stub_content(self.stub(why, aside)));
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
            None if self.keeps_versions() => self.next(|family| {
                family.next_version -= 1;
                family.next_version
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
    fn stub(&mut self, why: &str, aside: Vec<Aside>) -> u64 {
        let id = self.blobs.next_id().0;
        put_stub(self.txn, id, 1, why, (self.now, aside));
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
        let base = key::dirent(self.line.family, parent, &sort_name);
        if self.line.get(&*self.txn, &base)?.is_some() {
            return Ok(false);
        }
        (inode.parent, inode.name, inode.shown) = (parent, name, false);
        if !inode.is_dir() {
            inode.nlink = 1;
        }
        let dirent = Dirent::new(ino, inode.kind());
        self.line.put(self.txn, &base, dirent.encode_to_vec());
        self.save(ino, branch, inode);
        Ok(true)
    }

    fn lost_and_found(&mut self) -> Result<u64> {
        if let Some(found) = self.tree().dirent(ROOT_INO, &dir_name(LOST))? {
            return Ok(found.ino);
        }
        let ino = self.next(|family| {
            family.next_ino += 1;
            family.next_ino - 1
        })?;
        let mut dir = Inode::new(InodeKind::Directory, self.now);
        (dir.parent, dir.name, dir.mode) = (ROOT_INO, LOST.to_owned(), 0o700);
        self.line.put(self.txn, &key::inode(self.line.family, ino), dir.encode_to_vec());
        let name = Dirent::new(ino, InodeKind::Directory);
        self.line.put(self.txn, &key::dirent(self.line.family, ROOT_INO, &dir_name(LOST)), name.encode_to_vec());
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
            let base = key::dirent(self.line.family, name.parent, &name.sort_name);
            self.line.put(self.txn, &base, Dirent::new(ino, name.kind).encode_to_vec());
        }
        inode.shown = false;
        self.save(ino, branch, inode);
        Ok(true)
    }

    /// Writes this branch's version of an inode. One inherited from an ancestor loses its in-place blob; references are
    /// recounted afterwards.
    fn save(&mut self, ino: u64, branch: key::Branch, mut inode: Inode) {
        if branch != self.line.branch() {
            match &mut inode.content {
                Some(Content::Blob(content)) => content.home = false,
                Some(Content::Extents(content)) => *content = ExtentContent { home: None },
                _ => {}
            }
        }
        self.line.put(self.txn, &key::inode(self.line.family, ino), inode.encode_to_vec());
    }

    pub(super) fn next(&mut self, change: impl FnOnce(&mut Family) -> u64) -> Result<u64> {
        let family_key = key::by_id(tag::FAMILY, self.line.family);
        let value = self.txn.get(&family_key)?;
        let what = format!("family {}", self.line.family);
        let value = value.ok_or_else(|| Error::corrupt(what.clone(), "a record", "none"))?;
        let mut family: Family = decode(&what, &value)?;
        let number = change(&mut family);
        self.txn.put(family_key, family.encode_to_vec());
        Ok(number)
    }

    /// All names of an inode, and its versions.
    pub(super) fn names_of(&self, ino: u64) -> Result<Vec<Name>> {
        let mut names = Vec::new();
        for record in self.line.all(&*self.txn, tag::DIRENT) {
            let Seen { base, value, .. } = record?;
            let Ok(entry) = ListedDirent::decode(&*value) else { continue };
            if let Some((parent, name)) = key::u64_at(&base, 9).zip(key::text_at(&base, key::DIRENT_NAME_AT))
                && entry.ino == ino
            {
                let kind = entry.dirent().kind();
                names.push(Name { parent, sort_name: name.to_owned(), kind, shown: entry.shown, version: None });
            }
        }
        for record in self.line.all(&*self.txn, tag::VERSION) {
            let Seen { base, value, .. } = record?;
            let Ok(version) = Version::decode(&*value) else { continue };
            let Some(name) = key::text_at(&base, key::VERSION_KEY_AT).filter(|_| version.ino == ino) else { continue };
            let order = key::u64_at(&base, key::VERSION_KEY_AT + name.len() + 1).unwrap_or_default();
            let version = Some(if version.null { 0 } else { order });
            let kind = InodeKind::File;
            names.push(Name { parent: RETIRED, sort_name: name.to_owned(), kind, shown: None, version });
        }
        Ok(names)
    }
}

/// The content of a file whose blob is a stub.
pub(super) fn stub_content(id: u64) -> Content {
    Content::Blob(BlobContent { id, home: false })
}

/// Writes a quarantined blob without content: reading it answers an error, and releasing it leaves nothing.
pub(crate) fn put_stub(txn: &mut dyn Txn, id: u64, refs: u32, why: &str, (found, aside): (Timestamp, Vec<Aside>)) {
    let blob = Blob { refs, length: 0, packed: None, sums: false };
    txn.put(key::by_id(tag::BLOB, id), blob.encode_to_vec());
    let damaged = Damaged { found: found.0, why: why.to_owned(), aside, who: Vec::new() };
    txn.put(key::by_id(tag::DAMAGED, id), damaged.encode_to_vec());
}
