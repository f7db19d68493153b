//! The cache of bucket records, which each call of a mount and each of its changes reads.
//!
//! - A record is cached with the count of bucket changes at that time. It is valid for a snapshot or a transaction as
//!   long as that count is unchanged and no change is in progress.
//! - A change is announced before it is written, and ends with its transaction, committed or not.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use crate::error::{Error, Result};
use crate::meta::{Read, Txn};
use crate::name::BucketName;
use crate::record::bucket::Bucket;
use crate::record::key::{self, tag};

/// Cached records of buckets.
#[derive(Default)]
pub(crate) struct KnownBuckets {
    changes: AtomicU64,
    under_way: AtomicU64,
    kept: RwLock<Kept>,
}

#[derive(Default)]
struct Kept {
    /// The number of changes at which the cache was read.
    changes: u64,
    records: HashMap<BucketName, Bucket>,
}

/// A change of a bucket's record in progress.
struct Changing(Arc<KnownBuckets>);

impl Drop for Changing {
    fn drop(&mut self) {
        self.0.changes.fetch_add(1, Ordering::SeqCst);
        self.0.under_way.fetch_sub(1, Ordering::SeqCst);
    }
}

impl KnownBuckets {
    /// Must be called before a bucket's record is written or deleted.
    pub fn change(self: &Arc<Self>, txn: &mut dyn Txn) {
        self.under_way.fetch_add(1, Ordering::SeqCst);
        let changing = Changing(self.clone());
        // If the transaction fails, this is dropped too.
        txn.after_commit(Box::new(move || drop(changing)));
    }

    /// The number of changes so far; `None` while one is in progress.
    pub fn moment(&self) -> Option<u64> {
        let quiet = self.under_way.load(Ordering::SeqCst) == 0;
        quiet.then(|| self.changes.load(Ordering::SeqCst))
    }

    /// The record of a bucket, if it is known at a moment.
    pub fn find(&self, moment: u64, name: &BucketName) -> Option<Bucket> {
        let kept = self.kept.read();
        kept.records.get(name).filter(|_| kept.changes == moment).cloned()
    }

    /// Keeps a record that was read at a moment.
    pub fn keep(&self, moment: u64, name: &BucketName, record: &Bucket) {
        let mut kept = self.kept.write();
        if kept.changes < moment {
            *kept = Kept { changes: moment, records: HashMap::new() };
        }
        if kept.changes == moment {
            kept.records.insert(name.clone(), record.clone());
        }
    }
}

/// The name of the bucket with an id; `None` if it does not exist.
pub(crate) fn name_of(read: &dyn Read, id: u64) -> Result<Option<BucketName>> {
    let Some(value) = read.get(&key::by_id(tag::BUCKET_ID, id))? else { return Ok(None) };
    let name = String::from_utf8_lossy(&value);
    let damaged = |_| Error::corrupt(format!("the record of the bucket with the id {id}"), "its name", name.clone());
    name.parse().map(Some).map_err(damaged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::{Durability, Meta, memory};

    fn changed(meta: &Meta, known: &Arc<KnownBuckets>, fails: bool) -> Option<u64> {
        let (shared, seen) = (known.clone(), Arc::new(RwLock::new(None)));
        let told = seen.clone();
        let done = meta.transact(Durability::Buffered, move |txn| {
            shared.change(txn);
            *told.write() = shared.moment();
            if fails { Err(Error::invalid("test", "", "fails")) } else { Ok(()) }
        });
        assert_eq!(done.is_err(), fails);
        *seen.read()
    }

    #[test]
    fn a_record_is_kept_until_a_change_begins() {
        let (meta, known) = (Meta::new(memory::open().unwrap()), Arc::new(KnownBuckets::default()));
        let name: BucketName = "jar".parse().unwrap();
        let record = Bucket { id: 7, ..Bucket::default() };
        for fails in [false, true] {
            let moment = known.moment().unwrap();
            known.keep(moment, &name, &record);
            assert_eq!(known.find(moment, &name), Some(record.clone()));
            assert_eq!(changed(&meta, &known, fails), None, "nothing is known while a change is under way");
            let after = known.moment().unwrap();
            assert!(after > moment && known.find(after, &name).is_none());
            known.keep(moment, &name, &record);
            assert!(known.find(after, &name).is_none(), "what was read before the change is not kept after it");
        }
    }
}
