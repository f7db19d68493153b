//! Opening: what an earlier process left here and in the bucket.
//!
//! - Local files are believed only if this folder had the last opening of the store, and the machine was not started
//!   again since: then they hold what programs wrote and no sync sent. Otherwise they are removed.
//! - The folder knows the name of an opening before the metadata does. Until then it also knows the one before, so a
//!   process may die anywhere between the two; and if another server opens the store meanwhile, the metadata has a name
//!   that this folder does not know.
//! - Objects of a later epoch than the metadata knows mean that the metadata is old: nothing is opened then, since the
//!   collector would remove what the newer metadata names.

use std::collections::HashSet;

use objstore_base::error::{Error, Result};

use super::file::RemoteFile;
use super::places::Saved;
use super::state::{Chunk, Kind, Modified, PAGE, State};
use super::{CHUNK_BYTES, Opening, RemoteDisk, transfer};
use crate::id::{BlobId, parse_hex};
use crate::open_files::Name;
use crate::shards::SHARDS;

/// The file with the names of the openings that the local files may be of, and the start of the machine.
const OWNER: &str = "owner";

impl RemoteDisk {
    /// Refuses metadata that is older than the content.
    pub(crate) fn check_epoch(&self, last_epoch: u32) -> Result<()> {
        let Some(next) = last_epoch.checked_add(1) else { return Ok(()) };
        for folder in ["packs/", "blobs/", "chunks/"] {
            let after = format!("{folder}{next:08x}");
            let later = self.0.bucket.list(folder, Some(&after)).map_err(|error| transfer::failed(&error))?;
            if let Some(object) = later.first() {
                let why = format!(
                    "{} has content of a later opening of this store ({}) than the metadata ({last_epoch}): the metadata is an old copy, or another server uses the same content; restore the newest metadata",
                    self.0.bucket.location(),
                    object.key
                );
                return Err(Error::Unusable { why });
            }
        }
        Ok(())
    }

    /// Takes over or removes local files of an earlier process, and notes that this folder has the next opening. `last` is
    /// the last one that the metadata knows. Returns the files that were taken over: what is in them is not synced.
    pub(crate) fn recover(&self, last: Option<Opening>, next: Opening) -> Result<Vec<BlobId>> {
        let (shared, mut revived) = (&self.0, Vec::new());
        let path = shared.dir.join(OWNER);
        let machine = format!("{:016x}", shared.local.machine()?);
        let word = |opening: Opening| format!("{:032x}", u128::from_be_bytes(opening));
        let noted = if shared.local.exists(&path)? { shared.local.read_all(&path)? } else { Vec::new() };
        let noted = String::from_utf8_lossy(&noted);
        let mut words = noted.split_whitespace();
        let mine = last.map(word).filter(|last| words.next() == Some(&machine) && words.any(|known| known == last));
        for shard in 0..SHARDS {
            let dir = shared.dir.join("blobs").join(format!("{shard:02x}"));
            for name in shared.local.list(&dir)? {
                let Some(id) = parse_hex(name.strip_suffix(".s").unwrap_or(&name)).map(BlobId) else { continue };
                // A sidecar comes with its file.
                if name.ends_with(".s") {
                    if mine.is_none() || !shared.local.exists(&shared.path(Name::Blob(id)))? {
                        shared.local.remove(&dir.join(&name))?;
                    }
                } else if mine.is_some() && self.revive(id)? {
                    revived.push(id);
                } else {
                    shared.local.remove(&dir.join(&name))?;
                    shared.sidecar(Name::Blob(id)).remove()?;
                }
            }
        }
        let segments = shared.dir.join("segments");
        for name in shared.local.list(&segments)?.iter().filter(|name| name.ends_with(".seg")) {
            shared.local.remove(&segments.join(name))?;
        }
        let known = format!("{machine} {} {}\n", word(next), mine.unwrap_or_default());
        shared.local.write_atomic(&path, known.as_bytes(), 0o600)?;
        Ok(revived)
    }

