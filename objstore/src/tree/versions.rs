//! Versions of objects in a bucket with versioning (S3 User Guide, "Using versioning in S3 buckets").
//!
//! - The dirent names the current version. Every other version, and every delete marker, has a record keyed by the full
//!   key and an order number that falls with each version created in the clone group: the newest comes first.
//! - A version's record holds one of its inode's links, so the inode is deleted with its last version and name.
//! - An object written without versioning is the version `null`; a key has at most one. A moved directory keeps the
//!   order numbers of its files, so [`rename`](super::rename) refuses a move that would give a key a second `null`.
//! - Keys that end in `/` are directories, which have no versions.

use prost::Message;

use super::edit::Actor;
use super::lock::check_deletable;
use super::read::{Found, Tree};
use super::s3::place;
use super::tx::Tx;
use crate::clock::Timestamp;
use crate::error::{Error, Noun, Result};
use crate::name::Key;
use crate::record::bucket::VersioningState;
use crate::record::decode;
use crate::record::inode::{Dirent, Inode, InodeKind};
use crate::record::key;
use crate::record::version::Version;

/// The id of an unversioned object's version.
const NULL: &str = "null";
/// Versions read at a time.
const CHUNK: usize = 128;

/// A noncurrent version or a delete marker.
#[derive(Clone, Debug)]
pub(crate) struct Noncurrent {
    /// The key.
    pub key: String,
    /// Its order number among the versions of the key.
    pub order: u64,
    /// The version.
    pub version: Version,
}

impl Noncurrent {
    /// Its id.
    pub fn id(&self) -> String {
        if self.version.null { NULL.to_owned() } else { version_id(self.order) }
    }

    /// Whether it is a delete marker.
    pub fn is_marker(&self) -> bool {
        self.version.ino == 0
    }
}

/// The version id for an order number; zero is the version `null`.
pub(crate) fn version_id(order: u64) -> String {
    if order == 0 { NULL.to_owned() } else { format!("{order:016x}") }
}

/// The order number of a version id.
///
/// # Errors
/// [`Error::Invalid`] for a malformed id.
pub(crate) fn order_of_id(id: &str) -> Result<u64> {
    if id == NULL {
        return Ok(0);
    }
    let digits = id.len() == 16 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let order = u64::from_str_radix(id, 16).ok().filter(|order| digits && *order != 0);
    order.ok_or_else(|| Error::invalid("version id", id, "use one that this bucket gave, or null"))
}

/// The result of looking up a version id.
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once, and most often the large one")]
pub(crate) enum Named {
    /// An object: its inode number and inode.
    Object(u64, Inode),
    /// A delete marker with its time of creation.
    Marker(Timestamp),
}

/// The order number of an inode's version; zero is the version `null`.
pub(crate) fn order_of(inode: &Inode) -> u64 {
    inode.object.as_ref().map_or(0, |object| object.version)
}

impl Tree<'_> {
    /// Up to `limit` noncurrent versions from a key and order number on, below the key `to`.
    pub fn versions(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Noncurrent>> {
        let seen = self.ancestry.scan(self.read, from, to, limit)?;
        let named = seen.iter().map(|seen| {
            let name = key::text_at(&seen.base, key::VERSION_KEY_AT);
            let order = name.and_then(|name| key::u64_at(&seen.base, key::VERSION_KEY_AT + name.len() + 1));
            let (Some(name), Some(order)) = (name, order) else {
                return Err(Error::corrupt("a version", "a key and an order in its key", "none"));
            };
            Ok(Noncurrent { key: name.to_owned(), order, version: decode("a version", &seen.value)? })
        });
        named.collect()
    }

    /// The newest noncurrent version of a key.
    pub(super) fn newest(&self, key: &Key) -> Result<Option<Noncurrent>> {
        let from = key::versions(self.ancestry.clone_group, key.as_str());
        Ok(self.versions(&from, &key::after_prefix(&from), 1)?.into_iter().next())
    }

    /// The delete marker that is the current version of a key.
    pub fn current_marker(&self, key: &Key) -> Result<Option<Noncurrent>> {
        if self.find(key)?.is_some() {
            return Ok(None);
        }
        Ok(self.newest(key)?.filter(Noncurrent::is_marker))
    }

    /// The version of a key with an order number, if it is not the current one.
    pub(super) fn noncurrent(&self, key: &Key, order: u64) -> Result<Option<Noncurrent>> {
        let from = key::versions(self.ancestry.clone_group, key.as_str());
        let to = key::after_prefix(&from);
        if order == 0 {
            return self.find_null(from, &to);
        }
        let at = key::version(self.ancestry.clone_group, key.as_str(), order);
        let found = self.versions(&at, &to, 1)?.into_iter().next();
        Ok(found.filter(|found| found.order == order && !found.version.null))
    }

    fn find_null(&self, mut from: Vec<u8>, to: &[u8]) -> Result<Option<Noncurrent>> {
        loop {
            let versions = self.versions(&from, to, CHUNK)?;
            let more = versions.len() == CHUNK;
            if let Some(last) = versions.last() {
                from = key::after_prefix(&key::version(self.ancestry.clone_group, &last.key, last.order));
            }
            if let Some(null) = versions.into_iter().find(|version| version.version.null) {
                return Ok(Some(null));
            }
            if !more {
                return Ok(None);
            }
        }
    }

    /// The version of a key with an id.
    pub fn version(&self, key: &Key, id: &str) -> Result<Option<Named>> {
        let order = order_of_id(id)?;
        if let Some((ino, inode)) = self.object(key)?
            && order_of(&inode) == order
        {
            return Ok(Some(Named::Object(ino, inode)));
        }
        let Some(found) = self.noncurrent(key, order)? else { return Ok(None) };
        if found.is_marker() {
            return Ok(Some(Named::Marker(Timestamp(found.version.created))));
        }
        let (_, inode) = self.linked_inode(found.version.ino)?;
        Ok(Some(Named::Object(found.version.ino, inode)))
    }
}

