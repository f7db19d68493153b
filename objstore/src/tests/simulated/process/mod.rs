//! A process with a store on the simulated disk: executes a schedule's operations, on one thread, until the disk fails.

mod kernel;
mod mounted;
mod objects;

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio::runtime::Runtime;

pub(super) use self::kernel::Kernel;
use objstore_testing::simulated::SimulatedDisk;

use self::kernel::Served;
use super::model::State;
use super::operation::{At, Operation, Rule};
use crate::blob::{self, Helpers};
use crate::check::{self, Report};
use crate::clock::{Clock, Scripted, Timestamp};
use crate::disk::Disk;
use crate::error::Result;
use crate::lifecycle::{Day, Pass};
use crate::meta::{Meta, leader_engine};
use crate::record::inode::RetentionMode;
use crate::store::*;
use crate::tests::test_store::{bucket_request, find, name};
use crate::volume::Volume;

/// Small, so that segments fill up and are rewritten.
const SEGMENT_BYTES: u64 = 48 << 10;

/// When the first day begins, in nanoseconds since 1970: early on a day of the calendar.
const BEGINNING: i64 = 1_000_000_000_000_000_000;
const DAY: i64 = 24 * 60 * 60 * 1_000_000_000;

/// The day of a time.
pub(super) fn day_of(time: Timestamp) -> u64 {
    u64::try_from((time.0 - BEGINNING).div_euclid(DAY)).unwrap_or(u64::MAX)
}

/// The same in halves of days.
pub(super) fn half_of(time: Timestamp) -> u64 {
    u64::try_from((time.0 - BEGINNING).div_euclid(DAY / 2)).unwrap_or(u64::MAX)
}

/// A time at which a day is over for most.
fn end_of(day: u64) -> Timestamp {
    Timestamp(BEGINNING + i64::try_from(day).unwrap() * DAY + DAY / 2)
}

/// Passes of the lifecycle worker after which nothing is left to do: one may have been under way, and what it left
/// makes room for markers to go.
const PASSES: usize = 4;

/// A clock that advances by a microsecond with each reading, and by more when a test sets it forward.
pub(super) struct Ticks(AtomicI64);

impl Ticks {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicI64::new(BEGINNING)))
    }

    fn advance(&self, by: Duration) {
        self.0.fetch_add(i64::try_from(by.as_nanos()).unwrap(), Ordering::Relaxed);
    }
}

impl Clock for Ticks {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.fetch_add(1_000, Ordering::Relaxed))
    }
}

/// What all processes of a schedule share.
#[derive(Clone)]
pub(super) struct Machine {
    pub(super) clock: Arc<Ticks>,
    pub(super) random: Arc<Scripted>,
    pub(super) runtime: Arc<Runtime>,
    pub(super) kernel: Kernel,
    pub(super) blobs: blob::Options,
}

/// A process.
pub(super) struct Process {
    machine: Machine,
    pub(super) disk: SimulatedDisk,
    pub(super) store: Store,
    volumes: BTreeMap<Mounted, Volume>,
    /// Files that programs have open by passthrough, those open longest first.
    past: VecDeque<(Mounted, u64)>,
    /// Whether what is served comes from the second mount of its bucket.
    second: bool,
    served: Served,
}

/// A mount: of which bucket or snapshot, and whether it is the second.
type Mounted = (String, bool);

fn dir() -> &'static Path {
    Path::new("/store")
}

fn open_meta(disk: &SimulatedDisk) -> Result<Meta> {
    let meta_dir = dir().join("meta");
    disk.make_dir_all(&meta_dir)?;
    leader_engine::open(disk, &meta_dir.join("log"))
}

/// The offline check of a store that is open nowhere.
pub(super) fn check_on(disk: &SimulatedDisk, options: &check::Options<'_>) -> Result<Report> {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    disk.make_dir_all(dir())?;
    check::run_on(&open_meta(disk)?, &shared, dir(), options)
}

