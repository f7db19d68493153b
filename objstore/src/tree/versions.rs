//! Versions of objects, in a bucket that keeps them (S3 User Guide, "Using versioning in S3 buckets").
//!
//! - The dirent names the current version. Every other version, and every delete marker, has a record keyed by the
//!   full key and then by an order that falls with each version made in the family: the newest comes first.
//! - A version's record holds one of its inode's links, so the inode ends with its last version and name.
//! - An object written while versions were not kept is the version `null`; there is at most one.
//! - Keys that end in `/` are directories: they have no versions.

use prost::Message;

use super::edit::Actor;
use super::read::{Found, Tree};
use super::s3::place;
use super::tx::Tx;
use crate::error::{Error, Noun, Result};
use crate::name::Key;
use crate::record::bucket::VersioningState;
use crate::record::decode;
use crate::record::inode::{Dirent, Inode, InodeKind};
use crate::record::key;
use crate::record::version::Version;

/// The id of the version without one.
const NULL: &str = "null";
/// Versions read at a time.
const CHUNK: usize = 128;

/// A version that is not the current one.
#[derive(Clone, Debug)]
pub(crate) struct Noncurrent {
    /// The key.
    pub key: String,
    /// Its place among the versions of the key.
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

/// The id of the version with an order; zero is the version `null`.
pub(crate) fn version_id(order: u64) -> String {
    if order == 0 { NULL.to_owned() } else { format!("{order:016x}") }
}

/// The order in an inode's version; zero is the version `null`.
pub(crate) fn order_of(inode: &Inode) -> u64 {
    inode.object.as_ref().map_or(0, |object| object.version)
}

impl Tree<'_> {
    /// Up to `limit` versions that are not current, from a key and order on, below the key `to`.
    pub fn versions(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Noncurrent>> {
        let seen = self.line.scan(self.read, from, to, limit)?;
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

    /// The newest version of a key that is not current.
    fn newest(&self, key: &Key) -> Result<Option<Noncurrent>> {
        let from = key::versions(self.line.family, key.as_str());
        Ok(self.versions(&from, &key::after_prefix(&from), 1)?.into_iter().next())
    }

    /// The version of a key with an id, if it is not the current one.
    fn noncurrent(&self, key: &Key, id: &str) -> Result<Option<Noncurrent>> {
        let from = key::versions(self.line.family, key.as_str());
        let to = key::after_prefix(&from);
        if id == NULL {
            return self.find_null(from, &to);
        }
        let Ok(order) = u64::from_str_radix(id, 16) else { return Ok(None) };
        let at = key::version(self.line.family, key.as_str(), order);
        let found = self.versions(&at, &to, 1)?.into_iter().next();
        Ok(found.filter(|found| found.order == order && !found.version.null))
    }

    fn find_null(&self, mut from: Vec<u8>, to: &[u8]) -> Result<Option<Noncurrent>> {
        loop {
            let versions = self.versions(&from, to, CHUNK)?;
            let more = versions.len() == CHUNK;
            if let Some(last) = versions.last() {
                from = key::version(self.line.family, &last.key, last.order + 1);
            }
            if let Some(null) = versions.into_iter().find(|version| version.version.null) {
                return Ok(Some(null));
            }
            if !more {
                return Ok(None);
            }
        }
    }

    /// The version of an object with an id; a delete marker is found without an inode.
    pub fn version(&self, key: &Key, id: &str) -> Result<Option<(u64, Option<Inode>)>> {
        if let Some((ino, inode)) = self.object(key)?
            && version_id(order_of(&inode)) == id
        {
            return Ok(Some((ino, Some(inode))));
        }
        let Some(found) = self.noncurrent(key, id)? else { return Ok(None) };
        if found.is_marker() {
            return Ok(Some((0, None)));
        }
        let (_, inode) = self.linked_inode(found.version.ino)?;
        Ok(Some((found.version.ino, Some(inode))))
    }
}

/// What a deletion without a version did.
pub(crate) struct Removed {
    /// Whether there was an object.
    pub existed: bool,
    /// The delete marker made.
    pub marker: Option<String>,
}

/// What deleting a version did.
pub(crate) struct Dropped {
    /// Whether it was a delete marker.
    pub marker: bool,
}

impl Tx<'_> {
    /// Whether changes of `key` make versions, and which.
    fn keeps(&self, key: &Key) -> VersioningState {
        if key.as_str().ends_with('/') { VersioningState::Disabled } else { self.bucket.versioning() }
    }

    /// The order of the version that is about to be put under `key`; zero is `null`.
    pub fn version_for(&mut self, key: &Key) -> Result<u64> {
        match self.keeps(key) {
            VersioningState::Enabled => self.new_version(),
            VersioningState::Disabled | VersioningState::Suspended => Ok(0),
        }
    }

    /// The current object under `key` has just lost its name: it becomes a version, or ends.
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

    /// In a bucket that stopped keeping versions, what is put replaces the version `null`.
    pub fn replace_null(&mut self, key: &Key) -> Result<()> {
        if self.keeps(key) != VersioningState::Suspended {
            return Ok(());
        }
        match self.tree().noncurrent(key, NULL)? {
            Some(null) => self.drop_noncurrent(key, &null),
            None => Ok(()),
        }
    }

    fn keep_version(&mut self, key: &Key, ino: u64, order: u64) -> Result<()> {
        let null = order == 0;
        let order = if null { self.new_version()? } else { order };
        self.put_version(key, order, Version { ino, created: self.now.0, null, present: true });
        Ok(())
    }

    fn put_version(&mut self, key: &Key, order: u64, version: Version) {
        let base = key::version(self.line.family, key.as_str(), order);
        self.line.put(self.txn, &base, version.encode_to_vec());
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

    /// Deletes one version for good; the newest one left becomes current, unless it is a delete marker.
    pub fn delete_version(&mut self, key: &Key, id: &str) -> Result<Option<Dropped>> {
        if let Some((_, inode)) = self.tree().object(key)?
            && version_id(order_of(&inode)) == id
        {
            if self.bucket.versioning() == VersioningState::Disabled || key.as_str().ends_with('/') {
                self.delete_object(key)?;
            } else if let Some(found) = self.tree().find(key)? {
                self.remove_name(&found, Actor::S3)?;
                self.unlink_inode(found.dirent.ino)?;
            }
            self.promote(key)?;
            return Ok(Some(Dropped { marker: false }));
        }
        let Some(version) = self.tree().noncurrent(key, id)? else { return Ok(None) };
        self.drop_noncurrent(key, &version)?;
        self.promote(key)?;
        Ok(Some(Dropped { marker: version.is_marker() }))
    }

    fn drop_noncurrent(&mut self, key: &Key, version: &Noncurrent) -> Result<()> {
        self.remove_version(key, version.order)?;
        if version.is_marker() { Ok(()) } else { self.unlink_inode(version.version.ino) }
    }

    fn remove_version(&mut self, key: &Key, order: u64) -> Result<()> {
        let base = key::version(self.line.family, key.as_str(), order);
        self.line.remove(self.txn, &base)
    }

    /// Lets the newest version be current if none is.
    fn promote(&mut self, key: &Key) -> Result<()> {
        if self.tree().find(key)?.is_some() {
            return Ok(());
        }
        let Some(newest) = self.tree().newest(key)?.filter(|newest| !newest.is_marker()) else { return Ok(()) };
        self.remove_version(key, newest.order)?;
        let (dirs, sort_name) = place(key);
        let parent = self.ensure_directories(&dirs)?;
        let dirent = Dirent::new(newest.version.ino, InodeKind::File);
        match self.tree().dirent(parent, &sort_name)? {
            Some(other) => {
                let found = Found { parent, sort_name, dirent: other };
                self.switch_name(&found, dirent)?;
                self.unlink_inode(other.ino)
            }
            None => self.add_name(parent, &sort_name, dirent),
        }
    }
}

/// No such version.
pub(crate) fn missing(key: &Key, id: &str) -> Error {
    Error::not_found(Noun::Version, format!("{key}?versionId={id}"))
}
