//! The references of inodes to their content: adopted from an ancestor, replaced, and dropped.

use super::Tx;
use crate::blob_records::{release, retain};
use crate::error::Result;
use crate::record::inode::{Content, ExtentContent, Inode};

impl Tx<'_> {
    /// For a version inherited from an ancestor: refers to the ancestor's content without an in-place blob.
    pub fn adopt_content(&mut self, inode: &mut Inode) -> Result<()> {
        match &mut inode.content {
            Some(Content::Blob(content)) => {
                content.in_place = false;
                retain(self.txn, content.id)
            }
            Some(Content::Extents(content)) => {
                content.in_place = None;
                Ok(())
            }
            Some(Content::Inline(_)) | None => Ok(()),
        }
    }

    /// Replaces an inode's content; `content` carries its reference already.
    pub fn replace_content(&mut self, ino: u64, inode: &mut Inode, content: Option<Content>, size: u64) -> Result<()> {
        self.drop_content(ino, inode, true)?;
        inode.content = content;
        self.resize(inode, size);
        Ok(())
    }

    /// Drops an inode's references. `owned`: the inode is this branch's own version.
    pub fn drop_content(&mut self, ino: u64, inode: &Inode, owned: bool) -> Result<()> {
        if let Some(Content::Extents(_)) = &inode.content {
            self.cut_extents(ino, 0, u64::MAX)?;
        }
        match &inode.content {
            Some(Content::Blob(content)) if owned => release(self.txn, content.id),
            Some(Content::Extents(ExtentContent { in_place: Some(in_place) })) if owned => release(self.txn, *in_place),
            _ => Ok(()),
        }
    }
}
