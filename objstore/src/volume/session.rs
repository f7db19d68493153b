//! A mount's session: the tree it shows, and how its changes are executed.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::access_check::AccessCheck;
use super::persistent;
use super::replay::{Answered, Call};
use super::types::{Attr, Change, Kind, ROOT_INO};
use crate::branch::Ancestry;
use crate::core::{Core, Named};
use crate::error::{Error, Posix, Result};
use crate::feed::{Feed, FeedOwner};
use crate::meta::{Durability, Read, Snapshot};
use crate::name::{BucketName, Key};
use crate::record::inode::{Content, Inode, InodeKind};
use crate::record::key::{self, Branch, CloneGroup, tag};
use crate::session_id::{SessionId, next_mount};
use crate::state::{Appends, LockLog, LockSession, Served};
use crate::store::{Access, MountSession, Store};
use crate::tree::{Tree, Tx};
use crate::undelivered;

/// How to open a volume.
#[derive(Clone, Debug, Default)]
pub struct VolumeOptions {
    /// Refuse all changes.
    pub read_only: bool,
    /// The directory of the bucket that becomes the root; empty for the whole bucket.
    pub prefix: String,
    /// The account whose grant opens the bucket; `None` for the administrator.
    pub account: Option<String>,
    /// The session id, if the session is to outlive the server: see [`Volume::end`].
    pub session: Option<SessionId>,
    /// Whether an earlier server served the session, and it was named as continuing when the store was opened. The
    /// bucket's name has to be the original one, and the root stays the same for any prefix.
    pub inherited: bool,
}

/// A mount's session on a bucket or snapshot. Cheap to clone; all methods may block, so call them from plain threads.
/// Dropping the last clone ends the session: its references are dropped, and unlinked files they kept are collected. A
/// persistent session ends with [`Volume::end`] only.
#[derive(Clone)]
pub struct Volume(pub(super) Arc<Session>, pub(super) Option<Call>);

/// The state of a session.
pub(crate) struct Session {
    pub core: Arc<Core>,
    pub access: Arc<Access>,
    pub name: BucketName,
    /// The bucket's id, or the snapshot's.
    pub bucket: u64,
    pub clone_group: CloneGroup,
    /// Set for a snapshot.
    pub frozen: Option<Branch>,
    pub read_only: bool,
    pub root: u64,
    /// Identifies this mount in the process.
    pub mount: u64,
    pub access_check: AccessCheck,
    pub(super) inode_refs: Mutex<HashMap<u64, u64>>,
    /// Inodes that the kernel had open when the session was taken over.
    pub(super) open_before: Mutex<HashSet<u64>>,
    /// Open counts of the files that this session has open for writing.
    pub writers: Mutex<HashMap<u64, u64>>,
    /// Set if the session is persistent.
    pub id: Option<SessionId>,
    /// Whether an earlier server served it.
    pub inherited: bool,
    /// Whether its mount is on another machine: every transaction checks that the session has not ended.
    pub(super) remote: bool,
    /// Answered requests whose replay records may be removed.
    pub(super) answered: Answered,
    /// The offsets of appends in progress.
    pub(super) appends: Option<Arc<Appends>>,
    /// The session, as file locks know it.
    pub(super) lock_session: LockSession,
    pub(super) ended: AtomicBool,
}

/// The tree that a session shows.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// The bucket's id, or the snapshot's.
    pub bucket: u64,
    pub clone_group: CloneGroup,
    /// Set for a snapshot.
    pub frozen: Option<Branch>,
    /// The directory that is the root.
    pub root: u64,
}

impl Store {
    /// Begins a session on a bucket or snapshot, or takes one over.
    ///
    /// # Errors
    /// [`Error::Denied`] if the account has no grant. A session that is taken over is opened nevertheless, since its
    /// mount exists: each of its calls is refused until there is a grant again. [`Error::Invalid`] for a session that
    /// was not to continue.
    pub fn open_volume(&self, bucket: &BucketName, options: VolumeOptions) -> Result<Volume> {
        let core = &self.core;
        let snapshot = core.meta.snapshot();
        let (place, served) = match options.session {
            _ if !options.inherited => (place(core, &*snapshot, bucket, &options.prefix)?, None),
            Some(id) => {
                let (place, served) = persistent::take_over(core, &*snapshot, id, bucket)?;
                (place, Some(served))
            }
            None => return Err(Error::invalid("session", "", "one that is taken over has an id; give it")),
        };
        let begun = options.session.filter(|_| !options.inherited);
        let mut session = Session::new(self, bucket.clone(), place, options);
        if let Some(served) = served {
            session.serve(served);
        }
        if !session.inherited {
            session.check(!session.read_only)?;
            // The session is counted, so no lease is granted from now on.
            self.take_lease_back(session.bucket);
        }
        if let Some(id) = begun {
            let served = persistent::begin(id, &session)?;
            session.serve(served);
        }
        Ok(self.enter(session))
    }

