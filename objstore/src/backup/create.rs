//! Backing up a bucket.

use std::sync::Arc;

use prost::Message;

use super::blobs::Blobs;
use super::folder::Folder;
use super::format::{FORMAT, Grant, Manifest};
use super::{Backup, Progress, Told, records};
use crate::clock::Timestamp;
use crate::core::Core;
use crate::error::{Error, Noun, Result};
use crate::meta::Read;
use crate::name::BucketName;
use crate::record::account::Grant as GrantRecord;
use crate::record::bucket::{Family, Snapshot};
use crate::record::decode;
use crate::record::key::{self, tag};
use crate::store::Store;

/// Backs up a bucket as it is now.
///
/// The snapshot that is taken for it stays until the next backup into the same folder, which compares with it.
///
/// # Errors
/// [`Error::NotFound`] if there is no such bucket; those of the disk. Content that is damaged is no error:
/// [`Backup::damaged`] tells of it.
pub async fn create(store: &Store, bucket: &BucketName, folder: &Arc<Folder>, told: &Told) -> Result<Backup> {
    let id = store.bucket(bucket)?.id;
    let prefix = format!("backup-{}-{id:x}-", folder.chain);
    let (shared, name) = (folder.clone(), bucket.to_string());
    let base = blocking(store, move |core| base(core, &shared, &name)).await?;
    let kept = base.as_ref().map(|base| base.snapshot_name.clone());
    // What a backup left that was killed.
    forget(store, &prefix, kept.as_deref()).await?;
    let name: BucketName = format!("{prefix}{:x}", store.core.clock.now().millis()).parse()?;
    store.create_snapshot(bucket, &name).await?;
    let (shared, told, bucket, snapshot) = (folder.clone(), told.clone(), bucket.clone(), name.to_string());
    let done = blocking(store, move |core| write(core, &shared, &told, &bucket, snapshot, base.as_ref())).await;
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

/// Deletes the snapshots made for backups of a bucket into a folder, but for one.
async fn forget(store: &Store, prefix: &str, kept: Option<&str>) -> Result<()> {
    for snapshot in store.snapshots(None, Some(prefix), usize::MAX)? {
        if snapshot.name.starts_with(prefix) && Some(snapshot.name.as_str()) != kept {
            store.delete_snapshot(&snapshot.name).await?;
        }
    }
    Ok(())
}

/// The last backup of a bucket, if its snapshot is still there: what that shows has not changed.
fn base(core: &Core, folder: &Folder, bucket: &str) -> Result<Option<Manifest>> {
    let Some(id) = folder.ids(bucket)?.pop() else { return Ok(None) };
    let manifest = match folder.manifest(bucket, &id) {
        Ok(manifest) => manifest,
        Err(error) => {
            tracing::warn!(%error, "the last backup cannot be read: everything is backed up anew");
            return Ok(None);
        }
    };
    let there = core.meta.snapshot().get(&key::by_name(tag::SNAPSHOT, &manifest.snapshot_name))?;
    Ok(there.is_some_and(|there| *there == *manifest.snapshot).then_some(manifest))
}

fn write(
    core: &Core,
    folder: &Folder,
    told: &Told,
    bucket: &BucketName,
    snapshot_name: String,
    base: Option<&Manifest>,
) -> Result<Backup> {
    let mut manifest = describe(core, bucket, snapshot_name)?;
    let snapshot: Snapshot = decode("a snapshot", &manifest.snapshot)?;
    let line = core.lines.line(&*core.meta.snapshot(), snapshot.family, snapshot.branch)?;
    let records = records::write(core, &line, folder)?;
    let progress = Progress {
        bucket: bucket.to_string(),
        total_bytes: records.blobs.values().sum(),
        sent_bytes: records.sent_bytes,
        ..Progress::default()
    };
    told(progress.clone())?;
    let blobs = Blobs::new(core, folder, told, progress).write(&records.blobs, base)?;
    (manifest.records, manifest.blobs) = (records.chunks, blobs.chunks);
    (manifest.objects, manifest.bytes) = (records.objects, records.bytes);
    (manifest.content_bytes, manifest.sent_bytes) = (blobs.content_bytes, blobs.sent_bytes);
    manifest.damaged = blobs.damaged;
    let id = id_of(Timestamp(manifest.created));
    folder.put_manifest(&id, &manifest)?;
    Ok(shown(id, manifest))
}

/// All of the bucket but its tree.
fn describe(core: &Core, bucket: &BucketName, snapshot_name: String) -> Result<Manifest> {
    let read = core.meta.snapshot();
    let missing = |noun, name: &str| Error::not_found(noun, name);
    let record = core.bucket_record(&*read, bucket)?.ok_or_else(|| missing(Noun::Bucket, bucket.as_str()))?;
    let snapshot = read.get(&key::by_name(tag::SNAPSHOT, &snapshot_name))?;
    let snapshot = snapshot.ok_or_else(|| missing(Noun::Snapshot, &snapshot_name))?;
    let family = read.get(&key::by_id(tag::FAMILY, record.family))?;
    let family: Family = family.map_or(Ok(Family::default()), |value| decode("a family", &value))?;
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
        settings: settings.map(|value| value.to_vec()).unwrap_or_default(),
        owner: account_name(&*read, record.owner)?,
        grants,
        created: decode::<Snapshot>("a snapshot", &snapshot)?.created,
        snapshot: snapshot.to_vec(),
        snapshot_name,
        next_ino: family.next_ino,
        next_version: family.next_version,
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

/// The time of a backup as its id, which sorts by it: `20261121T223523.123Z`.
fn id_of(at: Timestamp) -> String {
    let (secs, nanos) = at.parts();
    let (days, second) = (secs.div_euclid(86_400), secs.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}.{:03}Z", nanos / 1_000_000)
}

/// The date of a day since 1970, in the Gregorian calendar: counted in eras of 400 years that begin in March.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_dates() {
        for (secs, id) in [
            (0, "19700101T000000.000Z"),
            (951_782_400, "20000229T000000.000Z"),
            (1_795_300_523, "20261121T233523.000Z"),
            (4_107_542_399, "21000228T235959.000Z"),
        ] {
            let found = id_of(Timestamp::from_parts(secs, 0));
            assert_eq!(found.len(), id.len());
            assert_eq!(found[..8], id[..8], "{secs}");
        }
        assert_eq!(id_of(Timestamp(1_500_000)), "19700101T000000.001Z");
    }
}
