//! The parts in which an object was uploaded: a separate record, so that the inode of an object with 10,000 parts stays
//! small.
//!
//! - It is written and removed with the content that it describes, and seen through branches as the content is.
//! - `object.part_table` of the inode says that it exists. Once a mount changed the content, `object.parts` is zero and
//!   the record has no meaning; it is removed with the content.

use prost::Message;

use super::read::Tree;
use super::tx::Tx;
use crate::error::{Error, Result};
use crate::record::decode;
use crate::record::inode::Inode;
use crate::record::key;
use crate::record::upload::{ObjectPart, ObjectParts};

impl Tree<'_> {
    /// The parts in which an inode's content was uploaded; empty if it was not, or changed since.
    pub fn parts(&self, ino: u64, inode: &Inode) -> Result<Vec<ObjectPart>> {
        if inode.object.as_ref().is_none_or(|object| object.parts == 0 || !object.part_table) {
            return Ok(Vec::new());
        }
        let what = || format!("the parts of inode {ino}");
        let found = self.ancestry.get(self.read, &key::object_parts(self.ancestry.clone_group, ino))?;
        let (_, value) = found.ok_or_else(|| Error::corrupt(what(), "a record, since the inode says so", "none"))?;
        Ok(decode::<ObjectParts>(&what(), &value)?.parts)
    }
}

impl Tx<'_> {
    /// Stores the parts of a new inode.
    pub fn put_parts(&mut self, ino: u64, parts: Vec<ObjectPart>) {
        let base = key::object_parts(self.ancestry.clone_group, ino);
        self.ancestry.put(self.txn, &base, ObjectParts { parts }.encode_to_vec());
    }

    /// Moves the parts of one inode to another that has none.
    pub fn move_parts(&mut self, from: u64, to: u64) -> Result<()> {
        let base = key::object_parts(self.ancestry.clone_group, from);
        let Some((_, value)) = self.ancestry.get(&*self.txn, &base)? else { return Ok(()) };
        self.ancestry.put(self.txn, &key::object_parts(self.ancestry.clone_group, to), value.to_vec());
        self.ancestry.remove(self.txn, &base)
    }

    /// Removes the parts of an inode whose content is removed.
    pub fn drop_parts(&mut self, ino: u64, inode: &Inode) -> Result<()> {
        if inode.object.as_ref().is_none_or(|object| !object.part_table) {
            return Ok(());
        }
        self.ancestry.remove(self.txn, &key::object_parts(self.ancestry.clone_group, ino))
    }
}
