//! The master key file, beside the database or at a path of the administrator's choice, and its rotation.
//!
//! - A key file in the data folder is private: one that other users may read, or that belongs to another user, is
//!   refused. A file at a configured path is checked like all secrets that an administrator configures
//!   ([`Permissions::of_a_secret`]).
//! - There is one location: a key in the data folder is refused while another path is configured.
//! - A rotation writes the next key to a separate file before anything is sealed under it. While both files exist,
//!   secrets are sealed under the next key and opened under either.
//! - The next key replaces the old one only when nothing is sealed under the old one any more.
//!
//! A crash leaves one file, or both; with both, the next opening of the store completes the rotation. If the next key
//! equals the master key, it was installed already, and only its file is left over.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use zeroize::Zeroizing;

use super::seal::{MASTER_BYTES, MasterKey};
use super::{KeyCopies, Sealer};
use crate::clock::Random;
use crate::disk::{Disk, Permissions, read_named};
use crate::error::{Error, Result};

/// Only the owner may read a master key.
pub(super) const MODE: u32 = 0o600;
/// The permission bits of group and others.
const OTHERS: u32 = 0o077;
/// The most bytes read of a master key file.
const READ_MAX: u64 = 4096;
/// Its name in the data folder.
const NAME: &str = "master.key";

/// The paths of the master key.
#[derive(Clone, Debug)]
pub(crate) struct KeyPlace {
    /// The key.
    path: PathBuf,
    /// The next key, during a rotation.
    next: PathBuf,
    /// The default path, if another one is configured.
    unnamed: Option<PathBuf>,
}

impl KeyPlace {
    /// The paths for the data folder `dir`, or for the configured file.
    pub fn new(dir: &Path, named: Option<&Path>) -> Self {
        let path = named.map_or_else(|| dir.join(NAME), Path::to_owned);
        let mut next = path.clone().into_os_string();
        next.push(".next");
        Self { path, next: next.into(), unnamed: named.map(|_| dir.join(NAME)) }
    }

    /// Refuses a key in the data folder beside a configured one.
    fn refuse_two(&self, disk: &dyn Disk) -> Result<()> {
        let Some(unnamed) = &self.unnamed else { return Ok(()) };
        if self.path == *unnamed || !disk.exists(unnamed)? {
            return Ok(());
        }
        let (path, unnamed) = (self.path.display(), unnamed.display());
        let what = if disk.exists(&self.path)? {
            format!("{path} is there too: remove one of them once it is known which is the key of this store")
        } else {
            format!("the master key is to be {path}: move it there (mv {unnamed} {path})")
        };
        Err(Error::Unusable { why: format!("{unnamed} holds a master key, and {what}") })
    }

    /// The content of a key file, if its permissions are strict enough.
    fn read(&self, disk: &dyn Disk, path: &Path) -> Result<Zeroizing<Vec<u8>>> {
        if self.unnamed.is_none() {
            // Reading refuses a symbolic link, whose own permissions have no meaning.
            let bytes = Zeroizing::new(disk.read_all(path)?);
            return refuse_open_to_others(disk, path).map(|()| bytes);
        }
        let read = read_named(path, READ_MAX);
        let (bytes, permissions) = read.map_err(|error| Error::io(format!("reading {}", path.display()), error))?;
        let bytes = Zeroizing::new(bytes);
        match permissions.of_a_secret() {
            Ok(()) => Ok(bytes),
            Err(why) => Err(Error::Unusable { why: format!("the master key {} {why}", path.display()) }),
        }
    }
}

/// The master key files, and the sealer for them.
pub(crate) struct Master {
    disk: Arc<dyn Disk>,
    place: KeyPlace,
    sealer: Sealer,
    /// The originals, if the files are copies.
    copies: Option<KeyCopies>,
    /// Locked by the single rotation in progress.
    rotation: Mutex<()>,
}

impl Master {
    /// Opens the master key at `place`; creates it if the store is new.
    ///
    /// # Errors
    /// [`Error::Unusable`] if an existing store's key is missing, malformed, or readable by others.
    pub fn open(
        disk: Arc<dyn Disk>,
        place: KeyPlace,
        copies: Option<KeyCopies>,
        random: &dyn Random,
        new_store: bool,
    ) -> Result<Self> {
        place.refuse_two(&*disk)?;
        let fresh = || new_store.then(|| new_key(random));
        match &copies {
            Some(copies) => copies.fetch(&*disk, (&place.path, &place.next), fresh)?,
            None => match fresh() {
                Some(key) if !disk.exists(&place.path)? => disk.write_atomic(&place.path, &*key, MODE)?,
                _ => {}
            },
        }
        let sealer = Sealer::at(&*disk, &place)?;
        Ok(Self { disk, place, sealer, copies, rotation: Mutex::new(()) })
    }

