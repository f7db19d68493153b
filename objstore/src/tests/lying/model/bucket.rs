//! A bucket of the model: keys, folders, versions, and who has a file open.

use std::collections::BTreeMap;

use super::{Bucket, File, Folder, Node, Version};
use crate::tests::lying::content::{Contents, FileId};

/// Who removes a name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    S3,
    Mount,
}

impl Bucket {
    /// The file at a path.
    pub(in super::super) fn file_at(&self, path: &str) -> Option<FileId> {
        match self.names.get(path) {
            Some(Node::File(file)) => Some(*file),
            _ => None,
        }
    }

    /// The file of a version: those below the current one come first, the oldest before all.
    pub(in super::super) fn version_at(&self, key: &str, index: usize) -> Option<FileId> {
        match self.versions.get(key).and_then(|versions| versions.get(index)) {
            Some(version) => version.file,
            None => self.file_at(key),
        }
    }

    /// How many names a file has.
    pub(in super::super) fn links(&self, file: FileId) -> usize {
        self.names.values().filter(|node| **node == Node::File(file)).count()
    }

    /// What counts against the quota.
    pub(in super::super) fn used_bytes(&self, contents: &Contents) -> u64 {
        let parts = self.uploads.values().flat_map(|upload| upload.parts.values().map(|part| part.file));
        self.files.keys().copied().chain(parts).map(|file| contents.latest(file).len() as u64).sum()
    }

    /// Gives a path a node; S3 makes the folder that is missing.
    pub(super) fn name(&mut self, path: &str, node: Node) {
        if let Some((folder, _)) = path.split_once('/') {
            self.names.entry(folder.to_owned()).or_insert(Node::Folder(Folder::Implicit));
        }
        self.names.insert(path.to_owned(), node);
    }

    /// Takes a path's name away.
    pub(super) fn unname(&mut self, path: &str, by: By) -> Option<Node> {
        let node = self.names.remove(path);
        self.settle_folder(path, by);
        node
    }

    /// What becomes of an implicit folder that holds no keys any more.
    pub(super) fn settle_folder(&mut self, path: &str, by: By) {
        let Some((folder, _)) = path.split_once('/') else { return };
        let keys = |node: &Node| matches!(node, Node::File(_));
        if self.names.get(folder) != Some(&Node::Folder(Folder::Implicit)) || self.below(folder).any(keys) {
            return;
        }
        if by == By::S3 && self.below(folder).next().is_none() {
            self.names.remove(folder);
        } else {
            self.names.insert(folder.to_owned(), Node::Folder(Folder::Made));
        }
    }

    /// What lies in a folder.
    pub(in super::super) fn below(&self, folder: &str) -> impl Iterator<Item = &Node> {
        let inside = move |path: &str| path.split_once('/').is_some_and(|(above, _)| above == folder);
        self.names.iter().filter(move |(path, _)| inside(path)).map(|(_, node)| node)
    }

    /// A new object under a key, in place of what was there.
    pub(super) fn replace(&mut self, key: &str, file: FileId, mut made: File, day: u64) {
        let before = self.file_at(key);
        made.mode = before.and_then(|before| self.files.get(&before)?.mode);
        made.written = day;
        if let Some(before) = before {
            self.set_aside(key, before, day);
        }
        self.files.insert(file, made);
        self.name(key, Node::File(file));
        self.sweep();
    }

    /// A file that was current becomes a version, if the bucket keeps them.
    pub(super) fn set_aside(&mut self, key: &str, file: FileId, day: u64) {
        if self.versioned {
            self.files.get_mut(&file).unwrap().begun = false;
            self.versions.entry(key.to_owned()).or_default().push(Version { file: Some(file), since: day });
        }
    }

    /// A delete marker over what would show.
    pub(super) fn hide(&mut self, key: &str, day: u64) {
        let shows = self.versions.get(key).and_then(|versions| versions.last()).is_some_and(|last| last.file.is_some());
        if shows && self.file_at(key).is_none() {
            self.mark(key, day);
        }
    }

