//! Object lock of versions (S3 User Guide, "Locking objects with Object Lock").
//!
//! - A legal hold protects until it is removed. A retention protects until it ends: in compliance mode from everyone,
//!   in governance mode from everyone who may not bypass it.
//! - The lock is stored in the version's own inode, so it stays with the version in snapshots and clones, and under any
//!   name that a mount gives it.

use super::tx::Tx;
use super::versions::{order_of, version_id};
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::name::Key;
use crate::record::inode::{Inode, Retention, RetentionMode};
use crate::record::settings::ObjectLock;

/// Nanoseconds in a day, the unit of default retention.
const DAY: i64 = 24 * 60 * 60 * 1_000_000_000;

/// Why a version cannot be deleted now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protection {
    /// A legal hold is on.
    LegalHold,
    /// Compliance retention: no one may delete it before this time.
    Compliance(Timestamp),
    /// Governance retention: only callers who may bypass governance can delete it before this time.
    Governance(Timestamp),
}

/// The strongest protection of an inode's content at `now`.
pub(crate) fn protection(inode: &Inode, now: Timestamp) -> Option<Protection> {
    let object = inode.object.as_ref()?;
    if object.legal_hold {
        return Some(Protection::LegalHold);
    }
    let retention = object.retention.filter(|retention| retention.until > now.0)?;
    let until = Timestamp(retention.until);
    match retention.mode() {
        RetentionMode::Governance => Some(Protection::Governance(until)),
        // An unreadable mode protects: damage must not end a retention.
        RetentionMode::Compliance | RetentionMode::None => Some(Protection::Compliance(until)),
    }
}

/// Refuses to delete a protected version.
///
/// # Errors
/// [`Error::Denied`] with the reason.
pub(crate) fn check_deletable(key: &Key, inode: &Inode, now: Timestamp, bypass_governance: bool) -> Result<()> {
    let why = match protection(inode, now) {
        None => return Ok(()),
        Some(Protection::Governance(_)) if bypass_governance => return Ok(()),
        Some(Protection::LegalHold) => "is under a legal hold: take that off first".to_owned(),
        Some(Protection::Compliance(until)) => format!("is retained for {} more seconds", seconds(now, until)),
        Some(Protection::Governance(until)) => {
            format!("is retained for {} more seconds, unless governance is bypassed", seconds(now, until))
        }
    };
    let version = version_id(order_of(inode));
    Err(Error::Denied { why: format!("version {version} of \"{key}\" is protected by object lock: it {why}") })
}

/// The remaining time in whole seconds, at least one.
fn seconds(now: Timestamp, until: Timestamp) -> i64 {
    (until.0.saturating_sub(now.0) / 1_000_000_000).saturating_add(1)
}

impl Tx<'_> {
    /// The object lock of the bucket.
    pub fn object_lock(&self) -> Result<Option<ObjectLock>> {
        Ok(self.core.settings.of(&*self.txn, &self.bucket)?.object_lock)
    }

    /// The retention that the bucket gives to new versions.
    pub fn default_retention(&self) -> Result<Option<Retention>> {
        let default = self.object_lock()?.and_then(|lock| lock.default);
        Ok(default.map(|default| {
            let until = self.now.0.saturating_add(DAY.saturating_mul(i64::from(default.in_days())));
            Retention { mode: default.mode, until }
        }))
    }

    /// Restarts the default retention of a version that mounts wrote, at its last close; it never gets weaker.
    pub fn retain_written(&mut self, ino: u64) -> Result<()> {
        let (_, inode) = self.tree().dirty_inode(ino)?;
        if self.key_written(ino, &inode)?.is_none() {
            return Ok(());
        }
        let Some(now) = self.default_retention()? else { return Ok(()) };
        let before = inode.object.and_then(|object| object.retention);
        if before.is_none_or(|before| before.mode == now.mode && before.until < now.until) {
            let mut inode = self.own(ino)?;
            inode.object.get_or_insert_default().retention = Some(now);
            self.save(ino, &inode);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::inode::{InodeKind, Object};

    fn locked(mode: RetentionMode, until: i64, legal_hold: bool) -> Inode {
        let retention = Some(Retention { mode: mode as i32, until });
        let object = Object { retention, legal_hold, ..Object::default() };
        Inode { object: Some(object), ..Inode::new(InodeKind::File, Timestamp(0)) }
    }

    #[test]
    fn a_version_is_protected_until_its_retention_ends_and_its_hold_is_off() {
        let key: Key = "k".parse().unwrap();
        let deletable = |inode: &Inode, now, bypass| check_deletable(&key, inode, Timestamp(now), bypass).is_ok();
        let governed = locked(RetentionMode::Governance, 10, false);
        assert!(!deletable(&governed, 9, false) && deletable(&governed, 9, true) && deletable(&governed, 10, false));
        let strict = locked(RetentionMode::Compliance, 10, false);
        assert!(!deletable(&strict, 9, false) && !deletable(&strict, 9, true) && deletable(&strict, 10, false));
        let held = locked(RetentionMode::Governance, 10, true);
        assert!(!deletable(&held, 9, true) && !deletable(&held, 11, true));
        assert!(deletable(&Inode::new(InodeKind::File, Timestamp(0)), 0, false));
    }
}
