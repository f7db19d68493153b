//! The state that all operations of an open store share.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::blob::Blobs;
use crate::branch::{Line, Lines};
use crate::buckets::KnownBuckets;
use crate::clock::{Clock, Random};
use crate::content::{BackedFiles, Gates, LiveFiles, Readers, RecentSyncs, VerifiedBlobs};
use crate::disk::Disk;
use crate::error::{Error, Noun, Result};
use crate::feed::Feeds;
use crate::grant::Master;
use crate::meta::{Meta, Read};
use crate::name::BucketName;
use crate::pins::Pins;
use crate::record::bucket::{Bucket, Snapshot};
use crate::record::decode;
use crate::record::key::{self, tag};

/// The shared parts of an open store.
pub(crate) struct Core {
    /// The metadata.
    pub meta: Meta,
    /// The content outside it.
    pub blobs: Blobs,
    /// The last metadata batch on disk, stamped into packed content.
    pub stamp: Arc<AtomicU64>,
    /// The disk under both.
    pub disk: Arc<dyn Disk>,
    /// The data folder.
    pub dir: std::path::PathBuf,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Random bytes.
    pub random: Arc<dyn Random>,
    /// The ancestors of each branch.
    pub lines: Lines,
    /// Records of buckets, decoded.
    pub buckets: Arc<KnownBuckets>,
    /// Inodes that mounts hold.
    pub pins: Arc<Pins>,
    /// What mounts have to forget.
    pub feeds: Feeds,
    /// Sessions that outlive the server.
    pub lasting: crate::volume::Lasting,
    /// What their mounts may not have been told.
    pub owed: crate::owed::Ledger,
    /// How often the store was opened.
    pub life: u32,
    /// Readers that need content which may be in the trash.
    pub readers: Arc<Readers>,
    /// Files being written in place.
    pub live: LiveFiles,
    /// Files open for writing through mounts.
    pub writers: crate::volume::Writers,
    /// Files synced lately.
    pub recent_syncs: RecentSyncs,
    /// Settings of buckets, decoded.
    pub settings: crate::store::settings::SettingsCache,
    /// Files that programs have open for passthrough.
    pub backed: BackedFiles,
    /// Content compared with its checksums.
    pub verified: VerifiedBlobs,
    /// Who may write in place, and when.
    pub gates: Gates,
    /// Rises whenever an account, a grant or a bucket policy changes.
    pub grants_epoch: AtomicU64,
    /// What bucket policies say of mounts.
    pub mount_policies: OnceLock<Arc<dyn crate::store::MountPolicies>>,
    /// Where directories lie.
    pub places: crate::tree::Places,
    /// What the log said of keys that mounts cannot show.
    pub hidden_log: crate::tree::HiddenLog,
    /// How many sessions each bucket has.
    pub mounted: crate::volume::Mounted,
    /// Sessions of mounts.
    pub sessions: Mutex<Vec<std::sync::Weak<crate::volume::Session>>>,
    /// The master key, which secrets are sealed under.
    pub master: Master,
    /// Keeps others off the data folder.
    pub _lock: crate::disk::Lock,
}

/// What a bucket name stands for.
pub(crate) enum Named {
    /// A bucket.
    Bucket(Bucket),
    /// A snapshot, read as a bucket under its own name.
    Snapshot(Snapshot),
}

impl Named {
    /// The bucket, if it is one.
    pub fn bucket(&self) -> Option<&Bucket> {
        match self {
            Self::Bucket(bucket) => Some(bucket),
            Self::Snapshot(_) => None,
        }
    }
}

impl Core {
    /// The bucket called `name`. Who asks for it at each call asks [`Core::bucket_now`] or [`Core::bucket_in`].
    #[expect(clippy::unused_self, reason = "beside those that answer from what is known")]
    pub fn bucket_record(&self, read: &dyn Read, name: &BucketName) -> Result<Option<Bucket>> {
        let value = read.get(&key::by_name(tag::BUCKET, name.as_str()))?;
        value.map(|value| decode("a bucket", &value)).transpose()
    }

    /// Refuses once a write to disk failed: bytes written past that might be lost silently.
    pub fn writable(&self) -> Result<()> {
        self.meta.poison().check()
    }

    /// What can be read under `name`.
    pub fn named(&self, read: &dyn Read, name: &BucketName) -> Result<Named> {
        if let Some(bucket) = self.bucket_record(read, name)? {
            return Ok(Named::Bucket(bucket));
        }
        match read.get(&key::by_name(tag::SNAPSHOT, name.as_str()))? {
            Some(value) => Ok(Named::Snapshot(decode("a snapshot", &value)?)),
            None => Err(Error::not_found(Noun::Bucket, name.as_str())),
        }
    }

    /// The line to read under `name`.
    pub fn readable(&self, read: &dyn Read, name: &BucketName) -> Result<Line> {
        self.line_of(read, &self.named(read, name)?)
    }

    /// The line of what was found under a name.
    pub fn line_of(&self, read: &dyn Read, named: &Named) -> Result<Line> {
        match named {
            Named::Bucket(bucket) => self.lines.line(read, bucket.family, bucket.branch),
            Named::Snapshot(snapshot) => self.lines.line(read, snapshot.family, snapshot.branch),
        }
    }
}