    /// The volume of a session that began: it checks its access again whenever grants change.
    pub(super) fn enter(&self, session: Session) -> Volume {
        let session = Arc::new(session);
        let entered: Weak<dyn MountSession> = Arc::<Session>::downgrade(&session);
        self.access.enter(entered);
        Volume(session, None)
    }
}

pub(super) fn place(core: &Core, read: &dyn Read, name: &BucketName, prefix: &str) -> Result<Place> {
    let named = core.named(read, name)?;
    let (bucket, clone_group, frozen) = match &named {
        Named::Bucket(record) => (record.id, record.clone_group, None),
        Named::Snapshot(record) => (record.id, record.clone_group, Some(record.branch)),
    };
    let ancestry = core.ancestry_of(read, &named)?;
    Ok(Place { bucket, clone_group, frozen, root: prefix_root(Tree { read, ancestry: &ancestry }, prefix)? })
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

    /// The bucket's id, or the snapshot's. A later one of the same name has another.
    pub fn bucket_id(&self) -> u64 {
        self.0.bucket
    }

    /// Whether changes are refused.
    pub fn read_only(&self) -> bool {
        self.0.read_only
    }

    /// The feed of changes by others; called once per session. After a takeover it begins with the undelivered
    /// invalidations, and with questions about unlinked inodes that the kernel may hold.
    pub fn feed(&self) -> Feed {
        let Session { core, bucket, mount, id, .. } = &*self.0;
        let life = match id {
            Some(_) if self.0.remote => FeedOwner::Leased,
            Some(_) => FeedOwner::Lasting,
            None => FeedOwner::Process,
        };
        let (feed, missed) = core.feeds.open(*bucket, *mount, life);
        if let Some(id) = id.filter(|_| self.0.inherited) {
            if missed && let Err(error) = undelivered::give_missed(core, *bucket, *mount, id) {
                tracing::error!(%error, "cannot deliver the cache invalidations of the time without a server; the mount may show stale data");
            }
            let asked = core.inode_refs.suspected(*bucket, id).into_iter().map(|ino| Change::Probe { ino });
            core.feeds.publish_to(*mount, &asked.collect::<Vec<_>>());
        }
        feed
    }

    /// Closes the feed: its `next` returns `None`.
    pub fn close_feed(&self) {
        self.0.core.feeds.close(self.0.mount);
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
        let (snapshot, ancestry) = self.0.now()?;
        read(Tree { read: &*snapshot, ancestry: &ancestry })
    }

    /// Changes the tree in one transaction; the change is in the store when it returns.
    pub(super) fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce(&mut Tx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.change_with(Durability::Buffered, change)
    }

    /// Changes the tree in one transaction with the given durability.
    pub(super) fn change_with<T: Send + 'static>(
        &self,
        durability: Durability,
        change: impl FnOnce(&mut Tx<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.refuse_write()?;
        self.0.core.feeds.make_room(self.0.bucket, self.0.mount);
        let (session, given) = (self.0.clone(), self.1.as_ref().and_then(Call::given));
        self.0.core.meta.transact(durability, move |txn| {
            session.check_open(&*txn)?;
            let Session { core, name, bucket, mount, .. } = &*session;
            let mut tx = Tx::begin_mounted(txn, core, name, *bucket, *mount)?;
            given.into_iter().for_each(|given| tx.give(given));
            let value = change(&mut tx)?;
            tx.finish()?;
            Ok(value)
        })
    }
}

impl Session {
    pub(super) fn new(store: &Store, name: BucketName, place: Place, options: VolumeOptions) -> Self {
        let Place { bucket, clone_group, frozen, root } = place;
        store.core.mounted.add(bucket);
        let mount = next_mount();
        Self {
            core: store.core.clone(),
            access: store.access.clone(),
            name,
            bucket,
            clone_group,
            frozen,
            read_only: options.read_only || frozen.is_some(),
            root,
            mount,
            access_check: AccessCheck::new(options.account),
            inode_refs: Mutex::default(),
            open_before: Mutex::default(),
            writers: Mutex::default(),
            id: None,
            inherited: options.inherited,
            remote: false,
            answered: Answered::default(),
            appends: None,
            lock_session: LockSession::of_process(mount),
            ended: AtomicBool::new(false),
        }
    }

    /// Serves a persistent session.
    pub(super) fn serve(&mut self, served: Served) {
        self.id = Some(served.id);
        self.remote = served.remote;
        self.mount = served.mount;
        let log = LockLog::new(self.core.disk.clone(), &self.core.dir, served.id, served.remote);
        self.lock_session = LockSession::persistent(served.id, served.mount, log);
        self.appends = Some(served.appends);
        self.access_check.hold_to(served.account);
    }

