//! An engine in memory, for tests: the real writer over a map that is copied when a snapshot still needs the old one.
//!
//! A crash leaves nothing, neither synced nor buffered writes.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use objstore_base::error::Result;
use parking_lot::RwLock;

use super::backend::{Backend, Changes, span};
use super::engine::{Durability, Engine};
use super::txn::{Pair, Read, Snapshot, Value};
use super::writer::Writer;

/// Opens an empty engine.
pub fn open() -> Result<Arc<dyn Engine>> {
    Ok(Arc::new(Writer::start(Map::default())?))
}

type Pairs = BTreeMap<Bytes, Value>;

#[derive(Default)]
pub(super) struct Map(RwLock<Arc<Pairs>>);

impl Map {
    /// A second engine with the same content.
    pub fn copy(&self) -> Self {
        Self(RwLock::new(Arc::clone(&self.0.read())))
    }

    /// Removes everything.
    #[cfg(test)]
    pub fn clear(&self) {
        *self.0.write() = Arc::default();
    }
}

impl Backend for Map {
    fn snapshot(&self) -> Box<dyn Snapshot> {
        Box::new(View(Arc::clone(&self.0.read())))
    }

    fn commit(&self, changes: Changes, _durability: Durability) -> Result<()> {
        let mut pairs = self.0.write();
        let pairs = Arc::make_mut(&mut pairs);
        for (key, value) in changes {
            match value {
                Some(value) => pairs.insert(key, value),
                None => pairs.remove(&key),
            };
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }
}

struct View(Arc<Pairs>);

impl View {
    fn range<'a>(&'a self, from: &[u8], to: &[u8]) -> impl DoubleEndedIterator<Item = Pair> + use<'a> {
        let bounds = span(from, to).map(|(from, to)| (Bound::Included(from), Bound::Excluded(to)));
        let pairs = bounds.map(|bounds| self.0.range::<[u8], _>(bounds));
        pairs.into_iter().flatten().map(|(key, value)| Pair { key: key.clone(), value: value.clone() })
    }
}

impl Read for View {
    fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        Ok(self.0.get(key).cloned())
    }

    fn scan(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Pair>> {
        Ok(self.range(from, to).take(limit).collect())
    }

    fn scan_back(&self, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Pair>> {
        Ok(self.range(from, to).rev().take(limit).collect())
    }
}

impl Snapshot for View {}

#[cfg(test)]
mod tests {
    use super::super::conformance::{Fixture, suite};
    use super::super::handle::Meta;
    use super::open;

    fn fixture() -> Fixture {
        Fixture { meta: Meta::new(open().unwrap()), folder: None }
    }

    suite!(fixture);
}
