//! The body of a fuzz target (`fuzz/`): restores backup repositories made of arbitrary bytes.
//!
//! - Checksums and file names are corrected first, so that the code behind them is reached.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prost::Message;
use tokio::runtime::Runtime;

use super::chunks::Writer;
use super::folder::Folder;
use super::format::{BlobEntry, Entry, FORMAT, Manifest};
use super::records::Files;
use super::{Progress, ProgressSink, create, list, restore, verify};
use crate::error::Result;
use crate::name::BucketName;
use crate::store::{Deletion, List, ListVersions, Options, Store};
use crate::volume::{ROOT_INO, Volume, VolumeOptions};

/// Bytes read of each file.
const READ: usize = 64 << 10;

/// The content of a repository.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Given {
    #[prost(message, optional, tag = "1")]
    pub manifest: Option<Manifest>,
    #[prost(message, repeated, tag = "2")]
    pub blobs: Vec<BlobEntry>,
    #[prost(message, repeated, tag = "3")]
    pub records: Vec<Entry>,
    /// The single chunk of content, in which each piece with a hash lies.
    #[prost(bytes = "vec", tag = "4")]
    pub content: Vec<u8>,
}

/// A store into which arbitrary backups are restored.
pub struct Restoring {
    store: Store,
    runtime: Runtime,
    dir: tempfile::TempDir,
    /// Number of restored buckets; object lock may keep one from being deleted.
    made: AtomicU64,
}

impl Restoring {
    /// Creates an empty store.
    ///
    /// # Panics
    /// If it cannot be created.
    #[must_use]
    pub fn start() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let store = crate::open(Options::new(dir.path().join("store"))).expect("a store");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        Self { store, runtime, dir, made: AtomicU64::new(0) }
    }

    /// Restores the repository described by the bytes, and uses the result.
    ///
    /// # Panics
    /// If anything panicked.
    pub fn restore(&self, bytes: &[u8]) {
        let _ = Manifest::from_bytes("a manifest", bytes);
        let Ok(given) = Given::decode(bytes) else { return };
        let at = self.dir.path().join("folder");
        let _ = fs::remove_dir_all(&at);
        let folder = Arc::new(Folder::for_writing(&at).expect("a folder to write to"));
        fill(&folder, &at, counted(given)).expect("a folder with a backup");
        let _ = (list(&folder), verify(&folder, &|_| {}));
        let quiet: ProgressSink = Arc::new(|_: Progress| Ok(()));
        let made = self.made.fetch_add(1, Ordering::Relaxed);
        let name: BucketName = format!("again-{made}").parse().expect("a name");
        let restored = self.runtime.block_on(restore(&self.store, &folder, ("jar", "id"), &name, &quiet));
        if restored.is_ok() {
            let _ = self.look(&name);
            let _ = self.volume(&name);
            let _ = self.runtime.block_on(create(&self.store, &name, &folder, &quiet));
            let _ = crate::check::records_of(&self.store.core);
            for snapshot in self.store.snapshots(None, None, usize::MAX).expect("snapshots") {
                self.runtime.block_on(self.store.delete_snapshot(&snapshot.name)).expect("it goes");
            }
            let _ = self.runtime.block_on(self.store.delete_bucket(&name, Deletion::Force));
        }
    }

    /// Reads the bucket through S3's handle.
    fn look(&self, bucket: &BucketName) -> Result<()> {
        let all = List { limit: 100, ..List::default() };
        let _ = self.store.list_versions(bucket, &ListVersions { list: all.clone(), ..ListVersions::default() });
        for listed in self.store.list_objects(bucket, &all)?.objects {
            let Ok((info, reader)) = self.store.open_object(bucket, &listed.key.parse()?, None) else { continue };
            let _ = (reader.read(0, READ), reader.read(info.size / 2, READ));
        }
        Ok(())
    }

    /// Reads the bucket through a mount's handle.
    fn volume(&self, bucket: &BucketName) -> Result<()> {
        let volume: Volume = self.store.open_volume(bucket, VolumeOptions::default())?;
        for entry in volume.read_dir(ROOT_INO)? {
            let Ok(found) = volume.lookup(ROOT_INO, &entry.name) else { continue };
            let _ = (volume.read(found.ino, 0, READ), volume.seek(found.ino, 0, false), volume.read_link(found.ino));
            let _ = (volume.xattrs(found.ino), volume.read_dir(found.ino), volume.write(found.ino, 3, b"new", false));
            volume.forget(found.ino, 1);
        }
        Ok(())
    }
}

/// Corrects the manifest's bucket name and counts to match its records.
fn counted(mut given: Given) -> Given {
    let mut files = Files::default();
    for Entry { kind, value, .. } in &given.records {
        let _ = files.add(u8::try_from(*kind).unwrap_or_default(), value);
    }
    let manifest = given.manifest.get_or_insert_default();
    manifest.bucket = "jar".into();
    (manifest.objects, manifest.bytes) = (files.count, files.bytes);
    given
}

/// Writes the chunks, and the manifest that names them.
pub(super) fn fill(folder: &Folder, at: &std::path::Path, given: Given) -> Result<()> {
    let Given { manifest, blobs, records, content } = given;
    let mut manifest = manifest.unwrap_or_default();
    manifest.format = FORMAT;
    let (hash, _) = folder.put_chunk(&content)?;
    let mut writer = Writer::default();
    for mut blob in blobs {
        blob.pieces.iter_mut().filter(|piece| !piece.hash.is_empty()).for_each(|piece| piece.hash.clone_from(&hash));
        writer.add(folder, &blob, &[])?;
    }
    manifest.blobs.extend(writer.finish(folder)?.0);
    let mut writer = Writer::default();
    for record in records {
        writer.add(folder, &record, &[])?;
    }
    manifest.records.extend(writer.finish(folder)?.0);
    let backups = at.join("backups/jar");
    fs::create_dir_all(&backups).expect("a folder");
    fs::write(backups.join("id.manifest"), manifest.to_bytes()).expect("a manifest");
    Ok(())
}
