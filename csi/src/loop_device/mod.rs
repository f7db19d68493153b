//! Loop devices: files of mounted volumes as block devices. loop(4).
//!
//! - A device does direct I/O on its file: the page cache of the machine holds no second copy of the file's content, and a
//!   write that the device has completed is a write that the store has acknowledged.
//! - A device stays attached when the process dies, and is known again by its number and its sequence number, which the
//!   kernel gives to each attachment once. No file system is asked for that.
//! - A device that nobody recorded, because the process died in between, is known by its label.
//! - A device that a program has open when it is detached stays with that program, and goes away when it is closed.

mod ioctl;
mod kernel;
mod sysfs;

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

pub use kernel::LoopKernel;

/// An attachment of a loop device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// The number in its name, `/dev/loopN`.
    pub number: u32,
    /// The sequence number of the attachment (`/sys/block/loopN/diskseq`).
    pub sequence: u64,
}

/// What a device may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Access {
    /// It reads and writes.
    ReadWrite,
    /// It refuses writes.
    ReadOnly,
}

/// The loop devices of a machine.
pub trait Devices: Send + Sync {
    /// Attaches a new device to the disk in the folder of a mounted volume. `label` has at most 63 bytes.
    fn attach(&self, folder: &Path, access: Access, label: &str) -> io::Result<Device>;

    /// The size of an attached device in bytes; `None` if it is detached, or is being detached. It asks no file system.
    fn size(&self, device: Device) -> Option<u64>;

    /// Gives a device the size of its disk, and returns that.
    fn grow(&self, folder: &Path, device: Device) -> io::Result<u64>;

    /// Detaches a device; if it is not attached, it succeeds.
    fn detach(&self, device: Device) -> io::Result<()>;

    /// The devices with this label, except `known` ones.
    fn labelled(&self, label: &str, known: &[Device]) -> io::Result<Vec<Device>>;

    /// Shows the device's node at the file `target`.
    fn show(&self, device: Device, target: &Path) -> io::Result<()>;

    /// The size of the disk in the folder of a mounted volume.
    fn disk_size(&self, folder: &Path) -> io::Result<u64>;
}
