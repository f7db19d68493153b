//! Applying due lifecycle actions, after they were decided again inside the transaction.

use super::Day;
use super::walk::{Change, View};
use crate::clock::Timestamp;
use crate::error::{Error, Posix, Result};
use crate::expiry::{Rules, Subject};
use crate::name::Key;
use crate::record::decode;
use crate::record::key;
use crate::record::upload::Upload;
use crate::store::abort_upload;
use crate::tree::Tx;

/// The numbers of changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Changed {
    /// Current objects expired.
    pub current: u64,
    /// Number of noncurrent versions removed.
    pub noncurrent: u64,
    /// Number of delete markers removed that were a key's only version.
    pub markers: u64,
    /// Number of uploads aborted.
    pub uploads: u64,
}

/// Makes the changes that are still due by the current rules.
pub(super) fn apply(tx: &mut Tx<'_>, day: Day, now: Timestamp, changes: &[Change]) -> Result<Changed> {
    let found = tx.core.settings.of(&*tx.txn, &tx.bucket)?;
    let rules = Rules { rules: &found.lifecycle, day, now };
    let mut changed = Changed::default();
    for change in changes {
        match tx.attempt(|tx| one(tx, rules, change)) {
            Ok(false) => {}
            Ok(true) => match change {
                Change::Current { .. } => changed.current += 1,
                Change::Noncurrent { .. } => changed.noncurrent += 1,
                Change::Marker { .. } => changed.markers += 1,
                Change::Upload { .. } => changed.uploads += 1,
            },
            // A refused deletion has no effect.
            Err(Error::Denied { .. } | Error::Posix(Posix::NotPermitted)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(changed)
}

fn one(tx: &mut Tx<'_>, rules: Rules<'_>, change: &Change) -> Result<bool> {
    match change {
        Change::Current { key } => expire(tx, rules, key),
        Change::Noncurrent { key, order, since } => remove(tx, rules, key, *order, *since),
        Change::Marker { key, order } => remove_marker(tx, rules, key, *order),
        Change::Upload { key, id } => abort(tx, rules, key, id),
    }
}

fn view<'a>(tx: &'a Tx<'_>, rules: Rules<'a>) -> View<'a> {
    View { core: tx.core, bucket: &tx.bucket, tree: tx.tree(), rules }
}

fn expire(tx: &mut Tx<'_>, rules: Rules<'_>, key: &Key) -> Result<bool> {
    let Some((ino, inode)) = tx.tree().object(key)? else { return Ok(false) };
    if !view(tx, rules).current_due(key, ino, &inode) {
        return Ok(false);
    }
    tx.delete_current(key)?;
    Ok(true)
}

fn remove(tx: &mut Tx<'_>, rules: Rules<'_>, key: &Key, order: u64, since: Timestamp) -> Result<bool> {
    let now = view(tx, rules);
    let Some((found, any, newer)) = now.version_at(key, order)? else { return Ok(false) };
    let due = if found.is_marker() {
        any && rules.noncurrent_due(Subject::marker(key.as_str()), since, newer)
    } else {
        let (_, inode) = now.tree.linked_inode(found.version.ino)?;
        now.version_goes(key.as_str(), &inode, Timestamp(found.version.created), newer)
    };
    if due {
        // Exactly this version, not another that has its id now.
        tx.delete_noncurrent(key, &found, false)?;
    }
    Ok(due)
}

fn remove_marker(tx: &mut Tx<'_>, rules: Rules<'_>, key: &Key, order: u64) -> Result<bool> {
    let now = view(tx, rules);
    let Some((found, _, _)) = now.version_at(key, order)? else { return Ok(false) };
    let due = found.is_marker() && now.lone_marker_due(&found)?;
    if due {
        tx.delete_noncurrent(key, &found, false)?;
    }
    Ok(due)
}

fn abort(tx: &mut Tx<'_>, rules: Rules<'_>, key: &Key, id: &str) -> Result<bool> {
    let Some(value) = tx.txn.get(&key::upload(tx.bucket.id, key.as_str(), id))? else { return Ok(false) };
    let upload: Upload = decode("an upload", &value)?;
    if !rules.upload_due(key.as_str(), Timestamp(upload.created)) {
        return Ok(false);
    }
    abort_upload(tx, key, id)?;
    Ok(true)
}