    /// Refuses a change of a session of another machine that has ended. Called in the transaction of the change, so that
    /// none follows the one that ended the session.
    ///
    /// # Errors
    /// ESTALE.
    pub(super) fn check_open(&self, read: &dyn Read) -> Result<()> {
        match self.id.filter(|_| self.remote) {
            Some(id) if read.get(&key::by_id(tag::SESSION, id.get()))?.is_none() => Err(Posix::Stale.into()),
            _ => Ok(()),
        }
    }

    /// A snapshot of the store, and the branch with its ancestry that this session shows.
    pub fn now(&self) -> Result<(Box<dyn Snapshot>, Ancestry)> {
        self.check(false)?;
        let (snapshot, branch) = match self.frozen {
            Some(branch) => {
                let snapshot = self.core.meta.snapshot();
                match self.core.named(&*snapshot, &self.name) {
                    Ok(Named::Snapshot(found)) if found.id == self.bucket => (snapshot, branch),
                    Ok(_) | Err(Error::NotFound { .. }) => return Err(Posix::Stale.into()),
                    Err(error) => return Err(error),
                }
            }
            None => match self.core.bucket_now(&self.name)? {
                (snapshot, Some(bucket)) if bucket.id == self.bucket => (snapshot, bucket.branch),
                _ => return Err(Posix::Stale.into()),
            },
        };
        let ancestry = self.core.lines.ancestry(&*snapshot, self.clone_group, branch)?;
        Ok((snapshot, ancestry))
    }

    /// Ends the session because the mount is gone.
    pub(super) fn end(&self) {
        if self.ended.swap(true, Ordering::AcqRel) {
            return;
        }
        self.core.mounted.remove(self.bucket);
        self.core.feeds.remove(self.mount);
        self.core.locks.end(&self.core.feeds, self.lock_session.id());
        self.core.passthrough.release_all(self.mount);
        super::writers::give_back(self);
        self.unpin_all();
        if let Some(id) = self.id {
            persistent::end(&self.core, id, self.bucket, Some(&self.name), self.mount);
        }
    }

    /// Leaves the session to the next process: nothing that its mount holds is collected.
    fn leave(&self, id: SessionId) {
        self.core.mounted.remove(self.bucket);
        self.core.feeds.close(self.mount);
        self.core.passthrough.release_all(self.mount);
        super::writers::give_back(self);
        self.core.inode_refs.leave(self.bucket, id, std::mem::take(&mut *self.inode_refs.lock()));
        self.core.persistent.leave(id);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        match self.id {
            Some(id) if !self.ended.load(Ordering::Acquire) => self.leave(id),
            _ => self.end(),
        }
    }
}

/// The kind of an inode as a mount shows it.
pub(super) fn shown_kind(kind: InodeKind) -> Kind {
    match kind {
        InodeKind::File | InodeKind::None => Kind::File,
        InodeKind::Directory => Kind::Directory,
        InodeKind::Symlink => Kind::Symlink,
        InodeKind::Fifo => Kind::Fifo,
        InodeKind::Socket => Kind::Socket,
        InodeKind::CharDevice => Kind::CharDevice,
        InodeKind::BlockDevice => Kind::BlockDevice,
    }
}

/// The kind in an inode's record.
pub(super) fn inode_kind(kind: Kind) -> InodeKind {
    match kind {
        Kind::File => InodeKind::File,
        Kind::Directory => InodeKind::Directory,
        Kind::Symlink => InodeKind::Symlink,
        Kind::Fifo => InodeKind::Fifo,
        Kind::Socket => InodeKind::Socket,
        Kind::CharDevice => InodeKind::CharDevice,
        Kind::BlockDevice => InodeKind::BlockDevice,
    }
}

/// The allocated space of an inode in units of 512 bytes: its blobs' for a file in blobs, otherwise its record's
/// content.
fn blocks(inode: &Inode) -> u64 {
    match &inode.content {
        None => 0,
        Some(Content::Inline(held)) => inode.size.min(held.len() as u64).div_ceil(512),
        Some(_) => inode.taken(),
    }
}

/// The attributes a mount shows.
pub(super) fn attr(ino: u64, inode: &Inode) -> Attr {
    use crate::clock::Timestamp;
    Attr {
        ino,
        kind: shown_kind(inode.kind()),
        mode: inode.mode,
        uid: inode.uid,
        gid: inode.gid,
        nlink: inode.nlink,
        size: inode.size,
        blocks: blocks(inode),
        rdev: inode.rdev,
        atime: Timestamp(inode.atime),
        mtime: Timestamp(inode.mtime),
        ctime: Timestamp(inode.ctime),
        btime: Timestamp(inode.btime),
    }
}
