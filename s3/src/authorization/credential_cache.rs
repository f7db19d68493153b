//! The credential cache: callers with their secrets, so that most requests read nothing from the store before their
//! signature is verified.
//!
//! - The cache is exact: it is cleared at the first change of a key, an account, a grant, a bucket or its settings,
//!   before that change is acknowledged (`Store::access_epoch`). A revoked key fails from the next request on.
//! - Only existing callers are cached, so guessed keys or buckets take no room. It holds at most [`KEPT_MAX`] callers.
//! - It holds secrets, in memory only, until the next change.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use objstore::name::BucketName;
use objstore::store::{Account, Secret};

use super::bucket_access::BucketAccess;
use super::session::Session;

/// The most cached callers: keys times the buckets that each uses.
const KEPT_MAX: usize = 1024;

/// The claimed sender of a request, by its access key. It may be trusted only once `s3s` verified the signature.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// The access key id.
    pub(crate) access_key: String,
    /// Its account.
    pub(crate) account: Account,
    /// The session of a role in which the account acts, if the key is one of a session.
    pub(crate) session: Option<Arc<Session>>,
    /// The account's access to the bucket of the path, if the path names one; read together with the key.
    pub(crate) bucket_access: Option<objstore::Result<BucketAccess>>,
}

/// A caller, and the secret key that verifies its signatures.
#[derive(Clone)]
pub(crate) struct CachedCaller {
    /// The caller and its access to the bucket.
    pub(crate) caller: Arc<Caller>,
    /// The secret of the access key.
    pub(crate) secret: Secret,
}

/// The cached callers, by key and bucket.
#[derive(Default)]
pub(crate) struct Callers(Mutex<CacheEntry>);

#[derive(Default)]
struct CacheEntry {
    epoch: u64,
    by_key: HashMap<String, HashMap<Option<BucketName>, CachedCaller>>,
    count: usize,
}

impl Callers {
    /// The cached caller for a key and bucket, if the cache is of this epoch. The key of a session needs its token
    /// beside it ([`Session::is_proven_by`]).
    pub(crate) fn get(&self, epoch: u64, access_key: &str, bucket: &Option<BucketName>) -> Option<CachedCaller> {
        let kept = self.lock();
        if kept.epoch != epoch {
            return None;
        }
        kept.by_key.get(access_key)?.get(bucket).cloned()
    }

    /// Caches a caller that was read after `epoch` was.
    pub(crate) fn put(&self, epoch: u64, bucket: Option<BucketName>, known: CachedCaller) {
        let mut kept = self.lock();
        // Epochs rise: a caller read in an earlier epoch may be out of date.
        if kept.epoch > epoch {
            return;
        }
        if kept.epoch < epoch || kept.count >= KEPT_MAX {
            *kept = CacheEntry { epoch, ..CacheEntry::default() };
        }
        let of_key = kept.by_key.entry(known.caller.access_key.clone()).or_default();
        if of_key.insert(bucket, known).is_none() {
            kept.count += 1;
        }
    }

    fn lock(&self) -> MutexGuard<'_, CacheEntry> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authorization::principal::account;

    fn known(key: &str) -> CachedCaller {
        let caller = Caller { access_key: key.into(), account: account("a"), session: None, bucket_access: None };
        CachedCaller { caller: Arc::new(caller), secret: Secret::new("s") }
    }

    #[test]
    fn what_was_found_holds_for_its_epoch_key_and_bucket_alone() {
        let (callers, bucket) = (Callers::default(), Some("one".parse().unwrap()));
        callers.put(2, bucket.clone(), known("k"));
        let found = callers.get(2, "k", &bucket).unwrap();
        assert_eq!((found.caller.access_key.as_str(), found.secret.reveal()), ("k", "s"));
        for (epoch, key, bucket) in
            [(4, "k", bucket.clone()), (2, "l", bucket.clone()), (2, "k", None), (2, "k", Some("two".parse().unwrap()))]
        {
            assert!(callers.get(epoch, key, &bucket).is_none());
        }
        callers.put(4, None, known("k"));
        callers.put(2, bucket.clone(), known("k"));
        assert!(callers.get(4, "k", &None).is_some() && callers.get(4, "k", &bucket).is_none());
        assert!(callers.get(2, "k", &bucket).is_none());
    }

    #[test]
    fn callers_are_kept_up_to_so_many() {
        let callers = Callers::default();
        for number in 0..3 * KEPT_MAX {
            callers.put(2, None, known(&number.to_string()));
            let kept = callers.lock();
            assert_eq!(kept.count, kept.by_key.values().map(HashMap::len).sum::<usize>());
            assert!(kept.count <= KEPT_MAX && kept.by_key.contains_key(&number.to_string()));
        }
    }
}