    /// Takes over a local file with changes that were not saved. Returns whether it has any.
    fn revive(&self, id: BlobId) -> Result<bool> {
        let (shared, name) = (&self.0, Name::Blob(id));
        let sidecar = shared.sidecar(name);
        let Some((head, changed)) = sidecar.read()? else { return Ok(false) };
        if !head && changed.is_empty() {
            return Ok(false);
        }
        let local = shared.local.open(&shared.path(name))?;
        let mut state = match shared.places.load(id)? {
            Some(saved) => State::saved(&saved),
            // It began as an object that never changed, or empty.
            None => match shared.bucket.length(&transfer::key_of(name)).map_err(|error| transfer::failed(&error))? {
                Some(length) => State { kind: Kind::InPlace, ..State::new(Kind::Whole, length) },
                None => State::saved(&Saved::default()),
            },
        };
        state.length = local.len()?.max(if head { 0 } else { state.length });
        state.whole = state.whole.min(state.length);
        if head {
            // It may have been cut, and made longer again.
            let past = state.length.div_ceil(CHUNK_BYTES).try_into().unwrap_or(u32::MAX);
            state.chunks.retain(|index, _| *index < past);
            state.cut = Some(past);
        }
        state.modified = Modified::Local;
        state.head_dirty = true;
        for index in changed {
            let chunk = state.chunk(index);
            state.chunks.insert(index, Chunk { here: true, dirty: u128::MAX, ..chunk });
        }
        let dirty = state.chunks.values().filter(|chunk| chunk.dirty != 0).count() as u64;
        shared.dirty_bytes.fetch_add(dirty * 128 * PAGE, std::sync::atomic::Ordering::Relaxed);
        debug_assert_eq!(128 * PAGE, CHUNK_BYTES);
        let file = RemoteFile::new(shared, name, local, sidecar, state);
        shared.files.write().insert(name, file);
        shared.dirty.lock().insert(name);
        Ok(true)
    }

    /// The ids of files that this process or the metadata knows. Objects without a record are found by
    /// [`RemoteDisk::collect_unnamed`].
    pub(crate) fn ids(&self) -> Result<Vec<BlobId>> {
        let mut ids: HashSet<BlobId> = self.0.places.ids()?.into_iter().collect();
        ids.extend(self.0.files.read().keys().filter_map(|name| match name {
            Name::Blob(id) => Some(*id),
            Name::Segment(_) => None,
        }));
        Ok(ids.into_iter().collect())
    }

    /// Removes objects of epochs before `epoch` that no record names, and unfinished uploads. `named` says whether a blob has
    /// a record. An old listing leaves some for the next time. Returns how many were removed.
    pub(crate) fn collect_unnamed(&self, epoch: u32, named: &dyn Fn(BlobId) -> Result<bool>) -> Result<u64> {
        let bucket = &self.0.bucket;
        let mut removed = 0;
        // Read after the epoch was raised: what an earlier owner had not named by then is never named.
        let objects = self.0.places.objects()?;
        for folder in ["blobs/", "chunks/"] {
            let mut last: Option<String> = None;
            loop {
                let page = bucket.list(folder, last.as_deref()).map_err(|error| transfer::failed(&error))?;
                let Some(end) = page.last() else { break };
                last = Some(end.key.clone());
                let mut unnamed = Vec::new();
                for object in page {
                    let Some(id) = object.key.strip_prefix(folder).and_then(parse_hex).map(BlobId) else { continue };
                    let kept =
                        id.epoch() >= epoch || if folder == "chunks/" { objects.contains(&id.0) } else { named(id)? };
                    if !kept {
                        unnamed.push(object.key);
                    }
                }
                removed += unnamed.len() as u64;
                bucket.remove(&unnamed).map_err(|error| transfer::failed(&error))?;
            }
        }
        Ok(removed)
    }

    /// Removes the parts of uploads that an earlier process did not finish. Before this one begins any.
    pub(crate) fn abort_uploads(&self) {
        if let Err(error) = self.0.bucket.abort_uploads("blobs/") {
            tracing::warn!(%error, "parts of unfinished uploads stay in the S3 store; the next start tries again");
        }
    }
}