    /// The paths of the master key and of the next one.
    pub fn files(&self) -> (&Path, &Path) {
        (&self.place.path, &self.place.next)
    }

    /// The sealer of secrets.
    pub fn sealer(&self) -> &Sealer {
        &self.sealer
    }

    /// Whether a rotation was begun and is not complete.
    pub fn is_rotating(&self) -> bool {
        self.sealer.has_former()
    }

    /// Replaces the key: `reseal` has to seal everything again, durably. An incomplete rotation continues.
    pub fn rotate<T>(&self, random: &dyn Random, reseal: impl FnOnce() -> Result<T>) -> Result<T> {
        let Some(_rotation) = self.rotation.try_lock() else {
            return Err(Error::Busy { what: "the master key, which is being rotated".into() });
        };
        let KeyPlace { path, next, .. } = &self.place;
        if !self.is_rotating() {
            if !self.disk.exists(next)? {
                let made = new_key(random);
                let made = self.copies.as_ref().map_or(Ok(made.clone()), |copies| copies.begin(&made))?;
                self.disk.write_atomic(next, &*made, MODE)?;
            }
            self.sealer.begin(&*read(&*self.disk, &self.place, next)?);
        }
        let resealed = reseal()?;
        let bytes = self.place.read(&*self.disk, next)?;
        if let Some(copies) = &self.copies {
            copies.install(&bytes)?;
        }
        self.disk.write_atomic(path, &bytes, MODE)?;
        if let Some(copies) = &self.copies {
            copies.end()?;
        }
        self.disk.remove(next)?;
        self.sealer.end();
        Ok(resealed)
    }
}

impl Sealer {
    /// The sealer for the master key at `place`, which is not changed.
    ///
    /// # Errors
    /// Those of [`Master::open`].
    fn at(disk: &dyn Disk, place: &KeyPlace) -> Result<Self> {
        if !disk.exists(&place.path)? {
            let shown = place.path.display();
            let elsewhere =
                if place.unnamed.is_none() { ", or name the file it is in with --master-key-file" } else { "" };
            let why = format!("the master key {shown} is missing: put it back from where it was copied to{elsewhere}");
            return Err(Error::Unusable { why });
        }
        let sealer = Self::new(&*read(disk, place, &place.path)?);
        if disk.exists(&place.next)? {
            sealer.begin(&*read(disk, place, &place.next)?);
        }
        Ok(sealer)
    }
}

fn new_key(random: &dyn Random) -> Zeroizing<MasterKey> {
    let mut key = Zeroizing::new([0; MASTER_BYTES]);
    random.fill(&mut *key);
    key
}

fn read(disk: &dyn Disk, place: &KeyPlace, path: &Path) -> Result<Zeroizing<MasterKey>> {
    let bytes = place.read(disk, path)?;
    match MasterKey::try_from(bytes.as_slice()) {
        Ok(key) => Ok(Zeroizing::new(key)),
        Err(_) => Err(Error::Unusable {
            why: format!(
                "the master key {} has {} bytes instead of {MASTER_BYTES}: put the original file back",
                path.display(),
                bytes.len()
            ),
        }),
    }
}

/// Refuses a key in the data folder that other users may read.
fn refuse_open_to_others(disk: &dyn Disk, path: &Path) -> Result<()> {
    let Some(Permissions { owner, mode }) = disk.permissions(path)? else { return Ok(()) };
    let (shown, own) = (path.display(), rustix::process::geteuid().as_raw());
    let why = if mode & OTHERS != 0 {
        format!(
            "the master key {shown} is open to others (mode {mode:04o}): run chmod 600 on it; if another user may have \
             read it, rotate it (amphora master-key rotate) and then each account's keys"
        )
    } else if owner != own && owner != 0 {
        format!("the master key {shown} belongs to user {owner}, and this server runs as user {own}: run chown on it")
    } else {
        return Ok(());
    };
    Err(Error::Unusable { why })
}
