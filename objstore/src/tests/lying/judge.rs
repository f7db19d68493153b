//! All that can be seen of a store, through both handles, compared with what the model says may be there.

use std::collections::BTreeMap;

use super::content::{Contents, End, FileId};
use super::model::{Bucket, Node, State};
use super::process::Process;
use crate::error::Result;
use crate::store::*;
use crate::tests::rig::{key, name, read_file};
use crate::volume::{Kind, Volume};

/// What is seen of a store.
#[derive(Default)]
pub(super) struct Seen {
    buckets: BTreeMap<String, SeenBucket>,
    accounts: BTreeMap<String, usize>,
    grants: BTreeMap<(String, String), Mode>,
}

struct SeenBucket {
    snapshot: bool,
    quota: Option<u64>,
    versioned: bool,
    objects: BTreeMap<String, SeenObject>,
    /// Of each key, newest first; `None` is a delete marker.
    versions: BTreeMap<String, Vec<Option<Vec<u8>>>>,
    uploads: BTreeMap<String, (String, BTreeMap<u32, u64>)>,
    paths: BTreeMap<String, SeenNode>,
}

struct SeenObject {
    bytes: Vec<u8>,
    etag: String,
    note: Option<String>,
}

enum SeenNode {
    File { bytes: Vec<u8>, mode: u32, links: u32, xattr: Option<Vec<u8>> },
    Folder,
    Link(String),
}

impl Seen {
    /// Looks at everything. An error is a failure of the store: nothing here may be damaged.
    pub(super) fn of(process: &mut Process) -> Result<Self> {
        let mut seen = Self::default();
        let store = process.store.clone();
        for bucket in store.buckets(None, usize::MAX)? {
            let of = SeenBucket::of(process, &bucket.name, bucket.quota_bytes, bucket.versioning, false)?;
            seen.buckets.insert(bucket.name.to_string(), of);
        }
        for snapshot in store.snapshots(None, None, usize::MAX)? {
            let shown = store.bucket(&name(&snapshot.name))?;
            let of = SeenBucket::of(process, &shown.name, None, shown.versioning, true)?;
            seen.buckets.insert(snapshot.name, of);
        }
        store.root_key()?;
        for account in store.accounts()?.into_iter().filter(|account| !account.root) {
            let keys = store.keys(Some(&account.name))?;
            for held in &keys {
                // Its seal opens.
                store.identify(&held.id)?;
            }
            seen.accounts.insert(account.name, keys.len());
        }
        for grant in store.grants(None, None)? {
            seen.grants.insert((grant.bucket.to_string(), grant.account), grant.mode);
        }
        Ok(seen)
    }

    /// What of this `state` does not allow.
    pub(super) fn fault(&self, state: &State, contents: &Contents, end: End) -> Option<String> {
        if !self.buckets.keys().eq(state.buckets.keys()) {
            let (seen, said) = (self.buckets.keys(), state.buckets.keys());
            return Some(format!("there are the buckets {seen:?}, not {said:?}"));
        }
        if self.accounts != state.accounts || self.grants != state.grants {
            return Some(format!("accounts {:?} and grants {:?}", self.accounts, self.grants));
        }
        self.buckets.iter().find_map(|(name, seen)| {
            let fault = seen.fault(&state.buckets[name], contents, end)?;
            Some(format!("{name}: {fault}"))
        })
    }

    /// Lets a state that was found say what was found.
    pub(super) fn settle(&self, state: &mut State, contents: &mut Contents) {
        for (name, bucket) in &mut state.buckets {
            let seen = &self.buckets[name];
            for (path, node) in &bucket.names {
                if let (Node::File(file), Some(SeenNode::File { bytes, .. })) = (node, seen.paths.get(path)) {
                    contents.settle(*file, bytes);
                }
            }
            for (key, versions) in &bucket.versions {
                let found = seen.versions[key].iter().rev();
                for (file, bytes) in versions.iter().zip(found).filter_map(|(file, bytes)| file.zip(bytes.as_ref())) {
                    contents.settle(file, bytes);
                }
            }
            bucket.files.values_mut().for_each(|file| file.image = 0);
            for (key, upload) in &mut bucket.uploads {
                upload.id = Some(seen.uploads[key].0.clone());
            }
        }
    }
}

