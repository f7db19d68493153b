//! A shared memory mapping of a file, as databases and linkers use it.

use std::fs::File;

use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};

/// A mapping of a part of a file. The file must not be truncated while it is accessed: the kernel answers with SIGBUS.
pub struct Mapping {
    at: *mut std::ffi::c_void,
    len: usize,
}

impl Mapping {
    /// Maps `len` bytes from `offset` on, a multiple of the page size.
    pub fn new(file: &File, offset: u64, len: usize) -> std::io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the address, so no existing mapping is replaced.
        let at = unsafe { mmap(std::ptr::null_mut(), len, protection, MapFlags::SHARED, file, offset) }?;
        Ok(Self { at, len })
    }

    /// The current bytes.
    pub fn read(&self, at: usize, len: usize) -> Vec<u8> {
        assert!(at + len <= self.len, "{len} bytes at {at} of {}", self.len);
        let mut bytes = vec![0; len];
        // SAFETY: the check keeps the range within the mapping; the bytes are copied, since the file may change
        // meanwhile.
        unsafe { std::ptr::copy_nonoverlapping(self.at.cast::<u8>().add(at), bytes.as_mut_ptr(), len) };
        bytes
    }

    /// Changes bytes.
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.len, "{} bytes at {at} of {}", bytes.len(), self.len);
        // SAFETY: the check keeps the range within the mapping, which is writable and not borrowed.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at.cast::<u8>().add(at), bytes.len()) };
    }

    /// msync(2): afterwards changes are in the file and on disk.
    pub fn sync(&self) -> std::io::Result<()> {
        // SAFETY: the range is exactly the mapping.
        Ok(unsafe { msync(self.at, self.len, MsyncFlags::SYNC) }?)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is exactly the mapping, and this is its last use.
        unsafe { munmap(self.at, self.len) }.expect("the mapping exists until it is dropped");
    }
}
