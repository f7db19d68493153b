//! The master key of a store whose data folder is a cache: the original is in the bucket of the content, and the files in
//! the folder are copies.
//!
//! - Each step of a rotation reaches the bucket first, so the bucket always has a key that opens every secret.
//! - A server that has lost its log may still be rotating: it installs a next key only after everything is sealed under
//!   it in the log, where it is refused.
//!
//! A crash leaves the bucket as one step of a rotation left it; the next opening fetches that state and continues.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use zeroize::Zeroizing;

use super::master::MODE;
use super::seal::{MASTER_BYTES, MasterKey};
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::meta::vault::{Replaced, Vault};

/// The key's object.
const KEY: &str = "master.key";
/// The next key's, during a rotation.
const NEXT: &str = "master.key.next";

/// The originals of the master key files.
pub(crate) struct KeyCopies(Arc<dyn Vault>);

impl KeyCopies {
    /// The originals in `vault`.
    pub fn new(vault: Arc<dyn Vault>) -> Self {
        Self(vault)
    }

    /// Makes the files `key` and `next` what the originals are. `fresh` makes the key of a new store.
    pub fn fetch(
        &self,
        disk: &dyn Disk,
        (key, next): (&Path, &Path),
        fresh: impl FnOnce() -> Option<Zeroizing<MasterKey>>,
    ) -> Result<()> {
        let mut found = self.get(KEY)?;
        if found.is_none()
            && let Some(fresh) = fresh()
        {
            found = Some(self.create(KEY, &fresh)?);
        }
        for (file, found) in [(key, found), (next, self.get(NEXT)?)] {
            match found {
                Some(bytes) => disk.write_atomic(file, &*bytes, MODE)?,
                None if disk.exists(file)? => disk.remove(file)?,
                None => {}
            }
        }
        Ok(())
    }

    /// Makes the key in `file` the original, at the first opening of a store that had it in its data folder.
    pub fn bring(&self, disk: &dyn Disk, file: &Path) -> Result<()> {
        let bytes = Zeroizing::new(disk.read_all(file)?);
        let key = MasterKey::try_from(&bytes[..]).map(Zeroizing::new).map_err(|_| {
            let found = format!("{} bytes", bytes.len());
            Error::corrupt(file.display().to_string(), format!("{MASTER_BYTES} bytes"), found)
        })?;
        // An earlier run may have brought the key before it was replaced.
        if *self.create(KEY, &key)? == *key { Ok(()) } else { self.install(&*key) }
    }

    /// Begins a rotation, and returns the next key: `made`, or that of a rotation that was begun before.
    pub fn begin(&self, made: &MasterKey) -> Result<Zeroizing<MasterKey>> {
        self.create(NEXT, made)
    }

    /// Makes the next key the key.
    pub fn install(&self, next: &[u8]) -> Result<()> {
        let Some((bytes, tag)) = self.0.get(KEY, MASTER_BYTES)? else {
            return Err(Error::corrupt(KEY, "an object beside the content", "none"));
        };
        if *bytes == *next {
            return Ok(());
        }
        match self.0.replace(KEY, Bytes::copy_from_slice(next), Some(&tag))? {
            Replaced::Done(_) => Ok(()),
            Replaced::Conflict => {
                Err(Error::Busy { what: "the master key, which another server replaces at the same time,".into() })
            }
        }
    }

    /// Ends a rotation.
    pub fn end(&self) -> Result<()> {
        self.0.remove(&[NEXT.to_owned()])
    }

    fn get(&self, name: &str) -> Result<Option<Zeroizing<MasterKey>>> {
        let Some((bytes, _)) = self.0.get(name, MASTER_BYTES)? else { return Ok(None) };
        match MasterKey::try_from(&*bytes) {
            Ok(key) => Ok(Some(Zeroizing::new(key))),
            Err(_) => Err(Error::corrupt(name, format!("{MASTER_BYTES} bytes"), format!("{} bytes", bytes.len()))),
        }
    }

    /// Creates an object; returns what is there, if another server was first.
    fn create(&self, name: &str, key: &MasterKey) -> Result<Zeroizing<MasterKey>> {
        match self.0.replace(name, Bytes::copy_from_slice(key), None)? {
            Replaced::Done(_) => Ok(Zeroizing::new(*key)),
            Replaced::Conflict => {
                self.get(name)?.ok_or_else(|| Error::Busy { what: "the master key beside the content".into() })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::RealDisk;
    use crate::meta::vault::Memory;

    fn files(folder: &Path) -> [Option<Vec<u8>>; 2] {
        ["key", "next"].map(|name| std::fs::read(folder.join(name)).ok())
    }

    #[test]
    fn the_files_are_what_the_bucket_has_at_each_step_of_a_rotation() {
        let vault = Arc::new(Memory::default());
        let fetch = |fresh: Option<MasterKey>| {
            let folder = tempfile::tempdir().unwrap();
            let (key, next) = (folder.path().join("key"), folder.path().join("next"));
            std::fs::write(&next, "of another time").unwrap();
            let copies = KeyCopies::new(vault.clone());
            copies.fetch(&RealDisk::new(), (&key, &next), || fresh.map(Zeroizing::new)).unwrap();
            files(folder.path())
        };
        let (first, second) = ([1; MASTER_BYTES], [2; MASTER_BYTES]);
        assert_eq!(fetch(None), [None, None], "an existing store without its key gets no other one");
        assert_eq!(fetch(Some(first)), [Some(first.to_vec()), None]);
        assert_eq!(fetch(Some(second)), [Some(first.to_vec()), None], "another server was first");
        let copies = KeyCopies::new(vault.clone());
        assert_eq!(*copies.begin(&second).unwrap(), second);
        assert_eq!(*copies.begin(&[3; MASTER_BYTES]).unwrap(), second, "a rotation that was begun continues");
        assert_eq!(fetch(None), [Some(first.to_vec()), Some(second.to_vec())]);
        copies.install(&second).unwrap();
        copies.install(&second).unwrap();
        assert_eq!(fetch(None), [Some(second.to_vec()), Some(second.to_vec())]);
        copies.end().unwrap();
        assert_eq!(fetch(None), [Some(second.to_vec()), None]);
    }
}