impl Process {
    /// Opens the store on a disk, or makes one.
    pub(super) fn open(machine: Machine, disk: SimulatedDisk) -> Result<Self> {
        disk.make_dir_all(dir())?;
        let lock = disk.lock(&dir().join("lock"))?;
        let meta = open_meta(&disk)?;
        let options = Options {
            clock: machine.clock.clone(),
            random: machine.random.clone(),
            disk: Arc::new(disk.clone()),
            continued: machine.kernel.sessions(),
            ..Options::new(dir())
        };
        let blobs = blob::Options { segment_bytes: SEGMENT_BYTES, helpers: Helpers::Callers, ..machine.blobs };
        let store = crate::open::open_alone(meta, lock, options, blobs)?;
        let (volumes, past) = (BTreeMap::new(), VecDeque::new());
        Ok(Self { machine, disk, store, volumes, past, second: false, served: Served::default() })
    }

    /// Runs an operation; what it waits for from the mounts comes from this thread too.
    pub(super) fn run<T>(&self, operation: impl Future<Output = T>) -> T {
        let mut operation = std::pin::pin!(operation);
        self.machine.runtime.block_on(std::future::poll_fn(|context| {
            let polled = operation.as_mut().poll(context);
            if polled.is_pending() {
                self.pump();
            }
            polled
        }))
    }

    /// The mount of a bucket or snapshot that what is served comes from.
    fn volume(&mut self, bucket: &str) -> Result<Volume> {
        let mounted = (bucket.to_owned(), self.second);
        let volume = match self.volumes.get(&mounted) {
            Some(volume) => volume.clone(),
            None => {
                let volume = self.mount(&mounted)?;
                self.volumes.insert(mounted, volume.clone());
                volume
            }
        };
        Ok(self.served.acting(volume))
    }

    fn mounted(&mut self, at: &At) -> Result<(Volume, u64)> {
        let volume = self.volume(&at.bucket)?;
        let ino = find(&volume, &at.path)?;
        Ok((volume, ino))
    }

    /// When a file was last changed, as a mount shows it.
    pub(super) fn modified(&mut self, at: &At) -> Result<Timestamp> {
        let (volume, ino) = self.mounted(at)?;
        Ok(volume.attr(ino)?.mtime)
    }

    /// The folder of a path, and its last name.
    fn parent(&mut self, bucket: &str, path: &str) -> Result<(Volume, u64, String)> {
        let volume = self.volume(bucket)?;
        let (folder, last) = path.rsplit_once('/').unwrap_or(("", path));
        let ino = find(&volume, folder)?;
        Ok((volume, ino, last.to_owned()))
    }

    /// All mounts end, and the store is closed.
    pub(super) fn close(mut self) -> SimulatedDisk {
        self.answer();
        self.volumes.clear();
        self.store.close();
        self.disk
    }

