//! `amphora check`: whether a store that no server has open is whole, and with `--repair` making it so.
//!
//! - Every record is decoded, every reference counted anew, every directory recounted, every checksum verified.
//! - A problem is reported with what is affected and what to do; nothing is guessed.
//! - Checking changes no record. Repairing (the module `repair`) changes what follows from other records, and quarantines
//!   what does not.

mod accounts;
mod affected;
mod content;
mod fix;
mod ledgers;
mod live;
mod mend;
mod parts;
mod permissions;
mod references;
mod repair;
mod report;
mod sessions;
mod tree;
mod uploads;
mod versions;

use std::cell::RefCell;
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use crate::blob::{self, Blobs};
use crate::branch::Lines;
use crate::clock::{Clock, SystemClock};
use crate::disk::{Disk, RealDisk};
use crate::error::{Error, Result};
use crate::meta::{Meta, Pair, Read, Snapshot, fjall_engine};
use crate::record::bucket::{Bucket, Snapshot as SnapshotRecord, VersioningState};
use crate::record::decode;
use crate::record::key::{self, Branch, Family, tag};
use crate::record::settings::Settings;
use crate::store::header;

pub(crate) use affected::owners_of;
use fix::Fix;
pub(crate) use mend::put_stub;
pub use report::{Phase, Progress, Report};

/// Pairs read at a time.
const CHUNK: usize = 1024;

/// How to check.
pub struct Options<'a> {
    /// Whether content is read and compared with its checksums, or only the records.
    pub content: bool,
    /// Whether what is found is mended.
    pub repair: bool,
    /// Told how far it is.
    pub progress: &'a dyn Fn(Progress),
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self { content: true, repair: false, progress: &|_| {} }
    }
}

/// A store, as it was at one moment.
struct Checked<'a> {
    snapshot: Box<dyn Snapshot>,
    blobs: Blobs,
    lines: Lines,
    progress: &'a dyn Fn(Progress),
    /// What a repair would do.
    fixes: RefCell<Vec<Fix>>,
    /// Records of inodes that cannot be read and were reported.
    unreadable: RefCell<HashSet<Bytes>>,
}

/// A tree somebody reads.
#[derive(Clone)]
struct Root {
    what: String,
    family: Family,
    branch: Branch,
    /// Of a bucket: its id.
    bucket: Option<u64>,
}

/// Checks the store in `dir`.
///
/// # Errors
/// [`Error::Unusable`] if there is no store, it is of another format, or a server has it open.
pub fn run(dir: &Path) -> Result<Report> {
    run_with(dir, &Options::default())
}

/// The same, as told.
///
/// # Errors
/// Those of [`run`].
pub fn run_with(dir: &Path, options: &Options<'_>) -> Result<Report> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let meta_dir = dir.join("meta");
    if !disk.exists(&meta_dir)? {
        return Err(Error::Unusable { why: format!("{} holds no store: name a data folder", dir.display()) });
    }
    let _lock = disk.lock(&dir.join("lock"))?;
    let meta = Meta::new(fjall_engine::open(&meta_dir, fjall_engine::Options::default())?);
    let report = run_on(&meta, &disk, dir, options);
    meta.close();
    report
}

/// Checks a store that is open nowhere, on its metadata and disk.
pub(crate) fn run_on(meta: &Meta, disk: &Arc<dyn Disk>, dir: &Path, options: &Options<'_>) -> Result<Report> {
    let head = header::read(&*meta.snapshot())?;
    let head = head.ok_or_else(|| Error::Unusable { why: format!("{} holds an empty store", dir.display()) })?;
    header::check_format(head.format)?;
    if options.repair {
        // What a repair writes has names of its own: a server that opens the store later gives none of them again.
        meta.write(crate::meta::Durability::Synced, header::open).wait()?;
    }
    let blobs =
        Blobs::open(disk.clone(), &dir.join("content"), head.epoch + 1, meta.poison(), blob::Options::default())?;
    if options.repair {
        return repair::run(meta, &blobs, (disk, dir), SystemClock.now(), options);
    }
    let checked = Checked::new(meta.snapshot(), blobs, options.progress);
    let mut report = Report::default();
    checked.check(&mut report)?;
    checked.check_seals(disk, dir, &mut report)?;
    checked.check_content(options.content, &mut report)?;
    Ok(report)
}

/// Checks the records of a store that is open and that nobody changes meanwhile.
#[cfg(test)]
pub(crate) fn records_of(core: &crate::core::Core) -> Result<Report> {
    let checked = Checked::new(core.meta.snapshot(), core.blobs.clone(), &|_| {});
    let mut report = Report::default();
    checked.check(&mut report)?;
    Ok(report)
}

