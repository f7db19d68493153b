//! Request counters by bucket and class of operation.
//!
//! - At most [`BUCKETS_MAX`] buckets have their own counters. Requests to all others are summed as [`REST`], including
//!   requests that name a missing bucket. A bucket that itself has this name always counts there.
//! - When the set of buckets changes, the table is replaced as a whole; requests read it without a lock.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use arc_swap::ArcSwap;
use objstore::name::BucketName;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;

/// The most buckets with their own counters.
pub const BUCKETS_MAX: usize = 200;

/// The label of all other buckets.
pub const REST: &str = "other";

/// Classes of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Read,
    Write,
    List,
    Delete,
    /// Operations on the bucket itself and its settings.
    Settings,
    /// Requests refused before routing, or unsupported operations.
    Unknown,
}

/// The labels of the classes, in the order of [`Class`].
const NAMES: [&str; Class::Unknown as usize + 1] = ["read", "write", "list", "delete", "settings", "unknown"];

impl Class {
    /// The class of an operation, by its name in the access line.
    fn of(operation: &str) -> Self {
        let begins = |verbs: &[&str]| verbs.iter().any(|verb| operation.starts_with(verb));
        if begins(&["List"]) {
            Self::List
        } else if ["Bucket", "PublicAccessBlock", "ObjectLockConfiguration"].iter().any(|noun| operation.contains(noun))
        {
            Self::Settings
        } else if begins(&["Get", "Head"]) {
            Self::Read
        } else if begins(&["Delete", "Abort"]) {
            Self::Delete
        } else if begins(&["Put", "Copy", "Create", "Upload", "Complete", "Post", "Restore"]) {
            Self::Write
        } else {
            Self::Unknown
        }
    }
}

/// The counters of one bucket, by class.
type Counts = [AtomicU64; NAMES.len()];

/// The counters of all buckets.
#[derive(Debug, Default)]
pub(super) struct Buckets {
    own: ArcSwap<HashMap<BucketName, Arc<Counts>>>,
    rest: Counts,
}

impl Buckets {
    /// Counts a request on a bucket.
    pub(super) fn count(&self, bucket: &BucketName, operation: &str) {
        let own = self.own.load();
        let counts = own.get(bucket).map_or(&self.rest, |counts| &**counts);
        counts[Class::of(operation) as usize].fetch_add(1, Relaxed);
    }

    /// Gives exactly these buckets their own counters.
    pub(super) fn set(&self, names: impl IntoIterator<Item = BucketName>) {
        let before = self.own.load();
        let names = names.into_iter().filter(|name| name.as_str() != REST).take(BUCKETS_MAX);
        let counts = |name: &BucketName| before.get(name).cloned().unwrap_or_default();
        let now: HashMap<_, _> = names.map(|name| (name.clone(), counts(&name))).collect();
        if now.len() != before.len() || now.keys().any(|name| !before.contains_key(name)) {
            self.own.store(Arc::new(now));
        }
    }
}

/// The collector that Prometheus scrapes.
#[derive(Debug)]
pub(super) struct RequestCollector(pub(super) Arc<Buckets>);

impl Collector for RequestCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help =
            "S3 requests about a bucket, by class of operation; other: all buckets without a series of their own";
        let mut family = encoder.encode_descriptor("bucket_requests", help, None, MetricType::Counter)?;
        let own = self.0.own.load();
        let mut rows: Vec<(&str, &Counts)> = own.iter().map(|(name, counts)| (name.as_str(), &**counts)).collect();
        rows.sort_unstable_by_key(|(name, _)| *name);
        rows.push((REST, &self.0.rest));
        for (bucket, counts) in rows {
            for (class, count) in NAMES.iter().zip(counts) {
                let labels = [("bucket", bucket), ("class", *class)];
                ConstCounter::new(count.load(Relaxed)).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_has_a_class() {
        for operation in crate::operations().chain(["PostObject"]) {
            assert_ne!(Class::of(operation), Class::Unknown, "{operation}");
        }
        for (operation, class) in [
            ("GetObject", Class::Read),
            ("PutObjectTagging", Class::Write),
            ("DeleteObjects", Class::Delete),
            ("ListBuckets", Class::List),
            ("DeleteBucketPolicy", Class::Settings),
            ("UploadPart", Class::Write),
            ("-", Class::Unknown),
            ("NotOffered", Class::Unknown),
        ] {
            assert_eq!(Class::of(operation), class, "{operation}");
        }
    }

    fn name(name: &str) -> BucketName {
        name.parse().unwrap()
    }

    fn total(counts: &Counts) -> u64 {
        counts.iter().map(|count| count.load(Relaxed)).sum()
    }

    #[test]
    fn counters_go_on_over_a_change_of_the_buckets_and_are_bounded() {
        let buckets = Buckets::default();
        buckets.set([name("aaa"), name(REST)]);
        for bucket in ["aaa", "aaa", "bbb", REST] {
            buckets.count(&name(bucket), "GetObject");
        }
        buckets.set((0..10_000).map(|number| name(&format!("b-{number:05}"))).chain([name("aaa")]));
        assert_eq!(buckets.own.load().len(), BUCKETS_MAX);
        buckets.set([name("aaa"), name("bbb")]);
        assert_eq!((buckets.own.load().len(), total(&buckets.rest)), (2, 2));
        buckets.count(&name("aaa"), "GetObject");
        assert_eq!(total(&buckets.own.load()[&name("aaa")]), 1, "it was not among those in between");
        buckets.set([name("bbb"), name("aaa"), name("ccc")]);
        assert_eq!(total(&buckets.own.load()[&name("aaa")]), 1);
    }
}
