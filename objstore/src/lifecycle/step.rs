//! One step of a lifecycle pass.

use std::sync::Arc;

use prost::Message;

use super::Day;
use super::apply::{Changed, apply};
use super::walk::{View, Walked};
use crate::buckets::name_of;
use crate::clock::Timestamp;
use crate::core::Core;
use crate::error::Result;
use crate::expiry::Rules;
use crate::meta::{Durability, Read, Txn};
use crate::name::BucketName;
use crate::record::bucket::Bucket;
use crate::record::decode;
use crate::record::key::{self, tag};
use crate::record::lifecycle::{Lifecycle, Phase, Place};
use crate::record::settings::Settings;
use crate::store::take_lease_back;
use crate::tree::{Tree, Tx};

/// The most buckets without rules skipped in one step.
const PASSED_MAX: usize = 64;

/// A pass in progress.
#[derive(Clone, Debug)]
pub(crate) struct Pass {
    /// The length of a day.
    pub day: Day,
    /// Its record.
    pub record: Lifecycle,
    /// Number of steps since the position was recorded.
    unwritten: usize,
}

/// Number of steps without a change after which the position is recorded.
const UNWRITTEN_MAX: usize = 16;

/// The result of a step.
#[derive(Debug, Default)]
pub(crate) struct Stepped {
    /// The bucket it examined.
    pub bucket: Option<(u64, BucketName)>,
    /// Number of items examined.
    pub looked_at: u64,
    /// The changes made.
    pub(super) changed: Changed,
    /// Whether the pass is complete.
    pub done: bool,
}

/// A bucket with rules.
struct Visited {
    id: u64,
    name: BucketName,
    record: Bucket,
    settings: Arc<Settings>,
}

/// The record with the position that the last process reached.
pub(super) fn read(read: &dyn Read) -> Result<Lifecycle> {
    let value = read.get(&key::lifecycle())?;
    value.map_or(Ok(Lifecycle::default()), |value| decode("the lifecycle worker", &value))
}

impl Pass {
    /// Continues the pass in the record, or begins a new one.
    pub fn resume(core: &Core, day: Day) -> Result<Self> {
        let mut record = read(&*core.meta.snapshot())?;
        if record.place.is_none() {
            record.started = core.clock.now().0;
            record.place = Some(Place::default());
        }
        Ok(Self { day, record, unwritten: 0 })
    }

    /// Takes one step.
    pub fn step(&mut self, core: &Arc<Core>) -> Result<Stepped> {
        let snapshot = core.meta.snapshot();
        let mut place = self.record.place.clone().unwrap_or_default();
        let mut bucket = place.bucket;
        let next = next_bucket(&*snapshot, core, &mut bucket);
        if bucket != place.bucket {
            // If this bucket is unreadable, it is the one to skip.
            place = Place { bucket, ..Place::default() };
            self.record.place = Some(place.clone());
        }
        let visited = match next? {
            Next::Bucket(visited) => visited,
            Next::Later(bucket) => {
                self.record.place = Some(Place { bucket, ..Place::default() });
                return Ok(Stepped::default());
            }
            Next::None => return Ok(Stepped { done: true, ..Stepped::default() }),
        };
        let now = core.clock.now();
        let ancestry = core.lines.ancestry(&*snapshot, visited.record.clone_group, visited.record.branch)?;
        let rules = Rules { rules: &visited.settings.lifecycle, day: self.day, now };
        let view = View { core, bucket: &visited.record, tree: Tree { read: &*snapshot, ancestry: &ancestry }, rules };
        let walked = match enter(rules, &mut place) {
            Some(area) => look(view, &place, &area)?,
            None => Walked::default(),
        };
        self.record.place = Some(after(rules, place, &walked));
        drop(snapshot);
        let bucket = Some((visited.id, visited.name.clone()));
        let looked_at = walked.looked_at as u64;
        let changed = self.change(core, visited, walked, now)?;
        Ok(Stepped { bucket, looked_at, changed, done: false })
    }

