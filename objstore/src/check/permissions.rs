//! Check of ACLs: each is valid and agrees with the mode beside it.

use super::Report;
use crate::record::acl::{ACCESS, DEFAULT};
use crate::record::inode::Inode;

/// Checks the ACLs of an inode.
pub(super) fn check(what: &str, inode: &Inode, report: &mut Report) {
    if let Some(Some(access)) = report.take(inode.acl(ACCESS))
        && (access.is_mode() || access.mode() != inode.mode & 0o777)
    {
        report.problem(format!("{what}: its mode {:04o} and its access ACL disagree", inode.mode));
    }
    if let Some(Some(_)) = report.take(inode.acl(DEFAULT))
        && !inode.is_dir()
    {
        report.problem(format!("{what}: it has a default ACL, but is not a directory"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Timestamp;
    use crate::record::inode::InodeKind;

    fn problems(inode: &Inode) -> usize {
        let mut report = Report::default();
        check("inode 5", inode, &mut report);
        report.problems.len()
    }

    #[test]
    fn acls_that_cannot_be_are_found() {
        let mut inode = Inode::new(InodeKind::File, Timestamp(0));
        inode.mode = 0o640;
        assert_eq!(problems(&inode), 0);
        // u::rw-,g::r--,m::rw-,o::---
        let entries: [[u8; 8]; 4] = [
            [1, 0, 6, 0, 255, 255, 255, 255],
            [4, 0, 4, 0, 255, 255, 255, 255],
            [16, 0, 6, 0, 255, 255, 255, 255],
            [32, 0, 0, 0, 255, 255, 255, 255],
        ];
        let value = [&[2, 0, 0, 0], entries.as_flattened()].concat();
        inode.xattrs.insert(ACCESS.into(), value.clone());
        assert_eq!(problems(&inode), 1, "the mode is not the ACL's");
        inode.mode = 0o660;
        assert_eq!(problems(&inode), 0);
        inode.xattrs.insert(DEFAULT.into(), value.clone());
        assert_eq!(problems(&inode), 1, "no directory");
        inode.xattrs.insert(DEFAULT.into(), value[..9].to_vec());
        assert_eq!(problems(&inode), 1, "no ACL");
    }
}
