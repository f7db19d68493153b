//! Hidden keys, which a mount cannot show: counted in the transaction that creates or removes them, logged once, and
//! listed.
//!
//! - A key is hidden by a component that no mount can name, or by a directory of the same name. Only S3 creates
//!   components of the first kind, and a mount moves one only together with a directory above it: so such a key stays
//!   hidden.
//! - The count is part of the branch's usage, with the count of objects.

use super::cursor::{Cursor, Name, after};
use super::read::Tree;
use super::tx::Tx;
use super::types::{HiddenKey, HiddenPage};
use super::{dir_name, shown_name};
use crate::error::Result;
use crate::name::{Hidden, mountable};
use crate::record::inode::{Dirent, Inode, InodeKind};

/// The most names examined for one page.
const LOOKED_MAX: usize = 16_384;
/// The most names of a directory examined to explain why it is not removed.
const REFUSED_LOOK: usize = 64;

impl Tx<'_> {
    /// Counts the objects and hidden keys that a name adds (`sign` 1) or removes (-1).
    pub(super) fn count_keys(&mut self, parent: u64, sort_name: &str, dirent: Dirent, sign: i64) -> Result<()> {
        let name = shown_name(sort_name);
        match dirent.kind() {
            InodeKind::File => {
                self.delta.objects += sign;
                let has_folder = self.tree().dirent(parent, &dir_name(name))?.is_some();
                if has_folder || self.is_unshown(parent, name)? {
                    self.count_hidden(parent, name, sign);
                }
            }
            InodeKind::Directory => {
                let (_, dir) = self.tree().linked_inode(dirent.ino)?;
                if !dir.implicit {
                    self.count_marker_at(parent, name, sign)?;
                }
                // The file that a directory of the same name hides.
                let file = self.tree().dirent(parent, name)?.filter(|beside| beside.kind() == InodeKind::File);
                if file.is_some() && !self.is_unshown(parent, name)? {
                    self.count_hidden(parent, name, sign);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Counts a directory that becomes an object, or ceases to be one.
    pub(super) fn count_marker(&mut self, dir: &Inode, sign: i64) -> Result<()> {
        self.count_marker_at(dir.parent, &dir.name, sign)
    }

    fn count_marker_at(&mut self, parent: u64, name: &str, sign: i64) -> Result<()> {
        self.delta.objects += sign;
        if self.is_unshown(parent, name)? {
            self.count_hidden(parent, name, sign);
        }
        Ok(())
    }

    /// Whether no mount can show a name, or its directory.
    fn is_unshown(&mut self, parent: u64, name: &str) -> Result<bool> {
        Ok(!mountable(name) || self.place_of(parent)?.unshown)
    }

    fn count_hidden(&mut self, parent: u64, name: &str, sign: i64) {
        self.delta.hidden += sign;
        if sign > 0 && self.first_hidden.is_none() {
            self.first_hidden = Some((parent, name.to_owned()));
        }
    }

    /// Logs that the bucket contains its first hidden key.
    pub(super) fn announce_hidden(&mut self) {
        let Some((parent, name)) = self.first_hidden.take() else { return };
        let key = self.tree().key_of(parent, &name).ok().flatten();
        let key = key.map_or(name, |key| key.to_string());
        let (core, id, bucket) = (self.core.clone(), self.bucket.id, self.name.to_string());
        self.txn.after_commit(Box::new(move || {
            if core.hidden_log.is_first(id) {
                tracing::info!(
                    bucket,
                    key,
                    "the bucket holds a key that mounts cannot show; `amphora bucket hidden {bucket}` lists such keys"
                );
            }
        }));
    }

    /// Logs why a directory that looks empty on a mount is not removed or replaced.
    pub(super) fn note_not_empty(&self, dir: u64) {
        let tree = self.tree();
        let Ok(entries) = tree.entries(dir, "", REFUSED_LOOK) else { return };
        let looks_empty = !entries.iter().any(|(name, _)| mountable(shown_name(name)));
        if !looks_empty || !self.core.hidden_log.is_due(self.bucket.id, self.now) {
            return;
        }
        let inode = tree.directory(dir).ok();
        let path = inode.and_then(|inode| tree.key_of(inode.parent, &inode.name).ok().flatten());
        let (bucket, directory) = (self.name.to_string(), path.map(|path| path.to_string()).unwrap_or_default());
        tracing::info!(
            bucket,
            directory,
            "a directory is not removed, since it holds keys that mounts cannot show; `amphora bucket hidden {bucket}` \
             lists them, and S3 clients can read and delete them"
        );
    }
}

/// The key that a name hides, or that is hidden under it, and why. `holder` is the name's directory.
pub(super) fn hidden_by(tree: Tree<'_>, name: &Name, holder: u64) -> Result<Option<HiddenKey>> {
    let is_directory = name.dirent.kind() == InodeKind::Directory;
    let path = if is_directory { shown_name(&name.key) } else { &name.key };
    if let Some(why) = path.split('/').find_map(Hidden::of_component) {
        let is_key = !is_directory || !tree.linked_inode(name.dirent.ino)?.1.implicit;
        return Ok(is_key.then(|| HiddenKey { key: name.key.clone(), why }));
    }
    if !is_directory {
        return Ok(None);
    }
    let last = path.rsplit('/').next().unwrap_or(path);
    let file = tree.dirent(holder, last)?.filter(|beside| beside.kind() == InodeKind::File);
    Ok(file.map(|_| HiddenKey { key: path.to_owned(), why: Hidden::Folder }))
}

/// A page of hidden keys with `prefix`, after `last`. A page may be empty though there are more.
pub(crate) fn list_hidden(tree: Tree<'_>, prefix: &str, last: Option<&str>, limit: usize) -> Result<HiddenPage> {
    let from = last.map_or_else(String::new, after).max(prefix.to_owned());
    let mut cursor = Cursor::new(tree, &from)?;
    let mut page = HiddenPage::default();
    for _ in 0..LOOKED_MAX {
        let Some(name) = cursor.next_name()?.filter(|name| name.key.starts_with(prefix)) else {
            page.next = None;
            return Ok(page);
        };
        let hidden = hidden_by(tree, &name, cursor.holder(&name))?;
        page.keys.extend(hidden.filter(|hidden| hidden.key.starts_with(prefix)));
        page.next = Some(name.key);
        if page.keys.len() >= limit {
            break;
        }
    }
    Ok(page)
}
