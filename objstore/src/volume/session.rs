//! A mount's session: which tree it shows, what it pins, and how its changes run.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::types::{Attr, Kind, ROOT_INO};
use super::warrant::Warrant;
use crate::branch::Line;
use crate::core::{Core, Named};
use crate::error::{Error, Posix, Result};
use crate::feed::Feed;
use crate::meta::{Durability, Snapshot};
use crate::name::{BucketName, Key};
use crate::record::inode::{Inode, InodeKind};
use crate::record::key::{Branch, Family};
use crate::store::Store;
use crate::tree::{Tree, Tx};

/// How to open a volume.
#[derive(Clone, Debug, Default)]
pub struct VolumeOptions {
    /// Refuse all changes.
    pub read_only: bool,
    /// Make this directory of the bucket the root; empty is the whole bucket.
    pub prefix: String,
    /// The account whose grant opens the bucket; `None` is the administrator.
    pub account: Option<String>,
}

/// One mount's session on a bucket, or on a snapshot. Cheap to clone; all methods may block, so call them from plain
/// threads. Dropping the last clone ends the session: its pins go, and unlinked files they kept are collected.
#[derive(Clone)]
pub struct Volume(pub(super) Arc<Session>);

/// The state of a session.
pub(crate) struct Session {
    pub core: Arc<Core>,
    pub name: BucketName,
    /// The bucket's id; of a snapshot, the id of the snapshot.
    pub bucket: u64,
    pub family: Family,
    /// Set for a snapshot.
    pub frozen: Option<Branch>,
    pub read_only: bool,
    pub root: u64,
    /// Tells this mount from others.
    pub mount: u64,
    pub warrant: Warrant,
    pins: Mutex<HashMap<u64, u64>>,
    /// Files this session has open for writing, counted.
    pub writers: Mutex<HashMap<u64, u64>>,
}

static NEXT_MOUNT: AtomicU64 = AtomicU64::new(1);

impl Store {
    /// Begins a session on a bucket, or on a snapshot under its own name.
    pub fn open_volume(&self, bucket: &BucketName, options: VolumeOptions) -> Result<Volume> {
        let snapshot = self.core.meta.snapshot();
        let (id, family, frozen) = match self.core.named(&*snapshot, bucket)? {
            Named::Bucket(record) => (record.id, record.family, None),
            Named::Snapshot(record) => (record.id, record.family, Some(record.branch)),
        };
        let line = self.core.readable(&*snapshot, bucket)?;
        let root = prefix_root(Tree { read: &*snapshot, line: &line }, &options.prefix)?;
        let session = Arc::new(Session {
            core: self.core.clone(),
            name: bucket.clone(),
            bucket: id,
            family,
            frozen,
            read_only: options.read_only || frozen.is_some(),
            root,
            mount: NEXT_MOUNT.fetch_add(1, Ordering::Relaxed),
            warrant: Warrant::new(options.account),
            pins: Mutex::default(),
            writers: Mutex::default(),
        });
        session.check(!session.read_only)?;
        self.core.sessions.lock().push(Arc::downgrade(&session));
        Ok(Volume(session))
    }
}

fn prefix_root(tree: Tree<'_>, prefix: &str) -> Result<u64> {
    let prefix = prefix.trim_matches('/');
    if prefix.is_empty() {
        return Ok(ROOT_INO);
    }
    let key: Key = prefix.parse()?;
    let (mut components, last) = key.split();
    components.extend(last);
    let missing = || Error::invalid("prefix", prefix, "there is no such directory in the bucket; make it first");
    tree.walk(&components)?.ok_or_else(missing)
}

impl Volume {
    /// The root directory's inode.
    pub fn root(&self) -> u64 {
        self.0.root
    }

    /// The bucket's name.
    pub fn bucket(&self) -> &BucketName {
        &self.0.name
    }

    /// Whether changes are refused.
    pub fn read_only(&self) -> bool {
        self.0.read_only
    }

    /// The changes others make. Once per session.
    pub fn feed(&self) -> Feed {
        self.0.core.feeds.open(self.0.bucket, self.0.mount)
    }

    /// Ends the feed: its `next` answers `None`.
    pub fn close_feed(&self) {
        self.0.core.feeds.close(self.0.mount);
    }

    /// Pins an inode once more; ESTALE if it is gone.
    pub fn pin(&self, ino: u64) -> Result<Attr> {
        let inode = self.pin_inode(ino)?;
        Ok(self.shown(ino, &inode))
    }

    pub(super) fn pin_inode(&self, ino: u64) -> Result<Inode> {
        self.hold(ino);
        let found = self.reading(|tree| tree.live_inode(ino)).inspect_err(|_| self.forget(ino, 1))?;
        Ok(found.1)
    }

    /// Takes `count` pins back. An unlinked inode whose last pin goes is collected, not at once.
    pub fn forget(&self, ino: u64, count: u64) {
        self.0.forget(ino, count);
    }

    /// Pins without looking.
    pub(super) fn hold(&self, ino: u64) {
        self.0.core.pins.pin(self.0.bucket, ino);
        *self.0.pins.lock().entry(ino).or_default() += 1;
    }