impl SeenBucket {
    fn of(
        process: &mut Process,
        bucket: &crate::name::BucketName,
        quota: Option<u64>,
        versioning: Versioning,
        snapshot: bool,
    ) -> Result<Self> {
        let store = process.store.clone();
        let versioned = versioning == Versioning::Enabled;
        let all = List { limit: usize::MAX, ..List::default() };
        let mut objects = BTreeMap::new();
        for listed in store.list_objects(bucket, &all)?.objects {
            objects.insert(listed.key.clone(), SeenObject::of(&store, bucket, &listed)?);
        }
        let mut versions: BTreeMap<String, Vec<Option<Vec<u8>>>> = BTreeMap::new();
        if versioned {
            let all = ListVersions { list: all.clone(), after_version: None };
            for listed in
                store.list_versions(bucket, &all)?.versions.into_iter().filter(|v| !v.object.key.ends_with('/'))
            {
                let bytes = match listed.marker {
                    true => None,
                    false => Some(read(&store, bucket, &listed.object.key, listed.object.version.as_deref())?.1),
                };
                versions.entry(listed.object.key).or_default().push(bytes);
            }
        }
        let mut uploads = BTreeMap::new();
        for upload in if snapshot { Vec::new() } else { store.uploads(bucket, &all, None)?.uploads } {
            let of = UploadRef { bucket: bucket.clone(), key: key(&upload.key), id: upload.id.clone() };
            let parts = store.parts(&of, 0, 100)?.parts.into_iter().map(|part| (part.number, part.size)).collect();
            uploads.insert(upload.key, (upload.id, parts));
        }
        let (volume, mut paths) = (process.volume(bucket.as_str())?, BTreeMap::new());
        walk(&volume, volume.root(), "", &mut paths)?;
        Ok(Self { snapshot, quota, versioned, objects, versions, uploads, paths })
    }

    fn fault(&self, said: &Bucket, contents: &Contents, end: End) -> Option<String> {
        let about = (self.snapshot, self.quota, self.versioned);
        if about != (said.snapshot, said.quota, said.versioned) {
            return Some(format!("snapshot, quota, versions: {about:?}"));
        }
        let expected = said.names.keys();
        if !self.paths.keys().eq(expected.clone()) {
            return Some(format!("a mount shows {:?}, not {expected:?}", self.paths.keys()));
        }
        let keys = said.names.iter().filter_map(|(path, node)| match node {
            Node::File(_) => Some(path.clone()),
            Node::Folder => Some(format!("{path}/")),
            Node::Link(_) => None,
        });
        let keys: std::collections::BTreeSet<String> = keys.collect();
        if !self.objects.keys().eq(&keys) {
            return Some(format!("S3 lists {:?}, not {keys:?}", self.objects.keys()));
        }
        let node = said.names.iter().find_map(|(path, node)| {
            let fault = self.node_fault(path, node, said, contents, end)?;
            Some(format!("{path}: {fault}"))
        });
        node.or_else(|| self.versions_fault(said, contents, end)).or_else(|| self.uploads_fault(said, contents))
    }

    fn node_fault(&self, path: &str, node: &Node, said: &Bucket, contents: &Contents, end: End) -> Option<String> {
        match (node, &self.paths[path]) {
            (Node::Folder, SeenNode::Folder) => None,
            (Node::Link(target), SeenNode::Link(found)) if target == found => None,
            (Node::File(file), SeenNode::File { bytes, mode, links, xattr }) => {
                let (held, object) = (&said.files[file], &self.objects[path]);
                if object.bytes != *bytes {
                    return Some(format!("S3 reads {} bytes, a mount other {}", object.bytes.len(), bytes.len()));
                }
                let other_tag = held.etag.as_ref().is_some_and(|etag| *etag != object.etag);
                if other_tag || held.note != object.note {
                    return Some(format!(
                        "its tag is {}, its note {:?}, not {:?}",
                        object.etag, object.note, held.note
                    ));
                }
                let other_mode = held.mode.is_some_and(|said| said != *mode & 0o7777);
                if other_mode || said.links(*file) != *links as usize || *xattr != held.xattr {
                    return Some(format!("mode {mode:o}, {links} links, attribute {xattr:?}, not {:?}", held.mode));
                }
                contents.fault(*file, held.image, end, bytes)
            }
            _ => Some(format!("it is not a {node:?}")),
        }
    }

