//! Mode, owner and ACLs of an inode, kept consistent with each other.
//!
//! - ACLs are stored among the extended attributes, in the kernel's form. An access ACL equivalent to the mode is not
//!   stored. Beside a stored one the mode's group bits are its mask, so a program that reads only the mode sees the
//!   most that anyone except owner and others may have.
//! - The kernel checks who may change them. The effect of a change on the others is applied here, in one transaction.

use objstore_base::error::{Error, Result};

use crate::acl::{ACCESS, Acl, DEFAULT};
use crate::inode::{Inode, InodeKind};

/// setuid
const SETUID: u32 = 0o4000;
/// setgid
const SETGID: u32 = 0o2000;
const GROUP_EXECUTE: u32 = 0o010;
const PERMISSIONS: u32 = 0o777;
/// File capabilities, which apply to the content that existed when they were set.
const CAPABILITY: &str = "security.capability";
/// Attributes that are bound to the content, and removed with it.
const SIGNATURES: [&str; 3] = [CAPABILITY, "security.ima", "security.evm"];
const SECURITY: &str = "security.";

impl Inode {
    /// The ACL in an extended attribute.
    pub fn acl(&self, name: &str) -> Result<Option<Acl>> {
        let Some(value) = self.xattrs.get(name) else { return Ok(None) };
        Acl::parse(value).map_err(|_| Error::corrupt(format!("the attribute {name}"), "a valid ACL", "other bytes"))
    }

    /// Sets or removes the access ACL. The mode follows a new one; removal leaves the mode.
    pub fn set_access_acl(&mut self, acl: Option<&Acl>) {
        if let Some(acl) = acl {
            self.mode = self.mode & !PERMISSIONS | acl.mode();
        }
        self.keep_acl(ACCESS, acl.filter(|acl| !acl.is_mode()));
    }

    /// Sets or removes the default ACL of a directory.
    pub fn set_default_acl(&mut self, acl: Option<&Acl>) {
        self.keep_acl(DEFAULT, acl);
    }

    fn keep_acl(&mut self, name: &str, acl: Option<&Acl>) {
        match acl {
            Some(acl) => self.xattrs.insert(name.to_owned(), acl.bytes()),
            None => self.xattrs.remove(name),
        };
    }

    /// Sets the permission bits, including setuid, setgid and sticky; the access ACL follows.
    pub fn set_mode(&mut self, mode: u32) -> Result<()> {
        self.mode = mode & 0o7777;
        if let Some(mut acl) = self.acl(ACCESS)? {
            acl.set_mode(mode);
            self.keep_acl(ACCESS, Some(&acl));
        }
        Ok(())
    }

    /// Applies what a new inode gets from its directory `dir`: of a setgid directory the group, and a default ACL in
    /// place of the creator's umask (umask(2), acl(5)).
    pub fn descend_from(&mut self, dir: &Self, umask: u32) -> Result<()> {
        if dir.mode & SETGID != 0 {
            self.gid = dir.gid;
            if self.is_dir() {
                self.mode |= SETGID;
            }
        }
        if self.kind() == InodeKind::Symlink {
            return Ok(());
        }
        let Some(default) = dir.acl(DEFAULT)? else {
            self.mode &= !(umask & PERMISSIONS);
            return Ok(());
        };
        let mut access = default.clone();
        access.limit_to(self.mode);
        self.set_access_acl(Some(&access));
        if self.is_dir() {
            self.set_default_acl(Some(&default));
        }
        Ok(())
    }

    /// The permission bits of a new object in this directory, if it has no default ACL: its own without execute, and
    /// for the group the group's real rights.
    pub fn mode_for_objects(&self) -> Result<u32> {
        let mode = match self.acl(ACCESS)? {
            Some(acl) => acl.mode() & !0o070 | acl.mode() & u32::from(acl.group()) << 3,
            None => self.mode,
        };
        Ok(mode & 0o666 | 0o600)
    }

    /// Copies what an implied directory gets from the one above: mode, owner and ACLs.
    pub fn resemble(&mut self, above: &Self) {
        (self.mode, self.uid, self.gid) = (above.mode, above.uid, above.gid);
        self.inherit_flags(above);
        self.take_attributes(above, |name| name == ACCESS || name == DEFAULT);
    }

    /// Copies what a file keeps when S3 replaces its content: mode, owner, access ACL, and the labels of security
    /// modules, which decide who may use the name; attributes of the old content are not copied.
    pub fn succeed(&mut self, before: &Self) {
        (self.mode, self.uid, self.gid, self.flags) = (before.mode, before.uid, before.gid, before.flags);
        self.xattrs.clear();
        self.take_attributes(before, |name| {
            name == ACCESS || (name.starts_with(SECURITY) && !SIGNATURES.contains(&name))
        });
    }

    fn take_attributes(&mut self, from: &Self, takes: impl Fn(&str) -> bool) {
        let taken = from.xattrs.iter().filter(|(name, _)| takes(name));
        self.xattrs.extend(taken.map(|(name, value)| (name.clone(), value.clone())));
    }

    /// Clears setuid, and setgid if the group may execute; otherwise setgid is cleared only for callers who are not
    /// members of the group (`outsider`).
    pub fn lose_setuid(&mut self, outsider: bool) {
        self.mode &= !SETUID;
        if outsider || self.mode & GROUP_EXECUTE != 0 {
            self.mode &= !SETGID;
        }
    }

