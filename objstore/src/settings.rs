//! The settings of buckets, decoded once.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::meta::Read;
use crate::record::bucket::Bucket;
use crate::record::decode;
use crate::record::key::{self, tag};
use crate::record::settings::Settings;

/// The most bytes of cached settings, measured as stored; decoded they take a few times that.
const CACHED_BYTES_MAX: usize = 16 << 20;
/// Bytes counted for each entry besides its size.
const CACHED_BYTES_EACH: usize = 512;

/// Decoded settings by bucket id.
#[derive(Default)]
pub(crate) struct SettingsCache(Mutex<Cached>);

#[derive(Default)]
struct Cached {
    by_bucket: HashMap<u64, Decoded>,
    bytes: usize,
}

struct Decoded {
    /// The revision at which they were decoded.
    revision: u64,
    settings: Arc<Settings>,
    bytes: usize,
}

impl SettingsCache {
    fn get(&self, bucket: &Bucket) -> Option<Arc<Settings>> {
        let cached = self.0.lock();
        let found = cached.by_bucket.get(&bucket.id).filter(|found| found.revision == bucket.settings);
        found.map(|found| found.settings.clone())
    }

    /// Caches settings decoded from this many bytes.
    fn put(&self, bucket: &Bucket, settings: Arc<Settings>, bytes: usize) {
        let bytes = bytes + CACHED_BYTES_EACH;
        let mut cached = self.0.lock();
        if cached.bytes + bytes > CACHED_BYTES_MAX {
            *cached = Cached::default();
        }
        let decoded = Decoded { revision: bucket.settings, settings, bytes };
        let before = cached.by_bucket.insert(bucket.id, decoded).map_or(0, |before| before.bytes);
        cached.bytes = cached.bytes + bytes - before;
    }

    /// The settings of a bucket whose record was read from the same state.
    pub fn of(&self, read: &dyn Read, bucket: &Bucket) -> Result<Arc<Settings>> {
        if bucket.settings == 0 {
            return Ok(Arc::default());
        }
        if let Some(settings) = self.get(bucket) {
            return Ok(settings);
        }
        let value = read.get(&key::by_id(tag::SETTINGS, bucket.id))?;
        // The settings may contain a policy: without it, what it forbids is unknown.
        let value =
            value.ok_or_else(|| Error::corrupt(format!("settings of bucket {}", bucket.id), "a record", "none"))?;
        let settings: Arc<Settings> = Arc::new(decode("settings", &value)?);
        self.put(bucket, settings.clone(), value.len());
        Ok(settings)
    }
}