/// The result of a deletion without a version.
pub(crate) struct Removed {
    /// Whether there was an object.
    pub existed: bool,
    /// The delete marker created.
    pub marker: Option<String>,
}

/// The result of deleting a version.
pub(crate) struct Dropped {
    /// Whether it was a delete marker.
    pub marker: bool,
}

impl Tx<'_> {
    /// The versioning state that applies to changes of `key`.
    fn keeps(&self, key: &Key) -> VersioningState {
        if key.as_str().ends_with('/') { VersioningState::Disabled } else { self.bucket.versioning() }
    }

    /// The order number of the version about to be put under `key`; zero is `null`.
    pub fn version_for(&mut self, key: &Key) -> Result<u64> {
        match self.keeps(key) {
            VersioningState::Enabled => self.new_version(),
            VersioningState::Disabled | VersioningState::Suspended => Ok(0),
        }
    }

    /// Called when the current object under `key` has lost its name: keeps it as a version, or deletes it.
    pub fn retire(&mut self, key: &Key, dirent: Dirent) -> Result<()> {
        let state = self.keeps(key);
        if state != VersioningState::Disabled && dirent.kind() == InodeKind::File {
            let (_, inode) = self.tree().linked_inode(dirent.ino)?;
            let order = order_of(&inode);
            if state == VersioningState::Enabled || order != 0 {
                return self.keep_version(key, dirent.ino, order);
            }
        }
        self.unlink_inode(dirent.ino)
    }

    /// In a bucket with suspended versioning, a new object replaces the version `null`.
    pub fn replace_null(&mut self, key: &Key) -> Result<()> {
        if self.keeps(key) != VersioningState::Suspended {
            return Ok(());
        }
        match self.tree().noncurrent(key, 0)? {
            Some(null) => self.drop_noncurrent(key, &null),
            None => Ok(()),
        }
    }

    /// Keeps an inode as a version of a key, which takes over its link. From here on no write in place goes unnoticed,
    /// and the version that mounts were writing is closed.
    pub(super) fn keep_version(&mut self, key: &Key, ino: u64, order: u64) -> Result<()> {
        self.refuse_unnaming(ino)?;
        let written = self.flush_final(ino)?;
        let (core, bucket) = (self.core.clone(), self.bucket.id);
        self.txn.after_commit(Box::new(move || {
            if written {
                core.writers.note_ending(bucket, ino);
            }
            core.writers.end(bucket, ino);
        }));
        let ino = self.set_apart(key, ino)?;
        self.end_reservation(ino)?;
        self.retire_held(key, ino)?;
        let null = order == 0;
        let order = if null { self.new_version()? } else { order };
        self.put_version(key, order, Version { ino, created: self.now.0, null, present: true });
        Ok(())
    }

    /// Releases the share of the quota reserved past the end of a file: a noncurrent version is never written.
    fn end_reservation(&mut self, ino: u64) -> Result<()> {
        if self.tree().linked_inode(ino)?.1.reserved == 0 {
            return Ok(());
        }
        let mut inode = self.own(ino)?;
        let taken = inode.taken();
        self.unreserve(&mut inode);
        inode.take(taken);
        self.save(ino, &inode);
        Ok(())
    }

    pub(super) fn put_version(&mut self, key: &Key, order: u64, version: Version) {
        let base = key::version(self.ancestry.clone_group, key.as_str(), order);
        self.ancestry.put(self.txn, &base, version.encode_to_vec());
    }

    /// Deletes the object under a key as a request without a version does.
    pub fn delete_current(&mut self, key: &Key) -> Result<Removed> {
        let state = self.keeps(key);
        if state == VersioningState::Disabled {
            return Ok(Removed { existed: self.delete_object(key)?, marker: None });
        }
        let found = self.tree().find(key)?;
        if let Some(found) = &found {
            self.remove_name(found, Actor::S3)?;
            self.retire(key, found.dirent)?;
        }
        self.replace_null(key)?;
        let (order, null) = (self.new_version()?, state == VersioningState::Suspended);
        self.put_version(key, order, Version { ino: 0, created: self.now.0, null, present: true });
        let marker = if null { NULL.to_owned() } else { version_id(order) };
        Ok(Removed { existed: found.is_some(), marker: Some(marker) })
    }

    /// Deletes one version permanently; the newest remaining one becomes current, unless it is a delete marker.
    ///
    /// # Errors
    /// [`Error::Denied`] if object lock protects it.
    pub fn delete_version(&mut self, key: &Key, id: &str, bypass_governance: bool) -> Result<Option<Dropped>> {
        let order = order_of_id(id)?;
        if let Some((_, inode)) = self.tree().object(key)?
            && order_of(&inode) == order
        {
            check_deletable(key, &inode, self.now, bypass_governance)?;
            if self.bucket.versioning() == VersioningState::Disabled || key.as_str().ends_with('/') {
                self.delete_object(key)?;
            } else if let Some(found) = self.tree().find(key)? {
                self.remove_name(&found, Actor::S3)?;
                self.unlink_inode(found.dirent.ino)?;
            }
            self.promote(key)?;
            return Ok(Some(Dropped { marker: false }));
        }
        let Some(version) = self.tree().noncurrent(key, order)? else { return Ok(None) };
        self.delete_noncurrent(key, &version, bypass_governance)?;
        Ok(Some(Dropped { marker: version.is_marker() }))
    }

    /// Permanently deletes a noncurrent version or a delete marker. Only if it is the delete marker that hides the key,
    /// another version becomes current: a key whose object was moved away stays without one.
    ///
    /// # Errors
    /// [`Error::Denied`] if object lock protects it.
    pub fn delete_noncurrent(&mut self, key: &Key, version: &Noncurrent, bypass_governance: bool) -> Result<()> {
        if !version.is_marker() {
            let (_, inode) = self.tree().linked_inode(version.version.ino)?;
            check_deletable(key, &inode, self.now, bypass_governance)?;
            return self.drop_noncurrent(key, version);
        }
        let hides = self.tree().newest(key)?.is_some_and(|newest| newest.order == version.order);
        self.drop_noncurrent(key, version)?;
        if hides { self.promote(key) } else { Ok(()) }
    }

    fn drop_noncurrent(&mut self, key: &Key, version: &Noncurrent) -> Result<()> {
        self.remove_version(key, version.order)?;
        if version.is_marker() { Ok(()) } else { self.unlink_inode(version.version.ino) }
    }

    fn remove_version(&mut self, key: &Key, order: u64) -> Result<()> {
        let base = key::version(self.ancestry.clone_group, key.as_str(), order);
        self.ancestry.remove(self.txn, &base)
    }

    /// Makes the newest version current if none is, replacing what only mounts see under the name.
    fn promote(&mut self, key: &Key) -> Result<()> {
        let Some(newest) = self.tree().newest(key)?.filter(|newest| !newest.is_marker()) else { return Ok(()) };
        let (dirs, sort_name) = place(key);
        let parent = self.ensure_directories(&dirs)?;
        let unseen = self.tree().dirent(parent, &sort_name)?;
        if unseen.is_some_and(|dirent| dirent.is_key()) {
            return Ok(());
        }
        self.remove_version(key, newest.order)?;
        let dirent = Dirent::new(newest.version.ino, InodeKind::File);
        let mut inode = self.own(newest.version.ino)?;
        (inode.parent, inode.name) = (parent, sort_name.clone());
        self.save(newest.version.ino, &inode);
        match unseen {
            Some(unseen) => {
                self.switch_name(&Found { parent, sort_name, dirent: unseen }, dirent)?;
                self.unlink_inode(unseen.ino)
            }
            None => self.add_name(parent, &sort_name, dirent),
        }
    }
}

/// The error for a missing version.
pub(crate) fn missing(key: &Key, id: &str) -> Error {
    Error::not_found(Noun::Version, format!("{key}?versionId={id}"))
}
