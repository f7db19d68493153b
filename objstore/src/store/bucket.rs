//! Operations on buckets: creating, changing, deleting and listing them.

use std::collections::BTreeMap;
use std::sync::Arc;

use objstore_files::ROOT_INO;
use prost::Message;

use super::types::{
    Bucket, CreateBucket, Deletion, Modification, ObjectLock, Outcome, RootChange, SetBucket, Settings, Source, Usage,
    Versioning,
};
use super::{Store, account, header, modify, settings, snapshot};
use crate::branch::{self, Ancestry};
use crate::clock::Timestamp;
use crate::core::{Core, Named};
use crate::error::{Error, Noun, Result};
use crate::meta::{Durability, Read, Txn};
use crate::name::BucketName;
use crate::passthrough::DetachedCopy;
use crate::record::bucket::{self, SourceName, VersioningState};
use crate::record::decode;
use crate::record::inode::{Inode, InodeKind};
use crate::record::key::{self, tag};
use crate::state::{Changing, ExclusiveGuard};
use crate::tree::{Tx, protection};

impl From<VersioningState> for Versioning {
    fn from(state: VersioningState) -> Self {
        match state {
            VersioningState::Disabled => Self::Disabled,
            VersioningState::Enabled => Self::Enabled,
            VersioningState::Suspended => Self::Suspended,
        }
    }
}

fn shown(read: &dyn Read, name: BucketName, record: bucket::Bucket) -> Result<Bucket> {
    Ok(Bucket {
        name,
        id: record.id,
        owner: account::name_of(read, record.owner)?,
        quota_bytes: record.quota_bytes,
        versioning: record.versioning().into(),
        created: Timestamp(record.created),
        source: record.source.map(|source| source.name),
        attributes: record.attributes,
        snapshot: false,
    })
}

fn shown_snapshot(read: &dyn Read, name: BucketName, record: &bucket::Snapshot) -> Result<Bucket> {
    Ok(Bucket {
        name,
        id: record.id,
        owner: account::name_of(read, record.owner)?,
        quota_bytes: None,
        versioning: record.versioning().into(),
        created: Timestamp(record.created),
        source: Some(record.bucket_name.clone()),
        attributes: BTreeMap::new(),
        snapshot: true,
    })
}

/// Writes the record of a bucket.
pub(super) fn put(txn: &mut dyn Txn, core: &Core, name: &BucketName, record: &bucket::Bucket) {
    core.buckets.change(txn);
    txn.put(key::by_name(tag::BUCKET, name.as_str()), record.encode_to_vec());
}

/// Writes a bucket's record after a snapshot moved the bucket to another branch.
pub(super) fn move_to_branch(txn: &mut dyn Txn, core: &Core, name: &BucketName, record: &bucket::Bucket) {
    put(txn, core, name, record);
}

fn source_name(source: &Source) -> SourceName {
    SourceName { snapshot: matches!(source, Source::Snapshot(_)), name: source.name().to_owned() }
}

impl From<Versioning> for VersioningState {
    fn from(versioning: Versioning) -> Self {
        match versioning {
            Versioning::Disabled => Self::Disabled,
            Versioning::Enabled => Self::Enabled,
            Versioning::Suspended => Self::Suspended,
        }
    }
}

/// Checks a change of versioning: once enabled, it can only be suspended, and not with object lock (S3 API,
/// PutBucketVersioning).
fn check_versioning(
    read: &dyn Read,
    core: &Core,
    (name, record): (&BucketName, &bucket::Bucket),
    wanted: Versioning,
) -> Result<()> {
    if record.versioning() != VersioningState::Disabled && wanted == Versioning::Disabled {
        return Err(Error::invalid("versioning", "disabled", "a bucket that kept versions can only suspend that"));
    }
    if wanted != Versioning::Enabled && core.settings.of(read, record)?.object_lock.is_some() {
        let why = "it has object lock: its versions have to be kept";
        return Err(Error::invalid("bucket state", name.as_str(), why));
    }
    Ok(())
}

/// Changes the versioning state within a change of the bucket.
pub(super) fn set_versioning(tx: &mut Tx<'_>, wanted: Versioning) -> Result<()> {
    check_versioning(&*tx.txn, tx.core, (tx.name, &tx.bucket), wanted)?;
    if tx.bucket.versioning() != wanted.into() {
        tx.bucket.versioning = VersioningState::from(wanted) as i32;
        put(tx.txn, tx.core, tx.name, &tx.bucket);
    }
    Ok(())
}