    /// Clears the capabilities of a program whose content or owner changes.
    pub fn lose_capabilities(&mut self) {
        self.xattrs.remove(CAPABILITY);
    }

    /// Whether [`Inode::lose_setuid`] would clear anything.
    pub fn may_lose_setuid(&self) -> bool {
        self.mode & SETUID != 0 || (self.mode & SETGID != 0 && self.mode & GROUP_EXECUTE != 0)
    }

    /// Whether [`Inode::lose_capabilities`] would clear anything.
    pub fn has_capabilities(&self) -> bool {
        self.xattrs.contains_key(CAPABILITY)
    }

    /// Clears setgid, for callers who are not members of the group.
    pub fn lose_setgid(&mut self) {
        self.mode &= !SETGID;
    }
}

#[cfg(test)]
mod tests {
    use objstore_base::clock::Timestamp;

    use super::*;

    fn made(kind: InodeKind, mode: u32) -> Inode {
        Inode { mode, ..Inode::new(kind, Timestamp(0)) }
    }

    /// The three entries of a mode, and `u:9` with `named` below the mask `mask`.
    fn acl(mode: u8, named: u8, mask: u8) -> Acl {
        let mut value = vec![2, 0, 0, 0];
        let entries =
            [(1, mode >> 6, 255), (2, named, 9), (4, mode >> 3 & 7, 255), (16, mask, 255), (32, mode & 7, 255)];
        for (tag, allowed, id) in entries {
            let rest = if id == 255 { 255 } else { 0 };
            value.extend([tag, 0, allowed, 0, id, rest, rest, rest]);
        }
        Acl::parse(&value).unwrap().unwrap()
    }

    #[test]
    fn mode_and_access_acl_follow_each_other() {
        let mut inode = made(InodeKind::File, 0o4755);
        inode.set_access_acl(Some(&acl(0o140, 6, 7)));
        assert_eq!(inode.mode, 0o4170);
        inode.set_mode(0o600).unwrap();
        assert_eq!(inode.acl(ACCESS).unwrap().unwrap().mode(), 0o600);
        let plain = Acl::parse(&[2, 0, 0, 0, 1, 0, 6, 0, 0, 0, 0, 0, 4, 0, 4, 0, 0, 0, 0, 0, 32, 0, 0, 0, 0, 0, 0, 0]);
        inode.set_access_acl(plain.unwrap().as_ref());
        assert_eq!((inode.mode, inode.xattrs.len()), (0o640, 0), "the mode says it all");
        inode.set_access_acl(None);
        assert_eq!(inode.mode, 0o640);
    }

    #[test]
    fn a_default_acl_stands_in_place_of_the_umask() {
        let mut dir = made(InodeKind::Directory, 0o2775);
        dir.gid = 7;
        let mut file = made(InodeKind::File, 0o666);
        file.descend_from(&dir, 0o027).unwrap();
        assert_eq!((file.mode, file.gid, file.xattrs.len()), (0o640, 7, 0));
        dir.set_default_acl(Some(&acl(0o152, 7, 7)));
        let mut file = made(InodeKind::File, 0o666);
        file.descend_from(&dir, 0o027).unwrap();
        assert_eq!(file.mode, 0o062);
        assert_eq!(file.acl(ACCESS).unwrap().unwrap().mode(), 0o062);
        assert_eq!(file.acl(DEFAULT).unwrap(), None);
        let mut below = made(InodeKind::Directory, 0o777);
        below.descend_from(&dir, 0o027).unwrap();
        assert_eq!((below.mode, below.acl(DEFAULT).unwrap()), (0o2172, dir.acl(DEFAULT).unwrap()));
        let mut link = made(InodeKind::Symlink, 0o777);
        link.descend_from(&dir, 0o027).unwrap();
        assert_eq!((link.mode, link.xattrs.len()), (0o777, 0));
    }

    #[test]
    fn what_s3_puts_takes_over_who_may_use_it_and_not_what_was_said_of_the_content() {
        let mut before = made(InodeKind::File, 0o640);
        (before.uid, before.gid) = (1, 2);
        before.set_access_acl(Some(&acl(0o100, 7, 5)));
        for name in ["security.selinux", CAPABILITY, "security.ima", "user.a", "trusted.b"] {
            before.xattrs.insert(name.into(), vec![1]);
        }
        let mut after = made(InodeKind::File, 0o600);
        after.succeed(&before);
        assert_eq!((after.mode, after.uid, after.gid), (before.mode, 1, 2));
        assert_eq!(after.xattrs.keys().collect::<Vec<_>>(), ["security.selinux", ACCESS]);
    }

    #[test]
    fn an_object_gets_what_the_group_of_its_directory_really_has() {
        let mut dir = made(InodeKind::Directory, 0o755);
        assert_eq!(dir.mode_for_objects().unwrap(), 0o644);
        dir.set_access_acl(Some(&acl(0o150 | 0o1, 7, 7)));
        assert_eq!((dir.mode, dir.mode_for_objects().unwrap()), (0o171, 0o640));
    }

    #[test]
    fn setgid_without_execute_is_lost_by_outsiders_only() {
        for (mode, outsider, left) in [(0o6755, false, 0o755), (0o6745, false, 0o2745), (0o6745, true, 0o745)] {
            let mut inode = made(InodeKind::File, mode);
            inode.lose_setuid(outsider);
            assert_eq!(inode.mode, left, "{mode:o}");
        }
    }
}
