//! The folder of content as a [`Disk`].

use std::path::{Path, PathBuf};
use std::sync::Arc;

use objstore_base::error::{Error, Result};
use objstore_base::latency::Latency;
use objstore_disk::{Disk, File, Lock, Need, Permissions, Space};

use super::file::RemoteFile;
use super::sidecar::Sidecar;
use super::state::{Base, Kind, State};
use super::{RemoteDisk, Shared, transfer};
use crate::id::{BlobId, parse_hex};
use crate::open_files::Name;

/// The file that a path names; `None` for one that is only local.
fn name_of(path: &Path) -> Option<Name> {
    let name = path.file_name()?.to_str()?;
    match name.strip_suffix(".seg") {
        Some(segment) => parse_hex(segment).map(Name::Segment),
        None => parse_hex(name).map(|id| Name::Blob(BlobId(id))),
    }
}

impl Shared {
    /// The path of a local copy.
    pub(super) fn path(&self, name: Name) -> PathBuf {
        match name {
            Name::Blob(id) => crate::shards::path(&self.dir.join("blobs"), id),
            Name::Segment(segment) => self.dir.join("segments").join(format!("{segment:016x}.seg")),
        }
    }

    pub(super) fn sidecar(&self, name: Name) -> Sidecar {
        Sidecar::new(self.local.clone(), &self.path(name))
    }

    /// A new file.
    fn create(self: &Arc<Self>, name: Name, kind: Kind) -> Result<Arc<RemoteFile>> {
        let local = self.local.create(&self.path(name))?;
        let file = RemoteFile::new(self, name, local, self.sidecar(name), State::new(kind, 0));
        self.files.write().insert(name, file.clone());
        Ok(file)
    }

    /// The file `name`, wherever it is.
    fn open(self: &Arc<Self>, name: Name) -> Result<Arc<RemoteFile>> {
        if let Some(file) = self.known(name) {
            return Ok(file);
        }
        let saved = match name {
            Name::Blob(id) => self.places.load(id)?,
            Name::Segment(_) => None,
        };
        let state = match saved {
            Some(saved) => State::saved(&saved),
            None => {
                let key = transfer::key_of(name);
                let length = self.bucket.length(&key).map_err(|error| transfer::failed(&error))?;
                let missing = || std::io::Error::from(std::io::ErrorKind::NotFound);
                let length =
                    length.ok_or_else(|| Error::io(format!("opening {}/{key}", self.bucket.location()), missing()))?;
                State::new(Kind::Whole, length)
            }
        };
        let mut files = self.files.write();
        // Another reader may have been faster; there is one file of a name.
        if let Some(file) = files.get(&name) {
            return Ok(file.clone());
        }
        let path = self.path(name);
        // What a process that died left of it is not known.
        self.local.remove(&path)?;
        let file = RemoteFile::new(self, name, self.local.create(&path)?, self.sidecar(name), state);
        files.insert(name, file.clone());
        Ok(file)
    }

    /// Removes a file, here at once and in the bucket soon.
    fn remove(&self, name: Name) -> Result<()> {
        let file = self.files.write().remove(&name);
        self.dirty.lock().remove(&name);
        let mut keys = Vec::new();
        let (mut whole, mut recorded) = (true, true);
        if let Some(file) = &file {
            let mut state = file.state.lock();
            state.removed = true;
            whole = state.kind == Kind::Whole || state.whole > 0 || state.kind == Kind::Filling;
            recorded = state.recorded || state.begun;
            let objects = state.chunks.values().filter_map(|chunk| match chunk.base {
                Base::Object(at) => Some(transfer::chunk_key(at.object)),
                _ => None,
            });
            keys.extend(objects);
        }
        if let Name::Blob(id) = name
            && recorded
            && let Some(saved) = self.places.load(id)?
        {
            let objects = saved.chunks.iter().filter(|(_, at)| at.object != 0);
            keys.extend(objects.map(|(_, at)| transfer::chunk_key(at.object)));
            whole |= saved.head.whole > 0;
            self.places.forget(id);
        }
        if whole {
            keys.push(transfer::key_of(name));
        }
        if let Name::Segment(segment) = name
            && let Some(packs) = &mut *self.packs.lock()
        {
            packs.remove(&segment);
        }
        self.removals.lock().extend(keys);
        self.local.remove(&self.path(name))?;
        self.sidecar(name).remove()
    }
}

impl RemoteDisk {
    /// Creates the file of a new object, which is sent as a whole.
    pub(crate) fn create_whole(&self, id: BlobId) -> Result<Arc<dyn File>> {
        Ok(self.0.create(Name::Blob(id), Kind::Filling)?)
    }

    /// Records that a file exists that is written in place: it is saved with the next sync, also if it is empty.
    pub(crate) fn begin_in_place(&self, id: BlobId) -> Result<()> {
        let Some(file) = self.0.known(Name::Blob(id)) else { return Ok(()) };
        file.state.lock().begun = true;
        file.mark_head()
    }
}

impl Disk for RemoteDisk {
    fn create(&self, path: &Path) -> Result<Arc<dyn File>> {
        match name_of(path) {
            Some(name @ Name::Blob(_)) => Ok(self.0.create(name, Kind::InPlace)?),
            Some(name @ Name::Segment(_)) => Ok(self.0.create(name, Kind::Filling)?),
            None => self.0.local.create(path),
        }
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn File>> {
        match name_of(path) {
            Some(name) => Ok(self.0.open(name)?),
            None => self.0.local.open(path),
        }
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.0.local.exists(path)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        match name_of(path) {
            Some(name) => self.0.remove(name),
            None => self.0.local.remove(path),
        }
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.0.local.list(dir)
    }

    fn make_dir(&self, dir: &Path) -> Result<()> {
        self.0.local.make_dir(dir)
    }

    fn make_dir_all(&self, dir: &Path) -> Result<()> {
        self.0.local.make_dir_all(dir)
    }

    fn sync_dir(&self, _dir: &Path) -> Result<()> {
        // Names of local copies promise nothing.
        Ok(())
    }

    fn sync_everything(&self, _dir: &Path) -> Result<()> {
        self.0.save_all()
    }

    fn read_all(&self, path: &Path) -> Result<Vec<u8>> {
        self.0.local.read_all(path)
    }

    fn write_atomic(&self, path: &Path, content: &[u8], mode: u32) -> Result<()> {
        self.0.local.write_atomic(path, content, mode)
    }

    fn permissions(&self, path: &Path) -> Result<Option<Permissions>> {
        self.0.local.permissions(path)
    }

    fn space(&self, dir: &Path) -> Result<Space> {
        self.0.local.space(dir)
    }

    fn room(&self, dir: &Path, need: Need) -> Result<()> {
        self.0.local.room(dir, need)
    }

    fn machine(&self) -> Result<u64> {
        self.0.local.machine()
    }

    fn sync_latency(&self) -> Latency {
        self.0.local.sync_latency()
    }

    fn lock(&self, path: &Path) -> Result<Lock> {
        self.0.local.lock(path)
    }
}
