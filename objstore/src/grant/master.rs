//! The master key: a file beside the database, and how another takes its place.
//!
//! - The file is for its owner alone: one that others may read, or that belongs to somebody else, is refused.
//! - A rotation writes the next key to a file of its own before anything is sealed under it. While both files are there,
//!   secrets are sealed under the next key and open under either.
//! - The next key takes the place of the last one only when nothing is sealed under that any more.
//!
//! A crash leaves one file, or both; with both, the next opening of the store ends the rotation. A next key that
//! equals the master key was taken over already, and only its file is left.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::Sealer;
use super::seal::{MASTER_BYTES, MasterKey};
use crate::clock::Random;
use crate::disk::Disk;
use crate::error::{Error, Result};

/// Only the owner may read a master key.
const MODE: u32 = 0o600;
/// Permissions of others.
const OTHERS: u32 = 0o077;

/// The files of the master key, and what is sealed under it.
pub(crate) struct Master {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    next: PathBuf,
    sealer: Sealer,
    /// Held by the one rotation there is at a time.
    rotation: Mutex<()>,
}

impl Master {
    /// The master key of the store in `dir`, made if the store is new.
    ///
    /// # Errors
    /// [`Error::Unusable`] if a key is missing from a store that exists, is no key, or is open to others.
    pub fn open(disk: Arc<dyn Disk>, dir: &Path, random: &dyn Random, new_store: bool) -> Result<Self> {
        let (path, next) = files(dir);
        if new_store && !disk.exists(&path)? {
            disk.write_atomic(&path, &new_key(random), MODE)?;
        }
        let sealer = Sealer::of_store(&*disk, dir)?;
        Ok(Self { disk, path, next, sealer, rotation: Mutex::new(()) })
    }

    /// Seals and opens secrets.
    pub fn sealer(&self) -> &Sealer {
        &self.sealer
    }

    /// Whether a rotation was begun and is not at its end.
    pub fn is_rotating(&self) -> bool {
        self.sealer.has_former()
    }

    /// Puts another key in the place of this one: `reseal` has to seal everything anew, and have it on disk when it
    /// returns. A rotation that did not come to its end goes on.
    pub fn rotate<T>(&self, random: &dyn Random, reseal: impl FnOnce() -> Result<T>) -> Result<T> {
        let Some(_rotation) = self.rotation.try_lock() else {
            return Err(Error::Busy { what: "the master key, which is being rotated".into() });
        };
        if !self.is_rotating() {
            if !self.disk.exists(&self.next)? {
                self.disk.write_atomic(&self.next, &new_key(random), MODE)?;
            }
            self.sealer.begin(&read(&*self.disk, &self.next)?);
        }
        let resealed = reseal()?;
        let next = self.disk.read_all(&self.next)?;
        self.disk.write_atomic(&self.path, &next, MODE)?;
        self.disk.remove(&self.next)?;
        self.sealer.end();
        Ok(resealed)
    }
}

impl Sealer {
    /// The sealer of the store in `dir`, which is left as it is.
    ///
    /// # Errors
    /// Those of [`Master::open`].
    pub fn of_store(disk: &dyn Disk, dir: &Path) -> Result<Self> {
        let (path, next) = files(dir);
        if !disk.exists(&path)? {
            let shown = path.display();
            let why = format!("the master key {shown} is missing: put it back from where it was copied to");
            return Err(Error::Unusable { why });
        }
        let sealer = Self::new(&read(disk, &path)?);
        if disk.exists(&next)? {
            sealer.begin(&read(disk, &next)?);
        }
        Ok(sealer)
    }
}

/// The files of the master key and of the next one.
fn files(dir: &Path) -> (PathBuf, PathBuf) {
    (dir.join("master.key"), dir.join("master.key.next"))
}

fn new_key(random: &dyn Random) -> [u8; MASTER_BYTES] {
    let mut key = [0; MASTER_BYTES];
    random.fill(&mut key);
    key
}

fn read(disk: &dyn Disk, path: &Path) -> Result<MasterKey> {
    let shown = path.display();
    let unusable = |why: String| Err(Error::Unusable { why });
    if let Some(found) = disk.permissions(path)? {
        if found.mode & OTHERS != 0 {
            return unusable(format!(
                "the master key {shown} is open to others (mode {:04o}): run chmod 600 on it; if somebody may have \
                 read it, rotate it (amphora master-key rotate) and then each account's keys",
                found.mode
            ));
        }
        let own = rustix::process::geteuid().as_raw();
        if found.owner != own && found.owner != 0 {
            return unusable(format!(
                "the master key {shown} belongs to user {}, and this server runs as user {own}: run chown on it",
                found.owner
            ));
        }
    }
    let bytes = disk.read_all(path)?;
    match MasterKey::try_from(bytes.as_slice()) {
        Ok(key) => Ok(key),
        Err(_) => unusable(format!(
            "the master key {shown} has {} bytes instead of {MASTER_BYTES}: bring it back",
            bytes.len()
        )),
    }
}