impl Store {
    /// Creates a bucket. An existing bucket of the same name with the same owner, quota, versioning, source and
    /// attributes is found; otherwise it fails with [`Error::Exists`].
    ///
    /// A clone has the versions of its source, each with its lock. It has its source's versioning unless the request
    /// says otherwise, and its source's object lock, which requires versioning; no other setting is inherited.
    pub async fn create_bucket(&self, request: CreateBucket) -> Result<(Bucket, Outcome)> {
        self.create_bucket_with(request, Settings::default()).await
    }

    /// Creates a bucket with initial settings; an existing bucket keeps its own. Object lock needs
    /// [`Versioning::Enabled`].
    pub async fn create_bucket_with(&self, request: CreateBucket, settings: Settings) -> Result<(Bucket, Outcome)> {
        if settings.object_lock.is_some() && request.versioning != Versioning::Enabled {
            return Err(Error::invalid("bucket state", request.name.as_str(), "object lock needs versioning enabled"));
        }
        let _changing = self.begin_clone(request.source.as_ref()).await?;
        self.blocking(move |store| store.create_bucket_blocking(request, settings, RootChange::default())).await
    }

    /// Begins to clone a bucket, which no session has alone meanwhile.
    async fn begin_clone(&self, source: Option<&Source>) -> Result<Option<Changing<'_>>> {
        match source {
            Some(Source::Bucket(name)) => self.begin_change(name).await.map(Some),
            _ => Ok(None),
        }
    }

    /// Creates a bucket with the lifecycle rule of a modification, and changes the root of a clone by it. An existing
    /// bucket stays as it is. Its versioning is that of the request.
    pub async fn create_bucket_modified(
        &self,
        request: CreateBucket,
        modification: Modification,
    ) -> Result<(Bucket, Outcome)> {
        let mut settings = Settings::default();
        modify::apply_lifecycle(&mut settings, &modification)?;
        let _changing = self.begin_clone(request.source.as_ref()).await?;
        self.blocking(move |store| store.create_bucket_blocking(request, settings, modification.root)).await
    }

    fn create_bucket_blocking(
        &self,
        request: CreateBucket,
        settings: Settings,
        root: RootChange,
    ) -> Result<(Bucket, Outcome)> {
        if let Some(Source::Snapshot(name)) = &request.source {
            super::hidden::count_snapshot(&self.core, name)?;
        }
        // A clone shares content with its source: no write in place may be in progress there.
        let (gate, frozen) = match &request.source {
            Some(Source::Bucket(name)) => {
                let snapshot::Frozen { id, gate, detached } = self.freeze(name)?;
                (Some(gate), (id, detached))
            }
            _ => (None, (0, Vec::new())),
        };
        let core = self.core.clone();
        let written = self.core.meta.write(Durability::Synced, move |txn| {
            if let Some(found) = find_same(&*txn, &core, &request)? {
                return Ok((found, Outcome::Found));
            }
            let record = make(txn, &core, &request, (settings, &root), frozen)?;
            Ok((shown(&*txn, request.name, record)?, Outcome::Made))
        });
        let made = written.wait();
        drop(gate);
        made
    }

    /// A bucket, or a snapshot under its own name.
    pub fn bucket(&self, name: &BucketName) -> Result<Bucket> {
        let snapshot = self.core.meta.snapshot();
        match self.core.named(&*snapshot, name)? {
            Named::Bucket(record) => shown(&*snapshot, name.clone(), record),
            Named::Snapshot(record) => shown_snapshot(&*snapshot, name.clone(), &record),
        }
    }

    /// Up to `limit` buckets ordered by name, after `after`.
    pub fn buckets(&self, after: Option<&str>, limit: usize) -> Result<Vec<Bucket>> {
        let snapshot = self.core.meta.snapshot();
        let from = after.map_or_else(|| vec![tag::BUCKET], |after| key::by_name(tag::BUCKET, &format!("{after}\u{1}")));
        let pairs = snapshot.scan(&from, &key::after_prefix(&[tag::BUCKET]), limit)?;
        let buckets = pairs.iter().map(|pair| {
            let name = String::from_utf8_lossy(&pair.key[1..]).parse()?;
            shown(&*snapshot, name, decode("a bucket", &pair.value)?)
        });
        buckets.collect()
    }

    /// Changes a bucket. When versioning is enabled, what mounts wrote in place before becomes a version: the next
    /// write begins another.
    pub async fn set_bucket(&self, name: &BucketName, set: SetBucket) -> Result<Bucket> {
        let _changing = self.begin_change(name).await?;
        let name = name.clone();
        self.blocking(move |store| {
            let _gate = set.versioning.map(|_| store.settle_writes(&name)).transpose()?;
            let core = store.core.clone();
            let written = store.core.meta.write(Durability::Synced, move |txn| change(txn, &core, &name, set));
            written.wait()
        })
        .await
    }

    /// Blocks writes in place to a bucket, after flushing those made before.
    pub(super) fn settle_writes(&self, name: &BucketName) -> Result<(u64, ExclusiveGuard)> {
        let record = self.core.bucket_record(&*self.core.meta.snapshot(), name)?;
        let id = record.ok_or_else(|| Error::not_found(Noun::Bucket, name.as_str()))?.id;
        let gate = self.core.gates.share(id);
        self.core.settle_all(id)?;
        Ok((id, gate))
    }

    /// Deletes a bucket with its grants and publications; its snapshots stay. Its content is collected in the
    /// background, so the call takes the same time for any content.
    pub async fn delete_bucket(&self, name: &BucketName, how: Deletion) -> Result<()> {
        let _changing = self.begin_change(name).await?;
        let bucket = name.clone();
        let id = self.change(move |txn, core| delete(txn, core, &bucket, how)).await?;
        self.forget_bucket(id);
        Ok(())
    }

    /// Removes the in-memory state of a deleted bucket, and starts the collection of its content.
    pub(super) fn forget_bucket(&self, id: u64) {
        self.core.dirty.forget(id);
        self.core.gates.forget(id);
        self.core.places.forget(id);
        self.core.hidden_log.forget(id);
        self.background.wake();
    }

    /// The usage of a bucket.
    pub fn usage(&self, name: &BucketName) -> Result<Usage> {
        let snapshot = self.core.meta.snapshot();
        let record = self.core.bucket_record(&*snapshot, name)?;
        let (id, limit_bytes) = record.map_or((0, None), |bucket| (bucket.id, bucket.quota_bytes));
        let read = || {
            let snapshot = self.core.meta.snapshot();
            let ancestry = self.core.readable(&*snapshot, name)?;
            usage(&*snapshot, &ancestry)
        };
        let (used, growth) = self.core.dirty.ledgers.with_growth(id, read);
        let used = used?;
        Ok(Usage { bytes: used.bytes + growth, limit_bytes, ..used.into() })
    }
}

