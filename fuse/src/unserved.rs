//! A mount whose volume cannot be opened: its programs get EIO instead of waiting forever for a server.
//!
//! - The mount stays with the holder, so that a later server can still take it over. Requests made meanwhile are
//!   answered with an error, not kept.
//! - A [`Refusal`] is made only for mounts of this store, so that it never disturbs a server that serves the mount.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FileType, fstat, major, makedev, minor};

use crate::adapter;
use crate::claim::Claim;
use crate::holder::{Deposit, Held};
use crate::mountpoint;

/// The device `/dev/fuse` (the kernel's devices.txt): character device 10, 229.
const FUSE_DEVICE: (u32, u32) = (10, 229);

/// A mount whose requests are to be answered with errors.
pub struct Refusal {
    device: OwnedFd,
    /// Its shared memory, if the deposit has one.
    memory: Option<OwnedFd>,
    path: Option<PathBuf>,
}

/// A mount whose requests a thread of this process answers with errors.
pub struct Unserved {
    path: Option<PathBuf>,
    over: Arc<AtomicBool>,
}

impl Held {
    /// Prepares to refuse the requests of this mount, in case it cannot be taken over.
    ///
    /// # Errors
    /// If the process has too many open files.
    pub fn refusal(&self) -> io::Result<Refusal> {
        let (device, memory) = self.descriptors()?;
        Ok(Refusal { device, memory: Some(memory), path: Some(self.path().to_owned()) })
    }
}

impl Refusal {
    /// Prepares to refuse the requests of a mount whose record this version cannot read.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if the deposit holds no FUSE device; otherwise the system's error.
    pub fn of(deposit: &Deposit) -> io::Result<Self> {
        let device = deposit.descriptors.iter().find(|descriptor| is_fuse(descriptor));
        let device = device.ok_or(io::ErrorKind::NotFound)?.try_clone()?;
        let memory = deposit.descriptors.iter().find(|descriptor| !is_fuse(descriptor));
        let memory = memory.map(OwnedFd::try_clone).transpose()?;
        let path = connection(&device).and_then(|number| mountpoint::path_of(&number));
        Ok(Self { device, memory, path })
    }

    /// Answers all requests with EIO from now on, until the mount is gone; then calls `end`.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn begin(self, end: impl FnOnce() + Send + 'static) -> io::Result<Unserved> {
        let Self { device, memory, path } = self;
        let over = Arc::new(AtomicBool::new(false));
        let ended = over.clone();
        std::thread::Builder::new().name("fuse-refuse".into()).spawn(move || {
            // The holder reads the device no more. Where it cannot be claimed, both answer, and the kernel takes one answer.
            let _claim = memory.and_then(|memory| Claim::wait(memory.as_fd()).ok());
            match adapter::refuse_all(device) {
                Ok(()) => end(),
                Err(error) => tracing::error!(%error, "the requests of a mount are no longer answered"),
            }
            ended.store(true, Ordering::Release);
        })?;
        Ok(Unserved { path, over })
    }
}

impl Unserved {
    /// The mount point, if it is known.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Whether the mount is gone: a program unmounted it.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }
}

fn is_fuse(descriptor: &OwnedFd) -> bool {
    fstat(descriptor).is_ok_and(|found| {
        let (major, minor) = FUSE_DEVICE;
        FileType::from_raw_mode(found.st_mode) == FileType::CharacterDevice && found.st_rdev == makedev(major, minor)
    })
}

/// The device number of the mount behind a descriptor, as `/proc/self/mountinfo` writes it. Linux 6.5 and newer provide
/// it.
fn connection(device: &OwnedFd) -> Option<String> {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", device.as_raw_fd())).ok()?;
    let number = info.lines().find_map(|line| line.strip_prefix("fuse_connection:"))?;
    let number: u64 = number.trim().parse().ok()?;
    Some(format!("{}:{}", major(number), minor(number)))
}
