//! `amphora check`: verifies a store that no server has open, and repairs it with `--repair`.
//!
//! - Every record is decoded, every reference and directory recounted, every checksum verified.
//! - A problem is reported with what it affects and what to do; nothing is guessed.
//! - Checking changes no record. Repairing (the module `repair`) changes what follows from other records, and
//!   quarantines the rest.

mod accounts;
mod affected;
mod branches;
mod buckets;
mod content;
mod dirty;
mod elsewhere;
mod fix;
mod group_snapshots;
mod keys;
mod ledgers;
mod objects;
mod orphan_branches;
mod parts;
mod permissions;
mod quarantine;
mod reach;
mod references;
mod relink;
mod repair;
mod report;
mod sessions;
mod tree;
mod tree_repair;
mod uploads;
mod versions;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use prost::Message;

use crate::blob::{self, Blobs};
use crate::branch::Ancestries;
use crate::clock::{Clock, SystemClock};
use crate::disk::{Disk, RealDisk};
use crate::error::{Error, Result};
use crate::grant::KeyPlace;
use crate::meta::{Meta, Pair, Read, Snapshot, fjall_engine};
use crate::record::decode;
use crate::record::key::{self, Branch, CloneGroup};
use crate::store::header;

pub(crate) use affected::owners_of;
pub use elsewhere::{Depth, Elsewhere, run_elsewhere};
use fix::Fix;
pub use report::{Phase, Progress, Report};
pub(crate) use tree_repair::put_stub;

/// Pairs read at a time.
const CHUNK: usize = 1024;

/// How to check.
pub struct Options<'a> {
    /// Whether content is read and verified, or only the records.
    pub content: bool,
    /// Whether problems are repaired.
    pub repair: bool,
    /// The file of the master key, unless it is `master.key` in the data folder.
    pub master_key: Option<&'a Path>,
    /// Receives the progress.
    pub progress: &'a dyn Fn(Progress),
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self { content: true, repair: false, master_key: None, progress: &|_| {} }
    }
}

impl Options<'_> {
    fn key_place(&self, dir: &Path) -> KeyPlace {
        KeyPlace::new(dir, self.master_key)
    }
}

/// A store at one moment.
struct Checked<'a> {
    snapshot: Box<dyn Snapshot>,
    blobs: Blobs,
    lines: Ancestries,
    progress: &'a dyn Fn(Progress),
    /// The fixes that a repair would carry out.
    fixes: RefCell<Vec<Fix>>,
    /// Unreadable records that may refer to content, and were reported.
    unreadable: RefCell<HashSet<Bytes>>,
    /// Ids found in bucket records.
    buckets: RefCell<HashSet<u64>>,
    /// The lowest version order number found in the inodes of each clone group.
    lowest: RefCell<HashMap<CloneGroup, u64>>,
}

/// A tree of a bucket or snapshot.
#[derive(Clone)]
struct Root {
    what: String,
    clone_group: CloneGroup,
    branch: Branch,
    /// For a bucket: its id.
    bucket: Option<u64>,
}

/// All trees of buckets and snapshots.
#[derive(Default)]
struct Roots {
    shown: Vec<Root>,
    /// Unreadable records of buckets and snapshots.
    unreadable: Vec<Pair>,
}

