//! Bind mounts: show a staged mount at a target path.
//!
//! - A read-only bind takes two steps, because the kernel ignores the flag in the first: bind, then remount the bind.
//!   If the second step fails, the first is undone.
//! - Source and target are opened once and mounted by descriptor, so that a user who may rename part of a path cannot
//!   redirect the bind (`objstore::disk::PinnedPath`).
//! - A mount is detached lazily and without following links, so that it works though its server is dead.

use std::io;
use std::os::fd::AsRawFd as _;
use std::path::Path;

use objstore::disk::{MountEntry, PinnedPath, topmost_mount};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount_remount, move_mount, open_tree, unmount,
};
use serde::{Deserialize, Serialize};

/// Restrictions of a bind mount in addition to those of the mount behind it.
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

/// The kernel operations that publishing needs.
pub trait Binder: Send + Sync {
    /// Shows the mount at `source` also at the folder `target`.
    fn bind(&self, source: &Path, target: &Path, flags: BindFlags) -> io::Result<()>;

    /// Detaches the topmost mount at `target`; if there is none, it succeeds.
    fn detach(&self, target: &Path) -> io::Result<()>;

    /// The topmost mount at `path`.
    fn mounted(&self, path: &Path) -> io::Result<Option<MountEntry>>;
}

/// The running kernel.
pub struct Kernel;

impl Binder for Kernel {
    fn bind(&self, source: &Path, target: &Path, flags: BindFlags) -> io::Result<()> {
        let (source, place) = (PinnedPath::find(source)?.open_directory()?, PinnedPath::find(target)?);
        let directory = place.open_directory()?;
        let copy = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
        let bind = open_tree(&source, "", copy)?;
        let here = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        move_mount(&bind, "", &directory, "", here)?;
        // From here on the bind is identified by a descriptor of its root, wherever the directory is moved.
        let root = format!("/proc/self/fd/{}", bind.as_raw_fd());
        let restricted = self.restrict(&root, place.path(), flags);
        if restricted.is_err() {
            // The first failure is reported, not one of undoing it.
            let _ = unmount(root.as_str(), UnmountFlags::DETACH);
        }
        restricted
    }

    fn detach(&self, target: &Path) -> io::Result<()> {
        let place = match PinnedPath::find(target) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            found => found?,
        };
        match unmount(place.by_descriptor(), UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
            // EINVAL: nothing is mounted there.
            Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn mounted(&self, path: &Path) -> io::Result<Option<MountEntry>> {
        topmost_mount(path)
    }
}

impl Kernel {
    /// Restricts the bind whose root is at `root`, a path to a descriptor. It should be the topmost mount at `at`.
    fn restrict(&self, root: &str, at: &Path, flags: BindFlags) -> io::Result<()> {
        let Some(mounted) = self.mounted(at)? else {
            return Err(io::Error::other("the directory was moved while it was being mounted at"));
        };
        let asked = mount_flags(flags);
        if asked.is_empty() {
            return Ok(());
        }
        // A remount replaces the flags that the bind inherited.
        Ok(mount_remount(root, MountFlags::BIND | inherited_flags(&mounted.options) | asked, "")?)
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

    #[test]
    fn a_target_that_is_swapped_against_a_link_leads_no_bind_elsewhere() {
        use std::sync::atomic::{AtomicBool, Ordering};

        use rustix::fs::{CWD, RenameFlags, renameat_with};
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(dir.path()).unwrap();
        let [source, theirs, victim] = ["source", "theirs", "victim"].map(|name| root.join(name));
        let (target, link) = (theirs.join("target"), theirs.join("link"));
        [&source, &target, &victim].into_iter().for_each(|folder| std::fs::create_dir_all(folder).unwrap());
        std::os::unix::fs::symlink(&victim, &link).unwrap();
        let (going, begin, mut made) = (AtomicBool::new(true), std::time::Instant::now(), 0);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                // The swapping ends also after a panic of the mounting thread. A mount point itself cannot be renamed.
                while going.load(Ordering::Relaxed) && begin.elapsed().as_secs() < 60 {
                    let _ = renameat_with(CWD, &target, CWD, &link, RenameFlags::EXCHANGE);
                }
            });
            for _ in 0..2_000 {
                made += usize::from(Kernel.bind(&source, &target, BindFlags::default()).is_ok());
                assert_eq!(Kernel.mounted(&victim).unwrap(), None, "another directory is covered");
                // Repeated, because the swapping may have hidden it before.
                while [&target, &link].into_iter().any(|path| Kernel.mounted(path).unwrap().is_some()) {
                    [&target, &link].into_iter().for_each(|path| Kernel.detach(path).unwrap());
                }
            }
            going.store(false, Ordering::Relaxed);
        });
        assert!(made > 0, "it was never mounted at all");
    }
}
