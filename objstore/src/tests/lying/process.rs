//! A process with a store on the lying disk: it does what a schedule says, on one thread, until the disk is dead.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio::runtime::Runtime;

use super::act::{Act, At, bytes};
use super::model::{State, etag};
use crate::blob::{self, Helpers};
use crate::check::{self, Report};
use crate::clock::{Clock, Scripted, Timestamp};
use crate::content::Staged;
use crate::disk::Disk;
use crate::disk::lying::LyingDisk;
use crate::error::Result;
use crate::meta::{Meta, in_turns};
use crate::store::*;
use crate::tests::rig::{bucket_request, by_root, find, key, name};
use crate::volume::{Make, Rename, RenameMode, SetAttr, Spot, Volume, VolumeOptions, XattrMode};

/// Small, so that segments fill up and are rewritten.
const SEGMENT_BYTES: u64 = 48 << 10;

/// A clock that goes on by a microsecond with each look, and by more when it is told to.
pub(super) struct Ticks(AtomicI64);

impl Ticks {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicI64::new(1_000_000_000_000_000_000)))
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
}

/// A process.
pub(super) struct Process {
    machine: Machine,
    pub(super) disk: LyingDisk,
    pub(super) store: Store,
    volumes: BTreeMap<String, Volume>,
    /// Files open for writing, by bucket, oldest first.
    writers: BTreeMap<String, Vec<u64>>,
}

fn dir() -> &'static Path {
    Path::new("/store")
}

fn open_meta(disk: &LyingDisk) -> Result<Meta> {
    let meta_dir = dir().join("meta");
    disk.make_dir_all(&meta_dir)?;
    in_turns::open(disk, &meta_dir.join("log"))
}

/// The offline check of a store that is closed, with all checksums.
pub(super) fn check_closed(disk: &LyingDisk) -> Result<Report> {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    check::run_on(&open_meta(disk)?, &shared, dir(), &check::Options::default())
}

impl Process {
    /// Opens the store on a disk, or makes one.
    pub(super) fn open(machine: Machine, disk: LyingDisk) -> Result<Self> {
        disk.make_dir_all(dir())?;
        let lock = disk.lock(&dir().join("lock"))?;
        let meta = open_meta(&disk)?;
        let options = Options {
            clock: machine.clock.clone(),
            random: machine.random.clone(),
            disk: Arc::new(disk.clone()),
            ..Options::new(dir())
        };
        let blobs =
            blob::Options { segment_bytes: SEGMENT_BYTES, helpers: Helpers::Callers, ..blob::Options::default() };
        let store = Store::open_alone(meta, lock, options, blobs)?;
        Ok(Self { machine, disk, store, volumes: BTreeMap::new(), writers: BTreeMap::new() })
    }

    fn run<T>(&self, operation: impl Future<Output = T>) -> T {
        self.machine.runtime.block_on(operation)
    }

    /// A mount of a bucket or snapshot.
    pub(super) fn volume(&mut self, bucket: &str) -> Result<Volume> {
        if let Some(volume) = self.volumes.get(bucket) {
            return Ok(volume.clone());
        }
        let volume = self.store.open_volume(&name(bucket), VolumeOptions::default())?;
        self.volumes.insert(bucket.to_owned(), volume.clone());
        Ok(volume)
    }

    fn unmount(&mut self, bucket: &str) {
        self.volumes.remove(bucket);
        self.writers.remove(bucket);
    }

    fn mounted(&mut self, at: &At) -> Result<(Volume, u64)> {
        let volume = self.volume(&at.bucket)?;
        let ino = find(&volume, &at.path)?;
        Ok((volume, ino))
    }

    /// The folder of a path, and its last name.
    fn parent(&mut self, bucket: &str, path: &str) -> Result<(Volume, u64, String)> {
        let volume = self.volume(bucket)?;
        let (folder, last) = path.rsplit_once('/').unwrap_or(("", path));
        let ino = find(&volume, folder)?;
        Ok((volume, ino, last.to_owned()))
    }

    /// All mounts end, and the store is closed.
    pub(super) fn close(mut self) -> LyingDisk {
        self.volumes.clear();
        self.store.close();
        self.disk
    }