    fn mark(&mut self, key: &str, day: u64) {
        self.versions.entry(key.to_owned()).or_default().push(Version { file: None, since: day });
    }

    /// As S3 deletes a key.
    pub(super) fn delete(&mut self, key: &str, day: u64) {
        let Some(file) = self.file_at(key) else { return };
        self.unname(key, By::S3);
        if self.versioned {
            self.set_aside(key, file, day);
            self.mark(key, day);
        }
        self.sweep();
    }

    /// As a mount removes a name, or puts another file in its place: a file nothing was written to makes no version.
    pub(super) fn leave(&mut self, key: &str, file: FileId, day: u64) {
        if self.versioned {
            if !self.files[&file].fresh {
                self.set_aside(key, file, day);
            }
            self.hide(key, day);
        }
        self.sweep();
    }

    pub(super) fn delete_version(&mut self, key: &str, index: usize) {
        let versions = self.versions.entry(key.to_owned()).or_default();
        if index >= versions.len() {
            self.unname(key, By::S3);
            self.promote(key);
        } else {
            let (gone, hid) = (versions.remove(index), index == versions.len());
            if gone.file.is_none() && hid {
                self.promote(key);
            }
        }
        if self.versions.get(key).is_some_and(Vec::is_empty) {
            self.versions.remove(key);
        }
        self.sweep();
    }

    /// The newest version of a key that has no object becomes current, unless it is a marker.
    fn promote(&mut self, key: &str) {
        let Some(versions) = self.versions.get_mut(key).filter(|_| !self.names.contains_key(key)) else { return };
        if let Some(Version { file: Some(file), .. }) = versions.last().copied() {
            versions.pop();
            self.name(key, Node::File(file));
        }
    }

    /// Before a mount changes a file: what it was is a version from then on.
    pub(super) fn begin(&mut self, contents: &mut Contents, key: &str, day: u64) {
        let Some(file) = self.file_at(key).filter(|_| self.versioned) else { return };
        let held = self.files.get_mut(&file).unwrap();
        if std::mem::replace(&mut held.begun, true) || held.fresh {
            return;
        }
        let (kept, copy) = (contents.share(file), File { begun: false, ..held.clone() });
        held.lock.until = None;
        self.files.insert(kept, copy);
        self.versions.entry(key.to_owned()).or_default().push(Version { file: Some(kept), since: day });
    }

    fn is_open(&self, file: FileId) -> bool {
        self.open.contains(&file)
    }

    /// The end of a change that no handle stands behind.
    pub(super) fn changed_unopened(&mut self, file: FileId) {
        if !self.is_open(file)
            && let Some(held) = self.files.get_mut(&file)
        {
            held.begun = false;
        }
    }

    pub(super) fn close_oldest(&mut self) {
        if !self.open.is_empty() {
            let file = self.open.remove(0);
            self.changed_unopened(file);
        }
    }

    pub(super) fn close_all(&mut self) {
        for file in std::mem::take(&mut self.open) {
            self.changed_unopened(file);
        }
    }

    /// Forgets files that have no name any more.
    pub(super) fn sweep(&mut self) {
        let (names, versions) = (&self.names, &self.versions);
        self.files.retain(|file, _| {
            names.values().any(|node| *node == Node::File(*file))
                || versions.values().flatten().any(|of| of.file == Some(*file))
        });
    }

    /// The same content in files of its own.
    pub(super) fn copied(&self, contents: &mut Contents) -> Self {
        let nothing = Self::default();
        let mut copy = Self {
            uploads: nothing.uploads,
            quota: None,
            rule: None,
            open: nothing.open,
            files: nothing.files,
            ..self.clone()
        };
        let mut moved = BTreeMap::new();
        for (file, held) in &self.files {
            let own = contents.copy(*file);
            moved.insert(*file, own);
            copy.files.insert(own, File { image: 0, begun: false, ..held.clone() });
        }
        for node in copy.names.values_mut() {
            if let Node::File(file) = node {
                *file = moved[file];
            }
        }
        for version in copy.versions.values_mut().flatten() {
            version.file = version.file.map(|file| moved[&file]);
        }
        copy
    }
}