fn change(txn: &mut dyn Txn, core: &Arc<Core>, name: &BucketName, set: SetBucket) -> Result<Bucket> {
    let record = core.bucket_record(&*txn, name)?;
    let mut record = record.ok_or_else(|| Error::not_found(Noun::Bucket, name.as_str()))?;
    record.quota_bytes = set.quota_bytes.unwrap_or(record.quota_bytes);
    if let Some(versioning) = set.versioning {
        check_versioning(&*txn, core, (name, &record), versioning)?;
        record.versioning = VersioningState::from(versioning) as i32;
    }
    core.dirty.ledgers.restrict(record.id);
    record.attributes.extend(set.attributes);
    put(txn, core, name, &record);
    shown(&*txn, name.clone(), record)
}

/// The record of a bucket whose writes are blocked.
///
/// # Errors
/// [`Error::Busy`] if another bucket has its name now.
pub(super) fn frozen(read: &dyn Read, core: &Core, name: &BucketName, id: u64) -> Result<bucket::Bucket> {
    let record = core.bucket_record(read, name)?;
    let record = record.ok_or_else(|| Error::not_found(Noun::Bucket, name.as_str()))?;
    if record.id == id {
        return Ok(record);
    }
    Err(Error::Busy { what: format!("bucket \"{name}\", which was just created again,") })
}

impl From<bucket::Usage> for Usage {
    fn from(used: bucket::Usage) -> Self {
        let bucket::Usage { bytes, inodes, upload_bytes, .. } = used;
        let (objects, hidden) = used.keys().unzip();
        Self { bytes, inodes, upload_bytes, objects, hidden, limit_bytes: None }
    }
}

/// The usage of a branch.
pub(crate) fn usage(read: &dyn Read, ancestry: &Ancestry) -> Result<bucket::Usage> {
    let value = read.get(&key::of_branch(tag::USAGE, ancestry.clone_group, ancestry.branch()))?;
    bucket::Usage::recorded(value)
}

