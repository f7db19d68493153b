//! Creating a backup of a bucket.

use std::collections::BTreeSet;
use std::sync::Arc;

use prost::Message;

use super::blobs::Blobs;
use super::folder::Folder;
use super::format::{FORMAT, FORMAT_WITH_LISTS, Grant, Manifest};
use super::{Backup, Progress, ProgressSink, moment, records};
use crate::clock::Timestamp;
use crate::core::Core;
use crate::error::{Error, Noun, Result};
use crate::meta::Read;
use crate::name::BucketName;
use crate::record::account::Grant as GrantRecord;
use crate::record::bucket::{CloneGroup, Snapshot};
use crate::record::decode;
use crate::record::key::{self, tag};
use crate::store::Store;

/// Backs up a bucket in its current state.
///
/// The snapshot that is taken for it stays until the next backup into the same folder, which compares with it.
///
/// # Errors
/// [`Error::NotFound`] if the bucket does not exist; errors of the disk. Damaged content is no error:
/// [`Backup::damaged`] lists it.
pub async fn create(store: &Store, bucket: &BucketName, folder: &Arc<Folder>, told: &ProgressSink) -> Result<Backup> {
    let id = store.bucket(bucket)?.id;
    let prefix = format!("backup-{}-{id:x}-", folder.chain);
    let (shared, name) = (folder.clone(), bucket.to_string());
    let (base, last) = blocking(store, move |core| base(core, &shared, &name)).await?;
    let kept = base.as_ref().map(|base| base.snapshot_name.clone());
    // Snapshots left by an interrupted backup.
    forget(store, &prefix, kept.as_deref()).await?;
    let at = moment::after(last.as_deref(), store.core.clock.now());
    let name: BucketName = format!("{prefix}{:x}", at.millis()).parse()?;
    store.create_snapshot(bucket, &name).await?;
    let (shared, told, bucket) = (folder.clone(), told.clone(), bucket.clone());
    let made = (moment::id_of(at), name.to_string());
    let done = blocking(store, move |core| write(core, &shared, &told, &bucket, made, base.as_ref())).await;
    match done {
        Ok(done) => {
            forget(store, &prefix, Some(name.as_str())).await?;
            Ok(done)
        }
        Err(error) => {
            forget(store, &prefix, kept.as_deref()).await?;
            Err(error)
        }
    }
}

async fn blocking<T: Send + 'static>(
    store: &Store,
    work: impl FnOnce(&Core) -> Result<T> + Send + 'static,
) -> Result<T> {
    let core = store.core.clone();
    let done = tokio::task::spawn_blocking(move || work(&core)).await;
    done.unwrap_or_else(|error| Err(Error::Engine { why: format!("a backup stopped: {error}") }))
}

/// Deletes the snapshots made for backups of a bucket into a folder, except one.
async fn forget(store: &Store, prefix: &str, kept: Option<&str>) -> Result<()> {
    for snapshot in store.snapshots(None, Some(prefix), usize::MAX)? {
        if snapshot.name.starts_with(prefix) && Some(snapshot.name.as_str()) != kept {
            store.delete_snapshot(&snapshot.name).await?;
        }
    }
    Ok(())
}

/// The last backup of a bucket with its id, if its snapshot still exists: its content has not changed.
fn base(core: &Core, folder: &Folder, bucket: &str) -> Result<(Option<Manifest>, Option<String>)> {
    let Some(id) = folder.ids(bucket)?.pop() else { return Ok((None, None)) };
    let manifest = match folder.manifest(bucket, &id) {
        Ok(manifest) => manifest,
        Err(error) => {
            tracing::warn!(%error, "cannot read the previous backup; a full backup is made");
            return Ok((None, Some(id)));
        }
    };
    let there = core.meta.snapshot().get(&key::by_name(tag::SNAPSHOT, &manifest.snapshot_name))?;
    Ok((there.is_some_and(|there| *there == *manifest.snapshot).then_some(manifest), Some(id)))
}

