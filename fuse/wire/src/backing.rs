//! Backing files for passthrough: files of this process that the kernel reads and writes itself, in place of asking for
//! a node's content.
//!
//! - The kernel keeps a registered file open until the number is closed, even after the descriptor and the process are
//!   gone.
//! - Registering a file needs CAP_SYS_ADMIN, as mounting does.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use super::device::Device;

/// The argument of FUSE_DEV_IOC_BACKING_OPEN.
#[repr(C)]
struct Map {
    descriptor: i32,
    flags: u32,
    padding: u64,
}

/// Encodes `_IOW(229, number, T)`, the ioctl numbers of the FUSE device (FUSE_DEV_IOC_MAGIC).
const fn call<T>(number: libc::Ioctl) -> libc::Ioctl {
    1 << 30 | (size_of::<T>() as libc::Ioctl) << 16 | 229 << 8 | number
}

const OPEN: libc::Ioctl = call::<Map>(1);
const CLOSE: libc::Ioctl = call::<u32>(2);

/// Registers `file` with the kernel and returns its number, which replies to OPEN use to name it.
///
/// # Errors
/// The system's error, if the kernel cannot pass requests through to the file.
pub fn open_backing(device: &Device, file: BorrowedFd<'_>) -> io::Result<i32> {
    let map = Map { descriptor: file.as_raw_fd(), flags: 0, padding: 0 };
    // SAFETY: the call reads a `Map` at the pointer, and keeps neither it nor the descriptor.
    let number = unsafe { libc::ioctl(device.as_fd().as_raw_fd(), OPEN, &raw const map) };
    if number > 0 { Ok(number) } else { Err(io::Error::last_os_error()) }
}

/// Closes the registration of a backing file. Files that were opened with it keep it.
///
/// # Errors
/// The system's error, if no file is registered by that number.
pub fn close_backing(device: &Device, number: i32) -> io::Result<()> {
    // SAFETY: the call reads an i32 at the pointer, and does not keep it.
    let closed = unsafe { libc::ioctl(device.as_fd().as_raw_fd(), CLOSE, &raw const number) };
    if closed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calls_have_the_numbers_of_the_header() {
        assert_eq!((OPEN, CLOSE), (0x4010_e501, 0x4004_e502));
    }
}
