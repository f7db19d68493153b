//! The mount's view of inodes: node numbers, owners and modes as programs see them.
//!
//! - A node is the store's inode number, except that the root of the mount is always node 1 (FUSE_ROOT_ID). Where a
//!   directory of the bucket is the mount's root, the bucket's own root lies above it and is never shown.

use objstore_base::acl::{Acl, Hidden};
use objstore_files::{Attr, Kind, Ownership, ROOT_INO, WhichAcl};

use crate::caller::Caller;
use crate::options::Options;

/// The node of the mount's root (FUSE protocol, FUSE_ROOT_ID).
pub(crate) const ROOT_NODE: u64 = 1;

/// How to create an inode: its mode, and the caller's umask.
#[derive(Clone, Copy, Debug)]
pub(crate) struct New {
    pub mode: u32,
    pub umask: u32,
}

/// The mapping from the store's inodes to what the kernel sees.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    root: u64,
    uid: Option<u32>,
    gid: Option<u32>,
    group_access: bool,
    umask: u32,
}

impl View {
    pub fn new(root: u64, options: &Options) -> Self {
        let Options { uid, gid, group_access, umask, .. } = *options;
        Self { root, uid, gid, group_access, umask }
    }

    /// The inode of a node.
    pub fn ino(&self, node: u64) -> u64 {
        if node == ROOT_NODE { self.root } else { node }
    }

    /// The node of an inode.
    pub fn node(&self, ino: u64) -> u64 {
        if ino == self.root { ROOT_NODE } else { ino }
    }

    /// The node of an inode, if the mount may show it.
    pub fn shown(&self, ino: u64) -> Option<u64> {
        (ino == self.root || ino != ROOT_INO).then(|| self.node(ino))
    }

    /// Whether the mount shows the whole bucket.
    pub fn is_whole(&self) -> bool {
        self.root == ROOT_INO
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
            mode: self.open_to_group(&attr) & !self.umask,
            ..attr
        }
    }

    /// The mode with what the mount adds for the group.
    fn open_to_group(&self, attr: &Attr) -> u32 {
        let is_shared = self.is_root(attr.ino) || attr.mode & 0o070 != 0;
        if !self.group_access || !is_shared || attr.kind == Kind::Symlink {
            return attr.mode;
        }
        attr.mode | 0o060 | ((attr.mode & 0o100) >> 3)
    }

    /// Owner and mode for what `caller` creates.
    pub fn ownership(&self, caller: Caller, new: New) -> Ownership {
        let maker = caller.maker();
        let (uid, gid) = (self.uid.unwrap_or(maker.0), self.gid.unwrap_or(maker.1));
        Ownership { uid, gid, mode: new.mode & 0o7777, umask: new.umask }
    }

    /// ACL entries that have no meaning because the mount shows its own owner or group.
    pub fn hidden(&self) -> Hidden {
        Hidden { users: self.uid.is_some(), groups: self.gid.is_some() }
    }

    /// An ACL as the mount shows it: without such entries, and an access ACL without the permission bits that the mount
    /// hides.
    pub fn show_acl(&self, acl: Acl, which: WhichAcl) -> Acl {
        let mut shown = acl.without(self.hidden());
        if which == WhichAcl::Access {
            shown.limit_to(!self.umask);
        }
        shown
    }

    /// The owner to store for a chown to `uid`; none where the mount shows its own owner, which chown cannot change.
    pub fn new_owner(&self, uid: Option<u32>) -> Result<Option<u32>, rustix::io::Errno> {
        settle(self.uid, uid)
    }

    /// The group to store for a chown to `gid`; none where the mount shows its own group, which chown cannot change. On a
    /// mount for a group, programs that give their files to themselves (`chown -R`) have to work.
    pub fn new_group(&self, gid: Option<u32>) -> Result<Option<u32>, rustix::io::Errno> {
        if self.group_access { Ok(gid) } else { settle(self.gid, gid) }
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
    use objstore_base::clock::Timestamp;

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
    fn acls_are_shown_as_modes_and_owners_are() {
        // u::rwx,u:9:rwx,g::r-x,m::rwx,o::r--
        let value = [
            [1, 0, 7, 0, 255, 255, 255, 255],
            [2, 0, 7, 0, 9, 0, 0, 0],
            [4, 0, 5, 0, 255, 255, 255, 255],
            [16, 0, 7, 0, 255, 255, 255, 255],
            [32, 0, 4, 0, 255, 255, 255, 255],
        ];
        let acl = Acl::parse(&[&[2, 0, 0, 0], value.as_flattened()].concat()).unwrap().unwrap();
        let view = View { umask: 0o027, ..view(ROOT_INO, Some(5)) };
        let shown = view.show_acl(acl.clone(), WhichAcl::Access);
        assert_eq!((shown.mode(), shown.entries().len()), (0o750, 4));
        assert_eq!(view.show_acl(acl, WhichAcl::Default).mode(), 0o774);
    }

    #[test]
    fn a_group_may_use_what_is_not_private_and_always_the_root() {
        let view = View::new(ROOT_INO, &Options { gid: Some(7), group_access: true, ..Options::default() });
        let mode = |ino: u64, kind: Kind, mode: u32| {
            let time = Timestamp(0);
            let (atime, mtime, ctime, btime) = (time, time, time, time);
            let (uid, gid, nlink, size, blocks, rdev) = (0, 0, 1, 0, 0, 0);
            let attr = Attr { ino, kind, mode, uid, gid, nlink, size, blocks, rdev, atime, mtime, ctime, btime };
            let shown = view.show(attr);
            assert_eq!(shown.gid, 7);
            shown.mode
        };
        assert_eq!(mode(5, Kind::File, 0o644), 0o664);
        assert_eq!(mode(5, Kind::File, 0o755), 0o775);
        assert_eq!(mode(5, Kind::Directory, 0o2750), 0o2770);
        assert_eq!([0o600, 0o700, 0o4701].map(|bits| mode(5, Kind::File, bits)), [0o600, 0o700, 0o4701], "private");
        assert_eq!(mode(5, Kind::Symlink, 0o755), 0o755);
        assert_eq!(mode(ROOT_INO, Kind::Directory, 0o700), 0o770);
        assert_eq!(view.new_group(Some(9)), Ok(Some(9)));
    }

    #[test]
    fn a_shown_owner_cannot_be_changed() {
        assert_eq!(view(1, Some(5)).new_owner(Some(5)), Ok(None));
        assert_eq!(view(1, Some(5)).new_owner(Some(6)), Err(rustix::io::Errno::PERM));
        assert_eq!(view(1, None).new_owner(Some(6)), Ok(Some(6)));
    }
}
