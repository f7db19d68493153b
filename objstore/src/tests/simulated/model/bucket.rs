//! A bucket of the reference model: keys, folders, versions, and open files.

use std::collections::BTreeMap;

use super::{Bucket, File, Folder, Node, Until, Version};
use crate::store::Versioning;
use crate::tests::simulated::content::{Contents, FileId};

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
        self.files.keys().copied().chain(parts).map(|file| self.charged(contents, file)).sum()
    }

    /// The same of one file.
    pub(in super::super) fn charged(&self, contents: &Contents, file: FileId) -> u64 {
        let reserved = self.files.get(&file).map_or(0, |file| file.reserved);
        contents.latest(file).len().max(reserved) as u64
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

    /// What becomes of an implicit folder that holds nothing any more.
    pub(super) fn settle_folder(&mut self, path: &str, by: By) {
        let Some((folder, _)) = path.split_once('/') else { return };
        if self.names.get(folder) != Some(&Node::Folder(Folder::Implicit)) || self.below(folder).next().is_some() {
            return;
        }
        match by {
            By::S3 => self.names.remove(folder),
            By::Mount => self.names.insert(folder.to_owned(), Node::Folder(Folder::Made)),
        };
    }

    /// What lies in a folder.
    pub(in super::super) fn below(&self, folder: &str) -> impl Iterator<Item = &Node> {
        let inside = move |path: &str| path.split_once('/').is_some_and(|(above, _)| above == folder);
        self.names.iter().filter(move |(path, _)| inside(path)).map(|(_, node)| node)
    }

    /// Whether what changes leaves a version, be it `null`.
    pub(in super::super) fn versioned(&self) -> bool {
        self.versioning != Versioning::Disabled
    }

    /// Whether what is new is the version `null`.
    pub(super) fn makes_null(&self) -> bool {
        self.versioning != Versioning::Enabled
    }

    /// What is new is retained by default.
    pub(super) fn retained(&self, day: u64) -> Option<Until> {
        self.retention.map(|compliance| (2 * (day + 1), compliance))
    }

    /// A new object under a key, in place of what was there.
    pub(super) fn replace(&mut self, contents: &mut Contents, key: &str, (file, mut made): (FileId, File), day: u64) {
        let before = self.file_at(key);
        made.mode = before.and_then(|before| self.files.get(&before)?.mode);
        (made.written, made.null, made.known) = (day, self.makes_null(), Some(key.to_owned()));
        made.lock.until = made.lock.until.or(self.retained(day));
        self.files.insert(file, made);
        self.name(key, Node::File(file));
        if let Some(before) = before {
            self.set_aside(contents, key, before, day);
        }
        self.replace_null(key);
        self.sweep();
    }

    /// A file that a key has just ceased to lead to becomes a version, if the bucket keeps it: a copy, if other names
    /// lead to the file.
    pub(super) fn set_aside(&mut self, contents: &mut Contents, key: &str, file: FileId, day: u64) {
        let held = &self.files[&file];
        if !self.versioned() || (self.makes_null() && held.null) {
            return;
        }
        let linked = self.links(file) > 0;
        let held = self.files.get_mut(&file).unwrap();
        held.begun = None;
        let version = if linked {
            // A copy has an entity tag of its own, and so counts as written to.
            let copy = File { fresh: false, made: false, ..held.clone() };
            if held.known.as_deref() == Some(key) {
                held.known = None;
            }
            let kept = contents.share(file);
            self.files.insert(kept, File { reserved: 0, ..copy });
            kept
        } else {
            self.files.get_mut(&file).unwrap().reserved = 0;
            file
        };
        self.keep(key, Some(version), day);
    }

    fn keep(&mut self, key: &str, file: Option<FileId>, day: u64) {
        let null = file.is_none() && self.makes_null();
        self.versions.entry(key.to_owned()).or_default().push(Version { file, since: day, null });
    }

    /// Where versions are not kept any more what is new replaces the version `null`.
    pub(super) fn replace_null(&mut self, key: &str) {
        let Some(versions) = self.versions.get_mut(key).filter(|_| self.versioning == Versioning::Suspended) else {
            return;
        };
        let files = &self.files;
        versions.retain(|version| !version.file.map_or(version.null, |file| files[&file].null));
        self.versions.retain(|_, versions| !versions.is_empty());
    }

    /// A delete marker over what would show.
    pub(super) fn hide(&mut self, key: &str, day: u64) {
        if self.would_show(key) {
            self.replace_null(key);
        }
        if self.would_show(key) {
            self.keep(key, None, day);
        }
    }

    fn would_show(&self, key: &str) -> bool {
        let newest = self.versions.get(key).and_then(|versions| versions.last());
        newest.is_some_and(|newest| newest.file.is_some()) && self.file_at(key).is_none()
    }

    /// As S3 deletes a key.
    pub(super) fn delete(&mut self, contents: &mut Contents, key: &str, day: u64) {
        let Some(file) = self.file_at(key) else { return };
        self.unname(key, By::S3);
        if self.versioned() {
            self.set_aside(contents, key, file, day);
            self.replace_null(key);
            self.keep(key, None, day);
        }
        self.sweep();
    }

    /// As a mount removes a name, or puts another file in its place: a file nothing was written to makes no version.
    pub(super) fn leave(&mut self, contents: &mut Contents, key: &str, file: FileId, day: u64) {
        if self.versioned() {
            if !self.files[&file].fresh {
                self.set_aside(contents, key, file, day);
            }
            self.replace_null(key);
            self.hide(key, day);
        }
        self.sweep();
    }

    /// A mount gives a file a name, of which it is the current version.
    pub(super) fn arrive(&mut self, key: &str, file: FileId, day: u64) {
        let (versioned, null, until) = (self.versioned(), self.makes_null(), self.retained(day));
        self.replace_null(key);
        let held = self.files.get_mut(&file).unwrap();
        held.known = Some(key.to_owned());
        if versioned {
            (held.null, held.lock.until) = (null, until);
            // Who writes it goes on.
            held.begun = held.begun.map(|_| until);
        }
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

    /// The newest version of a key that has no object becomes current, unless it is a marker; in the place of a link.
    fn promote(&mut self, key: &str) {
        let taken = self.names.get(key).is_some_and(|node| !matches!(node, Node::Link(_)));
        let Some(versions) = self.versions.get_mut(key).filter(|_| !taken) else { return };
        if let Some(Version { file: Some(file), .. }) = versions.last().copied() {
            versions.pop();
            self.files.get_mut(&file).unwrap().known = Some(key.to_owned());
            self.name(key, Node::File(file));
        }
    }

    /// A mount looks a file up: it learns the name, if the one it knew is gone.
    pub(super) fn learn(&mut self, path: &str) {
        let Some(file) = self.file_at(path).filter(|_| self.versioned()) else { return };
        if self.key_of(file).is_none() {
            self.files.get_mut(&file).unwrap().known = Some(path.to_owned());
        }
    }

    /// The key whose version a file is.
    fn key_of(&self, file: FileId) -> Option<String> {
        self.files[&file].known.clone().filter(|known| self.file_at(known) == Some(file))
    }

    /// Before a mount changes a file: what it was is a version from then on.
    pub(super) fn begin(&mut self, contents: &mut Contents, path: &str, day: u64) {
        self.learn(path);
        let Some(file) = self.file_at(path).filter(|_| self.versioned()) else { return };
        if self.files[&file].begun.is_none() {
            self.begin_version(contents, file, day);
            let held = self.files.get_mut(&file).unwrap();
            held.begun = Some(held.lock.until);
        }
    }

    fn begin_version(&mut self, contents: &mut Contents, file: FileId, day: u64) {
        let (null, until, key) = (self.makes_null(), self.retained(day), self.key_of(file).unwrap());
        let held = self.files[&file].clone();
        if null && held.null {
            return;
        }
        if held.fresh && !held.null {
            let begun = self.files.get_mut(&file).unwrap();
            begun.lock.until = until.or(held.lock.until);
            begun.written = if until.is_some() { day } else { held.written };
            return;
        }
        if !held.fresh {
            let kept = contents.share(file);
            self.files.insert(kept, File { reserved: 0, ..held });
            self.keep(&key, Some(kept), day);
        }
        self.replace_null(&key);
        self.sweep();
        let held = self.files.get_mut(&file).unwrap();
        (held.null, held.lock.until, held.written) = (null, until, day);
    }

    /// The end of a change that no handle stands behind: the last one ends the version, which is retained from then on.
    pub(super) fn changed_unopened(&mut self, file: FileId, day: u64) {
        let (current, until) = (self.names.values().any(|node| *node == Node::File(file)), self.retained(day));
        let Some(held) = self.files.get_mut(&file).filter(|_| !self.open.contains(&file)) else { return };
        let before = held.lock.until;
        let stronger = until.filter(|(end, by)| before.is_none_or(|(until, of)| of == *by && until < *end));
        if held.begun.take().is_some() && current {
            held.lock.until = stronger.or(before);
        }
    }

    pub(super) fn close_oldest(&mut self, day: u64) {
        if !self.open.is_empty() {
            let file = self.open.remove(0);
            self.changed_unopened(file, day);
        }
    }

    /// A session that ends leaves what it wrote retained as it is.
    pub(super) fn close_all(&mut self) {
        for file in std::mem::take(&mut self.open) {
            if let Some(held) = self.files.get_mut(&file) {
                held.begun = None;
            }
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
            copy.files.insert(own, File { image: 0, begun: None, ..held.clone() });
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