    fn serve(&mut self, state: &State, operation: &Operation) -> Result<Option<String>> {
        match operation {
            Operation::CreateBucket { bucket, quota, versioning, locking } => {
                let request = CreateBucket { quota_bytes: *quota, versioning: *versioning, ..bucket_request(bucket) };
                let object_lock = locking.then(ObjectLock::default);
                let settings = Settings { object_lock, ..Settings::default() };
                self.run(self.store.create_bucket_with(request, settings)).map(drop)?;
            }
            Operation::DeleteBucket { bucket } => {
                self.run(self.store.delete_bucket(&name(bucket), Deletion::Force))?;
                self.unmount(bucket);
            }
            Operation::SetQuota { bucket, quota } => {
                let set = SetBucket { quota_bytes: Some(*quota), ..SetBucket::default() };
                self.run(self.store.set_bucket(&name(bucket), set)).map(drop)?;
            }
            Operation::SetVersioning { bucket, versioning } => {
                let set = SetBucket { versioning: Some(*versioning), ..SetBucket::default() };
                self.run(self.store.set_bucket(&name(bucket), set)).map(drop)?;
            }
            Operation::SetRetention { bucket, compliance } => self.set_retention(bucket, *compliance)?,
            Operation::Snapshot { bucket, name: of } => {
                self.run(self.store.create_snapshot(&name(bucket), &name(of))).map(drop)?;
            }
            Operation::Clone { source, bucket } => {
                let snapshot = state.buckets[source].snapshot;
                let source = if snapshot { Source::Snapshot(source.clone()) } else { Source::Bucket(name(source)) };
                let request = CreateBucket { source: Some(source), ..bucket_request(bucket) };
                self.run(self.store.create_bucket(request)).map(drop)?;
            }
            Operation::DeleteSnapshot { name } => {
                self.run(self.store.delete_snapshot(name))?;
                self.unmount(name);
            }
            Operation::CreateAccount { account } => self.run(self.store.create_account(account, false)).map(drop)?,
            Operation::DeleteAccount { account } => self.run(self.store.delete_account(account))?,
            Operation::RotateKey { account } => self.run(self.store.rotate_key(account)).map(drop)?,
            Operation::RotateMaster => self.run(self.store.rotate_master_key()).map(drop)?,
            Operation::Grant { bucket, account, mode } => {
                self.run(self.store.add_grant(&name(bucket), account, *mode)).map(drop)?;
            }
            Operation::Revoke { bucket, account } => self.run(self.store.remove_grant(&name(bucket), account))?,
            Operation::Collect => self.store.background.collect_now()?,
            Operation::SetRule { bucket, rule } => self.set_rule(bucket, *rule)?,
            Operation::Pass | Operation::Day => {
                let nanos = if matches!(operation, Operation::Day) { DAY.unsigned_abs() } else { 3_000_000_000 };
                self.machine.clock.advance(Duration::from_nanos(nanos));
                self.store.background.collect_now()?;
                self.store.core.meta.sync().wait()?;
            }
            Operation::Expire => (0..PASSES).try_for_each(|_| self.expire())?,
            Operation::Close { .. } | Operation::Unmount { .. } => self.let_go(operation)?,
            _ if operation.is_of_mount() => {
                if let Some(at) = operation.written() {
                    self.read_past(&at)?;
                }
                self.act_mounted(operation)?;
            }
            _ => return self.act_on_objects(state, operation),
        }
        Ok(None)
    }

    /// Closes what is open, for the operations that end something of the process alone.
    fn let_go(&mut self, operation: &Operation) -> Result<()> {
        match operation {
            Operation::Close { bucket } => {
                let Some((mounted, ino)) = self.machine.kernel.closes(bucket) else { return Ok(()) };
                let volume = self.volumes[&mounted].clone();
                let closed = volume.close_writer(ino);
                volume.forget(ino, 1);
                closed
            }
            Operation::Unmount { bucket } => {
                self.unmount(bucket);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn set_retention(&self, bucket: &str, compliance: Option<bool>) -> Result<()> {
        let default = compliance.map(|compliance| {
            let mode = if compliance { RetentionMode::Compliance } else { RetentionMode::Governance };
            DefaultRetention { mode: mode as i32, days: Some(1), years: None }
        });
        let change = move |settings: &mut Settings| {
            settings.object_lock = Some(ObjectLock { default });
            Ok(())
        };
        self.run(self.store.change_settings(&name(bucket), change))
    }

    fn set_rule(&self, bucket: &str, rule: Option<Rule>) -> Result<()> {
        let change = move |settings: &mut Settings| {
            settings.lifecycle = rule.map(recorded).into_iter().collect();
            Ok(())
        };
        self.run(self.store.change_settings(&name(bucket), change))
    }

    /// A pass of the lifecycle worker, or what is left of one.
    fn expire(&self) -> Result<()> {
        let core = &self.store.core;
        let mut pass = Pass::resume(core, Day::default())?;
        while !pass.step(core)?.done {}
        pass.finish(core).map(drop)
    }
}

/// A rule as settings have it.
pub(super) fn recorded(rule: Rule) -> LifecycleRule {
    let days = |days: u64| u32::try_from(days).unwrap();
    LifecycleRule {
        id: "rule".into(),
        enabled: true,
        filter: Some(LifecycleFilter { prefix: Some(rule.prefix.into()), ..LifecycleFilter::default() }),
        expire_days: rule.expire.map(days),
        expire_markers: rule.markers.then_some(true),
        noncurrent_days: rule.noncurrent.map(|(after, _)| days(after)),
        noncurrent_kept: rule.noncurrent.map(|(_, kept)| u32::try_from(kept).unwrap()).filter(|kept| *kept > 0),
        abort_upload_days: rule.uploads.map(days),
        ..LifecycleRule::default()
    }
}
