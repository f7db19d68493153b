//! Undelivered cache invalidations of persistent sessions, kept in the store across a restart of the server.
//!
//! - A change that such a mount has to be notified of records its invalidations in its own transaction. Otherwise a
//!   server that dies between the commit and the notification would leave a kernel with stale caches for a day. The
//!   next server sends the invalidations again before anything else; a repeated one does no harm.
//! - A record is removed with a later change that adds one, once every mount concerned has acknowledged it. The rest is
//!   removed when a store opens, or when the last such mount of the bucket ends.
//! - There are at most [`RECORDS_MAX`] records. At that number, mounts that have not acknowledged the oldest one are
//!   lost (`feed.rs`).
//! - A bucket without persistent sessions, or whose changes all come from its only mount, records nothing.

use std::sync::Arc;

use prost::Message;

use crate::core::Core;
use crate::damaged::unless_damaged;
use crate::error::Result;
use crate::feed::Change;
use crate::meta::{Read, Txn};
use crate::record::decode;
use crate::record::key;
use crate::record::session::{Notice, Undelivered};
use crate::scan::all;
use crate::session_id::SessionId;

/// Records the invalidations of a change for persistent sessions other than its origin; returns the record's key.
pub(crate) fn record(txn: &mut dyn Txn, core: &Core, bucket: u64, origin: u64, changes: &[Change]) -> Option<Vec<u8>> {
    if !core.feeds.owes(bucket, origin) {
        return None;
    }
    let session = core.persistent.of_mount(origin).map_or(0, SessionId::get);
    let notices: Vec<Notice> = changes.iter().filter_map(notice).collect();
    core.undelivered.take_paid().into_iter().for_each(|key| txn.delete(key));
    let key = key::undelivered(bucket, core.undelivered.next());
    txn.put(key.clone(), Undelivered { origin: session, notices }.encode_to_vec());
    Some(key)
}

/// Publishes a change, whose record has this key if there is one.
pub(crate) fn publish(core: &Arc<Core>, bucket: u64, origin: u64, changes: &[Change], recorded: Option<Vec<u8>>) {
    core.feeds.publish(bucket, origin, changes);
    if let Some(key) = recorded {
        core.undelivered.add(key, core.feeds.debts(bucket, origin));
    }
}

/// Sends all recorded invalidations of a bucket to its mounts again, when a store opens. If they cannot be
/// read, the mounts are ended, since their stale cache entries are unknown.
pub(crate) fn give_again(core: &Core, read: &dyn Read, bucket: u64) -> Result<()> {
    let mounts = core.persistent.of_bucket(bucket);
    let what = format_args!("the undelivered cache invalidations of bucket {bucket}");
    let Some(records) = unless_damaged(what, records(read, bucket))? else {
        core.feeds.lose_all(bucket);
        return Ok(());
    };
    for (key, undelivered) in records {
        let origin = mounts.iter().find(|(id, _)| id.get() == undelivered.origin).map_or(0, |(_, mount)| *mount);
        core.undelivered.go_on_after(key::u64_at(&key, key::INODE_AT).unwrap_or(0));
        core.feeds.publish(bucket, origin, &changes(undelivered));
        core.undelivered.add(key, core.feeds.debts(bucket, origin));
    }
    Ok(())
}

/// Sends a mount the invalidations that it missed while it was not served.
pub(crate) fn give_missed(core: &Core, bucket: u64, mount: u64, session: SessionId) -> Result<()> {
    for (_, undelivered) in records(&*core.meta.snapshot(), bucket)? {
        if undelivered.origin != session.get() {
            core.feeds.publish_to(mount, &changes(undelivered));
        }
    }
    Ok(())
}

fn records(read: &dyn Read, bucket: u64) -> Result<Vec<(Vec<u8>, Undelivered)>> {
    let pairs = all(read, &key::by_id(key::tag::OWED, bucket))?.into_iter();
    pairs.map(|pair| Ok((pair.key.to_vec(), decode("notices owed", &pair.value)?))).collect()
}

fn changes(undelivered: Undelivered) -> Vec<Change> {
    undelivered.notices.into_iter().map(change).collect()
}

/// The record of a change; none for a question, which is asked again, and none for what a new listener hears anyway.
fn notice(change: &Change) -> Option<Notice> {
    let about = |ino: &u64| Notice { ino: *ino, ..Notice::default() };
    match change {
        Change::Entry { parent, name } => Some(Notice { name: Some(name.clone()), ..about(parent) }),
        Change::Content { ino } => Some(Notice { content: true, ..about(ino) }),
        Change::Attributes { ino } => Some(about(ino)),
        Change::Probe { .. }
        | Change::LockGranted { .. }
        | Change::Recall { .. }
        | Change::Sharing { .. }
        | Change::All => None,
    }
}

fn change(notice: Notice) -> Change {
    match notice {
        Notice { ino, name: Some(name), .. } => Change::Entry { parent: ino, name },
        Notice { ino, content: true, .. } => Change::Content { ino },
        Notice { ino, .. } => Change::Attributes { ino },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_read_back_as_the_changes_they_were() {
        let changes =
            [Change::Entry { parent: 7, name: "a".into() }, Change::Content { ino: 8 }, Change::Attributes { ino: 9 }];
        for told in changes {
            let bytes = notice(&told).unwrap().encode_to_vec();
            assert_eq!(change(Notice::decode(&bytes[..]).unwrap()), told);
        }
        assert_eq!(notice(&Change::Probe { ino: 1 }), None);
    }
}