    /// Does an operation; a new upload's id.
    pub(super) fn act(&mut self, state: &State, act: &Act) -> Result<Option<String>> {
        match act {
            Act::CreateBucket { bucket, quota, versioned } => {
                let versioning = if *versioned { Versioning::Enabled } else { Versioning::Disabled };
                let request = CreateBucket { quota_bytes: *quota, versioning, ..bucket_request(bucket) };
                self.run(self.store.create_bucket(request)).map(drop)?;
            }
            Act::DeleteBucket { bucket } => {
                self.unmount(bucket);
                self.run(self.store.delete_bucket(&name(bucket), Deletion::Force))?;
            }
            Act::SetQuota { bucket, quota } => {
                let set = SetBucket { quota_bytes: Some(*quota), ..SetBucket::default() };
                self.run(self.store.set_bucket(&name(bucket), set)).map(drop)?;
            }
            Act::Snapshot { bucket, name: of } => {
                self.run(self.store.create_snapshot(&name(bucket), &name(of))).map(drop)?;
            }
            Act::Clone { source, bucket } => {
                let snapshot = state.buckets[source].snapshot;
                let source = if snapshot { Source::Snapshot(source.clone()) } else { Source::Bucket(name(source)) };
                let request = CreateBucket { source: Some(source), ..bucket_request(bucket) };
                self.run(self.store.create_bucket(request)).map(drop)?;
            }
            Act::DeleteSnapshot { name } => {
                self.unmount(name);
                self.run(self.store.delete_snapshot(name))?;
            }
            Act::CreateAccount { account } => self.run(self.store.create_account(account, false)).map(drop)?,
            Act::DeleteAccount { account } => self.run(self.store.delete_account(account))?,
            Act::RotateKey { account } => self.run(self.store.rotate_key(account)).map(drop)?,
            Act::RotateMaster => self.run(self.store.rotate_master_key()).map(drop)?,
            Act::Grant { bucket, account, mode } => {
                self.run(self.store.add_grant(&name(bucket), account, *mode)).map(drop)?;
            }
            Act::Revoke { bucket, account } => self.run(self.store.remove_grant(&name(bucket), account))?,
            Act::Collect => self.store.background.collect_now(&self.store.core)?,
            Act::Pass => {
                self.machine.clock.advance(Duration::from_secs(3));
                self.store.background.collect_now(&self.store.core)?;
                self.store.core.meta.sync().wait()?;
            }
            Act::Close { .. } | Act::Unmount { .. } => self.let_go(act)?,
            _ if act.is_of_mount() => self.act_mounted(act)?,
            _ => return self.act_on_objects(state, act),
        }
        Ok(None)
    }

    fn stage(&self, stamp: u64, size: usize) -> Result<Staged> {
        self.run(self.store.stage(bytes(stamp, size).to_vec().into()))
    }

    fn upload(state: &State, at: &At) -> UploadRef {
        let id = state.buckets[&at.bucket].uploads[&at.path].id.clone().unwrap();
        UploadRef { bucket: name(&at.bucket), key: key(&at.path), id }
    }

    fn act_on_objects(&mut self, state: &State, act: &Act) -> Result<Option<String>> {
        match act {
            Act::Put { at, size, stamp } => {
                let request = PutObject {
                    bucket: name(&at.bucket),
                    key: key(&at.path),
                    content: self.stage(*stamp, *size)?,
                    etag: etag(*stamp),
                    headers: Headers::default(),
                    metadata: BTreeMap::from([("note".to_owned(), stamp.to_string())]),
                    tags: BTreeMap::new(),
                    checksums: Vec::new(),
                    lock: Lock::default(),
                    condition: Condition::default(),
                };
                self.run(self.store.put_object(request)).map(drop)?;
            }
            Act::Delete { at } => {
                let request = DeleteObject::new(key(&at.path));
                self.run(self.store.delete_object(&name(&at.bucket), request)).map(drop)?;
            }
            Act::DeleteMany { bucket, keys } => {
                let requests = keys.iter().map(|of| DeleteObject::new(key(of))).collect();
                let deleted = self.run(self.store.delete_objects(&name(bucket), requests))?;
                deleted.into_iter().try_for_each(|deleted| deleted.map(drop))?;
            }
            Act::DeleteVersion { at, index } => self.delete_version(at, *index)?,
            Act::Copy { from, to } => {
                let request = CopyObject {
                    source_bucket: name(&from.bucket),
                    source_key: key(&from.path),
                    source_version: None,
                    source_condition: Condition::default(),
                    bucket: name(&to.bucket),
                    key: key(&to.path),
                    metadata: Directive::Copy,
                    tags: Directive::Copy,
                    checksums: None,
                    lock: Lock::default(),
                    condition: Condition::default(),
                };
                self.run(self.store.copy_object(request)).map(drop)?;
            }
            Act::Look { bucket } => {
                let list = List { limit: usize::MAX, ..List::default() };
                for object in self.store.list_objects(&name(bucket), &list)?.objects {
                    self.store.head_object(&name(bucket), &key(&object.key), None)?;
                }
            }
            _ => return self.act_on_uploads(state, act),
        }
        Ok(None)
    }

