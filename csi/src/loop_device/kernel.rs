//! Loop devices of the running kernel.
//!
//! - Nodes of devices are taken from a devtmpfs that is mounted nowhere. So a container needs nothing of the host's
//!   `/dev`, and devices that the kernel adds later are found.
//! - The disk is opened in the folder of the mount, without following a link and only if it is a regular file: what lies in
//!   a bucket may be written by strangers.
//!
//! A crash between attaching a device and recording it leaves a device with the node's label.

use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use objstore::disk::PinnedPath;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatxFlags, open, openat, statx};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create, fsmount, fsopen,
    move_mount, open_tree,
};

use super::{Access, Device, Devices, ioctl, sysfs};
use crate::disk::DISK;

/// The sizes of a block that are tried in turn. Programs expect the first; disks of 4,096 bytes a sector need the second
/// for direct I/O.
const BLOCK_BYTES: [u32; 2] = [512, 4096];
/// How often another device is tried because another program took the free one.
const ATTEMPTS_MAX: usize = 64;
/// How long a file system may take to say something about the file of a device that nobody recorded.
const LABEL: Duration = Duration::from_secs(2);

/// The loop devices of the running kernel.
pub struct LoopKernel;

impl Devices for LoopKernel {
    fn attach(&self, folder: &Path, access: Access, label: &str) -> io::Result<Device> {
        let file = open_disk(folder, access)?;
        if size_of(&file)? == 0 {
            return Err(io::Error::new(ErrorKind::InvalidData, format!("{DISK} is empty")));
        }
        let nodes = nodes()?;
        for block_bytes in BLOCK_BYTES {
            let how = ioctl::Attachment { block_bytes, read_only: access == Access::ReadOnly, label };
            if let Some(device) = attach(&nodes, &file, &how)? {
                return Ok(device);
            }
        }
        Err(io::Error::new(ErrorKind::Unsupported, "the kernel does no direct I/O on the volume's file"))
    }

    fn size(&self, device: Device) -> Option<u64> {
        sysfs::is_kept(device).then(|| sysfs::size(device.number)).flatten()
    }

    fn grow(&self, folder: &Path, device: Device) -> io::Result<u64> {
        // Asked first, so that the kernel knows the size of the file.
        self.disk_size(folder)?;
        ioctl::set_capacity(open_node(&nodes()?, device.number, OFlags::RDONLY)?)?;
        self.size(device).ok_or_else(|| io::Error::other(format!("/dev/loop{} was detached", device.number)))
    }

    fn detach(&self, device: Device) -> io::Result<()> {
        if sysfs::attached(device.number) != Some(device) {
            return Ok(());
        }
        let node = open_node(&nodes()?, device.number, OFlags::RDONLY)?;
        // Held open now, so it is not attached again meanwhile.
        match sysfs::attached(device.number) == Some(device) {
            true => not_attached_is_done(ioctl::clear(&node)),
            false => Ok(()),
        }
    }

    fn labelled(&self, label: &str, known: &[Device]) -> io::Result<Vec<Device>> {
        let all = sysfs::all()?.into_iter();
        let unknown = all.filter(|(device, file)| is_disk(file) && !known.contains(device)).map(|(device, _)| device);
        Ok(unknown.filter(|device| label_of(*device).is_some_and(|found| found == label)).collect())
    }

