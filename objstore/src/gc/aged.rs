//! Collection of records that are kept for a day: completed uploads, and the ids of ended sessions of other machines.

use std::sync::Arc;

use crate::clock::Timestamp;
use crate::core::Core;
use crate::error::Result;
use crate::meta::Durability;
use crate::record::decode;
use crate::record::key::{self, tag};
use crate::record::session::Ended;
use crate::record::upload::Completed;
use crate::store::{COMPLETED_KEPT, ENDED_KEPT};

/// The interval of collections in nanoseconds: an hour.
const EVERY: i64 = 60 * 60 * 1_000_000_000;
/// Records examined in one step.
const STEP: usize = 512;

/// A kind of records that age.
struct Kind {
    tag: u8,
    /// Until when a record is kept, in nanoseconds since 1970.
    until: fn(&[u8]) -> Result<i64>,
}

const KINDS: [Kind; 2] = [
    Kind {
        tag: tag::COMPLETED,
        until: |value| Ok(decode::<Completed>("a completed upload", value)?.at.saturating_add(COMPLETED_KEPT)),
    },
    Kind {
        tag: tag::ENDED,
        until: |value| Ok(decode::<Ended>("an ended session", value)?.at.saturating_add(ENDED_KEPT)),
    },
];

/// Removes records that are more than a day old, once an hour; returns how many. `looked` is the time of the last
/// collection.
pub(super) fn collect(core: &Arc<Core>, looked: &mut Option<Timestamp>, stopping: &dyn Fn() -> bool) -> Result<u64> {
    let now = core.clock.now();
    if looked.is_some_and(|before| (before.0..before.0.saturating_add(EVERY)).contains(&now.0)) {
        return Ok(0);
    }
    let mut removed = 0;
    for kind in &KINDS {
        removed += collect_kind(core, kind, now, stopping)?;
    }
    if !stopping() {
        *looked = Some(now);
    }
    Ok(removed)
}

fn collect_kind(core: &Arc<Core>, kind: &Kind, now: Timestamp, stopping: &dyn Fn() -> bool) -> Result<u64> {
    let (mut from, end) = (vec![kind.tag], key::after_prefix(&[kind.tag]));
    let mut removed = 0;
    while !stopping() {
        let pairs = core.meta.snapshot().scan(&from, &end, STEP)?;
        let mut aged = Vec::new();
        for pair in &pairs {
            if (kind.until)(&pair.value)? <= now.0 {
                aged.push(pair.key.to_vec());
            }
        }
        removed += aged.len() as u64;
        if !aged.is_empty() {
            let gone = core.meta.write(Durability::Buffered, move |txn| {
                aged.into_iter().for_each(|key| txn.delete(key));
                Ok(())
            });
            gone.wait()?;
        }
        match pairs.last() {
            Some(last) if pairs.len() == STEP => from = [&last.key[..], &[0]].concat(),
            _ => break,
        }
    }
    Ok(removed)
}
