//! Showing a staged mount at a target path: bind mounts.
//!
//! - Read-only takes two steps, since the kernel ignores the flag in the first: bind, then remount the bind. If the
//!   second fails the first is undone.
//! - A mount is detached lazily and without following links: that works though its server is dead.

use std::io;
use std::path::Path;

use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount_bind, mount_remount, unmount};
use serde::{Deserialize, Serialize};

use crate::mountinfo::{self, Mounted};

/// What a bind may restrict on its own, whatever the mount behind it allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BindFlags {
    /// `ro`
    pub read_only: bool,
    /// `noexec`
    pub no_exec: bool,
    /// `nosuid`
    pub no_suid: bool,
    /// `nodev`
    pub no_dev: bool,
    /// `noatime`
    pub no_atime: bool,
}

/// The kernel's part of publishing.
pub trait Binder: Send + Sync {
    /// Shows the mount at `source` at the folder `target` too.
    fn bind(&self, source: &Path, target: &Path, flags: BindFlags) -> io::Result<()>;

    /// Detaches the uppermost mount at `target`; where there is none, nothing.
    fn detach(&self, target: &Path) -> io::Result<()>;

    /// The uppermost mount at `path`.
    fn mounted(&self, path: &Path) -> io::Result<Option<Mounted>>;
}

/// The running kernel.
pub struct Kernel;

impl Binder for Kernel {
    fn bind(&self, source: &Path, target: &Path, flags: BindFlags) -> io::Result<()> {
        mount_bind(source, target)?;
        let asked = mount_flags(flags);
        if asked.is_empty() {
            return Ok(());
        }
        let restricted = self.mounted(target).and_then(|mounted| {
            // A remount replaces the flags that the bind took over.
            let inherited = mounted.map(|mounted| inherited_flags(&mounted.options)).unwrap_or(MountFlags::empty());
            Ok(mount_remount(target, MountFlags::BIND | inherited | asked, "")?)
        });
        if restricted.is_err() {
            // The first failure is the one to tell.
            let _ = self.detach(target);
        }
        restricted
    }

    fn detach(&self, target: &Path) -> io::Result<()> {
        match unmount(target, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
            // EINVAL: nothing is mounted there.
            Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn mounted(&self, path: &Path) -> io::Result<Option<Mounted>> {
        mountinfo::mounted(path)
    }
}

fn mount_flags(flags: BindFlags) -> MountFlags {
    let each = [
        (flags.read_only, MountFlags::RDONLY),
        (flags.no_exec, MountFlags::NOEXEC),
        (flags.no_suid, MountFlags::NOSUID),
        (flags.no_dev, MountFlags::NODEV),
        (flags.no_atime, MountFlags::NOATIME),
    ];
    each.into_iter().filter(|(asked, _)| *asked).map(|(_, flag)| flag).collect()
}

fn inherited_flags(options: &[String]) -> MountFlags {
    let flag = |option: &String| match option.as_str() {
        "ro" => MountFlags::RDONLY,
        "noexec" => MountFlags::NOEXEC,
        "nosuid" => MountFlags::NOSUID,
        "nodev" => MountFlags::NODEV,
        "noatime" => MountFlags::NOATIME,
        "nodiratime" => MountFlags::NODIRATIME,
        "relatime" => MountFlags::RELATIME,
        _ => MountFlags::empty(),
    };
    options.iter().map(flag).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_the_kernels() {
        assert!(mount_flags(BindFlags::default()).is_empty());
        let both = BindFlags { read_only: true, no_exec: true, ..Default::default() };
        assert_eq!(mount_flags(both), MountFlags::RDONLY | MountFlags::NOEXEC);
        let options = ["rw", "nosuid", "nodev", "relatime"].map(str::to_owned);
        assert_eq!(inherited_flags(&options), MountFlags::NOSUID | MountFlags::NODEV | MountFlags::RELATIME);
    }

    #[test]
    fn detaching_where_nothing_is_mounted_does_nothing() {
        let dir = tempfile::tempdir().unwrap();
        if rustix::process::geteuid().is_root() {
            Kernel.detach(dir.path()).unwrap();
        }
        assert_eq!(Kernel.mounted(dir.path()).unwrap(), None);
    }

    #[test]
    fn a_read_only_bind_of_a_writable_folder_refuses_writes() {
        let dir = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(dir.path()).unwrap();
        let (source, target) = (root.join("source"), root.join("target"));
        std::fs::create_dir(&source).unwrap();
        std::fs::create_dir(&target).unwrap();
        let flags = BindFlags { read_only: true, ..Default::default() };
        match Kernel.bind(&source, &target, flags) {
            // Without the right to mount there is nothing to test.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return,
            bound => bound.unwrap(),
        }
        let refused = std::fs::write(target.join("file"), "").unwrap_err();
        let options = Kernel.mounted(&target).unwrap().unwrap().options;
        Kernel.detach(&target).unwrap();
        assert_eq!(refused.kind(), io::ErrorKind::ReadOnlyFilesystem);
        assert!(options.contains(&"ro".to_owned()));
        std::fs::write(source.join("file"), "").unwrap();
        assert_eq!(Kernel.mounted(&target).unwrap(), None);
    }
}
