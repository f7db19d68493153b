//! Maintenance of a backup repository: listing, verifying and pruning.

use std::collections::HashSet;

use super::chunks::Reader;
use super::create::shown;
use super::folder::Folder;
use super::format::{BlobEntry, Manifest, hex};
use super::{Backup, Progress};
use crate::error::{Error, Result};

/// All backups in a repository, by bucket and time; unreadable ones as errors.
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

/// The most problems that a verification reports.
const PROBLEMS_MAX: usize = 1000;

/// Verifies all content of the backups by its checksums. Returns the problems, one line each, and the number of intact
/// bytes.
///
/// # Errors
/// Those of the disk.
pub fn verify(folder: &Folder, told: &dyn Fn(Progress)) -> Result<(Vec<String>, u64)> {
    let progress = Progress::default();
    let mut look =
        VerificationPass { folder, told, progress, sound: HashSet::new(), problems: Vec::new(), what: String::new() };
    'all: for bucket in folder.buckets()? {
        for id in folder.ids(&bucket)? {
            look.what = format!("backup {id} of bucket \"{bucket}\"");
            look.progress.bucket.clone_from(&bucket);
            match folder.manifest(&bucket, &id).and_then(|manifest| look.manifest(&manifest)) {
                Err(error @ (Error::Corrupt { .. } | Error::Unusable { .. })) => look.problem(&error),
                looked => looked?,
            }
            if look.problems.len() >= PROBLEMS_MAX {
                look.problems.push("more than these were not looked for".into());
                break 'all;
            }
        }
    }
    Ok((look.problems, look.progress.done_bytes))
}

/// A verification in progress.
struct VerificationPass<'a> {
    folder: &'a Folder,
    told: &'a dyn Fn(Progress),
    progress: Progress,
    /// Chunks that exist and are intact.
    sound: HashSet<Vec<u8>>,
    problems: Vec<String>,
    /// The backup being verified.
    what: String,
}

impl VerificationPass<'_> {
    fn problem(&mut self, error: &Error) {
        self.problems.push(format!("{}: {}", self.what, crate::error::with_source(error)));
    }

    fn manifest(&mut self, manifest: &Manifest) -> Result<()> {
        for chunk in &manifest.records {
            self.chunk(&chunk.hash, |folder| folder.messages(chunk))?;
        }
        let mut blobs = Reader::new(self.folder, &manifest.blobs);
        while self.problems.len() < PROBLEMS_MAX
            && let Some(entry) = blobs.next::<BlobEntry>()?
        {
            for piece in entry.pieces.iter().filter(|piece| !piece.hash.is_empty()) {
                self.chunk(&piece.hash, |folder| folder.content(&piece.hash))?;
            }
        }
        // The reader has verified them.
        self.progress.done_bytes += manifest.blobs.iter().map(|chunk| chunk.length).sum::<u64>();
        Ok(())
    }

    /// Verifies a chunk that was not verified yet.
    fn chunk(&mut self, hash: &[u8], read: impl FnOnce(&Folder) -> Result<Vec<u8>>) -> Result<()> {
        if self.sound.contains(hash) || self.problems.len() >= PROBLEMS_MAX {
            return Ok(());
        }
        match read(self.folder) {
            Ok(bytes) => {
                self.progress.done_bytes += bytes.len() as u64;
                (self.told)(self.progress.clone());
                self.sound.insert(hash.to_vec());
            }
            Err(error @ Error::Corrupt { .. }) => self.problem(&error),
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// All chunks that a backup names.
fn hashes(folder: &Folder, manifest: &Manifest) -> Result<HashSet<Vec<u8>>> {
    let named = manifest.records.iter().chain(&manifest.blobs).map(|chunk| chunk.hash.clone());
    let mut hashes: HashSet<Vec<u8>> = named.collect();
    let mut blobs = Reader::new(folder, &manifest.blobs);
    while let Some(entry) = blobs.next::<BlobEntry>()? {
        hashes.extend(entry.pieces.into_iter().map(|piece| piece.hash).filter(|hash| !hash.is_empty()));
    }
    Ok(hashes)
}

/// The result of pruning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Number of removed backups.
    pub backups: u64,
    /// Number of removed files that no backup needs any more.
    pub files: u64,
    /// Their total size in bytes.
    pub bytes: u64,
}

/// Removes all but the newest `keep` backups of each bucket, and files that no backup needs.
///
/// # Errors
/// [`Error::Corrupt`] if a remaining backup is unreadable: it is unknown what it needs, so nothing is removed.
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
    // A backup is removed before its files.
    for (bucket, id) in old {
        folder.remove_manifest(&bucket, &id)?;
        pruned.backups += 1;
    }
    folder.each_chunk(|name| {
        if !needed.contains(name) {
            pruned.bytes += folder.remove_chunk(name)?;
            pruned.files += 1;
        }
        Ok(())
    })?;
    Ok(pruned)
}
