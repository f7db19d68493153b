//! The ioctl calls of loop devices, as in `linux/loop.h`.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// The most bytes of a label, with the zero byte that ends it (`LO_NAME_SIZE`).
const LABEL_BYTES: usize = 64;
/// `LO_FLAGS_READ_ONLY`
const READ_ONLY: u32 = 1;
/// `LO_FLAGS_DIRECT_IO`
const DIRECT_IO: u32 = 16;

const CLR_FD: libc::Ioctl = 0x4C01;
const GET_STATUS64: libc::Ioctl = 0x4C05;
const SET_CAPACITY: libc::Ioctl = 0x4C07;
const CONFIGURE: libc::Ioctl = 0x4C0A;
const CTL_GET_FREE: libc::Ioctl = 0x4C82;

/// `struct loop_info64`
#[repr(C)]
#[derive(Clone, Copy)]
struct Info {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; LABEL_BYTES],
    crypt_name: [u8; LABEL_BYTES],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config`
#[repr(C)]
struct Config {
    descriptor: u32,
    block_size: u32,
    info: Info,
    reserved: [u64; 8],
}

const EMPTY: Info = Info {
    device: 0,
    inode: 0,
    rdevice: 0,
    offset: 0,
    size_limit: 0,
    number: 0,
    encrypt_type: 0,
    encrypt_key_size: 0,
    flags: 0,
    file_name: [0; LABEL_BYTES],
    crypt_name: [0; LABEL_BYTES],
    encrypt_key: [0; 32],
    init: [0; 2],
};

/// How to attach a device.
pub(super) struct Attachment<'a> {
    pub(super) block_bytes: u32,
    pub(super) read_only: bool,
    pub(super) label: &'a str,
}

/// The number of a device that is free at this moment; one is added if there is none.
pub(super) fn free(control: impl AsFd) -> io::Result<u32> {
    // SAFETY: the call takes no argument.
    let number = unsafe { libc::ioctl(control.as_fd().as_raw_fd(), CTL_GET_FREE) };
    u32::try_from(number).map_err(|_| io::Error::last_os_error())
}

/// Attaches a device to `file` with direct I/O, which the kernel ignores where it cannot.
pub(super) fn configure(device: impl AsFd, file: impl AsFd, how: &Attachment<'_>) -> io::Result<()> {
    let mut info = EMPTY;
    info.flags = DIRECT_IO | if how.read_only { READ_ONLY } else { 0 };
    info.file_name = padded(how.label)?;
    let descriptor = u32::try_from(file.as_fd().as_raw_fd()).map_err(io::Error::other)?;
    let config = Config { descriptor, block_size: how.block_bytes, info, reserved: [0; 8] };
    // SAFETY: the call reads a `Config` at the pointer and does not keep it; it takes a reference on the file itself.
    done(unsafe { libc::ioctl(device.as_fd().as_raw_fd(), CONFIGURE, &raw const config) })
}

/// Detaches a device, or has it detached when the last program closes it.
pub(super) fn clear(device: impl AsFd) -> io::Result<()> {
    // SAFETY: the call takes no argument.
    done(unsafe { libc::ioctl(device.as_fd().as_raw_fd(), CLR_FD) })
}

/// Gives a device the size of its file.
pub(super) fn set_capacity(device: impl AsFd) -> io::Result<()> {
    // SAFETY: the call takes no argument.
    done(unsafe { libc::ioctl(device.as_fd().as_raw_fd(), SET_CAPACITY) })
}

/// The label of a device. The kernel asks the file system of its file for attributes, which may take long.
pub(super) fn label(device: impl AsFd) -> io::Result<String> {
    let mut info = EMPTY;
    // SAFETY: the call writes an `Info` at the pointer, which is exclusively borrowed until it returns.
    done(unsafe { libc::ioctl(device.as_fd().as_raw_fd(), GET_STATUS64, &raw mut info) })?;
    let end = info.file_name.iter().position(|&byte| byte == 0).unwrap_or(LABEL_BYTES);
    Ok(String::from_utf8_lossy(&info.file_name[..end]).into_owned())
}

fn padded(label: &str) -> io::Result<[u8; LABEL_BYTES]> {
    let mut bytes = [0; LABEL_BYTES];
    if label.len() >= LABEL_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the label is too long"));
    }
    bytes[..label.len()].copy_from_slice(label.as_bytes());
    Ok(bytes)
}

fn done(returned: i32) -> io::Result<()> {
    if returned == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structures_have_the_sizes_of_the_header() {
        assert_eq!((size_of::<Info>(), size_of::<Config>()), (232, 304));
    }

    #[test]
    fn a_label_ends_with_a_zero_byte() {
        assert_eq!(padded("ab").unwrap()[..3], *b"ab\0");
        assert!(padded(&"x".repeat(63)).is_ok() && padded(&"x".repeat(64)).is_err());
    }
}
