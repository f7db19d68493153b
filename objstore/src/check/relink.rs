//! Relinking: names and versions whose records cannot be read, rebuilt from the inodes. An inode records its name, and
//! the key and order of its version.
//!
//! - If exactly one inode has this name, and fewer links than it counts, the name leads to it again.
//! - If none has, the name leads to a placeholder that answers an error, as for an unreadable inode. A version without
//!   a newer one under its key was a delete marker: the newest version is a record of its own only if it is one.

use prost::Message;

use super::tree_repair::{Name, TreeRepair};
use crate::branch::Seen;
use crate::error::Result;
use crate::name::Key;
use crate::record::inode::{Dirent, Inode, InodeKind, NONCURRENT};
use crate::record::key::{self, Branch, tag};
use crate::record::listed::ListedDirent;
use crate::record::version::Version;
use crate::tree::{order_of, shown_name};

impl TreeRepair<'_> {
    /// Relinks a name to an inode. Returns what was done, if it was necessary.
    pub(super) fn name_again(&mut self, at: &[u8], parent: u64, sort_name: &str, why: &str) -> Result<Option<String>> {
        let value = self.txn.get(at)?;
        let Some((_, branch)) = key::unbranched(at) else { return Ok(None) };
        if value.is_none_or(|value| value.is_empty() || ListedDirent::decode(&*value).is_ok()) {
            return Ok(None);
        }
        let (name, is_dir) = (shown_name(sort_name), sort_name.ends_with('/'));
        let says_so = |inode: &Inode| inode.parent == parent && inode.name == name && inode.is_dir() == is_dir;
        if let Some((ino, inode)) = self.only(says_so)? {
            self.txn.put(at.to_vec(), Dirent::new(ino, inode.kind()).encode_to_vec());
            return Ok(Some(format!("\"{name}\" leads to inode {ino} again, which has this name recorded")));
        }
        let kind = if is_dir { InodeKind::Directory } else { InodeKind::File };
        let name = Name { parent, sort_name: sort_name.to_owned(), kind, shown: None, version: None };
        let ino = self.instead(&name, branch, why)?;
        self.txn.put(at.to_vec(), Dirent::new(ino, kind).encode_to_vec());
        Ok(Some(format!("\"{sort_name}\": quarantined, the inode it led to is unknown")))
    }

    /// Relinks a noncurrent version to an inode. Returns what was done, if it was necessary.
    pub(super) fn version_again(&mut self, at: &[u8], name: &str, order: u64, why: &str) -> Result<Option<String>> {
        let value = self.txn.get(at)?;
        let Some((base, branch)) = key::unbranched(at) else { return Ok(None) };
        if value.is_none_or(|value| value.is_empty() || Version::decode(&*value).is_ok()) {
            return Ok(None);
        }
        // An order number is unique; a key has at most one `null` version.
        let mut found = self.only(|inode| order_of(inode) == order)?;
        if found.is_none() {
            found = self.only(|inode| order_of(inode) == 0 && self.was_under(inode, name))?;
        }
        let mut version = Version { ino: 0, created: self.now.0, null: false, present: true };
        let done = match found {
            Some((ino, inode)) => {
                (version.ino, version.created, version.null) = (ino, inode.changed, order_of(&inode) == 0);
                "it leads to its inode again, which has it recorded"
            }
            None if self.was_marker(base, name)? => "there is no newer version, so it was a delete marker",
            None => {
                let shown = None;
                let (sort_name, kind) = (name.to_owned(), InodeKind::File);
                version.ino = self.instead(
                    &Name { parent: NONCURRENT, sort_name, kind, shown, version: Some(order) },
                    branch,
                    why,
                )?;
                "quarantined, its inode is unknown"
            }
        };
        self.txn.put(at.to_vec(), version.encode_to_vec());
        Ok(Some(format!("version {order:016x} of \"{}\": {done}", name.escape_debug())))
    }

    /// Whether an inode lies, or lay while it was current, under a key.
    fn was_under(&self, inode: &Inode, key: &str) -> bool {
        match inode.parent {
            NONCURRENT => inode.name == key,
            parent => self
                .tree()
                .key_of(parent, &inode.name)
                .is_ok_and(|found| found.is_some_and(|found| found.as_str() == key)),
        }
    }

    /// Whether this is the newest version of a key without a current object.
    fn was_marker(&self, base: &[u8], name: &str) -> Result<bool> {
        let Ok(key) = name.parse::<Key>() else { return Ok(false) };
        let from = key::versions(self.ancestry().clone_group, name);
        let newest = self.ancestry().scan(&*self.txn, &from, &key::after_prefix(&from), 1)?;
        Ok(newest.first().is_some_and(|newest| newest.base == base) && self.tree().find(&key)?.is_none())
    }

    /// The only inode that meets the condition and has fewer names than it counts.
    fn only(&self, holds: impl Fn(&Inode) -> bool) -> Result<Option<(u64, Inode)>> {
        let mut found = Vec::new();
        for record in self.ancestry().all(&*self.txn, tag::INODE) {
            let Seen { base, value, .. } = record?;
            let inode = Inode::decode(&*value).ok().filter(|inode| inode.nlink > 0 && holds(inode));
            found.extend(key::u64_at(&base, key::INODE_AT).zip(inode));
        }
        let mut unnamed = Vec::new();
        for (ino, inode) in found {
            let expected = if inode.is_dir() { 1 } else { inode.nlink as usize };
            if self.names_of(ino)?.len() < expected {
                unnamed.push((ino, inode));
            }
        }
        Ok(if unnamed.len() == 1 { unnamed.pop() } else { None })
    }

    /// Creates an inode whose content answers an error, on the branch of the record that leads to it.
    fn instead(&mut self, name: &Name, branch: Branch, why: &str) -> Result<u64> {
        let ino = self.next(|clone_group| {
            clone_group.next_ino += 1;
            clone_group.next_ino - 1
        })?;
        let inode = self.substitute(name, 1, why, Vec::new())?;
        self.txn.put(key::branched(&key::inode(self.ancestry().clone_group, ino), branch), inode.encode_to_vec());
        Ok(ino)
    }
}
