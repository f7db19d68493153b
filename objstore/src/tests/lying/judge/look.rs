//! Looking at a bucket or snapshot, through both handles.

use std::collections::BTreeMap;

use super::{SeenBucket, SeenNode, SeenObject, SeenUpload};
use crate::error::Result;
use crate::name::BucketName;
use crate::store::*;
use crate::tests::lying::model;
use crate::tests::lying::process::{Process, day_of};
use crate::tests::rig::{key, read_file};
use crate::volume::{Kind, Volume, VolumeOptions};

impl SeenBucket {
    pub(super) fn of(process: &Process, bucket: &Bucket) -> Result<Self> {
        let (store, name) = (process.store.clone(), &bucket.name);
        let versioned = bucket.versioning == Versioning::Enabled;
        let settings = store.settings(name)?.settings;
        let (volume, mut paths) = (store.open_volume(name, VolumeOptions::default())?, BTreeMap::new());
        walk(&volume, volume.root(), "", &mut paths)?;
        let usage = store.usage(name)?;
        Ok(Self {
            snapshot: bucket.snapshot,
            quota: bucket.quota_bytes,
            versioned,
            locking: settings.object_lock.is_some(),
            ruled: !settings.lifecycle.is_empty(),
            used_bytes: usage.bytes + usage.upload_bytes,
            objects: objects(&store, name)?,
            versions: if versioned { versions(&store, name)? } else { BTreeMap::new() },
            uploads: if bucket.snapshot { BTreeMap::new() } else { uploads(&store, name)? },
            paths,
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

fn versions(store: &Store, bucket: &BucketName) -> Result<BTreeMap<String, Vec<Option<SeenObject>>>> {
    let mut versions: BTreeMap<String, Vec<Option<SeenObject>>> = BTreeMap::new();
    let listed = store.list_versions(bucket, &ListVersions { list: all(), after_version: None })?.versions;
    for VersionInfo { object, marker, .. } in listed.into_iter().filter(|listed| !listed.object.key.ends_with('/')) {
        let seen = match marker {
            true => None,
            false => {
                let of = (&*object.key, object.version.as_deref());
                Some(SeenObject::of(store, bucket, of, (&object.etag, object.size))?)
            }
        };
        versions.entry(object.key).or_default().push(seen);
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
        let until = info.lock.retention.map(|kept| (day_of(kept.until), kept.mode == RetentionMode::Compliance));
        let lock = model::Lock { held: info.lock.legal_hold, until };
        Ok(Self { bytes, etag: info.etag, note, written: day_of(info.modified), lock })
    }
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
                SeenNode::File { bytes, mode: attr.mode, links: attr.nlink, xattr, generation: attr.generation }
            }
        };
        paths.insert(path, node);
    }
    Ok(())
}