    fn act_on_uploads(&mut self, state: &State, act: &Act) -> Result<Option<String>> {
        match act {
            Act::BeginUpload { at } => {
                let request = CreateUpload {
                    bucket: name(&at.bucket),
                    key: key(&at.path),
                    headers: Headers::default(),
                    metadata: BTreeMap::new(),
                    tags: BTreeMap::new(),
                    lock: Lock::default(),
                    checksum_algorithm: None,
                    initiator: ROOT_ACCOUNT.into(),
                };
                return Ok(Some(self.run(self.store.create_upload(request))?.id));
            }
            Act::PutPart { at, number, size, stamp } => {
                let (upload, content) = (Self::upload(state, at), self.stage(*stamp, *size)?);
                let part = PutPart { upload, number: *number, content, etag: etag(*stamp), checksums: Vec::new() };
                self.run(self.store.put_part(part)).map(drop)?;
            }
            Act::CopyPart { at, number, from } => {
                let request = CopyPart {
                    upload: Self::upload(state, at),
                    number: *number,
                    source_bucket: name(&from.bucket),
                    source_key: key(&from.path),
                    source_version: None,
                    source_condition: Condition::default(),
                    range: None,
                };
                self.run(self.store.copy_part(request, Box::new(NoHash))).map(drop)?;
            }
            Act::Complete { at } => {
                let upload = Self::upload(state, at);
                let parts = self.store.parts(&upload, 0, 100)?.parts;
                let last = parts.last().map(|part| (part.number, part.etag.clone()));
                let request = CompleteUpload {
                    upload,
                    parts: last.into_iter().collect(),
                    condition: Condition::default(),
                    checksums: Vec::new(),
                };
                self.run(self.store.complete_upload(request)).map(drop)?;
            }
            Act::Abort { at } => self.run(self.store.abort_upload(&Self::upload(state, at)))?,
            _ => unreachable!("{act:?}"),
        }
        Ok(None)
    }

    /// Deletes a version below the current one; the oldest has the index 0.
    fn delete_version(&self, at: &At, index: usize) -> Result<()> {
        let list = List { prefix: at.path.clone(), limit: usize::MAX, ..List::default() };
        let listed = self.store.list_versions(&name(&at.bucket), &ListVersions { list, after_version: None })?;
        let of_key: Vec<_> = listed.versions.iter().filter(|version| version.object.key == at.path).collect();
        let version = of_key[of_key.len() - 1 - index].object.version.clone();
        let request = DeleteObject { version, ..DeleteObject::new(key(&at.path)) };
        self.run(self.store.delete_object(&name(&at.bucket), request)).map(drop)
    }

