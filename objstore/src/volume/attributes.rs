//! Reading attributes, and changing them without the content.

use super::flags::Touching;
use super::session::{Volume, attr};
use super::types::{Attr, SetAttr, Space};
use crate::clock::Timestamp;
use crate::error::Result;
use crate::record::bucket::Usage;
use crate::record::inode::Inode;
use crate::store::usage;

impl Volume {
    /// The attributes of an inode.
    pub fn attr(&self, ino: u64) -> Result<Attr> {
        Ok(attr(ino, &self.look(ino)?))
    }

    /// Changes attributes; a new size truncates or extends.
    ///
    /// # Errors
    /// EPERM for the mtime of a version under object lock: S3 shows it as Last-Modified.
    pub fn set_attr(&self, ino: u64, set: SetAttr) -> Result<Attr> {
        if let Some(size) = set.size {
            self.set_size(ino, size, set.kill_privileges)?;
        }
        let (_, inode) = match set.mtime {
            Some(_) if set.size.is_none() => self.describing(ino, || self.apply(ino, set))?,
            _ => self.apply(ino, set)?,
        };
        Ok(attr(ino, &inode))
    }

    fn apply(&self, ino: u64, set: SetAttr) -> Result<(u64, Inode)> {
        self.change_last(move |tx| {
            if set.mtime.is_some() {
                // The change of size has just begun the version.
                if set.size.is_none() {
                    tx.check_describable(ino)?;
                }
                // Earlier writes must not appear as a later change.
                tx.flush_final(ino)?;
            }
            let mut inode = tx.own(ino)?;
            inode.refuse_fixed(touching(&set))?;
            apply(&mut inode, &set, tx.now)?;
            tx.save(ino, &inode);
            tx.tell(super::Change::Attributes { ino });
            if let Some(dirty) = tx.core.dirty.entry(tx.bucket.id, ino).filter(|dirty| !dirty.is_noncurrent()) {
                dirty.show(&mut inode);
            }
            Ok((ino, inode))
        })
    }

    /// The bytes that count against the quota.
    pub(super) fn used_bytes(&self) -> Result<u64> {
        let used = self.used()?;
        Ok(used.bytes + used.upload_bytes)
    }

    /// The bucket's usage, including unflushed growth of dirty files.
    fn used(&self) -> Result<Usage> {
        let read = || {
            let (snapshot, ancestry) = self.0.now()?;
            usage(&*snapshot, &ancestry)
        };
        let (used, growth) = self.0.core.dirty.ledgers.with_growth(self.0.bucket, read);
        let used = used?;
        Ok(Usage { bytes: used.bytes + growth, ..used })
    }

    /// Space for statfs(2).
    pub fn space(&self) -> Result<Space> {
        let used = self.used()?;
        let disk = self.0.core.disk.space(&self.0.core.dir)?;
        let snapshot = self.0.core.meta.snapshot();
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

/// The kind of change, for the check of the file's flags.
fn touching(set: &SetAttr) -> Touching {
    let times = set.atime.or(set.mtime).is_some() && !set.touches;
    let owner = set.uid.or(set.gid).or(set.mode).is_some();
    if times || owner || set.size.is_some() { Touching::Changes } else { Touching::Adds }
}

fn apply(inode: &mut Inode, set: &SetAttr, now: Timestamp) -> Result<()> {
    if let Some(mode) = set.mode {
        inode.set_mode(mode)?;
    }
    inode.uid = set.uid.unwrap_or(inode.uid);
    inode.gid = set.gid.unwrap_or(inode.gid);
    inode.atime = set.atime.map_or(inode.atime, |time| time.0);
    inode.mtime = set.mtime.map_or(inode.mtime, |time| time.0);
    if set.kill_privileges {
        inode.lose_setuid(set.outsider);
        inode.lose_capabilities();
    }
    inode.ctime = now.0;
    Ok(())
}
