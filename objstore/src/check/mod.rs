//! `amphora check`: whether a store that no server has open is whole. It reads everything and changes nothing.
//!
//! - Every record is decoded, every reference counted anew, every directory recounted, every checksum verified.
//! - A problem is reported with what is affected; nothing is guessed.

mod content;
mod live;
mod parts;
mod permissions;
mod references;
mod sessions;
mod tree;
mod versions;

use std::path::Path;
use std::sync::Arc;

use crate::blob::{self, Blobs};
use crate::branch::Lines;
use crate::disk::{Disk, RealDisk};
use crate::error::{Error, Result};
use crate::meta::{Meta, Pair, Read, Snapshot, fjall_engine};
use crate::record::bucket::{Bucket, Snapshot as SnapshotRecord, VersioningState};
use crate::record::decode;
use crate::record::key::{self, Branch, Family, tag};
use crate::record::settings::Settings;
use crate::store::header;

/// Pairs read at a time.
const CHUNK: usize = 1024;
/// Problems listed; more are only counted.
const PROBLEMS_MAX: usize = 1000;

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What is wrong, a line each.
    pub problems: Vec<String>,
    /// Problems past the ones listed.
    pub unlisted: u64,
    /// Buckets.
    pub buckets: u64,
    /// Snapshots.
    pub snapshots: u64,
    /// Sessions of mounts that outlived the last server.
    pub sessions: u64,
    /// Files that mounts were writing when the last server died: the next opening settles them.
    pub live_files: u64,
    /// Inodes, in all branches.
    pub inodes: u64,
    /// Blobs.
    pub blobs: u64,
    /// Bytes of content whose checksums were verified.
    pub verified_bytes: u64,
    /// Files that no record names: a crash left them, and the next opening removes them.
    pub unnamed_files: u64,
}

impl Report {
    fn problem(&mut self, problem: impl Into<String>) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(problem.into());
        } else {
            self.unlisted += 1;
        }
    }

    /// Takes a value, or reports why there is none.
    fn take<T>(&mut self, value: Result<T>) -> Option<T> {
        value.map_err(|error| self.problem(error.to_string())).ok()
    }

    /// Whether nothing is wrong.
    pub fn clean(&self) -> bool {
        self.problems.is_empty()
    }
}

/// A store, read only.
struct Checked {
    snapshot: Box<dyn Snapshot>,
    blobs: Blobs,
    lines: Lines,
}

/// A tree somebody reads.
struct Root {
    what: String,
    family: Family,
    branch: Branch,
}

/// Checks the store in `dir`.
///
/// # Errors
/// [`Error::Unusable`] if there is no store, it is of another format, or a server has it open.
pub fn run(dir: &Path) -> Result<Report> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let meta_dir = dir.join("meta");
    if !disk.exists(&meta_dir)? {
        return Err(Error::Unusable { why: format!("{} holds no store: name a data folder", dir.display()) });
    }
    let _lock = disk.lock(&dir.join("lock"))?;
    let meta = Meta::new(fjall_engine::open(&meta_dir, fjall_engine::Options::default())?);
    let snapshot = meta.snapshot();
    let head = header::read(&*snapshot)?;
    let head = head.ok_or_else(|| Error::Unusable { why: format!("{} holds an empty store", dir.display()) })?;
    header::check_format(head.format)?;
    let blobs = Blobs::open(disk, &dir.join("content"), head.epoch + 1, meta.poison(), blob::Options::default())?;
    let checked = Checked { snapshot, blobs, lines: Lines::default() };
    let mut report = Report::default();
    checked.check(&mut report)?;
    drop(checked);
    meta.close();
    Ok(report)
}

impl Checked {
    fn check(&self, report: &mut Report) -> Result<()> {
        for root in self.roots(report)? {
            tree::check(self, &root, report)?;
        }
        references::check(self, report)?;
        sessions::check(self, report)?;
        live::check(self, report)?;
        content::check(self, report)
    }

    fn read(&self) -> &dyn Read {
        &*self.snapshot
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
                roots.push(Root { what, family: record.family, branch: record.branch });
            }
            Ok(())
        })?;
        self.each(&[tag::SNAPSHOT], |pair| {
            let what = format!("snapshot \"{}\"", String::from_utf8_lossy(&pair.key[1..]));
            if let Some(record) = report.take(decode::<SnapshotRecord>(&what, &pair.value)) {
                report.snapshots += 1;
                roots.push(Root { what, family: record.family, branch: record.branch });
            }
            Ok(())
        })?;
        Ok(roots)
    }

    fn check_id(&self, what: &str, id: u64, name: &[u8], report: &mut Report) -> Result<()> {
        let named = self.read().get(&key::by_id(tag::BUCKET_ID, id))?;
        if named.as_deref() != Some(name) {
            report.problem(format!("{what}: its id {id} does not lead back to its name"));
        }
        Ok(())
    }

    /// A bucket that was ever told something has it kept; one with object lock keeps versions.
    fn check_settings(&self, what: &str, record: &Bucket, report: &mut Report) -> Result<()> {
        let value = self.read().get(&key::by_id(tag::SETTINGS, record.id))?;
        if value.is_some() != (record.settings > 0) {
            report.problem(format!("{what}: its record and its settings disagree on {} changes", record.settings));
        }
        let settings = value.and_then(|value| report.take(decode::<Settings>(what, &value))).unwrap_or_default();
        if settings.object_lock.is_some() && record.versioning() != VersioningState::Enabled {
            report.problem(format!("{what}: it has object lock, but keeps no versions"));
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
