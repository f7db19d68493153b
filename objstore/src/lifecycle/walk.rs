//! The search for due items in a snapshot.

use super::{CHANGES_MAX, LOOKED_MAX, UPLOADS_MAX};
use crate::clock::Timestamp;
use crate::core::Core;
use crate::error::Result;
use crate::expiry::{Rules, Subject};
use crate::name::Key;
use crate::record::bucket::{Bucket, VersioningState};
use crate::record::decode;
use crate::record::inode::Inode;
use crate::record::key;
use crate::record::lifecycle::Last;
use crate::record::upload::Upload;
use crate::tree::{Tree, protection, sweep};

/// A bucket with its rules, at one moment.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    /// The shared state of the store.
    pub core: &'a Core,
    /// The bucket.
    pub bucket: &'a Bucket,
    /// Its tree.
    pub tree: Tree<'a>,
    /// Its rules.
    pub rules: Rules<'a>,
}

/// A change that was due when the item was examined.
#[derive(Debug)]
pub(super) enum Change {
    /// A current object expires.
    Current {
        /// Its key.
        key: Key,
    },
    /// A noncurrent version, or a delete marker that is not the newest, is removed.
    Noncurrent {
        /// Its key.
        key: Key,
        /// Its order number among the versions of the key.
        order: u64,
        /// When it became noncurrent.
        since: Timestamp,
    },
    /// A delete marker that is its key's only version is removed.
    Marker {
        /// Its key.
        key: Key,
        /// Its order number.
        order: u64,
    },
    /// An upload is aborted.
    Upload {
        /// The key of its object.
        key: Key,
        /// Its id.
        id: String,
    },
}

/// The result of examining items.
#[derive(Debug, Default)]
pub(super) struct Walked {
    /// Number of items.
    pub looked_at: usize,
    /// The changes due.
    pub changes: Vec<Change>,
    /// The last item.
    pub last: Option<Last>,
    /// Whether there is more below the prefix.
    pub more: bool,
}

impl View<'_> {
    /// Whether a current object is due.
    pub fn current_due(&self, key: &Key, ino: u64, inode: &Inode) -> bool {
        let directory = key.as_str().ends_with('/');
        if directory && !expires_as_directory(inode) {
            return false;
        }
        // Where a deletion is permanent, protected objects are skipped.
        let kept = self.bucket.versioning() == VersioningState::Enabled && !directory;
        if !kept && protection(inode, self.rules.now).is_some() {
            return false;
        }
        let mut inode = inode.clone();
        if let Some(dirty) = self.core.dirty.get(self.bucket.id, ino) {
            dirty.show(&mut inode);
        }
        self.rules.current_due(Subject::object(key.as_str(), &inode), inode.written())
    }

    /// Examines current objects below `area`.
    pub fn keys(&self, area: &str, last: Option<&Last>) -> Result<Walked> {
        let (keys, more) = sweep(self.tree, area, last.map(|last| last.key.as_str()), LOOKED_MAX)?;
        let mut walked = Walked { more, ..Walked::default() };
        for (name, ino, inode) in keys {
            if walked.changes.len() == CHANGES_MAX {
                walked.more = true;
                break;
            }
            walked.looked_at += 1;
            // A path that only a mount can name may be too long for a key.
            if let Ok(key) = name.parse::<Key>()
                && self.current_due(&key, ino, &inode)
            {
                walked.changes.push(Change::Current { key });
            }
            walked.last = Some(Last { key: name, ..Last::default() });
        }
        Ok(walked)
    }

    /// Examines uploads for keys below `area`.
    pub fn uploads(&self, area: &str, last: Option<&Last>) -> Result<Walked> {
        let prefix = key::uploads(self.bucket.id, area);
        let from = match last {
            Some(last) => [&key::upload(self.bucket.id, &last.key, &last.upload)[..], &[0]].concat(),
            None => prefix.clone(),
        };
        let pairs = self.tree.read.scan(&from, &key::after_prefix(&prefix), LOOKED_MAX)?;
        let mut walked = Walked { more: pairs.len() == LOOKED_MAX, ..Walked::default() };
        for pair in pairs {
            if walked.changes.len() == UPLOADS_MAX {
                walked.more = true;
                break;
            }
            walked.looked_at += 1;
            let Some(name) = key::text_at(&pair.key, key::UPLOAD_KEY_AT) else { continue };
            let id = String::from_utf8_lossy(&pair.key[key::UPLOAD_KEY_AT + name.len() + 1..]).into_owned();
            let upload: Upload = decode("an upload", &pair.value)?;
            if self.rules.upload_due(name, Timestamp(upload.created)) {
                walked.changes.push(Change::Upload { key: name.parse()?, id: id.clone() });
            }
            walked.last = Some(Last { key: name.to_owned(), upload: id, ..Last::default() });
        }
        Ok(walked)
    }
}

/// Whether a directory is an object that S3 put.
fn expires_as_directory(inode: &Inode) -> bool {
    inode.object.is_some() && !inode.implicit
}
