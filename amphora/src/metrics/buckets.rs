//! Metrics per bucket: usage, quota, and time of the last backup.
//!
//! - At most [`s3::BUCKETS_MAX`] buckets have their own series, the same for all metrics, and keep them while they
//!   exist; all others are summed as [`s3::REST`].
//! - Values may be some seconds old: reading them takes at most a twentieth of the time, however many buckets exist and
//!   however often a client scrapes.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use objstore::Store;
use objstore::name::BucketName;
use objstore::store::BucketUsage;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use super::{counter, gauge, seconds, whole};
use crate::backups::Backups;

/// Values are shown for this many times the duration of reading them.
const REST_FACTOR: u32 = 20;
/// The least time for which values are shown.
const REST_MIN: Duration = Duration::from_millis(200);

/// The metrics of all buckets: a cheap handle.
#[derive(Clone)]
pub struct Buckets {
    store: Store,
    s3: s3::Metrics,
    backups: Arc<Backups>,
    seen: Arc<Mutex<Seen>>,
}

impl fmt::Debug for Buckets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Buckets")
    }
}

/// The values read last.
#[derive(Default)]
struct Seen {
    /// Until when they are shown.
    until: Option<Instant>,
    /// The buckets with their own series.
    own: BTreeSet<BucketName>,
    count: usize,
    rows: Vec<Row>,
}

/// The values of one bucket, or of the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Row {
    name: String,
    bytes: u64,
    upload_bytes: u64,
    inodes: u64,
    /// `None` if the store does not know it; for the rest, the sum of the known ones.
    objects: Option<u64>,
    hidden_keys: Option<u64>,
    quota_bytes: Option<u64>,
    /// In seconds since 1970; for the rest, the oldest.
    backup: Option<u64>,
}

impl Buckets {
    /// The metrics of the buckets of `store`; `s3` counts requests to those with their own series.
    pub fn new(store: &Store, s3: &s3::Metrics, backups: &Arc<Backups>) -> Self {
        Self { store: store.clone(), s3: s3.clone(), backups: backups.clone(), seen: Arc::default() }
    }

    /// Reads the values if the last ones are too old. Blocking.
    pub fn refresh(&self) {
        self.look(|_| ());
    }

    fn look<T>(&self, show: impl FnOnce(&Seen) -> T) -> T {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let started = Instant::now();
        if seen.until.is_none_or(|until| until <= started) {
            match self.store.usages() {
                Ok(usages) => {
                    seen.take(&usages, |usage| self.backups.last(usage.name.as_str(), usage.id));
                    self.s3.set_buckets(seen.own.iter().cloned());
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot read the usage of buckets; metrics show the last known values");
                }
            }
            seen.until = Some(Instant::now() + REST_MIN.max(started.elapsed() * REST_FACTOR));
        }
        show(&seen)
    }
}

impl Seen {
    fn take(&mut self, usages: &[BucketUsage], backup: impl Fn(&BucketUsage) -> Option<objstore::clock::Timestamp>) {
        let there: BTreeSet<&BucketName> = usages.iter().map(|usage| &usage.name).collect();
        self.own.retain(|name| there.contains(name));
        let free = s3::BUCKETS_MAX.saturating_sub(self.own.len());
        let new = there.into_iter().filter(|name| name.as_str() != s3::REST && !self.own.contains(*name)).take(free);
        let new: Vec<BucketName> = new.cloned().collect();
        self.own.extend(new);
        self.count = usages.len();
        let mut rest = Row { name: s3::REST.to_owned(), ..Row::default() };
        self.rows.clear();
        for usage in usages {
            let row = Row::of(usage, backup(usage).map(|at| seconds(Some(at))));
            if self.own.contains(&usage.name) {
                self.rows.push(row);
            } else {
                rest.add(&row);
            }
        }
        self.rows.push(rest);
    }
}

impl Row {
    fn of(usage: &BucketUsage, backup: Option<u64>) -> Self {
        Self {
            name: usage.name.to_string(),
            bytes: usage.usage.bytes,
            upload_bytes: usage.usage.upload_bytes,
            inodes: usage.usage.inodes,
            objects: usage.usage.objects,
            hidden_keys: usage.usage.hidden,
            quota_bytes: usage.usage.limit_bytes,
            backup,
        }
    }

