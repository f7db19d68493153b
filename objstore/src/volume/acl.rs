//! POSIX ACLs of inodes.

use objstore_files::Traits;

use super::flags::Touching;
use super::session::Volume;
use super::types::{Acl, Change, SetAcl, WhichAcl};
use crate::error::{Error, Posix, Result};
use crate::record::inode::{Inode, InodeKind};

/// What an inode does not have; nothing is known of one that cannot be read.
fn traits(inode: Option<Inode>) -> Traits {
    let Some(inode) = inode else { return Traits::default() };
    let has_none = |which: WhichAcl| matches!(inode.acl(which.attribute()), Ok(None));
    Traits {
        no_capabilities: !inode.has_capabilities(),
        no_protection: !inode.is_fixed(),
        no_access_acl: has_none(WhichAcl::Access),
        no_default_acl: has_none(WhichAcl::Default),
    }
}

impl Volume {
    /// What inodes do not have, in their order; nothing if they cannot be read.
    pub(super) fn traits_of(&self, inos: &[u64]) -> Vec<Traits> {
        let inodes = self.reading(|tree| tree.inodes_as::<Inode>(inos));
        inodes.map(|inodes| inodes.into_iter().map(traits).collect()).unwrap_or_default()
    }

    /// An ACL of an inode; `None` if there is none, or if it is equivalent to the mode.
    pub fn acl(&self, ino: u64, which: WhichAcl) -> Result<Option<Acl>> {
        let (_, inode) = self.reading(|tree| tree.dirty_inode(ino))?;
        inode.acl(which.attribute())
    }

    /// Sets an ACL. The mode follows an access ACL; one that is equivalent to a mode is not stored beside it.
    ///
    /// # Errors
    /// EACCES for a default ACL of anything but a directory; EOPNOTSUPP for a symbolic link; ENOSPC if it has no room
    /// for the entries that the setter was not shown.
    pub fn set_acl(&self, ino: u64, which: WhichAcl, acl: Acl, how: SetAcl) -> Result<()> {
        self.change_last(move |tx| {
            let mut inode = tx.own(ino)?;
            inode.refuse_fixed(Touching::Changes)?;
            check_kind(&inode, which)?;
            let acl = match inode.acl(which.attribute())? {
                Some(before) => acl.with_hidden_of(&before, how.hidden),
                None => acl,
            };
            if !acl.fits() {
                return Err(Posix::NoSpace.into());
            }
            match which {
                WhichAcl::Access => {
                    inode.set_access_acl(Some(&acl));
                    if how.kill_setgid {
                        inode.lose_setgid();
                    }
                }
                WhichAcl::Default => inode.set_default_acl(Some(&acl)),
            }
            inode.ctime = tx.now.0;
            tx.save(ino, &inode);
            tx.tell(Change::Attributes { ino });
            Ok(())
        })
    }

    /// Removes an ACL; a missing one is no error, as on other file systems.
    pub fn remove_acl(&self, ino: u64, which: WhichAcl) -> Result<()> {
        self.change_last(move |tx| {
            let mut inode = tx.own(ino)?;
            inode.refuse_fixed(Touching::Changes)?;
            match which {
                WhichAcl::Access => inode.set_access_acl(None),
                WhichAcl::Default => inode.set_default_acl(None),
            }
            inode.ctime = tx.now.0;
            tx.save(ino, &inode);
            tx.tell(Change::Attributes { ino });
            Ok(())
        })
    }
}

fn check_kind(inode: &Inode, which: WhichAcl) -> Result<()> {
    match (inode.kind(), which) {
        (InodeKind::Symlink, _) => Err(Posix::NotSupported.into()),
        (InodeKind::Directory, _) | (_, WhichAcl::Access) => Ok(()),
        _ => Err(Error::Denied { why: "only a directory can have a default ACL".into() }),
    }
}