    /// Refuses a change that the session or its account may not make.
    pub(super) fn refuse_write(&self) -> Result<()> {
        if self.0.read_only {
            return Err(Posix::ReadOnly.into());
        }
        self.0.check(true)
    }

    /// Reads the tree as it is now.
    pub(super) fn reading<T>(&self, read: impl FnOnce(Tree<'_>) -> Result<T>) -> Result<T> {
        let (snapshot, line) = self.0.now()?;
        read(Tree { read: &*snapshot, line: &line })
    }

    /// Changes the tree in one transaction; in the store when it returns.
    pub(super) fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce(&mut Tx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.change_with(Durability::Buffered, change)
    }

    /// The same, as durable as asked.
    pub(super) fn change_with<T: Send + 'static>(
        &self,
        durability: Durability,
        change: impl FnOnce(&mut Tx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.refuse_write()?;
        let session = self.0.clone();
        let done = self.0.core.meta.write(durability, move |txn| {
            let Session { core, name, bucket, mount, .. } = &*session;
            let mut tx = Tx::begin_mounted(txn, core, name, *bucket, *mount)?;
            let value = change(&mut tx)?;
            tx.finish()?;
            Ok(value)
        });
        done.wait()
    }
}

impl Session {
    /// The inodes the kernel knows.
    pub fn pinned(&self) -> Vec<u64> {
        self.pins.lock().keys().copied().collect()
    }

    /// The store now, and the line this session shows.
    pub fn now(&self) -> Result<(Box<dyn Snapshot>, Line)> {
        self.check(false)?;
        let snapshot = self.core.meta.snapshot();
        let branch = match self.frozen {
            Some(branch) => match self.core.named(&*snapshot, &self.name) {
                Ok(Named::Snapshot(found)) if found.id == self.bucket => branch,
                Ok(_) | Err(Error::NotFound { .. }) => return Err(Posix::Stale.into()),
                Err(error) => return Err(error),
            },
            None => match self.core.bucket_record(&*snapshot, &self.name)? {
                Some(bucket) if bucket.id == self.bucket => bucket.branch,
                _ => return Err(Posix::Stale.into()),
            },
        };
        let line = self.core.lines.line(&*snapshot, self.family, branch)?;
        Ok((snapshot, line))
    }

    fn forget(&self, ino: u64, count: u64) {
        let taken = {
            let mut pins = self.pins.lock();
            let Some(held) = pins.get_mut(&ino) else { return };
            let taken = count.min(*held);
            *held -= taken;
            if *held == 0 {
                pins.remove(&ino);
            }
            taken
        };
        if self.core.pins.unpin(self.bucket, ino, taken) {
            self.collect(ino);
        }
    }

    /// Collects an unlinked inode nobody holds any more. Not waited for: opening the store collects what is left.
    fn collect(&self, ino: u64) {
        self.core.hot.remove(self.bucket, ino);
        let (core, name, bucket, mount) = (self.core.clone(), self.name.clone(), self.bucket, self.mount);
        let done = self
            .core
            .meta
            .write(Durability::Buffered, move |txn| crate::gc::orphans::collect(txn, &core, &name, bucket, mount, ino));
        drop(done);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.core.feeds.close(self.mount);
        super::writers::give_back(self);
        let pins = std::mem::take(&mut *self.pins.lock());
        for (ino, count) in pins {
            if self.core.pins.unpin(self.bucket, ino, count) {
                self.collect(ino);
            }
        }
    }
}

impl From<InodeKind> for Kind {
    fn from(kind: InodeKind) -> Self {
        match kind {
            InodeKind::File | InodeKind::None => Self::File,
            InodeKind::Directory => Self::Directory,
            InodeKind::Symlink => Self::Symlink,
            InodeKind::Fifo => Self::Fifo,
            InodeKind::Socket => Self::Socket,
            InodeKind::CharDevice => Self::CharDevice,
            InodeKind::BlockDevice => Self::BlockDevice,
        }
    }
}

impl From<Kind> for InodeKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::File => Self::File,
            Kind::Directory => Self::Directory,
            Kind::Symlink => Self::Symlink,
            Kind::Fifo => Self::Fifo,
            Kind::Socket => Self::Socket,
            Kind::CharDevice => Self::CharDevice,
            Kind::BlockDevice => Self::BlockDevice,
        }
    }
}

/// The attributes a mount shows.
pub(super) fn attr(ino: u64, inode: &Inode) -> Attr {
    use crate::clock::Timestamp;
    Attr {
        ino,
        kind: inode.kind().into(),
        mode: inode.mode,
        uid: inode.uid,
        gid: inode.gid,
        nlink: inode.nlink,
        size: inode.size,
        blocks: inode.size.div_ceil(512),
        rdev: inode.rdev,
        atime: Timestamp(inode.atime),
        mtime: Timestamp(inode.mtime),
        ctime: Timestamp(inode.ctime),
        btime: Timestamp(inode.btime),
        generation: inode.generation,
    }
}
