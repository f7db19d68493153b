//! A log in memory, for tests. With [`Faults`] it loses, delays and reorders by choices that a seed replays.
//!
//! - It has no thread: appends are answered within [`Log::append`] and [`Log::drive`], or when another call arrives.
//! - Its clock stands still until [`Memory::pass`] moves it.

mod faults;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::batch::{Batch, Entry, Limit};
use crate::error::{Error, Result};
use crate::log::{Done, Log};
use crate::owner::{Claim, Epoch, LogId, Tail, Tenure};
use crate::standing::{Follower, Standing};

pub use self::faults::Faults;
use self::faults::{Fate, UnderWay};

/// A log in memory. Servers share it by an `Arc`.
pub struct Memory(Mutex<State>);

struct State {
    content: Content,
    faults: Faults,
    interrupted: bool,
    under_way: Vec<UnderWay>,
}

/// What the log holds.
struct Content {
    id: LogId,
    now: Duration,
    owner: Option<Owner>,
    epoch: Epoch,
    first: u64,
    entries: BTreeMap<u64, (Epoch, Bytes)>,
    /// The name of the present epoch's server.
    server: String,
    /// What servers announced, by their names: when, up to which entry, and how many they lacked.
    announced: BTreeMap<String, (Duration, u64, u64)>,
}

struct Owner {
    server: String,
    until: Duration,
    lease: Duration,
}

/// An answer to be given once the state is unlocked.
type Answer = (Done, Result<()>);

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Memory {
    /// An empty log without faults.
    pub fn new() -> Self {
        Self::with(LogId(*b"a log in memory!"), Faults::none())
    }

    /// An empty log with this identity and these faults.
    pub fn with(id: LogId, faults: Faults) -> Self {
        let (now, entries, announced) = (Duration::ZERO, BTreeMap::new(), BTreeMap::new());
        let content = Content { id, now, owner: None, epoch: 0, first: 1, entries, server: String::new(), announced };
        Self(Mutex::new(State { content, faults, interrupted: false, under_way: Vec::new() }))
    }

    /// Moves the log's clock.
    pub fn pass(&self, time: Duration) {
        self.0.lock().content.now += time;
    }

    /// Interrupts the network to the log, or restores it: meanwhile calls answer that the log is not available, and
    /// appends wait.
    pub fn interrupt(&self, interrupted: bool) {
        self.0.lock().interrupted = interrupted;
    }

    /// The number of appends that have no answer, or may still arrive.
    pub fn under_way(&self) -> usize {
        self.0.lock().under_way.len()
    }

    /// Runs one call, before and after which messages under way may arrive.
    fn call<T>(&self, call: impl FnOnce(&mut Content) -> Result<T>) -> Result<T> {
        let mut state = self.0.lock();
        if state.interrupted {
            return Err(Error::Unavailable { why: "the network is interrupted".to_owned() });
        }
        let mut answers = state.arrivals();
        let outcome = call(&mut state.content);
        answers.extend(state.arrivals());
        drop(state);
        give(answers);
        outcome
    }
}

fn give(answers: Vec<Answer>) {
    for (done, outcome) in answers {
        done(outcome);
    }
}

impl State {
    /// Lets some of what is under way arrive.
    fn arrivals(&mut self) -> Vec<Answer> {
        let mut answers = Vec::new();
        while !self.interrupted && !self.under_way.is_empty() && self.faults.arrives() {
            answers.extend(self.arrive());
        }
        answers
    }

    /// Lets one append arrive, or get lost.
    fn arrive(&mut self) -> Option<Answer> {
        let at = self.faults.choose(self.under_way.len());
        let UnderWay { batch, done } = self.under_way.remove(at);
        let Some(done) = done else {
            // Its sender has had an answer: it was late.
            drop(self.content.append(&batch));
            return None;
        };
        let lost = |why: &str| Err(Error::Indeterminate { why: why.to_owned() });
        let outcome = match self.faults.fate() {
            Fate::Answered => self.content.append(&batch),
            Fate::AnswerLost => {
                drop(self.content.append(&batch));
                lost("the answer was lost")
            }
            Fate::RequestLost => lost("the request was lost"),
            Fate::Late => {
                self.under_way.push(UnderWay { batch, done: None });
                lost("the connection was lost")
            }
            Fate::Refused => Err(Error::Unavailable { why: "the log is full".to_owned() }),
        };
        Some((done, outcome))
    }
}

impl Content {
    fn next(&self) -> u64 {
        let numbers = self.entries.range(self.first..).map(|(number, _)| *number);
        (self.first..).zip(numbers).take_while(|(expected, number)| expected == number).count() as u64 + self.first
    }

    fn tail(&self) -> Tail {
        Tail { id: self.id, first: self.first, next: self.next() }
    }

    fn check(&self, epoch: Epoch) -> Result<()> {
        if epoch == self.epoch { Ok(()) } else { Err(Error::Fenced { epoch }) }
    }