    /// Makes the changes and records the position, in one transaction.
    fn change(&mut self, core: &Arc<Core>, visited: Visited, walked: Walked, now: Timestamp) -> Result<Changed> {
        self.unwritten += 1;
        if walked.changes.is_empty() && self.unwritten < UNWRITTEN_MAX {
            return Ok(Changed::default());
        }
        self.unwritten = 0;
        let leases = core.clone();
        let _changing = leases.leases.change(&visited.name);
        take_lease_back(core, visited.id);
        let (shared, record, day) = (core.clone(), self.record.clone(), self.day);
        let written = core.meta.write(Durability::Buffered, move |txn| {
            put(txn, &record);
            match shared.bucket_record(&*txn, &visited.name)? {
                Some(bucket) if bucket.id == visited.id => {}
                _ => return Ok(Changed::default()),
            }
            let mut tx = Tx::begin(txn, &shared, &visited.name, 0)?;
            let changed = apply(&mut tx, day, now, &walked.changes)?;
            tx.finish()?;
            Ok(changed)
        });
        written.wait()
    }

    /// Abandons the current bucket in this pass.
    pub fn skip_bucket(&mut self) {
        let place = self.record.place.clone().unwrap_or_default();
        self.record.place = Some(Place { bucket: place.bucket + 1, ..Place::default() });
    }

    /// Ends the pass after its last step; returns the time.
    pub fn finish(mut self, core: &Core) -> Result<Timestamp> {
        let now = core.clock.now();
        (self.record.place, self.record.completed) = (None, now.0);
        let written = core.meta.write(Durability::Buffered, move |txn| {
            put(txn, &self.record);
            Ok(now)
        });
        written.wait()
    }
}

fn put(txn: &mut dyn Txn, record: &Lifecycle) {
    txn.put(key::lifecycle(), record.encode_to_vec());
}

/// The next item in the order of buckets.
enum Next {
    /// A bucket with rules.
    Bucket(Visited),
    /// Too many without rules: continue at this id.
    Later(u64),
    /// No more buckets.
    None,
}

/// The next bucket with rules from `at` on; `at` moves to the last one examined.
fn next_bucket(read: &dyn Read, core: &Core, at: &mut u64) -> Result<Next> {
    let end = key::after_prefix(&[tag::SETTINGS]);
    let pairs = read.scan(&key::by_id(tag::SETTINGS, *at), &end, PASSED_MAX)?;
    for pair in &pairs {
        let Some(id) = key::u64_at(&pair.key, 1) else { continue };
        *at = id;
        let Some(name) = name_of(read, id)? else { continue };
        let Some(record) = core.bucket_record(read, &name)? else { continue };
        let settings = core.settings.of(read, &record)?;
        if settings.lifecycle.iter().any(|rule| rule.enabled) {
            return Ok(Next::Bucket(Visited { id, name, record, settings }));
        }
    }
    let last = pairs.last().filter(|_| pairs.len() == PASSED_MAX).and_then(|pair| key::u64_at(&pair.key, 1));
    Ok(last.map_or(Next::None, |last| Next::Later(last + 1)))
}

/// The prefix to examine at `place`, which moves to the first one available.
fn enter(rules: Rules<'_>, place: &mut Place) -> Option<String> {
    let mut phase = place.phase();
    loop {
        let areas = rules.areas(phase);
        let wanted = place.area.clone().unwrap_or_default();
        if let Some(area) = areas.into_iter().find(|area| *area >= wanted.as_str()) {
            if place.area.as_deref() != Some(area) {
                (place.area, place.last) = (Some(area.to_owned()), None);
            }
            return place.area.clone();
        }
        phase = following(phase)?;
        *place = Place { bucket: place.bucket, phase: phase as i32, ..Place::default() };
    }
}

fn look(view: View<'_>, place: &Place, area: &str) -> Result<Walked> {
    match place.phase() {
        Phase::Keys => view.keys(area, place.last.as_ref()),
        Phase::Versions => view.versions(area, place.last.as_ref()),
        Phase::Uploads => view.uploads(area, place.last.as_ref()),
    }
}

fn following(phase: Phase) -> Option<Phase> {
    match phase {
        Phase::Keys => Some(Phase::Versions),
        Phase::Versions => Some(Phase::Uploads),
        Phase::Uploads => None,
    }
}

/// The position after the examined items.
fn after(rules: Rules<'_>, place: Place, walked: &Walked) -> Place {
    if walked.more {
        return Place { last: walked.last.clone().or(place.last), ..place };
    }
    let passed = place.area.clone().unwrap_or_default();
    let next = rules.areas(place.phase()).into_iter().find(|area| *area > passed.as_str());
    if let (Some(area), Some(_)) = (next, &place.area) {
        return Place { area: Some(area.to_owned()), last: None, ..place };
    }
    match following(place.phase()) {
        Some(phase) => Place { bucket: place.bucket, phase: phase as i32, ..Place::default() },
        None => Place { bucket: place.bucket + 1, ..Place::default() },
    }
}
