//! Collection of records of completed uploads, after one day.

use std::sync::Arc;

use crate::clock::Timestamp;
use crate::core::Core;
use crate::error::Result;
use crate::meta::Durability;
use crate::record::decode;
use crate::record::key::{self, tag};
use crate::record::upload::Completed;
use crate::store::COMPLETED_KEPT;

/// The interval of collections in nanoseconds: an hour.
const EVERY: i64 = 60 * 60 * 1_000_000_000;
/// Records examined in one step.
const STEP: usize = 512;

/// Removes completions that are more than a day old, once an hour; returns how many. `looked` is the time of the last
/// collection.
pub(super) fn collect(core: &Arc<Core>, looked: &mut Option<Timestamp>, stopping: &dyn Fn() -> bool) -> Result<u64> {
    let now = core.clock.now();
    if looked.is_some_and(|before| (before.0..before.0.saturating_add(EVERY)).contains(&now.0)) {
        return Ok(0);
    }
    let (mut from, end) = (vec![tag::COMPLETED], key::after_prefix(&[tag::COMPLETED]));
    let mut removed = 0;
    while !stopping() {
        let pairs = core.meta.snapshot().scan(&from, &end, STEP)?;
        let mut ended = Vec::new();
        for pair in &pairs {
            let record: Completed = decode("a completed upload", &pair.value)?;
            if record.at.saturating_add(COMPLETED_KEPT) <= now.0 {
                ended.push(pair.key.to_vec());
            }
        }
        removed += ended.len() as u64;
        if !ended.is_empty() {
            let gone = core.meta.write(Durability::Buffered, move |txn| {
                ended.into_iter().for_each(|key| txn.delete(key));
                Ok(())
            });
            gone.wait()?;
        }
        match pairs.last() {
            Some(last) if pairs.len() == STEP => from = [&last.key[..], &[0]].concat(),
            _ => {
                *looked = Some(now);
                break;
            }
        }
    }
    Ok(removed)
}
