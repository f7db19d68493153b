//! Enforcement of the chattr(1) flags where names change; [`Touching`] says what each flag forbids.

use crate::error::Result;
pub(crate) use crate::record::Touching;

use super::tx::Tx;

impl Tx<'_> {
    /// Refuses to remove a name of an inode whose flags forbid it.
    pub fn refuse_unnaming(&self, ino: u64) -> Result<()> {
        self.tree().linked_inode(ino)?.1.refuse_fixed(Touching::Changes)
    }
}
