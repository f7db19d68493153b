//! Looking after a folder of backups: listing, verifying and pruning.

use std::collections::HashSet;

use super::chunks::Reader;
use super::create::shown;
use super::folder::Folder;
use super::format::{BlobEntry, Manifest, hex};
use super::{Backup, Progress};
use crate::error::{Error, Result};

/// All backups in a folder, by bucket and time; with those that cannot be read, as errors.
///
/// # Errors
/// Those of the disk.
pub fn list(folder: &Folder) -> Result<Vec<Result<Backup>>> {
    let mut all = Vec::new();
    for bucket in folder.buckets()? {
        for id in folder.ids(&bucket)? {
            all.push(folder.manifest(&bucket, &id).map(|manifest| shown(id, manifest)));
        }
    }
    Ok(all)
}

/// The id of the newest backup of a bucket.
///
/// # Errors
/// [`Error::Unusable`] if there is none.
pub fn newest(folder: &Folder, bucket: &str) -> Result<String> {
    let id = folder.ids(bucket)?.pop();
    id.ok_or_else(|| Error::Unusable { why: format!("there is no backup of bucket \"{bucket}\" in this folder") })
}

/// Compares all that backups name with its checksums; what is wrong, a line each, and the bytes that are not.
///
/// # Errors
/// Those of the disk.
pub fn verify(folder: &Folder, told: &dyn Fn(Progress)) -> Result<(Vec<String>, u64)> {
    let (mut problems, mut sound, mut progress) = (Vec::new(), HashSet::new(), Progress::default());
    for bucket in folder.buckets()? {
        for id in folder.ids(&bucket)? {
            let what = format!("backup {id} of bucket \"{bucket}\"");
            progress.bucket.clone_from(&bucket);
            match folder.manifest(&bucket, &id) {
                Ok(manifest) => verify_one(folder, &manifest, &what, &mut sound, &mut problems, &mut progress, told)?,
                Err(error) => problems.push(format!("{what}: {error}")),
            }
        }
    }
    Ok((problems, progress.done_bytes))
}

fn verify_one(
    folder: &Folder,
    manifest: &Manifest,
    what: &str,
    sound: &mut HashSet<Vec<u8>>,
    problems: &mut Vec<String>,
    progress: &mut Progress,
    told: &dyn Fn(Progress),
) -> Result<()> {
    let hashes = match hashes(folder, manifest) {
        Ok(hashes) => hashes,
        Err(error @ Error::Corrupt { .. }) => {
            problems.push(format!("{what}: {error}"));
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    for hash in hashes {
        if sound.contains(&hash) {
            continue;
        }
        match folder.chunk(&hash) {
            Ok(bytes) => {
                progress.done_bytes += bytes.len() as u64;
                told(progress.clone());
                sound.insert(hash);
            }
            Err(error @ Error::Corrupt { .. }) => problems.push(format!("{what}: {error}")),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// All chunks a backup names.
fn hashes(folder: &Folder, manifest: &Manifest) -> Result<HashSet<Vec<u8>>> {
    let named = manifest.records.iter().chain(&manifest.blobs).map(|chunk| chunk.hash.clone());
    let mut hashes: HashSet<Vec<u8>> = named.collect();
    let mut blobs = Reader::new(folder, &manifest.blobs);
    while let Some(entry) = blobs.next::<BlobEntry>()? {
        hashes.extend(entry.pieces.into_iter().map(|piece| piece.hash).filter(|hash| !hash.is_empty()));
    }
    Ok(hashes)
}

/// What a pruning removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Backups.
    pub backups: u64,
    /// Files that no backup needs any more.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Removes all but the newest `keep` backups of each bucket, and what no backup needs.
///
/// # Errors
/// [`Error::Corrupt`] if a backup that stays cannot be read: what it needs is not known, so nothing is removed.
pub fn prune(folder: &Folder, keep: usize) -> Result<Pruned> {
    let (mut needed, mut old) = (HashSet::new(), Vec::new());
    for bucket in folder.buckets()? {
        let mut ids = folder.ids(&bucket)?;
        let stay = ids.split_off(ids.len().saturating_sub(keep.max(1)));
        for id in stay {
            needed.extend(hashes(folder, &folder.manifest(&bucket, &id)?)?.iter().map(|hash| hex(hash)));
        }
        old.extend(ids.into_iter().map(|id| (bucket.clone(), id)));
    }
    let mut pruned = Pruned::default();
    // A backup goes before what it needs.
    for (bucket, id) in old {
        folder.remove_manifest(&bucket, &id)?;
        pruned.backups += 1;
    }
    let (chunks, others) = folder.chunks()?;
    for name in chunks.iter().filter(|name| !needed.contains(*name)) {
        pruned.bytes += folder.remove_chunk(name)?;
        pruned.files += 1;
    }
    for path in others {
        folder.remove(&path)?;
        pruned.files += 1;
    }
    Ok(pruned)
}
