//! Operations of attributes, flags, extended attributes, ACLs and space.

use std::borrow::Cow;

use bytes::Bytes;
use objstore_base::acl::Acl;

use super::operations::operations;
use crate::attributes::{Attr, Flags, SetAttr, Space};
use crate::xattrs::{SetAcl, WhichAcl, XattrMode};

operations! {
    /// Operations of attributes. A name of an extended attribute has at most
    /// [`XATTR_NAME_BYTES_MAX`](crate::XATTR_NAME_BYTES_MAX) bytes and its value at most
    /// [`XATTR_BYTES_MAX`](crate::XATTR_BYTES_MAX).
    AttributeOp<'a> {
        /// The attributes of an inode.
        [Read] attr: Attr {
            /// The inode.
            ino: u64,
        } -> Attr;

        /// Changes attributes and returns all; a new size truncates or extends.
        ///
        /// # Errors
        /// EPERM for the mtime of a version under object lock: S3 shows it as Last-Modified.
        [Set] set_attr: SetAttr {
            /// The inode.
            ino: u64,
            /// What to change.
            set: SetAttr,
        } -> Attr;

        /// Clears what a change of content clears: capabilities, and with `kill` setuid and setgid. If it clears any, the
        /// session's own changes report it.
        [Set] lose_privileges: LosePrivileges {
            /// The file.
            ino: u64,
            /// Clear setuid and setgid too.
            kill: bool,
        } -> ();

        /// The flags of an inode (chattr(1)).
        [Read] flags: Flags {
            /// The inode.
            ino: u64,
        } -> Flags;

        /// Sets all flags of an inode.
        ///
        /// # Errors
        /// EPERM for other changes to an inode that stays immutable; EBUSY if a program may be storing into the file
        /// through a mapping that bypasses the server.
        [Set] set_flags: SetFlags {
            /// The inode.
            ino: u64,
            /// All its flags.
            flags: Flags,
        } -> ();

        /// An extended attribute; ENODATA if absent.
        [Read] xattr: Xattr {
            /// The inode.
            ino: u64,
            /// The attribute's name.
            name: Cow<'a, str>,
        } -> Bytes;

        /// All names of extended attributes: of an inode's attributes at most 512 KiB, names and values together.
        [Read] xattrs: Xattrs {
            /// The inode.
            ino: u64,
        } -> Vec<String>;

        /// Sets an extended attribute.
        ///
        /// # Errors
        /// ENOSPC beyond the limits, EPERM for what S3 does not allow to be set either.
        [Once] set_xattr: SetXattr {
            /// The inode.
            ino: u64,
            /// The attribute's name.
            name: Cow<'a, str>,
            /// Its value.
            value: Cow<'a, [u8]>,
            /// Whether it may or must exist.
            mode: XattrMode,
        } -> ();

        /// Removes an extended attribute; ENODATA if absent.
        [Once] remove_xattr: RemoveXattr {
            /// The inode.
            ino: u64,
            /// The attribute's name.
            name: Cow<'a, str>,
        } -> ();

        /// An ACL of an inode; `None` if there is none, or if it is equivalent to the mode.
        [Read] acl: Acl {
            /// The inode.
            ino: u64,
            /// Which ACL.
            which: WhichAcl,
        } -> Option<Acl>;

        /// Sets an ACL. The mode follows an access ACL; one that is equivalent to a mode is not stored beside it.
        ///
        /// # Errors
        /// EACCES for a default ACL of anything but a directory; EOPNOTSUPP for a symbolic link; ENOSPC if it has no room
        /// for the entries that the setter was not shown.
        [Set] set_acl: SetAcl {
            /// The inode.
            ino: u64,
            /// Which ACL.
            which: WhichAcl,
            /// Its entries.
            acl: Acl,
            /// How.
            how: SetAcl,
        } -> ();

        /// Removes an ACL; a missing one is no error, as on other file systems.
        [Set] remove_acl: RemoveAcl {
            /// The inode.
            ino: u64,
            /// Which ACL.
            which: WhichAcl,
        } -> ();

        /// Space for statfs(2).
        [Read] space: Space {} -> Space;
    }
}

impl AttributeOp<'_> {
    /// The inode that the operation names.
    pub fn ino(&self) -> Option<u64> {
        match self {
            Self::Attr { ino }
            | Self::SetAttr { ino, .. }
            | Self::LosePrivileges { ino, .. }
            | Self::Flags { ino }
            | Self::SetFlags { ino, .. }
            | Self::Xattr { ino, .. }
            | Self::Xattrs { ino }
            | Self::SetXattr { ino, .. }
            | Self::RemoveXattr { ino, .. }
            | Self::Acl { ino, .. }
            | Self::SetAcl { ino, .. }
            | Self::RemoveAcl { ino, .. } => Some(*ino),
            Self::Space {} => None,
        }
    }
}