fn write(
    core: &Core,
    folder: &Folder,
    told: &ProgressSink,
    bucket: &BucketName,
    (id, snapshot_name): (String, String),
    base: Option<&Manifest>,
) -> Result<Backup> {
    let mut manifest = describe(core, bucket, snapshot_name)?;
    let snapshot: Snapshot = decode("a snapshot", &manifest.snapshot)?;
    let ancestry = core.lines.ancestry(&*core.meta.snapshot(), snapshot.clone_group, snapshot.branch)?;
    let records = records::write(core, &ancestry, folder)?;
    let progress = Progress {
        bucket: bucket.to_string(),
        total_bytes: records.blobs.values().sum(),
        sent_bytes: records.sent_bytes,
        ..Progress::default()
    };
    told(progress.clone())?;
    let blobs = Blobs::new(core, folder, told, progress).write(&records.blobs, base)?;
    (manifest.records, manifest.blobs) = (records.chunks, blobs.chunks);
    (manifest.objects, manifest.bytes) = (records.files.count, records.files.bytes);
    (manifest.content_bytes, manifest.sent_bytes) = (blobs.content_bytes, blobs.sent_bytes);
    manifest.damaged = blobs.damaged;
    list_accounts(core, &mut manifest, &records.accounts)?;
    folder.put_manifest(&id, &manifest)?;
    Ok(shown(id, manifest))
}

/// Stores the names of the accounts in access control lists: `of_objects`, and those of the bucket's own list.
fn list_accounts(core: &Core, manifest: &mut Manifest, of_objects: &BTreeSet<u64>) -> Result<()> {
    let read = core.meta.snapshot();
    let ids = of_objects | &super::settings::in_list(&manifest.settings)?;
    if !ids.is_empty() {
        manifest.format = FORMAT_WITH_LISTS;
    }
    for id in ids {
        if let Some(name) = read.get(&key::by_id(tag::ACCOUNT_ID, id))? {
            manifest.listed_accounts.insert(id, String::from_utf8_lossy(&name).into_owned());
        }
    }
    Ok(())
}

/// Everything about the bucket except its tree.
fn describe(core: &Core, bucket: &BucketName, snapshot_name: String) -> Result<Manifest> {
    let read = core.meta.snapshot();
    let missing = |noun, name: &str| Error::not_found(noun, name);
    let record = core.bucket_record(&*read, bucket)?.ok_or_else(|| missing(Noun::Bucket, bucket.as_str()))?;
    let snapshot = read.get(&key::by_name(tag::SNAPSHOT, &snapshot_name))?;
    let snapshot = snapshot.ok_or_else(|| missing(Noun::Snapshot, &snapshot_name))?;
    let clone_group = read.get(&key::by_id(tag::CLONE_GROUP, record.clone_group))?;
    let clone_group: CloneGroup =
        clone_group.map_or(Ok(CloneGroup::default()), |value| decode("a clone group", &value))?;
    let settings = read.get(&key::by_id(tag::SETTINGS, record.id))?;
    let mut grants = Vec::new();
    for pair in crate::store::all(&*read, &key::by_id(tag::GRANT, record.id))? {
        let grant: GrantRecord = decode("a grant", &pair.value)?;
        let account = account_name(&*read, key::u64_at(&pair.key, 9).unwrap_or_default())?;
        grants.push(Grant { account, mode: grant.mode });
    }
    Ok(Manifest {
        format: FORMAT,
        bucket: bucket.to_string(),
        record: record.encode_to_vec(),
        settings: settings.map_or_else(|| Ok(Vec::new()), |value| super::settings::kept(&*read, &value))?,
        owner: account_name(&*read, record.owner)?,
        grants,
        created: decode::<Snapshot>("a snapshot", &snapshot)?.created,
        snapshot: snapshot.to_vec(),
        snapshot_name,
        next_ino: clone_group.next_ino,
        next_version: clone_group.next_version,
        ..Manifest::default()
    })
}

fn account_name(read: &dyn Read, id: u64) -> Result<String> {
    let name = read.get(&key::by_id(tag::ACCOUNT_ID, id))?;
    let name = name.ok_or_else(|| Error::corrupt(format!("account {id}"), "a name", "none"))?;
    Ok(String::from_utf8_lossy(&name).into_owned())
}

pub(super) fn shown(id: String, manifest: Manifest) -> Backup {
    let Manifest { bucket, created, objects, bytes, sent_bytes, damaged, .. } = manifest;
    Backup { id, bucket, created: Timestamp(created), objects, bytes, sent_bytes, damaged }
}
