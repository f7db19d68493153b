//! Attributes: reading them, and changing all but content.

use super::session::{Volume, attr};
use super::types::{Attr, SetAttr, Space};
use crate::clock::Timestamp;
use crate::error::Result;
use crate::record::inode::Inode;
use crate::store::usage;

/// setuid and setgid.
const SETUID: u32 = 0o4000;
const SETGID: u32 = 0o2000;
const GROUP_EXECUTE: u32 = 0o010;

impl Volume {
    /// Attributes.
    pub fn attr(&self, ino: u64) -> Result<Attr> {
        let (_, inode) = self.reading(|tree| tree.live_inode(ino))?;
        Ok(self.shown(ino, &inode))
    }

    /// The attributes with the time of writes in place that the record does not have yet.
    pub(super) fn shown(&self, ino: u64, inode: &Inode) -> Attr {
        let mut attr = attr(ino, inode);
        if let Some(written) = self.0.core.hot.get(self.0.bucket, ino).and_then(|hot| hot.written()) {
            (attr.mtime, attr.ctime) = (attr.mtime.max(written), attr.ctime.max(written));
        }
        attr
    }

    /// Changes attributes; a new size truncates or extends.
    pub fn set_attr(&self, ino: u64, set: SetAttr) -> Result<Attr> {
        if let Some(size) = set.size {
            self.set_size(ino, size, set.kill_privileges)?;
        }
        self.flush(ino)?;
        let inode = self.change(move |tx| {
            let mut inode = tx.own(ino)?;
            apply(&mut inode, &set, tx.now);
            tx.save(ino, &inode);
            tx.tell(super::Change::Attributes { ino });
            Ok(inode)
        })?;
        Ok(self.shown(ino, &inode))
    }

    /// What counts against the quota.
    pub(super) fn used_bytes(&self) -> Result<u64> {
        let (snapshot, line) = self.0.now()?;
        let used = usage(&*snapshot, &line)?;
        Ok(used.bytes + used.upload_bytes)
    }

    /// Space for statfs(2).
    pub fn space(&self) -> Result<Space> {
        let (snapshot, line) = self.0.now()?;
        let used = usage(&*snapshot, &line)?;
        let disk = self.0.core.disk.space(&self.0.core.dir)?;
        let quota = self.0.core.bucket_record(&*snapshot, &self.0.name)?.and_then(|bucket| bucket.quota_bytes);
        let used_bytes = used.bytes + used.upload_bytes;
        Ok(match quota {
            Some(limit) => Space {
                total_bytes: limit,
                used_bytes,
                free_bytes: limit.saturating_sub(used_bytes).min(disk.free_bytes),
                inodes: used.inodes,
            },
            None => Space {
                total_bytes: used_bytes + disk.free_bytes,
                used_bytes,
                free_bytes: disk.free_bytes,
                inodes: used.inodes,
            },
        })
    }
}

fn apply(inode: &mut Inode, set: &SetAttr, now: Timestamp) {
    if let Some(mode) = set.mode {
        inode.mode = mode & 0o7777;
    }
    inode.uid = set.uid.unwrap_or(inode.uid);
    inode.gid = set.gid.unwrap_or(inode.gid);
    inode.atime = set.atime.map_or(inode.atime, |time| time.0);
    inode.mtime = set.mtime.map_or(inode.mtime, |time| time.0);
    if set.kill_privileges {
        inode.mode = without_privileges(inode.mode);
    }
    inode.ctime = now.0;
}

/// A mode without setuid, and without setgid where the group may execute: elsewhere that bit means mandatory locking.
pub(super) fn without_privileges(mode: u32) -> u32 {
    let mode = mode & !SETUID;
    if mode & GROUP_EXECUTE == 0 { mode } else { mode & !SETGID }
}
