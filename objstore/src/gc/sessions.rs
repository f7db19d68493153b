//! Recovery of mount sessions when a store opens: those that continue are registered again, the others are ended.
//! Sessions of other machines always continue, until their node ends them or its lease is over.
//!
//! - Before orphans are collected, because inodes of a bucket with a continuing session may be open there.
//! - Before requests are served, because the current file sizes show how far appends in progress had got.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use crate::core::Core;
use crate::damaged::unless_damaged;
use crate::error::{Error, Result};
use crate::feed::FeedOwner;
use crate::meta::{Durability, Pair, Read};
use crate::record::bucket::CloneGroup;
use crate::record::decode;
use crate::record::key::{self, tag};
use crate::record::session::Session;
use crate::session_id::SessionId;
use crate::state::{Appends, LeftLocks, LockLog, LockSession, sweep_appends};
use crate::store::forget_session;
use crate::tree::Tree;
use crate::undelivered;
use crate::volume::forget_owed;

/// Ends all persistent sessions except those in `continued`.
pub(super) fn recover(core: &Arc<Core>, continued: &[SessionId]) -> Result<()> {
    let mut continued: BTreeSet<SessionId> = continued.iter().copied().collect();
    let snapshot = core.meta.snapshot();
    let mut ended = strays(&*snapshot)?;
    for pair in crate::scan::all(&*snapshot, &[tag::SESSION])? {
        let Some(id) = session_id(&pair) else { continue };
        let record = decode::<Session>("a session", &pair.value);
        if record.as_ref().is_ok_and(|record| record.remote.is_some()) {
            continued.insert(id);
        }
        if continued.contains(&id) {
            let inherited = record
                .and_then(|record| inherit(core, &*snapshot, id, &record))
                .inspect_err(|error| core.persistent.set_damaged(id, error));
            unless_damaged(format_args!("the session {:016x} of a mount", id.get()), inherited)?;
        } else {
            ended.insert(id);
        }
    }
    ended.retain(|id| !continued.contains(id));
    end(core, ended)?;
    sweep_appends(&*core.disk, &core.dir, |id| continued.contains(&id))?;
    give_owed(core, &*snapshot)
}

fn session_id(pair: &Pair) -> Option<SessionId> {
    key::u64_at(&pair.key, 1).and_then(SessionId::new)
}

/// The sessions that have replay records.
fn strays(read: &dyn Read) -> Result<BTreeSet<SessionId>> {
    let mut found = BTreeSet::new();
    let (mut from, end) = (vec![tag::REPLAY], key::after_prefix(&[tag::REPLAY]));
    while let Some(first) = read.scan(&from, &end, 1)?.first() {
        found.extend(session_id(first));
        from = key::after_prefix(&first.key[..key::INODE_AT]);
    }
    Ok(found)
}

fn inherit(core: &Arc<Core>, read: &dyn Read, id: SessionId, record: &Session) -> Result<()> {
    let clone_group = read.get(&key::by_id(tag::CLONE_GROUP, record.clone_group))?;
    let below = clone_group
        .map_or(Ok(0), |value| decode::<CloneGroup>("a clone group", &value).map(|clone_group| clone_group.next_ino))?;
    let no_name = |_| Error::corrupt("the record of a session", "the name of a bucket", record.name.clone());
    let ancestry = match core.bucket_record(read, &record.name.parse().map_err(no_name)?)? {
        Some(bucket) if bucket.id == record.bucket => {
            Some(core.lines.ancestry(read, bucket.clone_group, bucket.branch)?)
        }
        _ => None,
    };
    let size_of = |ino| match &ancestry {
        Some(ancestry) => {
            let inode = Tree { read, ancestry }.inode(ino).map(|found| found.map(|(_, inode)| inode.size));
            unless_damaged(format_args!("the file {ino}, which a mount appends to"), inode).map(Option::flatten)
        }
        None => Ok(None),
    };
    let dir: &Path = &core.dir;
    let appends = Appends::recover(core.disk.clone(), dir, id, size_of)?;
    let remote = record.remote.is_some();
    let log = LockLog::new(core.disk.clone(), dir, id, remote);
    let LeftLocks::Changes(locks) = log.recover()? else {
        // It is ended when it would be served (`volume/remote/open.rs`), since others may take what it had locked.
        let why = "the machine of the store lost power while the mount had file locks";
        core.persistent.set_damaged(id, &Error::Unusable { why: why.into() });
        return Ok(());
    };
    core.inode_refs.inherit(record.bucket, id, below);
    let mount = core.persistent.inherit(id, record.bucket, appends);
    core.locks.restore(&LockSession::persistent(id, mount, log), record.bucket, locks);
    let owner = if remote { FeedOwner::Leased } else { FeedOwner::Lasting };
    core.feeds.open(record.bucket, mount, owner);
    Ok(())
}

fn end(core: &Arc<Core>, ended: BTreeSet<SessionId>) -> Result<()> {
    for id in ended {
        tracing::info!(session = id.get(), "removed a mount session that ended with the previous server");
        core.meta.write(Durability::Buffered, move |txn| forget_session(txn, id)).wait()?;
    }
    Ok(())
}

/// Sends the undelivered invalidations of an earlier server again; those of buckets without remaining sessions are
/// removed.
fn give_owed(core: &Arc<Core>, read: &dyn Read) -> Result<()> {
    let (mut from, end) = (vec![tag::OWED], key::after_prefix(&[tag::OWED]));
    while let Some(first) = read.scan(&from, &end, 1)?.first() {
        from = key::after_prefix(&first.key[..key::INODE_AT]);
        let Some(bucket) = key::u64_at(&first.key, 1) else { continue };
        if core.persistent.of_bucket(bucket).is_empty() {
            core.meta.write(Durability::Buffered, move |txn| forget_owed(txn, bucket)).wait()?;
        } else {
            undelivered::give_again(core, read, bucket)?;
        }
    }
    Ok(())
}