/// The bucket that the same request created before, if any.
fn find_same(read: &dyn Read, core: &Core, request: &CreateBucket) -> Result<Option<Bucket>> {
    let name = &request.name;
    let exists = |why: &str| Error::Exists { noun: Noun::Bucket, name: name.to_string(), why: why.into() };
    let record = match core.named(read, name) {
        Ok(Named::Bucket(record)) => record,
        Ok(Named::Snapshot(_)) => return Err(exists("a snapshot has this name")),
        Err(Error::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let owner = account::by_name(read, &request.owner)?;
    let differs = [
        (record.owner != owner.id, "it belongs to another account"),
        (record.quota_bytes != request.quota_bytes, "its quota differs"),
        (!versions_as_asked(&record, request), "its versioning differs"),
        (record.source != request.source.as_ref().map(source_name), "its source differs"),
        (record.attributes != request.attributes, "its parameters differ"),
    ];
    match differs.into_iter().find(|(differs, _)| *differs) {
        Some((_, why)) => Err(exists(why)),
        None => Ok(Some(shown(read, name.clone(), record)?)),
    }
}

/// Whether a bucket's versioning matches a request; a clone without a request inherits its source's.
fn versions_as_asked(record: &bucket::Bucket, request: &CreateBucket) -> bool {
    let left = request.source.is_some() && request.versioning == Versioning::Disabled;
    left || record.versioning() == request.versioning.into()
}

/// What a clone inherits from its source.
#[derive(Default)]
struct Inherited {
    versioning: VersioningState,
    object_lock: Option<ObjectLock>,
}

impl Inherited {
    /// The versioning of the clone.
    fn versioning(&self, asked: Versioning) -> VersioningState {
        match asked {
            _ if self.object_lock.is_some() => VersioningState::Enabled,
            Versioning::Disabled => self.versioning,
            asked => asked.into(),
        }
    }
}

fn make(
    txn: &mut dyn Txn,
    core: &Arc<Core>,
    request: &CreateBucket,
    (mut settings, root): (Settings, &RootChange),
    frozen: (u64, Vec<DetachedCopy>),
) -> Result<bucket::Bucket> {
    let now = core.clock.now();
    let owner = account::by_name(&*txn, &request.owner)?.id;
    super::count::check_buckets(&*txn)?;
    let id = header::next_id(txn)?;
    if request.source.is_some() {
        // A clone's content is on disk with it, and has to stay so wherever it is moved.
        core.recent_syncs.note_all(id, now);
    }
    // Not cached in `core.lines` before the commit: if that fails, another branch may get the id.
    let (ancestry, inherited) = match &request.source {
        None => {
            let clone_group = header::next_id(txn)?;
            let ancestry = Ancestry::new(clone_group, [branch::first_branch(txn, clone_group, now)]);
            make_root(txn, &ancestry, request, now);
            (ancestry, Inherited::default())
        }
        Some(Source::Snapshot(name)) => {
            let snapshot = snapshot::record(&*txn, name)?;
            let above = core.lines.ancestry(&*txn, snapshot.clone_group, snapshot.branch)?;
            let ancestry = above.child(branch::clone_branch(txn, snapshot.clone_group, snapshot.branch, now)?)?;
            (ancestry, Inherited { versioning: snapshot.versioning(), object_lock: snapshot.object_lock })
        }
        Some(Source::Bucket(name)) => clone_of_bucket(txn, core, name, now, frozen)?,
    };
    settings.object_lock = settings.object_lock.or(inherited.object_lock);
    let mut record = bucket::Bucket {
        id,
        clone_group: ancestry.clone_group,
        branch: ancestry.branch(),
        owner,
        quota_bytes: request.quota_bytes,
        versioning: inherited.versioning(request.versioning) as i32,
        created: now.0,
        source: request.source.as_ref().map(source_name),
        attributes: request.attributes.clone(),
        settings: 0,
    };
    settings::put_first(txn, &mut record, &settings);
    put(txn, core, &request.name, &record);
    let mut tx = Tx::begin_on(txn, core, &request.name, record.clone(), ancestry.clone());
    tx.collect_orphans()?;
    modify::change_root(&mut tx, root)?;
    tx.finish()?;
    check_fits(&*txn, &ancestry, request)?;
    txn.put(key::by_id(tag::BUCKET_ID, id), request.name.as_str().as_bytes().to_vec());
    Ok(record)
}

/// Refuses a quota smaller than the initial content of a clone.
fn check_fits(read: &dyn Read, ancestry: &Ancestry, request: &CreateBucket) -> Result<()> {
    let Some(limit_bytes) = request.quota_bytes else { return Ok(()) };
    let used = usage(read, ancestry)?.bytes;
    if used <= limit_bytes {
        return Ok(());
    }
    Err(Error::QuotaExceeded { bucket: request.name.to_string(), limit_bytes, used_bytes: 0, asked_bytes: used })
}

fn make_root(txn: &mut dyn Txn, ancestry: &Ancestry, request: &CreateBucket, now: Timestamp) {
    let mut root = Inode::new(InodeKind::Directory, now);
    (root.uid, root.gid, root.mode) = (request.root.uid, request.root.gid, request.root.mode & 0o7777);
    root.parent = ROOT_INO;
    ancestry.put(txn, &key::inode(ancestry.clone_group, ROOT_INO), root.encode_to_vec());
}

/// Clones a bucket in its current state: both continue from a common interior branch.
fn clone_of_bucket(
    txn: &mut dyn Txn,
    core: &Arc<Core>,
    name: &BucketName,
    now: Timestamp,
    (id, detached): (u64, Vec<DetachedCopy>),
) -> Result<(Ancestry, Inherited)> {
    let mut source = frozen(&*txn, core, name, id)?;
    let above = core.lines.ancestry(&*txn, source.clone_group, source.branch)?;
    let (clone, dirty) = branch::fork_branch(txn, source.clone_group, source.branch, now)?;
    source.branch = dirty;
    put(txn, core, name, &source);
    let inherited =
        Inherited { versioning: source.versioning(), object_lock: core.settings.of(&*txn, &source)?.object_lock };
    let mut tx = Tx::begin_on(txn, core, name, source, above.child(dirty)?);
    tx.keep_blobs(detached)?;
    tx.finish()?;
    Ok((above.child(clone)?, inherited))
}

pub(super) fn delete(txn: &mut dyn Txn, core: &Core, name: &BucketName, how: Deletion) -> Result<u64> {
    let record = match core.named(&*txn, name)? {
        Named::Bucket(record) => record,
        Named::Snapshot(_) => {
            return Err(Error::Denied { why: format!("\"{name}\" is a snapshot: delete it as one") });
        }
    };
    match how {
        Deletion::IfNoObjects => refuse_full(&*txn, core, name, &record, |root| root.keys)?,
        Deletion::IfEmpty => refuse_full(&*txn, core, name, &record, |root| root.entries)?,
        Deletion::Force => refuse_locked(&*txn, core, name, &record)?,
    }
    super::upload::delete_of_bucket(txn, record.id)?;
    super::grant::delete_of_bucket(txn, record.id)?;
    super::publication::delete_of_bucket(txn, record.id)?;
    super::settings::delete_of_bucket(txn, record.id);
    for dirty in super::all(&*txn, &key::by_id(tag::DIRTY, record.id))? {
        txn.delete(dirty.key.to_vec());
    }
    core.buckets.change(txn);
    txn.delete(key::by_name(tag::BUCKET, name.as_str()));
    txn.delete(key::by_id(tag::BUCKET_ID, record.id));
    branch::kill_branch(txn, record.clone_group, record.branch)?;
    Ok(record.id)
}

/// Refuses to delete a bucket that has versions, or names at its top; `counted` says which of them count.
fn refuse_full(
    read: &dyn Read,
    core: &Core,
    name: &BucketName,
    record: &bucket::Bucket,
    counted: impl Fn(&Inode) -> u64,
) -> Result<()> {
    let ancestry = core.lines.ancestry(read, record.clone_group, record.branch)?;
    let root = crate::tree::Tree { read, ancestry: &ancestry }.directory(ROOT_INO)?;
    let version = ancestry.all(read, tag::VERSION).next().transpose()?;
    if version.is_some() {
        return Err(Error::NotEmpty { name: name.to_string(), what: "versions of objects, or delete markers".into() });
    }
    match counted(&root) {
        0 => Ok(()),
        entries => Err(Error::NotEmpty { name: name.to_string(), what: format!("{entries} names at its top") }),
    }
}

/// Refuses to delete protected versions: in a bucket with object lock every inode is checked. An inode that only a
/// mount holds open is no longer a version; its deletion was allowed.
fn refuse_locked(read: &dyn Read, core: &Core, name: &BucketName, record: &bucket::Bucket) -> Result<()> {
    if core.settings.of(read, record)?.object_lock.is_none() {
        return Ok(());
    }
    let ancestry = core.lines.ancestry(read, record.clone_group, record.branch)?;
    let now = core.clock.now();
    for inode in ancestry.all(read, tag::INODE) {
        let inode: Inode = decode("an inode", &inode?.value)?;
        if inode.nlink > 0 && protection(&inode, now).is_some() {
            let why = format!("bucket \"{name}\" holds versions that object lock protects: they have to go first");
            return Err(Error::Denied { why });
        }
    }
    Ok(())
}
