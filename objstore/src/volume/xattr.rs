//! Extended attributes, in four namespaces (xattr(7)).
//!
//! - `user.`, `trusted.` and `security.` are stored unchanged in the inode's record. The kernel checks who may use
//!   them.
//! - `system.` holds the POSIX ACLs only.
//! - `user.s3.` shows the S3 attributes of the object, which are not stored twice (see `object_attributes`).

use bytes::Bytes;
use objstore_files::XATTR_BYTES_MAX;

use super::flags::Touching;
use super::object_attributes::{self, ObjectAttribute};
use super::session::Volume;
use super::types::{Acl, SetAcl, WhichAcl, XattrMode};
use crate::error::{Posix, Result};

/// The most bytes of all names and values together.
const TOTAL_BYTES_MAX: usize = 512 << 10;
/// Namespaces stored unchanged.
const KEPT: [&str; 3] = ["user.", "trusted.", "security."];

/// The meaning of an extended attribute's name.
enum Attribute {
    /// A stored value.
    Kept,
    /// An ACL.
    Acl(WhichAcl),
    /// An S3 attribute of the object.
    Object(ObjectAttribute),
}

impl Attribute {
    /// # Errors
    /// EOPNOTSUPP for an unknown namespace, EINVAL for one without a name after it.
    fn named(name: &str) -> Result<Self> {
        if let Some(which) = WhichAcl::of_attribute(name) {
            return Ok(Self::Acl(which));
        }
        if let Some(attribute) = ObjectAttribute::named(name) {
            return Ok(Self::Object(attribute));
        }
        match KEPT.iter().find_map(|space| name.strip_prefix(space)) {
            Some("") => Err(Posix::Invalid.into()),
            Some(_) => Ok(Self::Kept),
            None => Err(Posix::NotSupported.into()),
        }
    }
}

impl Volume {
    /// An extended attribute; ENODATA if absent.
    pub fn xattr(&self, ino: u64, name: &str) -> Result<Bytes> {
        let value = match Attribute::named(name)? {
            Attribute::Object(attribute) => self.object_attribute(ino, &attribute)?,
            Attribute::Kept | Attribute::Acl(_) => {
                let (_, mut inode) = self.reading(|tree| tree.dirty_inode(ino))?;
                inode.xattrs.remove(name).map(Bytes::from)
            }
        };
        value.ok_or_else(|| Posix::NoData.into())
    }

    /// All names of extended attributes.
    pub fn xattrs(&self, ino: u64) -> Result<Vec<String>> {
        let (_, inode) = self.reading(|tree| tree.dirty_inode(ino))?;
        let mut names = object_attributes::names(ino, &inode);
        names.extend(inode.xattrs.into_keys());
        Ok(names)
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// ENOSPC beyond the limits, EPERM for what S3 does not allow to be set either.
    pub fn set_xattr(&self, ino: u64, name: &str, value: &[u8], mode: XattrMode) -> Result<()> {
        match Attribute::named(name)? {
            Attribute::Kept => self.keep_xattr(ino, name, value, mode),
            Attribute::Object(attribute) => self.set_object_attribute(ino, &attribute, value, mode),
            Attribute::Acl(which) => match Acl::parse(value)? {
                Some(acl) => self.set_acl(ino, which, acl, SetAcl::default()),
                None => self.remove_acl(ino, which),
            },
        }
    }

    fn keep_xattr(&self, ino: u64, name: &str, value: &[u8], mode: XattrMode) -> Result<()> {
        if value.len() > XATTR_BYTES_MAX {
            return Err(Posix::NoSpace.into());
        }
        let (name, value) = (name.to_owned(), value.to_vec());
        self.once(move |tx| {
            let mut inode = tx.own(ino)?;
            inode.refuse_fixed(Touching::Changes)?;
            check_mode(mode, inode.xattrs.contains_key(&name))?;
            inode.xattrs.insert(name, value);
            let total: usize = inode.xattrs.iter().map(|(name, value)| name.len() + value.len()).sum();
            if total > TOTAL_BYTES_MAX {
                return Err(Posix::NoSpace.into());
            }
            inode.ctime = tx.now.0;
            tx.save(ino, &inode);
            tx.tell(super::Change::Attributes { ino });
            Ok(())
        })
    }

    /// Removes an extended attribute; ENODATA if absent.
    pub fn remove_xattr(&self, ino: u64, name: &str) -> Result<()> {
        match Attribute::named(name)? {
            Attribute::Kept => self.drop_xattr(ino, name),
            Attribute::Object(attribute) => self.remove_object_attribute(ino, &attribute),
            Attribute::Acl(which) => self.remove_acl(ino, which),
        }
    }

    fn drop_xattr(&self, ino: u64, name: &str) -> Result<()> {
        let name = name.to_owned();
        self.once(move |tx| {
            let mut inode = tx.own(ino)?;
            inode.refuse_fixed(Touching::Changes)?;
            if inode.xattrs.remove(&name).is_none() {
                return Err(Posix::NoData.into());
            }
            inode.ctime = tx.now.0;
            tx.save(ino, &inode);
            tx.tell(super::Change::Attributes { ino });
            Ok(())
        })
    }
}

/// Refuses to create an existing attribute, or to replace a missing one.
pub(super) fn check_mode(mode: XattrMode, there: bool) -> Result<()> {
    match (mode, there) {
        (XattrMode::Create, true) => Err(Posix::Exists.into()),
        (XattrMode::Replace, false) => Err(Posix::NoData.into()),
        _ => Ok(()),
    }
}
