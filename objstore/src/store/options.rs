//! The options for opening a store.

use std::path::PathBuf;
use std::sync::Arc;

use super::types::Secret;
use crate::clock::{Clock, Random, SystemClock, SystemRandom};
use crate::disk::{Disk, RealDisk};
use crate::meta::fjall_engine;
use crate::remote::ContentBucket;
use crate::session_id::SessionId;

/// How to open a store.
pub struct Options {
    /// The data folder; created if absent.
    pub dir: PathBuf,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The source of random bytes.
    pub random: Arc<dyn Random>,
    /// The disk for content and lock.
    pub disk: Arc<dyn Disk>,
    /// Size of the metadata engine's block cache in bytes.
    pub cache_bytes: u64,
    /// Whether space is set aside on the disk, so that a store on a full disk opens and can delete.
    pub reserve: bool,
    /// The bucket that keeps the content; `None`: the data folder keeps it.
    pub bucket: Option<ContentBucket>,
    /// The file of the master key, unless it is `master.key` in the data folder.
    pub master_key: Option<PathBuf>,
    /// Whether the master key is kept in the bucket of the content, and `master.key` in the data folder is a copy: for a
    /// store whose data folder may be deleted.
    pub master_key_in_bucket: bool,
    /// The root key of a new store; otherwise one is generated.
    pub root_key: Option<(String, Secret)>,
    /// The persistent sessions that continue: all others end as the store opens. Take each over, or end it with
    /// [`Store::end_session`].
    pub continued: Vec<SessionId>,
}

impl Options {
    /// The default options for a data folder.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            clock: Arc::new(SystemClock),
            random: Arc::new(SystemRandom),
            disk: Arc::new(RealDisk::new()),
            cache_bytes: fjall_engine::Options::default().cache_bytes,
            reserve: false,
            bucket: None,
            master_key: None,
            master_key_in_bucket: false,
            root_key: None,
            continued: Vec::new(),
        }
    }
}
