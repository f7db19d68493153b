//! Extended attributes and ACLs.

use objstore_base::acl::{ACCESS, DEFAULT, Hidden};

/// The largest value of an extended attribute, in bytes (XATTR_SIZE_MAX).
pub const XATTR_BYTES_MAX: usize = 64 << 10;
/// The longest name of an extended attribute, in bytes (XATTR_NAME_MAX).
pub const XATTR_NAME_BYTES_MAX: usize = 255;

/// The kind of an inode's ACL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhichAcl {
    /// The access ACL, which decides about access.
    Access,
    /// The default ACL, which new entries of the directory inherit.
    Default,
}

impl WhichAcl {
    /// The kind stored in an extended attribute of this name.
    pub fn of_attribute(name: &str) -> Option<Self> {
        match name {
            ACCESS => Some(Self::Access),
            DEFAULT => Some(Self::Default),
            _ => None,
        }
    }

    /// The name of the extended attribute.
    pub fn attribute(self) -> &'static str {
        match self {
            Self::Access => ACCESS,
            Self::Default => DEFAULT,
        }
    }
}

/// How to set an ACL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAcl {
    /// Clear setgid too: the caller is not a member of the file's group (the kernel's ACL_KILL_SGID).
    pub kill_setgid: bool,
    /// Entries that the setter was not shown; existing ones stay.
    pub hidden: Hidden,
}

/// Whether an extended attribute may or must exist already (setxattr(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XattrMode {
    /// Either.
    Any,
    /// XATTR_CREATE
    Create,
    /// XATTR_REPLACE
    Replace,
}
