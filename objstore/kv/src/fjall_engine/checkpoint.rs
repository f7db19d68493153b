//! The files of a checkpoint: hard links to the tables of one version, made while others commit.
//!
//! - fjall removes a table's file when the last version that has it is dropped, so a version that is held keeps its files.
//! - fjall writes and syncs the list of a version before anyone sees the version, and may remove the list of an older
//!   one: then the next version is tried.
//! - A folder with the links, the list, a `current` that names it, the keyspace of names, the file `version` and an empty
//!   journal opens as the store at its last batch in tables. Without a journal fjall would take no number from the tables,
//!   and show nothing of them.
//!
//! A crash leaves part of the target, which the next checkpoint empties.

use std::path::{Path, PathBuf};

use fjall::{AbstractTree as _, Keyspace};
use objstore_base::error::{Error, Result};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use super::error;
use super::store::last_batch;
use crate::backend::{BATCH_KEY, decode_batch};
use crate::shipped::{Link, Linked};

/// How often a version is tried whose list is removed meanwhile.
const TRIES: usize = 100;

/// The keyspace of names, which does not change after the first start.
const NAMES: &str = "keyspaces/0";

/// A journal without batches.
const EMPTY_JOURNAL: &str = "1.jnl";

/// The tables of a store that is open.
pub(super) struct Tables {
    pub folder: PathBuf,
    pub keyspace: Keyspace,
}

impl Link for Tables {
    fn link(&self, target: &Path) -> Result<Linked> {
        let tree = Path::new("keyspaces").join(self.keyspace.id().to_string());
        let (version, list, name) = (0..TRIES)
            .find_map(|_| {
                let version = self.keyspace.tree.current_version();
                let name = tree.join(format!("v{}", version.id()));
                let list = std::fs::read(self.folder.join(&name)).ok()?;
                Some((version, list, name))
            })
            .ok_or_else(|| Error::Busy { what: "the metadata, whose list of tables changes all the time,".into() })?;
        let batch = last_batch!(version)?.map_or(0, |batch| batch.ours);
        let mut linking = Linking { folder: &self.folder, target, files: Vec::new() };
        for table in version.iter_tables() {
            linking.link(tree.join("tables").join(table.id().to_string()))?;
        }
        let current = [&version.id().to_le_bytes()[..], &xxh3_128(&list).to_le_bytes(), &[0]].concat();
        linking.write(name, &list)?;
        linking.write(tree.join("current"), &current)?;
        for part in [Path::new(NAMES).to_owned(), Path::new(NAMES).join("tables"), tree.clone()] {
            linking.copy_rest(&part, part == tree)?;
        }
        linking.copy(PathBuf::from("version"))?;
        linking.write(PathBuf::from(EMPTY_JOURNAL), &[])?;
        Ok(Linked { batch, files: linking.files })
    }
}

struct Linking<'a> {
    folder: &'a Path,
    target: &'a Path,
    files: Vec<(PathBuf, bool)>,
}

impl Linking<'_> {
    fn failed(&self, path: &Path, source: std::io::Error) -> Error {
        Error::io(format!("linking {} for a checkpoint", self.folder.join(path).display()), source)
    }

    fn place(&self, path: &Path) -> Result<PathBuf> {
        let place = self.target.join(path);
        if let Some(folder) = place.parent() {
            std::fs::create_dir_all(folder).map_err(|source| self.failed(path, source))?;
        }
        Ok(place)
    }

    fn link(&mut self, path: PathBuf) -> Result<()> {
        let linked = std::fs::hard_link(self.folder.join(&path), self.place(&path)?);
        linked.map_err(|source| self.failed(&path, source))?;
        self.files.push((path, true));
        Ok(())
    }

    fn write(&mut self, path: PathBuf, content: &[u8]) -> Result<()> {
        std::fs::write(self.place(&path)?, content).map_err(|source| self.failed(&path, source))?;
        self.files.push((path, false));
        Ok(())
    }

    fn copy(&mut self, path: PathBuf) -> Result<()> {
        let content = std::fs::read(self.folder.join(&path)).map_err(|source| self.failed(&path, source))?;
        self.write(path, &content)
    }

    /// Copies the files of a folder that are not there yet; of the changing tree not the lists of other versions.
    fn copy_rest(&mut self, part: &Path, is_tree: bool) -> Result<()> {
        let failed = |source| self.failed(part, source);
        let entries = std::fs::read_dir(self.folder.join(part)).map_err(failed)?;
        let entries: Vec<_> = entries.collect::<Result<_, _>>().map_err(failed)?;
        for entry in entries {
            let path = part.join(entry.file_name());
            let is_list = is_tree && entry.file_name().to_string_lossy().starts_with('v');
            let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
            if is_file && !is_list && !self.target.join(&path).exists() {
                self.copy(path)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