    fn show(&self, device: Device, target: &Path) -> io::Result<()> {
        let place = PinnedPath::find(target)?;
        let at = open(place.by_descriptor(), OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        if kind_of(&at)? != FileType::RegularFile {
            return Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file"));
        }
        let bind = copy_of_node(device.number)?;
        let here = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        Ok(move_mount(&bind, "", &at, "", here)?)
    }

    fn disk_size(&self, folder: &Path) -> io::Result<u64> {
        size_of(&open_disk(folder, Access::ReadOnly)?)
    }
}

/// Attaches a free device; `None` if it would not do direct I/O.
fn attach(nodes: &OwnedFd, file: &OwnedFd, how: &ioctl::Attachment<'_>) -> io::Result<Option<Device>> {
    let control = openat(nodes, "loop-control", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    for _ in 0..ATTEMPTS_MAX {
        let number = ioctl::free(&control)?;
        let access = if how.read_only { OFlags::RDONLY } else { OFlags::RDWR };
        let node = open_node(nodes, number, access)?;
        match ioctl::configure(&node, file, how) {
            Err(error) if error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {}
            Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => return Ok(None),
            Err(error) => return Err(error),
            Ok(()) if sysfs::is_direct(number) => {
                let gone = || io::Error::other(format!("/dev/loop{number} was detached by another program"));
                return sysfs::attached(number).map(Some).ok_or_else(gone);
            }
            Ok(()) => {
                ioctl::clear(&node)?;
                return Ok(None);
            }
        }
    }
    Err(io::Error::new(ErrorKind::ResourceBusy, "other programs take every free loop device"))
}

/// Opens the disk of the volume that is mounted at `folder`.
fn open_disk(folder: &Path, access: Access) -> io::Result<OwnedFd> {
    let folder = PinnedPath::find(folder)?.open_directory()?;
    let mode = if access == Access::ReadOnly { OFlags::RDONLY } else { OFlags::RDWR };
    // A pipe is not waited for.
    let file = openat(&folder, DISK, mode | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
    if kind_of(&file)? != FileType::RegularFile {
        return Err(io::Error::new(ErrorKind::InvalidData, format!("{DISK} is not a regular file")));
    }
    Ok(file)
}

fn kind_of(file: &OwnedFd) -> io::Result<FileType> {
    let found = statx(file, "", AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE)?;
    Ok(FileType::from_raw_mode(found.stx_mode.into()))
}

/// The size of a file, as the store has it now.
fn size_of(file: &OwnedFd) -> io::Result<u64> {
    Ok(statx(file, "", AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC, StatxFlags::SIZE)?.stx_size)
}

/// The nodes of all devices of this kernel, mounted nowhere.
fn nodes() -> io::Result<OwnedFd> {
    let context = fsopen("devtmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?)
}

fn open_node(nodes: &OwnedFd, number: u32, mode: OFlags) -> io::Result<OwnedFd> {
    let flags = mode | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(nodes, format!("loop{number}"), flags, Mode::empty())?)
}

/// A mount of the device's node alone, at no place yet. Kernels before 6.15 do not copy mounts that are at no place: there
/// the node in `/dev` is taken.
fn copy_of_node(number: u32) -> io::Result<OwnedFd> {
    let copy = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    match open_tree(&nodes()?, format!("loop{number}"), copy) {
        Err(Errno::INVAL) => Ok(open_tree(rustix::fs::CWD, format!("/dev/loop{number}"), copy)?),
        copied => Ok(copied?),
    }
}

/// Whether a path ends in the name of a disk. The kernel marks a removed file.
fn is_disk(file: &Path) -> bool {
    let name = file.file_name().and_then(OsStr::to_str);
    name.is_some_and(|name| name.strip_suffix(" (deleted)").unwrap_or(name) == DISK)
}

/// The label of a device; `None` if its file system does not answer in time.
fn label_of(device: Device) -> Option<String> {
    let (answer, answered) = mpsc::channel();
    std::thread::spawn(move || {
        let node = nodes().and_then(|nodes| open_node(&nodes, device.number, OFlags::RDONLY));
        answer.send(node.and_then(ioctl::label).ok())
    });
    answered.recv_timeout(LABEL).ok().flatten()
}

fn not_attached_is_done(cleared: io::Result<()>) -> io::Result<()> {
    match cleared {
        Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => Ok(()),
        cleared => cleared,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_volumes_are_told_from_others() {
        for disk in ["/staging/disk.img", "/disk.img", "/disk.img (deleted)"] {
            assert!(is_disk(Path::new(disk)), "{disk}");
        }
        for other in ["/", "/disk.img/other", "/a-disk.img", "/disk.img2"] {
            assert!(!is_disk(Path::new(other)), "{other}");
        }
    }

    #[test]
    fn what_is_no_regular_file_is_not_opened_as_a_disk() {
        let dir = tempfile::tempdir().unwrap();
        let folder = std::fs::canonicalize(dir.path()).unwrap();
        assert_eq!(open_disk(&folder, Access::ReadOnly).unwrap_err().kind(), ErrorKind::NotFound);
        let disk = folder.join(DISK);
        std::os::unix::fs::symlink("/dev/null", &disk).unwrap();
        assert!(open_disk(&folder, Access::ReadWrite).is_err(), "a link");
        std::fs::remove_file(&disk).unwrap();
        std::fs::create_dir(&disk).unwrap();
        assert!(open_disk(&folder, Access::ReadOnly).is_err(), "a folder");
        std::fs::remove_dir(&disk).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &disk, Mode::RWXU).unwrap();
        assert!(open_disk(&folder, Access::ReadOnly).is_err(), "a pipe, which is not waited for");
        std::fs::remove_file(&disk).unwrap();
        std::fs::write(&disk, "content").unwrap();
        assert_eq!(size_of(&open_disk(&folder, Access::ReadWrite).unwrap()).unwrap(), 7);
    }
    /// Attaches a device in a test; `None`, with the reason on stderr, where this machine has no loop devices for it.
    fn attached(folder: &Path, access: Access, label: &str) -> Option<Device> {
        match LoopKernel.attach(folder, access, label) {
            Ok(device) => Some(device),
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::PermissionDenied | ErrorKind::NotFound | ErrorKind::Unsupported
                ) =>
            {
                #[expect(clippy::print_stderr, reason = "says why the test is skipped")]
                {
                    eprintln!("skipped: no loop device with direct I/O here: {error}");
                }
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn a_device_is_known_until_it_is_detached_and_grows_with_its_disk() {
        let dir = tempfile::tempdir().unwrap();
        let folder = std::fs::canonicalize(dir.path()).unwrap();
        let disk = std::fs::File::create(folder.join(DISK)).unwrap();
        disk.set_len(1 << 20).unwrap();
        let label = format!("test-{}", folder.display());
        let Some(device) = attached(&folder, Access::ReadWrite, &label) else { return };
        let Some(reader) = attached(&folder, Access::ReadOnly, &label) else { panic!("the first one was attached") };
        assert_ne!(device, reader);
        assert_eq!((LoopKernel.size(device), LoopKernel.disk_size(&folder).unwrap()), (Some(1 << 20), 1 << 20));
        assert_eq!(LoopKernel.labelled(&label, &[reader]).unwrap(), [device]);
        assert_eq!(LoopKernel.labelled("another", &[]).unwrap(), []);
        disk.set_len(2 << 20).unwrap();
        assert_eq!(LoopKernel.grow(&folder, device).unwrap(), 2 << 20);

        let target = folder.join("target");
        std::fs::write(&target, "").unwrap();
        LoopKernel.show(device, &target).unwrap();
        let mounted = objstore::disk::topmost_mount(&target).unwrap().unwrap();
        assert_eq!(mounted.root, format!("/loop{}", device.number));
        assert!(matches!(mounted.fs_type.as_str(), "devtmpfs" | "tmpfs"), "{mounted:?}");
        let opened = std::fs::File::open(&target).unwrap();
        rustix::mount::unmount(&target, rustix::mount::UnmountFlags::DETACH).unwrap();

        LoopKernel.detach(device).unwrap();
        LoopKernel.detach(reader).unwrap();
        assert_eq!(
            (LoopKernel.size(device), LoopKernel.size(reader)),
            (None, None),
            "no longer kept, though one is open"
        );
        drop(opened);
        assert_ne!(sysfs::attached(device.number), Some(device), "it is gone with the last program");
        LoopKernel.detach(device).unwrap();
    }
}
