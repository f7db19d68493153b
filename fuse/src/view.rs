//! What a mount shows of inodes: their node numbers, owners and modes.
//!
//! - A node is the store's inode number, but the root of the mount is always node 1 (FUSE_ROOT_ID). Where a
//!   directory of the bucket is the root, the bucket's own root lies above it and is never shown.

use objstore::volume::{Attr, Ownership, ROOT_INO};

use crate::options::Options;

/// The node of the mount's root (FUSE protocol, FUSE_ROOT_ID).
pub(crate) const ROOT_NODE: u64 = 1;

/// Who makes a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    pub uid: u32,
    pub gid: u32,
}

impl Caller {
    /// Whether the caller keeps setuid and setgid on what it changes. The kernel decides by CAP_FSETID, which
    /// `fuser` does not hand on for truncation, so it is the superuser who has it here.
    pub fn keeps_privileges(self) -> bool {
        self.uid == 0
    }
}

/// The mapping between the store's inodes and what the kernel sees.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    root: u64,
    uid: Option<u32>,
    gid: Option<u32>,
    umask: u32,
}

impl View {
    pub fn new(root: u64, options: &Options) -> Self {
        Self { root, uid: options.uid, gid: options.gid, umask: options.umask }
    }

    /// The inode of a node.
    pub fn ino(&self, node: u64) -> u64 {
        if node == ROOT_NODE { self.root } else { node }
    }

    /// The node of an inode.
    pub fn node(&self, ino: u64) -> u64 {
        if ino == self.root { ROOT_NODE } else { ino }
    }

    /// The node of an inode, if the mount can show it.
    pub fn shown(&self, ino: u64) -> Option<u64> {
        (ino == self.root || ino != ROOT_INO).then(|| self.node(ino))
    }

    /// Whether the inode is the mount's root.
    pub fn is_root(&self, ino: u64) -> bool {
        ino == self.root
    }

    /// The attributes as the mount shows them.
    pub fn show(&self, attr: Attr) -> Attr {
        Attr {
            ino: self.node(attr.ino),
            uid: self.uid.unwrap_or(attr.uid),
            gid: self.gid.unwrap_or(attr.gid),
            mode: attr.mode & !self.umask,
            ..attr
        }
    }

    /// Owner and mode of what `caller` makes.
    pub fn ownership(&self, caller: Caller, mode: u32) -> Ownership {
        let (uid, gid) = (self.uid.unwrap_or(caller.uid), self.gid.unwrap_or(caller.gid));
        Ownership { uid, gid, mode: mode & 0o7777 }
    }

    /// The owner to store for a chown to `uid`: none where the mount shows its own, which no chown can change.
    pub fn new_owner(&self, uid: Option<u32>) -> Result<Option<u32>, rustix::io::Errno> {
        settle(self.uid, uid)
    }

    /// The same for the group.
    pub fn new_group(&self, gid: Option<u32>) -> Result<Option<u32>, rustix::io::Errno> {
        settle(self.gid, gid)
    }
}

fn settle(shown: Option<u32>, asked: Option<u32>) -> Result<Option<u32>, rustix::io::Errno> {
    match (shown, asked) {
        (Some(shown), Some(asked)) if shown != asked => Err(rustix::io::Errno::PERM),
        (Some(_), _) => Ok(None),
        (None, asked) => Ok(asked),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(root: u64, uid: Option<u32>) -> View {
        View::new(root, &Options { uid, ..Options::default() })
    }

    #[test]
    fn the_root_is_node_one_wherever_it_lies() {
        let whole = view(ROOT_INO, None);
        assert_eq!((whole.ino(1), whole.node(1), whole.shown(1)), (1, 1, Some(1)));
        let below = view(57, None);
        assert_eq!((below.ino(1), below.node(57), below.ino(9), below.node(9)), (57, 1, 9, 9));
        assert_eq!(below.shown(ROOT_INO), None, "the bucket's root is above the mount's");
    }

    #[test]
    fn a_shown_owner_cannot_be_changed() {
        assert_eq!(view(1, Some(5)).new_owner(Some(5)), Ok(None));
        assert_eq!(view(1, Some(5)).new_owner(Some(6)), Err(rustix::io::Errno::PERM));
        assert_eq!(view(1, None).new_owner(Some(6)), Ok(Some(6)));
    }
}
