//! Checkpoints in memory, for tests.

use std::collections::BTreeMap;

use bytes::Bytes;
use objstore_base::error::{Error, Result};
use parking_lot::Mutex;

use super::{Replaced, Tag, Vault};

/// A vault in memory.
#[derive(Debug, Default)]
pub struct Memory(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<String, (Bytes, Tag)>,
    writes: u64,
}

impl State {
    fn set(&mut self, name: &str, content: Bytes) -> Tag {
        self.writes += 1;
        let tag = Tag(self.writes.to_string());
        self.objects.insert(name.to_owned(), (content, tag.clone()));
        tag
    }
}

impl Vault for Memory {
    fn put(&self, name: &str, content: Bytes) -> Result<()> {
        let mut state = self.0.lock();
        if !state.objects.contains_key(name) {
            state.set(name, content);
        }
        Ok(())
    }

    fn get(&self, name: &str, most: usize) -> Result<Option<(Bytes, Tag)>> {
        let found = self.0.lock().objects.get(name).cloned();
        match found {
            Some((content, _)) if content.len() > most => {
                Err(Error::corrupt(name, format!("at most {most} bytes"), format!("{} bytes", content.len())))
            }
            found => Ok(found),
        }
    }

    fn replace(&self, name: &str, content: Bytes, before: Option<&Tag>) -> Result<Replaced> {
        let mut state = self.0.lock();
        if state.objects.get(name).map(|(_, tag)| tag) != before {
            return Ok(Replaced::Conflict);
        }
        Ok(Replaced::Done(state.set(name, content)))
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        let state = self.0.lock();
        Ok(state.objects.keys().filter(|name| name.starts_with(prefix)).cloned().collect())
    }

    fn remove(&self, names: &[String]) -> Result<()> {
        let mut state = self.0.lock();
        names.iter().for_each(|name| drop(state.objects.remove(name)));
        Ok(())
    }
}
