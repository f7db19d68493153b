//! Making a checkpoint.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use objstore_base::error::{Error, Result};
use objstore_log::appender::Appender;
use objstore_log::{Epoch, Log, LogId};
use xxhash_rust::xxh3::xxh3_128;

use super::Link;
use super::manifest::{BYTES_MAX, Content, File, Manifest, NAME, TABLES, Table, epoch_of};
use crate::shipped::failed;
use crate::vault::{Replaced, Tag, Vault};

/// Makes checkpoints of one ownership.
pub(crate) struct Taker {
    pub source: Box<dyn Link>,
    /// An empty or absent folder on the disk of the copy, for links.
    pub staging: PathBuf,
    pub vault: Arc<dyn Vault>,
    pub log: Arc<dyn Log>,
    pub appender: Appender,
    pub epoch: Epoch,
    pub id: LogId,
    /// The checksums of tables that were read, by their paths: a table never changes.
    pub known: BTreeMap<PathBuf, (u128, u64)>,
}

impl Taker {
    /// Makes a checkpoint, unless the newest one has the same batch; returns its batch.
    ///
    /// # Errors
    /// [`Error::Busy`]: another server has written a manifest meanwhile.
    pub fn take(&mut self) -> Result<u64> {
        self.clear()?;
        let io = |source| Error::io(format!("making {}", self.staging.display()), source);
        std::fs::create_dir_all(&self.staging).map_err(io)?;
        let outcome = self.take_linked();
        self.clear()?;
        outcome
    }

    fn take_linked(&mut self) -> Result<u64> {
        let linked = self.source.link(&self.staging)?;
        let newest = self.newest()?;
        if newest.as_ref().map_or(0, |(manifest, _)| manifest.batch) >= linked.batch {
            return Ok(linked.batch);
        }
        // What is visible in the copy may not be in the log yet.
        self.appender.wait(linked.batch).map_err(failed)?;
        let there: BTreeMap<u128, Table> =
            newest.iter().flat_map(|(manifest, _)| manifest.tables()).map(|table| (table.sum, table)).collect();
        let mut files = Vec::new();
        self.known.retain(|path, _| linked.files.iter().any(|(linked, _)| linked == path));
        for (path, is_table) in &linked.files {
            let content = if *is_table { self.table(path, &there)? } else { Content::Small(self.read(path)?) };
            files.push(File { path: path.to_string_lossy().into_owned(), content });
        }
        let before = newest.as_ref().map_or(0, |(manifest, _)| manifest.batch);
        let manifest = Manifest { id: self.id, epoch: self.epoch, batch: linked.batch, before, files };
        let tag = newest.as_ref().map(|(_, tag)| tag);
        if self.vault.replace(NAME, manifest.encode(), tag)? == Replaced::Conflict {
            return Err(Error::Busy {
                what: "the manifest of the checkpoints, which another server has replaced,".into(),
            });
        }
        self.remove_old(newest.as_ref().map(|(manifest, _)| manifest), &manifest)?;
        if before > 0 {
            self.log.trim(self.epoch, before).map_err(failed)?;
        }
        Ok(manifest.batch)
    }

    fn newest(&self) -> Result<Option<(Manifest, Tag)>> {
        let Some((bytes, tag)) = self.vault.get(NAME, BYTES_MAX)? else { return Ok(None) };
        let manifest = Manifest::decode(&bytes)?;
        if manifest.id != self.id {
            let why = format!("the place of checkpoints has those of the log {}: name another", manifest.id);
            return Err(Error::Unusable { why });
        }
        if manifest.epoch > self.epoch {
            return Err(Error::Busy { what: "the store, which another server has taken over,".into() });
        }
        Ok(Some((manifest, tag)))
    }

    /// A table, which is uploaded unless the newest checkpoint has it.
    fn table(&mut self, path: &Path, there: &BTreeMap<u128, Table>) -> Result<Content> {
        if let Some(table) = self.known.get(path).and_then(|(sum, _)| there.get(sum)) {
            return Ok(Content::Table(*table));
        }
        let content = self.read(path)?;
        let (sum, bytes) = (xxh3_128(&content), content.len() as u64);
        self.known.insert(path.to_owned(), (sum, bytes));
        if let Some(table) = there.get(&sum) {
            return Ok(Content::Table(*table));
        }
        let table = Table { sum, bytes, epoch: self.epoch };
        self.vault.put(&table.name(), content)?;
        Ok(Content::Table(table))
    }

    fn read(&self, path: &Path) -> Result<Bytes> {
        let path = self.staging.join(path);
        let read = std::fs::read(&path).map(Bytes::from);
        read.map_err(|source| Error::io(format!("reading {}", path.display()), source))
    }

    /// Removes what no manifest names. A successor's tables have a later epoch in their names.
    fn remove_old(&self, before: Option<&Manifest>, newest: &Manifest) -> Result<()> {
        let named = before.into_iter().chain([newest]).flat_map(Manifest::tables);
        let named: BTreeSet<String> = named.map(|table| table.name()).collect();
        let mut old = self.vault.list(TABLES)?;
        old.retain(|name| !named.contains(name) && epoch_of(name).is_some_and(|epoch| epoch <= self.epoch));
        if old.is_empty() { Ok(()) } else { self.vault.remove(&old) }
    }

    fn clear(&self) -> Result<()> {
        match std::fs::remove_dir_all(&self.staging) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::io(format!("removing {}", self.staging.display()), source))
            }
            _ => Ok(()),
        }
    }
}
