//! Files without a name (open(2), O_TMPFILE).

use super::names::new_inode;
use super::session::{Volume, attr};
use super::types::{Attr, Make, Ownership};
use crate::error::Result;

impl Volume {
    /// Creates a file without a name with one reference, and opens it for writing: [`Volume::close_writer`] has to
    /// follow. It has the attributes that a file created in `parent` would have, and is deleted with its last
    /// reference, unless it is `linkable` and [`Volume::link`] gave it a name.
    pub fn create_nameless(&self, parent: u64, who: Ownership, linkable: bool) -> Result<Attr> {
        let pinning = self.clone();
        let (ino, inode) = self.once_and(
            move |tx| {
                let mut inode = new_inode(Make::File, who, tx.now)?;
                inode.descend_from(&tx.tree().directory(parent)?, who.umask)?;
                tx.make_nameless(parent, inode, linkable)
            },
            move |tx, made| {
                pinning.hold(made.0);
                Self::open_made(tx, made.0, &made.1);
            },
        )?;
        self.count_writer(ino);
        Ok(attr(ino, &inode))
    }
}
