//! The inodes that are kept, and the references that back them.
//!
//! - The store has a reference of the session for each inode with attributes here. It has counted what the kernel holds, less
//!   what was *counted* here, plus what is *owned* here: references that the kernel returned and the node kept.
//! - An owned reference keeps attributes known while the kernel does not hold the inode. It is returned when they are dropped
//!   and nothing is counted here. So a file that was removed is kept no longer than the kernel keeps it.
//! - The bound: beyond it all attributes are dropped, and all owned references with them.

use std::collections::HashMap;

use objstore_files::{Attr, WhichAcl};

/// The most inodes that are kept besides those with look-ups that the store has not counted, about 200 bytes each.
const NODES_MAX: usize = 1 << 16;
/// The most inodes with look-ups that the store has not counted.
const COUNTED_MAX: usize = 1 << 16;

/// An inode.
#[derive(Default)]
pub(super) struct Node {
    pub(super) attr: Option<Attr>,
    /// Whether it has no capabilities (capabilities(7)).
    pub(super) is_incapable: bool,
    /// Whether it has no flag that refuses to open it for writing (chattr(1)).
    pub(super) is_unprotected: bool,
    /// Whether it has no access ACL, and no default ACL.
    has_no_acl: [bool; 2],
    /// A name that leads to it, if it is a directory.
    pub(super) place: Option<(u64, Box<str>)>,
    /// Look-ups that were answered here.
    counted: u64,
    /// References at the store that the kernel does not hold.
    owned: u64,
}

impl Node {
    pub(super) fn set_no_acl(&mut self, which: WhichAcl) {
        self.has_no_acl[usize::from(which == WhichAcl::Default)] = true;
    }

    pub(super) fn has_no_acl(&self, which: WhichAcl) -> bool {
        self.has_no_acl[usize::from(which == WhichAcl::Default)]
    }

    fn drop_all(&mut self) {
        *self = Self { counted: self.counted, owned: self.owned, ..Self::default() };
    }

    fn is_held(&self) -> bool {
        self.counted > 0 || self.owned > 0
    }
}

/// The inodes.
#[derive(Default)]
pub(super) struct Nodes {
    nodes: HashMap<u64, Node>,
    /// Inodes with look-ups that the store has not counted.
    counted: usize,
    /// References that the store gets back.
    returned: Vec<(u64, u64)>,
}

impl Nodes {
    pub(super) fn get(&self, ino: u64) -> Option<&Node> {
        self.nodes.get(&ino)
    }

    /// An inode to keep something of.
    pub(super) fn keep(&mut self, ino: u64) -> &mut Node {
        if self.nodes.len() >= self.counted + NODES_MAX && !self.nodes.contains_key(&ino) {
            self.drop_all();
            self.give_back();
        }
        self.nodes.entry(ino).or_default()
    }

    /// Whether look-ups of so many inodes can be counted.
    pub(super) fn has_room(&self, inodes: usize) -> bool {
        self.counted + inodes <= COUNTED_MAX
    }

    /// Counts a look-up of an inode with attributes. The caller has checked that there is room.
    pub(super) fn count(&mut self, ino: u64) {
        if let Some(node) = self.nodes.get_mut(&ino) {
            self.counted += usize::from(node.counted == 0);
            node.counted += 1;
        }
    }

    /// The kernel returns references. Of those that the store has counted, one is owned from now on if `keeps` and the
    /// attributes are known. Returns how many go back to the store, and whether the store still has one of what is kept here.
    pub(super) fn forget(&mut self, ino: u64, count: u64, keeps: bool) -> (u64, bool) {
        let Some(node) = self.nodes.get_mut(&ino) else { return (count, false) };
        let taken = count.min(node.counted);
        node.counted -= taken;
        self.counted -= usize::from(taken > 0 && node.counted == 0);
        let mut left = count - taken;
        let is_known = node.attr.is_some_and(|attr| keeps && attr.nlink > 0);
        if left > 0 && node.owned == 0 && is_known {
            (node.owned, left) = (1, left - 1);
        }
        let is_backed = node.owned > 0 || left == 0;
        if is_backed && (is_known || node.owned == 0 || node.counted > 0) {
            return (left, true);
        }
        left += std::mem::take(&mut node.owned);
        node.drop_all();
        if node.counted == 0 {
            self.nodes.remove(&ino);
        }
        (left, false)
    }

    /// The store has counted a reference that the kernel does not hold. One is enough, and none is kept without attributes.
    pub(super) fn own(&mut self, ino: u64) {
        let node = self.keep(ino);
        let is_kept = node.attr.is_some() || node.counted > 0;
        let more = if is_kept { node.owned } else { node.owned + 1 };
        node.owned = u64::from(is_kept);
        if more > 0 {
            self.returned.push((ino, more));
        }
        if !is_kept {
            self.drop_node(ino);
        }
    }

    /// The attributes of an inode are not known any more.
    pub(super) fn drop_attr(&mut self, ino: u64) {
        if let Some(node) = self.nodes.get_mut(&ino) {
            node.attr = None;
            if node.counted == 0 && node.owned > 0 {
                self.returned.push((ino, std::mem::take(&mut node.owned)));
            }
        }
    }

    /// Nothing is known of an inode any more.
    pub(super) fn drop_node(&mut self, ino: u64) {
        self.drop_attr(ino);
        if let Some(node) = self.nodes.get_mut(&ino) {
            node.drop_all();
            if !node.is_held() {
                self.nodes.remove(&ino);
            }
        }
    }

    /// The attributes of all inodes are not known any more.
    pub(super) fn drop_attrs(&mut self) {
        self.nodes.values_mut().for_each(|node| node.attr = None);
    }

    /// Nothing is known of any inode any more.
    pub(super) fn drop_all(&mut self) {
        self.nodes.values_mut().for_each(Node::drop_all);
        self.nodes.retain(|_, node| node.is_held());
    }

    /// Returns all owned references of inodes without attributes: what may have been removed unnoticed is kept no longer.
    pub(super) fn give_back(&mut self) {
        for (ino, node) in &mut self.nodes {
            if node.attr.is_none() && node.counted == 0 && node.owned > 0 {
                self.returned.push((*ino, std::mem::take(&mut node.owned)));
            }
        }
        self.nodes.retain(|_, node| node.is_held() || node.attr.is_some());
    }

    /// The references that the store gets back since the last call.
    pub(super) fn returned(&mut self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.returned)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }
}
