//! The time of each bucket's last backup, kept across restarts in a small file of the data folder.
//!
//! - The file serves metrics only. If it is lost or unreadable, only these times are lost.
//! - It lists existing buckets only, so it does not grow without bound.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use objstore::Store;
use objstore::clock::Timestamp;
use objstore::disk::{Disk as _, RealDisk};
use serde::{Deserialize, Serialize};

/// The file's name in the data folder.
const FILE: &str = "backup-times.json";

/// The recorded backup times.
pub struct Backups {
    file: PathBuf,
    times: Mutex<BTreeMap<String, Done>>,
    succeeded: AtomicU64,
    failed: AtomicU64,
}

/// The last backup of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Done {
    /// The bucket's id: a later bucket of the same name has another.
    bucket_id: u64,
    /// The moment whose content the backup holds.
    unix_ms: i64,
}

impl Backups {
    /// Reads the times recorded in a data folder.
    pub fn open(data_dir: &Path) -> Self {
        let file = data_dir.join(FILE);
        let read = std::fs::read(&file).ok().map(|bytes| serde_json::from_slice(&bytes));
        let times = match read {
            None => BTreeMap::new(),
            Some(Ok(times)) => times,
            Some(Err(error)) => {
                let file = file.display().to_string();
                tracing::warn!(%error, file, "cannot read the recorded times of backups; metrics start without them");
                BTreeMap::new()
            }
        };
        Self { file, times: Mutex::new(times), succeeded: AtomicU64::new(0), failed: AtomicU64::new(0) }
    }

    /// Records a successful backup with the content of the moment `at`. Blocking.
    pub fn succeeded(&self, store: &Store, bucket: &str, at: Timestamp) {
        self.succeeded.fetch_add(1, Relaxed);
        let id = |name: &str| name.parse().ok().and_then(|name| store.bucket(&name).ok()).map(|bucket| bucket.id);
        let Some(bucket_id) = id(bucket) else { return };
        let mut times = self.lock();
        times.insert(bucket.to_owned(), Done { bucket_id, unix_ms: at.millis() });
        times.retain(|name, done| id(name) == Some(done.bucket_id));
        let written = serde_json::to_vec_pretty(&*times).map_err(|error| error.to_string());
        let written = written
            .and_then(|text| RealDisk::new().write_atomic(&self.file, &text, 0o600).map_err(|error| error.to_string()));
        if let Err(error) = written {
            tracing::warn!(error, "cannot record the time of a backup; metrics lack it after a restart");
        }
    }

    /// Counts a failed backup.
    pub fn failed(&self) {
        self.failed.fetch_add(1, Relaxed);
    }

    /// The moment whose content the last backup of a bucket holds.
    pub fn last(&self, bucket: &str, id: u64) -> Option<Timestamp> {
        self.lock().get(bucket).filter(|done| done.bucket_id == id).map(Done::at)
    }

    /// The moment whose content the newest backup of any bucket holds.
    pub fn newest(&self) -> Option<Timestamp> {
        self.lock().values().map(Done::at).max()
    }

    /// Numbers of successful and failed backups since the server started.
    pub fn counts(&self) -> (u64, u64) {
        (self.succeeded.load(Relaxed), self.failed.load(Relaxed))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Done>> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Done {
    fn at(&self) -> Timestamp {
        Timestamp(self.unix_ms.saturating_mul(1_000_000))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap as Map;

    use objstore::store::{CreateBucket, Deletion, Options, RootAttributes, Versioning};

    use super::*;

    #[test]
    fn the_time_of_a_backup_outlives_the_server_and_ends_with_its_bucket() {
        let dir = tempfile::tempdir().expect("a folder");
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let store = objstore::open(Options::new(dir.path())).expect("a store");
        let make = |name: &str| {
            let owner = store.accounts().expect("accounts").remove(0).name;
            let name: objstore::name::BucketName = name.parse().expect("a name");
            let create = CreateBucket {
                name: name.clone(),
                owner,
                quota_bytes: None,
                versioning: Versioning::Disabled,
                source: None,
                attributes: Map::new(),
                root: RootAttributes::default(),
            };
            (runtime.block_on(store.create_bucket(create)).expect("made").0.id, name)
        };
        let ((id, first), (other, _)) = (make("first"), make("second"));
        let at = Timestamp(1_700_000_000_000_000_000);
        Backups::open(dir.path()).succeeded(&store, "first", at);
        let again = Backups::open(dir.path());
        assert_eq!((again.last("first", id), again.last("second", other), again.newest()), (Some(at), None, Some(at)));
        runtime.block_on(store.delete_bucket(&first, Deletion::Force)).expect("deleted");
        let (id, _) = make("first");
        assert_eq!(again.last("first", id), None, "a later bucket of the same name has no backup");
        again.succeeded(&store, "second", at);
        assert_eq!(again.lock().len(), 1, "only existing buckets are recorded");
        std::fs::write(dir.path().join(FILE), "nonsense").expect("written");
        assert_eq!(Backups::open(dir.path()).newest(), None);
    }
}
