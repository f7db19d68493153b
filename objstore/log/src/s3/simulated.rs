//! Objects in memory, for tests. With [`Faults`] the store loses, delays, repeats and reorders writes, cuts answers, is busy,
//! and lists what was, by choices that a seed replays.
//!
//! - It has no thread: a write without waiting arrives within [`Objects::drive`] or another call.
//! - What a client gave up may arrive at any later time, also after other writes of the same key. Conditions are honoured
//!   then, too.

use std::collections::BTreeMap;

use bytes::Bytes;
use objstore_bucket::{Error, Listed, Object, Result};
use parking_lot::Mutex;

use super::objects::{Objects, Then};

const PAGE: usize = 7;

/// Chooses what goes wrong.
pub struct Faults {
    choose: Option<Box<dyn FnMut(usize) -> usize + Send>>,
    one_in: usize,
}

impl Faults {
    /// Everything arrives at once and is answered.
    pub fn none() -> Self {
        Self { choose: None, one_in: 0 }
    }

    /// Takes its choices from `choose`, which returns a number below its argument; one request in `one_in` goes wrong, in
    /// one way or another (none if that is 0).
    pub fn chosen(choose: impl FnMut(usize) -> usize + Send + 'static, one_in: usize) -> Self {
        Self { choose: Some(Box::new(choose)), one_in }
    }

    fn choose(&mut self, end: usize) -> usize {
        self.choose.as_mut().map_or(0, |choose| choose(end))
    }

    fn fails(&mut self) -> bool {
        self.one_in > 0 && self.choose(self.one_in) == 0
    }

    fn arrives(&mut self) -> bool {
        self.choose.is_none() || self.choose(2) == 0
    }
}

/// An S3 store in memory. Servers share it by an `Arc`.
pub struct Simulated(Mutex<State>);

struct State {
    objects: BTreeMap<String, Object>,
    numbers: u64,
    /// An earlier listing.
    old: Vec<Listed>,
    /// Writes that wait, with who waits for them; or that were given up.
    under_way: Vec<(Write, Option<Then>)>,
    faults: Faults,
    ignores_conditions: bool,
    interrupted: bool,
}

#[derive(Clone)]
enum Write {
    Create(String, Bytes),
    Replace(String, Bytes, String),
    Remove(Vec<String>),
}

impl Simulated {
    /// An empty store.
    pub fn new(faults: Faults) -> Self {
        let (objects, old, under_way) = (BTreeMap::new(), Vec::new(), Vec::new());
        Self(Mutex::new(State {
            objects,
            numbers: 0,
            old,
            under_way,
            faults,
            ignores_conditions: false,
            interrupted: false,
        }))
    }

    /// Ignores conditions of writes from now on, as old servers do.
    pub fn ignore_conditions(&self) {
        self.0.lock().ignores_conditions = true;
    }

    /// Interrupts the network, or restores it.
    pub fn interrupt(&self, interrupted: bool) {
        self.0.lock().interrupted = interrupted;
    }

    /// The keys of all objects.
    pub fn keys(&self) -> Vec<String> {
        self.0.lock().objects.keys().cloned().collect()
    }

    /// Changes an object, or removes it, as no client does.
    pub fn set(&self, key: &str, bytes: Option<Bytes>) {
        let mut state = self.0.lock();
        match bytes {
            Some(bytes) => drop(state.store(key, bytes)),
            None => drop(state.objects.remove(key)),
        }
    }

    /// Runs one call, before and after which writes under way may arrive.
    fn call<T>(&self, call: impl FnOnce(&mut State) -> Result<T>) -> Result<T> {
        let mut state = self.0.lock();
        let mut answers = state.arrivals();
        let outcome = if state.interrupted { Err(lost("the network is interrupted")) } else { call(&mut state) };
        answers.extend(state.arrivals());
        drop(state);
        answers.into_iter().for_each(|(then, outcome)| then(outcome));
        outcome
    }
}

fn lost(why: &str) -> Error {
    Error::Unavailable { operation: "asking for", name: "an object".into(), why: why.to_owned() }
}

type Answer = (Then, Result<String>);

impl State {
    fn arrivals(&mut self) -> Vec<Answer> {
        let mut answers = Vec::new();
        while !self.interrupted && !self.under_way.is_empty() && self.faults.arrives() {
            answers.extend(self.arrive());
        }
        answers
    }

    fn arrive(&mut self) -> Option<Answer> {
        let at = self.faults.choose(self.under_way.len());
        let (write, then) = self.under_way.remove(at);
        match then {
            Some(then) => Some((then, self.write(write))),
            None => {
                drop(self.apply(&write));
                None
            }
        }
    }