impl<'a> Checked<'a> {
    fn new(snapshot: Box<dyn Snapshot>, blobs: Blobs, progress: &'a dyn Fn(Progress)) -> Self {
        let (fixes, unreadable) = (RefCell::default(), RefCell::default());
        Self { snapshot, blobs, lines: Lines::default(), progress, fixes, unreadable }
    }

    /// Checks all records.
    fn check(&self, report: &mut Report) -> Result<()> {
        let roots = self.roots(report)?;
        for (done, root) in (0..).zip(&roots) {
            self.tell(Phase::Trees, done, roots.len() as u64);
            tree::check(self, root, report)?;
        }
        self.tell(Phase::Records, 0, 0);
        accounts::check(self, report)?;
        uploads::check(self, &roots, report)?;
        ledgers::check(self, &roots, report)?;
        references::check(self, report)?;
        sessions::check(self, report)?;
        live::check(self, report)
    }

    /// Checks the bytes of all blobs, or only says which are known to be damaged.
    fn check_content(&self, content: bool, report: &mut Report) -> Result<()> {
        let damage = content::check(self, content, report)?;
        affected::tell(self, &damage, report)
    }

    fn read(&self) -> &dyn Read {
        &*self.snapshot
    }

    fn tell(&self, phase: Phase, done: u64, total: u64) {
        (self.progress)(Progress { phase, done, total });
    }

    /// Notes what a repair would do.
    fn fix(&self, fix: Fix) {
        self.fixes.borrow_mut().push(fix);
    }

    /// Reports a record of an inode that cannot be read, once.
    fn unreadable(&self, key: &Bytes, problem: &Error, report: &mut Report) {
        if self.unreadable.borrow_mut().insert(key.clone()) {
            report.problem(problem.to_string());
        }
    }

    /// The trees of all buckets and snapshots.
    fn roots(&self, report: &mut Report) -> Result<Vec<Root>> {
        let mut roots = Vec::new();
        self.each(&[tag::BUCKET], |pair| {
            let what = format!("bucket \"{}\"", String::from_utf8_lossy(&pair.key[1..]));
            if let Some(record) = report.take(decode::<Bucket>(&what, &pair.value)) {
                report.buckets += 1;
                self.check_id(&what, record.id, &pair.key[1..], report)?;
                self.check_settings(&what, &record, report)?;
                let Bucket { id, family, branch, .. } = record;
                roots.push(Root { what, family, branch, bucket: Some(id) });
            }
            Ok(())
        })?;
        self.each(&[tag::SNAPSHOT], |pair| {
            let what = format!("snapshot \"{}\"", String::from_utf8_lossy(&pair.key[1..]));
            if let Some(record) = report.take(decode::<SnapshotRecord>(&what, &pair.value)) {
                report.snapshots += 1;
                roots.push(Root { what, family: record.family, branch: record.branch, bucket: None });
            }
            Ok(())
        })?;
        Ok(roots)
    }

    fn check_id(&self, what: &str, id: u64, name: &[u8], report: &mut Report) -> Result<()> {
        let id_key = key::by_id(tag::BUCKET_ID, id);
        if self.read().get(&id_key)?.as_deref() != Some(name) {
            report.problem(format!("{what}: its id {id} does not lead back to its name"));
            self.fix(Fix::put(id_key, name.to_vec(), format!("{what}: its id leads to its name again")));
        }
        Ok(())
    }

    /// A bucket that was ever told something has it kept; one with object lock keeps versions.
    fn check_settings(&self, what: &str, record: &Bucket, report: &mut Report) -> Result<()> {
        let value = self.read().get(&key::by_id(tag::SETTINGS, record.id))?;
        if value.is_some() != (record.settings > 0) {
            report.problem(format!(
                "{what}: its record and its settings disagree on {} changes; tell it its policy and settings anew",
                record.settings
            ));
        }
        let settings = value.and_then(|value| report.take(decode::<Settings>(what, &value))).unwrap_or_default();
        if settings.object_lock.is_some() && record.versioning() != VersioningState::Enabled {
            report.problem(format!("{what}: it has object lock, but keeps no versions; enable its versioning"));
        }
        Ok(())
    }

    /// Runs `f` on all pairs whose keys begin with `prefix`.
    fn each(&self, prefix: &[u8], mut f: impl FnMut(&Pair) -> Result<()>) -> Result<()> {
        let end = key::after_prefix(prefix);
        let mut from = prefix.to_vec();
        loop {
            let pairs = self.read().scan(&from, &end, CHUNK)?;
            for pair in &pairs {
                f(pair)?;
            }
            match pairs.last() {
                Some(last) if pairs.len() == CHUNK => from = [&last.key[..], &[0]].concat(),
                _ => return Ok(()),
            }
        }
    }
}