    fn act_mounted(&mut self, act: &Act) -> Result<()> {
        match act {
            Act::Make { at } => self.make(at, Make::File),
            Act::MakeFolder { at } => self.make(at, Make::Directory),
            Act::Symlink { at, target } => self.make(at, Make::Symlink(target.clone())),
            Act::RemoveFolder { at } => {
                let (volume, parent, last) = self.parent(&at.bucket, &at.path)?;
                volume.remove_dir(parent, &last)
            }
            Act::Link { at, to } => {
                let (_, ino) = self.mounted(at)?;
                let (volume, parent, last) = self.parent(&at.bucket, to)?;
                volume.link(ino, parent, &last)?;
                volume.forget(ino, 1);
                Ok(())
            }
            Act::Rename { at, to } => {
                let (_, from_parent, from_name) = self.parent(&at.bucket, &at.path)?;
                let (volume, to_parent, to_name) = self.parent(&at.bucket, to)?;
                volume.rename(Rename { from_parent, from_name, to_parent, to_name, mode: RenameMode::Replace })
            }
            Act::Unlink { at, hold } => {
                let (volume, ino) = self.mounted(at)?;
                if *hold {
                    volume.pin(ino)?;
                }
                let (_, parent, last) = self.parent(&at.bucket, &at.path)?;
                volume.unlink(parent, &last)
            }
            Act::SetMode { at, mode } => {
                let (volume, ino) = self.mounted(at)?;
                volume.set_attr(ino, SetAttr { mode: Some(*mode), ..SetAttr::default() }).map(drop)
            }
            Act::SetXattr { at, value } => {
                let (volume, ino) = self.mounted(at)?;
                volume.set_xattr(ino, "user.k", value, XattrMode::Any)
            }
            _ => self.act_written(act),
        }
    }

    fn make(&mut self, at: &At, what: Make) -> Result<()> {
        let (volume, parent, last) = self.parent(&at.bucket, &at.path)?;
        let made = volume.make(parent, &last, what, by_root(0o644))?;
        volume.forget(made.ino, 1);
        Ok(())
    }

    fn act_written(&mut self, act: &Act) -> Result<()> {
        match act {
            Act::Write { at, offset, size, stamp } => {
                let (volume, ino) = self.mounted(at)?;
                volume.write(ino, *offset as u64, &bytes(*stamp, *size), false).map(drop)
            }
            Act::Append { at, size, stamp } => {
                let (volume, ino) = self.mounted(at)?;
                volume.append(ino, &bytes(*stamp, *size)).map(drop)
            }
            Act::Truncate { at, size } => {
                let (volume, ino) = self.mounted(at)?;
                volume.set_attr(ino, SetAttr { size: Some(*size as u64), ..SetAttr::default() }).map(drop)
            }
            Act::Allocate { at, how, offset, size } => {
                let (volume, ino) = self.mounted(at)?;
                volume.allocate(ino, *how, *offset as u64, *size as u64)
            }
            Act::CopyRange { at, to, size } => {
                let (_, from) = self.mounted(at)?;
                let (volume, to) = self.mounted(&At { bucket: at.bucket.clone(), path: to.clone() })?;
                let mut done = 0;
                // A call copies what it likes, as the system call does.
                while done < *size as u64 {
                    let spot = |ino| Spot { ino, offset: done };
                    match volume.copy_range(spot(from), spot(to), *size as u64 - done)? {
                        0 => break,
                        copied => done += copied,
                    }
                }
                Ok(())
            }
            Act::Fsync { at, data_only } => {
                let (volume, ino) = self.mounted(at)?;
                if *data_only { volume.sync_without_time(ino) } else { volume.sync(ino) }
            }
            Act::SyncVolume { bucket } => self.volume(bucket)?.sync_volume(),
            Act::Open { at } => {
                let (volume, ino) = self.mounted(at)?;
                volume.pin(ino)?;
                volume.open_writer(ino)?;
                self.writers.entry(at.bucket.clone()).or_default().push(ino);
                Ok(())
            }
            _ => unreachable!("{act:?}"),
        }
    }

    /// Closes what is open, for the operations that end something of the process alone.
    fn let_go(&mut self, act: &Act) -> Result<()> {
        match act {
            Act::Close { bucket } => {
                let open = self.writers.get_mut(bucket).filter(|open| !open.is_empty());
                let Some(ino) = open.map(|open| open.remove(0)) else { return Ok(()) };
                let volume = self.volume(bucket)?;
                let closed = volume.close_writer(ino);
                volume.forget(ino, 1);
                closed
            }
            Act::Unmount { bucket } => {
                self.unmount(bucket);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// A part's entity tag is not looked at.
struct NoHash;

impl PartHash for NoHash {
    fn update(&mut self, _data: &[u8]) {}

    fn finish(self: Box<Self>) -> (String, Vec<Checksum>) {
        (etag(0), Vec::new())
    }
}