    fn append(&mut self, batch: &Batch) -> Result<()> {
        self.check(batch.epoch)?;
        let taken = |number: u64| number < self.first || self.entries.contains_key(&number);
        if batch.numbered().any(|(number, _)| taken(number)) {
            return Err(Error::Taken { number: batch.first });
        }
        self.entries.extend(batch.numbered().map(|(number, body)| (number, (batch.epoch, body.clone()))));
        Ok(())
    }

    fn fence(&mut self, claim: &Claim) -> Result<Tenure> {
        if let Some(Owner { server, until, .. }) = &self.owner
            && *server != claim.server
            && self.now < *until
        {
            return Err(Error::Held { server: server.clone(), remaining: *until - self.now });
        }
        let (server, lease) = (claim.server.clone(), claim.lease);
        self.server.clone_from(&server);
        self.owner = Some(Owner { server, until: self.now + lease, lease });
        self.epoch += 1;
        let next = self.next();
        self.entries.split_off(&next);
        Ok(Tenure { epoch: self.epoch, tail: self.tail() })
    }

    fn read(&self, number: u64, limit: Limit) -> Result<Vec<Entry>> {
        if number < self.first {
            return Err(Error::Trimmed { first: self.first });
        }
        let (mut read, mut bytes) = (Vec::new(), 0);
        for (expected, (number, (epoch, body))) in (number..).zip(self.entries.range(number..)) {
            bytes += body.len();
            if *number != expected || read.len() >= limit.entries || (bytes > limit.bytes && !read.is_empty()) {
                break;
            }
            read.push(Entry { number: *number, epoch: *epoch, body: body.clone() });
        }
        Ok(read)
    }

    fn announce(&mut self, server: &str, at: u64) {
        let behind = (self.next() - 1).saturating_sub(at);
        self.announced.insert(server.to_owned(), (self.now, at, behind));
    }

    fn standing(&self, within: Duration) -> Standing {
        let follower = |(server, (at_time, at, behind)): (&String, &(Duration, u64, u64))| Follower {
            server: server.clone(),
            at: *at,
            behind: *behind,
            seen: self.now - *at_time,
        };
        let mut followers: Vec<_> = self.announced.iter().map(follower).collect();
        followers.retain(|follower| follower.seen <= within && follower.server != self.server);
        followers.sort_by_key(|follower| follower.behind);
        let lease = self.owner.as_ref().map_or(Duration::ZERO, |owner| owner.until.saturating_sub(self.now));
        Standing { epoch: self.epoch, server: self.server.clone(), lease, followers }
    }

    fn trim(&mut self, epoch: Epoch, below: u64) -> Result<()> {
        self.check(epoch)?;
        if below >= self.next() {
            return Err(Error::Invalid { why: format!("the log cannot be trimmed to {below}: it has no such entry") });
        }
        self.first = self.first.max(below);
        self.entries = self.entries.split_off(&self.first);
        Ok(())
    }
}

impl Log for Memory {
    fn fence(&self, claim: &Claim) -> Result<Tenure> {
        self.call(|content| content.fence(claim))
    }

    fn renew(&self, epoch: Epoch) -> Result<()> {
        self.call(|content| {
            content.check(epoch)?;
            let now = content.now;
            content.owner.iter_mut().for_each(|owner| owner.until = now + owner.lease);
            Ok(())
        })
    }

    fn release(&self, epoch: Epoch) -> Result<()> {
        self.call(|content| {
            content.check(epoch)?;
            content.owner = None;
            Ok(())
        })
    }

    fn append(&self, batch: Batch, done: Done) {
        if let Err(error) = batch.check() {
            return done(Err(error));
        }
        let mut state = self.0.lock();
        state.under_way.push(UnderWay { batch, done: Some(done) });
        let answers = state.arrivals();
        drop(state);
        give(answers);
    }

    fn read_from(&self, number: u64, limit: Limit) -> Result<Vec<Entry>> {
        self.call(|content| content.read(number, limit))
    }

    fn trim(&self, epoch: Epoch, below: u64) -> Result<()> {
        self.call(|content| content.trim(epoch, below))
    }

    fn tail(&self) -> Result<Tail> {
        self.call(|content| Ok(content.tail()))
    }

    fn announce(&self, server: &str, at: u64) -> Result<()> {
        self.call(|content| {
            content.announce(server, at);
            Ok(())
        })
    }

    fn standing(&self, within: Duration) -> Result<Standing> {
        self.call(|content| Ok(content.standing(within)))
    }

    fn drive(&self) -> bool {
        let mut state = self.0.lock();
        if state.interrupted || state.under_way.iter().all(|append| append.done.is_none()) {
            return false;
        }
        let answer = state.arrive();
        drop(state);
        give(answer.into_iter().collect());
        true
    }
}

#[cfg(test)]
mod tests;