    /// Adds a bucket to the rest; quotas are not added up.
    fn add(&mut self, row: &Self) {
        self.bytes = self.bytes.saturating_add(row.bytes);
        self.upload_bytes = self.upload_bytes.saturating_add(row.upload_bytes);
        self.inodes = self.inodes.saturating_add(row.inodes);
        self.objects = sum(self.objects, row.objects);
        self.hidden_keys = sum(self.hidden_keys, row.hidden_keys);
        self.backup = self.backup.into_iter().chain(row.backup).min();
    }
}

fn sum(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.into_iter().chain(other).reduce(u64::saturating_add)
}

impl Collector for Buckets {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let (count, rows) = self.look(|seen| (seen.count, seen.rows.clone()));
        gauge(&mut encoder, "buckets", "Number of buckets", count as u64)?;
        type Value = fn(&Row) -> Option<u64>;
        let families: [(&str, &str, Value); 7] = [
            ("bucket_size_bytes", "Sum of the sizes of the files of a bucket", |row| Some(row.bytes)),
            ("bucket_upload_bytes", "Bytes of multipart uploads in progress in a bucket", |row| Some(row.upload_bytes)),
            ("bucket_inodes", "Files, directories and symbolic links of a bucket", |row| Some(row.inodes)),
            ("bucket_objects", "Current objects of a bucket, as a listing counts them", |row| row.objects),
            ("bucket_hidden_keys", "Current objects of a bucket that mounts cannot show", |row| row.hidden_keys),
            ("bucket_quota_bytes", "Quota of a bucket in bytes; no series without a quota", |row| row.quota_bytes),
            (
                "bucket_last_backup_timestamp_seconds",
                "Time of the content in the last backup of a bucket, in seconds since 1970; no series without a backup",
                |row| row.backup,
            ),
        ];
        for (name, help, value) in families {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for row in &rows {
                if let Some(value) = value(row) {
                    let label = [("bucket", row.name.as_str())];
                    ConstGauge::new(whole(value)).encode(family.encode_family(&label)?)?;
                }
            }
        }
        let (done, failed) = self.backups.counts();
        counter(&mut encoder, "backups", "Backups of buckets that succeeded", done)?;
        counter(&mut encoder, "backups_failed", "Backups of buckets that failed", failed)?;
        let help = "Time of the content in the newest backup of any bucket, in seconds since 1970; 0: there is none";
        gauge(&mut encoder, "backup_last_success_timestamp_seconds", help, seconds(self.backups.newest()))
    }
}

#[cfg(test)]
mod tests {
    use objstore::clock::Timestamp;
    use objstore::store::Usage;

    use super::*;

    fn usages(names: impl IntoIterator<Item = String>) -> Vec<BucketUsage> {
        let usage =
            Usage { bytes: 10, inodes: 2, upload_bytes: 1, objects: Some(3), hidden: Some(1), limit_bytes: Some(100) };
        let mut names: Vec<BucketName> = names.into_iter().map(|name| name.parse().expect("a name")).collect();
        names.sort();
        names.into_iter().map(|name| BucketUsage { name, id: 7, usage }).collect()
    }

    #[test]
    fn ten_thousand_buckets_have_a_bounded_number_of_series_and_keep_them() {
        let many = || (0..10_000).map(|number| format!("b-{number:05}"));
        let mut seen = Seen::default();
        seen.take(&usages(["zzz".to_owned(), s3::REST.to_owned()]), |_| None);
        assert_eq!(seen.rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["zzz", "other"]);
        let at = |usage: &BucketUsage| {
            (usage.name.as_str() > "b-09990").then_some(Timestamp(usage.name.as_str().len() as i64 * 1_000_000_000))
        };
        seen.take(&usages(many().chain(["zzz".to_owned()])), at);
        assert_eq!((seen.count, seen.rows.len()), (10_001, s3::BUCKETS_MAX + 1));
        assert!(seen.own.iter().any(|name| name.as_str() == "zzz"), "a bucket keeps its series");
        let rest = seen.rows.last().expect("the rest");
        let others = 10_001 - s3::BUCKETS_MAX as u64;
        let expected = Row {
            name: "other".into(),
            bytes: 10 * others,
            upload_bytes: others,
            inodes: 2 * others,
            objects: Some(3 * others),
            hidden_keys: Some(others),
            quota_bytes: None,
            backup: Some(7),
        };
        assert_eq!(*rest, expected);
        seen.take(&usages(["b-00001".to_owned()]), |_| None);
        assert_eq!((seen.own.len(), seen.rows.len()), (1, 2), "a deleted bucket has no series");
    }
}
