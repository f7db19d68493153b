//! A file system in a file, mounted through a loop device: it can be filled, and cut off like a disk without power.
//!
//! - Cutting uses the file system's shutdown ioctl without a flush of its log: from then on nothing reaches the image,
//!   and uncached reads fail as well.
//! - Unmounting drops the kernel's caches, so everything read after the next mount comes from the image.
//! - The image is in the folder of a test server, whose removal detaches its mounts; the loop device is removed with
//!   the mount.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use crate::child::{run, wait_until};
use crate::tools::{required, root_and_fuse};

const LIMIT: Duration = Duration::from_secs(60);
/// How long another process may still use a mount that is being unmounted.
const BUSY_LIMIT: Duration = Duration::from_secs(20);

/// The type of the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// ext4 with its default options: a journal and data=ordered.
    Ext4,
    /// XFS. It takes 300 MiB at least.
    Xfs,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
        }
    }
}

/// The image file and its mount point.
#[derive(Debug)]
pub struct Image {
    file: PathBuf,
    dir: PathBuf,
    kind: Kind,
}

impl Image {
    /// Creates a file system of `bytes` in `file` and mounts it at the new folder `dir`.
    ///
    /// # Errors
    /// If a tool is missing or fails.
    pub fn make(kind: Kind, bytes: u64, file: &Path, dir: &Path) -> Result<Self, String> {
        std::fs::File::create(file).and_then(|made| made.set_len(bytes)).map_err(|error| failed(file, &error))?;
        std::fs::create_dir_all(dir).map_err(|error| failed(dir, &error))?;
        let mut command = Command::new(required(&format!("mkfs.{}", kind.name()))?);
        // No blocks are reserved for root, so a full disk is full for everyone.
        let flags: &[&str] = if kind == Kind::Ext4 { &["-q", "-F", "-m", "0"] } else { &["-q", "-f"] };
        succeed(command.args(flags).arg(file))?;
        let image = Self { file: file.to_owned(), dir: dir.to_owned(), kind };
        image.mount()?;
        Ok(image)
    }

    /// The mount point.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Mounts it, replaying its journal if it was cut off.
    ///
    /// # Errors
    /// If mount(8) fails.
    pub fn mount(&self) -> Result<(), String> {
        succeed(
            Command::new(required("mount")?)
                .args(["-o", "loop", "-t", self.kind.name()])
                .arg(&self.file)
                .arg(&self.dir),
        )
    }

    /// Cuts it off: nothing more reaches the image.
    ///
    /// # Errors
    /// If xfs_io(8) fails.
    pub fn cut(&self) -> Result<(), String> {
        succeed(Command::new(required("xfs_io")?).args(["-x", "-c", "shutdown"]).arg(&self.dir))
    }

    /// Unmounts it once no file is open there.
    ///
    /// # Errors
    /// If files stay open.
    pub fn unmount(&self) -> Result<(), String> {
        let unmounted = wait_until(BUSY_LIMIT, || match unmount(&self.dir, UnmountFlags::NOFOLLOW) {
            Err(Errno::BUSY) => None,
            other => Some(other),
        });
        match unmounted {
            Some(Ok(())) => Ok(()),
            Some(Err(error)) => Err(format!("{}: {error}", self.dir.display())),
            None => Err(format!("{} is still in use after {} s", self.dir.display(), BUSY_LIMIT.as_secs())),
        }
    }
}

/// Whether this machine allows mounting file systems in files.
///
/// # Errors
/// If it does not; the text says why, as the reason of a skip.
pub fn loop_devices(kind: Kind) -> Result<(), String> {
    root_and_fuse()?;
    for tool in [&format!("mkfs.{}", kind.name()), "mount", "xfs_io"] {
        required(tool)?;
    }
    if !Path::new("/dev/loop-control").exists() {
        return Err("file systems in files need /dev/loop-control: modprobe loop".to_owned());
    }
    let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let is_known = known.lines().any(|line| line.split_whitespace().last() == Some(kind.name()));
    let module = || Command::new("modprobe").arg(kind.name()).status().is_ok_and(|status| status.success());
    if is_known || module() { Ok(()) } else { Err(format!("this kernel has no {}", kind.name())) }
}

fn failed(what: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", what.display())
}

fn succeed(command: &mut Command) -> Result<(), String> {
    let outcome = run(command, LIMIT)?;
    if outcome.status.success() { Ok(()) } else { Err(outcome.to_string()) }
}
