//! Comparison of an observed bucket with the model's.

use std::collections::{BTreeMap, BTreeSet};

use super::{SeenBucket, SeenFile, SeenNode, SeenObject};
use crate::tests::simulated::content::{Contents, End, FileId};
use crate::tests::simulated::model::{Bucket, File, Folder, Node};
use crate::tests::simulated::process::recorded;

impl SeenBucket {
    pub(super) fn fault(&self, said: &Bucket, contents: &Contents, end: End) -> Option<String> {
        let about = (self.snapshot, self.quota, self.versioning, self.locking, self.retention);
        if about != (said.snapshot, said.quota, said.versioning, said.locking, said.retention) {
            return Some(format!("snapshot, quota, versions, lock, retention: {about:?}"));
        }
        if !self.rules.iter().eq(said.rule.map(recorded).iter()) {
            return Some(format!("lifecycle rules: {:?}", self.rules));
        }
        let expected = said.names.keys();
        if !self.paths.keys().eq(expected.clone()) {
            return Some(format!("a mount shows {:?}, not {expected:?}", self.paths.keys()));
        }
        let keys = said.names.iter().filter_map(|(path, node)| match node {
            Node::File(_) => Some(path.clone()),
            Node::Folder(Folder::Made | Folder::Put) => Some(format!("{path}/")),
            Node::Folder(Folder::Implicit) | Node::Link(_) => None,
        });
        let keys: BTreeSet<String> = keys.collect();
        if !self.objects.keys().eq(&keys) {
            return Some(format!("S3 lists {:?}, not {keys:?}", self.objects.keys()));
        }
        let node = said.names.iter().find_map(|(path, node)| {
            let fault = self.node_fault(path, node, said, contents, end)?;
            Some(format!("{path}: {fault}"))
        });
        node.or_else(|| self.versions_fault(said, contents, end))
            .or_else(|| self.uploads_fault(said, contents))
            .or_else(|| self.usage_fault(said))
    }

    fn node_fault(&self, path: &str, node: &Node, said: &Bucket, contents: &Contents, end: End) -> Option<String> {
        match (node, &self.paths[path]) {
            (Node::Folder(_), SeenNode::Folder) => None,
            (Node::Link(target), SeenNode::Link(found)) if target == found => None,
            (Node::File(file), SeenNode::File(SeenFile { bytes, mode, links, xattr, .. })) => {
                let (held, object) = (&said.files[file], &self.objects[path]);
                if object.bytes != *bytes {
                    return Some(format!("S3 reads {} bytes, a mount other {}", object.bytes.len(), bytes.len()));
                }
                let other_mode = held.mode.is_some_and(|said| said != *mode & 0o7777);
                if other_mode || said.links(*file) != *links as usize || *xattr != held.xattr {
                    return Some(format!("mode {mode:o}, {links} links, attribute {xattr:?}, not {:?}", held.mode));
                }
                object.fault(*file, held, contents, end)
            }
            _ => Some(format!("it is not a {node:?}")),
        }
    }

    fn versions_fault(&self, said: &Bucket, contents: &Contents, end: End) -> Option<String> {
        let null = |file: FileId| said.files[&file].null;
        let mut expected: BTreeMap<&String, Vec<(bool, Option<FileId>)>> = BTreeMap::new();
        for (key, node) in said.names.iter().filter(|_| said.versioned()) {
            if let Node::File(file) = node {
                expected.entry(key).or_default().push((null(*file), Some(*file)));
            }
        }
        for (key, held) in &said.versions {
            let held = held.iter().rev().map(|version| (version.file.map_or(version.null, null), version.file));
            expected.entry(key).or_default().extend(held);
        }
        if !self.versions.keys().eq(expected.keys().copied()) {
            return Some(format!("there are versions of {:?}, not {:?}", self.versions.keys(), expected.keys()));
        }
        expected.into_iter().find_map(|(key, files)| {
            let found = &self.versions[key];
            let seen: Vec<_> = found.iter().map(|version| (version.null, version.object.is_some())).collect();
            if !files.iter().map(|(null, file)| (*null, file.is_some())).eq(seen.iter().copied()) {
                return Some(format!("{key}: null, object: {seen:?}, not {files:?}"));
            }
            let pairs = files.into_iter().zip(found).filter_map(|((_, file), seen)| file.zip(seen.object.as_ref()));
            let fault =
                pairs.into_iter().find_map(|(file, object)| object.fault(file, &said.files[&file], contents, end))?;
            Some(format!("a version of {key}: {fault}"))
        })
    }

