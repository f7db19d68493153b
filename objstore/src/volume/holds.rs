//! Inode references of the kernel behind a session: taking, forgetting, and asking the kernel.
//!
//! - A session that was taken over has references that an earlier server counted. When all references counted here are
//!   returned, only the kernel knows whether it still holds an unlinked inode: it is asked through the feed
//!   ([`Change::Probe`]) and answers with [`Volume::probe_result`]. Each eviction in the kernel sends FORGET, so an
//!   answer that comes too early ("held", while the last user closes it) is followed by another question.

use std::collections::HashSet;
use std::sync::Arc;

use super::session::{Session, Volume, attr};
use super::types::{Attr, Change};
use crate::core::Core;
use crate::error::Result;
use crate::inode_refs::Left;
use crate::meta::Durability;
use crate::name::BucketName;
use crate::record::inode::Inode;
use crate::shrink::Shrink;
use crate::tree::collect_orphan;

impl Volume {
    /// Takes one more reference on an inode; ESTALE if it is gone.
    pub fn pin(&self, ino: u64) -> Result<Attr> {
        let inode = self.pin_inode(ino)?;
        Ok(attr(ino, &inode))
    }

    pub(super) fn pin_inode(&self, ino: u64) -> Result<Inode> {
        self.hold_found(ino);
        self.look(ino).inspect_err(|_| self.forget(ino, 1))
    }

    /// Returns `count` references. An unlinked inode without references is collected later.
    pub fn forget(&self, ino: u64, count: u64) {
        self.0.forget(ino, count);
    }

    /// Takes a reference without checking the inode.
    pub(super) fn hold(&self, ino: u64) {
        self.0.core.inode_refs.pin(self.0.bucket, ino);
        *self.0.inode_refs.lock().entry(ino).or_default() += 1;
    }

    /// Takes a reference on an inode found in the store, before its state is read: what is there afterwards stays.
    pub(super) fn hold_found(&self, ino: u64) {
        self.hold(ino);
        self.0.core.inode_refs.await_end(self.0.bucket, ino);
    }

    /// Names the inodes that the kernel has had open since before the takeover. If the mount's grant is gone, now or
    /// later, their cached data is dropped. Must be called once [`Volume::feed`] is open.
    pub fn open_before(&self, inodes: impl IntoIterator<Item = u64>) {
        self.0.open_before.lock().extend(inodes.into_iter().chain([self.0.root]));
        if self.0.check(false).is_err() {
            self.0.drop_caches();
        }
    }

    /// The kernel's answer to [`Change::Probe`]: whether it holds the inode. If it does not, the inode is collected
    /// unless another session holds it.
    pub fn probe_result(&self, ino: u64, held: bool) {
        let session = &*self.0;
        if let Some(id) = session.id.filter(|_| !held)
            && session.core.inode_refs.clear(session.bucket, ino, id)
        {
            session.collect(ino);
        }
    }
}

impl Session {
    /// The inodes that the kernel is known to have cached. The root needs no reference.
    pub fn known_to_kernel(&self) -> HashSet<u64> {
        let mut known = self.open_before.lock().clone();
        known.insert(self.root);
        known.extend(self.inode_refs.lock().keys());
        known
    }

    /// Has the kernel drop everything it is known to have cached.
    pub fn drop_caches(&self) {
        let changes: Vec<Change> = self.known_to_kernel().into_iter().map(|ino| Change::Content { ino }).collect();
        self.core.feeds.publish_to(self.mount, &changes);
    }

    fn forget(&self, ino: u64, count: u64) {
        let (taken, rest) = self.uncount(ino, count);
        let inode_refs = &self.core.inode_refs;
        match self.id.filter(|_| self.inherited && rest == 0) {
            Some(id) => match inode_refs.unpin_inherited(self.bucket, ino, taken, id, taken < count) {
                Left::Nobody => self.collect(ino),
                Left::Unsure => self.core.feeds.publish_to(self.mount, &[Change::Probe { ino }]),
                Left::Held => {}
            },
            None if inode_refs.unpin(self.bucket, ino, taken) => self.collect(ino),
            None => {}
        }
    }

    /// Subtracts references from the session's own count. Returns how many could be subtracted, and how many remain.
    fn uncount(&self, ino: u64, count: u64) -> (u64, u64) {
        let mut inode_refs = self.inode_refs.lock();
        let Some(held) = inode_refs.get_mut(&ino) else { return (0, 0) };
        let taken = count.min(*held);
        *held -= taken;
        let rest = *held;
        if rest == 0 {
            inode_refs.remove(&ino);
            inode_refs.shrink();
        }
        (taken, rest)
    }

    /// Collects an unlinked inode without references.
    fn collect(&self, ino: u64) {
        collect(&self.core, &self.name, self.bucket, self.mount, ino);
    }

    /// Returns all references of an ending session.
    pub(super) fn unpin_all(&self) {
        for (ino, count) in std::mem::take(&mut *self.inode_refs.lock()) {
            if self.core.inode_refs.unpin(self.bucket, ino, count) {
                self.collect(ino);
            }
        }
    }
}

/// Queues the collection of an unlinked inode without references. Opening the store collects what remains.
pub(super) fn collect(core: &Arc<Core>, name: &BucketName, bucket: u64, mount: u64, ino: u64) {
    let (shared, name) = (core.clone(), name.clone());
    let done =
        core.meta.write(Durability::Buffered, move |txn| collect_orphan(txn, &shared, &name, bucket, mount, ino));
    drop(done);
}
