//! The boundary of a session whose root is a directory of the bucket: which inodes its calls may name.
//!
//! - A peer names inodes by number, and is not believed: each that a call names is the root, or was handed out to the
//!   session before, or lies below the root by its recorded parents. Anything else is answered as an inode that is gone.
//! - What was handed out stays in reach, as an open directory does, also if another client moves it out of the root.
//!   What was handed out before the store was opened is recognized by its recorded parents alone.
//! - Changes outside of the root are not delivered: they have names.

use objstore_files::{Change, Changes, LockOp, NameOp, Op};

use super::super::session::Volume;
use super::super::types::ROOT_INO;
use crate::error::{Posix, Result};
use crate::name::KEY_BYTES_MAX;

/// Refuses a call that names an inode outside of the session's root.
///
/// # Errors
/// ESTALE.
pub(super) fn check(volume: &Volume, op: &Op<'_>) -> Result<()> {
    if volume.root() == ROOT_INO {
        return Ok(());
    }
    for ino in named(op).into_iter().flatten() {
        if !reaches(volume, ino)? {
            return Err(Posix::Stale.into());
        }
    }
    Ok(())
}

/// The operation, with names searched in their directory in place of the inode numbers that a peer says they have.
pub(super) fn searched<'a>(volume: &Volume, op: Op<'a>) -> Op<'a> {
    match op {
        Op::Names(NameOp::LookupAll { parent, entries, listed: true }) if volume.root() != ROOT_INO => {
            NameOp::LookupAll { parent, entries, listed: false }.into()
        }
        op => op,
    }
}

/// Whether a session may name an inode.
fn reaches(volume: &Volume, ino: u64) -> Result<bool> {
    let root = volume.root();
    if ino == root || volume.0.inode_refs.lock().contains_key(&ino) {
        return Ok(true);
    }
    volume.reading(|tree| {
        let mut at = ino;
        // A directory lies at most this deep.
        for _ in 0..KEY_BYTES_MAX {
            let Some((_, inode)) = tree.inode(at)? else { return Ok(false) };
            at = inode.parent;
            if at == root {
                return Ok(true);
            }
            if at == ROOT_INO || at == 0 {
                break;
            }
        }
        Ok(false)
    })
}

/// The inodes that a call names, except those that it only gives back.
fn named(op: &Op<'_>) -> [Option<u64>; 2] {
    match op {
        Op::Names(op) => named_by_names(op),
        Op::Attributes(op) => [op.ino(), None],
        Op::Content(op) => op.inos(),
        // Without an inode: questions about what this session holds itself.
        Op::Opens(op) => [op.ino(), None],
        Op::Locks(op) => [named_by_locks(op), None],
    }
}

fn named_by_names(op: &NameOp<'_>) -> [Option<u64>; 2] {
    match op {
        NameOp::Lookup { parent, .. }
        | NameOp::LookupAll { parent, .. }
        | NameOp::Make { parent, .. }
        | NameOp::Create { parent, .. }
        | NameOp::CreateNameless { parent, .. }
        | NameOp::Unlink { parent, .. }
        | NameOp::RemoveDir { parent, .. } => [Some(*parent), None],
        NameOp::Pin { ino }
        | NameOp::Parent { ino }
        | NameOp::Path { ino }
        | NameOp::ReadDir { ino, .. }
        | NameOp::ReadLink { ino } => [Some(*ino), None],
        NameOp::Link { ino, parent, .. } => [Some(*ino), Some(*parent)],
        NameOp::Rename { rename } => [Some(rename.from_parent), Some(rename.to_parent)],
        NameOp::Forget { .. } => [None, None],
    }
}

fn named_by_locks(op: &LockOp) -> Option<u64> {
    match op {
        LockOp::Test { ino, .. } | LockOp::Set { ino, .. } => Some(*ino),
        // Of what the session has itself.
        LockOp::Unset { .. } | LockOp::Release { .. } | LockOp::Cancel { .. } | LockOp::Files { .. } => None,
    }
}

/// The changes of a session below its root.
pub(super) struct Inside {
    volume: Volume,
    changes: Box<dyn Changes>,
}

impl Inside {
    pub(super) fn new(volume: &Volume, changes: Box<dyn Changes>) -> Self {
        Self { volume: volume.clone(), changes }
    }

    fn concerns(&self, change: &Change) -> bool {
        match change {
            // A directory that is gone has no name in any cache. If it cannot be read, the peer learns nothing of it.
            Change::Entry { parent, .. } => reaches(&self.volume, *parent).unwrap_or(false),
            Change::Content { .. }
            | Change::Attributes { .. }
            | Change::Probe { .. }
            | Change::LockGranted { .. }
            | Change::Recall { .. }
            | Change::Sharing { .. }
            | Change::All => true,
        }
    }
}

impl Changes for Inside {
    fn next(&mut self) -> Option<Vec<Change>> {
        let mut batch = self.changes.next()?;
        batch.retain(|change| self.concerns(change));
        Some(batch)
    }

    fn acknowledge(&mut self) {
        self.changes.acknowledge();
    }

    fn is_lost(&self) -> bool {
        self.changes.is_lost()
    }
}
