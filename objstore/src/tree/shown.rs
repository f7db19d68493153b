//! Copies of a file's attributes in its name's record, so that a listing need not read the inode.
//!
//! - Only the name that S3 gave a file carries the copy, while the file has no other name. The inode records that the
//!   copy may exist.
//! - Every change of an inode passes here before it is written: one that would make the copy wrong removes it in the
//!   same transaction, and listings read the inode from then on. A mount that writes to a file pays for that once.
//! - A name that moves, or leads to another inode, is written without the copy.

use crate::branch::Ancestry;
use crate::error::Result;
use crate::record::decode;
use crate::record::inode::Inode;
use crate::record::key;
use crate::record::listed::{ListedDirent, ListingEntry};

use super::tx::Tx;

use prost::Message;

impl Tx<'_> {
    /// Whether the name of an inode that is about to be written as `inode` still carries the attributes for listings.
    pub(super) fn keeps_shown(&mut self, ino: u64, inode: &Inode) -> bool {
        self.settle_shown(ino, inode).unwrap_or_else(|error| {
            // If it cannot be examined, the copy may be wrong: this change must not be committed.
            self.broken.get_or_insert(error);
            true
        })
    }

    fn settle_shown(&mut self, ino: u64, inode: &Inode) -> Result<bool> {
        let Ancestry { clone_group, .. } = self.ancestry;
        let base = key::dirent(clone_group, inode.parent, &inode.name);
        let Some((_, value)) = self.ancestry.get(&*self.txn, &base)? else { return Ok(false) };
        let name: ListedDirent = decode("a directory entry", &value)?;
        if name.ino != ino || name.shown.is_none() {
            return Ok(false);
        }
        if inode.nlink == 1 && name.shown == Some(ListingEntry::of(ino, inode)) {
            return Ok(true);
        }
        self.ancestry.shadow(self.txn, &base)?;
        self.ancestry.put(self.txn, &base, name.dirent().encode_to_vec());
        Ok(false)
    }
}