    fn uploads_fault(&self, said: &Bucket, contents: &Contents) -> Option<String> {
        if !self.uploads.keys().eq(said.uploads.keys()) {
            return Some(format!("uploads of {:?}, not {:?}", self.uploads.keys(), said.uploads.keys()));
        }
        said.uploads.iter().find_map(|(key, upload)| {
            let seen = &self.uploads[key];
            let size = |file| contents.latest(file).len() as u64;
            let parts = upload.parts.iter().map(|(number, part)| (*number, (size(part.file), part.etag.clone())));
            let expected: BTreeMap<u32, (u64, String)> = parts.collect();
            let other = upload.id.as_ref().is_some_and(|known| *known != seen.id);
            (other || expected != seen.parts)
                .then(|| format!("the upload of {key}: {:?}, not {expected:?}", seen.parts))
        })
    }

    /// What is counted, against what is there.
    fn usage_fault(&self, said: &Bucket) -> Option<String> {
        let mut sizes: BTreeMap<FileId, usize> = BTreeMap::new();
        for (path, node) in &said.names {
            if let (Node::File(file), Some(object)) = (node, self.objects.get(path)) {
                sizes.insert(*file, object.bytes.len().max(said.files[file].reserved));
            }
        }
        let versions = self.versions.values().flatten().filter_map(|version| version.object.as_ref());
        let current = self.objects.keys().filter(|key| self.versions.contains_key(*key));
        let noncurrent = versions.map(|object| object.bytes.len() as u64).sum::<u64>()
            - current.map(|key| self.objects[key].bytes.len() as u64).sum::<u64>();
        let parts = self.uploads.values().flat_map(|upload| upload.parts.values()).map(|(size, _)| size).sum::<u64>();
        let expected = sizes.values().map(|size| *size as u64).sum::<u64>() + noncurrent + parts;
        let other = !said.snapshot && self.used_bytes != expected;
        other.then(|| format!("{} bytes are counted, not {expected}", self.used_bytes))
    }

    /// Lets a bucket of the model say what was found.
    pub(super) fn settle(&self, bucket: &mut Bucket, contents: &mut Contents, written: Option<FileId>) {
        for (path, node) in &bucket.names {
            if let (Node::File(file), Some(object), SeenNode::File(seen)) =
                (node, self.objects.get(path), &self.paths[path])
            {
                let held = bucket.files.get_mut(file).unwrap();
                object.settle(*file, held, contents, written);
                held.fresh = held.made && seen.generation == 0;
                held.known = seen.known.clone();
            }
        }
        for (key, versions) in &bucket.versions {
            let found = self.versions[key].iter().rev();
            let objects =
                versions.iter().zip(found).filter_map(|(version, found)| version.file.zip(found.object.as_ref()));
            for (file, object) in objects {
                object.settle(file, bucket.files.get_mut(&file).unwrap(), contents, written);
            }
        }
        for (key, upload) in &mut bucket.uploads {
            upload.id = Some(self.uploads[key].id.clone());
        }
    }
}

impl SeenObject {
    fn fault(&self, file: FileId, said: &File, contents: &Contents, end: End) -> Option<String> {
        if self.has_another_tag(said) && !self.may_be_written_through_a_mapping() {
            return Some(format!("its tag is {}, not {:?}", self.etag, said.etag));
        }
        if said.note != self.note {
            return Some(format!("its note is {:?}, not {:?}", self.note, said.note));
        }
        if said.lock != self.lock {
            return Some(format!("its lock is {:?}, not {:?}", self.lock, said.lock));
        }
        if end == End::Kill && said.written != self.written {
            return Some(format!("it was written on day {}, not {}", self.written, said.written));
        }
        contents.fault(file, said.image, end, &self.bytes)
    }

    fn has_another_tag(&self, said: &File) -> bool {
        said.etag.as_ref().is_some_and(|etag| *etag != self.etag)
    }

    /// Whether the tag is that of a file which `Process::read_past` lets a program map: where the process ends, nobody
    /// knows whether the program wrote to it, so the next process gives it a new tag.
    fn may_be_written_through_a_mapping(&self) -> bool {
        let ino = self.etag.split_at_checked(16).and_then(|(ino, _)| u64::from_str_radix(ino, 16).ok());
        self.etag.ends_with("-1") && ino.is_some_and(|ino| ino.is_multiple_of(6))
    }

    fn settle(&self, file: FileId, said: &mut File, contents: &mut Contents, written: Option<FileId>) {
        said.written = self.written;
        if self.has_another_tag(said) {
            said.etag = None;
        }
        if written != Some(file) {
            contents.settle(file, &self.bytes);
            said.image = 0;
        }
    }
}
