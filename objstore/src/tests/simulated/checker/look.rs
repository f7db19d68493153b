//! Observation of a bucket or snapshot through both handles.

use std::collections::BTreeMap;

use super::{SeenBucket, SeenFile, SeenNode, SeenObject, SeenUpload, SeenVersion};
use crate::branch::Ancestry;
use crate::error::Result;
use crate::meta::Snapshot;
use crate::name::BucketName;
use crate::store::*;
use crate::tests::simulated::model;
use crate::tests::simulated::process::{Process, day_of, half_of};
use crate::tests::test_store::{key, read_file};
use crate::tree::Tree;
use crate::volume::{Kind, Volume, VolumeOptions};

impl SeenBucket {
    pub(super) fn of(process: &Process, bucket: &Bucket) -> Result<Self> {
        let (store, name) = (process.store.clone(), &bucket.name);
        let versioned = bucket.versioning != Versioning::Disabled;
        let settings = store.settings(name)?.settings;
        let volume = store.open_volume(name, VolumeOptions::default())?;
        let mut walk = Walk { volume, known: KnownNames::of(&store, name)?, paths: BTreeMap::new() };
        walk.folder(walk.volume.root(), "")?;
        let retention = settings.object_lock.and_then(|lock| lock.default);
        let usage = store.usage(name)?;
        Ok(Self {
            snapshot: bucket.snapshot,
            quota: bucket.quota_bytes,
            versioning: bucket.versioning,
            locking: settings.object_lock.is_some(),
            retention: retention.map(|default| default.mode() == RetentionMode::Compliance),
            rules: settings.lifecycle.clone(),
            used_bytes: usage.bytes + usage.upload_bytes,
            objects: objects(&store, name)?,
            versions: if versioned { versions(&store, name)? } else { BTreeMap::new() },
            uploads: if bucket.snapshot { BTreeMap::new() } else { uploads(&store, name)? },
            paths: walk.paths,
        })
    }
}

fn all() -> List {
    List { limit: usize::MAX, ..List::default() }
}

fn objects(store: &Store, bucket: &BucketName) -> Result<BTreeMap<String, SeenObject>> {
    let listed = store.list_objects(bucket, &all())?.objects;
    let seen = |listed: Listed| {
        let seen = SeenObject::of(store, bucket, (&listed.key, None), (&listed.etag, listed.size))?;
        Ok((listed.key, seen))
    };
    listed.into_iter().map(seen).collect()
}

fn versions(store: &Store, bucket: &BucketName) -> Result<BTreeMap<String, Vec<SeenVersion>>> {
    let mut versions: BTreeMap<String, Vec<SeenVersion>> = BTreeMap::new();
    let listed = store.list_versions(bucket, &ListVersions { list: all(), after_version: None })?.versions;
    for VersionInfo { object, marker, .. } in listed.into_iter().filter(|listed| !listed.object.key.ends_with('/')) {
        let null = object.version.as_deref() == Some("null");
        let seen = match marker {
            true => None,
            false => {
                let of = (&*object.key, object.version.as_deref());
                Some(SeenObject::of(store, bucket, of, (&object.etag, object.size))?)
            }
        };
        versions.entry(object.key).or_default().push(SeenVersion { null, object: seen });
    }
    Ok(versions)
}

fn uploads(store: &Store, bucket: &BucketName) -> Result<BTreeMap<String, SeenUpload>> {
    let mut uploads = BTreeMap::new();
    for upload in store.uploads(bucket, &all(), None)?.uploads {
        let of = UploadRef { bucket: bucket.clone(), key: key(&upload.key), id: upload.id.clone() };
        let parts = store.parts(&of, 0, 100)?.parts.into_iter().map(|part| (part.number, (part.size, part.etag)));
        uploads.insert(upload.key, SeenUpload { id: upload.id, parts: parts.collect() });
    }
    Ok(uploads)
}

impl SeenObject {
    /// What a listing shows, and what reading it gives.
    fn of(
        store: &Store,
        bucket: &BucketName,
        (of, version): (&str, Option<&str>),
        listed: (&str, u64),
    ) -> Result<Self> {
        let (info, reader) = store.open_object(bucket, &key(of), version)?;
        let bytes = reader.read(0, info.size as usize)?.to_vec();
        assert_eq!((&*info.etag, info.size), listed, "a listing says the same as the object: {of}");
        let note = info.metadata.get("note").cloned();
        let until = info.lock.retention.map(|kept| (half_of(kept.until), kept.mode == RetentionMode::Compliance));
        let lock = model::Lock { held: info.lock.legal_hold, until };
        let written = written(store, bucket, &info)?;
        Ok(Self { bytes, etag: info.etag, note, written, lock })
    }
}

/// The day a version is of, which only its record tells: one that was begun and not written shows an earlier time.
fn written(store: &Store, bucket: &BucketName, info: &ObjectInfo) -> Result<u64> {
    let snapshot = store.core.meta.snapshot();
    let ancestry = store.core.readable(&*snapshot, bucket)?;
    let (_, inode) = Tree { read: &*snapshot, ancestry: &ancestry }.linked_inode(info.ino)?;
    let (written, shown) = (inode.written(), info.modified);
    assert!(shown <= written, "{} was changed at {shown:?}, and counts from {written:?}", info.key);
    Ok(day_of(written))
}

/// All paths below a folder.
struct Walk {
    volume: Volume,
    known: KnownNames,
    paths: BTreeMap<String, SeenNode>,
}

impl Walk {
    fn folder(&mut self, folder: u64, above: &str) -> Result<()> {
        self.known.folders.insert(folder, above.to_owned());
        for entry in self.volume.read_dir(folder)? {
            let path = format!("{above}{}", entry.name);
            let node = match entry.kind {
                Kind::Directory => {
                    self.folder(entry.ino, &format!("{path}/"))?;
                    SeenNode::Folder
                }
                Kind::Symlink => SeenNode::Link(self.volume.read_link(entry.ino)?),
                _ => SeenNode::File(self.file(entry.ino)?),
            };
            self.paths.insert(path, node);
        }
        Ok(())
    }

    fn file(&self, ino: u64) -> Result<SeenFile> {
        let attr = self.volume.attr(ino)?;
        let xattr = match self.volume.xattr(ino, "user.k") {
            Ok(value) => Some(value.to_vec()),
            Err(crate::Error::Posix(crate::Posix::NoData)) => None,
            Err(error) => return Err(error),
        };
        let bytes = read_file(&self.volume, ino);
        let (known, generation) = self.known.of_inode(ino)?;
        Ok(SeenFile { bytes, mode: attr.mode, links: attr.nlink, xattr, generation, known })
    }
}

/// The names that files know themselves by, and their generations, which only their records tell.
struct KnownNames {
    snapshot: Box<dyn Snapshot>,
    ancestry: Ancestry,
    /// Paths of folders, each with what follows it.
    folders: BTreeMap<u64, String>,
}

impl KnownNames {
    fn of(store: &Store, bucket: &BucketName) -> Result<Self> {
        let snapshot = store.core.meta.snapshot();
        let ancestry = store.core.readable(&*snapshot, bucket)?;
        Ok(Self { snapshot, ancestry, folders: BTreeMap::new() })
    }

    fn of_inode(&self, ino: u64) -> Result<(Option<String>, u64)> {
        let tree = Tree { read: &*self.snapshot, ancestry: &self.ancestry };
        let (_, inode) = tree.dirty_inode(ino)?;
        let path = self.folders.get(&inode.parent).map(|above| format!("{above}{}", inode.name));
        Ok((path, inode.generation))
    }
}
