//! Trimming: the record's beginning is raised first, then the objects below it are removed.
//!
//! - What is removed follows from listings, which may lack objects: an epoch whose entries are all trimmed stays in the
//!   record until a listing shows nothing but its seal.
//! - A batch is removed when the most entries that it may have are below the log's beginning, also if the listing is wrong.
//!
//! A crash leaves objects below the beginning, which the next trim removes.

use std::time::Duration;

use super::record::Ended;
use super::{S3, keys};
use crate::batch::MAX_BATCH_ENTRIES;
use crate::error::{Error, Result};
use crate::owner::Epoch;

/// After how long the announcement of a server that is gone is removed.
const GONE: Duration = Duration::from_secs(24 * 3600);

impl S3 {
    pub(super) fn trim_below(&self, epoch: Epoch, below: u64) -> Result<()> {
        let next = self.next_of(epoch);
        let record = self.change(epoch, |record| {
            // Checked here: what another epoch asks for changes nothing.
            if below < next {
                // Readers begin at the mark, so it is never below what is removed.
                record.mark = record.mark.max(next);
                record.trim(below);
            }
        })?;
        if below >= next {
            return Err(Error::Invalid { why: format!("the log cannot be trimmed to {below}: it has no such entry") });
        }
        let removed = record.segments.first().map_or(Ok(()), |segment| self.remove_below(segment.epoch, record.first));
        let cleaned: objstore_bucket::Result<Vec<Ended>> = record
            .ended
            .iter()
            .filter_map(|ended| self.remove_all(*ended).map(|clean| clean.then_some(*ended)).transpose())
            .collect();
        let gone = self.remove_announcements(GONE);
        match removed.and(cleaned).and_then(|cleaned| gone.map(|()| cleaned)) {
            Ok(cleaned) if cleaned.is_empty() => Ok(()),
            Ok(cleaned) => self.change(epoch, |record| record.ended.retain(|it| !cleaned.contains(it))).map(drop),
            Err(error) => {
                tracing::warn!(%error, "trimmed objects of the log were not removed; the next trim tries it again");
                Ok(())
            }
        }
    }

    /// Removes the batches of the epoch that end at or below `first`.
    fn remove_below(&self, epoch: Epoch, first: u64) -> objstore_bucket::Result<()> {
        let (prefix, mut last): (_, Option<String>) = (keys::epoch(epoch), None);
        loop {
            let page = self.data.list(&prefix, last.as_deref())?;
            last = page.last().map(|listed| listed.key.clone());
            let listed = page.len();
            let is_below = |key: &String| keys::number(key).is_some_and(|at| at + MAX_BATCH_ENTRIES as u64 <= first);
            let below: Vec<_> = page.into_iter().map(|listed| listed.key).take_while(is_below).collect();
            self.data.remove(&below)?;
            if listed == 0 || below.len() < listed {
                return Ok(());
            }
        }
    }

    /// Removes the objects of an epoch, except its seal; `true` if there was none.
    fn remove_all(&self, ended: Ended) -> objstore_bucket::Result<bool> {
        let (prefix, seal) = (keys::epoch(ended.epoch), keys::batch(ended.epoch, ended.seal));
        let (mut last, mut clean): (Option<String>, _) = (None, true);
        loop {
            let page = self.data.list(&prefix, last.as_deref())?;
            let Some(end) = page.last() else { return Ok(clean) };
            last = Some(end.key.clone());
            let keys: Vec<_> = page.into_iter().map(|listed| listed.key).filter(|key| *key != seal).collect();
            clean &= keys.is_empty();
            self.data.remove(&keys)?;
        }
    }
}