    fn versions_fault(&self, said: &Bucket, contents: &Contents, end: End) -> Option<String> {
        let mut expected: BTreeMap<&String, Vec<Option<FileId>>> =
            said.versions.iter().map(|(key, held)| (key, held.iter().rev().copied().collect())).collect();
        for (key, node) in said.names.iter().filter(|_| said.versioned) {
            if let Node::File(file) = node {
                expected.entry(key).or_default().insert(0, Some(*file));
            }
        }
        if !self.versions.keys().eq(expected.keys().copied()) {
            return Some(format!("there are versions of {:?}, not {:?}", self.versions.keys(), expected.keys()));
        }
        expected.into_iter().find_map(|(key, files)| {
            let found = &self.versions[key];
            let same = files.iter().map(Option::is_some).eq(found.iter().map(Option::is_some));
            if !same {
                return Some(format!("{key}: {} versions, not {files:?}", found.len()));
            }
            let pairs = files.into_iter().zip(found).filter_map(|(file, bytes)| file.zip(bytes.as_ref()));
            let fault = pairs
                .into_iter()
                .find_map(|(file, bytes)| contents.fault(file, said.files[&file].image, end, bytes))?;
            Some(format!("a version of {key}: {fault}"))
        })
    }

    fn uploads_fault(&self, said: &Bucket, contents: &Contents) -> Option<String> {
        if !self.uploads.keys().eq(said.uploads.keys()) {
            return Some(format!("uploads of {:?}, not {:?}", self.uploads.keys(), said.uploads.keys()));
        }
        said.uploads.iter().find_map(|(key, upload)| {
            let (id, parts) = &self.uploads[key];
            let expected: BTreeMap<u32, u64> =
                upload.parts.iter().map(|(number, file)| (*number, contents.latest(*file).len() as u64)).collect();
            let other = upload.id.as_ref().is_some_and(|known| known != id);
            (other || *parts != expected).then(|| format!("the upload of {key} has {parts:?}, not {expected:?}"))
        })
    }
}

impl SeenObject {
    fn of(store: &Store, bucket: &crate::name::BucketName, listed: &Listed) -> Result<Self> {
        let (info, bytes) = read(store, bucket, &listed.key, None)?;
        assert_eq!((info.size, &info.etag), (listed.size, &listed.etag), "a listing says the same as the object");
        let note = info.metadata.get("note").cloned();
        Ok(Self { bytes, etag: info.etag, note })
    }
}

fn read(
    store: &Store,
    bucket: &crate::name::BucketName,
    of: &str,
    version: Option<&str>,
) -> Result<(ObjectInfo, Vec<u8>)> {
    let (info, reader) = store.open_object(bucket, &key(of), version)?;
    let bytes = reader.read(0, info.size as usize)?.to_vec();
    Ok((info, bytes))
}

fn walk(volume: &Volume, folder: u64, above: &str, paths: &mut BTreeMap<String, SeenNode>) -> Result<()> {
    for entry in volume.read_dir(folder)? {
        let path = format!("{above}{}", entry.name);
        let node = match entry.kind {
            Kind::Directory => {
                walk(volume, entry.ino, &format!("{path}/"), paths)?;
                SeenNode::Folder
            }
            Kind::Symlink => SeenNode::Link(volume.read_link(entry.ino)?),
            _ => {
                let attr = volume.attr(entry.ino)?;
                let xattr = match volume.xattr(entry.ino, "user.k") {
                    Ok(value) => Some(value.to_vec()),
                    Err(crate::Error::Posix(crate::Posix::NoData)) => None,
                    Err(error) => return Err(error),
                };
                let bytes = read_file(volume, entry.ino);
                SeenNode::File { bytes, mode: attr.mode, links: attr.nlink, xattr }
            }
        };
        paths.insert(path, node);
    }
    Ok(())
}