/// Checks the store in `dir`.
///
/// # Errors
/// [`Error::Unusable`] if there is no store, it is of another format, or a server has it open.
pub fn run(dir: &Path, options: &Options<'_>) -> Result<Report> {
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

/// Checks a store that is not open, on its metadata and disk.
pub(crate) fn run_on(meta: &Meta, disk: &Arc<dyn Disk>, dir: &Path, options: &Options<'_>) -> Result<Report> {
    let head = header::read(&*meta.snapshot())?;
    let head = head.ok_or_else(|| Error::Unusable { why: format!("{} holds an empty store", dir.display()) })?;
    header::check_format(&head)?;
    if let Some(place) = crate::remote::place(&*meta.snapshot())?.filter(|_| options.content || options.repair) {
        let why = format!(
            "the content of this store is in {}, which this command does not read: check the records with --metadata-only, and the content by the scrub of the running server (amphora scrub)",
            place.location
        );
        return Err(Error::Unusable { why });
    }
    let epoch = header::next_epoch(&*meta.snapshot())?;
    if options.repair {
        // Names that a repair creates have to be unique: a server that opens the store later issues other numbers.
        meta.write(crate::meta::Durability::Synced, |txn| header::open(txn, None)).wait()?;
    }
    let blobs = Blobs::open(disk.clone(), &dir.join("content"), epoch, meta.poison(), blob::Options::default())?;
    if options.repair {
        return repair::run(meta, &blobs, (disk, dir), SystemClock.now(), options);
    }
    let checked = Checked::new(meta.snapshot(), blobs, options.progress);
    let mut report = Report::default();
    checked.check(&mut report)?;
    checked.check_seals(disk, options.key_place(dir), &mut report)?;
    checked.check_content(options.content, &mut report)?;
    Ok(report)
}

/// Checks the records of an open store that does not change meanwhile.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn records_of(core: &crate::core::Core) -> Result<Report> {
    let checked = Checked::new(core.meta.snapshot(), core.blobs.clone(), &|_| {});
    let mut report = Report::default();
    checked.check(&mut report)?;
    Ok(report)
}

/// Damage of content with the files, objects and parts that it belongs to, one line each, and the number of further ones.
pub(crate) fn name_damage(
    snapshot: Box<dyn Snapshot>,
    blobs: Blobs,
    damage: BTreeMap<u64, String>,
) -> Result<(Vec<String>, u64)> {
    let (store, mut report) = (Checked::new(snapshot, blobs, &|_| {}), Report::default());
    let damage = damage.into_iter().map(|(blob, why)| (blob, content::Damage { why, quarantined: false }));
    affected::tell(&store, &damage.collect(), &mut report)?;
    Ok((report.problems, report.unlisted))
}

impl<'a> Checked<'a> {
    fn new(snapshot: Box<dyn Snapshot>, blobs: Blobs, progress: &'a dyn Fn(Progress)) -> Self {
        let (fixes, unreadable) = (RefCell::default(), RefCell::default());
        let (buckets, lowest) = (RefCell::default(), RefCell::default());
        Self { snapshot, blobs, lines: Ancestries::default(), progress, fixes, unreadable, buckets, lowest }
    }

    /// Checks all records.
    fn check(&self, report: &mut Report) -> Result<()> {
        let found = buckets::roots(self, report)?;
        group_snapshots::check(self, report)?;
        branches::check(self, &found.shown, report)?;
        orphan_branches::check(self, &found, report)?;
        let roots = &found.shown;
        for (done, root) in (0..).zip(roots) {
            self.tell(Phase::Trees, done, roots.len() as u64);
            tree::check(self, root, report)?;
        }
        self.tell(Phase::Records, 0, 0);
        accounts::check(self, report)?;
        uploads::check(self, roots, report)?;
        ledgers::check(self, roots, report)?;
        references::check(self, report)?;
        sessions::check(self, report)?;
        dirty::check(self, report)
    }

    /// Checks the bytes of all blobs, or only lists known damage.
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

    /// Records a fix.
    fn fix(&self, fix: Fix) {
        self.fixes.borrow_mut().push(fix);
    }

    /// Reports an unreadable record that may refer to content, once.
    fn unreadable(&self, key: &Bytes, problem: &Error, report: &mut Report) {
        if self.unreadable.borrow_mut().insert(key.clone()) {
            report.problem(problem.to_string());
        }
    }

    /// Records the version order number of an inode; zero is none.
    fn note_version(&self, clone_group: CloneGroup, order: u64) {
        if order > 0 {
            let mut lowest = self.lowest.borrow_mut();
            let known = lowest.entry(clone_group).or_insert(u64::MAX);
            *known = order.min(*known);
        }
    }

    /// Decodes a record, or reports and quarantines it without replacement.
    fn take_or_quarantine<M: Message + Default>(&self, what: &str, pair: &Pair, report: &mut Report) -> Option<M> {
        let value = report.take(decode(what, &pair.value));
        if value.is_none() {
            self.fix(Fix::quarantine_record(pair, None, format!("{what}: it cannot be read")));
        }
        value
    }

    /// Calls `f` for all pairs whose keys begin with `prefix`.
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