    /// Does a write, or lets something go wrong.
    fn write(&mut self, write: Write) -> Result<String> {
        if !self.faults.fails() {
            return self.apply(&write);
        }
        match self.faults.choose(6) {
            0 => {
                drop(self.apply(&write));
                Err(lost("the answer was lost"))
            }
            1 => Err(lost("the request was lost")),
            2 => Err(lost("SlowDown, HTTP status 503")),
            3 => {
                self.under_way.push((write, None));
                Err(lost("it took too long"))
            }
            // A first attempt arrives after the second.
            4 => {
                self.under_way.push((write.clone(), None));
                self.apply(&write)
            }
            _ => {
                drop(self.apply(&write));
                self.under_way.push((write, None));
                Err(lost("it took too long"))
            }
        }
    }

    fn apply(&mut self, write: &Write) -> Result<String> {
        // A listing that is answered later may be from before.
        if self.faults.fails() {
            self.old = self.listing();
        }
        let conflict = |key: &str| Err(Error::Conflict { name: key.to_owned() });
        match write {
            Write::Create(key, _) if self.objects.contains_key(key) && !self.ignores_conditions => conflict(key),
            Write::Replace(key, _, etag)
                if self.objects.get(key).is_none_or(|there| there.etag != *etag) && !self.ignores_conditions =>
            {
                conflict(key)
            }
            Write::Create(key, bytes) | Write::Replace(key, bytes, _) => Ok(self.store(key, bytes.clone())),
            Write::Remove(keys) => {
                keys.iter().for_each(|key| drop(self.objects.remove(key)));
                Ok(String::new())
            }
        }
    }

    fn store(&mut self, key: &str, bytes: Bytes) -> String {
        self.numbers += 1;
        let etag = format!("\"{}\"", self.numbers);
        self.objects.insert(key.to_owned(), Object { bytes, etag: etag.clone() });
        etag
    }

    fn listing(&self) -> Vec<Listed> {
        let listed = |(key, object): (&String, &Object)| Listed { key: key.clone(), length: object.bytes.len() as u64 };
        self.objects.iter().map(listed).collect()
    }

    fn get(&mut self, key: &str, most: usize) -> Result<Object> {
        if self.faults.fails() {
            return Err(match self.faults.choose(2) {
                0 => lost("SlowDown, HTTP status 503"),
                _ => Error::Damaged { name: key.to_owned(), expected: "10 bytes".into(), found: "5 bytes".into() },
            });
        }
        let found = self.objects.get(key).ok_or_else(|| Error::Missing { name: key.to_owned() })?;
        if found.bytes.len() > most {
            let (expected, found) = (format!("at most {most} bytes"), format!("{} bytes", found.bytes.len()));
            return Err(Error::Damaged { name: key.to_owned(), expected, found });
        }
        Ok(found.clone())
    }

    fn list(&mut self, prefix: &str, after: Option<&str>) -> Result<Vec<Listed>> {
        let mut listed = self.listing();
        if self.faults.fails() {
            match self.faults.choose(3) {
                0 => return Err(lost("SlowDown, HTTP status 503")),
                1 => listed = std::mem::take(&mut self.old),
                _ => listed.retain(|_| self.faults.choose(3) > 0),
            }
        }
        let wanted = |listed: &Listed| listed.key.starts_with(prefix) && after.is_none_or(|after| &*listed.key > after);
        Ok(listed.into_iter().filter(wanted).take(PAGE).collect())
    }
}

impl Objects for Simulated {
    fn put(&self, key: &str, bytes: Bytes) -> Result<String> {
        self.call(|state| state.write(Write::Create(key.to_owned(), bytes)))
    }

    fn put_then(&self, key: &str, bytes: Bytes, then: Then) {
        let mut state = self.0.lock();
        state.under_way.push((Write::Create(key.to_owned(), bytes), Some(then)));
        let answers = state.arrivals();
        drop(state);
        answers.into_iter().for_each(|(then, outcome)| then(outcome));
    }

    fn replace(&self, key: &str, bytes: Bytes, etag: &str) -> Result<String> {
        self.call(|state| state.write(Write::Replace(key.to_owned(), bytes, etag.to_owned())))
    }

    fn get(&self, key: &str, most: usize) -> Result<Object> {
        self.call(|state| state.get(key, most))
    }

    fn get_each(&self, keys: &[(String, usize)]) -> Vec<Result<Object>> {
        keys.iter().map(|(key, most)| self.get(key, *most)).collect()
    }

    fn list(&self, prefix: &str, after: Option<&str>) -> Result<Vec<Listed>> {
        self.call(|state| state.list(prefix, after))
    }

    fn remove(&self, keys: &[String]) -> Result<()> {
        self.call(|state| state.write(Write::Remove(keys.to_vec())).map(drop))
    }

    fn drive(&self) -> bool {
        let mut state = self.0.lock();
        if state.interrupted || state.under_way.iter().all(|(_, then)| then.is_none()) {
            return false;
        }
        let answer = state.arrive();
        drop(state);
        answer.into_iter().for_each(|(then, outcome)| then(outcome));
        true
    }
}
