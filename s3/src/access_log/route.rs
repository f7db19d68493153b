//! A cache of access log routes: for each bucket that was looked up, the target bucket and prefix of its log.
//!
//! - An entry is valid while no bucket and no setting changes (`Store::access_epoch`).
//! - Missing buckets have entries too, so that requests about them are not looked up one by one.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use objstore::Store;
use objstore::name::BucketName;
use objstore::store::LogKeyFormat;

/// The most buckets in the cache; one more empties it.
const KNOWN_MAX: usize = 4096;

/// The route of log lines from a logged bucket to its target bucket.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Route {
    /// The bucket that the lines are about.
    pub(super) source: BucketName,
    /// The name of the account that owns it.
    pub(super) owner: String,
    /// The id of that account.
    pub(super) owner_id: u64,
    /// The target bucket.
    pub(super) target: BucketName,
    /// The prefix of the keys of delivered objects.
    pub(super) prefix: String,
    /// The format of the keys behind the prefix.
    pub(super) format: LogKeyFormat,
}

impl Route {
    /// The route of a bucket's lines, if the bucket exists and is logged.
    pub(super) fn find(store: &Store, source: &BucketName) -> objstore::Result<Option<Self>> {
        let found = match store.settings(source) {
            Err(objstore::Error::NotFound { .. }) => return Ok(None),
            found => found?,
        };
        let Some(logging) = &found.settings.logging else { return Ok(None) };
        let Ok(target) = logging.target.parse() else { return Ok(None) };
        Ok(Some(Self {
            source: source.clone(),
            owner: store.bucket(source)?.owner,
            owner_id: found.owner,
            target,
            prefix: logging.prefix.clone(),
            format: logging.key_format(),
        }))
    }
}

/// The cached knowledge about a bucket's route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The bucket is not logged, or does not exist.
    Nowhere,
    /// The bucket's lines have this route.
    To(Arc<Route>),
    /// The bucket has to be looked up.
    Unknown,
}

/// The routes that were looked up.
#[derive(Default)]
pub(super) struct Routes(RwLock<Known>);

#[derive(Default)]
struct Known {
    epoch: u64,
    by_bucket: HashMap<BucketName, Option<Arc<Route>>>,
}

impl Routes {
    /// The cached route of a bucket, if it was looked up in this epoch.
    pub(super) fn way(&self, epoch: Option<u64>, bucket: &BucketName) -> Way {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if epoch != Some(known.epoch) {
            return Way::Unknown;
        }
        match known.by_bucket.get(bucket) {
            None => Way::Unknown,
            Some(None) => Way::Nowhere,
            Some(Some(route)) => Way::To(Arc::clone(route)),
        }
    }

    /// Caches a route that was looked up after `epoch` was read.
    pub(super) fn put(&self, epoch: u64, bucket: BucketName, route: Option<Arc<Route>>) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if known.epoch > epoch {
            return;
        }
        if known.epoch < epoch || known.by_bucket.len() >= KNOWN_MAX {
            *known = Known { epoch, by_bucket: HashMap::new() };
        }
        known.by_bucket.insert(bucket, route);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_holds_for_its_epoch_and_the_table_is_bounded() {
        let (routes, bucket): (Routes, BucketName) = (Routes::default(), "abc".parse().unwrap());
        assert_eq!(routes.way(Some(0), &bucket), Way::Unknown);
        routes.put(4, bucket.clone(), None);
        assert_eq!(routes.way(Some(4), &bucket), Way::Nowhere);
        assert_eq!(routes.way(Some(6), &bucket), Way::Unknown);
        assert_eq!(routes.way(None, &bucket), Way::Unknown);
        routes.put(2, bucket.clone(), None);
        assert_eq!(routes.way(Some(4), &bucket), Way::Nowhere, "an older look-up changes nothing");
        for number in 0..2 * KNOWN_MAX {
            routes.put(6, format!("b-{number}").parse().unwrap(), None);
            assert!(routes.0.read().unwrap().by_bucket.len() <= KNOWN_MAX);
        }
    }
}
