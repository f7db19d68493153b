//! Check of a store whose metadata is in a log and whose content is in a bucket, without a server.
//!
//! - The newest checkpoint is fetched into a scratch folder, and the log behind it is replayed there. The records are
//!   then checked as those of a data folder.
//! - Log and bucket are only read. Nothing is repaired: what a repair would write, the log would not have.
//! - Content is checked while no server owns the store, since a server removes objects that the fetched records name.
//!
//! A crash leaves the scratch folder, which belongs to the caller.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::content::Damage;
use super::{Checked, Options, Phase, Progress, Report, affected, content, objects};
use crate::blob::{self, Blobs};
use crate::disk::{Disk, RealDisk};
use crate::error::{Error, Result};
use crate::grant::{KeyCopies, KeyPlace};
use crate::meta::Meta;
use crate::meta::fjall_engine::{self, Checkpoints, Place, Standby};
use crate::meta::log::{Claim, Log, Standing};
use crate::remote::{BucketVault, ContentBucket, open_blobs_reading, open_reading};
use crate::store::header;

/// Where the parts of a store are.
pub struct Elsewhere {
    /// The log of its metadata.
    pub log: Arc<dyn Log>,
    /// The bucket of its content and checkpoints.
    pub content: ContentBucket,
}

/// How far content is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// The records alone.
    Records,
    /// Each object that a record names is there, with its length.
    Objects,
    /// All content is read and compared with its checksums.
    Checksums,
}

/// Checks the store; `scratch` is an empty folder for the metadata and for content on its way.
///
/// # Errors
/// [`Error::Unusable`] if there is no store, the bucket is another store's, or a server owns it while content is checked.
pub fn run_elsewhere(place: &Elsewhere, scratch: &Path, depth: Depth, options: &Options<'_>) -> Result<Report> {
    let begun = standing(place)?;
    if depth != Depth::Records && begun.lease > Duration::ZERO {
        let why = format!(
            "the server \"{}\" owns this store, and removes content that the fetched records may name: stop all servers \
             and wait for {} s, or check the records alone with --metadata-only",
            begun.server,
            begun.lease.as_secs() + 1
        );
        return Err(Error::Unusable { why });
    }
    let meta = Meta::new(fetch(place, scratch, options)?);
    let report = check(&meta, place, scratch, depth, options);
    meta.close();
    let report = report?;
    let ended = standing(place)?;
    if depth != Depth::Records && ended.epoch != begun.epoch {
        let why = format!("the server \"{}\" took this store over during the check: run it again", ended.server);
        return Err(Error::Unusable { why });
    }
    Ok(report)
}

fn standing(place: &Elsewhere) -> Result<Standing> {
    let found = place.log.standing(Duration::ZERO);
    found.map_err(|error| Error::Unusable { why: format!("asking the log for its owner: {error}") })
}

/// The metadata up to the end that the log has now.
fn fetch(place: &Elsewhere, scratch: &Path, options: &Options<'_>) -> Result<Arc<dyn crate::meta::Engine>> {
    let tail = place.log.tail().map_err(|error| Error::Unusable { why: format!("reading the log: {error}") })?;
    let last = tail.next - 1;
    let (folder, log) = (scratch.join("meta"), Arc::clone(&place.log));
    RealDisk::new().make_dir_all(&folder)?;
    // Nothing claims it, so the name is never seen.
    let claim = Claim { server: String::new(), lease: Duration::ZERO };
    let vault = Arc::new(BucketVault::of_checkpoints(&place.content)?);
    let checkpoints = Some(Checkpoints { vault, log_bytes: u64::MAX });
    let lost = Arc::new(|_: &str| {});
    let place = Place { checkpoints, ..Place::new(log, claim, lost) };
    let mut copy = Standby::open(&folder, fjall_engine::Options::default(), place)?;
    loop {
        let followed = copy.follow()?;
        (options.progress)(Progress { phase: Phase::Replay, done: followed.at.min(last), total: last });
        if followed.at >= last {
            return copy.into_examined();
        }
        if followed.entries == 0 {
            let missing = format!("an entry {}", followed.at + 1);
            return Err(Error::corrupt("the log", missing, "none"));
        }
    }
}

fn check(meta: &Meta, place: &Elsewhere, scratch: &Path, depth: Depth, options: &Options<'_>) -> Result<Report> {
    let snapshot = meta.snapshot();
    let empty = || Error::Unusable { why: "the log has no store: no server has opened it".into() };
    let head = header::read(&*snapshot)?.ok_or_else(empty)?;
    header::check_format(&head)?;
    let bucket = open_reading(&*snapshot, place.content.clone())?;
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let dir = scratch.join("content");
    let blobs = match depth {
        Depth::Checksums => open_blobs_reading(meta, &disk, &dir, &bucket, place.content.cache_bytes)?,
        Depth::Records | Depth::Objects => {
            let epoch = header::next_epoch(&*snapshot)?;
            Blobs::open(disk.clone(), &dir, epoch, meta.poison(), blob::Options::default())?
        }
    };
    let key = key_place(&bucket, &disk, scratch, options)?;
    let checked = Checked::new(snapshot, blobs, options.progress);
    let mut report = Report::default();
    checked.check(&mut report)?;
    checked.check_seals(&disk, key, &mut report)?;
    let damage: BTreeMap<u64, Damage> = match depth {
        Depth::Records => content::check(&checked, false, &mut report)?,
        Depth::Objects => objects::check(&checked, &bucket, (&*disk, scratch))?,
        Depth::Checksums => content::check(&checked, true, &mut report)?,
    };
    affected::tell(&checked, &damage, &mut report)?;
    Ok(report)
}

/// The master key: the file that was named, or else a copy of the one in the bucket.
fn key_place(
    bucket: &crate::bucket::Bucket,
    disk: &Arc<dyn Disk>,
    scratch: &Path,
    options: &Options<'_>,
) -> Result<KeyPlace> {
    if options.master_key.is_none() {
        let copies = KeyCopies::new(Arc::new(BucketVault::of_keys(bucket.clone())));
        let (key, next) = (scratch.join("master.key"), scratch.join("master.key.next"));
        copies.fetch(&**disk, (&key, &next), || None)?;
    }
    Ok(options.key_place(scratch))
}
